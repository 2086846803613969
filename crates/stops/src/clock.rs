//! How each thread learns that its period is over: by a signal of its own where that is safe, else
//! the tracer interrupts it.
//!
//! The signal has to be one that does nothing should the tracer die, and that the program has no
//! use for, since a second one is lost while a first is queued: SIGURG, else SIGWINCH.

use crate::counts::{Reason, Skip, add};
use crate::place::Place;
use crate::proc;
use crate::sys::event::ThreadClock;
use crate::sys::{self, fine};
use crate::thread::{Doing, Queued, State, Thread, Told, Way};
use crate::tracer::Tracer;
use crate::visit::{Ending, Visitor};

/// So many periods without a stop raise the question whether the thread can be signalled.
const SILENT_PERIODS: u64 = 3;
/// The memory that says where a period ended is limited for ordinary users and needed by others
/// too: so many threads get it.
const MOST_RINGS: usize = 48;

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// The signal that a program with these handlers can be stopped with.
fn free_signal(caught: u64) -> Option<i32> {
    [libc::SIGURG, libc::SIGWINCH].into_iter().find(|signal| caught & bit(*signal) == 0)
}

impl Thread {
    /// What the thread has used, in the trigger's unit, from some start; CPU time where it has no
    /// event.
    pub(crate) fn clock(&self, tid: i32) -> Option<u64> {
        match self.event() {
            Some(event) => fine(event.count()),
            None => proc::cpu_time_ns(self.pid, tid),
        }
    }

    /// Opens the signal mask of a stopped thread for the signal that its clock sent, if that is
    /// queued: it is then delivered, and dropped, before the thread executes anything.
    pub(crate) fn unblock_own_signal(&mut self, tid: i32) -> bool {
        let ours = sys::queued(tid).into_iter().find(|info| self.sent_by_clock(info));
        let (Some(info), Some(mask)) = (ours, fine(sys::signal_mask(tid))) else { return false };
        if mask & bit(info.signal) != 0 {
            if sys::set_signal_mask(tid, mask & !bit(info.signal)).is_err() {
                return false;
            }
            self.queued = Queued::Let(mask);
        }
        true
    }
}

impl Tracer {
    /// Starts a thread's clock. `running`: its signal mask is its own already (a new thread begins
    /// with everything blocked, and its library opens the mask later).
    pub(crate) fn start_clock(&mut self, tid: i32, running: bool) {
        let with_ring = self.threads.len() <= MOST_RINGS;
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let pid = thread.pid;
        let mut signal = self.processes.get(&pid).and_then(|process| process.signal);
        let mut reason = Reason::Handled;
        if running && let Ok(status) = proc::status(tid) {
            signal = free_signal(status.caught);
            if let Some(process) = self.processes.get_mut(&pid) {
                process.signal = signal;
            }
            if signal.is_some_and(|signal| status.blocked & bit(signal) != 0) {
                (signal, reason) = (None, Reason::Blocked);
            }
        }
        let opened = ThreadClock::open(tid, self.options.trigger, thread.period, with_ring);
        let told = match &opened {
            Err(error) => {
                let code = error.raw_os_error();
                let full = matches!(code, Some(libc::EMFILE | libc::ENFILE));
                Told::Interrupt(if full { Reason::NoDescriptor } else { Reason::NoEvent })
            }
            Ok(_) => signal.map_or(Told::Interrupt(reason), Told::Signal),
        };
        let way = Way::new(told, fine(opened), tid, self.own_tid);
        let doing = if thread.is_listening() { Doing::Listening } else { Doing::Running };
        thread.state = State::Clocked { way, doing };
        self.way_chosen(tid);
        if let Some(thread) = self.threads.get_mut(&tid) {
            if let Some(event) = thread.event() {
                fine(event.enable());
            }
            thread.seen = thread.clock(tid).unwrap_or(0);
        }
    }

