//! Which blocks of a recording may have samples of a part of the time, and what the others have.

use super::{Block, Index, StreamIndex};
use crate::workers::Counted;
use perfdata::Input;
use std::ops::Range;

impl Block {
    fn meets(&self, time: &Range<u64>) -> bool {
        self.times.is_some_and(|(first, last)| first < time.end && last >= time.start)
    }
}

/// Neighbouring blocks of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Run {
    stream: usize,
    /// Where it begins in the recording's records, as their positions are counted.
    position: u64,
    /// Where it begins in the stream's records; none: it is all of the stream.
    within: Option<u64>,
    pub bytes: u64,
    samples: u64,
    malformed: u64,
}

impl Run {
    fn add(&mut self, block: &Block) {
        self.bytes = self.bytes.saturating_add(block.bytes.into());
        self.samples = self.samples.saturating_add(block.samples.into());
        self.malformed = self.malformed.saturating_add(block.malformed.into());
    }

    fn place(&self, input: &Input) -> (usize, Range<u64>) {
        let extent = input.stream_extent(self.stream);
        let Some(within) = self.within else { return (self.stream, extent) };
        let start = extent.start.saturating_add(within);
        (self.stream, start..start.saturating_add(self.bytes))
    }
}

/// The runs of blocks that may have samples of `time`, in the order of the recording.
pub(super) fn runs(index: &Index, time: &Range<u64>) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut base = 0u64;
    for (number, stream) in index.streams.iter().enumerate() {
        if stream.is_seekable {
            of_stream(stream, number, base, time, &mut runs);
        } else if stream.blocks.iter().any(|block| block.meets(time)) {
            let mut all = Run { stream: number, position: base, ..Run::default() };
            stream.blocks.iter().for_each(|block| all.add(block));
            runs.push(all);
        }
        base = base.saturating_add(stream.bytes());
    }
    runs
}

fn of_stream(
    stream: &StreamIndex,
    number: usize,
    base: u64,
    time: &Range<u64>,
    runs: &mut Vec<Run>,
) {
    let mut within = 0u64;
    let mut open = false;
    for block in &stream.blocks {
        let meets = block.meets(time);
        if meets && !open {
            let position = base.saturating_add(within);
            runs.push(Run { stream: number, position, within: Some(within), ..Run::default() });
        }
        if let Some(run) = runs.last_mut().filter(|_| meets) {
            run.add(block);
        }
        open = meets;
        within = within.saturating_add(block.bytes.into());
    }
}

/// A part of a recording.
pub(crate) struct Part {
    /// The recording with nothing but the part.
    pub input: Input,
    /// Position at which each of its streams begins.
    pub bases: Vec<u64>,
    /// Its samples, by the index.
    samples: u64,
    /// Samples outside of it.
    outside: u64,
    /// The damaged ones among them.
    malformed_outside: u64,
}

impl Part {
    /// The blocks of a recording that may have samples of `time`.
    pub(crate) fn of(index: &Index, input: &Input, time: &Range<u64>) -> Part {
        let runs = runs(index, time);
        let places: Vec<_> = runs.iter().map(|run| run.place(input)).collect();
        let mut all = Run::default();
        index.streams.iter().flat_map(|stream| &stream.blocks).for_each(|block| all.add(block));
        let samples = runs.iter().map(|run| run.samples).sum();
        let malformed: u64 = runs.iter().map(|run| run.malformed).sum();
        Part {
            input: input.parts(&places),
            bases: runs.iter().map(|run| run.position).collect(),
            samples,
            outside: all.samples.saturating_sub(samples),
            malformed_outside: all.malformed.saturating_sub(malformed),
        }
    }

    /// Adds what was not read to what was counted: the filter leaves it out. False where the part
    /// has other samples than the index says.
    #[must_use]
    pub(crate) fn complete(&self, counted: &mut Counted) -> bool {
        counted.malformed += self.malformed_outside;
        counted.filtered += self.outside.saturating_sub(self.malformed_outside);
        counted.samples == self.samples
    }
}
