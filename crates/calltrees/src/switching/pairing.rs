//! Which switch-out, sample and switch-in belong together.
//!
//! Input: the switches and samples of all threads, each thread's in time order. The kernel samples
//! `context-switches` just before it records the switch-out, so the last sample of a thread since
//! it came onto its CPU is that of the switch. The next switch-in of the thread ends the wait.
//! Invariant: what entered is what was used plus what the ledger names. Cost: a table look-up a
//! record. Source: `perf_event_task_sched_out` (`include/linux/perf_event.h`).

use rustc_hash::FxHashMap;

/// Why a thread was off its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It waited for something: a lock, input, a time.
    Synchronization,
    /// It could have run on, and another ran instead.
    Preemption,
    /// What it waited for had come, and no CPU was free for it yet. Wake-ups tell this part of a
    /// synchronisation wait.
    RunQueue,
}

/// A time off the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The thread.
    pub tid: i32,
    /// Why it went off: synchronisation or preemption.
    pub reason: Reason,
    /// The time of the sample that tells the stack that it went off with, where there is one.
    pub sample_ns: Option<u64>,
    /// When it went off, in ns of the recording's clock.
    pub start_ns: u64,
    /// When what it waited for had come and it could run again, if a wake-up tells.
    pub woken: Option<Woken>,
    /// When it came back.
    pub end_ns: u64,
}

/// The end of a wait for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woken {
    /// When, in ns of the recording's clock.
    pub time_ns: u64,
    /// The thread that was on the CPU where the wake-up came from: the one that woke, unless an
    /// interrupt did; 0: the idle task.
    pub by: i32,
}

impl Wait {
    /// How long it was off the CPU, in ns.
    pub fn whole_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Its parts in order, each with what it waited for and for how long in ns: two where a wake-up
    /// tells the run queue's share, else one.
    pub fn parts(&self) -> impl Iterator<Item = (Reason, u64)> + use<> {
        let ready = self.woken.map(|woken| self.end_ns.saturating_sub(woken.time_ns));
        let own = self.whole_ns().saturating_sub(ready.unwrap_or(0));
        let queue = ready.map(|ready| (Reason::RunQueue, ready));
        [(self.reason, own)].into_iter().chain(queue)
    }
}

/// What a switch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A time on the CPU, of so many ns.
    Run(u64),
    /// A time off the CPU.
    Wait(Wait),
    /// Nothing whose begin was seen.
    Nothing,
}

/// Books of what was paired and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Switch-outs.
    pub outs: u64,
    /// Switch-outs that began a wait whose end was seen.
    pub outs_paired: u64,
    /// Of the idle task, which waits for nothing.
    pub outs_idle: u64,
    /// Followed by another switch-out of the same thread: the switch-in between is missing.
    pub outs_without_in: u64,
    /// The thread ended before it came back.
    pub outs_at_exit: u64,
    /// Still off the CPU at the end of the recording.
    pub outs_at_end: u64,
    /// Switch-ins.
    pub ins: u64,
    /// Switch-ins that ended a wait.
    pub ins_paired: u64,
    /// Of the idle task.
    pub ins_idle: u64,
    /// The first of a thread: what it did before is not recorded, or it was just made; or of one
    /// that has no number any more.
    pub ins_first: u64,
    /// Preceded by another switch-in of the same thread: the switch-out between is missing.
    pub ins_without_out: u64,
    /// Samples of context switches.
    pub samples: u64,
    /// Samples whose stack a switch-out took.
    pub samples_paired: u64,
    /// Of the idle task.
    pub samples_idle: u64,
    /// Followed by another sample, a switch-in or the thread's or recording's end before any
    /// switch-out.
    pub samples_without_out: u64,
    /// Waits with both ends and no sample: only their time is known.
    pub waits_without_stack: u64,
    /// Wake-ups of threads.
    pub wakes: u64,
    /// Wake-ups that ended a wait for something.
    pub wakes_paired: u64,
    /// Of threads that ran, had been woken already, or could run.
    pub wakes_needless: u64,
    /// Of threads whose switches are not recorded.
    pub wakes_of_others: u64,
    /// Waits for something with both ends and no wake-up, of recordings that have some: their share
    /// of the run queue is not known.
    pub waits_without_wake: u64,
}

impl Ledger {
    /// Whether what entered is what was used plus what is named.
    pub fn balances(&self) -> bool {
        let outs = self.outs_paired
            + self.outs_idle
            + self.outs_without_in
            + self.outs_at_exit
            + self.outs_at_end;
        let ins = self.ins_paired + self.ins_idle + self.ins_first + self.ins_without_out;
        let samples = self.samples_paired + self.samples_idle + self.samples_without_out;
        let wakes = self.wakes_paired + self.wakes_needless + self.wakes_of_others;
        (outs, ins, samples, wakes) == (self.outs, self.ins, self.samples, self.wakes)
            && self.outs_paired == self.ins_paired
    }

    /// What a thread leaves open.
    fn close(&mut self, thread: &Thread) {
        if matches!(thread.place, Place::Off { .. }) {
            let reason = if thread.exited { &mut self.outs_at_exit } else { &mut self.outs_at_end };
            *reason += 1;
        }
        self.samples_without_out += u64::from(thread.sampled.is_some());
    }
}

#[derive(Clone, Copy, Default)]
enum Place {
    #[default]
    Unknown,
    On {
        since: u64,
    },
    Off {
        since: u64,
        reason: Reason,
        sample_ns: Option<u64>,
        woken: Option<Woken>,
    },
}

