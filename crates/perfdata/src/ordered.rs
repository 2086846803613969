//! Records in time order, from a bounded window.
//!
//! perf drains its rings in rounds and writes FINISHED_ROUND after each. A ring's records are in
//! order, and round n is complete before round n + 1 begins to be drained, so a record of round n
//! is never older than the newest one of round n − 2. Hence the rule
//! (tools/perf/util/ordered-events.c says the same): at the end of round n everything up to
//! the newest time seen by the end of round n − 1 is complete.
//!
//! ```text
//!   round 1      round 2      round 3
//!   ====max1     =====max2    ======max3
//!            |            | give out ≤ max1       | give out ≤ max2
//! ```
//!
//! Directory recordings have no rounds: each file is sorted in a window of its own and the files
//! are merged by time. Where a window overflows, its older half is given out; what then comes too
//! late is counted in [`ReadStats::out_of_order`].

use crate::bytes::{Endian, eight};
use crate::chunks::Chunks;
use crate::error::{Error, RecordError};
use crate::input::Input;
use crate::kinds::kind;
use crate::raw::{RawRecord, SampleId, raw_records};
use crate::record::Record;
use crate::stats::ReadStats;
use crate::table::LayoutTable;
use std::collections::VecDeque;

/// How records are ordered.
#[derive(Clone, Copy, Debug)]
pub struct OrderOptions {
    /// Bytes of records held back at most, for all streams together.
    pub window_bytes: u64,
}

impl Default for OrderOptions {
    fn default() -> Self {
        OrderOptions { window_bytes: 256 << 20 }
    }
}

/// A record in its turn.
#[derive(Debug)]
pub struct OrderedRecord<'a> {
    /// The record as it lies in memory.
    pub raw: RawRecord<'a>,
    /// Its time in ns; records without one come as early as the window allows, with time 0.
    pub time: u64,
    /// Which file of a directory recording.
    pub stream: u32,
    layouts: &'a LayoutTable,
}

impl<'a> OrderedRecord<'a> {
    /// Gives the record its type, and says who, when and where.
    pub fn parse(&self) -> Result<(Record<'a>, SampleId), RecordError> {
        Record::parse(&self.raw, self.layouts)
    }
}

#[derive(Clone, Copy)]
struct Entry {
    time: u64,
    /// Number of the block that holds the record.
    block: u64,
    at: u32,
    len: u32,
}

struct Block {
    bytes: Vec<u8>,
    offset: u64,
    /// Records not yet given out.
    left: usize,
    /// What the block takes of the window, in bytes: its buffer and its entries.
    cost: u64,
}

/// The window over one stream.
struct Window<'i> {
    chunks: Chunks<'i>,
    endian: Endian,
    layouts: &'i LayoutTable,
    most_bytes: u64,
    held_bytes: u64,
    blocks: VecDeque<Block>,
    first_block: u64,
    /// Waiting for their round.
    pending: Vec<Entry>,
    /// Complete and sorted; given out from the front.
    ready: VecDeque<Entry>,
    newest: u64,
    newest_of_round_before: u64,
    overflows: u64,
    bad_records: u64,
    ended: bool,
}

