//! The steps that record the training, and those that find out how.

use super::{Round, Stages, bound, paths};
use crate::Step;
use crate::config::Record;
use crate::plan::{STATE_DIRECTORY, text};
use crate::step::quoted;
use ::record::Branches;
use std::path::{Path, PathBuf};

/// Per cent of the program's CPU time that goes into stops of training: nobody waits for it but
/// planish.
const BUDGET: f64 = 100.0;

impl Stages<'_> {
    /// Records a round's program on every training command.
    pub(super) fn record_all(&self, round: Round, program: &Path) -> Vec<Step> {
        let commands: Vec<Vec<String>> =
            self.training.iter().map(|command| bound(command, program)).collect();
        // What a CPU or an emulator gives does not depend on how long the program runs.
        let timed = matches!(self.config.record.branches, Branches::Auto | Branches::Software);
        let training = round.training();
        let mut steps: Vec<Step> =
            timed.then(|| self.time(round, program, &training, &commands)).into_iter().collect();
        for (n, command) in commands.iter().enumerate() {
            let name = format!("{}record-{}", round.prefix(), n + 1);
            let mut step = if timed {
                let mut step = Step::planish(name, &["train", "record", "--by"]);
                step.arguments.extend([text(&training), "-o".into()]);
                step.inputs.push(training.clone());
                step
            } else {
                Step::planish(name, &["record", "-o"])
            };
            let output = round.recording(n);
            step.arguments.push(text(&output));
            if timed {
                step.arguments.extend(self.pace());
            } else {
                step.arguments.extend(self.way());
                step.arguments.push("--whole".into());
                // The summary tells of losses; a profile bears some.
                step.arguments.push("--accept-losses".into());
            }
            self.keep_output(&mut step);
            step.arguments.push("--".into());
            step.arguments.extend(command.iter().cloned());
            step.inputs.push(program.to_owned());
            step.inputs.extend(paths(&self.config.workload.inputs));
            step.outputs = vec![output];
            steps.push(step);
        }
        steps
    }

    /// Times the training and decides how it is recorded.
    fn time(
        &self,
        round: Round,
        program: &Path,
        training: &Path,
        commands: &[Vec<String>],
    ) -> Step {
        let record = &self.config.record;
        let mut step =
            Step::planish(format!("{}time-training", round.prefix()), &["train", "time"]);
        step.arguments.extend(["--branches".into(), record.branches.word().into()]);
        let number = |key: &str, value: f64| [key.to_owned(), value.to_string()];
        step.arguments.extend(number("--seconds", record.seconds.unwrap_or(Record::SECONDS)));
        step.arguments.extend(number(
            "--emulate-below",
            record.emulate_below.unwrap_or(Record::EMULATE_BELOW),
        ));
        step.arguments.extend(number("--budget", record.budget.unwrap_or(BUDGET)));
        if self.config.workload.indirect().is_some() {
            step.arguments.push("--started-by-others".into());
        }
        self.keep_output(&mut step);
        for command in commands {
            let line: Vec<String> = command.iter().map(|word| quoted(word)).collect();
            step.arguments.extend(["--command".into(), line.join(" ")]);
        }
        step.inputs.push(program.to_owned());
        step.inputs.extend(paths(&self.config.workload.inputs));
        step.outputs = vec![training.to_owned()];
        step.stdout = Some(training.to_owned());
        step
    }

    /// How often software branch stacks are taken.
    fn pace(&self) -> Vec<String> {
        let record = &self.config.record;
        let mut words = match record.period {
            Some(period) => vec!["--period".to_owned(), period.to_string()],
            None => vec!["--budget".to_owned(), record.budget.unwrap_or(BUDGET).to_string()],
        };
        words.extend(
            record.stop_by.into_iter().flat_map(|by| ["--stop-by".into(), by.word().into()]),
        );
        words
    }

    /// Where branch stacks come from, and how far they are apart.
    fn way(&self) -> Vec<String> {
        let record = &self.config.record;
        let mut words = vec![format!("--branches={}", record.branches.word())];
        // Under emulation time means nothing and a period of 1,000 taken branches costs little.
        // Elsewhere record knows a rate that the machine bears.
        let period = record.period.or((record.branches == Branches::Emulated).then_some(1000));
        words.extend(period.into_iter().flat_map(|n| ["-c".to_owned(), n.to_string()]));
        words
    }

    /// Lets a step put what the recorded program prints into a file of its own.
    pub(super) fn keep_output(&self, step: &mut Step) {
        let file = PathBuf::from(STATE_DIRECTORY).join("log").join(format!("{}.output", step.name));
        step.arguments.extend(["--program-output".into(), text(&file)]);
        step.program_log = Some(file);
    }
}