    /// Changes how a thread with a clock is told.
    fn set_way(&mut self, tid: i32, told: Told) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let State::Clocked { way, .. } = &mut thread.state else { return };
        if way.told() != told {
            let former = std::mem::replace(way, Way::Interrupt(Reason::NoEvent, None));
            *way = Way::new(told, former.into_event(), tid, self.own_tid);
            self.way_chosen(tid);
        }
    }

    /// Takes note of a new way.
    fn way_chosen(&mut self, tid: i32) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let Some(Told::Interrupt(reason)) = thread.told() else { return };
        add(&mut self.counts.interrupted, reason);
        if reason == Reason::Blocked && thread.queued == Queued::No {
            thread.queued = Queued::Behind;
        }
    }

    /// Interrupts threads whose period is over and that cannot be signalled.
    pub(crate) fn interrupt_those_due(&mut self) {
        for (&tid, thread) in &mut self.threads {
            let due = matches!(
                thread.state,
                State::Clocked { way: Way::Interrupt(..), doing: Doing::Running }
            );
            let Some(clock) = due.then(|| thread.clock(tid)).flatten() else { continue };
            if clock.saturating_sub(thread.seen) < thread.period {
                continue;
            }
            // One that sleeps has to be left asleep.
            if proc::is_running(thread.pid, tid)
                && sys::interrupt(tid).is_ok()
                && let State::Clocked { doing, .. } = &mut thread.state
            {
                *doing = Doing::Interrupting;
            }
        }
    }

    /// Looks at every thread: does it still stop, was its stop taken by another wait, is it there
    /// at all?
    pub(crate) fn sweep(&mut self, visitor: &mut dyn Visitor, place: &mut Place) {
        let doubtful: Vec<i32> = self
            .processes
            .iter()
            .filter(|(_, process)| process.doubtful)
            .map(|(pid, _)| *pid)
            .collect();
        for pid in doubtful {
            self.choose_signal(pid);
        }
        let tids: Vec<i32> = self.threads.keys().copied().collect();
        for tid in tids {
            self.look_at(tid);
            self.recover(tid, visitor, place);
        }
        self.find_survivors();
    }

    /// Looks which signals a program handles, and changes its clocks if need be.
    fn choose_signal(&mut self, pid: i32) {
        let Some((&tid, _)) = self.threads.iter().find(|(_, thread)| thread.pid == pid) else {
            return;
        };
        let (Ok(status), Some(process)) = (proc::status(tid), self.processes.get_mut(&pid)) else {
            return;
        };
        process.doubtful = false;
        let signal = free_signal(status.caught);
        if signal == process.signal {
            return;
        }
        process.signal = signal;
        let told = signal.map_or(Told::Interrupt(Reason::Handled), Told::Signal);
        let affected: Vec<i32> = self
            .threads
            .iter()
            .filter(|(_, thread)| thread.pid == pid)
            .filter(|(_, thread)| {
                matches!(thread.told(), Some(Told::Signal(_) | Told::Interrupt(Reason::Handled)))
            })
            .map(|(tid, _)| *tid)
            .collect();
        for tid in affected {
            self.set_way(tid, told);
        }
    }

    /// Changes the way of a thread that blocks its signal, or no longer does.
    fn look_at(&mut self, tid: i32) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let pid = thread.pid;
        if std::mem::take(&mut thread.stopped) {
            // A program that runs may set a handler at any time.
            if let Some(process) = self.processes.get_mut(&pid) {
                process.doubtful = true;
            }
            if matches!(thread.told(), Some(Told::Signal(_))) {
                thread.seen = thread.clock(tid).unwrap_or(thread.seen);
                return;
            }
        }
        let Some(clock) = thread.clock(tid) else { return };
        let silent =
            clock.saturating_sub(thread.seen) > thread.period.saturating_mul(SILENT_PERIODS);
        match thread.told() {
            Some(Told::Signal(signal)) if silent => {
                thread.seen = clock;
                let Ok(status) = proc::status(tid) else { return };
                if status.blocked & bit(signal) != 0 {
                    self.set_way(tid, Told::Interrupt(Reason::Blocked));
                } else if status.caught & bit(signal) != 0
                    && let Some(process) = self.processes.get_mut(&pid)
                {
                    process.doubtful = true;
                }
            }
            Some(Told::Interrupt(Reason::Blocked)) if thread.queued != Queued::Behind => {
                let Ok(status) = proc::status(tid) else { return };
                let Some(signal) = self.processes.get(&pid).and_then(|process| process.signal)
                else {
                    return;
                };
                if status.blocked & bit(signal) == 0 {
                    self.set_way(tid, Told::Signal(signal));
                }
            }
            _ => {}
        }
    }

    /// A stop that nobody reported was taken by another wait of this process; a thread that is not
    /// there was reaped by one.
    fn recover(&mut self, tid: i32, visitor: &mut dyn Visitor, place: &mut Place) {
        let Some(thread) = self.threads.get(&tid) else { return };
        if thread.is_listening() {
            return;
        }
        // Only a thread in a ptrace stop can be asked.
        if let Ok(info) = sys::signal_info(tid) {
            let reported = sys::wait(sys::WaitFor { tid: Some(tid), peek: true, no_hang: true });
            if matches!(reported, Ok(None)) {
                self.counts.stops_recovered += 1;
                self.stopped(tid, info.stop(), visitor, place);
            }
        } else if !std::path::Path::new("/proc").join(tid.to_string()).exists() {
            add(&mut self.counts.skipped, Skip::Ended);
            self.forget(tid, Ending::Unknown, &mut Some(visitor));
        }
    }
}
