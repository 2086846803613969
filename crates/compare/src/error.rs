//! What can go wrong while measuring, with the cause and the next step.

use std::path::{Path, PathBuf};

/// Why a measurement could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The design cannot be run.
    #[error("{0}")]
    Design(String),
    /// The program could not be started.
    #[error("cannot start {program}: {source}. Is the path right, and is the file executable?")]
    Start {
        /// The program as it was to be started.
        program: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A system call around a run failed.
    #[error("{action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A run ended otherwise than the first one of the base variant.
    #[error(
        "{variant} ended with {found} in round {round}. A run that fails cannot be compared; {remedy}"
    )]
    Ended {
        /// Name of the variant.
        variant: String,
        /// Round of the run.
        round: u32,
        /// How it ended, how it should have ended, the command and the last lines of its standard
        /// error.
        found: String,
        /// What to look for.
        remedy: &'static str,
    },
    /// A run printed something else than the first run of the base variant.
    #[error(
        "{variant} printed something else in round {round} than {base}, which printed the same when it ran once more: \
         {difference}. Programs that do different work cannot be compared: look for a source that was \
         changed between the builds, for undefined behaviour, or for a wrong compilation. Only where the \
         output may differ, use --ignore-output, or ignore_output = true in [evaluate] or [compare] of \
         planish.toml"
    )]
    Output {
        /// Name of the variant.
        variant: String,
        /// Name of the variant whose first output is the reference.
        base: String,
        /// Round of the run.
        round: u32,
        /// The first differing line of both.
        difference: String,
    },
    /// A command printed something else when it ran again.
    #[error(
        "{command} printed something else when it ran again: {difference}. planish can then not check that the \
         programs do the same work. If the output is random or contains times, take it as it is: \
         --ignore-output of planish compare, --set evaluate.ignore_output=true of planish optimize, \
         ignore_output = true in [evaluate] or [compare] of planish.toml"
    )]
    Varies {
        /// The command.
        command: String,
        /// The first differing line of both.
        difference: String,
    },
    /// A command prints no number for the metric.
    #[error("{command} prints no number for the metric: {}", lack(pattern, found))]
    Prints {
        /// The command.
        command: String,
        /// What was looked for.
        pattern: String,
        /// What stands there, where the pattern matches.
        found: Option<String>,
    },
    /// A run took too long and was killed.
    #[error(
        "{variant} was killed in round {round} after {seconds:.1} s ({command}): it hangs, or the \
         limit is too short; --timeout SECONDS sets another one"
    )]
    Hangs {
        /// Name of the variant.
        variant: String,
        /// Round of the run.
        round: u32,
        /// How long it had run.
        seconds: f64,
        /// The command.
        command: String,
    },
    /// A run printed more than is held in memory and was killed.
    #[error(
        "{variant} was killed in round {round} after it had printed more than {gib} GiB \
         ({command}); send its output to a file or to /dev/null in the command, or give it less \
         to do"
    )]
    Floods {
        /// Name of the variant.
        variant: String,
        /// Round of the run.
        round: u32,
        /// The most that a program may print, in GiB.
        gib: u64,
        /// The command.
        command: String,
    },
    /// The machine cannot count what a metric asks for.
    #[error(
        "this machine cannot count {name} (no PMU, or perf_event_paranoid forbids it; planish \
         doctor says which). task-clock and the times of rusage work everywhere"
    )]
    NoCounter {
        /// The counter.
        name: &'static str,
    },
    /// A metric name or pattern is not understood.
    #[error("metric {given:?}: {problem}")]
    Metric {
        /// What was given.
        given: String,
        /// What is wrong and what is possible.
        problem: String,
    },
    /// The metric's value is missing in a program's output.
    #[error(
        "{variant} on {benchmark}, round {round}: the output has no number for the metric: {}",
        lack(pattern, found)
    )]
    NoValue {
        /// Name of the benchmark.
        benchmark: String,
        /// Name of the variant.
        variant: String,
        /// Round of the run.
        round: u32,
        /// The pattern.
        pattern: String,
        /// What stands there, where the pattern matches.
        found: Option<String>,
    },
    /// The user ended it before there was anything to tell.
    #[error("interrupted: {0}")]
    Interrupted(String),
    /// A variant cannot be linked in other layouts.
    #[error("cannot link {variant} in other layouts: {source}")]
    NoRelink {
        /// Its name.
        variant: String,
        /// Why.
        source: relink::Error,
    },
    /// A link in another layout failed.
    #[error("{0}")]
    Relink(#[from] relink::Error),
    /// There is too little to compare.
    #[error("{0}")]
    TooFew(String),
    /// A file of runs cannot be read or written.
    #[error("{path}{}: {problem}", line.map(|n| format!(", line {n}")).unwrap_or_default())]
    File {
        /// The file.
        path: PathBuf,
        /// The line, when the problem is on one.
        line: Option<usize>,
        /// What is wrong.
        problem: String,
    },
}

/// Why a metric has no number: what stands where it is looked for is none, or none that can decide.
fn lack(pattern: &str, found: &Option<String>) -> String {
    let searched = "standard output, which alone is searched";
    match found {
        None => format!("the pattern {pattern} finds none in {searched}"),
        Some(found) if found.trim().parse::<f64>().is_err() => {
            format!("the pattern {pattern} finds {found:?} in {searched}, which is no number")
        }
        Some(found) => format!(
            "the pattern {pattern} finds {found} in {searched}; the metric that decides must be above \
             0, since effects are ratios"
        ),
    }
}

impl Error {
    /// What is wrong with a file as a whole.
    pub fn problem(path: &Path, problem: impl ToString) -> Error {
        Error::File { path: path.to_owned(), line: None, problem: problem.to_string() }
    }

    /// An error of the system about a file.
    pub fn file(path: &Path) -> impl Fn(std::io::Error) -> Error {
        let path = path.to_owned();
        move |error| Error::problem(&path, error)
    }
}
