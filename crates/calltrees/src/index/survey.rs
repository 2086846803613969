//! The pass that makes an index: pieces of streams in any order to blocks in theirs.

use super::side::{self, Packer};
use super::{Block, Index, StreamIndex};
use crate::handing::{self, Handed};
use perfdata::{Chunk, Input, RawRecord, ReadStats, Record, RecordError, kind, raw_records};
use std::io;
use std::path::Path;

/// Bytes of records that a block has at least, if its stream goes on.
const BLOCK_BYTES: u32 = 1 << 20;

/// What a piece of a stream has.
#[derive(Clone, Debug, Default)]
struct Piece {
    stream: usize,
    /// Where it begins in the stream's records.
    position: u64,
    /// Where it lies in the stream's file.
    offset: u64,
    block: Block,
    unknown: u64,
    /// Its records that are no samples, not packed yet.
    side: Vec<u8>,
}

impl Piece {
    /// That of a chunk, with nothing in it.
    fn of(stream: usize, position: u64, chunk: &Chunk) -> Piece {
        // A chunk is far below 4 GiB.
        let block = Block { bytes: chunk.bytes.len() as u32, ..Block::default() };
        Piece { stream, position, offset: chunk.offset, block, ..Piece::default() }
    }

    /// Counts the samples of a chunk, and keeps its other records.
    fn survey(&mut self, input: &Input, chunk: &Chunk) {
        for raw in raw_records(&chunk.bytes, chunk.offset, input.endian()) {
            if raw.kind == kind::SAMPLE {
                let layout = input.layouts().for_sample(raw.body);
                let sample = layout.and_then(|layout| layout.chain(&raw));
                self.sample(sample.map(|sample| sample.time));
            } else {
                self.other(input, chunk, &raw);
            }
        }
    }

    /// Counts a sample by its time; of damaged ones none is known.
    #[inline]
    fn sample(&mut self, time: Result<Option<u64>, RecordError>) {
        self.block.samples += 1;
        match time {
            Ok(Some(time)) => self.block.times = both(self.block.times, Some((time, time))),
            Ok(None) => {}
            Err(_) => self.block.malformed += 1,
        }
    }

    /// Keeps a record that is no sample, if it tells anything.
    fn other(&mut self, input: &Input, chunk: &Chunk, raw: &RawRecord<'_>) {
        let Ok((record, _)) = Record::parse(raw, input.layouts()) else {
            self.unknown += 1;
            return;
        };
        match record {
            Record::Unknown { .. } => self.unknown += 1,
            Record::Mmap(_)
            | Record::Comm { .. }
            | Record::Fork(_)
            | Record::Lost { .. }
            | Record::LostSamples { .. }
            | Record::Cgroup { .. } => {
                const HEADER_BYTES: usize = 8;
                let within = raw.offset.wrapping_sub(chunk.offset);
                let size = raw.body.len() + HEADER_BYTES;
                let begin = usize::try_from(within).unwrap_or(usize::MAX);
                let bytes = chunk.bytes.get(begin..begin.saturating_add(size)).unwrap_or_default();
                side::put(self.position.wrapping_add(within), bytes, &mut self.side);
            }
            _ => {}
        }
    }
}

fn both(one: Option<(u64, u64)>, other: Option<(u64, u64)>) -> Option<(u64, u64)> {
    let (Some(one), Some(other)) = (one, other) else { return one.or(other) };
    Some((one.0.min(other.0), one.1.max(other.1)))
}

/// The index of all pieces of a recording; `ends` tells how the reading of each stream went.
fn index(input: &Input, mut pieces: Vec<Piece>, ends: &[ReadStats]) -> io::Result<Index> {
    pieces.sort_unstable_by_key(|piece| (piece.stream, piece.position));
    let stream = |(number, end): (usize, &ReadStats)| StreamIndex {
        start: input.stream_extent(number).start,
        is_seekable: end.compressed_records == 0,
        truncated_bytes: end.truncated_bytes,
        ..StreamIndex::default()
    };
    let mut streams: Vec<StreamIndex> = ends.iter().enumerate().map(stream).collect();
    let mut sides: Vec<Packer> = streams.iter().map(|_| Packer::new()).collect();
    for piece in pieces {
        let Some(stream) = streams.get_mut(piece.stream) else { continue };
        if let Some(side) = sides.get_mut(piece.stream) {
            side.add(&piece.side)?;
        }
        stream.is_seekable &= piece.offset == stream.start.saturating_add(piece.position);
        stream.unknown += piece.unknown;
        match stream.blocks.last_mut() {
            Some(last) if last.bytes < BLOCK_BYTES / 2 => {
                last.bytes += piece.block.bytes;
                last.samples += piece.block.samples;
                last.malformed += piece.block.malformed;
                last.times = both(last.times, piece.block.times);
            }
            _ => stream.blocks.push(piece.block),
        }
    }
    for (stream, side) in streams.iter_mut().zip(sides) {
        stream.side = side.finish()?;
    }
    Ok(Index { streams })
}

pub(super) fn read(
    input: &Input,
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Index, perfdata::Error> {
    let work = |handed: Handed| {
        let mut pieces = Vec::new();
        handed.each(|stream, position, chunk| {
            let mut piece = Piece::of(stream, position, chunk);
            piece.survey(input, chunk);
            pieces.push(piece);
        });
        pieces
    };
    let (pieces, ends) = handing::to_workers(input, threads, progress, work)?;
    index(input, pieces.into_iter().flatten().collect(), &ends).map_err(|source| {
        let path = input.stream_path(0).map(Path::to_owned).unwrap_or_default();
        perfdata::Error::Io { path, action: "pack the index of it", source }
    })
}
