//! How is training recorded where the CPU records no branches? Decided once, by how long it takes
//! natively.
//!
//! A short program is emulated: 5 to 25 times slower, but every thousandth branch ends a sample,
//! whatever the machine does. A long one runs natively and is
//! stopped for software branch stacks; where it takes less than the time to record, all training
//! commands are repeated equally often, so that their weights stay what one run of each gives.

use crate::Error;
use crate::program_log::ProgramLog;
use crate::request::{Pace, Record, Repeat, TrainRecord};
use crate::words::split_words;
use crate::{bounded_log, child};
use record::Branches;
use record::branches::{Emulation, Offered, automatic};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    /// Software, or auto: whatever suits.
    pub branches: Branches,
    /// Seconds to record.
    pub seconds: f64,
    /// Native seconds below which programs are emulated.
    pub emulate_below: f64,
    /// Per cent of the program's CPU time that goes into stops.
    pub budget: f64,
    /// Which branch stacks the machine offers.
    pub offered: Offered,
    /// Whether scripts or servers start the program: emulation follows no program into others.
    pub started_by_others: bool,
}

/// A timed training command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// As it was run.
    pub command: String,
    /// How long it took natively.
    pub seconds: f64,
}

/// How all training commands are recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// `planish-training`.
    pub schema: String,
    /// Version of this form.
    pub version: u32,
    /// The commands, each timed in one run.
    pub commands: Vec<Timed>,
    /// `emulated` or `software`.
    pub branches: Branches,
    /// How often each command is run.
    pub runs: u64,
    /// Why, in words.
    pub reason: String,
}

/// No training is repeated more often.
const MOST_RUNS: f64 = 10_000.0;

impl Training {
    /// Decides. `Err` holds what is missing where nothing can be recorded.
    ///
    /// # Errors
    /// Where programs can neither be emulated nor stopped.
    pub fn decide(commands: Vec<Timed>, wish: &Wish) -> Result<Training, String> {
        let native: f64 = commands.iter().map(|timed| timed.seconds).sum();
        let took = format!("the training takes {native:.1} s");
        let below = wish.emulate_below;
        let auto = wish.branches == Branches::Auto;
        let direct = !wish.started_by_others;
        let short = auto && direct && native < below;
        let emulation = auto && direct && wish.offered.emulation;
        let offered = Offered { emulation, ..wish.offered };
        let emulation = if short { Emulation::BeforeSoftware } else { Emulation::Last };
        let branches = automatic(offered, emulation);
        let why = match branches {
            Branches::None if auto && !direct => {
                return Err("the training starts the program by a script or beside a server, \
                            which the emulator cannot follow, and threads cannot be stopped here; \
                            `planish doctor` says what is missing"
                    .into());
            }
            Branches::None => {
                return Err("neither can programs be emulated here nor their threads be stopped; \
                            `planish doctor` says what is missing"
                    .into());
            }
            Branches::Emulated if short => format!(", less than {below} s: emulated"),
            Branches::Emulated => {
                ", and threads cannot be stopped here: emulated, which takes 5 to 25 times as long"
                    .into()
            }
            _ if short => ", and the emulator is missing here (planish doctor)".into(),
            _ if auto && !direct => {
                ", by a script or beside a server, which the emulator cannot follow".into()
            }
            _ => String::new(),
        };
        let stretched = native.max(1e-3) * (1.0 + wish.budget / 100.0);
        let runs = match branches {
            Branches::Software => (wish.seconds / stretched).ceil().clamp(1.0, MOST_RUNS) as u64,
            _ => 1,
        };
        let how = match (branches, runs) {
            (Branches::Software, 1) => {
                ": recorded natively, with software branch stacks".to_owned()
            }
            (Branches::Software, runs) => {
                format!(
                    ": recorded natively, with software branch stacks, {runs} times over for {} s",
                    wish.seconds
                )
            }
            _ => String::new(),
        };
        let reason = format!("{took}{why}{how}");
        Ok(Training { schema: SCHEMA.to_owned(), version: 1, commands, branches, runs, reason })
    }

    /// Reads what an earlier step decided.
    ///
    /// # Errors
    /// Where `path` holds something else.
    pub fn read(path: &Path) -> Result<Training, Error> {
        let fail = |source| Error::File { path: path.to_owned(), action: "cannot read", source };
        let bytes = beside::given::read(path, beside::given::TEXT).map_err(fail)?;
        let training: Training =
            serde_json::from_slice(&bytes).map_err(|error| fail(error.into()))?;
        if training.schema != SCHEMA {
            return Err(fail(std::io::Error::other("it is not what `planish train time` prints")));
        }
        Ok(training)
    }
}

const SCHEMA: &str = "planish-training";

