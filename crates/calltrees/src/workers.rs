//! The second pass over a recording: samples, counted on worker threads by distinct call chain.
//!
//! With the whole timeline known, no order among chunks is needed.

use crate::distinct::{Distinct, Weight, Who};
use crate::files::Files;
use crate::marks::Owner;
use crate::sideband::ThreadNames;
use crate::switching::{Reason, Switching};
use crate::times::Blocks;
use crate::unwinding::{Frames, Unwinder};
use address_spaces::{Clock, SpaceRef, Timeline};
use crossbeam_channel::{Receiver, Sender};
use perfdata::{ChainSample, Chunk, DeferredChains, Input, RawRecord, raw_records};

/// What all workers see.
pub(crate) struct Shared<'t> {
    pub input: &'t Input,
    pub timeline: &'t Timeline,
    pub names: &'t ThreadNames,
    pub deferred: &'t DeferredChains,
    pub files: &'t Files<'t>,
    pub clock: Clock,
    /// Position at which each stream begins.
    pub bases: &'t [u64],
    /// What a sample without a period stands for, by event.
    pub periods: Vec<u64>,
    pub keep: &'t (dyn Fn(&ChainSample<'_>) -> bool + Sync),
    /// The events that are taken at each switch.
    pub at_switches: Vec<bool>,
    pub switching: Option<&'t Switching>,
    pub blocks: Option<Blocks>,
}

impl Shared<'_> {
    /// The number of the event that the waits for a reason are: behind those of the recording.
    pub(crate) fn off_cpu(&self, reason: Reason) -> u32 {
        let behind = Reason::ALL.iter().position(|one| *one == reason).unwrap_or(0);
        (self.input.attrs().len() + behind) as u32
    }
}

/// What workers bring home.
#[derive(Default)]
pub(crate) struct Counted {
    pub chains: Distinct,
    /// Samples that the filter left out.
    pub filtered: u64,
    /// Samples whose record is damaged.
    pub malformed: u64,
    /// Samples without an address.
    pub without_address: u64,
    /// Samples with nothing but the sampled address.
    pub without_chain: u64,
    pub deferred: u64,
    pub deferred_missing: u64,
    pub frames: Frames,
    /// First and last time of a sample, in ns.
    pub span: Option<(u64, u64)>,
}

impl Counted {
    fn merge(&mut self, other: &Counted) {
        self.chains.merge(&other.chains);
        self.filtered += other.filtered;
        self.malformed += other.malformed;
        self.without_address += other.without_address;
        self.without_chain += other.without_chain;
        self.deferred += other.deferred;
        self.deferred_missing += other.deferred_missing;
        self.frames.add(other.frames);
        other.span.into_iter().for_each(|(first, last)| {
            self.seen(first);
            self.seen(last);
        });
    }

    fn seen(&mut self, time: u64) {
        let (first, last) = self.span.unwrap_or((time, time));
        self.span = Some((first.min(time), last.max(time)));
    }
}

/// Counts all samples; `progress` is told the bytes read.
pub(crate) fn count(
    shared: &Shared<'_>,
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Counted, perfdata::Error> {
    let threads = threads.max(1);
    let (send, receive) = crossbeam_channel::bounded::<(u64, Chunk)>(threads * 2);
    let (give_back, used) = crossbeam_channel::unbounded::<Vec<u8>>();
    let work = |receive: Receiver<(u64, Chunk)>| {
        let mut worker = Worker {
            shared,
            last: None,
            words: Vec::new(),
            unwinder: Unwinder::new(shared.files),
            out: Counted::default(),
        };
        for (position, chunk) in receive {
            worker.chunk(position, &chunk);
            // The readers may have stopped already; then nobody needs the buffer.
            let _ = give_back.send(chunk.bytes);
        }
        worker.out
    };
    // Workers end when the readers' end of the channel is gone, and readers when the workers' is.
    let read_all = move || {
        let read = |stream| read_stream(shared, stream, &send, &used, progress);
        jobs::try_run(shared.input.stream_count(), threads, read)
    };
    let (counted, ended) = jobs::beside(vec![receive; threads], work, read_all);
    ended?;
    let mut parts = counted.into_iter();
    let mut total = parts.next().unwrap_or_default();
    parts.for_each(|part| total.merge(&part));
    unsampled(shared, &mut total);
    Ok(total)
}

/// Waits that no sample began have a stack that says so.
fn unsampled(shared: &Shared<'_>, total: &mut Counted) {
    let intervals = shared.switching.into_iter().flat_map(|switching| &switching.intervals);
    for interval in intervals.filter(|interval| interval.wait.sample_ns.is_none()) {
        let wait = interval.wait;
        let who = Who {
            event: shared.off_cpu(wait.reason),
            pid: interval.pid,
            tid: wait.tid,
            name: shared.names.at(wait.tid, wait.start_ns).0,
            version: 0,
            block: shared.blocks.map_or(0, |blocks| blocks.at(Some(wait.start_ns))),
            cgroup: 0,
        };
        let weight = Weight::one(wait.end_ns.saturating_sub(wait.start_ns));
        total.chains.add(who, &[Owner::NoSample.mark()], weight);
    }
}

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
        used.try_iter().for_each(|buffer| chunks.recycle(buffer));
    }
    Ok(())
}

