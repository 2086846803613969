//! What the caller of a tracer is shown and told: the visitor, how things ended.

use crate::{Counts, Stopped};

/// What a visitor wants of the thread that it saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// A new period for this thread, in the trigger's unit; it begins at once. None keeps the one
    /// it has.
    pub period: Option<u64>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Killed(i32),
    /// It goes on untraced.
    LetGo,
    /// It ended, and nobody knows how.
    Unknown,
}

/// Sees what happens. All calls come from the thread that runs the tracer, while other traced
/// threads go on.
pub trait Visitor {
    /// A thread has stopped between two instructions of its program. It goes on when this returns.
    fn stopped(&mut self, thread: &mut Stopped<'_>) -> Next;
    /// A process (not a thread) has been made; it has not run yet.
    fn forked(&mut self, parent: i32, child: i32) {
        let _ = (parent, child);
    }
    /// Whether processes that this one makes may ask to be traced by it (`PTRACE_TRACEME`), which
    /// the kernel refuses to those that are traced already. Their first system calls are then
    /// watched, and one that asks is let go.
    fn may_trace(&mut self, pid: i32) -> bool {
        let _ = pid;
        false
    }
    /// A process has become another program, which has not run yet.
    fn executed(&mut self, pid: i32) {
        let _ = pid;
    }
    /// A process ended, or is traced no longer.
    fn ended(&mut self, pid: i32, ending: Ending) {
        let _ = (pid, ending);
    }
    /// Called after each stop, and at least every 100 ms (unless [`Visitor::stopped`] takes
    /// longer).
    fn tick(&mut self) {}
}

/// Why tracing ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No traced process is left.
    AllEnded,
    /// The caller's `stop` said so.
    Asked,
    /// There were as many stops as the options allow.
    MaxStops,
}

/// How tracing ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Why.
    pub why: Why,
    /// How the child given to [`seize_child`](crate::Tracer::seize_child) ended; none when it goes
    /// on untraced, or was left alone. It is not waited for: the caller's own `Child::wait`
    /// still returns the same.
    pub child: Option<Ending>,
    /// What was done.
    pub counts: Counts,
}
