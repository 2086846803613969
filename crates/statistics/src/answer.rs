//! Everything about one variant against the base: as-built effect, layout-averaged effect, luck,
//! verdict.

use crate::pair::{Label, PairTest, Point};
use crate::{
    Averaged, Components, Judgement, LayoutMeans, Luck, Observation, Rule, judge, least_layouts,
    power, variance,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How to analyse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Margin and error rate.
    pub rule: Rule,
    /// Random relabellings where there are too many to try all.
    pub draws: usize,
    /// Seed of the relabellings.
    pub seed: u64,
    /// True when layout l of every variant has the same function order.
    pub matched: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { rule: Rule::default(), draws: 9999, seed: 1, matched: false }
    }
}

/// The effect between the two binaries as they were built, ln(B) − ln(A).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AsBuilt {
    /// The shift at which nothing differs any more.
    pub estimate: f64,
    /// Lower end of the 95 % interval; absent under six pairs of runs.
    pub low: Option<f64>,
    /// Upper end of the 95 % interval.
    pub high: Option<f64>,
    /// Lower end of the 90 % interval.
    pub low90: Option<f64>,
    /// Upper end of the 90 % interval.
    pub high90: Option<f64>,
    /// Randomisation p-value, two-sided.
    pub p_value: f64,
    /// Rounds used.
    pub rounds: usize,
    /// Pairs of runs used: rounds × copies.
    pub blocks: usize,
    /// What the 95 % interval means as a standard error.
    pub standard_error: Option<f64>,
}

impl AsBuilt {
    /// Variant `b` against `a`, from all observations in time order; those of other binaries show
    /// how the machine was doing. Copy c of A and copy c of B form a pair in each round:
    /// swapping a pair is one of the orders that the schedule could as well have drawn. `None`
    /// without any such pair.
    pub fn of(
        observations: &[Observation],
        a: usize,
        b: usize,
        draws: usize,
        seed: u64,
    ) -> Option<AsBuilt> {
        let (test, rounds, blocks) = AsBuilt::prepared(observations, a, b, draws, seed)?;
        Some(AsBuilt::from_test(&test, rounds, blocks))
    }

    /// The test alone, for those who need no interval.
    pub fn test(
        observations: &[Observation],
        a: usize,
        b: usize,
        draws: usize,
        seed: u64,
    ) -> Option<PairTest> {
        AsBuilt::prepared(observations, a, b, draws, seed).map(|(test, _, _)| test)
    }

    fn prepared(
        observations: &[Observation],
        a: usize,
        b: usize,
        draws: usize,
        seed: u64,
    ) -> Option<(PairTest, usize, usize)> {
        let keys = |v: usize| -> BTreeSet<(u32, u8)> {
            observations
                .iter()
                .filter(|o| o.layout == 0 && o.variant == v)
                .map(|o| (o.round, o.copy))
                .collect()
        };
        let blocks: BTreeMap<(u32, u8), usize> =
            keys(a).intersection(&keys(b)).enumerate().map(|(index, &key)| (key, index)).collect();
        if blocks.is_empty() {
            return None;
        }
        let binaries: BTreeSet<(usize, u32)> =
            observations.iter().map(|o| (o.variant, o.layout)).collect();
        let other: BTreeMap<(usize, u32), usize> = binaries.into_iter().zip(0..).collect();
        let mut used = BTreeSet::new();
        let mut points = Vec::with_capacity(observations.len());
        for o in observations {
            let block = blocks.get(&(o.round, o.copy)).copied();
            let label = match (o.layout, block) {
                (0, Some(index)) if o.variant == a && used.insert((index, 0)) => Label::A,
                (0, Some(index)) if o.variant == b && used.insert((index, 1)) => Label::B,
                _ => Label::Other(other.get(&(o.variant, o.layout)).copied().unwrap_or(0)),
            };
            points.push(Point { label, round: block.unwrap_or(0), log: o.log });
        }
        let rounds = blocks.keys().map(|key| key.0).collect::<BTreeSet<u32>>().len();
        Some((PairTest::new(points, draws, seed), rounds, blocks.len()))
    }

    fn from_test(test: &PairTest, rounds: usize, blocks: usize) -> AsBuilt {
        let [wide, narrow] = test.intervals([0.95, 0.90]);
        let finite = |x: f64| Some(x).filter(|x| x.is_finite());
        AsBuilt {
            estimate: wide.estimate,
            low: finite(wide.low),
            high: finite(wide.high),
            low90: finite(narrow.low),
            high90: finite(narrow.high),
            p_value: test.p_value(0.0),
            rounds,
            blocks,
            standard_error: wide.standard_error(0.95, 2.0 * blocks as f64 - 2.0),
        }
    }
}

