//! When were a recording's samples taken, and in which part of that time was one?

use perfdata::{Input, raw_records};
use std::ops::Range;

/// A time cut into parts of equal length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    from: u64,
    length: u64,
    count: u32,
}

impl Blocks {
    /// Cuts `time` (of the recording's clock, in ns) into `count` blocks.
    pub fn cut(time: &Range<u64>, count: u32) -> Blocks {
        let count = count.max(1);
        let length = time.end.saturating_sub(time.start) / u64::from(count);
        Blocks { from: time.start, length: length.saturating_add(1), count }
    }

    /// When the first begins, in ns of the recording's clock.
    pub fn start(&self) -> u64 {
        self.from
    }

    /// How long each is, in ns.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The block of a time. What has no time, or lies outside, counts to the nearest end.
    #[inline]
    pub fn at(&self, time: Option<u64>) -> u32 {
        let since = time.unwrap_or(0).saturating_sub(self.from);
        let block = since / self.length.max(1);
        block.min(u64::from(self.count.saturating_sub(1))) as u32
    }
}

/// The time of the earliest sample, in ns of the recording's clock; none where samples have no
/// times. Reads the whole recording, since its samples need not be in order.
///
/// # Errors
/// Where the recording cannot be read.
pub fn first_time(input: &Input, threads: usize) -> Result<Option<u64>, perfdata::Error> {
    Ok(times(input, threads)?.map(|times| times.start))
}

/// From the earliest sample to just after the latest one, as [`first_time`].
///
/// # Errors
/// Where the recording cannot be read.
pub fn times(input: &Input, threads: usize) -> Result<Option<Range<u64>>, perfdata::Error> {
    let of = |stream| of_stream(input, stream);
    let all = jobs::try_run(input.stream_count(), threads, of)?;
    Ok(all.into_iter().flatten().reduce(|one, other| both(&one, &other)))
}

fn both(one: &Range<u64>, other: &Range<u64>) -> Range<u64> {
    one.start.min(other.start)..one.end.max(other.end)
}

fn of_stream(input: &Input, stream: usize) -> Result<Option<Range<u64>>, perfdata::Error> {
    let mut found: Option<Range<u64>> = None;
    let mut chunks = input.stream_chunks(stream)?;
    while let Some(chunk) = chunks.next() {
        let chunk = chunk?;
        let times = raw_records(&chunk.bytes, chunk.offset, input.endian())
            .filter(|raw| raw.kind == perfdata::kind::SAMPLE)
            .filter_map(|raw| {
                let layout = input.layouts().for_sample(raw.body).ok()?;
                let time = layout.chain(&raw).ok()?.time?;
                Some(time..time.saturating_add(1))
            });
        found = times.chain(found).reduce(|one, other| both(&one, &other));
        chunks.recycle(chunk.bytes);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn every_time_lies_in_a_block_and_later_ones_in_no_earlier_block(
            start in 0..u64::MAX, length in 0..u64::MAX, count in 0u32..200,
            times in (0..u64::MAX, 0..u64::MAX),
        ) {
            let blocks = Blocks::cut(&(start..start.saturating_add(length)), count);
            let (early, late) = (times.0.min(times.1), times.0.max(times.1));
            proptest::prop_assert!(blocks.at(Some(early)) <= blocks.at(Some(late)));
            proptest::prop_assert!(blocks.at(Some(late)) < count.max(1));
        }
    }

    #[test]
    fn blocks_are_equally_long() {
        let blocks = Blocks::cut(&(1000..2000), 4);
        let at = [0, 1000, 1250, 1251, 1502, 1999, 5000].map(|time| blocks.at(Some(time)));
        assert_eq!(at, [0, 0, 0, 1, 2, 3, 3]);
        assert_eq!(blocks.at(None), 0);
    }
}
