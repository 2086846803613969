//! A process's line of the result file.

use super::core::{Core, Counters};
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// The first line of a result file.
pub const RESULT_BEGINS: &str = "planish code metrics 1\n";

/// One line of JSON: the sums over a process's cores, and the lines they fetched as runs of `[first, count]`, in units
/// of the line size. `starts_program` says that the process was about to become another program.
pub fn line(cores: &[&Core], threads: u64, starts_program: bool) -> String {
    let sum = |count: fn(&Counters) -> u64| {
        cores.iter().map(|core| count(&core.counters)).fold(0u64, u64::wrapping_add)
    };
    let numbers = [
        ("process", u64::from(std::process::id())),
        ("threads", threads),
        ("instructions", sum(|counters| counters.instructions)),
        ("branches", sum(|counters| counters.branches)),
        ("taken_branches", sum(|counters| counters.taken)),
        ("conditional_branches", sum(|counters| counters.conditionals)),
        ("conditional_taken", sum(|counters| counters.conditionals_taken)),
        ("l1i_misses", sum(|counters| counters.l1i_misses)),
        ("l2_misses", sum(|counters| counters.l2_misses)),
        ("itlb_4k_misses", sum(|counters| counters.itlb_4k_misses)),
        ("itlb_2m_misses", sum(|counters| counters.itlb_2m_misses)),
        ("interruptions", sum(|counters| counters.interruptions)),
    ];
    let mut text = format!("{{\"starts_program\":{starts_program}");
    for (name, value) in numbers {
        text.push_str(&format!(",\"{name}\":{value}"));
    }
    let lines: BTreeSet<u64> = cores.iter().flat_map(|core| core.lines.iter().copied()).collect();
    let runs: Vec<String> =
        runs(&lines).into_iter().map(|(first, count)| format!("[{first},{count}]")).collect();
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
        let (mut one, mut other) = (Core::UNUSED, Core::UNUSED);
        (one.counters.instructions, other.counters.instructions) = (3, 4);
        one.lines.extend([5, 6, 9]);
        other.lines.extend([7, 9]);
        let text = line(&[&one, &other], 2, false);
        assert!(text.contains("\"threads\":2,\"instructions\":7,"), "{text}");
        assert!(text.ends_with("\"lines\":[[5,3],[9,1]]}\n"), "{text}");
    }
}
