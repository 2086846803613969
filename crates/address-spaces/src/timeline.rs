//! What every process had mapped, at every time of the recording.
//!
//! Input: changes in any order. Each process gets a list of versions of its address space, which
//! share what they have in common, so that a recording with n mappings costs O(n log n), also when
//! one process maps without end.

use crate::change::{Change, MappedFile};
use crate::spaces::{AddressSpace, AddressSpaces, FileId, Mapping};
use perfdata::RuntimeAddr;
use rustc_hash::FxHashMap;

/// A moment at which an address space changed.
#[derive(Clone, Debug)]
struct Version {
    since: u64,
    space: AddressSpace,
    /// As [`SpaceRef::same`].
    same: u32,
}

/// Address spaces of all processes over time. Build it with [`Timeline::build`].
#[derive(Debug, Default)]
pub struct Timeline {
    files: Vec<MappedFile>,
    processes: FxHashMap<i32, Vec<Version>>,
}

/// The version of an address space that held at some time, and until when it holds.
#[derive(Clone, Copy, Debug)]
pub struct SpaceRef<'t> {
    space: Option<&'t AddressSpace>,
    /// First time at which this version holds.
    pub since: u64,
    /// First time at which it no longer does.
    pub until: u64,
    /// Number of the version within its process.
    pub version: u32,
    /// Number of the first version of the process in which the same was mapped: a process that
    /// starts its program again and again has few that differ.
    pub same: u32,
}

impl SpaceRef<'_> {
    /// The mapping that covers `address`.
    pub fn find(&self, address: RuntimeAddr) -> Option<Mapping> {
        self.space?.find(address)
    }

    /// The program that runs in it ([`AddressSpace::program`]).
    pub fn program(&self) -> Option<FileId> {
        self.space?.program()
    }
}

/// Finds the first version in which the same was mapped as in the last one, which is complete, and
/// lets both share it. `known` has the numbers of such by process and sum.
fn share_last(pid: i32, versions: &mut [Version], known: &mut FxHashMap<(i32, u64), u32>) {
    let number = versions.len() as u32;
    let Some((last, before)) = versions.split_last_mut() else { return };
    let first = *known.entry((pid, last.space.sum())).or_insert(number);
    last.same = number;
    let first_space = (first as usize).checked_sub(1).and_then(|index| before.get(index));
    if let Some(other) = first_space.filter(|other| other.space.is_same(&last.space)) {
        last.space = other.space.clone();
        last.same = first;
    }
}

impl Timeline {
    /// Builds the timeline from changes in any order, each with its time (nanoseconds, or file
    /// position where a recording has no times); equal times keep the order given.
    pub fn build(mut changes: Vec<(u64, Change)>) -> Timeline {
        changes.sort_by_key(|(time, _)| *time);
        let mut spaces = AddressSpaces::default();
        let mut processes: FxHashMap<i32, Vec<Version>> = FxHashMap::default();
        let mut known: FxHashMap<(i32, u64), u32> = FxHashMap::default();
        for (since, change) in changes {
            let Some(pid) = spaces.apply(change) else { continue };
            let space = spaces.space(pid);
            let versions = processes.entry(pid).or_default();
            match versions.last_mut() {
                Some(last) if last.since == since => last.space = space,
                _ => {
                    share_last(pid, versions, &mut known);
                    versions.push(Version { since, space, same: 0 });
                }
            }
        }
        for (pid, versions) in &mut processes {
            share_last(*pid, versions, &mut known);
        }
        Timeline { files: spaces.into_files(), processes }
    }

    /// Every file that was mapped, by [`FileId`](crate::FileId).
    pub fn files(&self) -> &[MappedFile] {
        &self.files
    }

