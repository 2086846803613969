//! The plugin's result file: a line per process, added up, or per section of a machine's run.

use super::{Counters, Error};
use qemu_branches::RESULT_BEGINS;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// A process's or a section's line.
#[derive(Deserialize)]
struct Process {
    #[serde(alias = "section")]
    process: u64,
    /// It was about to become another program.
    starts_program: bool,
    threads: u64,
    #[serde(flatten)]
    counters: Counters,
    /// Runs of fetched lines: the first, and how many.
    lines: Vec<(u64, u64)>,
}

/// The sums over all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub processes: u64,
    pub native_programs: u64,
    pub threads: u64,
    pub counters: Counters,
}

/// Lines in one run beyond this are damage: it would be a gigabyte of code without a gap.
const MAX_RUN: u64 = 1 << 24;

/// True when the plugin began to write.
pub(super) fn begun(text: &str) -> bool {
    text.starts_with(RESULT_BEGINS)
}

/// Adds the processes up; `line_bytes` is the size of a cache line.
pub(super) fn read(text: &str, line_bytes: u32) -> Result<Sums, Error> {
    Ok(sum(lines(text)?.values(), line_bytes))
}

/// The sections of a machine's run, by number.
pub(super) fn read_sections(text: &str, line_bytes: u32) -> Result<Vec<(u8, Sums)>, Error> {
    let mut sections = Vec::new();
    for (number, section) in lines(text)? {
        let found = format!("a section {number}; there are 0 to 255");
        let number =
            u8::try_from(number).map_err(|_| Error::Result { line: sections.len() + 2, found })?;
        sections.push((number, sum([&section], line_bytes)));
    }
    Ok(sections)
}

/// The last line of each process or section.
fn lines(text: &str) -> Result<BTreeMap<u64, Process>, Error> {
    let mut last: BTreeMap<u64, Process> = BTreeMap::new();
    for (index, line) in text.lines().enumerate().skip(1) {
        let damaged = |found: String| Error::Result { line: index + 1, found };
        let process: Process =
            serde_json::from_str(line).map_err(|error| damaged(error.to_string()))?;
        if let Some((first, count)) = process.lines.iter().find(|(_, count)| *count > MAX_RUN) {
            return Err(damaged(format!("{count} lines from {first:#x}")));
        }
        // A process that tried to start a program and failed writes again; its last line tells it
        // all.
        last.insert(process.process, process);
    }
    Ok(last)
}

fn sum<'p>(processes: impl IntoIterator<Item = &'p Process>, line_bytes: u32) -> Sums {
    let mut sums = Sums::default();
    let mut lines = BTreeSet::new();
    for process in processes {
        sums.processes += 1;
        sums.native_programs += u64::from(process.starts_program);
        sums.threads = sums.threads.saturating_add(process.threads);
        sums.counters.add(&process.counters);
        for (first, count) in &process.lines {
            lines.extend((0..*count).map(|at| first.wrapping_add(at)));
        }
    }
    let counters = &mut sums.counters;
    counters.code_lines = lines.len() as u64;
    let pages = |bytes: u32| {
        let lines_per_page = u64::from((bytes / line_bytes.max(1)).max(1));
        lines.iter().map(|line| line / lines_per_page).collect::<BTreeSet<_>>().len() as u64
    };
    (counters.code_pages_4k, counters.code_pages_2m) = (pages(4 << 10), pages(2 << 20));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(process: u64, starts: bool, instructions: u64, lines: &str) -> String {
        format!(
            "{{\"starts_program\":{starts},\"process\":{process},\"threads\":1,\"instructions\":\
             {instructions},\"branches\":5,\"taken_branches\":4,\"conditional_branches\":3,\"\
             conditional_taken\":2,\"l1i_misses\":9,\"l2_misses\":8,\"itlb_4k_misses\":7,\"\
             itlb_2m_misses\":1,\"interruptions\":0,\"lines\":{lines}}}\n"
        )
    }

    #[test]
    fn the_last_line_of_each_process_counts_and_lines_are_a_union() {
        let text = [
            RESULT_BEGINS.to_owned(),
            line(7, true, 10, "[[64,1]]"),
            line(8, true, 5, "[[64,2],[32768,1]]"),
            line(7, false, 20, "[[64,1],[127,2]]"),
        ]
        .concat();
        assert!(begun(&text));
        let sums = read(&text, 64).unwrap();
        assert_eq!((sums.processes, sums.native_programs, sums.threads), (2, 1, 2));
        assert_eq!(
            (sums.counters.instructions, sums.counters.branches, sums.counters.l1i_misses),
            (25, 10, 18)
        );
        assert_eq!(
            (sums.counters.code_lines, sums.counters.code_pages_4k, sums.counters.code_pages_2m),
            (5, 3, 2)
        );
    }

    #[test]
    fn sections_are_told_apart() {
        let section = |number| {
            line(number, false, 10 + number, "[[64,3]]").replace("\"process\"", "\"section\"")
        };
        let text = [RESULT_BEGINS.to_owned(), section(0), section(101)].concat();
        let sections = read_sections(&text, 64).unwrap();
        let found: Vec<_> = sections
            .iter()
            .map(|(number, sums)| (*number, sums.counters.instructions, sums.counters.code_lines))
            .collect();
        assert_eq!(found, [(0, 10, 3), (101, 111, 3)]);
        assert!(read_sections(&(RESULT_BEGINS.to_owned() + &section(256)), 64).is_err());
    }

    #[test]
    fn damage_is_named_with_its_line() {
        for bad in ["{}", "{\"process\":1", "x"] {
            let error = read(&format!("{RESULT_BEGINS}{bad}\n"), 64).unwrap_err().to_string();
            assert!(error.contains("line 2"), "{error}");
        }
        let huge = RESULT_BEGINS.to_owned() + &line(1, false, 1, "[[0,18446744073709551615]]");
        assert!(read(&huge, 64).is_err());
        assert!(!begun(""));
    }
}