impl<'i> Window<'i> {
    fn new(input: &'i Input, stream: usize, most_bytes: u64) -> Window<'i> {
        Window {
            chunks: Chunks::new(input, stream..stream + 1),
            endian: input.endian(),
            layouts: input.layouts(),
            most_bytes,
            held_bytes: 0,
            blocks: VecDeque::new(),
            first_block: 0,
            pending: Vec::new(),
            ready: VecDeque::new(),
            newest: 0,
            newest_of_round_before: 0,
            overflows: 0,
            bad_records: 0,
            ended: false,
        }
    }

    /// Makes sure that the next record is ready, if there is one. Errors of the pass come after all
    /// records before them.
    fn prepare(&mut self) -> Result<(), Error> {
        while self.ready.is_empty() && !(self.ended && self.pending.is_empty()) {
            if self.ended {
                self.mark_complete(u64::MAX);
                break;
            }
            match self.chunks.next() {
                None => self.ended = true,
                Some(Ok(chunk)) => self.take_in(chunk.bytes, chunk.offset),
                Some(Err(error)) => {
                    self.ended = true;
                    self.mark_complete(u64::MAX);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn take_in(&mut self, bytes: Vec<u8>, offset: u64) {
        let block = self.first_block + self.blocks.len() as u64;
        let (mut at, mut left) = (0usize, 0usize);
        let mut rounds = false;
        for raw in raw_records(&bytes, offset, self.endian) {
            let len = raw.body.len() + 8;
            if raw.kind == kind::FINISHED_ROUND {
                let limit = self.newest_of_round_before;
                self.newest_of_round_before = self.newest;
                rounds |= self.mark_complete(limit);
            } else {
                let time = self.time_of(&raw);
                self.newest = self.newest.max(time);
                // A chunk is far below 4 GiB.
                self.pending.push(Entry { time, block, at: at as u32, len: len as u32 });
                left += 1;
            }
            at += len;
        }
        if left == 0 {
            self.chunks.recycle(bytes);
        } else {
            let cost = (bytes.capacity() + left * size_of::<Entry>()) as u64;
            self.held_bytes += cost;
            self.blocks.push_back(Block { bytes, offset, left, cost });
        }
        // What a round has just released goes before anything else is read in, so it does not count
        // at once.
        let most = if rounds { self.most_bytes.saturating_mul(2) } else { self.most_bytes };
        if self.held_bytes > most {
            self.overflows += 1;
            self.release_older_half();
        }
    }

    /// Moves everything up to `limit` from pending to ready.
    fn mark_complete(&mut self, limit: u64) -> bool {
        self.pending.sort_by_key(|entry| entry.time);
        let complete = self.pending.partition_point(|entry| entry.time <= limit);
        self.ready.extend(self.pending.drain(..complete));
        complete > 0
    }

    fn release_older_half(&mut self) {
        self.pending.sort_by_key(|entry| entry.time);
        let half = self.pending.len().div_ceil(2);
        if let Some(last) = half.checked_sub(1).and_then(|last| self.pending.get(last)) {
            let limit = last.time;
            self.mark_complete(limit);
        }
    }

    fn time_of(&mut self, raw: &RawRecord<'_>) -> u64 {
        if raw.kind >= kind::USER {
            return 0;
        }
        let layout = if raw.kind == kind::SAMPLE {
            self.layouts.for_sample(raw.body)
        } else {
            self.layouts.for_trailer(raw.body)
        };
        let own = match (layout, raw.kind) {
            (Ok(layout), kind::SAMPLE) => layout.sample_time(raw.body),
            (Ok(layout), _) => layout.trailer_time(raw.body),
            (Err(_), _) => None,
        };
        if own.is_none() && raw.kind == kind::SAMPLE {
            self.bad_records += u64::from(self.layouts.for_sample(raw.body).is_err());
        }
        // FORK and EXIT carry their time in the body too: pid, ppid, tid, ptid, time.
        let in_body =
            || matches!(raw.kind, kind::FORK | kind::EXIT).then(|| eight(raw.body, 16)).flatten();
        own.or_else(|| in_body().map(|b| self.endian.u64(b))).unwrap_or(0)
    }

    /// Takes the next record off the window; its bytes stay until [`Window::free_block`].
    fn pop(&mut self) -> Option<Entry> {
        let entry = self.ready.pop_front()?;
        let index = usize::try_from(entry.block.checked_sub(self.first_block)?).ok()?;
        let block = self.blocks.get_mut(index)?;
        block.left = block.left.saturating_sub(1);
        Some(entry)
    }

    /// Frees the block of a record that has been given out, if it was its last. Any block, not only
    /// the oldest: one record of a far future must not keep all later blocks in memory.
    fn free_block(&mut self, block: u64) {
        let index =
            block.checked_sub(self.first_block).and_then(|index| usize::try_from(index).ok());
        if let Some(block) = index.and_then(|index| self.blocks.get_mut(index))
            && block.left == 0
        {
            self.held_bytes = self.held_bytes.saturating_sub(std::mem::take(&mut block.cost));
            self.chunks.recycle(std::mem::take(&mut block.bytes));
        }
        while self.blocks.front().is_some_and(|block| block.left == 0) {
            self.blocks.pop_front();
            self.first_block += 1;
        }
    }

    fn record(&self, entry: Entry) -> Option<RawRecord<'_>> {
        let index = usize::try_from(entry.block.checked_sub(self.first_block)?).ok()?;
        let block = self.blocks.get(index)?;
        let start = entry.at as usize;
        let bytes = block.bytes.get(start..start.checked_add(entry.len as usize)?)?;
        raw_records(bytes, block.offset.saturating_add(u64::from(entry.at)), self.endian).next()
    }
}

/// A pass over the records in time order. Not an `Iterator`, because each record borrows the
/// window.
pub struct Ordered<'i> {
    windows: Vec<Window<'i>>,
    layouts: &'i LayoutTable,
    given_out: u64,
    out_of_order: u64,
    error: Option<Error>,
    /// Window and block of the record given out last.
    last: Option<(usize, u64)>,
}

impl<'i> Ordered<'i> {
    pub(crate) fn new(input: &'i Input, options: OrderOptions) -> Ordered<'i> {
        let share = options.window_bytes / input.streams.len().max(1) as u64;
        let windows =
            (0..input.streams.len()).map(|stream| Window::new(input, stream, share)).collect();
        Ordered {
            windows,
            layouts: input.layouts(),
            given_out: 0,
            out_of_order: 0,
            error: None,
            last: None,
        }
    }

    /// The next record. An error ends the pass, after all records that could be read were given
    /// out.
    #[allow(
        clippy::should_implement_trait,
        reason = "the record borrows the window, which Iterator cannot say"
    )]
    pub fn next(&mut self) -> Option<Result<OrderedRecord<'_>, Error>> {
        if let Some((index, block)) = self.last.take()
            && let Some(window) = self.windows.get_mut(index)
        {
            window.free_block(block);
        }
        let mut best: Option<(u64, usize)> = None;
        for (index, window) in self.windows.iter_mut().enumerate() {
            if let Err(error) = window.prepare() {
                self.error.get_or_insert(error);
            }
            if let Some(entry) = window.ready.front()
                && best.is_none_or(|(time, _)| entry.time < time)
            {
                best = Some((entry.time, index));
            }
        }
        let Some((time, index)) = best else { return self.error.take().map(Err) };
        self.out_of_order += u64::from(time > 0 && time < self.given_out);
        self.given_out = self.given_out.max(time);
        let layouts = self.layouts;
        let window = self.windows.get_mut(index)?;
        let entry = window.pop()?;
        self.last = Some((index, entry.block));
        let raw = window.record(entry)?;
        // The stream's number is below the number of files of a directory.
        Some(Ok(OrderedRecord { raw, time, stream: index as u32, layouts }))
    }

    /// What the pass has met so far, over all streams.
    pub fn stats(&self) -> ReadStats {
        let mut sum = ReadStats { out_of_order: self.out_of_order, ..ReadStats::default() };
        for window in &self.windows {
            sum.absorb(window.chunks.stats());
            sum.window_overflows += window.overflows;
            sum.bad_records += window.bad_records;
        }
        sum
    }
}
