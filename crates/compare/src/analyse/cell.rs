//! One benchmark on one machine: every variant against the base.

use super::{AnalysisOptions, confirm, words};
use crate::design::Stopping;
use crate::result::{Averaged, Compared, Confirmation, Effect, Needed, OtherMetric, Verdict};
use crate::runs::Recorded;
use crate::watch::Watch;
use crate::{Benchmark, Design, Error, Metric, Run};
use statistics::gauge::{Gauged, Unused};
use statistics::sequential::Step;
use statistics::{Answer, Observation, Rule, median, series, spread};
use std::collections::{BTreeMap, BTreeSet};

/// Which rounds?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Those that decide.
    First,
    /// Those that confirm what the first ones showed.
    Second,
}

impl Block {
    fn holds(self, design: &Design, round: u32) -> bool {
        match self {
            Block::First => round > 0 && (!design.confirm || round <= design.rounds),
            Block::Second => design.confirm && design.second_block().contains(&round),
        }
    }
}

/// The runs of one benchmark that count.
pub(super) struct Runs<'a> {
    pub(super) design: &'a Design,
    pub(super) benchmark: &'a Benchmark,
    /// Its index in the design.
    index: usize,
    pub(super) metric: Metric,
    /// Runs of complete rounds in time order, without stopped variants.
    pub(super) used: Vec<&'a Run>,
    /// Each with ln of the deciding metric, turned so that less is better, as it is judged.
    pub(super) observations: Vec<Observation>,
    /// The same as measured.
    pub(super) raw: Vec<Observation>,
    /// As measured, each without its binary's level and the slow course of the machine.
    pub(super) residuals: Vec<f64>,
    /// What the gauge explained of the deciding metric and the observations are without, or why it
    /// was not used.
    pub(super) gauged: Result<Gauged, Unused>,
    /// Runs after the warm-up that an unfinished round holds.
    pub(super) left_out: usize,
    /// Variants that went through, the base first.
    pub(super) variants: Vec<usize>,
}

impl<'a> Runs<'a> {
    pub(super) fn of(
        file: &'a Recorded,
        index: usize,
        metric: Option<&Metric>,
        block: Block,
    ) -> Result<Runs<'a>, Error> {
        let design = &file.design;
        let Some(benchmark) = design.benchmarks.get(index) else {
            return Err(Error::Design(format!("benchmark {index} is not in the design")));
        };
        let metric = metric.or(benchmark.metrics.first()).cloned().unwrap_or_default();
        let stopped = |v: &usize| {
            let name = design.variants.get(*v).map(|v| v.name.as_str());
            file.stopped
                .iter()
                .any(|s| Some(s.variant.as_str()) == name && s.benchmark == benchmark.name)
        };
        let variants: Vec<usize> = (0..design.variants.len()).filter(|v| !stopped(v)).collect();
        let here = || {
            file.runs.iter().filter(|run| run.benchmark == index && variants.contains(&run.variant))
        };
        let wanted: BTreeSet<_> =
            design.slots().into_iter().filter(|slot| variants.contains(&slot.variant)).collect();
        let mut seen = BTreeMap::<u32, BTreeSet<_>>::new();
        for run in here().filter(|run| block.holds(design, run.round)) {
            seen.entry(run.round).or_default().insert(run.slot());
        }
        let complete: BTreeSet<u32> = seen
            .into_iter()
            .filter(|(_, slots)| *slots == wanted)
            .map(|(round, _)| round)
            .collect();
        let used: Vec<&Run> = here().filter(|run| complete.contains(&run.round)).collect();
        let left_out = here().filter(|run| block.holds(design, run.round)).count() - used.len();
        if used.is_empty() && variants.len() > 1 {
            return Err(Error::TooFew(format!(
                "{}: no round was finished after the warm-up, so there is nothing to compare",
                benchmark.name
            )));
        }
        let raw = observations(design, &metric, &used, true)?;
        let residuals = series::residuals(&raw);
        let mut observations = raw.clone();
        let gauged = without_gauge(&mut observations, &metric, &used);
        Ok(Runs {
            design,
            benchmark,
            index,
            metric,
            used,
            observations,
            raw,
            residuals,
            gauged,
            left_out,
            variants,
        })
    }

    pub(super) fn rounds(&self) -> usize {
        self.used.iter().map(|run| run.round).collect::<BTreeSet<u32>>().len()
    }
}