    /// A version of the address space of `pid`, by its number ([`SpaceRef::version`]).
    pub fn version(&self, pid: i32, version: u32) -> SpaceRef<'_> {
        let versions = self.processes.get(&pid).map_or(&[][..], Vec::as_slice);
        let at = (version as usize).checked_sub(1).and_then(|index| versions.get(index));
        let until = versions.get(version as usize).map_or(u64::MAX, |next| next.since);
        let since = at.map_or(0, |version| version.since);
        let same = at.map_or(0, |version| version.same);
        SpaceRef { space: at.map(|version| &version.space), since, until, version, same }
    }

    /// The address space of `pid` at `time`.
    pub fn space(&self, pid: i32, time: u64) -> SpaceRef<'_> {
        let Some(versions) = self.processes.get(&pid) else {
            return SpaceRef { space: None, since: 0, until: u64::MAX, version: 0, same: 0 };
        };
        let after = versions.partition_point(|v| v.since <= time);
        let until = versions.get(after).map_or(u64::MAX, |v| v.since);
        match after.checked_sub(1).and_then(|i| versions.get(i)) {
            Some(v) => {
                let (version, same) = (after as u32, v.same);
                SpaceRef { space: Some(&v.space), since: v.since, until, version, same }
            }
            None => SpaceRef { space: None, since: 0, until, version: 0, same: 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Side;
    use std::sync::Arc;

    fn file(name: &str) -> Arc<MappedFile> {
        Arc::new(MappedFile { path: name.into(), build_id: None, side: Side::Process })
    }

    fn map(pid: i32, start: u64, len: u64, name: &str) -> Change {
        Change::Map { pid, start: RuntimeAddr(start), len, pgoff: 0, file: file(name) }
    }

    fn name_at(t: &Timeline, pid: i32, time: u64, address: u64) -> Option<String> {
        let mapping = t.space(pid, time).find(RuntimeAddr(address))?;
        Some(t.files()[mapping.file.0 as usize].path.clone())
    }

    #[test]
    fn a_process_that_starts_again_has_no_more_spaces_that_differ() {
        let map = |time: u64, start: u64, name: &str| {
            let (start, file) = (RuntimeAddr(start), file(name));
            (time, Change::Map { pid: 1, start, len: 0x100, pgoff: 0, file })
        };
        let mut changes = Vec::new();
        for round in 0..50 {
            let time = 10 * round;
            changes.push((time, Change::Exec { pid: 1 }));
            changes.push(map(time + 1, 0x1000, "a"));
            // What lies there is replaced, and half of it comes back.
            changes.push(map(time + 2, 0x1080, "b"));
            changes.push(map(time + 3, 0x1080, if round == 30 { "c" } else { "a" }));
        }
        let timeline = Timeline::build(changes);
        let same = |time: u64| timeline.space(1, time).same;
        for round in 0..50 {
            let time = 10 * round;
            assert_eq!([same(time), same(time + 1), same(time + 2)], [1, 2, 3]);
            assert_eq!(same(time + 3), if round == 30 { 124 } else { 4 });
            let at = timeline.space(1, time + 3);
            let first = timeline.version(1, at.same);
            for address in [0x1000, 0x107f, 0x1080, 0x117f, 0x1180] {
                assert_eq!(at.find(RuntimeAddr(address)), first.find(RuntimeAddr(address)));
            }
        }
    }

    #[test]
    fn a_mapping_holds_from_its_time_on_and_replaces_what_it_overlaps() {
        let t = Timeline::build(vec![(10, map(1, 100, 100, "a")), (20, map(1, 140, 20, "b"))]);
        assert_eq!(name_at(&t, 1, 5, 150), None);
        assert_eq!(name_at(&t, 1, 10, 150).as_deref(), Some("a"));
        assert_eq!(name_at(&t, 1, 20, 150).as_deref(), Some("b"));
        assert_eq!(name_at(&t, 1, 20, 139).as_deref(), Some("a"));
        assert_eq!(name_at(&t, 1, 20, 160).as_deref(), Some("a"));
        assert_eq!(name_at(&t, 1, 20, 200), None);
        for time in [5, 10, 15, 20, 30] {
            let (at, again) = (t.space(1, time), t.version(1, t.space(1, time).version));
            assert_eq!((at.since, at.until), (again.since, again.until));
            assert_eq!(at.find(RuntimeAddr(150)), again.find(RuntimeAddr(150)));
        }
        assert!(t.version(7, 3).find(RuntimeAddr(150)).is_none());
        let tail = t.space(1, 20).find(RuntimeAddr(170)).expect("tail");
        assert_eq!(tail.origin, RuntimeAddr(100));
    }

    #[test]
    fn a_fork_inherits_exec_clears_and_a_reused_pid_starts_anew() {
        let t = Timeline::build(vec![
            (1, map(1, 100, 10, "shell")),
            (2, Change::Fork { pid: 2, parent: 1 }),
            (3, Change::Exec { pid: 2 }),
            (3, map(2, 100, 10, "program")),
            (9, Change::Fork { pid: 2, parent: 1 }),
        ]);
        assert_eq!(name_at(&t, 2, 2, 105).as_deref(), Some("shell"));
        assert_eq!(name_at(&t, 2, 3, 105).as_deref(), Some("program"));
        assert_eq!(name_at(&t, 2, 9, 105).as_deref(), Some("shell"));
        assert_eq!(name_at(&t, 1, 9, 105).as_deref(), Some("shell"));
    }

    #[test]
    fn a_covering_mapping_removes_everything_inside_it() {
        let t = Timeline::build(vec![
            (1, map(1, 10, 10, "a")),
            (1, map(1, 30, 10, "b")),
            (1, map(1, 50, 10, "c")),
            (2, map(1, 15, 40, "d")),
        ]);
        let names: Vec<_> =
            [12, 17, 32, 52, 56].iter().map(|&a| name_at(&t, 1, 2, a).unwrap()).collect();
        assert_eq!(names, ["a", "d", "d", "d", "c"]);
    }

    proptest::proptest! {
        #[test]
        fn the_timeline_agrees_with_a_replay_on_every_byte(
            changes in proptest::collection::vec((0u64..8, 0u64..60, 1u64..30), 0..24), time in 0u64..9,
        ) {
            let list: Vec<_> = changes.iter().enumerate()
                .map(|(i, &(t, s, l))| (t, map(7, s, l, &i.to_string()))).collect();
            let timeline = Timeline::build(list);
            let mut sorted: Vec<_> = changes.iter().enumerate().collect();
            sorted.sort_by_key(|(_, c)| c.0);
            for address in 0..100 {
                let expected = sorted.iter()
                    .rfind(|(_, c)| c.0 <= time && c.1 <= address && address < c.1 + c.2).map(|(i, _)| i.to_string());
                proptest::prop_assert_eq!(name_at(&timeline, 7, time, address), expected);
            }
        }
    }
}