/// Runs a training command once to see how long it takes. What it prints goes to `log`, else to
/// standard error.
///
/// # Errors
/// Where it cannot be started, or does not end well.
pub fn time(line: &str, log: Option<&Path>, stop: &AtomicBool) -> Result<Timed, Error> {
    let cannot = |source| Error::Training(format!("cannot start {line}: {source}"));
    let words =
        split_words(line).map_err(|problem| Error::Training(format!("--command: {problem}")))?;
    let mut command = command_of(&words)?;
    let kept = log.map(ProgramLog::create).transpose()?;
    if let Some(log) = &kept {
        let writer = log.writer();
        command.stdout(writer.try_clone().map_err(cannot)?);
        command.stderr(writer.try_clone().map_err(cannot)?);
    } else {
        // Standard output is for the result.
        command.stdout(std::io::stderr());
    }
    let began = Instant::now();
    let mut running = command.stdin(Stdio::null()).spawn().map_err(cannot)?;
    // Its copies of the log's writer go, so that the log can end.
    drop(command);
    let status = child::wait(&mut running, stop).map_err(cannot)?;
    let seconds = began.elapsed().as_secs_f64();
    kept.map(ProgramLog::finish).transpose()?;
    if !status.success() {
        let last = log.map(|log| bounded_log::last_lines(log, 0, 5)).unwrap_or_default();
        let last = if last.is_empty() { last.concat() } else { format!(" ({})", last.join(" | ")) };
        let bad = format!("{line}: ended with {status}{last}; it must end well");
        return Err(Error::Training(bad));
    }
    Ok(Timed { command: line.to_owned(), seconds })
}

/// The command that words stand for.
///
/// # Errors
/// Where there are none.
pub fn command_of(words: &[String]) -> Result<Command, Error> {
    let (program, arguments) =
        words.split_first().ok_or_else(|| Error::Training("a command is needed".into()))?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

impl Training {
    /// The recording of one command, as it was decided; `planish` repeats the command where it runs
    /// more than once.
    pub fn recording(&self, planish: &Path, asked: &TrainRecord) -> Record {
        let software = self.branches == Branches::Software;
        let repeat = Repeat { runs: self.runs, planish: planish.to_owned() };
        Record {
            output: asked.output.clone(),
            branches: self.branches,
            pace: if software { asked.pace } else { Some(Pace::Period(1000)) },
            stop_by: asked.stop_by.filter(|_| software),
            program_output: asked.program_output.clone(),
            repeat: Some(repeat).filter(|_| software && self.runs > 1),
            command: asked.command.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(seconds: &[f64], wish: Wish) -> Result<(Branches, u64, String), String> {
        let timed = |&seconds: &f64| Timed { command: "./app".into(), seconds };
        let training = Training::decide(seconds.iter().map(timed).collect(), &wish)?;
        Ok((training.branches, training.runs, training.reason))
    }

    const ALL: Offered = Offered { hardware: false, software: true, emulation: true };
    const NO_STOPS: Offered = Offered { software: false, ..ALL };
    const NOTHING: Offered = Offered { emulation: false, ..NO_STOPS };

    const USUAL: Wish = Wish {
        branches: Branches::Auto,
        seconds: 60.0,
        emulate_below: 5.0,
        budget: 100.0,
        offered: ALL,
        started_by_others: false,
    };

    #[test]
    fn short_training_is_emulated_and_long_training_is_repeated_to_a_minute_together() {
        let (branches, runs, reason) = decided(&[0.5, 2.0], USUAL).unwrap();
        assert_eq!((branches, runs), (Branches::Emulated, 1));
        assert!(reason.contains("takes 2.5 s, less than 5 s: emulated"), "{reason}");
        // With stops that take as long as the program, 3 runs of 10 s are a minute.
        let (branches, runs, reason) = decided(&[4.0, 6.0], USUAL).unwrap();
        assert_eq!((branches, runs), (Branches::Software, 3));
        assert!(reason.contains("3 times over for 60 s"), "{reason}");
        assert_eq!(decided(&[90.0], USUAL).unwrap().1, 1);
        assert_eq!(decided(&[10.0], Wish { budget: 3.0, ..USUAL }).unwrap().1, 6);
        assert_eq!(decided(&[0.0], Wish { emulate_below: 0.0, ..USUAL }).unwrap().1, 10_000);
    }

    #[test]
    fn what_starts_the_program_by_others_is_never_emulated() {
        let others = Wish { started_by_others: true, ..USUAL };
        let (branches, runs, reason) = decided(&[0.5], others).unwrap();
        assert_eq!((branches, runs), (Branches::Software, 60));
        assert!(reason.contains("by a script or beside a server, which the emulator"), "{reason}");
        let missing = decided(&[0.5], Wish { offered: NO_STOPS, ..others }).unwrap_err();
        assert!(missing.contains("by a script or beside a server"), "{missing}");
    }

    #[test]
    fn what_is_missing_decides_too() {
        let no_emulator = Wish { offered: Offered { emulation: false, ..ALL }, ..USUAL };
        let (branches, _, reason) = decided(&[1.0], no_emulator).unwrap();
        assert_eq!(branches, Branches::Software);
        assert!(reason.contains("the emulator is missing here"), "{reason}");
        assert_eq!(
            decided(&[10.0], Wish { offered: NO_STOPS, ..USUAL }).unwrap().0,
            Branches::Emulated
        );
        assert!(
            decided(&[1.0], Wish { offered: NOTHING, ..USUAL }).unwrap_err().contains("doctor")
        );
        let software = Wish { branches: Branches::Software, ..USUAL };
        assert_eq!(decided(&[1.0], software).unwrap().0, Branches::Software);
        assert!(decided(&[1.0], Wish { offered: NO_STOPS, ..software }).is_err());
    }
}