/// Every run as the statistics see it. The deciding metric must not be zero: an effect is a ratio,
/// and there is none to nothing.
fn observations(
    design: &Design,
    metric: &Metric,
    used: &[&Run],
    decides: bool,
) -> Result<Vec<Observation>, Error> {
    let one = |run: &&Run| {
        let value = metric.value(run);
        let observation = metric.observation(run).filter(|_| !(decides && value == Some(0.0)));
        observation.ok_or_else(|| {
            let name = design.variants.get(run.variant).map_or("", |v| v.name.as_str());
            let found = value.map_or("missing".to_owned(), |v| v.to_string());
            Error::TooFew(format!(
                "{name}, round {}: {} is {found}, but effects are ratios and need numbers above \
                 0; judge by another metric",
                run.round,
                metric.label()
            ))
        })
    };
    used.iter().map(one).collect()
}

/// Takes out of the observations of `runs` what slowed the gauge.
fn without_gauge(
    observations: &mut [Observation],
    metric: &Metric,
    runs: &[&Run],
) -> Result<Gauged, Unused> {
    statistics::gauge::take_out(observations, &gauge(metric, runs).ok_or(Unused::Unread)?)
}

/// ln of what the gauge showed beside each run, where the metric is a time or a rate and every run
/// was gauged.
pub(crate) fn gauge(metric: &Metric, runs: &[&Run]) -> Option<Vec<f64>> {
    let showed = |run: &&Run| run.gauge_ns.filter(|&ns| ns > 0).map(|ns| (ns as f64).ln());
    runs.iter().map(showed).collect::<Option<_>>().filter(|_| metric.is_speed())
}

/// A variant against the base before the correction for the number of rows.
pub(super) struct Row {
    pub(super) machine: usize,
    pub(super) variant: String,
    pub(super) answer: Answer,
    pub(super) index: usize,
    rule: Rule,
    metric: Metric,
    /// p-value that decides, with the price of looks that nobody planned.
    p_value: f64,
    /// What the second block of rounds gives, where there is one.
    second: Option<Confirmation>,
    /// A slower variant is to be confirmed.
    confirm: bool,
    /// What decided, when the measurement could end early.
    watched: Option<Step>,
    compared: Compared,
}

pub(super) fn rows(
    runs: &Runs,
    machine: usize,
    margin: f64,
    options: &AnalysisOptions,
) -> Result<Vec<Row>, Error> {
    let rule = Rule { margin, alpha: 0.05, rows: 1 };
    let settings = statistics::AnswerOptions {
        rule,
        draws: options.draws,
        seed: runs.design.seed,
        matched: false,
    };
    let watched = watched(runs);
    let mut rows = Vec::new();
    for &variant in runs.variants.iter().filter(|&&v| v > 0) {
        let settings =
            statistics::AnswerOptions { matched: runs.design.is_matched(variant), ..settings };
        let Some(answer) = statistics::compare(&runs.observations, 0, variant, settings) else {
            return Err(Error::TooFew(format!(
                "{}: the base and {variant} never ran in one round",
                runs.benchmark.name
            )));
        };
        let mut compared = describe(runs, variant, &answer);
        compared.others = others(runs, variant, settings);
        let p_value = confirm::after_looks(runs, answer.p_value(), &mut compared.warnings);
        rows.push(Row {
            machine,
            variant: compared.variant.clone(),
            answer,
            index: variant,
            rule,
            metric: runs.metric.clone(),
            p_value,
            second: None,
            confirm: runs.design.confirm,
            watched: watched.as_ref().and_then(|watch| watch.step(runs.index, variant)),
            compared,
        });
    }
    Ok(rows)
}

/// Feeds the rounds to the monitors once more: who may look early is bound by what the looks said.
fn watched<'a>(runs: &Runs<'a>) -> Option<Watch<'a>> {
    if runs.design.stopping == Stopping::Fixed {
        return None;
    }
    let mut watch = Watch::new(runs.design);
    for round in runs.observations.chunk_by(|a, b| a.round == b.round) {
        watch.feed(runs.index, round, &runs.variants);
    }
    Some(watch)
}

impl Row {
    pub(super) fn p_value(&self) -> f64 {
        self.p_value
    }

    /// With what the second block of rounds says of the same variant.
    pub(super) fn followed_by(mut self, second: Option<&Runs>) -> Row {
        self.second = second.and_then(|runs| confirm::of(runs, self.index, self.rule));
        self
    }

