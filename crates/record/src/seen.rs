//! What was seen of a recording's records on their way into the file.

use crate::aux::AuxSeen;
use perfdata::{BuildIdEntry, kind};
use std::collections::BTreeSet;

/// What the records were.
#[derive(Default, Debug)]
pub(crate) struct Seen {
    pub samples: u64,
    /// Records of context switches.
    pub switches: u64,
    pub branch_entries: u64,
    pub first_time: u64,
    pub last_time: u64,
    pub build_ids: BTreeSet<BuildId>,
    pub aux: AuxSeen,
}

impl Seen {
    /// Whether there is nothing to look at: no sample, no context switch and no AUX data.
    pub(crate) fn is_empty(&self) -> bool {
        self.samples == 0 && self.switches == 0 && self.aux.bytes == 0
    }

    /// Adds what another stream held.
    pub(crate) fn add(&mut self, other: Seen) {
        if other.samples > 0 {
            let first = other.first_time;
            self.first_time = if self.samples == 0 { first } else { self.first_time.min(first) };
            self.last_time = self.last_time.max(other.last_time);
        }
        self.samples += other.samples;
        self.switches += other.switches;
        self.branch_entries += other.branch_entries;
        self.build_ids.extend(other.build_ids);
        self.aux.add(other.aux);
    }
}

/// A file by its build ID.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct BuildId {
    pub path: Vec<u8>,
    pub id: Vec<u8>,
    pub kernel: bool,
}

impl BuildId {
    pub(crate) fn entry(&self) -> BuildIdEntry {
        const MISC_KERNEL: u16 = 1;
        const MISC_USER: u16 = 2;
        BuildIdEntry {
            pid: -1,
            misc: if self.kernel { MISC_KERNEL } else { MISC_USER },
            build_id: self.id.clone(),
            path: String::from_utf8_lossy(&self.path).into_owned(),
        }
    }
}

/// The path and build ID of a record, when it is an MMAP2 that has one.
pub(crate) fn mmap_build_id(record: &[u8]) -> Option<BuildId> {
    const MODE: u16 = 7;
    const KERNEL: u16 = 1;
    const MMAP_BUILD_ID: u16 = 1 << 14;
    let found = u32::from_ne_bytes(record.get(..4)?.try_into().ok()?);
    let misc = u16::from_ne_bytes(record.get(4..6)?.try_into().ok()?);
    if found != kind::MMAP2 || misc & MMAP_BUILD_ID == 0 {
        return None;
    }
    let len = usize::from(*record.get(40)?).min(20);
    let id = record.get(44..44 + len)?.to_vec();
    let path = record.get(72..record.len().checked_sub(24)?)?;
    let path = path.split(|byte| *byte == 0).next()?.to_vec();
    let kernel = misc & MODE == KERNEL;
    Some(BuildId { path, id, kernel })
}
