//! What every process has mapped now, change by change.
//!
//! An address space is a persistent ordered map: a new version shares all but a path of nodes with
//! the one before, and a fork shares everything, so that keeping a version costs nothing more. A
//! change costs O(log n) of n mappings, and one that covers k others O(k log n).
//!
//! Source of the map: Okasaki, "Red-black trees in a functional setting" (Journal of Functional
//! Programming 9, 1999, doi:10.1017/S0956796899003494), in the crate `rpds`.

use crate::change::{Change, MappedFile};
use perfdata::RuntimeAddr;
use rpds::RedBlackTreeMapSync;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::BuildHasher as _;
use std::ops::Bound;
use std::sync::Arc;

/// Index of a [`MappedFile`] in the [`AddressSpaces`] or [`Timeline`](crate::Timeline) it is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// One stretch of a file in an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// What one process, or the kernel, has mapped.
#[derive(Clone, Debug, Default)]
pub struct AddressSpace {
    /// By first address; no two overlap.
    mappings: RedBlackTreeMapSync<u64, Mapping>,
    /// The sum of the hashes of all mappings: spaces with different sums are different.
    sum: u64,
    /// The program: the file that was mapped first.
    program: Option<FileId>,
}

impl AddressSpace {
    /// The mapping that covers `address`.
    pub fn find(&self, address: RuntimeAddr) -> Option<Mapping> {
        let up_to = (Bound::Unbounded, Bound::Included(address.0));
        let (_, mapping) = self.mappings.range(up_to).next_back()?;
        (address.0 < mapping.end).then_some(*mapping)
    }

    /// The program that runs in it: what was mapped first since it began is its executable, as
    /// the kernel maps that before the loader and the libraries. A copy of a process runs the same.
    pub fn program(&self) -> Option<FileId> {
        self.program
    }

    /// Whether the same is mapped in both, by the same program.
    pub(crate) fn is_same(&self, other: &AddressSpace) -> bool {
        let same = self.sum == other.sum && self.program == other.program;
        same && self.mappings == other.mappings
    }

    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    fn insert(&mut self, mapping: Mapping) {
        self.remove(mapping.start.0);
        self.sum = self.sum.wrapping_add(FxBuildHasher.hash_one(mapping));
        self.mappings.insert_mut(mapping.start.0, mapping);
    }

    fn remove(&mut self, start: u64) {
        if let Some(mapping) = self.mappings.get(&start) {
            self.sum = self.sum.wrapping_sub(FxBuildHasher.hash_one(mapping));
            self.mappings.remove_mut(&start);
        }
    }

    /// Maps something, in place of what lies there.
    fn map(&mut self, mapping: Mapping) {
        let start = mapping.start.0;
        if mapping.end > start {
            self.clear(start, mapping.end);
            self.insert(mapping);
        }
    }

    /// Removes `[start, end)`, keeping what sticks out on either side.
    fn clear(&mut self, start: u64, end: u64) {
        let before = self.mappings.range((Bound::Unbounded, Bound::Excluded(start))).next_back();
        let reaching_in = before.map(|(_, mapping)| *mapping).filter(|mapping| mapping.end > start);
        if let Some(mapping) = reaching_in {
            self.insert(Mapping { end: start, ..mapping });
            self.keep_behind(end, mapping);
        }
        let inside: Vec<Mapping> = self.mappings.range(start..end).map(|(_, m)| *m).collect();
        for mapping in inside {
            self.remove(mapping.start.0);
            self.keep_behind(end, mapping);
        }
    }

    /// Puts back what a removed mapping had from `end` on.
    fn keep_behind(&mut self, end: u64, mapping: Mapping) {
        if mapping.end > end {
            self.insert(Mapping { start: RuntimeAddr(end), ..mapping });
        }
    }
}

/// The address spaces of all processes, as of the changes applied so far.
#[derive(Debug, Default)]
pub struct AddressSpaces {
    files: Vec<MappedFile>,
    numbers: FxHashMap<Arc<MappedFile>, FileId>,
    processes: FxHashMap<i32, AddressSpace>,
}

