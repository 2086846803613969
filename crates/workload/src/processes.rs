//! Which processes live, whose children are they, and what have they used so far?
//!
//! Input: /proc, read once for all processes ([`list`]). A process is below another when the chain
//! of parents leads there. Cost: one small file for each process of the machine.

use crate::sys;
use crate::used::Used;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A process as /proc/PID/stat tells it (man 5 proc_pid_stat).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub pid: i32,
    pub parent: i32,
    /// Ended, and not waited for by its parent.
    pub zombie: bool,
    /// Faults of its own and of children that it waited for: without and with reading.
    faults: (u64, u64),
    /// CPU time of children that it waited for: user, system; ticks.
    children: (u64, u64),
}

/// All processes, by number.
pub(crate) fn list() -> BTreeMap<i32, Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeMap::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|pid: i32| Some((pid, read(pid)?))).collect()
}

fn read(pid: i32) -> Option<Process> {
    parse(pid, &String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/stat")).ok()?))
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
        faults: (number(10)? + number(11)?, number(12)? + number(13)?),
        children: (number(16)?, number(17)?),
    })
}

/// Those of `all` that are in `roots` or below one of them.
pub(crate) fn below(all: &BTreeMap<i32, Process>, roots: &BTreeSet<i32>) -> BTreeSet<i32> {
    let mut found: BTreeSet<i32> =
        roots.iter().copied().filter(|pid| all.contains_key(pid)).collect();
    loop {
        let more: Vec<i32> = all
            .values()
            .filter(|process| found.contains(&process.parent) && !found.contains(&process.pid))
            .map(|process| process.pid)
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

/// What a process and those of its children that it waited for have used until now.
pub(crate) fn used(process: &Process) -> Used {
    let (user, system) = sys::cpu_time(process.pid).unwrap_or_default();
    let tick = sys::tick_ns();
    Used {
        user_ns: user + process.children.0 * tick,
        system_ns: system + process.children.1 * tick,
        max_rss_bytes: largest_resident(process.pid).unwrap_or_default(),
        minor_faults: process.faults.0,
        major_faults: process.faults.1,
        ..Used::default()
    }
}

/// The most memory that a process had resident, bytes (`VmHWM`, in KiB there).
fn largest_resident(pid: i32) -> Option<u64> {
    let status = std::fs::read(Path::new("/proc").join(pid.to_string()).join("status")).ok()?;
    let status = String::from_utf8_lossy(&status).into_owned();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
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
            (pid, Process { pid, parent, zombie: false, faults, children: faults })
        };
        let all = [process(1, 0), process(2, 1), process(3, 2), process(4, 1), process(5, 6)];
        let all: BTreeMap<i32, Process> = all.into_iter().chain([process(6, 5)]).collect();
        let found = |roots: &[i32]| below(&all, &roots.iter().copied().collect());
        assert_eq!(found(&[2]), [2, 3].into());
        assert_eq!(found(&[4, 5, 99]), [4, 5, 6].into());
    }

    #[test]
    fn this_process_is_there_and_used_something() {
        let own = std::process::id() as i32;
        let all = list();
        let process = all.get(&own).unwrap();
        assert!(!process.zombie && process.parent > 0);
        let used = used(process);
        assert!(used.user_ns + used.system_ns > 0 && used.max_rss_bytes > 1 << 20, "{used:?}");
    }
}
