//! Counting events of a program, processes, threads, CPUs or the system: how often, without
//! recording where.
//!
//! Events are perf's, by the parser that recordings use. What one machine cannot count is said of
//! that event, with its reason, and the others are counted.

mod counts;
mod derived;
mod open;
mod repeat;
mod run;

pub use counts::{Count, Counter, Counts, Thread};
pub use derived::{Derived, derived};
pub use repeat::{Spread, spread};
pub use run::count;

use crate::live::Target;
use crate::{Ending, Error, Workload};
use std::time::Duration;

/// What to count, and when to tell.
#[derive(Clone, Debug, Default)]
pub struct StatOptions {
    /// Texts of events by perf's syntax; [`usual_events`] when there are none.
    pub events: Vec<String>,
    /// CPUs to count on; all when there are none. Only for [`crate::live::Target::System`].
    pub cpus: Vec<i32>,
    /// Control groups: one for all events, or one for each; an empty one is the whole system. Only
    /// for [`crate::live::Target::System`].
    pub cgroups: Vec<String>,
    /// How often to tell the counts of the time since then.
    pub interval: Option<Duration>,
    /// Children are not counted.
    pub no_inherit: bool,
    /// Counts of each thread too; only for processes and threads that run already.
    pub per_thread: bool,
}

/// A finished count.
#[derive(Clone, Debug)]
pub struct Stat {
    /// The events, in the order asked for.
    pub counters: Vec<Counter>,
    /// From the start to the end.
    pub total: Counts,
    /// Intervals that were told.
    pub intervals: u64,
    /// Intervals that passed untold, because reading the counters took longer; the next one told
    /// covers them.
    pub skipped_intervals: u64,
    /// From the program's start, or that of counting, to the end.
    pub elapsed: Duration,
    /// CPU time in user mode, where planish started the program.
    pub user: Option<Duration>,
    /// CPU time in the kernel, where planish started the program.
    pub system: Option<Duration>,
    /// How the program ended.
    pub ending: Ending,
    /// A signal asked to stop.
    pub interrupted: bool,
    /// What was given up, in plain sentences.
    pub notes: Vec<String>,
}

/// Who is told the counts of an interval.
pub type Tell<'t, E> = dyn FnMut(&[Counter], &Counts) -> Result<(), E> + 't;

/// Counts once, or `times` times, until a signal asks to stop. When an interval cannot be told, the
/// program goes on; the first reason is the error.
///
/// # Errors
/// As [`count`], and the one that `tell` gave.
pub fn repeated<E: From<Error>>(
    target: &Target,
    command: Option<&Workload>,
    options: &StatOptions,
    times: Option<u32>,
    tell: &mut Tell<'_, E>,
) -> Result<Vec<Stat>, E> {
    let mut runs = Vec::new();
    for _ in 0..times.unwrap_or(1) {
        let mut told = Ok(());
        let run = count(target, command, options, &mut |counters, counts| {
            if told.is_ok() {
                told = tell(counters, counts);
            }
        })?;
        told?;
        let interrupted = run.interrupted;
        runs.push(run);
        if interrupted {
            break;
        }
    }
    Ok(runs)
}

/// What is counted when no event is named: perf's choice.
pub fn usual_events(system: bool) -> Vec<String> {
    let clock = if system { "cpu-clock" } else { "task-clock" };
    [
        clock,
        "context-switches",
        "cpu-migrations",
        "page-faults",
        "cycles",
        "stalled-cycles-frontend",
        "stalled-cycles-backend",
        "instructions",
        "branches",
        "branch-misses",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Events of the usual ones that few CPUs have: they are left out where the CPU has them not.
pub(crate) const RARE: [&str; 2] = ["stalled-cycles-frontend", "stalled-cycles-backend"];
