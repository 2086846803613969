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
}

/// A time off the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The thread.
    pub tid: i32,
    /// Why.
    pub reason: Reason,
    /// The time of the sample that tells the stack that it went off with, where there is one.
    pub sample_ns: Option<u64>,
    /// When it went off, in ns of the recording's clock.
    pub start_ns: u64,
    /// When it came back.
    pub end_ns: u64,
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
        (outs, ins, samples) == (self.outs, self.ins, self.samples)
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
        match std::mem::replace(&mut thread.place, Place::Off { since: time_ns, reason, sample_ns })
        {
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
            Place::Off { since, reason, sample_ns } => {
                self.ledger.outs_paired += 1;
                self.ledger.ins_paired += 1;
                self.ledger.waits_without_stack += u64::from(sample_ns.is_none());
                Ended::Wait(Wait {
                    tid,
                    reason,
                    sample_ns,
                    start_ns: since,
                    end_ns: time_ns.max(since),
                })
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
        self.threads.values().for_each(|thread| ledger.close(thread));
        ledger
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u64 = 1;
    const B: u64 = 2;

    #[test]
    fn a_wait_lasts_from_the_switch_out_to_the_next_switch_in_and_has_the_last_sample() {
        let mut pairing = Pairing::default();
        assert_eq!(pairing.switch_in(7, 100), Ended::Nothing);
        pairing.sample(7, A);
        assert_eq!(pairing.switch_out(7, 150, false), Ended::Run(50));
        // Another thread between them changes nothing.
        pairing.switch_in(8, 160);
        let wait = Wait {
            tid: 7,
            reason: Reason::Synchronization,
            sample_ns: Some(A),
            start_ns: 150,
            end_ns: 400,
        };
        assert_eq!(pairing.switch_in(7, 400), Ended::Wait(wait));
        assert_eq!(pairing.switch_out(7, 410, true), Ended::Run(10));
        let wait = Wait {
            reason: Reason::Preemption,
            sample_ns: None,
            start_ns: 410,
            end_ns: 420,
            ..wait
        };
        assert_eq!(pairing.switch_in(7, 420), Ended::Wait(wait));
        assert_eq!(pairing.exit(7, 425), Ended::Run(5));
        let ledger = pairing.finish();
        assert!(ledger.balances(), "{ledger:?}");
        assert_eq!((ledger.outs_paired, ledger.ins_first, ledger.waits_without_stack), (2, 2, 1));
    }

    #[test]
    fn the_last_switch_of_a_thread_comes_after_its_end_and_belongs_to_it() {
        let mut pairing = Pairing::default();
        pairing.switch_in(7, 10);
        assert_eq!(pairing.exit(7, 30), Ended::Run(20));
        pairing.sample(7, A);
        assert_eq!(pairing.switch_out(7, 35, false), Ended::Run(5));
        let ledger = pairing.finish();
        assert!(ledger.balances(), "{ledger:?}");
        assert_eq!((ledger.outs_at_exit, ledger.outs_at_end, ledger.samples_paired), (1, 0, 1));
    }

    #[test]
    fn what_has_no_partner_is_in_the_books() {
        let mut pairing = Pairing::default();
        pairing.runs(7, 5);
        pairing.sample(7, A);
        pairing.sample(7, B);
        assert_eq!(pairing.switch_out(7, 10, false), Ended::Run(5));
        assert_eq!(pairing.switch_out(7, 20, false), Ended::Nothing);
        pairing.sample(7, A);
        pairing.exit(7, 30);
        // Another thread of that number.
        pairing.begins(7);
        pairing.switch_in(7, 40);
        pairing.switch_in(7, 50);
        pairing.sample(7, A);
        pairing.switch_in(7, 60);
        pairing.switch_out(7, 70, true);
        pairing.switch_out(0, 70, false);
        pairing.switch_in(0, 80);
        pairing.sample(0, A);
        let ledger = pairing.finish();
        assert!(ledger.balances(), "{ledger:?}");
        let expected = Ledger {
            outs: 4,
            outs_idle: 1,
            outs_without_in: 1,
            outs_at_exit: 1,
            outs_at_end: 1,
            ins: 4,
            ins_idle: 1,
            ins_first: 1,
            ins_without_out: 2,
            samples: 5,
            samples_paired: 1,
            samples_idle: 1,
            samples_without_out: 3,
            ..Ledger::default()
        };
        assert_eq!(ledger, expected);
    }

    #[test]
    fn the_books_balance_whatever_comes() {
        let mut seed = 1u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        for _ in 0..200 {
            let mut pairing = Pairing::default();
            for _ in 0..next(60) {
                let (tid, time) = (next(4) as i32 - 1, next(1000));
                let ended = match next(6) {
                    5 => {
                        pairing.begins(tid);
                        Ended::Nothing
                    }
                    0 => {
                        pairing.sample(tid, A);
                        Ended::Nothing
                    }
                    1 => pairing.switch_out(tid, time, next(2) == 0),
                    2 | 3 => pairing.switch_in(tid, time),
                    _ => pairing.exit(tid, time),
                };
                assert!(
                    !matches!(ended, Ended::Wait(wait) if wait.tid == 0 || wait.end_ns < wait.start_ns)
                );
            }
            let ledger = pairing.finish();
            assert!(ledger.balances(), "{ledger:?}");
        }
    }
}
