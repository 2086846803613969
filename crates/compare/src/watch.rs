//! May the measurement end now? One monitor for each variant and benchmark, fed round by round.

use crate::Design;
use crate::design::{Layouts, Stopping};
use statistics::power::least_rounds;
use statistics::sequential::{Monitor, Plan, Step};
use statistics::{AnswerOptions, Observation, Rule};
use std::collections::BTreeMap;

/// Scheduled looks of [`Stopping::Looks`]: more would ask more of each p-value than they save in
/// rounds.
const LOOKS: usize = 4;
/// Swaps drawn at a look; the final analysis draws its own.
const DRAWS: usize = 4999;

/// The monitors of a measurement.
pub(crate) struct Watch<'a> {
    design: &'a Design,
    monitors: BTreeMap<(usize, usize), (Monitor, Step)>,
    /// Rounds of each benchmark.
    rounds: BTreeMap<usize, u32>,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(design: &'a Design) -> Watch<'a> {
        Watch { design, monitors: BTreeMap::new(), rounds: BTreeMap::new() }
    }

    /// Feeds the whole `round` of a benchmark, seen by the metric that judges; true when every
    /// variant that goes on is decided.
    pub(crate) fn feed(
        &mut self,
        benchmark: usize,
        round: &[Observation],
        variants: &[usize],
    ) -> bool {
        if self.design.stopping == Stopping::Fixed {
            return false;
        }
        // Fewer rounds than any claim among so many rows needs are no end, whatever the monitors
        // say.
        let fed = self.rounds.entry(benchmark).or_insert(0);
        *fed += 1;
        let mut all =
            self.design.layouts != Layouts::None || *fed >= least_rounds(rows(self.design) as f64);
        for &variant in variants.iter().filter(|&&v| v > 0) {
            let entry = self
                .monitors
                .entry((benchmark, variant))
                .or_insert_with(|| (monitor(self.design, variant), Step::Continue));
            entry.1 = entry.0.feed(round);
            all &= entry.1 != Step::Continue;
        }
        all
    }

    /// What a variant's monitor said last.
    pub(crate) fn step(&self, benchmark: usize, variant: usize) -> Option<Step> {
        self.monitors.get(&(benchmark, variant)).map(|(_, step)| *step)
    }
}

/// Variants against the base, over all benchmarks.
fn rows(design: &Design) -> usize {
    (design.variants.len().saturating_sub(1) * design.benchmarks.len()).max(1)
}

/// The error rate is shared out among the variants and benchmarks, so that any number of them may
/// be watched.
fn monitor(design: &Design, variant: usize) -> Monitor {
    let plan = match design.stopping {
        Stopping::Fixed => Plan::Fixed,
        Stopping::Looks => Plan::Looks(LOOKS),
        Stopping::UntilDecided => Plan::UntilDecided,
    };
    let options = AnswerOptions {
        rule: Rule { margin: design.margin, alpha: 0.05 / rows(design) as f64, rows: 1 },
        draws: DRAWS,
        seed: design.seed,
        matched: design.is_matched(variant),
    };
    Monitor::new(plan, (0, variant), design.rounds as usize, options)
}
