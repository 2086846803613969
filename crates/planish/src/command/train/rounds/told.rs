//! What is told of training that was recorded: what each command gave, and how stable the sum is.

use super::{Recorder, Sum};
use build::kept_rounds;
use build::rounds::Round;
use counts::aggregate::Aggregated;
use report::training::{Command, Trained};

impl Recorder<'_> {
    /// What the terminal and the report say.
    pub(super) fn told(&self, done: &[Round], sum: &Sum) -> Trained {
        let kept = kept_rounds::counting(done);
        let weights: Vec<u128> = sum
            .parts
            .iter()
            .zip(&sum.factors)
            .map(|(part, &factor)| self.executions(part).saturating_mul(u128::from(factor)))
            .collect();
        let all = weights.iter().sum::<u128>().max(1);
        let parts = sum.parts.iter().zip(&weights).zip(&sum.factors);
        let commands = parts.zip(&self.training.commands).enumerate();
        let told = commands.map(|(n, (((part, &weight), &factor), timed))| {
            let size = |round: &Round| {
                let path = self.name(&self.args.data, *round, n, "data");
                std::fs::metadata(path).map_or(0, |metadata| metadata.len())
            };
            Command {
                command: timed.command.clone(),
                cpu_seconds: timed.cpu_seconds,
                weight: timed.weight,
                samples: part.parts.iter().map(|part| part.used).sum(),
                factor,
                share: weight as f64 / all as f64,
                file_bytes: kept.iter().map(size).sum(),
            }
        });
        Trained {
            rounds: done.len() as u64,
            runs: kept.iter().map(|round| round.runs).sum(),
            period: done.last().and_then(|round| round.period),
            stable: sum.found.is_stable(),
            line: self.training.verdict(done, sum.found, self.settings.period()),
            commands: told.collect(),
        }
    }

    /// Branches of the program and its libraries that a command gave, as they were recorded.
    fn executions(&self, part: &Aggregated) -> u128 {
        let own = self.images.iter().filter_map(|image| super::counted(part, image));
        own.map(|counts| counts.branch_total()).sum()
    }
}
