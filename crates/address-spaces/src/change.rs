//! What a record says about address spaces: a file mapped, a process begun, a program replaced.

use crate::kernel_map::{self, Extent};
use perfdata::{CpuMode, MmapEvent, Record, RuntimeAddr};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// The pid under which the kernel's own mappings are recorded.
pub const KERNEL_PID: i32 = -1;

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

/// A change of address spaces.
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
        file: Arc<MappedFile>,
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
    /// The change that a record tells of; most tell of none.
    pub fn of(record: &Record<'_>) -> Option<Change> {
        match record {
            Record::Mmap(map) if map.executable => Some(Change::of_map(map)),
            Record::Fork(task) => Some(Change::Fork { pid: task.pid, parent: task.parent_pid }),
            Record::Comm { pid, exec: true, .. } => Some(Change::Exec { pid: *pid }),
            _ => None,
        }
    }

    fn of_map(map: &MmapEvent<'_>) -> Change {
        let kernel =
            matches!(map.cpumode, CpuMode::Kernel | CpuMode::GuestKernel) || map.pid == KERNEL_PID;
        let pid = if kernel { KERNEL_PID } else { map.pid };
        let path = String::from_utf8_lossy(map.path).into_owned();
        let build_id = map.build_id.map(<[u8]>::to_vec);
        Change::mapping(pid, (map.start, map.len, map.pgoff), path, build_id)
    }

    /// The change that a mapping makes; `piece`: first address, length in bytes, file offset. Of
    /// the kernel's side (`pid` is [`KERNEL_PID`]) it gets the addresses that are its own.
    pub fn mapping(
        pid: i32,
        piece: (RuntimeAddr, u64, u64),
        path: String,
        build_id: Option<Vec<u8>>,
    ) -> Change {
        let (start, len, pgoff) = piece;
        if pid != KERNEL_PID {
            let file = Arc::new(MappedFile { path, build_id, side: Side::Process });
            return Change::Map { pid, start, len, pgoff, file };
        }
        let Extent { start, len, placed } = kernel_map::extent(&path, start.0, len, pgoff);
        let side = if placed { Side::Kernel } else { Side::HiddenKernel };
        Change::Map {
            pid,
            start: RuntimeAddr(start),
            len,
            pgoff,
            file: Arc::new(MappedFile { path, build_id, side }),
        }
    }
}

/// Lets the changes of one file share what is known of it: programs that start again and again map
/// the same files.
#[derive(Debug, Default)]
pub struct SharedFiles {
    known: FxHashSet<Arc<MappedFile>>,
}

impl SharedFiles {
    /// The change with a file that others may have, too.
    #[must_use]
    pub fn share(&mut self, mut change: Change) -> Change {
        if let Change::Map { file, .. } = &mut change {
            match self.known.get(file) {
                Some(known) => *file = Arc::clone(known),
                None => {
                    self.known.insert(Arc::clone(file));
                }
            }
        }
        change
    }
}