    /// Effect and standard error on the log scale of the printed ratio.
    pub(super) fn effect(&self) -> statistics::many::Effect {
        let (estimate, error) = match &self.answer.averaged {
            Some(averaged) => (averaged.estimate, averaged.standard_error),
            None => (
                self.answer.as_built.estimate,
                self.answer.as_built.standard_error.unwrap_or(f64::INFINITY),
            ),
        };
        statistics::many::Effect { estimate: self.metric.sign() * estimate, standard_error: error }
    }

    /// Whether less of its metric is better; ratios of others go the other way.
    pub(super) fn less_is_better(&self) -> bool {
        self.metric.sign() > 0.0
    }

    /// Name of the benchmark, with its parameters.
    pub(super) fn benchmark(&self) -> &str {
        &self.compared.benchmark
    }

    /// The row as it is told, judged by its p-value corrected for `among` rows.
    pub(super) fn told(self, corrected: f64, among: usize) -> Compared {
        let mut compared = self.compared;
        let rule = Rule { rows: among, ..self.rule };
        let answer = self.answer.with_corrected(corrected, rule);
        compared.p_corrected = corrected;
        compared.smallest_effect = answer.detectable.map(f64::exp_m1);
        compared.verdict =
            bound(self.watched, answer.judgement.verdict, answer.judgement.negligible);
        compared.negligible = answer.judgement.negligible && compared.verdict != Verdict::Same;
        compared.needed = answer.judgement.needed.map(|n| Needed {
            rounds: n.rounds.map(|r| r as usize),
            layouts: n.layouts.map(|l| l as usize),
        });
        if self.confirm && compared.verdict == Verdict::Slower && !compared.negligible {
            let second = self.second.unwrap_or_default();
            compared.verdict = if second.confirmed { Verdict::Slower } else { Verdict::Undecided };
            compared.confirmation = Some(second);
        }
        let told =
            words::Told { answer: &answer, metric: &self.metric, margin: rule.margin, among };
        compared.sentence = told.sentence(&compared);
        compared.warnings.extend(told.warnings(&compared));
        compared
    }
}

/// The verdict where the measurement could end early: a difference needs the monitor's word, since
/// the p-value of the moment at which one stopped was picked from many.
fn bound(watched: Option<Step>, verdict: Verdict, negligible: bool) -> Verdict {
    match (watched, verdict) {
        (None | Some(Step::Different), verdict) => verdict,
        (Some(Step::Same), Verdict::Faster | Verdict::Slower) if negligible => Verdict::Same,
        (Some(_), Verdict::Faster | Verdict::Slower) => Verdict::Undecided,
        (Some(_), verdict) => verdict,
    }
}

/// Ratio and interval as printed, from the log scale on which less is better.
pub(super) fn effect(
    sign: f64,
    estimate: f64,
    low: Option<f64>,
    high: Option<f64>,
    p_value: f64,
) -> Effect {
    let ends = low.zip(high).map(|(low, high)| {
        let (a, b) = ((sign * low).exp(), (sign * high).exp());
        [a.min(b), a.max(b)]
    });
    Effect { ratio: (sign * estimate).exp(), interval: ends, p_value }
}

pub(super) fn of_answer(answer: &Answer, sign: f64) -> (Effect, Option<Effect>) {
    let built = &answer.as_built;
    let as_built = effect(sign, built.estimate, built.low, built.high, built.p_value);
    let averaged = answer
        .averaged
        .as_ref()
        .map(|a| effect(sign, a.estimate, Some(a.low), Some(a.high), a.p_value));
    (as_built, averaged)
}

