//! The second pass over a recording: samples, counted on worker threads.
//!
//! A worker keeps one set of tables for each version of each address space that it meets and needs
//! no order among chunks. Tables are translated to image addresses when they hold too many slots,
//! and at the end.

use crate::binding::Bindings;
use crate::by_space::{self, BySpace};
use crate::halves;
use crate::ledger::Reason;
use crate::options::CountOptions;
use crate::path_table::PathTable;
use crate::programs::SumsOf;
use crate::resolve::{Rules, Sums};
use crate::traces::{Trace, TraceTable};
use address_spaces::Clock;
use address_spaces::Timeline;
use crossbeam_channel::{Receiver, Sender};
use perfdata::{Chunk, FastSample, Input, LayoutTable, RawRecord, raw_records};

/// What all workers see.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'t> {
    pub input: &'t Input,
    pub timeline: &'t Timeline,
    pub bindings: &'t Bindings<'t>,
    pub options: CountOptions,
    pub clock: Clock,
    /// Position at which each stream begins.
    pub bases: &'t [u64],
    /// Whether each program is counted for itself.
    pub apart: bool,
}

impl<'t> Shared<'t> {
    /// Empty sums.
    pub fn sums(&self) -> Sums<'t> {
        Sums::new(self.timeline, self.bindings, self.options.rules)
    }
}

/// Counts all samples; `progress` is told the bytes read.
///
/// One thread reads the one stream of a file; the streams of a directory are read by as many
/// threads as there are workers, since expanding compressed records is what takes the time there.
pub(crate) fn count_samples<'t>(
    shared: &Shared<'t>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<SumsOf<'t>, perfdata::Error> {
    let threads = shared.options.threads.max(1);
    let (send, receive) = crossbeam_channel::bounded::<(u64, Chunk)>(threads * 2);
    let (give_back, used) = crossbeam_channel::unbounded::<Vec<u8>>();
    let count = |receive: Receiver<(u64, Chunk)>| {
        let mut worker = Worker::new(shared);
        for (position, chunk) in receive {
            worker.count(position, &chunk);
            // The readers may have stopped already; then nobody needs the buffer.
            let _ = give_back.send(chunk.bytes);
        }
        worker.finish()
    };
    // Workers end when the readers' end of the channel is gone, and readers when the workers' is.
    let read_all = move || {
        let read = |stream| read_stream(shared, stream, &send, &used, progress);
        jobs::try_run(shared.input.stream_count(), threads, read)
    };
    let (counted, ended) = jobs::beside(vec![receive; threads], count, read_all);
    ended?;
    let mut total = SumsOf::new(shared);
    counted.into_iter().for_each(|sums| total.merge(sums));
    Ok(total)
}

/// Hands the chunks of one stream to the workers, each with its position in the recording.
fn read_stream(
    shared: &Shared<'_>,
    stream: usize,
    send: &Sender<(u64, Chunk)>,
    used: &Receiver<Vec<u8>>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), perfdata::Error> {
    let mut position = shared.bases.get(stream).copied().unwrap_or(0);
    let mut chunks = shared.input.stream_chunks(stream)?;
    while let Some(chunk) = chunks.next() {
        let chunk = chunk?;
        let bytes = chunk.bytes.len() as u64;
        if send.send((position, chunk)).is_err() {
            break;
        }
        position += bytes;
        progress(bytes);
        // One for one: a reader that took all would keep them from the others.
        used.try_recv().into_iter().for_each(|buffer| chunks.recycle(buffer));
    }
    Ok(())
}

/// Tables of one version of one address space.
#[derive(Default)]
struct Tables {
    traces: TraceTable,
    addresses: TraceTable,
    /// Empty where paths are not asked for.
    paths: PathTable,
    skipped: Skipped,
}

impl by_space::Tables for Tables {
    #[inline(always)]
    fn slots(&self) -> usize {
        self.traces.slots() + self.addresses.slots() + self.paths.slots()
    }
}

struct Worker<'s, 't> {
    shared: &'s Shared<'t>,
    layouts: &'s LayoutTable,
    tables: BySpace<'t, Tables>,
    /// What is of no process that is known.
    rest: Sums<'t>,
    sums: SumsOf<'t>,
}

impl<'s, 't> Worker<'s, 't> {
    fn new(shared: &'s Shared<'t>) -> Self {
        Worker {
            shared,
            layouts: shared.input.layouts(),
            tables: BySpace::new(),
            rest: shared.sums(),
            sums: SumsOf::new(shared),
        }
    }

    fn count(&mut self, position: u64, chunk: &Chunk) {
        for raw in raw_records(&chunk.bytes, chunk.offset, self.shared.input.endian()) {
            if raw.kind == perfdata::kind::SAMPLE {
                self.sample(position.wrapping_add(raw.offset.wrapping_sub(chunk.offset)), &raw);
            }
        }
        if self.tables.is_full() {
            self.translate();
        }
    }

