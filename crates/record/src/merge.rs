//! Turning the plugin's spool into a perf.data: the streams of all threads, merged by time.

use crate::Error;
use crate::file::Output;
use crate::seen::{Seen, mmap_build_id};
use crate::streaming::Compression;
use crate::sys::Map;
use perfdata::write::Compressor;
use perfdata::{CompressedInfo, kind};
use qemu_branches::spool::{CHUNK_HEADER_BYTES, CHUNK_MAGIC, GRANULE_BYTES, HEADER_BYTES};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::Path;

/// Samples between two FINISHED_ROUND records take about so many bytes.
const ROUND_BYTES: u64 = 1 << 20;

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// One record with the time that orders it.
struct Record<'s> {
    kind: u32,
    time: u64,
    bytes: &'s [u8],
}

/// Cuts the first record off; `None` when there is no whole one.
fn first_record(bytes: &[u8]) -> Option<Record<'_>> {
    let size = usize::from(u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?));
    let record = bytes.get(..size).filter(|_| size >= 40)?;
    let kind = u32_at(record, 0)?;
    // A sample begins with id, ip and thread; other records end with thread, time and id.
    let time = u64_at(record, if kind == kind::SAMPLE { 32 } else { size - 16 })?;
    Some(Record { kind, time, bytes: record })
}

/// The parts of the spool that one thread wrote, in its order.
pub(crate) struct Stream<'s> {
    /// What its chunks hold behind their headers.
    pub chunks: Vec<&'s [u8]>,
    current: usize,
    at: usize,
}

impl<'s> Stream<'s> {
    fn peek(&mut self) -> Option<Record<'s>> {
        loop {
            let chunk = self.chunks.get(self.current)?;
            match chunk.get(self.at..).and_then(first_record) {
                Some(record) => return Some(record),
                None => (self.current, self.at) = (self.current + 1, 0),
            }
        }
    }
}

/// Finds every chunk; a granule that was taken but never begun (its thread was killed) is stepped
/// over.
pub(crate) fn streams<'s>(
    path: &Path,
    spool: &'s [u8],
) -> Result<BTreeMap<u64, Stream<'s>>, Error> {
    let mut found: BTreeMap<u64, Stream<'_>> = BTreeMap::new();
    let mut at = HEADER_BYTES;
    while let Some(chunk) =
        usize::try_from(at).ok().and_then(|at| spool.get(at..)).filter(|rest| !rest.is_empty())
    {
        let header = (u64_at(chunk, 0), u64_at(chunk, 8), u64_at(chunk, 16), u64_at(chunk, 24));
        let (Some(CHUNK_MAGIC), Some(chunk_bytes), Some(stream), Some(used)) = header else {
            at += GRANULE_BYTES;
            continue;
        };
        let damaged = |found: String| Error::Spool { path: path.to_owned(), offset: at, found };
        if chunk_bytes == 0 || chunk_bytes % GRANULE_BYTES != 0 {
            return Err(damaged(format!("its size is {chunk_bytes}")));
        }
        let end = usize::try_from(used).ok().and_then(|used| used.checked_add(CHUNK_HEADER_BYTES));
        let records = end
            .and_then(|end| chunk.get(CHUNK_HEADER_BYTES..end))
            .filter(|records| records.len() as u64 <= chunk_bytes)
            .ok_or_else(|| damaged(format!("it claims {used} bytes of records")))?;
        let stream =
            found.entry(stream).or_insert(Stream { chunks: Vec::new(), current: 0, at: 0 });
        stream.chunks.push(records);
        at = at.saturating_add(chunk_bytes);
    }
    Ok(found)
}

/// Writes merged records to a file, round by round.
pub(crate) struct Rounds<'o> {
    output: &'o mut Output,
    /// What compresses a round, and where that goes.
    compressor: Option<Compressor>,
    packed: Vec<u8>,
    /// The records of this round that wait for it.
    round: Vec<u8>,
    bytes: u64,
}

impl<'o> Rounds<'o> {
    /// Rounds into `output`.
    pub(crate) fn into(
        output: &'o mut Output,
        compression: Compression,
    ) -> Result<Rounds<'o>, Error> {
        let compressor = compression.compressor()?;
        Ok(Rounds { output, compressor, packed: Vec::new(), round: Vec::new(), bytes: 0 })
    }

    /// Bytes before and after compression, where there is one.
    pub(crate) fn compressed(&self) -> Option<CompressedInfo> {
        self.compressor.as_ref().map(Compressor::describe)
    }

    fn add(&mut self, record: &[u8]) -> Result<(), Error> {
        match self.compressor {
            Some(_) => self.round.extend_from_slice(record),
            None => self.output.records(record)?,
        }
        self.bytes += record.len() as u64;
        if self.bytes >= ROUND_BYTES { self.finish() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<(), Error> {
        if let Some(compressor) = &mut self.compressor {
            self.packed.clear();
            compressor.compress(&self.round, &mut self.packed).map_err(Error::compression)?;
            self.round.clear();
            self.output.records(&self.packed)?;
        }
        self.bytes = 0;
        self.output.finish_round()
    }
}

/// Copies all records, oldest first. Equal times keep the order of the streams' numbers, which puts
/// a process's own records (its mappings) before its threads' samples.
///
/// `chains` says whether the samples carry call chains.
pub(crate) fn merge(
    path: &Path,
    spool: &Map,
    rounds: &mut Rounds<'_>,
    chains: bool,
) -> Result<Seen, Error> {
    let mut streams = streams(path, spool)?;
    let mut queue = BinaryHeap::new();
    for (id, stream) in &mut streams {
        queue.extend(stream.peek().map(|record| Reverse((record.time, *id))));
    }
    let mut merged = Seen::default();
    while let Some(Reverse((_, id))) = queue.pop() {
        let next_other = queue.peek().map(|Reverse(next)| *next);
        let Some(stream) = streams.get_mut(&id) else { continue };
        while let Some(record) = stream.peek() {
            // As long as this stream is the oldest there is no need to go through the queue.
            if next_other.is_some_and(|next| (record.time, id) > next) {
                queue.push(Reverse((record.time, id)));
                break;
            }
            note(&mut merged, &record, chains);
            rounds.add(record.bytes)?;
            stream.at += record.bytes.len();
        }
    }
    rounds.finish()?;
    Ok(merged)
}

fn note(seen: &mut Seen, record: &Record<'_>, chains: bool) {
    if record.kind == kind::SAMPLE {
        seen.samples += 1;
        seen.branch_entries += branch_entries(record.bytes, chains).unwrap_or(0);
        if seen.samples == 1 {
            seen.first_time = record.time;
        }
        seen.last_time = record.time;
    } else {
        seen.build_ids.extend(mmap_build_id(record.bytes));
    }
}

/// Entries of a sample's branch stack: the number stands behind the period, or behind the call
/// chain there.
fn branch_entries(sample: &[u8], chains: bool) -> Option<u64> {
    let at = match chains {
        true => usize::try_from(u64_at(sample, 48)?).ok()?.checked_mul(8)?.checked_add(56)?,
        false => 48,
    };
    u64_at(sample, at)
}
