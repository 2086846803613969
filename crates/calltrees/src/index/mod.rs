//! Where in a recording its samples lie in time, and all of its records that are no samples: what
//! the first pass over a recording finds, for the second question.
//!
//! A recording is cut into blocks of about 1 MiB; of each the index has the times of the earliest
//! and the latest sample. With it a question about a part of the time reads no more than the blocks
//! that may have samples of that part, and no record outside them: mappings, names of threads and
//! losses are in the index, as they were recorded. What is not read is counted by the index, so
//! that the ledger is the same.
//!
//! Streams with compressed records or with payloads between records are read from their begin, as
//! nothing else can be done with them.

mod form;
mod part;
mod side;
mod survey;

pub use form::{BINDING_BYTES, Unusable};
pub(crate) use part::Part;
pub(crate) use side::Damaged;
use side::Side;

use perfdata::{Endian, Input};
use std::ops::Range;

/// A stretch of a stream with whole records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    /// Bytes of its records, expanded.
    pub bytes: u32,
    /// Its samples.
    pub samples: u32,
    /// Of them those whose records are damaged.
    pub malformed: u32,
    /// Times of the earliest and of the latest sample; none where no sample has a time.
    pub times: Option<(u64, u64)>,
}

/// What is known of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamIndex {
    /// Where its records begin in its file.
    pub start: u64,
    /// Whether its records lie in the file one behind the other.
    pub is_seekable: bool,
    /// Records, samples left out, that are damaged or of a kind that nobody knows.
    pub unknown: u64,
    pub truncated_bytes: u64,
    pub blocks: Vec<Block>,
    /// Records that say what was mapped, who was called what, and what was lost.
    pub side: Side,
}

impl StreamIndex {
    /// Bytes of records, expanded.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.bytes)).sum()
    }
}

/// The index of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    pub(crate) streams: Vec<StreamIndex>,
}

impl Index {
    /// Makes the index of a recording: one pass over all of it. `progress` is told the bytes read.
    ///
    /// # Errors
    /// Where the recording cannot be read.
    pub fn read(
        input: &Input,
        threads: usize,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Index, perfdata::Error> {
        survey::read(input, threads, progress)
    }

    /// Whether it may be the index of this recording: it has as many streams, and they lie where
    /// the index says.
    pub fn fits(&self, input: &Input) -> bool {
        let fits = |(number, stream): (usize, &StreamIndex)| {
            let extent = input.stream_extent(number);
            let room = extent.end.saturating_sub(extent.start);
            extent.start == stream.start && (!stream.is_seekable || stream.bytes() <= room)
        };
        self.streams.len() == input.stream_count() && self.streams.iter().enumerate().all(fits)
    }

    /// How many records it has that are no samples; none where one of them is damaged. `endian` is
    /// the recording's.
    pub fn record_count(&self, endian: Endian) -> Option<u64> {
        let mut count = 0;
        for stream in &self.streams {
            stream.side.each(stream.bytes(), endian, &mut |_, _| count += 1).ok()?;
        }
        Some(count)
    }

    /// From the earliest sample to just after the latest one, in ns of the recording's clock; none
    /// where samples have no times.
    pub fn times(&self) -> Option<Range<u64>> {
        let blocks = self.streams.iter().flat_map(|stream| &stream.blocks);
        let both = |one: (u64, u64), other: (u64, u64)| (one.0.min(other.0), one.1.max(other.1));
        let (first, last) = blocks.filter_map(|block| block.times).reduce(both)?;
        Some(first..last.saturating_add(1))
    }

    /// Bytes that a question about a part of the time reads.
    pub fn bytes_within(&self, time: &Range<u64>) -> u64 {
        part::runs(self, time).iter().map(|run| run.bytes).sum()
    }
}