#[derive(Clone, Copy, Default)]
struct Thread {
    place: Place,
    /// The sample of a switch that has not yet come.
    sampled: Option<u64>,
    /// It ended; in recordings of whole CPUs its last switch-out comes after that.
    exited: bool,
}

/// Joins the records of all threads.
#[derive(Default)]
pub struct Pairing {
    threads: FxHashMap<i32, Thread>,
    ledger: Ledger,
}

/// The idle tasks of all CPUs have this number.
const IDLE: i32 = 0;

/// Whether a record is of a thread that has already given its number back, which the kernel then
/// writes as -1.
fn is_gone(tid: i32) -> bool {
    tid < 0
}

impl Pairing {
    /// A thread is known to run now: it has just become its program.
    pub fn runs(&mut self, tid: i32, time_ns: u64) {
        let thread = self.threads.entry(tid).or_default();
        if matches!(thread.place, Place::Unknown) {
            thread.place = Place::On { since: time_ns };
        }
    }

    /// A sample of the event `context-switches`.
    pub fn sample(&mut self, tid: i32, time_ns: u64) {
        self.ledger.samples += 1;
        if tid == IDLE {
            self.ledger.samples_idle += 1;
            return;
        }
        if is_gone(tid) {
            self.ledger.samples_without_out += 1;
            return;
        }
        let before = self.threads.entry(tid).or_default().sampled.replace(time_ns);
        self.ledger.samples_without_out += u64::from(before.is_some());
    }

    /// A thread goes off its CPU; what ends is its time on it.
    pub fn switch_out(&mut self, tid: i32, time_ns: u64, preempted: bool) -> Ended {
        self.ledger.outs += 1;
        if tid == IDLE {
            self.ledger.outs_idle += 1;
            return Ended::Nothing;
        }
        if is_gone(tid) {
            self.ledger.outs_at_exit += 1;
            return Ended::Nothing;
        }
        let thread = self.threads.entry(tid).or_default();
        let sample_ns = thread.sampled.take();
        self.ledger.samples_paired += u64::from(sample_ns.is_some());
        let reason = if preempted { Reason::Preemption } else { Reason::Synchronization };
        let place = Place::Off { since: time_ns, reason, sample_ns, woken: None };
        match std::mem::replace(&mut thread.place, place) {
            Place::On { since } => Ended::Run(time_ns.saturating_sub(since)),
            Place::Off { .. } => {
                self.ledger.outs_without_in += 1;
                Ended::Nothing
            }
            Place::Unknown => Ended::Nothing,
        }
    }

    /// A thread comes onto a CPU; what ends is its wait.
    pub fn switch_in(&mut self, tid: i32, time_ns: u64) -> Ended {
        self.ledger.ins += 1;
        if tid == IDLE {
            self.ledger.ins_idle += 1;
            return Ended::Nothing;
        }
        if is_gone(tid) {
            self.ledger.ins_first += 1;
            return Ended::Nothing;
        }
        let thread = self.threads.entry(tid).or_default();
        self.ledger.samples_without_out += u64::from(thread.sampled.take().is_some());
        match std::mem::replace(&mut thread.place, Place::On { since: time_ns }) {
            Place::Off { since, reason, sample_ns, woken } => {
                self.ledger.outs_paired += 1;
                self.ledger.ins_paired += 1;
                self.ledger.waits_without_stack += u64::from(sample_ns.is_none());
                let unknown = woken.is_none() && reason == Reason::Synchronization;
                self.ledger.waits_without_wake += u64::from(unknown);
                let end_ns = time_ns.max(since);
                Ended::Wait(Wait { tid, reason, sample_ns, start_ns: since, woken, end_ns })
            }
            Place::On { .. } => {
                self.ledger.ins_without_out += 1;
                Ended::Nothing
            }
            Place::Unknown => {
                self.ledger.ins_first += 1;
                Ended::Nothing
            }
        }
    }

    /// A thread is woken, in the time of another.
    pub fn wake(&mut self, tid: i32, woken: Woken) {
        self.ledger.wakes += 1;
        match self.threads.get_mut(&tid).map(|thread| &mut thread.place) {
            Some(Place::Off {
                reason: Reason::Synchronization, since, woken: open @ None, ..
            }) => {
                *open = Some(Woken { time_ns: woken.time_ns.max(*since), ..woken });
                self.ledger.wakes_paired += 1;
            }
            Some(Place::Off { .. } | Place::On { .. }) => self.ledger.wakes_needless += 1,
            Some(Place::Unknown) | None => self.ledger.wakes_of_others += 1,
        }
    }

    /// A thread begins: what another of that number left open goes into the books.
    pub fn begins(&mut self, tid: i32) {
        if let Some(before) = self.threads.insert(tid, Thread::default()) {
            self.ledger.close(&before);
        }
    }

    /// A thread ends; what ends is its time on the CPU.
    pub fn exit(&mut self, tid: i32, time_ns: u64) -> Ended {
        let Some(thread) = self.threads.get_mut(&tid) else { return Ended::Nothing };
        thread.exited = true;
        match &mut thread.place {
            Place::On { since } => {
                let ran = time_ns.saturating_sub(*since);
                *since = time_ns.max(*since);
                Ended::Run(ran)
            }
            Place::Off { .. } | Place::Unknown => Ended::Nothing,
        }
    }

    /// The recording ended: what is still open goes into the books.
    pub fn finish(self) -> Ledger {
        let mut ledger = self.ledger;
        if ledger.wakes == 0 {
            ledger.waits_without_wake = 0;
        }
        self.threads.values().for_each(|thread| ledger.close(thread));
        ledger
    }
}

#[cfg(test)]
mod tests;
