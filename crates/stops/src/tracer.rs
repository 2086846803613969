//! The tracer: which threads it holds, and the loop that waits for them.
//!
//! One `waitid` that only looks (WNOWAIT) tells of stops and exits. A stop needs no consuming (but
//! for an exec): it is over when the thread is resumed. An exit is consumed, unless the process is
//! a child of ours, whose status its owner wants: then the zombie stays, and because it would be
//! shown for ever, the tracer waits for stops alone from then on and looks for exits at each tick.

use crate::Error;
use crate::allowance::Allowance;
use crate::counts::{Counts, LeftAlone, add};
use crate::options::StopOptions;
use crate::place::Place;
use crate::proc;
use crate::sys::tick::Ticks;
use crate::sys::{self, WaitFor};
use crate::thread::{State, Thread};
use crate::visit::{Ended, Ending, Visitor, Why};
use random::Random;
use std::collections::{HashMap, HashSet};
use std::marker::PhantomData;

/// Between two looks at `stop` and at threads that cannot be signalled, in nanoseconds.
pub(crate) const TICK_NS: u32 = 25_000_000;
/// Between two looks at every thread, in nanoseconds.
const SWEEP_NS: u64 = 100_000_000;

/// A traced process.
#[derive(Debug, Default)]
pub(crate) struct Process {
    /// How many of its threads are traced.
    pub threads: usize,
    /// The signal that its clocks send; none when no signal will do.
    pub signal: Option<i32>,
    /// Look again soon whether the signal will do.
    pub doubtful: bool,
    /// Some of its threads were let be: those that were there at the last sweep.
    pub let_be: Option<HashSet<i32>>,
}

/// Threads of running programs, stopped in turn after so much CPU time or so many events.
///
/// It belongs to the OS thread that made it, since the kernel takes ptrace requests from no other,
/// and there may be one at a time in a thread. While [`Tracer::run`] runs, no other thread of this
/// process may wait for a traced child (`Child::wait`, `Child::try_wait`): such a wait sees the
/// child's stops and takes them for its end. Stops that are lost this way are found again within
/// 100 ms, but the other wait has returned nonsense. Afterwards it is fine.
///
/// Dropping it lets all threads go.
#[derive(Debug)]
pub struct Tracer {
    pub(crate) options: StopOptions,
    /// The period that was chosen last.
    pub(crate) period: u64,
    /// Spreads first periods.
    random: Random,
    /// How many threads may be born traced.
    pub(crate) allowance: Allowance,
    pub(crate) threads: HashMap<i32, Thread>,
    pub(crate) processes: HashMap<i32, Process>,
    pub(crate) counts: Counts,
    /// The child that was given to us.
    pub(crate) child: Option<i32>,
    child_ending: Option<Ending>,
    /// A zombie is left to its owner, so exits are looked for thread by thread.
    careful: bool,
    /// A thread died that may have had children we do not know.
    pub(crate) orphans: bool,
    pub(crate) own_tid: i32,
    _bound: PhantomData<*const ()>,
}

impl Tracer {
    pub(crate) fn new(options: &StopOptions) -> Tracer {
        Tracer {
            options: options.clone(),
            period: possible_period(options.period),
            random: Random::new(0),
            allowance: Allowance::new(options.new_threads),
            threads: HashMap::new(),
            processes: HashMap::new(),
            counts: Counts::default(),
            child: None,
            child_ending: None,
            careful: false,
            orphans: false,
            own_tid: sys::thread_id(),
            _bound: PhantomData,
        }
    }

    /// What was done so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Lets the programs run and shows their stops, until all traced processes have ended, `stop`
    /// says so (it is asked at least every 100 ms), or there were enough stops; what still runs
    /// is then let go.
    ///
    /// The calling thread is moved to the CPU of the threads that stop, gets SIGURG (a handler that
    /// does nothing is installed) and may see calls that the visitor makes return EINTR; its
    /// affinity and signal mask are put back.
    ///
    /// # Errors
    ///
    /// The timer cannot be made, or waiting fails for a reason that is none.
    pub fn run(
        &mut self,
        visitor: &mut dyn Visitor,
        stop: &dyn Fn() -> bool,
    ) -> Result<Ended, Error> {
        let begun = sys::cpu_time_ns();
        let ticks = Ticks::every(TICK_NS)
            .map_err(|source| Error::System { what: "cannot set a timer", source })?;
        let mut place = Place::here();
        let why = self.trace(visitor, stop, &mut place);
        self.let_go(&mut Some(visitor));
        self.counts.moves += place.moves();
        drop((place, ticks));
        self.counts.tracer_cpu_ns += sys::cpu_time_ns().saturating_sub(begun);
        Ok(Ended { why: why?, child: self.child_ending, counts: self.counts.clone() })
    }

