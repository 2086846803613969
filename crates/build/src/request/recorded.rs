//! Which requests record or count a program's runs, and which decide how?

use crate::call::{Call, Input, Output, Word};
use crate::recording::StopBy;
use crate::words::quoted;
use record::Branches;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A command in words, `{bin}` standing for a program of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCommand {
    /// The words.
    pub words: Vec<String>,
    /// The program; absent where the words name it themselves.
    pub program: Option<Input>,
    /// The libraries of the project that it runs with.
    pub libraries: Libraries,
}

/// The libraries of one variant of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Libraries {
    /// Their files.
    pub files: Vec<Input>,
    /// `LD_LIBRARY_PATH` of what runs with them; absent where there are none.
    pub path: Option<String>,
}

impl Libraries {
    /// The variables that lead a program to them.
    pub(crate) fn environment(&self) -> BTreeMap<String, String> {
        let path = self.path.iter();
        path.map(|path| (crate::images::LIBRARY_PATH.to_owned(), path.clone())).collect()
    }

    fn add_to(&self, call: &mut Call) {
        call.environment.extend(self.environment());
        call.reads.extend(self.files.iter().cloned());
    }
}

impl ProgramCommand {
    /// The words with the program's name.
    fn bound(&self) -> Vec<String> {
        let Some(program) = &self.program else { return self.words.clone() };
        bound(&self.words, program.as_ref())
    }

    /// Adds them to a call.
    fn add_to(&self, mut call: Call) -> Call {
        call = call.with("--");
        let words = self.words.iter().zip(self.bound());
        call = call.with_all(words.map(|(word, bound)| naming(word, bound, self.program.as_ref())));
        // A command that does not name the program may run it nevertheless.
        call.reads.extend(self.program.clone().filter(|_| !self.names_program()));
        self.libraries.add_to(&mut call);
        call
    }

    /// The same for a recording under emulation, which cannot follow `planish workload` into the
    /// program: that stands around the recording then, and exit codes go to the recording itself,
    /// whose own must not pass for them. `record` adds the recording and its options.
    fn around(&self, record: impl FnOnce(Call) -> Call) -> Call {
        let bound = self.bound();
        let at = bound.iter().position(|word| word == "--");
        let (Some(at), Some("workload")) = (at, bound.get(1).map(String::as_str)) else {
            return self.add_to(record(Call::planish(["record"])));
        };
        let mut words = self.words.iter().zip(bound);
        let named = |(word, bound): (&String, String)| naming(word, bound, self.program.as_ref());
        let planish = words.next().map(named);
        let is_code = |(_, bound): &(&String, String)| bound.starts_with("--exit-code=");
        let options: Vec<_> = words.by_ref().take(at - 1).collect();
        let (codes, options): (Vec<_>, Vec<_>) = options.into_iter().partition(is_code);
        let mut call = Call::new(crate::Program::Planish).with_all(options.into_iter().map(named));
        call = call.with("--").with_all(planish).with("record");
        call = record(call).with_all(codes.into_iter().map(named));
        call = call.with_all(words.map(named));
        call.reads.extend(self.program.clone().filter(|_| !self.names_program()));
        self.libraries.add_to(&mut call);
        call
    }

    fn names_program(&self) -> bool {
        self.words.iter().any(|word| word.contains(BIN))
    }
}

/// What stands for a program in a command.
const BIN: &str = "{bin}";

/// A command's words, `{bin}` replaced by a program's name.
pub(crate) fn bound(command: &[String], program: &Path) -> Vec<String> {
    // With a slash, so that it is not looked for in PATH.
    let path = if program.is_absolute() {
        program.display().to_string()
    } else {
        format!("./{}", program.display())
    };
    command.iter().map(|word| word.replace(BIN, &path)).collect()
}

/// A bound word, with the program it names.
fn naming(word: &str, bound: String, program: Option<&Input>) -> Word {
    match program {
        Some(program) if word.contains(BIN) => Word::Naming(bound, program.clone()),
        _ => Word::Plain(bound),
    }
}

/// How far samples or stops are apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// By so many of what is counted.
    Period(u64),
    /// Stops alone: so many per cent of the program's CPU time go into them.
    Budget(f64),
}

/// Time all training commands, and decide how they are recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainTime {
    /// Which branch stacks are wanted: `auto`, `software` or `emulated`.
    pub branches: Branches,
    /// Most seconds to record, all commands together.
    pub seconds: f64,
    /// Seconds of native training below which it is emulated.
    pub emulate_below: f64,
    /// Per cent of the program's CPU time that goes into stops.
    pub budget: f64,
    /// Whether scripts or servers start the program, so that it cannot be emulated.
    pub started_by_others: bool,
    /// What each command must run.
    pub watched: Option<Input>,
    /// Where what the commands print goes.
    pub program_output: PathBuf,
    /// The commands.
    pub commands: Vec<ProgramCommand>,
    /// What the user multiplies the weight of each by; empty: nothing.
    pub weights: Vec<f64>,
    /// What was decided.
    pub decision: Output,
}

