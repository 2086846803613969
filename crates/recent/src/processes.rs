//! What is known of the processes that live: their records of names and mappings, as they came.
//!
//! Invariant: a process that ended is forgotten after the next output, and one that began by a fork
//! has its parent's mappings as records of its own, so that it does not need the parent's any more.
//! Records come in rounds of all CPUs; only at an output is it certain that those of a parent are
//! there. Memory: [`MOST_BYTES`].

use perfdata::{kind, misc};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of all records that are kept: those of some ten thousand processes.
const MOST_BYTES: usize = 64 << 20;
/// Processes that begin between two outputs.
const MOST_FORKS: usize = 1 << 20;
const BODY_AT: usize = 8;

/// The records of a process, in the order in which they came.
#[derive(Clone, Debug, Default)]
struct Known {
    records: Vec<Vec<u8>>,
    /// Where the records of the program that it runs now begin.
    since_exec: usize,
}

/// The processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processes {
    known: BTreeMap<i32, Known>,
    /// Forks whose mappings are not copied yet: parent and child.
    forks: Vec<(i32, i32)>,
    ended: BTreeSet<i32>,
    bytes: usize,
}

fn number(record: &[u8], at: usize) -> Option<i32> {
    let bytes = record.get(at..at.checked_add(4)?)?;
    Some(i32::from_ne_bytes(bytes.try_into().ok()?))
}

fn flags(record: &[u8]) -> u16 {
    record.get(4..6).map_or(0, |bytes| u16::from_ne_bytes([bytes[0], bytes[1]]))
}

fn kind_of(record: &[u8]) -> u32 {
    record.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

impl Processes {
    /// Takes a record; false where there is no room for it.
    pub(crate) fn note(&mut self, kind: u32, record: &[u8]) -> bool {
        let (Some(pid), Some(second)) = (number(record, BODY_AT), number(record, BODY_AT + 4))
        else {
            return true;
        };
        match kind {
            // Process, parent, thread.
            kind::FORK if pid != second => {
                if self.forks.len() >= MOST_FORKS {
                    return false;
                }
                self.ended.remove(&pid);
                self.forks.push((second, pid));
                return true;
            }
            kind::EXIT => {
                if number(record, BODY_AT + 8) == Some(pid) {
                    self.ended.insert(pid);
                }
                return true;
            }
            kind::MMAP | kind::MMAP2 | kind::COMM | kind::FORK => {}
            // Of no use for names of functions.
            _ => return true,
        }
        if self.bytes + record.len() > MOST_BYTES {
            return false;
        }
        self.bytes += record.len();
        let own = self.known.entry(pid).or_default();
        if kind == kind::COMM && flags(record) & misc::COMM_EXEC != 0 {
            own.since_exec = own.records.len();
        }
        own.records.push(record.to_vec());
        true
    }

    /// Gives processes that began by a fork what they have of their parents. All records up to now
    /// are there.
    pub(crate) fn settle(&mut self) {
        for (parent, child) in std::mem::take(&mut self.forks) {
            let Some(of) = self.known.get(&parent) else { continue };
            let copied = of.records.iter().filter(|record| match kind_of(record) {
                kind::MMAP | kind::MMAP2 => true,
                // The name of the process, which is that of its main thread.
                kind::COMM => number(record, BODY_AT + 4) == Some(parent),
                _ => false,
            });
            let mut copied: Vec<Vec<u8>> = copied.cloned().collect();
            for record in &mut copied {
                for at in [BODY_AT, BODY_AT + 4] {
                    if let Some(bytes) = record.get_mut(at..at + 4) {
                        bytes.copy_from_slice(&child.to_ne_bytes());
                    }
                }
                // A program that its parent began is none that it began itself.
                let plain = flags(record) & !misc::COMM_EXEC;
                if let (kind::COMM, Some(bytes)) = (kind_of(record), record.get_mut(4..6)) {
                    bytes.copy_from_slice(&plain.to_ne_bytes());
                }
            }
            let bytes: usize = copied.iter().map(Vec::len).sum();
            if self.bytes + bytes > MOST_BYTES {
                continue;
            }
            self.bytes += bytes;
            let own = self.known.entry(child).or_default();
            own.since_exec += if own.since_exec > 0 { copied.len() } else { 0 };
            copied.append(&mut own.records);
            own.records = copied;
        }
    }

    /// Appends all records.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let records = self.known.values().flat_map(|known| &known.records);
        records.for_each(|record| out.extend_from_slice(record));
    }

    /// Forgets processes that ended, and what programs left behind that processes ran before.
    pub(crate) fn forget(&mut self) {
        for pid in std::mem::take(&mut self.ended) {
            self.known.remove(&pid);
        }
        for known in self.known.values_mut() {
            drop(known.records.drain(..std::mem::take(&mut known.since_exec)));
        }
        let records = self.known.values().flat_map(|known| &known.records);
        self.bytes = records.map(Vec::len).sum();
    }

    /// Their numbers; what belongs to the kernel has a negative one.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = i32> + '_ {
        self.known.keys().copied()
    }
}
