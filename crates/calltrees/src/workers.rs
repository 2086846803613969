//! The second pass over a recording: samples, counted on worker threads by distinct call chain.
//!
//! With the whole timeline known, no order among chunks is needed.

use crate::branch_chain::{self, BranchKinds};
use crate::distinct::{Distinct, Weight, Who};
use crate::dumped::{Dumps, Held};
use crate::files::Files;
use crate::handing::{self, Handed};
use crate::marks::{self, Owner};
use crate::sideband::ThreadNames;
use crate::switching::{Reason, Running, Switching, Wakes};
use crate::times::Blocks;
use crate::unwinding::{Frames, Unwinder};
use address_spaces::{Clock, SpaceRef, Timeline};
use perfdata::{ChainSample, Chunk, DeferredChains, Input, RawRecord, SampleLayout, raw_records};

/// What all workers see.
pub(crate) struct Shared<'t> {
    pub input: &'t Input,
    pub timeline: &'t Timeline,
    pub names: &'t ThreadNames,
    pub deferred: &'t DeferredChains,
    pub dumps: &'t Dumps,
    pub files: &'t Files<'t>,
    pub clock: Clock,
    /// Position at which each stream begins.
    pub bases: &'t [u64],
    /// What a sample without a period stands for, by event.
    pub periods: Vec<u64>,
    pub branch_callers: bool,
    pub keep: &'t (dyn Fn(&ChainSample<'_>) -> bool + Sync),
    /// The events that are taken at each switch.
    pub at_switches: Vec<bool>,
    /// The events that are wake-ups.
    pub wakes: Wakes,
    /// How many threads ran when, if samples of time weigh only their share of the run's length.
    pub running: Option<Running>,
    pub blocks: Option<Blocks>,
}

impl Shared<'_> {
    /// The number of the event that the waits for a reason are: behind those of the recording.
    pub(crate) fn off_cpu(&self, reason: Reason) -> u32 {
        let behind = Reason::ALL.iter().position(|one| *one == reason).unwrap_or(0);
        (self.input.attrs().len() + behind) as u32
    }

    /// Whether a sample was taken at a switch.
    #[inline]
    pub(crate) fn is_switch(&self, sample: &ChainSample<'_>) -> bool {
        self.at_switches.get(sample.attr_index as usize).is_some_and(|is_it| *is_it)
    }

    /// What a sample weighs.
    #[inline]
    pub(crate) fn period(&self, sample: &ChainSample<'_>) -> u64 {
        let usual = || self.periods.get(sample.attr_index as usize).copied().unwrap_or(1);
        let period = sample.period.unwrap_or_else(usual);
        let share = |running: &Running| running.share(sample.attr_index, sample.time, period);
        self.running.as_ref().map_or(period, share)
    }
}

/// What workers bring home.
#[derive(Default)]
pub(crate) struct Counted {
    pub chains: Distinct,
    /// Samples that were read.
    pub samples: u64,
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
        self.samples += other.samples;
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
    switching: Option<&Switching>,
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Counted, perfdata::Error> {
    let work = |handed: Handed| {
        let mut worker = Worker::new(shared, switching);
        handed.each(|stream, position, chunk| {
            let base = shared.bases.get(stream).copied().unwrap_or(0);
            worker.chunk(base.saturating_add(position), chunk);
        });
        worker.out
    };
    let (counted, _) = handing::to_workers(shared.input, threads, progress, work)?;
    let mut parts = counted.into_iter();
    let mut total = parts.next().unwrap_or_default();
    parts.for_each(|part| total.merge(&part));
    unsampled(shared, switching, &mut total);
    Ok(total)
}

/// Waits that no sample began have a stack that says so.
fn unsampled(shared: &Shared<'_>, switching: Option<&Switching>, total: &mut Counted) {
    let intervals = switching.into_iter().flat_map(|switching| &switching.intervals);
    for interval in intervals.filter(|interval| interval.wait.sample_ns.is_none()) {
        let wait = interval.wait;
        let who = |reason| Who {
            event: shared.off_cpu(reason),
            pid: interval.pid,
            tid: wait.tid,
            name: shared.names.at(wait.tid, wait.start_ns).0,
            version: 0,
            block: shared.blocks.map_or(0, |blocks| blocks.at(Some(wait.start_ns))),
            cgroup: 0,
        };
        for (reason, ns) in wait.parts() {
            total.chains.add(who(reason), &[Owner::NoSample.mark()], Weight::one(ns));
        }
    }
}

/// What held for the last sample, and until when; the next one is mostly of the same thread.
struct Last<'t> {
    tid: i32,
    pid: i32,
    space: SpaceRef<'t>,
    name: u32,
    dump: Option<Held>,
    /// Times at which all of them hold.
    holds: std::ops::Range<u64>,
}

pub(crate) struct Worker<'s, 't> {
    shared: &'s Shared<'t>,
    switching: Option<&'s Switching>,
    last: Option<Last<'t>>,
    /// The chain of the present sample.
    pub words: Vec<u64>,
    unwinder: Unwinder<'t>,
    kinds: BranchKinds<'t>,
    out: Counted,
}

impl<'s, 't> Worker<'s, 't> {
    pub(crate) fn new(shared: &'s Shared<'t>, switching: Option<&'s Switching>) -> Worker<'s, 't> {
        Worker {
            shared,
            switching,
            last: None,
            words: Vec::new(),
            unwinder: Unwinder::new(shared.files),
            kinds: BranchKinds::new(shared.files),
            out: Counted::default(),
        }
    }

