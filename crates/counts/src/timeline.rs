//! What every process had mapped, at every time of the recording.
//!
//! Input: mapping, fork, exec and exit records in any order. Each process gets a list of versions
//! of its address space; a version is a persistent ordered map, so that a new one shares all but a
//! path of nodes with the one before and a fork shares everything. A recording with n mappings
//! costs O(n log n), also when one process maps without end.
//!
//! A mapping replaces what it overlaps (the kernel reports no unmapping). The kernel's own mappings
//! (pid −1) form one more address space, valid in every process.
//!
//! Source of the map: Okasaki, "Red-black trees in a functional setting" (Journal of Functional
//! Programming 9, 1999, doi:10.1017/S0956796899003494), in the crate `rpds`.

use crate::kernel_map::{self, Extent};
use perfdata::{Input, RuntimeAddr};
use rpds::RedBlackTreeMapSync;
use rustc_hash::FxHashMap;
use std::ops::Bound;

/// What a record's time is: a clock, or its place in the file where the recording carries no times.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    Time,
    Position,
}

impl Clock {
    /// That of a recording.
    pub(crate) fn of(input: &Input) -> Clock {
        let timed = |a: &perfdata::EventAttr| {
            a.sample_type & perfdata::sample_type::TIME != 0 && a.sample_id_all()
        };
        if input.attrs().iter().all(timed) { Clock::Time } else { Clock::Position }
    }
}

/// Index of a [`MappedFile`] in its [`Timeline`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// A file, or a kernel image, that some process mapped: what the recording says about its identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MappedFile {
    /// Path as recorded.
    pub path: String,
    /// Build ID that the mapping record carried.
    pub build_id: Option<Vec<u8>>,
    /// Who maps it.
    pub side: Side,
}

/// Who maps a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// A process.
    Process,
    /// The kernel.
    Kernel,
    /// The kernel, and the recording does not say where it lay.
    HiddenKernel,
}

impl Side {
    /// Whether it is the kernel.
    pub fn is_kernel(self) -> bool {
        self != Side::Process
    }
}

/// One stretch of a file in an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: RuntimeAddr,
    /// One past the last address.
    pub end: u64,
    /// What is mapped.
    pub file: FileId,
    /// Address at which the mapping record put the file's piece, before anything overlapped it.
    pub origin: RuntimeAddr,
    /// Length that the mapping record gave.
    pub origin_len: u64,
    /// File offset at `origin`.
    pub pgoff: u64,
}

/// An address space at one time.
type Space = RedBlackTreeMapSync<u64, Mapping>;

/// A moment at which an address space changed.
#[derive(Clone, Debug)]
struct Version {
    since: u64,
    space: Space,
}

/// A change of address spaces, at a time (nanoseconds, or file position where a recording has no
/// times).
#[derive(Clone, Debug)]
pub enum Change {
    /// A file was mapped executable.
    Map {
        /// Process; −1 for the kernel.
        pid: i32,
        /// First address.
        start: RuntimeAddr,
        /// Length in bytes.
        len: u64,
        /// File offset at `start`.
        pgoff: u64,
        /// The file.
        file: MappedFile,
    },
    /// A process began as a copy of another.
    Fork {
        /// The new process.
        pid: i32,
        /// The process copied.
        parent: i32,
    },
    /// A process replaced its program: nothing of before is mapped any more.
    Exec {
        /// The process.
        pid: i32,
    },
}

impl Change {
    /// The change that a mapping record makes; `piece`: first address, length, file offset.
    pub(crate) fn mapping(
        pid: i32,
        piece: (RuntimeAddr, u64, u64),
        path: String,
        build_id: Option<Vec<u8>>,
    ) -> Change {
        let (start, len, pgoff) = piece;
        if pid != KERNEL_PID {
            let file = MappedFile { path, build_id, side: Side::Process };
            return Change::Map { pid, start, len, pgoff, file };
        }
        let Extent { start, len, placed } = kernel_map::extent(&path, start.0, len, pgoff);
        let side = if placed { Side::Kernel } else { Side::HiddenKernel };
        Change::Map {
            pid,
            start: RuntimeAddr(start),
            len,
            pgoff,
            file: MappedFile { path, build_id, side },
        }
    }
}

/// The pid under which the kernel's own mappings are recorded.
pub const KERNEL_PID: i32 = -1;

/// Address spaces of all processes over time. Build it with [`Timeline::build`].
#[derive(Debug, Default)]
pub struct Timeline {
    files: Vec<MappedFile>,
    processes: FxHashMap<i32, Vec<Version>>,
}

/// The version of an address space that held at some time, and until when it holds.
#[derive(Clone, Copy, Debug)]
pub struct SpaceRef<'t> {
    space: Option<&'t Space>,
    /// First time at which this version holds.
    pub since: u64,
    /// First time at which it no longer does.
    pub until: u64,
    /// Number of the version within its process.
    pub version: u32,
}

