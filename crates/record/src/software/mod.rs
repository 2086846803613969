//! Software branch stacks: threads are stopped for an instant after so many taken branches or so
//! much CPU time, and an interpreter looks ahead from there on copies, to see which branches they
//! will take (crates `stops` and `lookahead`).
//!
//! The program runs natively and unmodified. Branches after a system call, or after what another
//! thread writes in the meantime, cannot be foreseen: a stack ends at the first system call.
//!
//! The interpreter knows x86-64 alone; elsewhere [`probe`] and [`record()`] say so.

#[cfg(target_arch = "x86_64")]
mod budget;
#[cfg(target_arch = "x86_64")]
mod check;
#[cfg(target_arch = "x86_64")]
mod debuggers;
#[cfg(target_arch = "x86_64")]
mod look;
#[cfg(target_arch = "x86_64")]
mod recording;
#[cfg(target_arch = "x86_64")]
mod text;
#[cfg(target_arch = "x86_64")]
mod trigger;
#[cfg(target_arch = "x86_64")]
mod visitor;

#[cfg(not(target_arch = "x86_64"))]
use crate::child::Workload;
use crate::streaming::Until;
#[cfg(not(target_arch = "x86_64"))]
use crate::target::Target;
#[cfg(not(target_arch = "x86_64"))]
use crate::{Error, Summary};
#[cfg(target_arch = "x86_64")]
pub use recording::{probe, record};
#[cfg(not(target_arch = "x86_64"))]
use std::path::Path;
use std::time::Duration;

/// Name of the event in perf.data where the CPU clock stops threads.
pub const CLOCK_EVENT: &str = "cpu-clock:u";
/// Its name where a counter of taken branches does.
pub const COUNTER_EVENT: &str = "taken-branches:u";
/// Most taken branches of one stack: a record has room for no more.
pub const MOST_DEPTH: usize = 2048;
/// Taken branches of a stack, when nothing else is said. Deep stacks hold more of what a program
/// does between two ticks of the clock than many shallow ones.
pub const DEPTH: usize = 1024;
/// After a stop the program finds its caches cold: measured on SQLite, it then loses as much again
/// as the stop took.
const COLD: u32 = 1;

/// What stops cost a program that stood still for so long: that time, and what cold caches take
/// afterwards. It is what a [`Pace::Budget`] is about.
pub fn with_cold_caches(stopped: Duration) -> Duration {
    stopped + stopped * COLD
}

/// How the interval between stops is chosen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// This share of the program's CPU time may go into stops: 0.03 for 3 %.
    Budget(f64),
    /// So many stops for each second of a thread's CPU time.
    Frequency(u64),
    /// So much between two stops of a thread, in the trigger's unit.
    Period(u64),
}

/// What threads are stopped after.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StopBy {
    /// Taken branches where the CPU counts them, else CPU time.
    #[default]
    Auto,
    /// CPU time.
    Clock,
    /// Taken branches, or an error.
    Branches,
}

impl Pace {
    /// How many new threads a second are traced from their birth on; all where none is said. What a
    /// thread costs from birth to end was measured as about 0.3 ms, which a budget has to cover
    /// as it does stops.
    #[cfg(target_arch = "x86_64")]
    fn new_threads(self) -> Option<u32> {
        const THREAD_NS: f64 = 300_000.0;
        match self {
            Pace::Budget(share) => Some((share * 1e9 / THREAD_NS).max(1.0) as u32),
            Pace::Frequency(_) | Pace::Period(_) => None,
        }
    }
}

/// How to look ahead.
#[derive(Clone, Debug)]
pub struct LookAheadOptions {
    /// Taken branches of each stack, 1 to [`MOST_DEPTH`].
    pub depth: usize,
    /// How often.
    pub pace: Pace,
    /// What is counted between two stops.
    pub stop_by: StopBy,
    /// Hold every so many look-aheads against single steps of the thread.
    pub check: Option<u64>,
    /// Do not follow what the recorded processes start.
    pub no_inherit: bool,
    /// When the recording of running processes ends by itself.
    pub until: Until,
}

impl Default for LookAheadOptions {
    fn default() -> LookAheadOptions {
        LookAheadOptions {
            depth: DEPTH,
            pace: Pace::Budget(0.03),
            stop_by: StopBy::Auto,
            check: None,
            no_inherit: false,
            until: Until::default(),
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn elsewhere() -> Error {
    Error::Refused {
        event: "software branch stacks".to_owned(),
        reason: format!(
            "the interpreter that looks ahead knows x86-64 alone, and this machine is {}; \
             --branches=emulated gives branch stacks on any machine, and Arm SPE or BRBE \
             (--branches=hardware) where the CPU has one of them",
            std::env::consts::ARCH
        ),
    }
}

/// Says that this machine cannot have software branch stacks.
#[cfg(not(target_arch = "x86_64"))]
pub fn probe() -> Result<(), Error> {
    Err(elsewhere())
}

/// Refuses to record.
#[cfg(not(target_arch = "x86_64"))]
pub fn record(
    _target: &Target,
    _command: Option<&Workload>,
    _output: &Path,
    _options: &LookAheadOptions,
) -> Result<Summary, Error> {
    Err(elsewhere())
}