fn describe(runs: &Runs, variant: usize, answer: &Answer) -> Compared {
    let sign = runs.metric.sign();
    let (as_built, averaged) = of_answer(answer, sign);
    let quoted = averaged.unwrap_or(as_built);
    let name = |v: usize| runs.design.variants.get(v).map_or_else(String::new, |v| v.name.clone());
    let (base_median, base_spread) = typical(runs, &runs.metric, 0);
    let (variant_median, variant_spread) = typical(runs, &runs.metric, variant);
    let mut warnings = Vec::new();
    let rounds = runs.rounds();
    warnings.extend(identical(runs.design, variant));
    if runs.design.stopping == Stopping::UntilDecided && (rounds as u32) < runs.design.rounds {
        warnings.push(
            "the measurement ended as soon as it was decided; the interval is that of the rounds \
             used"
                .to_owned(),
        );
    }
    Compared {
        machine: runs.design.machine.name.clone(),
        benchmark: runs.benchmark.name.clone(),
        metric: runs.metric.label(),
        base: name(0),
        variant: name(variant),
        verdict: answer.judgement.verdict,
        negligible: answer.judgement.negligible,
        sentence: String::new(),
        effect: quoted.ratio,
        interval: quoted.interval,
        p_value: quoted.p_value,
        p_corrected: quoted.p_value,
        n: rounds,
        as_built,
        layouts: averaged.map(|effect| layouts(runs, variant, answer, effect)),
        base_median,
        variant_median,
        spread: [base_spread, variant_spread],
        smallest_effect: answer.detectable.map(f64::exp_m1),
        confirmation: None,
        needed: None,
        others: Vec::new(),
        warnings,
    }
}

/// Two names for the same bytes: whatever differs is noise, and a reader should know.
fn identical(design: &Design, variant: usize) -> Option<String> {
    let (base, other) = (design.variants.first()?, design.variants.get(variant)?);
    let digest =
        |v: &crate::Variant| v.digests.first().filter(|digest| !digest.is_empty()).cloned();
    let same = digest(base)? == digest(other)?;
    same.then(|| format!("{} and {} are the same file, byte for byte", base.name, other.name))
}

fn layouts(runs: &Runs, variant: usize, answer: &Answer, averaged: Effect) -> Averaged {
    let (sign, matched) = (runs.metric.sign(), runs.design.is_matched(variant));
    let luck = answer
        .luck
        .as_ref()
        .map(|l| {
            let p =
                2.0 * statistics::distribution::normal_tail((l.estimate / l.standard_error).abs());
            effect(sign, l.estimate, Some(l.low), Some(l.high), if p.is_finite() { p } else { 1.0 })
        })
        .unwrap_or_default();
    let components = answer.components.as_ref();
    Averaged {
        count: answer.averaged.as_ref().map_or(0, |a| a.layouts),
        matched,
        effect: averaged,
        luck,
        layout_sd: components.map_or(0.0, |c| c.layout_variance.sqrt()),
        layout_sd_interval: components
            .and_then(|c| c.layout_interval)
            .map(|(low, high)| [low, high]),
        within_sd: components.map_or(0.0, |c| c.run_variance.sqrt()),
        drift_sd: components.map_or(0.0, |c| c.drift_variance.sqrt()),
        one_relink: components.and_then(|c| c.relink_band).map_or(0.0, f64::exp_m1),
        correlation: components.and_then(|c| c.matched_correlation).filter(|_| matched),
    }
}

/// Median and robust relative spread of a variant as built.
fn typical(runs: &Runs, metric: &Metric, variant: usize) -> (f64, f64) {
    let own = runs.used.iter().filter(|run| run.variant == variant && run.layout == 0);
    let mut values: Vec<f64> = own.filter_map(|run| metric.value(run)).collect();
    let scatter = spread(&values);
    let middle = median(&mut values);
    (middle, if middle > 0.0 { scatter / middle } else { 0.0 })
}

/// Swaps drawn for a metric that does not decide: p-values in steps of a thousandth.
const FEWER_DRAWS: usize = 999;

fn others(runs: &Runs, variant: usize, settings: statistics::AnswerOptions) -> Vec<OtherMetric> {
    let one = |metric: &Metric| {
        // A number that is missing in some run (a counter, say) is left out rather than failing the
        // comparison.
        let mut observations = observations(runs.design, metric, &runs.used, false).ok()?;
        // Without a usable gauge they stay as they are.
        let _ = without_gauge(&mut observations, metric, &runs.used);
        let settings = statistics::AnswerOptions { draws: FEWER_DRAWS, ..settings };
        let answer = statistics::compare(&observations, 0, variant, settings)?;
        let (as_built, averaged) = of_answer(&answer, metric.sign());
        Some(OtherMetric {
            name: metric.label(),
            effect: averaged.unwrap_or(as_built),
            base_median: typical(runs, metric, 0).0,
            variant_median: typical(runs, metric, variant).0,
        })
    };
    runs.benchmark.metrics.iter().filter(|m| **m != runs.metric).filter_map(one).collect()
}
