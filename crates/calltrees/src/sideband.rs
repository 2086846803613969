//! The first pass over a recording: mappings, names of threads, losses.

use crate::index::{Damaged, Index, StreamIndex};
use crate::kernel::Reference;
use crate::kernel_code;
use address_spaces::{Change, Clock, KERNEL_PID, SharedFiles};
use perfdata::{Input, Record, RuntimeAddr, raw_records};
use rustc_hash::FxHashMap;

/// What the path of the kernel's own map begins with.
const KERNEL: &[u8] = b"[kernel.kallsyms]";

/// What the first pass brings home.
#[derive(Default)]
pub(crate) struct Sideband {
    pub changes: Vec<(u64, Change)>,
    /// The files of the changes.
    shared: SharedFiles,
    pub naming: Vec<(u64, Naming)>,
    /// Paths of control groups by number, as first recorded.
    pub cgroups: FxHashMap<u64, String>,
    pub samples: u64,
    pub lost_records: u64,
    pub lost_samples: u64,
    /// Records, samples left out, that are damaged or of a kind that nobody knows.
    pub unknown: u64,
    pub truncated_bytes: u64,
    /// Where the kernel's text lay: its map has the address as its file offset.
    pub kernel_text: Option<Reference>,
    /// Bytes of records before each stream: where its positions begin.
    pub bases: Vec<u64>,
}

/// What a record says of a thread's name.
pub(crate) enum Naming {
    /// It has this one from now on.
    Is { tid: i32, name: String },
    /// It begins with its parent's.
    Inherits { tid: i32, parent: i32 },
}

/// Reads all records but samples, the streams of a directory in parallel.
pub(crate) fn read(
    input: &Input,
    threads: usize,
    clock: Clock,
) -> Result<Sideband, perfdata::Error> {
    Ok(joined(
        jobs::try_run(input.stream_count(), threads, |stream| of(input, stream, clock))?,
        clock,
    ))
}

/// What an index has of it.
///
/// # Errors
/// Where a record of it is damaged.
pub(crate) fn of_index(input: &Input, index: &Index, clock: Clock) -> Result<Sideband, Damaged> {
    let of = |stream: &StreamIndex| {
        let mut out = Sideband {
            samples: stream.blocks.iter().map(|block| u64::from(block.samples)).sum(),
            unknown: stream.unknown,
            truncated_bytes: stream.truncated_bytes,
            ..Sideband::default()
        };
        stream.side.each(stream.bytes(), input.endian(), &mut |position, raw| {
            if let Ok((record, id)) = Record::parse(&raw, input.layouts()) {
                let time = match clock {
                    Clock::Time => id.time.unwrap_or(0),
                    Clock::Position => position,
                };
                out.note(time, &record);
            }
        })?;
        Ok((out, stream.bytes()))
    };
    Ok(joined(index.streams.iter().map(of).collect::<Result<_, _>>()?, clock))
}

/// The whole of its streams, each with its bytes of records.
fn joined(parts: Vec<(Sideband, u64)>, clock: Clock) -> Sideband {
    let mut all = Sideband::default();
    let mut base = 0u64;
    all.changes.reserve_exact(parts.iter().map(|(part, _)| part.changes.len()).sum());
    all.naming.reserve_exact(parts.iter().map(|(part, _)| part.naming.len()).sum());
    for (part, bytes) in parts {
        let shift = if clock == Clock::Position { base } else { 0 };
        let later = |time: u64| time.saturating_add(shift);
        all.changes.extend(part.changes.into_iter().map(|(time, change)| (later(time), change)));
        all.naming.extend(part.naming.into_iter().map(|(time, naming)| (later(time), naming)));
        for (id, path) in part.cgroups {
            all.cgroups.entry(id).or_insert(path);
        }
        all.samples += part.samples;
        all.kernel_text = all.kernel_text.or(part.kernel_text);
        all.lost_records = all.lost_records.saturating_add(part.lost_records);
        all.lost_samples = all.lost_samples.saturating_add(part.lost_samples);
        all.unknown += part.unknown;
        all.truncated_bytes = all.truncated_bytes.saturating_add(part.truncated_bytes);
        all.bases.push(base);
        base = base.saturating_add(bytes);
    }
    all
}

