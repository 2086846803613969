//! The pass that makes an index: pieces of streams in any order to blocks in theirs.

use super::form::SIDE_HEAD_BYTES;
use super::{Block, Index, StreamIndex};
use crossbeam_channel::{Receiver, Sender};
use perfdata::{Chunk, Input, RawRecord, Record, kind, raw_records};

/// Bytes of records that a block has at least, if its stream goes on.
const BLOCK_BYTES: u32 = 1 << 20;

/// What a piece of a stream has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Piece {
    stream: usize,
    /// Where it begins in the stream's records.
    position: u64,
    /// Where it lies in the stream's file.
    offset: u64,
    block: Block,
    unknown: u64,
    /// As [`StreamIndex::side`].
    side: Vec<u8>,
}

impl Piece {
    /// That of a chunk, with nothing in it.
    pub(crate) fn of(stream: usize, position: u64, chunk: &Chunk) -> Piece {
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
                self.sample(sample.map(|sample| sample.time).map_err(|_| ()));
            } else {
                self.other(input, chunk, &raw);
            }
        }
    }

    /// Counts a sample by its time; of damaged ones none is known.
    #[inline]
    pub(crate) fn sample(&mut self, time: Result<Option<u64>, ()>) {
        self.block.samples += 1;
        match time {
            Ok(Some(time)) => self.block.times = both(self.block.times, Some((time, time))),
            Ok(None) => {}
            Err(()) => self.block.malformed += 1,
        }
    }

    /// Keeps a record that is no sample, if it tells anything.
    pub(crate) fn other(&mut self, input: &Input, chunk: &Chunk, raw: &RawRecord<'_>) {
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
                self.side.extend(self.position.wrapping_add(within).to_le_bytes());
                self.side.extend((bytes.len() as u32).to_le_bytes());
                self.side.extend(bytes);
            }
            _ => {}
        }
    }
}

fn both(one: Option<(u64, u64)>, other: Option<(u64, u64)>) -> Option<(u64, u64)> {
    let (Some(one), Some(other)) = (one, other) else { return one.or(other) };
    Some((one.0.min(other.0), one.1.max(other.1)))
}

/// The side records of a stream, each with its position; `endian` is the recording's.
pub(crate) fn side_records(
    side: &[u8],
    endian: perfdata::Endian,
) -> impl Iterator<Item = (u64, RawRecord<'_>)> {
    let mut rest = side;
    std::iter::from_fn(move || {
        let (head, behind) = rest.split_first_chunk::<SIDE_HEAD_BYTES>()?;
        let (position, size) = head.split_first_chunk::<8>()?;
        let size: [u8; 4] = size.try_into().ok()?;
        let (record, behind) = behind.split_at_checked(u32::from_le_bytes(size) as usize)?;
        rest = behind;
        let position = u64::from_le_bytes(*position);
        Some((position, raw_records(record, position, endian).next()?))
    })
}

/// All pieces of a recording, and how its streams ended.
#[derive(Default)]
pub(crate) struct Gathered {
    pub pieces: Vec<Piece>,
    /// Of each stream, the bytes that are missing or hold no whole record.
    pub truncated: Vec<u64>,
    /// Of each stream, whether it has compressed records.
    pub compressed: Vec<bool>,
}

impl Gathered {
    /// The index of these.
    pub(crate) fn index(mut self, input: &Input) -> Index {
        self.pieces.sort_unstable_by_key(|piece| (piece.stream, piece.position));
        let mut streams: Vec<StreamIndex> = (0..input.stream_count())
            .map(|stream| StreamIndex {
                start: input.stream_extent(stream).start,
                is_seekable: !self.compressed.get(stream).copied().unwrap_or(true),
                truncated_bytes: self.truncated.get(stream).copied().unwrap_or(0),
                ..StreamIndex::default()
            })
            .collect();
        for piece in self.pieces {
            let Some(stream) = streams.get_mut(piece.stream) else { continue };
            stream.is_seekable &= piece.offset == stream.start.saturating_add(piece.position);
            stream.unknown += piece.unknown;
            stream.side.extend(&piece.side);
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
        Index { streams }
    }
}

pub(super) fn read(
    input: &Input,
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Index, perfdata::Error> {
    let threads = threads.max(1);
    let (send, receive) = crossbeam_channel::bounded::<(u64, Chunk, usize)>(threads * 2);
    let (give_back, used) = crossbeam_channel::unbounded::<Vec<u8>>();
    let work = |receive: Receiver<(u64, Chunk, usize)>| {
        let mut pieces = Vec::new();
        for (position, chunk, stream) in receive {
            let mut piece = Piece::of(stream, position, &chunk);
            piece.survey(input, &chunk);
            pieces.push(piece);
            // The readers may have stopped already; then nobody needs the buffer.
            let _ = give_back.send(chunk.bytes);
        }
        pieces
    };
    // Workers end when the readers' end of the channel is gone, and readers when the workers' is.
    let read_all = move || {
        let read = |stream| read_stream(input, stream, &send, &used, progress);
        jobs::try_run(input.stream_count(), threads, read)
    };
    let (pieces, ends) = jobs::beside(vec![receive; threads], work, read_all);
    let (truncated, compressed) = ends?.into_iter().unzip();
    let pieces = pieces.into_iter().flatten().collect();
    Ok(Gathered { pieces, truncated, compressed }.index(input))
}

/// Gives the bytes that are missing at its end, and whether it has compressed records.
fn read_stream(
    input: &Input,
    stream: usize,
    send: &Sender<(u64, Chunk, usize)>,
    used: &Receiver<Vec<u8>>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(u64, bool), perfdata::Error> {
    let mut position = 0u64;
    let mut chunks = input.stream_chunks(stream)?;
    while let Some(chunk) = chunks.next() {
        let chunk = chunk?;
        let bytes = chunk.bytes.len() as u64;
        if send.send((position, chunk, stream)).is_err() {
            break;
        }
        position += bytes;
        progress(bytes);
        used.try_iter().for_each(|buffer| chunks.recycle(buffer));
    }
    let stats = chunks.stats();
    Ok((stats.truncated_bytes, stats.compressed_records > 0))
}
