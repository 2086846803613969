//! A whole recording: records fed to the pairing in time order, sums by thread and by stack.

use crate::error::Error;
use crate::frames::Stacks;
use crate::pairing::{Ended, Ledger, Pairing, Reason, StackId};
use calltrees::KernelSymbols;
use perfdata::{
    DeferredChains, EventAttr, Input, OrderOptions, Record, Sample, SampleId, Words, sample_type,
};
use rustc_hash::FxHashMap;

/// `type` of software events, and their `config` (`include/uapi/linux/perf_event.h`).
const SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;
const TASK_CLOCK: u64 = 1;
const CONTEXT_SWITCHES: u64 = 3;

/// A switch takes a few microseconds, more with sampling and in virtual machines.
const LONGEST_SWITCH_NS: u64 = 20_000;

/// How often and how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Waits whose begin and end were seen.
    pub count: u64,
    /// Their time together, in ns.
    pub total_ns: u64,
    /// The longest, in ns.
    pub longest_ns: u64,
}

impl Waits {
    fn add(&mut self, time_ns: u64) {
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(time_ns);
        self.longest_ns = self.longest_ns.max(time_ns);
    }
}

/// Where time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// On a CPU, in ns: of threads between switches, of stacks by samples of a clock.
    pub cpu_ns: u64,
    /// Off the CPU, waiting for something.
    pub synchronization: Waits,
    /// Off the CPU, though able to run.
    pub preemption: Waits,
}

impl Times {
    /// Off the CPU, in ns.
    pub fn waited_ns(&self) -> u64 {
        self.synchronization.total_ns.saturating_add(self.preemption.total_ns)
    }

    fn wait(&mut self, reason: Reason, time_ns: u64) {
        match reason {
            Reason::Synchronization => self.synchronization.add(time_ns),
            Reason::Preemption => self.preemption.add(time_ns),
        }
    }
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadRow {
    /// Its process; none where no record says it.
    pub pid: Option<i32>,
    /// Its number.
    pub tid: i32,
    /// Its last name.
    pub name: String,
    /// Switch-outs because it waited for something, paired or not.
    pub voluntary: u64,
    /// Switch-outs though it could have run on, paired or not.
    pub preempted: u64,
    /// Where its time went.
    pub times: Times,
}

/// A stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackRow {
    /// Its frames by name, innermost first; `None`: waits without a sample.
    pub frames: Option<Vec<String>>,
    /// Where its time went.
    pub times: Times,
}

/// What became of the call chains of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chains {
    /// Frames without a frame pointer that were found by unwinding.
    pub unwound_frames: u64,
    /// Chains that lack a caller, since its callee has no frame pointer and could not be unwound.
    pub incomplete: u64,
    /// Chains whose user part the kernel deferred.
    pub deferred: u64,
    /// Of which the user part is not in the recording.
    pub deferred_missing: u64,
}

/// What a recording's switches say.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// Of all threads.
    pub totals: Times,
    /// By waited time, longest first.
    pub threads: Vec<ThreadRow>,
    /// By waited time, longest first.
    pub stacks: Vec<StackRow>,
    /// Whether samples tell which stacks waited.
    pub has_stacks: bool,
    /// Whether samples of a clock tell which stacks ran.
    pub has_clock: bool,
    /// From the first to the last switch, in ns.
    pub span_ns: u64,
    /// What was not paired.
    pub ledger: Ledger,
    /// Switches without a thread or a time, and damaged records.
    pub unreadable: u64,
    /// The recording is cut off, or its end is damaged.
    pub truncated: bool,
    /// Records that the recorder could not take.
    pub lost: u64,
    /// What became of the call chains of samples.
    pub chains: Chains,
    /// From switch-outs to the next switch-in on the same CPU, where one follows at once, in ns:
    /// the switches themselves, which the scheduler counts as CPU time.
    pub switching_ns: u64,
    /// Files whose names could not be used: gone, or changed since. Sorted.
    pub unusable_files: Vec<String>,
}

