//! Which processes live, which of them are below another, and how do those below one end?
//!
//! Input: /proc, read once for all processes ([`list`]). A process is below another when the chain
//! of parents leads there. Cost: one small file for each process of the machine.

mod end;
mod sys;

pub use end::Ending;
pub use sys::{adopt_orphans, adopts_orphans, descriptor, signal, sleep_until_end, take_orphans};

use std::collections::{BTreeMap, BTreeSet};

/// A process as /proc/PID/stat tells it (man 5 proc_pid_stat).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// The number of its parent.
    pub parent: i32,
    /// Ended, and not waited for by its parent.
    pub zombie: bool,
    /// Held, by a signal or by a tracer.
    pub stopped: bool,
    /// Page faults of its own and of children that it waited for: without and with reading.
    pub faults: (u64, u64),
    /// CPU time of children that it waited for: user, system; clock ticks.
    pub children: (u64, u64),
}

/// All processes, by number.
#[must_use]
pub fn list() -> BTreeMap<i32, Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeMap::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|pid: i32| Some((pid, read(pid)?))).collect()
}

fn read(pid: i32) -> Option<Process> {
    parse(pid, &String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/stat")).ok()?))
}

/// The children of a process; none where the kernel does not tell (CONFIG_PROC_CHILDREN).
fn children(pid: i32) -> Vec<i32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = threads.filter_map(|one| std::fs::read_to_string(one.path().join("children")).ok());
    texts
        .flat_map(|text| text.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// The name in brackets may hold blanks and brackets; what follows the last one are numbers.
fn parse(pid: i32, text: &str) -> Option<Process> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    // Numbered from 3 in the manual.
    let number = |at: usize| fields.get(at - 3)?.parse::<u64>().ok();
    Some(Process {
        pid,
        parent: i32::try_from(number(4)?).ok()?,
        zombie: matches!(fields.first(), Some(&("Z" | "X"))),
        stopped: matches!(fields.first(), Some(&("T" | "t"))),
        faults: (number(10)? + number(11)?, number(12)? + number(13)?),
        children: (number(16)?, number(17)?),
    })
}

/// Those of `all` that are in `roots` or below one of them.
#[must_use]
pub fn below(all: &BTreeMap<i32, Process>, roots: &BTreeSet<i32>) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let mut next: Vec<i32> = roots.iter().copied().filter(|pid| all.contains_key(pid)).collect();
    while let Some(parent) = next.pop() {
        if found.insert(parent) {
            let children = all.values().filter(|process| process.parent == parent);
            next.extend(children.map(|process| process.pid));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_brackets_is_no_trap() {
        let text = "42 (a) b (c) S 7 42 42 0 -1 4194304 100 20 3 1 11 12 13 14 20 0 1 0 5 6 7";
        let process = parse(42, text).unwrap();
        assert_eq!((process.parent, process.zombie), (7, false));
        assert_eq!((process.faults, process.children), ((120, 4), (13, 14)));
        assert_eq!(parse(42, "42 (a"), None);
        assert_eq!(parse(42, "42 (a) S x"), None);
    }

    #[test]
    fn those_below_are_found_by_their_parents_and_circles_end() {
        let process = |pid, parent| {
            let faults = (0, 0);
            (pid, Process { pid, parent, zombie: false, stopped: false, faults, children: faults })
        };
        let all = [process(1, 0), process(2, 1), process(3, 2), process(4, 1), process(5, 6)];
        let all: BTreeMap<i32, Process> = all.into_iter().chain([process(6, 5)]).collect();
        let found = |roots: &[i32]| below(&all, &roots.iter().copied().collect());
        assert_eq!(found(&[2]), [2, 3].into());
        assert_eq!(found(&[4, 5, 99]), [4, 5, 6].into());
    }
}