impl TrainTime {
    pub(super) fn call(&self) -> Call {
        let mut call = Call::planish(["train", "time"])
            .with_option("--branches", self.branches.word())
            .with_option("--seconds", self.seconds)
            .with_option("--emulate-below", self.emulate_below)
            .with_option("--budget", self.budget)
            .with_if(self.started_by_others, "--started-by-others")
            .with_program_output(&self.program_output);
        for weight in &self.weights {
            call = call.with_option("--weight", weight);
        }
        let mut call = with_lines(call, &self.commands);
        // All commands are of one variant.
        self.commands.iter().take(1).for_each(|command| command.libraries.add_to(&mut call));
        if let Some(program) = &self.watched {
            call = call.with("--program").with(program);
        }
        call.with(Word::Stdout(self.decision.clone()))
    }
}

/// See that a command ends well, runs the program and prints the same each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TryCommand {
    /// The program that it must run.
    pub watched: Input,
    /// What will be measured.
    pub metric: String,
    /// Whether it may print something else each time.
    pub ignore_output: bool,
    /// The CPU that it will be measured on, if it is to be one.
    pub cpu: Option<u32>,
    /// Where what the command prints goes.
    pub program_output: PathBuf,
    /// The command.
    pub command: ProgramCommand,
}

impl TryCommand {
    pub(super) fn call(&self) -> Call {
        let call = Call::planish(["train", "try", "--program"])
            .with(&self.watched)
            .with_option("--metric", &self.metric)
            .with_if(self.ignore_output, "--ignore-output")
            .with_all(self.cpu.map(|cpu| format!("--cpu={cpu}")));
        self.command.add_to(call.with_program_output(&self.program_output))
    }
}

/// Adds each command as a line.
fn with_lines(mut call: Call, commands: &[ProgramCommand]) -> Call {
    for command in commands {
        let line: Vec<String> = command.bound().iter().map(|word| quoted(word)).collect();
        let line = line.join(" ");
        call = call.with("--command").with(match &command.program {
            Some(program) => Word::Naming(line, program.clone()),
            None => Word::Plain(line),
        });
    }
    call
}

/// Record all training commands as [`TrainTime`] decided, until the profile is stable, and count.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainRecord {
    /// What was decided.
    pub by: Input,
    /// The program that is recorded.
    pub binary: Input,
    /// Begins the names of the recordings.
    pub data: PathBuf,
    /// Whether paths of two branches are counted too.
    pub paths: bool,
    /// The counts.
    pub counts: Output,
    /// What each command gave to them, and how stable they are.
    pub found: Output,
    /// How far stops, or samples under emulation, are apart; absent: what suits.
    pub pace: Option<Pace>,
    /// Software branch stacks: what is counted between two stops; absent: what the machine can.
    pub stop_by: Option<StopBy>,
    /// Begins the names of the files that what the commands print goes to.
    pub program_output: PathBuf,
    /// The commands.
    pub commands: Vec<ProgramCommand>,
}

impl TrainRecord {
    pub(super) fn call(&self) -> Call {
        // All commands are of one variant.
        let libraries = self.commands.first().map(|command| command.libraries.clone());
        let libraries = libraries.unwrap_or_default();
        let mut call = Call::planish(["train", "record", "--by"]).with(&self.by);
        for binary in [&self.binary].into_iter().chain(&libraries.files) {
            call = call.with("--binary").with(binary);
        }
        let call = call.with_if(!libraries.files.is_empty(), "--no-copies");
        let call = call.with("-o").with(&self.counts);
        let call = call.with("--data").with(self.data.as_path()).with_if(self.paths, "--paths");
        let call = with_pace(call, "--period", self.pace);
        let call = with_stops(call, self.stop_by, None);
        let call = call.with("--program-output").with(self.program_output.as_path());
        let mut call = with_lines(call, &self.commands).with_json(&self.found);
        call.environment.extend(libraries.environment());
        call
    }
}

/// Record one training command: all of the program, and with losses, which the summary tells and a
/// profile bears.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The recording.
    pub output: Output,
    /// Where branch stacks come from.
    pub branches: Branches,
    /// How far samples or stops are apart; absent: a rate that the machine bears.
    pub pace: Option<Pace>,
    /// Software branch stacks: what is counted between two stops; absent: what the machine can.
    pub stop_by: Option<StopBy>,
    /// Where what the command prints goes; absent: where planish's own words go.
    pub program_output: Option<PathBuf>,
    /// How often the command runs; absent for once.
    pub repeat: Option<Repeat>,
    /// The command.
    pub command: ProgramCommand,
}

/// A command run several times in one recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// How often.
    pub runs: u64,
    /// The planish that repeats it.
    pub planish: PathBuf,
}

impl Record {
    pub(super) fn call(&self) -> Call {
        let options = |call: Call| {
            let call = call.with("-o").with(&self.output);
            let call = call.with(format!("--branches={}", self.branches.word()));
            // Under emulation nothing is lost unless the disk is full.
            let may_lose = self.branches != Branches::Emulated;
            let call = with_pace(call, "-c", self.pace).with("--whole");
            let call = call.with_if(may_lose, "--accept-losses");
            with_stops(call, self.stop_by, self.program_output.as_deref())
        };
        if self.branches == Branches::Emulated && self.repeat.is_none() {
            return self.command.around(options);
        }
        let mut call = options(Call::planish(["record"]));
        if let Some(Repeat { runs, planish }) = &self.repeat {
            call = call.with("--").with(planish.as_path()).with_all(["train", "repeat"]);
            call = call.with_option("--runs", runs);
        }
        self.command.add_to(call)
    }
}

