//! How is training recorded where the CPU records no branches? Decided once, by how long it takes
//! natively.
//!
//! A short program is emulated: 5 to 25 times slower, but every thousandth branch ends a sample,
//! whatever the machine does. A long one runs natively and is stopped for software branch stacks,
//! all commands equally often, until the profile is stable ([`crate::rounds`]). What a command
//! weighs in the profile is the CPU time that one run of it takes natively, times what the user
//! says, however many branches or stacks it happens to give.

use crate::Error;
use crate::call::Output;
use crate::program_log::ProgramLog;
use crate::recording::StopBy;
use crate::request::{Libraries, Pace, ProgramCommand, Record, Repeat};
use crate::rounds::Round;
use crate::words::split_words;
use crate::{bounded_log, child, sys};
use record::Branches;
use record::branches::{Emulation, Offered, automatic};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    /// Software, emulated, or auto: whatever suits.
    pub branches: Branches,
    /// Most seconds to record.
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
    /// CPU time that it and its children took.
    pub cpu_seconds: f64,
    /// What the user multiplies its weight by.
    pub weight: f64,
}

impl Timed {
    /// What it weighs in the profile, in seconds of CPU time: what is too short to be measured has
    /// a microsecond.
    pub fn wanted(&self) -> f64 {
        self.cpu_seconds.max(1e-6) * self.weight
    }
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
    /// How often each command is run at most.
    pub runs: u64,
    /// How long one run of all commands takes, with its stops.
    pub run_seconds: f64,
    /// After how many seconds recording ends at the latest.
    pub limit_seconds: f64,
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
        let emulation = match wish.branches {
            Branches::Emulated => wish.offered.emulation,
            _ => auto && direct && wish.offered.emulation,
        };
        let offered = Offered { emulation, ..wish.offered };
        let emulation = if short { Emulation::BeforeSoftware } else { Emulation::Last };
        let branches = match wish.branches {
            Branches::Emulated if offered.emulation => Branches::Emulated,
            Branches::Emulated => {
                return Err(
                    "programs cannot be emulated here; `planish doctor` says what is missing"
                        .into(),
                );
            }
            _ => automatic(offered, emulation),
        };
        let why = match branches {
            Branches::None if auto && !direct => {
                return Err("a script or a server starts the program, or it runs in another \
                            directory, where the emulator cannot follow, and threads cannot be stopped here; \
                            `planish doctor` says what is missing"
                    .into());
            }
            Branches::None => {
                return Err("neither can programs be emulated here nor their threads be stopped; \
                            `planish doctor` says what is missing"
                    .into());
            }
            Branches::Emulated if !auto => ": emulated".to_owned(),
            Branches::Emulated if short => format!(", less than {below} s: emulated"),
            Branches::Emulated => {
                ", and threads cannot be stopped here: emulated, which takes 5 to 25 times as long"
                    .into()
            }
            _ if short => ", and the emulator is missing here (planish doctor)".into(),
            _ if auto && !direct => {
                ", started by a script or a server, or in another directory, where the emulator cannot follow".into()
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
                    ": recorded natively, with software branch stacks, up to {runs} times over \
                     for {} s at most",
                    wish.seconds
                )
            }
            _ => String::new(),
        };
        let reason = format!("{took}{why}{how}");
        Ok(Training {
            schema: SCHEMA.to_owned(),
            version: 2,
            commands,
            branches,
            runs,
            run_seconds: stretched,
            limit_seconds: wish.seconds,
            reason,
        })
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
        if training.schema != SCHEMA || training.version != 2 {
            return Err(fail(std::io::Error::other(
                "it is not what `planish train time` of this version prints",
            )));
        }
        Ok(training)
    }
}

const SCHEMA: &str = "planish-training";

/// Runs a training command `times` times to see how long it takes; the fastest run, which the rest
/// of the machine disturbed least, tells. What it prints goes to `log`, else to standard error.
///
/// # Errors
/// Where it cannot be started, or does not end well.
pub fn time(line: &str, times: u32, log: Option<&Path>, stop: &AtomicBool) -> Result<Timed, Error> {
    let mut best = time_once(line, log, stop)?;
    // What takes long is known well enough.
    for _ in 1..times {
        if best.seconds > LONG_SECONDS {
            break;
        }
        let next = time_once(line, log, stop)?;
        best.seconds = best.seconds.min(next.seconds);
        best.cpu_seconds = best.cpu_seconds.min(next.cpu_seconds);
    }
    Ok(best)
}

/// Longer commands are timed once.
const LONG_SECONDS: f64 = 1.0;