impl AddressSpaces {
    /// Makes a change, and says whose address space it changed.
    pub fn apply(&mut self, change: Change) -> Option<i32> {
        match change {
            Change::Map { pid, start, len, pgoff, file } => {
                let end = start.0.saturating_add(len);
                let is_file = file.path.starts_with('/') && !file.path.starts_with("//");
                let file = self.number(file);
                if end <= start.0 {
                    return None;
                }
                let piece = Mapping { start, end, file, origin: start, origin_len: len, pgoff };
                let space = self.processes.entry(pid).or_default();
                space.map(piece);
                if is_file && space.program.is_none() {
                    space.program = Some(file);
                }
                Some(pid)
            }
            Change::Fork { pid, parent } if pid == parent => None,
            Change::Fork { pid, parent } => {
                self.processes.insert(pid, self.space(parent));
                Some(pid)
            }
            Change::Exec { pid } => {
                self.processes.insert(pid, AddressSpace::default());
                Some(pid)
            }
        }
    }

    /// The address space of a process, empty where nothing is known of it. A copy costs nothing.
    pub fn space(&self, pid: i32) -> AddressSpace {
        self.processes.get(&pid).cloned().unwrap_or_default()
    }

    /// The mapping of a process that covers `address`.
    pub fn find(&self, pid: i32, address: RuntimeAddr) -> Option<Mapping> {
        self.processes.get(&pid)?.find(address)
    }

    /// Every file that was mapped, by [`FileId`].
    pub fn files(&self) -> &[MappedFile] {
        &self.files
    }

    fn number(&mut self, file: Arc<MappedFile>) -> FileId {
        let next = FileId(u32::try_from(self.files.len()).unwrap_or(u32::MAX));
        *self.numbers.entry(file).or_insert_with_key(|file| {
            self.files.push(MappedFile::clone(file));
            next
        })
    }

    pub(crate) fn into_files(self) -> Vec<MappedFile> {
        self.files
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::KERNEL_PID;

    fn map(pid: i32, start: u64, len: u64, path: &str) -> Change {
        Change::mapping(pid, (RuntimeAddr(start), len, 0x40), path.to_owned(), None)
    }

    #[test]
    fn a_child_keeps_what_its_parent_maps_anew_later() {
        let mut spaces = AddressSpaces::default();
        assert_eq!(spaces.apply(map(1, 100, 100, "a")), Some(1));
        assert_eq!(spaces.apply(Change::Fork { pid: 2, parent: 1 }), Some(2));
        assert_eq!(spaces.apply(Change::Fork { pid: 1, parent: 1 }), None, "a thread");
        assert_eq!(spaces.apply(map(1, 140, 20, "b")), Some(1));
        let name = |pid, address| {
            let mapping = spaces.find(pid, RuntimeAddr(address))?;
            Some((spaces.files()[mapping.file.0 as usize].path.as_str(), mapping.origin.0))
        };
        assert_eq!([name(1, 139), name(2, 139)], [Some(("a", 100)); 2]);
        assert_eq!([name(1, 150), name(2, 150)], [Some(("b", 140)), Some(("a", 100))]);
        assert_eq!([name(1, 199), name(1, 200), name(3, 150)], [Some(("a", 100)), None, None]);
    }

    #[test]
    fn the_program_is_the_first_file_mapped_and_goes_on_in_children_until_they_begin_another() {
        let mut spaces = AddressSpaces::default();
        spaces.apply(map(1, 50, 10, "//anon"));
        spaces.apply(map(1, 100, 100, "/bin/a"));
        spaces.apply(map(1, 300, 100, "/lib/c"));
        spaces.apply(Change::Fork { pid: 2, parent: 1 });
        spaces.apply(Change::Fork { pid: 3, parent: 1 });
        spaces.apply(Change::Exec { pid: 3 });
        spaces.apply(map(3, 100, 100, "/bin/b"));
        let name = |pid| {
            let program = spaces.space(pid).program()?;
            Some(spaces.files()[program.0 as usize].path.as_str())
        };
        assert_eq!([1, 2, 3, 4].map(name), [Some("/bin/a"), Some("/bin/a"), Some("/bin/b"), None]);
    }

    #[test]
    fn one_file_has_one_number_and_no_length_maps_nothing() {
        let mut spaces = AddressSpaces::default();
        assert_eq!(spaces.apply(map(1, 100, 0, "a")), None);
        spaces.apply(map(1, 100, 8, "a"));
        spaces.apply(map(2, 500, 8, "a"));
        spaces.apply(map(KERNEL_PID, 100, 8, "[module]"));
        assert_eq!(spaces.files().len(), 2);
        assert_eq!(spaces.apply(Change::Exec { pid: 1 }), Some(1));
        assert_eq!(spaces.find(1, RuntimeAddr(101)), None);
    }
}
