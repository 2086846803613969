//! Context switches of a recording to waits: how long each thread was off its CPU, and why.
//!
//! A thread that goes off its CPU either waits for something (synchronisation: a lock, input, time)
//! or could have run on (preemption). The kernel says which, in the record of the switch. Where the
//! recording also samples the event `context-switches`, the sample just before the switch tells the
//! stack that waits. Where it has wake-ups (`sched:sched_waking`, else `sched:sched_wakeup`), they
//! split the time after the wake-up, in which only a CPU was missing (run queue), from the wait
//! before it, and tell who woke whom ([`wakers`]).
//!
//! The pairing joins switch-outs, samples, wake-ups and switch-ins of each thread and keeps books of
//! what has no partner. The waits are then two or three more events of the recording, each wait a
//! sample of the stack that went off, as heavy as it was long
//! ([`Recorded::events`](crate::Recorded::events)).

mod causes;
mod pairing;
mod reading;
mod rows;
mod running;
mod states;
mod wakers;
mod wakes;

pub use causes::{Cause, cause};
use pairing::{Ended, Pairing};
pub use pairing::{Ledger, Reason, Wait, Woken};
pub(crate) use reading::read;
pub use rows::{StackRow, stack_rows};
pub(crate) use running::Running;
pub use states::{Parts, States, parts};
pub use wakers::{WakerRow, Wakers, wakers};
pub(crate) use wakes::Wakes;

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
    fn add(&mut self, other: Waits) {
        self.count = self.count.saturating_add(other.count);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
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
    /// Off the CPU, after what it waited for had come.
    pub run_queue: Waits,
}

impl Times {
    /// Off the CPU, in ns.
    pub fn waited_ns(&self) -> u64 {
        let (wait, preempted) = (self.synchronization.total_ns, self.preemption.total_ns);
        wait.saturating_add(preempted).saturating_add(self.run_queue.total_ns)
    }

    /// Adds others.
    pub fn add(&mut self, other: &Times) {
        self.cpu_ns = self.cpu_ns.saturating_add(other.cpu_ns);
        self.synchronization.add(other.synchronization);
        self.preemption.add(other.preemption);
        self.run_queue.add(other.run_queue);
    }

    fn of(&mut self, reason: Reason) -> &mut Waits {
        match reason {
            Reason::Synchronization => &mut self.synchronization,
            Reason::Preemption => &mut self.preemption,
            Reason::RunQueue => &mut self.run_queue,
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
    /// Page faults, where the recording samples them: what the samples stand for.
    pub page_faults: u64,
    /// From when until when something is known of it: runs and whole waits.
    pub alive: Option<(u64, u64)>,
    /// The end of the last time that it was seen on a CPU.
    pub ran_until: Option<u64>,
}

impl ThreadRow {
    /// It was there from one time until another.
    fn lived(&mut self, from: u64, to: u64) {
        let (first, last) = self.alive.unwrap_or((from, to));
        self.alive = Some((first.min(from), last.max(to)));
    }
}

/// A wait, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// When, whose and why.
    pub wait: Wait,
    /// The process; −1 where no record says it.
    pub pid: i32,
    /// The processor that the thread went off, where it is recorded.
    pub left_cpu: Option<u32>,
    /// The processor that it came back onto.
    pub came_cpu: Option<u32>,
}

/// What a recording's switches say.
#[derive(Clone, Debug, Default)]
pub struct Switching {
    /// Those that waited longest first; of samples that the filter leaves out nothing is counted.
    pub threads: Vec<ThreadRow>,
    /// Every wait, by thread and in the order in which they began.
    pub intervals: Vec<Interval>,
    /// Whether samples tell which stacks waited.
    pub has_stacks: bool,
    /// Whether samples of a clock tell which stacks ran.
    pub has_clock: bool,
    /// Whether wake-ups are recorded, so that waits for a CPU are known.
    pub has_wakes: bool,
    /// Whether wake-ups are recorded with callers, so that the stacks that woke are known.
    pub has_wakers: bool,
    /// Whether page faults are sampled.
    pub has_page_faults: bool,
    /// From the first to the last switch that counts, in ns.
    pub span_ns: u64,
    /// What was not paired.
    pub ledger: Ledger,
    /// Switches without a thread or a time, and damaged records.
    pub unreadable: u64,
    /// From switch-outs to the next switch-in on the same CPU, where one follows at once, in ns:
    /// the switches themselves, which the scheduler counts as CPU time.
    pub switching_ns: u64,
}

impl Switching {
    /// The waits that a sample began, of a thread and by the time of the sample.
    pub(crate) fn began_with(&self, tid: i32, sample_ns: u64) -> Option<&Interval> {
        // A thread has one sample before each of its waits: both follow one order.
        let key = |interval: &Interval| (interval.wait.tid, interval.wait.start_ns);
        let first = self.intervals.partition_point(|interval| key(interval) < (tid, sample_ns));
        let near = self.intervals.get(first..)?.iter().take_while(|next| next.wait.tid == tid);
        near.take(2).find(|next| next.wait.sample_ns == Some(sample_ns))
    }

    /// The wait of a thread that a wake-up ended, by its time.
    pub(crate) fn ended_by(&self, tid: i32, time_ns: u64) -> Option<&Interval> {
        let key = |interval: &Interval| (interval.wait.tid, interval.wait.start_ns);
        let next = self.intervals.partition_point(|interval| key(interval) <= (tid, time_ns));
        let last = self.intervals.get(next.checked_sub(1)?)?;
        let woken = last.wait.woken.filter(|woken| woken.time_ns == time_ns);
        (last.wait.tid == tid).then_some(last).filter(|_| woken.is_some())
    }
}
