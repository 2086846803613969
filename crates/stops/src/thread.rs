//! A traced thread: what it does, and how it is stopped when its period is over.

use crate::counts::Reason;
use crate::sys::event::ThreadClock;
use crate::sys::tick::WAKE;
use crate::sys::{self, SignalInfo, fine};

/// How a thread with a clock is stopped when its period is over.
#[derive(Debug)]
pub(crate) enum Way {
    /// Its clock sends it this signal, which is dropped at the delivery stop.
    Signal(i32, ThreadClock),
    /// The tracer interrupts it, told by its clock where it has one.
    Interrupt(Reason, Option<ThreadClock>),
}

/// A [`Way`] without the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Signal(i32),
    Interrupt(Reason),
}

/// What a thread with a clock does, as far as the tracer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Running,
    /// It runs, and an interrupt is under way.
    Interrupting,
    /// It is in a job-control stop.
    Listening,
}

/// Where a thread is between its first report and the end of its tracing.
#[derive(Debug)]
pub(crate) enum State {
    /// It is new, and has yet to report.
    Starting,
    /// It has no clock: its program has not begun, or it is to be let go.
    Unclocked { listening: bool },
    /// Its clock runs.
    Clocked { way: Way, doing: Doing },
}

/// A signal of a thread's clock that did not come, since the program blocked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    /// There is none.
    No,
    /// It may be queued behind the signal mask, and is to be taken off.
    Behind,
    /// The mask was opened for it, and was this before.
    Let(u64),
}

/// A traced thread.
#[derive(Debug)]
pub(crate) struct Thread {
    pub pid: i32,
    pub state: State,
    /// The number of the clock it had before; a signal of that may still come.
    former_event: i32,
    pub queued: Queued,
    pub period: u64,
    /// Its clock at the last stop or look, in nanoseconds.
    pub seen: u64,
    /// Whether it stopped since the last look.
    pub stopped: bool,
    /// Its new threads are not traced, since too many came.
    pub muted: bool,
    /// So many system calls are watched yet for one that asks to be traced.
    pub watched: u32,
}

impl Way {
    pub(crate) fn told(&self) -> Told {
        match self {
            Way::Signal(signal, _) => Told::Signal(*signal),
            Way::Interrupt(reason, _) => Told::Interrupt(*reason),
        }
    }

    /// Tells a clock whom to signal. A thread that it cannot signal is interrupted.
    pub(crate) fn new(told: Told, event: Option<ThreadClock>, tid: i32, tracer: i32) -> Way {
        match (told, event) {
            (Told::Signal(signal), Some(event)) if event.send(signal, tid).is_ok() => {
                Way::Signal(signal, event)
            }
            (Told::Signal(_), event) => Way::Interrupt(Reason::NoEvent, event),
            (Told::Interrupt(reason), event) => {
                event.as_ref().and_then(|event| fine(event.send(WAKE, tracer)));
                Way::Interrupt(reason, event)
            }
        }
    }

    /// Its clock, whom it still tells.
    pub(crate) fn into_event(self) -> Option<ThreadClock> {
        match self {
            Way::Signal(_, event) => Some(event),
            Way::Interrupt(_, event) => event,
        }
    }
}

impl Thread {
    pub(crate) fn new(pid: i32, state: State, period: u64) -> Thread {
        Thread {
            pid,
            state,
            former_event: -1,
            queued: Queued::No,
            period,
            seen: 0,
            stopped: false,
            muted: false,
            watched: 0,
        }
    }

    /// How it is stopped; none where it has no clock.
    pub(crate) fn told(&self) -> Option<Told> {
        match &self.state {
            State::Clocked { way, .. } => Some(way.told()),
            State::Starting | State::Unclocked { .. } => None,
        }
    }

    /// Its clock's event.
    pub(crate) fn event(&self) -> Option<&ThreadClock> {
        match &self.state {
            State::Clocked { way: Way::Signal(_, event), .. } => Some(event),
            State::Clocked { way: Way::Interrupt(_, event), .. } => event.as_ref(),
            State::Starting | State::Unclocked { .. } => None,
        }
    }

    /// The same, to be read from.
    pub(crate) fn event_mut(&mut self) -> Option<&mut ThreadClock> {
        match &mut self.state {
            State::Clocked { way: Way::Signal(_, event), .. } => Some(event),
            State::Clocked { way: Way::Interrupt(_, event), .. } => event.as_mut(),
            State::Starting | State::Unclocked { .. } => None,
        }
    }

    /// Whether it is in a job-control stop.
    pub(crate) fn is_listening(&self) -> bool {
        matches!(
            self.state,
            State::Unclocked { listening: true } | State::Clocked { doing: Doing::Listening, .. }
        )
    }

    /// It has stopped without a signal, by job control or for another reason, and goes on or
    /// listens; true where it was interrupted.
    pub(crate) fn reported(&mut self, listens: bool) -> bool {
        match &mut self.state {
            State::Starting => {
                self.state = State::Unclocked { listening: listens };
                false
            }
            State::Unclocked { listening } => {
                *listening = listens;
                false
            }
            State::Clocked { doing, .. } => {
                let now = if listens { Doing::Listening } else { Doing::Running };
                std::mem::replace(doing, now) == Doing::Interrupting
            }
        }
    }

    /// Closes its clock.
    pub(crate) fn close_clock(&mut self) {
        self.former_event = self.event().map_or(self.former_event, ThreadClock::number);
        if let State::Clocked { doing, .. } = &self.state {
            self.state = State::Unclocked { listening: *doing == Doing::Listening };
        }
    }

    /// Whether a signal comes from this thread's clock. Codes 1 to 6 are those of descriptors
    /// (POLL_IN to POLL_HUP); everything that a program can send to itself has others, but for
    /// descriptors of its own.
    pub(crate) fn sent_by_clock(&self, info: &SignalInfo) -> bool {
        let number = self.event().map_or(-1, ThreadClock::number);
        matches!(info.signal, libc::SIGURG | libc::SIGWINCH)
            && matches!(info.code, 1..=6)
            && info.fd >= 0
            && (info.fd == number || info.fd == self.former_event)
    }

    /// Lets the thread go on, with a signal delivered (0: none).
    pub(crate) fn go_on(&self, tid: i32, signal: i32) {
        let resume = if self.watched > 0 { sys::resume_to_call } else { sys::resume };
        fine(resume(tid, signal));
    }
}