fn with_pace(call: Call, period: &str, pace: Option<Pace>) -> Call {
    match pace {
        Some(Pace::Period(count)) => call.with_option(period, count),
        Some(Pace::Budget(share)) => call.with_option("--budget", share),
        None => call,
    }
}

fn with_stops(mut call: Call, stop_by: Option<StopBy>, program_output: Option<&Path>) -> Call {
    if let Some(by) = stop_by {
        call = call.with_option("--stop-by", by.word());
    }
    match program_output {
        Some(log) => call.with_program_output(log),
        None => call,
    }
}

/// Count the branches that a command takes, under emulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountBranches {
    /// The recording, which nobody reads.
    pub data: Output,
    /// The summary with the counts.
    pub counts: Output,
    /// Where what the command prints goes.
    pub program_output: PathBuf,
    /// The command.
    pub command: ProgramCommand,
}

impl CountBranches {
    /// Branches from one sample to the next. What is wanted is the number of taken branches that
    /// the summary tells; the samples are so far apart that the recording is small.
    const PERIOD: u32 = 100_003;

    pub(super) fn call(&self) -> Call {
        self.command.around(|call| {
            call.with("--branches=emulated")
                .with_option("-c", Self::PERIOD)
                .with_json(&self.counts)
                .with("-o")
                .with(&self.data)
                .with_program_output(&self.program_output)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            output: Output::from("a b.data"),
            branches: Branches::Software,
            pace: Some(Pace::Budget(2.5)),
            stop_by: Some(StopBy::Clock),
            program_output: Some("log".into()),
            repeat: Some(Repeat { runs: 3, planish: "/p".into() }),
            command: ProgramCommand {
                words: ["{bin}", "-x={bin}", "y z"].map(str::to_owned).to_vec(),
                program: Some(Input::from("app")),
                libraries: Libraries::default(),
            },
        }
    }

    #[test]
    fn a_recording_is_rendered_with_all_that_it_asks_for() {
        let call = record().call();
        assert_eq!(
            call.command_line(),
            "planish record -o 'a b.data' --branches=software --budget 2.5 --whole \
             --accept-losses --stop-by clock --program-output log -- /p train repeat --runs 3 -- \
             ./app -x=./app 'y z'"
        );
        assert_eq!(call.inputs(), [Path::new("app")]);
        assert_eq!(call.outputs(), [Path::new("a b.data")]);
        let plain = Record { pace: None, stop_by: None, repeat: None, ..record() };
        let plain = Record { program_output: None, branches: Branches::Hardware, ..plain };
        assert_eq!(
            plain.call().command_line(),
            "planish record -o 'a b.data' --branches=hardware --whole --accept-losses -- ./app \
             -x=./app 'y z'"
        );
    }

    #[test]
    fn libraries_are_read_and_named_by_the_environment() {
        let libraries =
            Libraries { files: vec![Input::from("lib/libapp.so")], path: Some("/src/lib".into()) };
        let command = ProgramCommand { libraries, ..record().command };
        let call = Record { command, ..record() }.call();
        assert_eq!(call.environment["LD_LIBRARY_PATH"], "/src/lib");
        assert_eq!(call.inputs(), ["lib/libapp.so", "app"].map(Path::new));
    }

    #[test]
    fn what_stands_around_a_command_stands_around_its_emulated_recording() {
        let words =
            "{planish} workload --program {bin} --environment=A=1 --exit-code=3 -- {PLANISH_BIN} x";
        let command = ProgramCommand {
            words: words.split(' ').map(str::to_owned).collect(),
            ..record().command
        };
        let emulated = Record {
            branches: Branches::Emulated,
            pace: None,
            stop_by: None,
            repeat: None,
            command: command.clone(),
            ..record()
        };
        let call = emulated.call();
        assert_eq!(
            call.command_line(),
            "planish workload --program ./app --environment=A=1 -- planish record -o 'a b.data' \
             --branches=emulated --whole --program-output log --exit-code=3 -- \
             {PLANISH_BIN} x"
        );
        assert_eq!(call.inputs(), [Path::new("app")]);
        assert_eq!(call.outputs(), [Path::new("a b.data")]);
        // What stops threads follows the program wherever it starts.
        let software = Record { command, ..record() }.call().command_line();
        assert!(
            software.starts_with("planish record -o")
                && software.ends_with("--exit-code=3 -- {PLANISH_BIN} x"),
            "{software}"
        );
    }

    #[test]
    fn a_program_that_no_word_names_is_read_nevertheless() {
        let command = ProgramCommand { words: vec!["sh".into()], ..record().command };
        let call = Record { command, ..record() }.call();
        assert!(call.command_line().ends_with("-- sh"));
        assert_eq!(call.inputs(), [Path::new("app")]);
    }
}