fn time_once(line: &str, log: Option<&Path>, stop: &AtomicBool) -> Result<Timed, Error> {
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
    let (began, before) = (Instant::now(), sys::children_cpu());
    let mut running = command.stdin(Stdio::null()).spawn().map_err(cannot)?;
    // Its copies of the log's writer go, so that the log can end.
    drop(command);
    let status = child::wait(&mut running, stop).map_err(cannot)?;
    let seconds = began.elapsed().as_secs_f64();
    let cpu_seconds = sys::children_cpu().saturating_sub(before).as_secs_f64();
    kept.map(ProgramLog::finish).transpose()?;
    if !status.success() {
        let last = log.map(|log| bounded_log::last_lines(log, 0, 5)).unwrap_or_default();
        let last = if last.is_empty() { last.concat() } else { format!(" ({})", last.join(" | ")) };
        let good = match status.code() {
            Some(code) => format!(
                "it must end with 0, or with one of exit_codes in [workload] and [evaluate]: if {code} is as good, \
                 name it there, or with --set 'workload.exit_codes=[{code}]' and 'evaluate.exit_codes=[{code}]'"
            ),
            None => "it must end with exit code 0".to_owned(),
        };
        let bad = format!("{line}: ended with {}{last}; {good}", ended(status));
        return Err(Error::Training(bad));
    }
    Ok(Timed { command: line.to_owned(), seconds, cpu_seconds, weight: 1.0 })
}

/// How a program ended, as `planish record` says it.
fn ended(status: std::process::ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("exit code {code}"))
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

/// How training is recorded beside what [`Training`] decides: what a user wants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// How far stops or samples are apart; absent: what suits.
    pub pace: Option<Pace>,
    /// Software branch stacks: what is counted between two stops; absent: what the machine can.
    pub stop_by: Option<StopBy>,
}

impl Settings {
    /// The distance between two samples, where that is what is wanted.
    pub fn period(&self) -> Option<u64> {
        match self.pace {
            Some(Pace::Period(period)) => Some(period),
            _ => None,
        }
    }
}

impl Training {
    /// The recording of one command in a round; `planish` repeats the command where it runs more
    /// than once.
    pub fn recording(
        &self,
        round: Round,
        settings: &Settings,
        planish: &Path,
        (command, output, log): (&[String], &Path, Option<PathBuf>),
    ) -> Record {
        let software = self.branches == Branches::Software;
        let repeat = Repeat { runs: round.runs, planish: planish.to_owned() };
        Record {
            output: Output::from(output),
            branches: self.branches,
            pace: if software { settings.pace } else { round.period.map(Pace::Period) },
            stop_by: settings.stop_by.filter(|_| software),
            program_output: log,
            repeat: Some(repeat).filter(|_| software && round.runs > 1),
            command: ProgramCommand {
                words: command.to_vec(),
                program: None,
                // Its environment, which is this command's own, leads the program to them.
                libraries: Libraries::default(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(seconds: &[f64], wish: Wish) -> Result<(Branches, u64, String), String> {
        let timed = |&seconds: &f64| Timed {
            command: "./app".into(),
            seconds,
            cpu_seconds: seconds,
            weight: 1.0,
        };
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
        assert!(reason.contains("up to 3 times over for 60 s at most"), "{reason}");
        assert_eq!(decided(&[90.0], USUAL).unwrap().1, 1);
        assert_eq!(decided(&[10.0], Wish { budget: 3.0, ..USUAL }).unwrap().1, 6);
        assert_eq!(decided(&[0.0], Wish { emulate_below: 0.0, ..USUAL }).unwrap().1, 10_000);
    }

    #[test]
    fn what_starts_the_program_by_others_is_never_emulated() {
        let others = Wish { started_by_others: true, ..USUAL };
        let (branches, runs, reason) = decided(&[0.5], others).unwrap();
        assert_eq!((branches, runs), (Branches::Software, 60));
        assert!(reason.contains("another directory, where the emulator cannot follow"), "{reason}");
        let missing = decided(&[0.5], Wish { offered: NO_STOPS, ..others }).unwrap_err();
        assert!(missing.contains("a script or a server starts the program"), "{missing}");
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
        let emulated = Wish { branches: Branches::Emulated, ..USUAL };
        assert_eq!(decided(&[100.0], emulated).unwrap().0, Branches::Emulated);
        let missing = Wish { offered: Offered { emulation: false, ..ALL }, ..emulated };
        assert!(decided(&[1.0], missing).unwrap_err().contains("doctor"));
    }
}