/// Reads a recording's switches and pairs them. `kernel` names the kernel's functions, when it is
/// still the recorded one.
pub fn analyse(input: &Input, kernel: Option<&KernelSymbols>) -> Result<Analysis, Error> {
    let mut reading = Reading {
        attrs: input.attrs(),
        stacks: Stacks::new(kernel),
        pairing: Pairing::default(),
        threads: FxHashMap::default(),
        ended: Vec::new(),
        by_stack: FxHashMap::default(),
        totals: Times::default(),
        span: None,
        unreadable: 0,
        lost: 0,
        lost_samples: 0,
        deferred: DeferredChains::read(input)?,
        chains: Chains::default(),
        left: FxHashMap::default(),
        switching_ns: 0,
    };
    let mut ordered = input.ordered(OrderOptions::default())?;
    while let Some(record) = ordered.next() {
        match record?.parse() {
            Ok((record, id)) => reading.record(&record, &id),
            Err(_) => reading.unreadable += 1,
        }
    }
    reading.finish(ordered.stats().truncated())
}

struct Reading<'i, 'k> {
    attrs: &'i [EventAttr],
    stacks: Stacks<'k>,
    pairing: Pairing,
    threads: FxHashMap<i32, ThreadRow>,
    /// Threads whose numbers may be another's by now.
    ended: Vec<ThreadRow>,
    by_stack: FxHashMap<Option<StackId>, Times>,
    totals: Times,
    span: Option<(u64, u64)>,
    unreadable: u64,
    lost: u64,
    lost_samples: u64,
    deferred: DeferredChains,
    chains: Chains,
    /// When the last thread went off a CPU that no other has come onto since.
    left: FxHashMap<u32, u64>,
    switching_ns: u64,
}

impl Reading<'_, '_> {
    fn record(&mut self, record: &Record<'_>, id: &SampleId) {
        self.stacks.note(record);
        match record {
            Record::Fork(task) => {
                let name = self.threads.get(&task.parent_tid).map(|thread| thread.name.clone());
                self.pairing.begins(task.tid);
                self.ended.extend(self.threads.remove(&task.tid));
                let thread = self.thread(task.tid, Some(task.pid));
                thread.name = name.unwrap_or_default();
            }
            Record::Comm { pid, tid, exec, name } => {
                if *exec && let Some(time) = id.time {
                    self.pairing.runs(*tid, time);
                }
                self.thread(*tid, Some(*pid)).name = String::from_utf8_lossy(name).into_owned();
            }
            Record::Exit(task) => {
                let ended = self.pairing.exit(task.tid, task.time);
                self.ended(task.tid, ended);
            }
            Record::Switch { out, preempt } | Record::SwitchCpuWide { out, preempt, .. } => {
                self.switch(id, *out, *preempt);
            }
            Record::Sample(sample) => self.sample(sample),
            // The kernel's own notes count all records, and its recorder's count the samples among
            // them.
            Record::Lost { lost, .. } => self.lost += lost,
            Record::LostSamples { lost } => self.lost_samples += lost,
            _ => {}
        }
    }

    fn thread(&mut self, tid: i32, pid: Option<i32>) -> &mut ThreadRow {
        let new = || ThreadRow {
            pid,
            tid,
            name: String::new(),
            voluntary: 0,
            preempted: 0,
            times: Times::default(),
        };
        let thread = self.threads.entry(tid).or_insert_with(new);
        thread.pid = thread.pid.or(pid);
        thread
    }

    fn switch(&mut self, id: &SampleId, out: bool, preempt: bool) {
        let (Some(tid), Some(time)) = (id.tid, id.time) else {
            self.unreadable += 1;
            return;
        };
        let (first, last) = self.span.unwrap_or((time, time));
        self.span = Some((first.min(time), last.max(time)));
        self.between(id.cpu, time, out);
        // The idle tasks are 0, and threads that gave their number back -1.
        if tid > 0 {
            let thread = self.thread(tid, id.pid);
            thread.voluntary += u64::from(out && !preempt);
            thread.preempted += u64::from(out && preempt);
        }
        let ended = if out {
            self.pairing.switch_out(tid, time, preempt)
        } else {
            self.pairing.switch_in(tid, time)
        };
        self.ended(tid, ended);
    }

    /// Sums up the time of switches from one recorded thread to the next on a CPU. The records lie
    /// on both sides of it.
    fn between(&mut self, cpu: Option<u32>, time: u64, out: bool) {
        let Some(cpu) = cpu else { return };
        if out {
            self.left.insert(cpu, time);
        } else if let Some(since) = self.left.remove(&cpu) {
            // Longer than that the CPU was idle, or ran threads that are not recorded.
            let took = time.saturating_sub(since);
            self.switching_ns += if took <= LONGEST_SWITCH_NS { took } else { 0 };
        }
    }

