//! Where the recordings of all rounds lie, and which of them are left of a call that was interrupted.

use super::Recorder;
use anyhow::Context;
use build::kept_rounds::{self, KeptRounds};
use build::rounds::Round;
use std::path::{Path, PathBuf};

/// Recordings of more rounds there are never.
const MOST_ROUNDS: u64 = 32;

impl Recorder<'_> {
    /// The rounds that an earlier call recorded; else what is left of others is removed.
    pub(super) fn kept(&self) -> anyhow::Result<KeptRounds> {
        let args = self.args;
        let builds: Vec<_> = self.images.iter().map(|image| image.build_id()).collect();
        let asked = format!("{:?} {:?} {:?} {builds:?}", self.training, self.settings, args.paths);
        let program = args.binary.first().cloned().unwrap_or_default();
        let mut kept = KeptRounds::of(&args.data, &asked, &program)
            .with_context(|| program.display().to_string())?;
        let rounds = kept_rounds::counting(kept.rounds());
        let commands = 0..self.commands.len();
        let whole = rounds.iter().all(|round| {
            commands.clone().all(|n| self.name(&args.data, *round, n, "data").is_file())
        });
        if !whole || rounds.is_empty() {
            kept.clear();
            let numbered = |number| Round { number, runs: 1, period: None, replaces: false };
            self.remove(&(1..=MOST_ROUNDS).map(numbered).collect::<Vec<_>>());
        } else if !self.global.quiet {
            let what = match kept.rounds().len() {
                1 => "1 round is".to_owned(),
                rounds => format!("{rounds} rounds are"),
            };
            eprintln!("{:>20}: {what} recorded already; going on", "kept");
        }
        Ok(kept)
    }

    /// Removes the recordings of rounds.
    pub(super) fn remove(&self, rounds: &[Round]) {
        for (n, &round) in (0..self.commands.len()).flat_map(|n| rounds.iter().map(move |r| (n, r)))
        {
            let _ = std::fs::remove_file(self.name(&self.args.data, round, n, "data"));
        }
    }

    /// The name of a command's file of a round: later ones tell theirs.
    pub(super) fn name(&self, prefix: &Path, round: Round, n: usize, suffix: &str) -> PathBuf {
        let mut name = prefix.as_os_str().to_owned();
        name.push(format!("-{}", n + 1));
        if round.number > 1 {
            name.push(format!("-{}", round.number));
        }
        name.push(format!(".{suffix}"));
        name.into()
    }
}