impl SpaceRef<'_> {
    /// The mapping that covers `address`.
    pub fn find(&self, address: RuntimeAddr) -> Option<Mapping> {
        let (_, mapping) =
            self.space?.range((Bound::Unbounded, Bound::Included(address.0))).next_back()?;
        (address.0 < mapping.end).then_some(*mapping)
    }
}

impl Timeline {
    /// Builds the timeline from changes in any order; equal times keep the order given.
    pub fn build(mut changes: Vec<(u64, Change)>) -> Timeline {
        changes.sort_by_key(|(time, _)| *time);
        let mut timeline = Timeline::default();
        let mut ids: FxHashMap<MappedFile, FileId> = FxHashMap::default();
        for (time, change) in changes {
            match change {
                Change::Map { pid, start, len, pgoff, file } => {
                    let next = FileId(u32::try_from(timeline.files.len()).unwrap_or(u32::MAX));
                    let id = *ids.entry(file.clone()).or_insert_with(|| {
                        timeline.files.push(file);
                        next
                    });
                    timeline.map(time, pid, start, len, pgoff, id);
                }
                Change::Fork { pid, parent } if pid != parent => {
                    let space = timeline.latest(parent);
                    timeline.push(pid, time, space);
                }
                Change::Fork { .. } => {}
                Change::Exec { pid } => timeline.push(pid, time, Space::new_sync()),
            }
        }
        timeline
    }

    /// Every file that was mapped, by [`FileId`].
    pub fn files(&self) -> &[MappedFile] {
        &self.files
    }

    /// The address space of `pid` at `time`.
    pub fn space(&self, pid: i32, time: u64) -> SpaceRef<'_> {
        let Some(versions) = self.processes.get(&pid) else {
            return SpaceRef { space: None, since: 0, until: u64::MAX, version: 0 };
        };
        let after = versions.partition_point(|v| v.since <= time);
        let until = versions.get(after).map_or(u64::MAX, |v| v.since);
        match after.checked_sub(1).and_then(|i| versions.get(i)) {
            Some(v) => {
                SpaceRef { space: Some(&v.space), since: v.since, until, version: after as u32 }
            }
            None => SpaceRef { space: None, since: 0, until, version: 0 },
        }
    }

    fn latest(&self, pid: i32) -> Space {
        self.processes
            .get(&pid)
            .and_then(|v| v.last())
            .map_or_else(Space::new_sync, |v| v.space.clone())
    }

    fn push(&mut self, pid: i32, since: u64, space: Space) {
        let versions = self.processes.entry(pid).or_default();
        match versions.last_mut() {
            Some(last) if last.since == since => last.space = space,
            _ => versions.push(Version { since, space }),
        }
    }

    fn map(&mut self, time: u64, pid: i32, start: RuntimeAddr, len: u64, pgoff: u64, file: FileId) {
        let end = start.0.saturating_add(len);
        if end <= start.0 {
            return;
        }
        let mut space = self.latest(pid);
        clear(&mut space, start.0, end);
        space.insert_mut(
            start.0,
            Mapping { start, end, file, origin: start, origin_len: len, pgoff },
        );
        self.push(pid, time, space);
    }
}

/// Removes `[start, end)` from `space`, keeping what sticks out on either side.
fn clear(space: &mut Space, start: u64, end: u64) {
    let first = space
        .range((Bound::Unbounded, Bound::Excluded(start)))
        .next_back()
        .filter(|(_, m)| m.end > start)
        .map(|(_, m)| *m);
    if let Some(mapping) = first {
        space.insert_mut(mapping.start.0, Mapping { end: start, ..mapping });
        if mapping.end > end {
            space.insert_mut(end, Mapping { start: RuntimeAddr(end), ..mapping });
        }
    }
    let inside: Vec<Mapping> = space.range(start..end).map(|(_, m)| *m).collect();
    for mapping in inside {
        space.remove_mut(&mapping.start.0);
        if mapping.end > end {
            space.insert_mut(end, Mapping { start: RuntimeAddr(end), ..mapping });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> MappedFile {
        MappedFile { path: name.into(), build_id: None, side: Side::Process }
    }

    fn map(pid: i32, start: u64, len: u64, name: &str) -> Change {
        Change::Map { pid, start: RuntimeAddr(start), len, pgoff: 0, file: file(name) }
    }

    fn name_at(t: &Timeline, pid: i32, time: u64, address: u64) -> Option<String> {
        let mapping = t.space(pid, time).find(RuntimeAddr(address))?;
        Some(t.files()[mapping.file.0 as usize].path.clone())
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