    fn trace(
        &mut self,
        visitor: &mut dyn Visitor,
        stop: &dyn Fn() -> bool,
        place: &mut Place,
    ) -> Result<Why, Error> {
        let (mut next_tick, mut next_sweep) = (0, 0);
        while !self.threads.is_empty() {
            let now = sys::now_ns();
            if now >= next_tick {
                next_tick = now + u64::from(TICK_NS);
                visitor.tick();
                if stop() {
                    return Ok(Why::Asked);
                }
                self.interrupt_those_due();
                self.look_for_exits(visitor);
            }
            if now >= next_sweep {
                next_sweep = now + SWEEP_NS;
                self.sweep(visitor, place);
            }
            match sys::wait(WaitFor { peek: !self.careful, ..WaitFor::default() }) {
                Ok(Some((tid, change))) => self.changed(tid, change, visitor, place),
                Ok(None) => {}
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => self.interrupt_those_due(),
                    // Zombies behind a zombie, which a wait for stops does not count.
                    Some(libc::ECHILD) => {
                        let before = self.threads.len();
                        self.look_for_exits(visitor);
                        if self.threads.len() == before {
                            break;
                        }
                    }
                    _ => {
                        return Err(Error::System {
                            what: "cannot wait for traced threads",
                            source: error,
                        });
                    }
                },
            }
            if self.options.max_stops.is_some_and(|most| self.counts.stops >= most) {
                return Ok(Why::MaxStops);
            }
        }
        let lost: Vec<i32> = self.threads.keys().copied().collect();
        for tid in lost {
            self.forget(tid, Ending::Unknown, &mut Some(&mut *visitor));
        }
        Ok(Why::AllEnded)
    }

    /// The period that a new thread, or a new program, begins with.
    pub(crate) fn first_period(&mut self) -> u64 {
        if !self.options.spread_first {
            return self.period;
        }
        possible_period((self.random.unit() * self.period as f64) as u64)
    }

    /// What is traced of what threads make: processes if asked for, threads unless too many come.
    pub(crate) fn follow(&self, threads: bool) -> sys::Follow {
        sys::Follow { threads, processes: self.options.follow }
    }

    /// Adds a thread, and its process where that is new; true if it is.
    pub(crate) fn insert(&mut self, tid: i32, pid: i32, state: State) -> bool {
        let first = self.first_period();
        if self.threads.insert(tid, Thread::new(pid, state, first)).is_none() {
            self.counts.threads += 1;
        }
        let known = self.processes.contains_key(&pid);
        let process = self.processes.entry(pid).or_default();
        process.threads = process.threads.saturating_add(1);
        if !known {
            process.doubtful = true;
            process.signal = Some(libc::SIGURG);
            self.counts.processes += 1;
        }
        !known
    }

    /// Forgets a thread that is traced no longer; with the last one its process.
    pub(crate) fn forget(
        &mut self,
        tid: i32,
        ending: Ending,
        visitor: &mut Option<&mut dyn Visitor>,
    ) {
        let Some(thread) = self.threads.remove(&tid) else { return };
        let Some(process) = self.processes.get_mut(&thread.pid) else { return };
        process.threads = process.threads.saturating_sub(1);
        if process.threads == 0 || (tid == thread.pid && ending != Ending::LetGo) {
            self.processes.remove(&thread.pid);
            self.threads.retain(|_, other| other.pid != thread.pid);
            let ending =
                if tid == thread.pid || ending == Ending::LetGo { ending } else { Ending::Unknown };
            if self.child == Some(thread.pid) && ending != Ending::LetGo {
                self.child_ending = Some(ending);
            }
            if let Some(visitor) = visitor {
                visitor.ended(thread.pid, ending);
            }
        }
    }

    /// Lets a process alone from now on; its one thread is stopped.
    pub(crate) fn leave_alone(&mut self, tid: i32, why: LeftAlone, visitor: &mut dyn Visitor) {
        // It can only fail if the thread is gone.
        let _ = sys::detach(tid, 0);
        add(&mut self.counts.left_alone, why);
        self.forget(tid, Ending::LetGo, &mut Some(visitor));
    }

    /// A thread's or an unknown child's end was seen; it is consumed unless the child is for
    /// somebody else to wait for.
    pub(crate) fn exited(
        &mut self,
        tid: i32,
        ending: Ending,
        visitor: &mut Option<&mut dyn Visitor>,
    ) {
        let known = self.threads.get(&tid).map(|thread| thread.pid);
        let status =
            if known.is_some_and(|pid| pid != tid) { None } else { proc::status(tid).ok() };
        if status.is_some_and(|status| status.tgid == tid && status.ppid == sys::process_id()) {
            self.careful = true;
        } else {
            sys::consume(tid);
        }
        self.orphans = true;
        self.forget(tid, ending, visitor);
    }

    /// Exits that the wait does not show because a zombie stands before them.
    fn look_for_exits(&mut self, visitor: &mut dyn Visitor) {
        if !self.careful {
            return;
        }
        let tids: Vec<i32> = self.threads.keys().copied().collect();
        for tid in tids {
            let found = sys::wait(WaitFor { tid: Some(tid), peek: true, no_hang: true });
            match found {
                Ok(Some((tid, sys::Change::Exited(code)))) => {
                    self.exited(tid, Ending::Exited(code), &mut Some(&mut *visitor));
                }
                Ok(Some((tid, sys::Change::Killed(signal)))) => {
                    self.exited(tid, Ending::Killed(signal), &mut Some(&mut *visitor));
                }
                _ => {}
            }
        }
    }

    /// Whether exits are hidden behind a zombie.
    pub(crate) fn is_careful(&self) -> bool {
        self.careful
    }
}

/// The kernel's clock knows no period below 10 us, and takes none that is negative as a signed
/// number.
pub(crate) fn possible_period(period: u64) -> u64 {
    period.clamp(10_000, i64::MAX as u64)
}