    #[inline]
    fn sample(&mut self, position: u64, raw: &RawRecord<'_>) {
        let parsed = self.layouts.for_sample(raw.body).and_then(|layout| layout.fast(raw));
        let Ok(sample) = parsed else {
            self.rest.ledger.samples.write_off(Reason::Malformed, 1);
            return;
        };
        if self.shared.options.pid.is_some_and(|pid| pid != sample.pid) {
            self.rest.ledger.samples.write_off(Reason::OtherProcess, 1);
            self.rest.note_other_process(sample.pid);
            return;
        }
        let time = if self.shared.clock == Clock::Time { sample.time } else { position };
        let CountOptions { rules, paths, .. } = self.shared.options;
        let half = halves::of(position);
        self.tables.count(self.shared.timeline, (sample.pid, time), |tables| {
            tables.addresses.add_in(sample.ip.0, 0, 0, 0, half);
            let traces = Halved(&mut tables.traces, half);
            let skipped = if paths {
                count_stack(&mut WithPaths(traces, &mut tables.paths), &sample, rules)
            } else {
                count_stack(&mut { traces }, &sample, rules)
            };
            tables.skipped.wrong_path += skipped.wrong_path;
            tables.skipped.duplicates += skipped.duplicates;
        });
    }

    /// Translates all tables into sums of image addresses and empties them.
    fn translate(&mut self) {
        for (spaces, tables) in self.tables.drain() {
            let sums = self.sums.of(spaces);
            sums.add_halved_samples(spaces, tables.addresses.iter_halves());
            sums.add_halved_traces(spaces, tables.traces.iter_halves());
            sums.add_paths(spaces, tables.paths.iter());
            let Skipped { wrong_path, duplicates } = tables.skipped;
            sums.ledger.branches.write_off(Reason::WrongPath, wrong_path);
            sums.ledger.branches.write_off(Reason::DuplicateEntry, duplicates);
        }
    }

    fn finish(mut self) -> SumsOf<'t> {
        self.translate();
        self.sums.rest().merge(self.rest);
        self.sums
    }
}

/// Entries of one stack that were not counted.
#[derive(Default)]
struct Skipped {
    wrong_path: u64,
    duplicates: u64,
}

/// Distance from which on create_llvm_prof takes an equal newest pair for one entry written twice.
const AUTOFDO_STRIDE_BYTES: u64 = 0x1000;

#[inline(always)]
fn count_stack(tables: &mut impl Entries, sample: &FastSample<'_>, rules: Rules) -> Skipped {
    let next = (Trace::NONE.0, Trace::NONE.0);
    let mut stack = StackCounter { next, newest: None, skipped: Skipped::default(), rules };
    match sample.branches.raw_entries() {
        Some(entries) => {
            entries.iter().for_each(|&[from, to, flags]| stack.entry(tables, from, to, flags))
        }
        None => {
            sample.branches.iter().for_each(|e| stack.entry(tables, e.from.0, e.to.0, e.flags.0))
        }
    }
    stack.skipped
}

/// Where the entries of a stack are counted.
trait Entries {
    /// Counts a branch and the next newer one, whose ends are [`Trace::NONE`] where there is none.
    fn entry(&mut self, from: u64, to: u64, next: (u64, u64), mispredicted: u64);
}

/// Counts traces, each in its sample's half (1: the first).
struct Halved<'t>(&'t mut TraceTable, u64);

impl Entries for Halved<'_> {
    #[inline(always)]
    fn entry(&mut self, from: u64, to: u64, next: (u64, u64), mispredicted: u64) {
        self.0.add_in(from, to, next.0, mispredicted, self.1);
    }
}

/// Counts paths beside traces.
struct WithPaths<'t>(Halved<'t>, &'t mut PathTable);

impl Entries for WithPaths<'_> {
    #[inline(always)]
    fn entry(&mut self, from: u64, to: u64, next: (u64, u64), mispredicted: u64) {
        self.0.entry(from, to, next, mispredicted);
        if next.0 != Trace::NONE.0 {
            self.1.add(from, to, next.0, next.1);
        }
    }
}

/// Walks one stack, newest entry first.
struct StackCounter {
    /// Source and target of the next newer entry.
    next: (u64, u64),
    newest: Option<(u64, u64)>,
    skipped: Skipped,
    rules: Rules,
}

impl StackCounter {
    #[inline(always)]
    fn entry(&mut self, tables: &mut impl Entries, from: u64, to: u64, flags: u64) {
        // perf_event.h: bit 0 mispredicted, bits 24 and 25 speculation, 1 = executed on the wrong
        // path.
        if (flags >> 24) & 3 == 1 && matches!(self.rules, Rules::Auto | Rules::Autofdo) {
            self.skipped.wrong_path += 1;
            if self.rules == Rules::Autofdo && self.next.0 != Trace::NONE.0 {
                self.next = (from, to);
            }
            return;
        }
        if self.rules == Rules::Autofdo && self.autofdo_duplicate(from, to) {
            self.skipped.duplicates += 1;
            return;
        }
        tables.entry(from, to, self.next, flags & 1);
        self.next = (from, to);
    }

    fn autofdo_duplicate(&mut self, from: u64, to: u64) -> bool {
        match self.newest {
            None => {
                self.newest = Some((from, to));
                false
            }
            // Only the second entry is ever compared.
            Some(newest) => {
                self.newest = Some((u64::MAX, u64::MAX));
                newest == (from, to) && from.wrapping_sub(to) > AUTOFDO_STRIDE_BYTES
            }
        }
    }
}