    fn chunk(&mut self, position: u64, chunk: &Chunk) {
        for raw in raw_records(&chunk.bytes, chunk.offset, self.shared.input.endian()) {
            if raw.kind == perfdata::kind::SAMPLE {
                self.sample(position.wrapping_add(raw.offset.wrapping_sub(chunk.offset)), &raw);
            }
        }
    }

    #[inline]
    fn sample(&mut self, position: u64, raw: &RawRecord<'_>) {
        self.out.samples += 1;
        let Some((sample, who)) = self.stack_of(position, raw) else { return };
        let weight = Weight::one(self.shared.period(&sample));
        self.out.without_chain += u64::from(self.words.len() <= 2);
        self.out.chains.add(who, &self.words, weight);
        if self.shared.is_switch(&sample) {
            self.wait(who, &sample);
        }
    }

    /// Puts the stack of a sample into `words`, with marks, and says whose it is; none where it does
    /// not count.
    #[inline]
    pub(crate) fn stack_of<'r>(
        &mut self,
        position: u64,
        raw: &RawRecord<'r>,
    ) -> Option<(ChainSample<'r>, Who)> {
        let layouts = self.shared.input.layouts();
        let parsed = layouts.for_sample(raw.body).and_then(|layout| {
            let sample = layout.chain(raw)?;
            Ok((sample, layout))
        });
        let Ok((sample, layout)) = parsed else {
            self.out.malformed += 1;
            return None;
        };
        if !(self.shared.keep)(&sample) {
            self.out.filtered += 1;
            return None;
        }
        let time = match self.shared.clock {
            Clock::Time => sample.time.unwrap_or(0),
            Clock::Position => position,
        };
        sample.time.into_iter().for_each(|time| self.out.seen(time));
        let (space, name, dump) = self.context(sample.pid, sample.tid, time);
        if !self.chain(&sample) {
            self.out.without_address += 1;
            return None;
        }
        let code = (sample.pid, space);
        if let Some(frames) = self.branch_callers(layout, raw, code) {
            self.out.frames.add(frames);
        } else if layout.has_stack_copies() {
            match layout.parse(raw) {
                Ok(whole) => {
                    self.out.frames.add(self.unwinder.complete(&mut self.words, &whole, code));
                }
                Err(_) => {
                    self.out.malformed += 1;
                    return None;
                }
            }
        } else if sample.callchain.is_some() {
            self.out.frames.add(self.unwinder.mark_missing(&mut self.words, code));
        }
        if let Some(held) = dump {
            let dumps = self.shared.dumps;
            marks::replace_user(&mut self.words, |address| dumps.word(held, address, time));
        }
        let who = Who {
            event: sample.attr_index,
            pid: sample.pid,
            tid: sample.tid,
            name,
            version: space.same,
            block: self.shared.blocks.map_or(0, |blocks| blocks.at(sample.time)),
            cgroup: sample.cgroup.unwrap_or(0),
        };
        Some((sample, who))
    }

    /// Takes the callers of the user's part from the branch stack, if it is one of calls alone, or
    /// the sample has no callers and they are asked for; none where they are not.
    #[inline]
    fn branch_callers(
        &mut self,
        layout: &SampleLayout,
        raw: &RawRecord<'_>,
        code: (i32, SpaceRef<'t>),
    ) -> Option<Frames> {
        if !layout.has_branch_stacks() {
            return None;
        }
        let is_call_stack = layout.has_call_stacks();
        // A mark and the innermost address.
        let has_callers = self.words.len() > 2;
        if !is_call_stack
            && (has_callers || !self.shared.branch_callers || !layout.has_all_branches())
        {
            return None;
        }
        let branches = layout.fast(raw).ok()?.branches;
        if branches.is_empty() {
            return None;
        }
        let callers = match is_call_stack {
            true => branch_chain::call_stack(&branches),
            false => self.kinds.callers(code, &branches),
        };
        branch_chain::replace_callers(&mut self.words, &callers, branches.get(0));
        let outermost = callers.last().copied();
        let whole = outermost.is_some_and(|from| self.unwinder.begins_thread(code, from));
        if !whole {
            self.words.push(Owner::Missing.mark());
        }
        let cut = u64::from(!whole);
        Some(Frames { cut, short_branches: cut, ..Frames::default() })
    }

    /// The wait that a sample began weighs as much as it was long, its time in the run queue apart.
    fn wait(&mut self, who: Who, sample: &ChainSample<'_>) {
        let began = |time| self.switching?.began_with(sample.tid, time);
        if let Some(interval) = sample.time.and_then(began) {
            for (reason, ns) in interval.wait.parts() {
                let who = Who { event: self.shared.off_cpu(reason), ..who };
                self.out.chains.add(who, &self.words, Weight::one(ns));
            }
        }
    }

    /// The address space of a process, the name of its thread and its dump at a time.
    #[inline]
    fn context(&mut self, pid: i32, tid: i32, time: u64) -> (SpaceRef<'t>, u32, Option<Held>) {
        let known = self
            .last
            .as_ref()
            .is_some_and(|last| (last.pid, last.tid) == (pid, tid) && last.holds.contains(&time));
        if !known {
            let space = self.shared.timeline.space(pid, time);
            let (name, until) = self.shared.names.at(tid, time);
            let (dump, dump_until) = self.shared.dumps.at(pid, time);
            let holds = time..space.until.min(until).min(dump_until);
            self.last = Some(Last { tid, pid, space, name, dump, holds });
        }
        match &self.last {
            Some(last) => (last.space, last.name, last.dump),
            None => (self.shared.timeline.space(pid, time), 0, None),
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
