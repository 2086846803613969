//! The steps that record the training and count branches, and those that find out how.

use super::Stages;
use crate::STATE_DIRECTORY;
use crate::Step;
use crate::call::{Input, Output};
use crate::config;
use crate::files::{Measured, Round};
use crate::request::{
    Aggregate, CountBranches, Libraries, Pace, ProgramCommand, Record, Request, TrainRecord,
    TrainTime, TryCommand,
};
use ::record::Branches;
use std::path::{Path, PathBuf};

/// Per cent of the program's CPU time that goes into stops of training: nobody waits for it but
/// planish.
const BUDGET: f64 = 100.0;

impl Stages<'_> {
    /// Records a round's program on every training command, and counts.
    pub(super) fn record_all(&self, round: Round, program: &Path) -> Vec<Step> {
        let libraries = self.libraries(round.recorded());
        let of = |command: &Vec<String>| of_program(command, program, &libraries);
        let commands: Vec<ProgramCommand> = self.training.iter().map(of).collect();
        let steps = match self.config.record.branches {
            // The CPU's branches are recorded at full speed; how long that takes decides nothing.
            Branches::Hardware | Branches::None => self.record_each(round, program, commands),
            _ => vec![
                self.time(round, program, &commands),
                self.record_until_stable(round, program, commands),
            ],
        };
        // Counting reads recordings alone.
        let besides = |step: Step| match &step.request {
            Request::Aggregate(_) => step,
            _ => self.of_training(step),
        };
        steps.into_iter().map(besides).collect()
    }

    /// Records each command once, and counts them together.
    fn record_each(
        &self,
        round: Round,
        program: &Path,
        commands: Vec<ProgramCommand>,
    ) -> Vec<Step> {
        let recordings = (0..commands.len()).map(|n| Input::from(&round.recording(n)));
        let aggregate = Aggregate {
            recordings: recordings.collect(),
            binary: Input::from(program),
            libraries: self.library_files(round.recorded()),
            weights: self.config.workload.weights.clone(),
            paths: self.wants_paths(round),
            counts: Output::from(&round.counts()),
            found: Output::from(&round.counted()),
        };
        let mut steps = Vec::new();
        for (n, command) in commands.into_iter().enumerate() {
            let name = format!("{}record-{}", round.prefix(), n + 1);
            let request = self.at_once(Output::from(&round.recording(n)), &name, command);
            steps.push(Step::new(name, request));
        }
        let name = format!("{}aggregate", round.prefix());
        steps.push(Step::new(name, Request::Aggregate(aggregate)));
        steps
    }

    /// Whether paths of two branches are counted: clones of a layout are chosen by them, and nothing
    /// else needs them.
    fn wants_paths(&self, round: Round) -> bool {
        let optimize = &self.config.optimize;
        let is_laid_out = match round {
            Round::COUNTED => optimize.lays_out_counted(),
            round => optimize.lays_out() && round.number > optimize.profile_rounds(),
        };
        optimize.clone && is_laid_out
    }

    /// Times the training and decides how it is recorded.
    fn time(&self, round: Round, program: &Path, commands: &[ProgramCommand]) -> Step {
        let record = &self.config.record;
        let name = format!("{}time-training", round.prefix());
        let request = TrainTime {
            branches: record.branches,
            seconds: record.seconds.unwrap_or(config::Record::SECONDS),
            emulate_below: record.emulate_below.unwrap_or(config::Record::EMULATE_BELOW),
            budget: record.budget.unwrap_or(BUDGET),
            started_by_others: self.config.workload.not_emulatable().is_some(),
            // Another program may run what is recorded of a library.
            watched: self.config.build.libraries.is_empty().then(|| Input::from(program)),
            program_output: program_output(&name),
            commands: commands.to_vec(),
            weights: self.config.workload.weights.clone(),
            decision: Output::from(&round.training()),
        };
        Step::new(name, Request::TrainTime(request))
    }

    /// Records all commands as the timing decided, until the profile is stable.
    fn record_until_stable(
        &self,
        round: Round,
        program: &Path,
        commands: Vec<ProgramCommand>,
    ) -> Step {
        let record = &self.config.record;
        let name = format!("{}record", round.prefix());
        let budget = Pace::Budget(record.budget.unwrap_or(BUDGET));
        let stopped = record.branches != Branches::Emulated;
        let request = TrainRecord {
            by: Input::from(&round.training()),
            binary: Input::from(program),
            data: round.file("train"),
            paths: self.wants_paths(round),
            counts: Output::from(&round.counts()),
            found: Output::from(&round.counted()),
            pace: record.period.map(Pace::Period).or(stopped.then_some(budget)),
            stop_by: record.stop_by,
            program_output: Path::new(STATE_DIRECTORY).join("log").join(&name),
            commands,
        };
        Step::new(name, Request::TrainRecord(request))
    }

    /// A recording that needs no timing.
    fn at_once(&self, output: Output, name: &str, command: ProgramCommand) -> Request {
        let record = &self.config.record;
        Request::Record(Record {
            output,
            branches: record.branches,
            // Without a period record knows a rate that the machine bears.
            pace: record.period.map(Pace::Period),
            stop_by: None,
            program_output: Some(program_output(name)),
            repeat: None,
            command,
        })
    }

    /// Tries the n-th evaluation command with the baseline: its first real run is the comparison's,
    /// after all recordings and builds.
    pub(crate) fn try_evaluation(&self, n: usize, command: &[String]) -> Step {
        let name = format!("try-{}", n + 1);
        let evaluate = &self.config.evaluate;
        let request = TryCommand {
            watched: Input::from(&self.files.base),
            metric: evaluate.metric.clone(),
            ignore_output: evaluate.ignore_output,
            cpu: evaluate.cpu,
            program_output: program_output(&name),
            command: of_program(command, &self.files.base, &self.libraries("base")),
        };
        self.of_evaluation(Step::new(name, Request::TryCommand(request)), command)
    }

    /// Counts the branches that a program takes on an evaluation command.
    pub(crate) fn count(&self, program: &Measured, n: usize, command: &[String]) -> Step {
        let counts = self.files.branches(program.ending, n);
        let name = format!("branches-{}-{}", program.ending, n + 1);
        let request = CountBranches {
            data: Output::from(&counts.with_extension("data")),
            counts: Output::from(&counts),
            program_output: program_output(&name),
            command: of_program(command, &program.path, &self.libraries(program.ending)),
        };
        // Not every machine has the emulator, and the measurement stands without it.
        self.of_evaluation(Step::new(name, Request::CountBranches(request)), command).optional()
    }
}

fn of_program(words: &[String], program: &Path, libraries: &Libraries) -> ProgramCommand {
    let libraries = libraries.clone();
    ProgramCommand { words: words.to_vec(), program: Some(Input::from(program)), libraries }
}

/// Where what a step's recorded program prints goes.
fn program_output(step: &str) -> PathBuf {
    Path::new(STATE_DIRECTORY).join("log").join(format!("{step}.output"))
}
