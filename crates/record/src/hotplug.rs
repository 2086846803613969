//! CPUs that go or come while they are recorded.
//!
//! When a CPU goes offline the kernel takes its events away, and they do not come back with the
//! CPU: its ring stays as it is, without a word. So the list of CPUs that are online is read from
//! time to time, and compared.

use crate::cpus::{self, ONLINE};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often the list is read.
const EVERY: Duration = Duration::from_millis(500);

/// What happened to CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hotplug {
    /// CPUs that were recorded and went offline, once or more often. Nothing is recorded there
    /// from then on.
    pub gone: BTreeSet<i32>,
    /// CPUs that were not online when the recording began and were later: nothing of them is
    /// recorded.
    pub came: BTreeSet<i32>,
}

/// Looks after the CPUs of a recording.
pub(crate) struct CpuWatch {
    list: PathBuf,
    recorded: BTreeSet<i32>,
    /// Whether all CPUs were to be recorded.
    all: bool,
    next: Instant,
    pub seen: Hotplug,
}

impl CpuWatch {
    /// For these CPUs; `all` says that they were all there were.
    pub(crate) fn of(recorded: &[i32], all: bool) -> CpuWatch {
        CpuWatch::with(ONLINE.into(), recorded, all)
    }

    fn with(list: PathBuf, recorded: &[i32], all: bool) -> CpuWatch {
        let recorded: BTreeSet<i32> = recorded.iter().copied().collect();
        CpuWatch { list, recorded, all, next: Instant::now(), seen: Hotplug::default() }
    }

    /// Looks, if it is time.
    pub(crate) fn tick(&mut self) {
        if Instant::now() >= self.next {
            self.next = Instant::now() + EVERY;
            self.look();
        }
    }

    /// Compares what is online with what was recorded. A list that cannot be read says nothing.
    pub(crate) fn look(&mut self) {
        let Ok(text) = std::fs::read_to_string(&self.list) else { return };
        let online: BTreeSet<i32> = cpus::parse(text.trim()).into_iter().collect();
        if online.is_empty() {
            return;
        }
        self.seen.gone.extend(self.recorded.difference(&online));
        if self.all {
            self.seen.came.extend(online.difference(&self.recorded));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_go_and_come_are_counted_once_and_not_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let list = dir.path().join("online");
        let mut watch = CpuWatch::with(list.clone(), &[0, 1, 2], true);
        let mut say = |text: &str| {
            std::fs::write(&list, text).unwrap();
            watch.look();
            watch.seen.clone()
        };
        assert_eq!(say("0-2\n"), Hotplug::default());
        assert_eq!(say("0,2\n").gone, BTreeSet::from([1]));
        let after = say("0-3\n");
        assert_eq!((after.gone, after.came), (BTreeSet::from([1]), BTreeSet::from([3])));
        assert_eq!(say("").gone, BTreeSet::from([1]));
        let mut chosen = CpuWatch::with(list.clone(), &[0], false);
        std::fs::write(&list, "0-3").unwrap();
        chosen.look();
        assert_eq!(chosen.seen, Hotplug::default());
        std::fs::remove_file(&list).unwrap();
        chosen.tick();
        assert_eq!(chosen.seen, Hotplug::default());
    }
}
