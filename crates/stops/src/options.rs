//! What to trace, and what threads are stopped after.

/// What to trace, and how often to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopOptions {
    /// What a thread is stopped after.
    pub trigger: Trigger,
    /// How much of it between two stops of a thread; the visitor may choose another at each stop.
    /// The kernel knows none below 10,000.
    pub period: u64,
    /// Whether a thread's first period is a random part of the one chosen last, so that threads
    /// and processes which are shorter than a period are stopped as often as their share of
    /// the time asks for.
    pub spread_first: bool,
    /// Whether processes that the traced ones start are traced too, and the programs that they
    /// become.
    pub follow: bool,
    /// After how many stops to let everything go.
    pub max_stops: Option<u64>,
    /// How many new threads are traced from their birth in a second, and at once; all when none.
    /// To begin and end one takes about 0.3 ms, which is more than a short one runs. Where
    /// more come, the others are let be, and those of them that live on are found later.
    pub new_threads: Option<u32>,
}

/// What a thread is stopped after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trigger {
    /// Nanoseconds of its CPU time in user mode: on every machine.
    #[default]
    CpuClock,
    /// Events of its user mode that the CPU counts.
    Counter {
        /// `type` of the event (include/uapi/linux/perf_event.h).
        kind: u32,
        /// `config` of the event.
        config: u64,
    },
}