/// What held for the last sample, and until when; the next one is mostly of the same thread.
struct Last<'t> {
    tid: i32,
    pid: i32,
    space: SpaceRef<'t>,
    name: u32,
    /// Times at which both hold.
    holds: std::ops::Range<u64>,
}

struct Worker<'s, 't> {
    shared: &'s Shared<'t>,
    last: Option<Last<'t>>,
    /// The chain of the present sample.
    words: Vec<u64>,
    unwinder: Unwinder<'t>,
    out: Counted,
}

impl<'t> Worker<'_, 't> {
    fn chunk(&mut self, position: u64, chunk: &Chunk) {
        for raw in raw_records(&chunk.bytes, chunk.offset, self.shared.input.endian()) {
            if raw.kind == perfdata::kind::SAMPLE {
                self.sample(position.wrapping_add(raw.offset.wrapping_sub(chunk.offset)), &raw);
            }
        }
    }

    #[inline]
    fn sample(&mut self, position: u64, raw: &RawRecord<'_>) {
        let layouts = self.shared.input.layouts();
        let parsed = layouts.for_sample(raw.body).and_then(|layout| {
            let sample = layout.chain(raw)?;
            Ok((sample, layout))
        });
        let Ok((sample, layout)) = parsed else {
            self.out.malformed += 1;
            return;
        };
        if !(self.shared.keep)(&sample) {
            self.out.filtered += 1;
            return;
        }
        let time = match self.shared.clock {
            Clock::Time => sample.time.unwrap_or(0),
            Clock::Position => position,
        };
        sample.time.into_iter().for_each(|time| self.out.seen(time));
        let (space, name) = self.context(sample.pid, sample.tid, time);
        if !self.chain(&sample) {
            self.out.without_address += 1;
            return;
        }
        if layout.has_stack_copies() {
            match layout.parse(raw) {
                Ok(whole) => {
                    let code = (sample.pid, space);
                    self.out.frames.add(self.unwinder.complete(&mut self.words, &whole, code));
                }
                Err(_) => {
                    self.out.malformed += 1;
                    return;
                }
            }
        } else if sample.callchain.is_some() {
            let code = (sample.pid, space);
            self.out.frames.add(self.unwinder.mark_missing(&mut self.words, code));
        }
        let who = Who {
            event: sample.attr_index,
            pid: sample.pid,
            tid: sample.tid,
            name,
            version: space.version,
            block: self.shared.blocks.map_or(0, |blocks| blocks.at(sample.time)),
            cgroup: sample.cgroup.unwrap_or(0),
        };
        let usual = self.shared.periods.get(sample.attr_index as usize).copied().unwrap_or(1);
        let weight = Weight::one(sample.period.unwrap_or(usual));
        self.out.without_chain += u64::from(self.words.len() <= 2);
        self.out.chains.add(who, &self.words, weight);
        if self.is_switch(&sample) {
            self.wait(who, &sample);
        }
    }

    #[inline]
    fn is_switch(&self, sample: &ChainSample<'_>) -> bool {
        self.shared.at_switches.get(sample.attr_index as usize).is_some_and(|is_it| *is_it)
    }

    /// The wait that a sample began weighs as much as it was long.
    fn wait(&mut self, who: Who, sample: &ChainSample<'_>) {
        let began = |time| self.shared.switching?.began_with(sample.tid, time);
        if let Some(interval) = sample.time.and_then(began) {
            let wait = interval.wait;
            let who = Who { event: self.shared.off_cpu(wait.reason), ..who };
            let weight = Weight::one(wait.end_ns.saturating_sub(wait.start_ns));
            self.out.chains.add(who, &self.words, weight);
        }
    }

    /// The address space of a process and the name of its thread at a time.
    #[inline]
    fn context(&mut self, pid: i32, tid: i32, time: u64) -> (SpaceRef<'t>, u32) {
        let known = self
            .last
            .as_ref()
            .is_some_and(|last| (last.pid, last.tid) == (pid, tid) && last.holds.contains(&time));
        if !known {
            let space = self.shared.timeline.space(pid, time);
            let (name, until) = self.shared.names.at(tid, time);
            let holds = time..space.until.min(until);
            self.last = Some(Last { tid, pid, space, name, holds });
        }
        match &self.last {
            Some(last) => (last.space, last.name),
            None => (self.shared.timeline.space(pid, time), 0),
        }
    }

    /// Puts the sample's chain into `words`, with marks; false where it has no address at all.
    #[inline]
    fn chain(&mut self, sample: &ChainSample<'_>) -> bool {
        self.words.clear();
        match &sample.callchain {
            Some(chain) if !chain.is_empty() => {
                self.words.extend(chain.iter());
                if self.words.iter().any(|&word| Owner::is_deferred(word)) {
                    let whole = self.shared.deferred.whole(sample.tid, chain);
                    self.out.deferred += u64::from(whole.deferred);
                    self.out.deferred_missing += u64::from(whole.missing);
                    self.words = whole.words;
                }
                self.words.iter().any(|&word| Owner::of_mark(word).is_none())
            }
            _ => {
                let Some(ip) = sample.ip else { return false };
                self.words.extend([Owner::of_mode(sample.cpumode).mark(), ip.0]);
                true
            }
        }
    }
}
