//! What to record of whom, as a caller asks for it: branches, rate, events, what samples carry.

use crate::settings::{BranchFilter, CallGraph, Clock, Registers};
use crate::streaming::Streaming;
use std::time::Duration;

/// How to record.
#[derive(Clone, Debug, Default)]
pub struct RecordOptions {
    /// Branch stacks.
    pub branches: Branches,
    /// How often; 4000 times a second when none. More often than the kernel allows becomes what it
    /// allows.
    pub rate: Option<Rate>,
    /// Texts of events by perf's syntax; the clock or what has branch stacks when there are none.
    pub events: Vec<String>,
    /// What the samples carry.
    pub sampling: Sampling,
    /// CPUs to record on; all when there are none.
    pub cpus: Vec<i32>,
    /// Control groups: one for all events, or one for each; an empty one is the whole system
    /// (`-G`).
    pub cgroups: Vec<String>,
    /// How records get from the rings into files.
    pub streaming: Streaming,
}

/// What the samples carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Branches {
    /// Hardware branch stacks where the CPU has them, else none.
    #[default]
    Auto,
    /// Hardware branch stacks or an error.
    Hardware,
    /// Only the place that was interrupted.
    None,
}

/// How often to sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rate {
    /// Every so many events (nanoseconds, for the clock).
    Period(u64),
    /// So many times a second.
    Frequency(u64),
}

/// What is sampled besides the events themselves.
#[derive(Clone, Debug, Default)]
pub struct Sampling {
    /// How callers are found (`-g`, `--call-graph`).
    pub call_graph: Option<CallGraph>,
    /// User registers in each sample (`--user-regs`).
    pub user_registers: Registers,
    /// Registers of the moment of each sample, the kernel's where that ran (`-I`, `--intr-regs`).
    pub interrupt_registers: Registers,
    /// What an event hands over besides, where it has something (`-R`); tracepoints always do.
    pub raw: bool,
    /// The CPU of each sample (`--sample-cpu`); recordings of CPUs always have it.
    pub cpu: bool,
    /// All events count this alone, whatever they say (`--all-user`, `--all-kernel`).
    pub only: Option<Mode>,
    /// Which branches the CPU records (`-b`, `-j`).
    pub branch_filter: Option<BranchFilter>,
    /// Data addresses (`-d`).
    pub addresses: bool,
    /// Children of a recorded process are not recorded (`-i`).
    pub no_inherit: bool,
    /// Counts per thread, at its end (`-s`).
    pub thread_counts: bool,
    /// The clock of the times; CLOCK_MONOTONIC when none is given (`-k`).
    pub clock: Option<Clock>,
    /// Sampling begins so long after the program did (`-D`).
    pub delay: Option<Duration>,
    /// Records of namespaces (`--namespaces`).
    pub namespaces: bool,
    /// Records of context switches (`--switch-events`).
    pub switch_events: bool,
    /// Sampling begins when a command says so (`-D -1`).
    pub wait: bool,
    /// Rings of samples are written over themselves (`--overwrite`); a recording sets it by its
    /// streaming.
    pub overwrite: bool,
    /// Clocks take no samples of a CPU that has nothing to do.
    pub no_idle: bool,
    /// In which control group each sample was taken (`-G`); a recording sets it where control
    /// groups are named.
    pub cgroups: bool,
}

impl Sampling {
    /// Whether sampling begins after the program.
    pub(crate) fn late(&self) -> bool {
        self.delay.is_some() || self.wait
    }
}

/// Where code runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// In programs.
    User,
    /// In the kernel.
    Kernel,
}

/// Who is recorded, as far as it changes attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// A program that planish starts.
    Command,
    /// What runs already.
    Attached,
    /// CPUs, whatever runs there.
    Cpus,
}