/// One variant against the base.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The two binaries as built.
    pub as_built: AsBuilt,
    /// Averaged over layouts; absent without layouts.
    pub averaged: Option<Averaged>,
    /// As-built minus averaged.
    pub luck: Option<Luck>,
    /// What the noise is made of.
    pub components: Option<Components>,
    /// Smallest difference (ln scale) that would have been noticed with 80 % probability among so
    /// many rows.
    pub detectable: Option<f64>,
    /// The verdict.
    pub judgement: Judgement,
}

impl Answer {
    /// Judges again with a corrected p-value of the deciding test: τ's with layouts, the pair's
    /// without.
    pub fn with_corrected(mut self, p_value: f64, rule: Rule) -> Answer {
        match &mut self.averaged {
            Some(averaged) => averaged.p_value = p_value,
            None => self.as_built.p_value = p_value,
        }
        self.judge(rule);
        self
    }

    /// The p-value that decides: τ's with layouts, the pair's without.
    pub fn p_value(&self) -> f64 {
        self.averaged.as_ref().map_or(self.as_built.p_value, |a| a.p_value)
    }

    fn judge(&mut self, rule: Rule) {
        self.judgement = judge(&self.as_built, self.averaged.as_ref(), rule);
        let alpha = rule.alpha / rule.rows.max(1) as f64;
        self.detectable = match &self.averaged {
            Some(t) => Some(power::detectable(t.standard_error, t.df, alpha, power::POWER)),
            None => self.as_built.standard_error.map(|error| {
                power::detectable(
                    error,
                    2.0 * self.as_built.blocks as f64 - 2.0,
                    alpha,
                    power::POWER,
                )
            }),
        };
        if let (Some(needed), Some(a), Some(c)) =
            (&mut self.judgement.needed, &self.averaged, &self.components)
        {
            let per_layout =
                if a.matched { c.difference_variance } else { Some(c.layout_variance) };
            let run = if a.matched { 2.0 * c.run_variance } else { c.run_variance };
            let goal = rule.goal(a.estimate);
            let rounds = per_layout
                .and_then(|v| power::rounds_with_layouts(goal, v, run, a.layouts, a.matched));
            // No number of rounds makes up for layouts that are too few for any verdict.
            let enough = a.layouts >= least_layouts(a.matched);
            needed.rounds = rounds.filter(|&r| enough && r as usize > self.as_built.rounds);
        }
    }
}

/// Compares variant `b` with `a`. `observations` of all variants in time order, warm-up removed.
/// `None` when the two as-built binaries never ran in one round.
pub fn compare(
    observations: &[Observation],
    a: usize,
    b: usize,
    options: Options,
) -> Option<Answer> {
    let means = LayoutMeans::new(observations);
    let components = variance::components(observations, &means, Some((a, b)));
    compare_with(observations, &means, components, a, b, options)
}

/// Compares every variant with variant 0 and corrects for their number (Holm). Entry i is variant i
/// + 1.
pub fn compare_all(
    observations: &[Observation],
    variants: usize,
    options: Options,
) -> Vec<Option<Answer>> {
    let means = LayoutMeans::new(observations);
    let one = |b| {
        let components = variance::components(observations, &means, Some((0, b)));
        compare_with(observations, &means, components, 0, b, options)
    };
    let answers: Vec<Option<Answer>> = (1..variants).map(one).collect();
    let p: Vec<f64> = answers.iter().flatten().map(Answer::p_value).collect();
    let rule = Rule { rows: p.len(), ..options.rule };
    let mut corrected = crate::many::holm(&p).into_iter();
    answers
        .into_iter()
        .map(|a| {
            a.map(|a| {
                let p = corrected.next().unwrap_or(1.0);
                a.with_corrected(p, rule)
            })
        })
        .collect()
}

fn compare_with(
    observations: &[Observation],
    means: &LayoutMeans,
    components: Option<Components>,
    a: usize,
    b: usize,
    options: Options,
) -> Option<Answer> {
    let as_built = AsBuilt::of(observations, a, b, options.draws, options.seed)?;
    let averaged = means.compare(a, b, options.matched, options.draws, options.seed);
    let luck = averaged.as_ref().and_then(|averaged| Luck::of(&as_built, averaged));
    let judgement = judge(&as_built, averaged.as_ref(), options.rule);
    let mut answer = Answer { as_built, averaged, luck, components, detectable: None, judgement };
    answer.judge(options.rule);
    Some(answer)
}
