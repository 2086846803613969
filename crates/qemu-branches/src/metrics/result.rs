//! A process's or a section's line of the result file.

use super::core::Counters;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// The first line of a result file.
pub const RESULT_BEGINS: &str = "planish code metrics 1\n";

/// One line of JSON: who counted (`process` or `section`, and its number), the counts, and the
/// lines that were fetched as runs of `[first, count]`, in units of the line size. `starts_program`
/// says that a process was about to become another program.
pub fn line(
    who: (&str, u64),
    threads: u64,
    starts_program: bool,
    counters: &Counters,
    lines: &BTreeSet<u64>,
) -> String {
    let numbers = [
        who,
        ("threads", threads),
        ("instructions", counters.instructions),
        ("branches", counters.branches),
        ("taken_branches", counters.taken),
        ("conditional_branches", counters.conditionals),
        ("conditional_taken", counters.conditionals_taken),
        ("l1i_misses", counters.l1i_misses),
        ("l2_misses", counters.l2_misses),
        ("itlb_4k_misses", counters.itlb_4k_misses),
        ("itlb_2m_misses", counters.itlb_2m_misses),
        ("interruptions", counters.interruptions),
    ];
    let mut text = format!("{{\"starts_program\":{starts_program}");
    for (name, value) in numbers {
        text.push_str(&format!(",\"{name}\":{value}"));
    }
    // Where no data is simulated there is nothing to tell of it.
    let data = &counters.data;
    if data.accesses > 0 {
        text.push_str(&format!(
            ",\"data_accesses\":{},\"l1d_misses\":{},\"dtlb_4k_misses\":{}",
            data.accesses, data.l1d_misses, data.dtlb_4k_misses
        ));
    }
    let runs: Vec<String> =
        runs(lines).into_iter().map(|(first, count)| format!("[{first},{count}]")).collect();
    text.push_str(&format!(",\"lines\":[{}]}}\n", runs.join(",")));
    text
}

/// Consecutive numbers, as the first and how many.
fn runs(sorted: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for line in sorted {
        match runs.last_mut() {
            Some((first, count)) if first.wrapping_add(*count) == *line => *count += 1,
            _ => runs.push((*line, 1)),
        }
    }
    runs
}

/// Adds a line at the file's end, in one write, so that lines of several processes do not mix.
pub fn append(path: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_as_runs_and_counts_as_sums() {
        let mut counters = Counters { instructions: 3, ..Counters::default() };
        counters.add(&Counters { instructions: 4, interruptions: 1, ..Counters::default() });
        let text = line(("process", 5), 2, false, &counters, &BTreeSet::from([5, 6, 7, 9]));
        assert!(text.contains("\"process\":5,\"threads\":2,\"instructions\":7,"), "{text}");
        assert!(text.ends_with("\"interruptions\":1,\"lines\":[[5,3],[9,1]]}\n"), "{text}");
    }
}