/// That of one stream, with positions counted from its begin, and its bytes of records.
fn of(input: &Input, stream: usize, clock: Clock) -> Result<(Sideband, u64), perfdata::Error> {
    let mut out = Sideband::default();
    let mut chunks = input.stream_chunks(stream)?;
    let mut position = 0u64;
    while let Some(chunk) = chunks.next() {
        let chunk = chunk?;
        for raw in raw_records(&chunk.bytes, chunk.offset, input.endian()) {
            if raw.kind == perfdata::kind::SAMPLE {
                out.samples += 1;
                continue;
            }
            let Ok((record, id)) = Record::parse(&raw, input.layouts()) else {
                out.unknown += 1;
                continue;
            };
            let time = match clock {
                Clock::Time => id.time.unwrap_or(0),
                Clock::Position => position + raw.offset.wrapping_sub(chunk.offset),
            };
            out.note(time, &record);
        }
        position += chunk.bytes.len() as u64;
        chunks.recycle(chunk.bytes);
    }
    out.truncated_bytes = chunks.stats().truncated_bytes;
    Ok((out, position))
}

impl Sideband {
    fn note(&mut self, time: u64, record: &Record<'_>) {
        let change = Change::of(record).map(|change| (time, self.shared.share(change)));
        self.changes.extend(change);
        match record {
            Record::Mmap(map) if map.pid == KERNEL_PID && map.path.starts_with(KERNEL) => {
                let path = String::from_utf8_lossy(map.path);
                let is_stext = kernel_code::reference_symbol(&path) == "_stext";
                let address = RuntimeAddr(map.pgoff);
                self.kernel_text = self.kernel_text.or(Some(Reference { address, is_stext }));
            }
            Record::Comm { tid, name, .. } => {
                let name = String::from_utf8_lossy(name).into_owned();
                self.naming.push((time, Naming::Is { tid: *tid, name }));
            }
            Record::Fork(task) => {
                let naming = Naming::Inherits { tid: task.tid, parent: task.parent_tid };
                self.naming.push((time, naming));
            }
            Record::Cgroup { id, path } => {
                let path = || String::from_utf8_lossy(path).into_owned();
                self.cgroups.entry(*id).or_insert_with(path);
            }
            // The kernel's own notes count all records, and its recorder's count the samples among
            // them: the same losses.
            Record::Lost { lost, .. } => {
                self.lost_records = self.lost_records.saturating_add(*lost);
            }
            Record::LostSamples { lost } => {
                self.lost_samples = self.lost_samples.saturating_add(*lost);
            }
            Record::Unknown { .. } => self.unknown += 1,
            _ => {}
        }
    }
}

/// The names of threads over time.
#[derive(Default)]
pub(crate) struct ThreadNames {
    /// The first has number 0 and stands for a thread whose name nobody recorded.
    names: Vec<String>,
    since: FxHashMap<i32, Vec<(u64, u32)>>,
}

impl ThreadNames {
    pub(crate) fn new(mut naming: Vec<(u64, Naming)>) -> ThreadNames {
        naming.sort_by_key(|(time, _)| *time);
        let mut numbers: FxHashMap<String, u32> = FxHashMap::default();
        let mut all = ThreadNames { names: vec![String::new()], ..ThreadNames::default() };
        for (time, naming) in naming {
            let (tid, number) = match naming {
                Naming::Inherits { tid, parent } if tid == parent => continue,
                Naming::Inherits { tid, parent } => (tid, all.at(parent, time).0),
                Naming::Is { tid, name } => {
                    let next = all.names.len() as u32;
                    let number = *numbers.entry(name).or_insert_with_key(|name| {
                        all.names.push(name.clone());
                        next
                    });
                    (tid, number)
                }
            };
            all.since.entry(tid).or_default().push((time, number));
        }
        all
    }

    /// The number of a thread's name at a time, and the first time at which it may be another.
    /// What perf wrote about threads that were there before the recording has the time 0.
    pub(crate) fn at(&self, tid: i32, time: u64) -> (u32, u64) {
        let Some(since) = self.since.get(&tid) else { return (0, u64::MAX) };
        let after = since.partition_point(|(begin, _)| *begin <= time);
        let until = since.get(after).map_or(u64::MAX, |(begin, _)| *begin);
        let last = after.checked_sub(1).and_then(|last| since.get(last));
        (last.map_or(0, |(_, number)| *number), until)
    }

    /// All names, by number.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_its_parents_name_until_it_gets_its_own() {
        let is = |tid, name: &str| Naming::Is { tid, name: name.to_owned() };
        let names = ThreadNames::new(vec![
            (9, is(2, "cc")),
            (0, is(1, "make")),
            (5, Naming::Inherits { tid: 2, parent: 1 }),
            (7, Naming::Inherits { tid: 1, parent: 1 }),
            (8, is(1, "cc")),
        ]);
        let at = |tid, time| names.names.get(names.at(tid, time).0 as usize).cloned().unwrap();
        assert_eq!([at(1, 0), at(1, 7), at(1, 8)], ["make", "make", "cc"]);
        assert_eq!([at(2, 4), at(2, 5), at(2, 9)], ["", "make", "cc"]);
        assert_eq!(at(3, 100), "");
        assert_eq!(names.names.len(), 3, "one name has one number");
    }
}
