//! What a tracer did, in numbers.

use std::collections::BTreeMap;

/// Why a stop was not shown to the visitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skip {
    /// The thread was in a system call: its registers are not those of running code.
    InSystemCall,
    /// The thread executed 32-bit code.
    ThirtyTwoBitCode,
    /// The signal came when the thread's clock no longer asked for it.
    Late,
    /// The thread ended while it was stopped.
    Ended,
}

/// Why threads are stopped by PTRACE_INTERRUPT and not by a signal of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The thread blocks the signal.
    Blocked,
    /// The program has handlers for all signals that would do.
    Handled,
    /// No perf event could be had: `kernel.perf_event_paranoid` above 2, or a seccomp filter.
    NoEvent,
    /// No more descriptors could be opened (RLIMIT_NOFILE).
    NoDescriptor,
}

/// Why a process is not traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftAlone {
    /// It runs a 32-bit program.
    ThirtyTwoBit,
    /// It is a child, and children were not to be followed.
    Child,
    /// It was gone before it could be looked at.
    Gone,
    /// It asked to be traced by the process that made it.
    TracedByParent,
    /// It did not stop in time for being let go, so the kernel lets it go when the tracing thread
    /// ends.
    Busy,
}

/// What a tracer did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Stops shown to the visitor.
    pub stops: u64,
    /// Stops that were not, by reason.
    pub skipped: BTreeMap<Skip, u64>,
    /// How long threads stood still for these stops, in nanoseconds, summed. From the end of the
    /// period where the kernel says when that was, else from when the tracer learnt of it.
    pub stopped_ns: u64,
    /// How long new threads, and those that made them, stood still for their birth; so did
    /// programs that began. In nanoseconds, summed, from when the tracer learnt of it.
    pub births_ns: u64,
    /// CPU time of the tracing thread in [`run`](crate::Tracer::run), the visitor's included, in
    /// nanoseconds.
    pub tracer_cpu_ns: u64,
    /// Signals that were not ours and were passed on.
    pub signals_passed: u64,
    /// System calls that our stop ended early with EINTR and that were begun again.
    pub calls_restarted: u64,
    /// Times a thread stood in a stop that another wait of this process had taken.
    pub stops_recovered: u64,
    /// Threads traced.
    pub threads: u64,
    /// Threads that were seen at their birth and let be, since too many came. Others came unseen.
    pub let_be: u64,
    /// Times that a thread was told to make untraced ones, since too many came.
    pub muted: u64,
    /// Processes traced.
    pub processes: u64,
    /// Programs begun by exec.
    pub execs: u64,
    /// Threads that switched to being interrupted, by reason.
    pub interrupted: BTreeMap<Reason, u64>,
    /// Processes that were left alone, by reason.
    pub left_alone: BTreeMap<LeftAlone, u64>,
    /// Times the tracing thread moved to another CPU.
    pub moves: u64,
}

/// Adds one to a reason's count.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) fn add<Key: Ord>(counts: &mut BTreeMap<Key, u64>, key: Key) {
    *counts.entry(key).or_default() += 1;
}
