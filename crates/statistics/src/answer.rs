//! Everything about one variant against the base: as-built effect, layout-averaged effect, luck,
//! verdict.

use crate::{
    AsBuilt, Averaged, Components, Judgement, LayoutMeans, Luck, Observation, Rule, judge,
    least_layouts, power, variance,
};
use serde::{Deserialize, Serialize};

/// How to analyse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AnswerOptions {
    /// Margin and error rate.
    pub rule: Rule,
    /// Random relabellings where there are too many to try all.
    pub draws: usize,
    /// Seed of the relabellings.
    pub seed: u64,
    /// True when layout l of every variant has the same function order.
    pub matched: bool,
}

impl Default for AnswerOptions {
    fn default() -> Self {
        AnswerOptions { rule: Rule::default(), draws: 9999, seed: 1, matched: false }
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
    options: AnswerOptions,
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
    options: AnswerOptions,
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
    options: AnswerOptions,
) -> Option<Answer> {
    let as_built = AsBuilt::of(observations, a, b, options.draws, options.seed)?;
    let averaged = means.compare(a, b, options.matched, options.draws, options.seed);
    let luck = averaged.as_ref().and_then(|averaged| Luck::of(&as_built, averaged));
    let judgement = judge(&as_built, averaged.as_ref(), options.rule);
    let mut answer = Answer { as_built, averaged, luck, components, detectable: None, judgement };
    answer.judge(options.rule);
    Some(answer)
}
