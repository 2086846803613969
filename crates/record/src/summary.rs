//! What a recording came to.

use crate::Hotplug;
use crate::aux::AuxSeen;
use crate::losses::Losses;
use crate::placement::Placement;
use crate::software::{Pace, with_cold_caches};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How the recorded program ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It returned this code.
    Code(i32),
    /// A signal killed it.
    Signal(i32),
    /// It was not planish that started it, or it still runs.
    Unknown,
}

impl From<std::process::ExitStatus> for Ending {
    fn from(status: std::process::ExitStatus) -> Ending {
        use std::os::unix::process::ExitStatusExt;
        match (status.code(), status.signal()) {
            (Some(code), _) => Ending::Code(code),
            (None, Some(signal)) => Ending::Signal(signal),
            (None, None) => Ending::Unknown,
        }
    }
}

impl Ending {
    /// What to add to a message about a recording in which nothing came: how the program ended,
    /// unless well.
    pub(crate) fn told(self) -> String {
        match self {
            Ending::Code(0) | Ending::Unknown => String::new(),
            Ending::Code(code) => format!(" (the program ended with code {code})"),
            Ending::Signal(signal) => format!(" (the program was ended by signal {signal})"),
        }
    }

    /// 0 for success, the code, or 128 + signal, as a shell says it.
    pub fn code(self) -> i32 {
        match self {
            Ending::Code(code) => code,
            Ending::Signal(signal) => 128 + signal,
            Ending::Unknown => 0,
        }
    }
}

/// A finished recording.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The perf.data.
    pub output: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// How samples were taken: `software`, `emulated`, `hardware` or `none`.
    pub branches: &'static str,
    /// The event, as perf would name it.
    pub event: String,
    /// PERF_RECORD_SAMPLE records.
    pub samples: u64,
    /// Entries of all branch stacks together.
    pub branch_entries: u64,
    /// Samples that could not be delivered, as far as is known.
    pub lost_samples: u64,
    /// Taken branches, where they were counted (emulated only).
    pub taken_branches: Option<u64>,
    /// Recorded processes, where known.
    pub processes: u64,
    /// Programs that a recorded program started and that ran unrecorded (emulated only).
    pub native_programs: u64,
    /// Wall time from the program's start to the complete file.
    pub elapsed: Duration,
    /// How the program ended.
    pub ending: Ending,
    /// What was asked for and given up, in plain sentences.
    pub notes: Vec<String>,
    /// How looking ahead went (software branch stacks only).
    pub look_ahead: Option<LookAhead>,
    /// AUX data, where an event writes such.
    pub aux: Option<AuxSeen>,
    /// How the records came from the kernel's rings into files; none of an emulated recording.
    pub streamed: Option<Streamed>,
}

/// How looking ahead from stopped threads went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LookAhead {
    /// Taken branches asked for at each stop.
    pub depth: usize,
    /// Stops from which was looked ahead.
    pub stops: u64,
    /// Stops that gave as many branches as asked for.
    pub full: u64,
    /// Why the others gave fewer, or none: stops by reason.
    pub shorter: BTreeMap<String, u64>,
    /// Stops that gave no branch at all; they are no samples.
    pub empty: u64,
    /// Instructions that were followed.
    pub instructions: u64,
    /// How long threads stood still, summed over them.
    pub stopped: Duration,
    /// How long threads stood still because threads or programs began.
    pub births: Duration,
    /// CPU time of the tracing thread.
    pub tracer_cpu: Duration,
    /// CPU time that the stopped threads' processes used up to their last stops, where it is
    /// known.
    pub program_cpu: Duration,
    /// Threads and processes that were followed.
    pub threads: u64,
    /// New threads that came faster than the budget can follow, and ran on unrecorded.
    pub let_be: u64,
    /// Stops whose look-ahead was held against single steps.
    pub checked: u64,
    /// Checked stops that were not stepped to their end: a signal or a system call came in
    /// between.
    pub cut: u64,
    /// Instructions that were stepped for that.
    pub checked_instructions: u64,
    /// Checked stops where the thread went another way, or ended with other registers, and no
    /// clock was read.
    pub mismatches: u64,
    /// Such stops where a clock was read, which showed another time to the thread than to the
    /// look-ahead.
    pub clock_races: u64,
}

impl LookAhead {
    /// The share of CPU time that stops and the births of threads were to cost, and the one they
    /// did cost, where that is much more. Single steps are no part of a budget.
    pub fn beyond(&self, pace: Pace) -> Option<(f64, f64)> {
        /// Fewer stops say nothing, since the first ones cost the most; unless they took so long
        /// that it was noticed.
        const ENOUGH_STOPS: u64 = 20;
        const NOTICED_S: f64 = 0.05;
        let Pace::Budget(share) = pace else { return None };
        let spent = (with_cold_caches(self.stopped) + self.births).as_secs_f64();
        let cpu = self.program_cpu.as_secs_f64();
        let (cost, over) = (spent / cpu, spent - share * cpu);
        let enough = self.stops >= ENOUGH_STOPS || over >= NOTICED_S;
        (self.checked == 0 && enough && cpu > 0.0 && cost > 1.5 * share).then_some((share, cost))
    }
}

/// The way of records from rings into files.
#[derive(Clone, Debug)]
pub struct Streamed {
    /// What was lost on it.
    pub losses: Losses,
    /// Bytes before and after compression, where there was one.
    pub compressed: Option<(u64, u64)>,
    /// The deepest level of a compression that adapts.
    pub deepest: Option<i32>,
    /// The most bytes that waited for the disk.
    pub waited: u64,
    /// Complete files before the last one (`--switch-output`), oldest first.
    pub files: Vec<PathBuf>,
    /// Whether the recording ended at the size that was asked for (`--max-size`).
    pub full: bool,
    /// CPUs that went or came meanwhile, where CPUs are recorded.
    pub hotplug: Hotplug,
    /// Where each reader ran, and where its memory is.
    pub readers: Vec<Placement>,
}

/// What counting without recording gives.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Taken branches of all recorded processes.
    pub taken_branches: u64,
    /// Executed instructions; a repeated string instruction counts once per repetition.
    pub instructions: u64,
    /// Processes that took part.
    pub processes: u64,
    /// Programs that a recorded program started and that ran uncounted.
    pub native_programs: u64,
    /// Wall time.
    pub elapsed: Duration,
    /// How the program ended.
    pub ending: Ending,
}