    fn ended(&mut self, tid: i32, ended: Ended) {
        match ended {
            Ended::Nothing => {}
            Ended::Run(time_ns) => {
                self.thread(tid, None).times.cpu_ns += time_ns;
                self.totals.cpu_ns += time_ns;
            }
            Ended::Wait(wait) => {
                let time_ns = wait.end_ns.saturating_sub(wait.start_ns);
                self.thread(tid, None).times.wait(wait.reason, time_ns);
                self.by_stack.entry(wait.stack).or_default().wait(wait.reason, time_ns);
                self.totals.wait(wait.reason, time_ns);
            }
        }
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        let Some(attr) = self.attrs.get(sample.attr_index as usize) else { return };
        let (Some(pid), Some(tid)) = (sample.pid, sample.tid) else { return };
        if attr.kind != SOFTWARE {
            return;
        }
        match (attr.config, &sample.callchain) {
            (CONTEXT_SWITCHES, Some(chain)) => {
                let stack = self.stack(pid, tid, chain, sample);
                self.pairing.sample(tid, stack);
            }
            (CPU_CLOCK | TASK_CLOCK, Some(chain)) if tid != 0 => {
                let stack = self.stack(pid, tid, chain, sample);
                let times = self.by_stack.entry(Some(stack)).or_default();
                times.cpu_ns =
                    times.cpu_ns.saturating_add(sample.period.unwrap_or(attr.period_or_freq));
            }
            _ => {}
        }
    }

    /// The stack of a sample, with the user part that came later.
    fn stack(&mut self, pid: i32, tid: i32, chain: &Words<'_>, sample: &Sample<'_>) -> StackId {
        let whole = self.deferred.whole(tid, chain);
        self.chains.deferred += u64::from(whole.deferred);
        self.chains.deferred_missing += u64::from(whole.missing);
        self.stacks.id(pid, whole.words, sample)
    }

    fn finish(mut self, truncated: bool) -> Result<Analysis, Error> {
        let ledger = self.pairing.finish();
        if ledger.outs + ledger.ins == 0 {
            return Err(Error::NoSwitches);
        }
        let switched = |thread: &ThreadRow| {
            thread.voluntary + thread.preempted > 0 || thread.times != Times::default()
        };
        let mut threads: Vec<ThreadRow> =
            self.ended.into_iter().chain(self.threads.into_values()).filter(switched).collect();
        threads.sort_by_key(|thread| {
            (std::cmp::Reverse(thread.times.waited_ns()), thread.tid, thread.pid)
        });
        let stacks = &self.stacks;
        let row = |(id, times): (Option<StackId>, Times)| StackRow {
            frames: id.map(|id| stacks.frames(id).to_vec()),
            times,
        };
        let mut rows: Vec<StackRow> = self.by_stack.drain().map(row).collect();
        rows.sort_by(|one, other| {
            let key = |row: &StackRow| {
                (std::cmp::Reverse(row.times.waited_ns()), std::cmp::Reverse(row.times.cpu_ns))
            };
            key(one).cmp(&key(other)).then_with(|| one.frames.cmp(&other.frames))
        });
        let mut unusable_files: Vec<String> = self.stacks.unusable.drain().collect();
        unusable_files.sort();
        let chains = |config: &[u64]| {
            self.attrs.iter().any(|attr| {
                attr.kind == SOFTWARE
                    && config.contains(&attr.config)
                    && attr.sample_type & sample_type::CALLCHAIN != 0
            })
        };
        Ok(Analysis {
            totals: self.totals,
            threads,
            stacks: rows,
            has_stacks: chains(&[CONTEXT_SWITCHES]),
            has_clock: chains(&[CPU_CLOCK, TASK_CLOCK]),
            span_ns: self.span.map_or(0, |(first, last)| last - first),
            ledger,
            unreadable: self.unreadable,
            truncated,
            lost: self.lost.max(self.lost_samples),
            chains: Chains {
                unwound_frames: self.stacks.unwound_frames,
                incomplete: self.stacks.incomplete_chains,
                ..self.chains
            },
            switching_ns: self.switching_ns,
            unusable_files,
        })
    }
}
