//! The steps that record the training and count branches, and those that find out how.

use super::{Round, Stages, paths};
use crate::Step;
use crate::call::{Input, Output};
use crate::config;
use crate::plan::{Measured, STATE_DIRECTORY};
use crate::request::{
    CountBranches, Pace, ProgramCommand, Record, Request, TrainRecord, TrainTime, TryCommand,
};
use ::record::Branches;
use std::path::{Path, PathBuf};

/// Per cent of the program's CPU time that goes into stops of training: nobody waits for it but
/// planish.
const BUDGET: f64 = 100.0;

impl Stages<'_> {
    /// Records a round's program on every training command.
    pub(super) fn record_all(&self, round: Round, program: &Path) -> Vec<Step> {
        let commands: Vec<ProgramCommand> =
            self.training.iter().map(|command| of_program(command, program)).collect();
        // What a CPU or an emulator gives does not depend on how long the program runs.
        let timed = matches!(self.config.record.branches, Branches::Auto | Branches::Software);
        let training = timed.then(|| round.training());
        let mut steps = Vec::new();
        steps.extend(training.as_ref().map(|decision| self.time(round, decision, &commands)));
        for (n, command) in commands.into_iter().enumerate() {
            let name = format!("{}record-{}", round.prefix(), n + 1);
            let output = Output::from(&round.recording(n));
            let request = match &training {
                Some(by) => self.as_decided(Input::from(by), output, &name, command),
                None => self.at_once(output, &name, command),
            };
            steps.push(Step::new(name, request).besides(paths(&self.config.workload.inputs)));
        }
        steps
    }

    /// Times the training and decides how it is recorded.
    fn time(&self, round: Round, decision: &Path, commands: &[ProgramCommand]) -> Step {
        let record = &self.config.record;
        let name = format!("{}time-training", round.prefix());
        let request = TrainTime {
            branches: record.branches,
            seconds: record.seconds.unwrap_or(config::Record::SECONDS),
            emulate_below: record.emulate_below.unwrap_or(config::Record::EMULATE_BELOW),
            budget: record.budget.unwrap_or(BUDGET),
            started_by_others: self.config.workload.indirect().is_some(),
            program_output: program_output(&name),
            commands: commands.to_vec(),
            decision: Output::from(decision),
        };
        Step::new(name, Request::TrainTime(request)).besides(paths(&self.config.workload.inputs))
    }

    /// A recording as the timing decided.
    fn as_decided(
        &self,
        by: Input,
        output: Output,
        name: &str,
        command: ProgramCommand,
    ) -> Request {
        let record = &self.config.record;
        let budget = Pace::Budget(record.budget.unwrap_or(BUDGET));
        Request::TrainRecord(TrainRecord {
            by,
            output,
            pace: Some(record.period.map_or(budget, Pace::Period)),
            stop_by: record.stop_by,
            program_output: Some(program_output(name)),
            command,
        })
    }

    /// A recording that needs no timing.
    fn at_once(&self, output: Output, name: &str, command: ProgramCommand) -> Request {
        let record = &self.config.record;
        // Under emulation time means nothing and a period of 1,000 taken branches costs little.
        // Elsewhere record knows a rate that the machine bears.
        let emulated = record.branches == Branches::Emulated;
        Request::Record(Record {
            output,
            branches: record.branches,
            pace: record.period.or(emulated.then_some(1000)).map(Pace::Period),
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
        let request = TryCommand {
            watched: Input::from(&self.files.base),
            program_output: program_output(&name),
            command: of_program(command, &self.files.base),
        };
        Step::new(name, Request::TryCommand(request)).besides(paths(&self.config.evaluate.inputs))
    }

    /// Counts the branches that a program takes on an evaluation command.
    pub(crate) fn count(&self, program: &Measured, n: usize, command: &[String]) -> Step {
        let counts = self.files.branches(program.ending, n);
        let name = format!("branches-{}-{}", program.ending, n + 1);
        let request = CountBranches {
            data: Output::from(&counts.with_extension("data")),
            counts: Output::from(&counts),
            program_output: program_output(&name),
            command: of_program(command, &program.path),
        };
        // Not every machine has the emulator, and the measurement stands without it.
        Step::new(name, Request::CountBranches(request))
            .besides(paths(&self.config.evaluate.inputs))
            .optional()
    }
}

fn of_program(words: &[String], program: &Path) -> ProgramCommand {
    ProgramCommand { words: words.to_vec(), program: Some(Input::from(program)) }
}

/// Where what a step's recorded program prints goes.
fn program_output(step: &str) -> PathBuf {
    Path::new(STATE_DIRECTORY).join("log").join(format!("{step}.output"))
}
