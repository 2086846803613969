//! What do the recorded runs show? Ratios with intervals, verdicts and warnings.

use crate::{Design, Error, Run};
use serde::{Deserialize, Serialize};
use statistics::median;
use statistics::pair::{Interval, Label, PairTest, Point};

/// How to analyse.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Differences within ± this share (0.01 for 1 %) count as none.
    pub margin: f64,
    /// Patterns of label swaps drawn when there are too many to try all.
    pub draws: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { margin: 0.01, draws: 9999 }
    }
}

/// The words a comparison of two binaries allows. They speak about these binaries, not about the change between them:
/// where the linker happened to put code may explain a difference as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// This binary is better than the base (p < 0.05 after correction).
    Faster,
    /// This binary is worse than the base.
    Slower,
    /// The 90 % interval lies within the margin: two one-sided tests reject any larger difference.
    Same,
    /// Neither was shown.
    Undecided,
}

/// One variant compared with the base.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// Name of the base.
    pub base: String,
    /// Name of the variant.
    pub variant: String,
    /// The verdict.
    pub verdict: Verdict,
    /// True when a difference was shown but its interval (90 %) lies within the margin.
    pub negligible: bool,
    /// Variant / base; under 1 means less time (or memory).
    pub ratio: f64,
    /// Lower end of the 95 % interval; absent when there are too few rounds for one.
    pub low: Option<f64>,
    /// Upper end of the 95 % interval.
    pub high: Option<f64>,
    /// Randomisation p-value, Holm-corrected when there are several variants.
    pub p_value: f64,
    /// Rounds used.
    pub rounds: usize,
    /// Typical value of the base (median), in the metric's unit.
    pub base_median: f64,
    /// Typical value of the variant.
    pub variant_median: f64,
    /// What a reader must know to judge the numbers.
    pub warnings: Vec<String>,
}

/// How one variant's runs look by themselves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the variant.
    pub name: String,
    /// Median of the metric.
    pub median: f64,
    /// Robust relative spread: 1.4826 × median absolute deviation / median.
    pub spread: f64,
}

/// Everything the runs show.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Analysis {
    /// Each variant by itself, the base first.
    pub summaries: Vec<Summary>,
    /// Every other variant against the base.
    pub comparisons: Vec<Comparison>,
    /// What concerns the whole measurement.
    pub warnings: Vec<String>,
}

/// Analyses runs of a design; the warm-up and unfinished rounds are left out.
pub fn analyse(design: &Design, runs: &[Run], options: Options) -> Result<Analysis, Error> {
    let rounds = complete_rounds(design, runs);
    if rounds.is_empty() {
        return Err(Error::TooFew(
            "no round was finished after the warm-up, so there is nothing to compare".into(),
        ));
    }
    let used: Vec<&Run> = runs.iter().filter(|run| rounds.binary_search(&run.round).is_ok()).collect();
    let logs = logs(design, &used)?;
    let mut comparisons = Vec::new();
    for variant in 1..design.variants.len() {
        comparisons.push(compare(design, &used, &logs, &rounds, variant, options));
    }
    correct(&mut comparisons);
    for comparison in &mut comparisons {
        comparison.judge(design, options);
    }
    let summaries = (0..design.variants.len()).map(|v| summary(design, &used, v)).collect();
    Ok(Analysis { summaries, comparisons, warnings: crate::analyse::remarks::of(design, runs, &used, &logs) })
}

fn complete_rounds(design: &Design, runs: &[Run]) -> Vec<u32> {
    let mut seen = std::collections::BTreeMap::<u32, Vec<bool>>::new();
    for run in runs.iter().filter(|run| run.round > 0) {
        let there = seen.entry(run.round).or_insert_with(|| vec![false; design.variants.len()]);
        if let Some(slot) = there.get_mut(run.variant) {
            *slot = true;
        }
    }
    seen.into_iter().filter(|(_, there)| there.iter().all(|&t| t)).map(|(round, _)| round).collect()
}

/// ln of every run's value. A value of zero has no logarithm: it takes the smallest step of the clock (1 µs).
fn logs(design: &Design, used: &[&Run]) -> Result<Vec<f64>, Error> {
    let sign = design.metric.sign();
    let mut logs = Vec::with_capacity(used.len());
    for run in used {
        let value = design.metric.value(run);
        let Some(value) = value.filter(|v| v.is_finite() && *v >= 0.0) else {
            let name = &design.variants[run.variant].name;
            return Err(Error::TooFew(format!(
                "{name}, round {}: the metric has no usable number",
                run.round
            )));
        };
        let floor = if design.metric.unit() == "ns" { 1000.0 } else { f64::MIN_POSITIVE };
        logs.push(sign * value.max(floor).ln());
    }
    Ok(logs)
}

fn compare(
    design: &Design,
    used: &[&Run],
    logs: &[f64],
    rounds: &[u32],
    variant: usize,
    options: Options,
) -> Comparison {
    let label = |run: &Run| match run.variant {
        0 => Label::A,
        v if v == variant => Label::B,
        v => Label::Other(v),
    };
    let point = |(run, &log): (&&Run, &f64)| {
        rounds.binary_search(&run.round).ok().map(|round| Point { label: label(run), round, log })
    };
    let points: Vec<Point> = used.iter().zip(logs).filter_map(point).collect();
    let test = PairTest::new(points, options.draws, design.seed);
    let interval = test.interval(0.95);
    let mut warnings = Vec::new();
    if rounds.len() < 6 {
        warnings.push(format!("{} rounds cannot show anything at 5 %; six are the least", rounds.len()));
    }
    let mut comparison = Comparison {
        base: design.variants[0].name.clone(),
        variant: design.variants[variant].name.clone(),
        verdict: Verdict::Undecided,
        negligible: false,
        ratio: interval.estimate.exp(),
        low: Some(interval.low.exp()).filter(|_| interval.low.is_finite()),
        high: Some(interval.high.exp()).filter(|_| interval.high.is_finite()),
        p_value: test.p_value(0.0),
        rounds: rounds.len(),
        base_median: summary(design, used, 0).median,
        variant_median: summary(design, used, variant).median,
        warnings,
    };
    if within(test.interval(0.90), options.margin) {
        // `judge` keeps this unless a difference was shown.
        comparison.verdict = Verdict::Same;
    }
    comparison
}

fn within(interval: Interval, margin: f64) -> bool {
    interval.low > -margin.ln_1p() && interval.high < margin.ln_1p()
}

/// Holm's step-down correction: the probability of any false claim among all comparisons stays 5 %.
fn correct(comparisons: &mut [Comparison]) {
    let mut order: Vec<usize> = (0..comparisons.len()).collect();
    order.sort_by(|&x, &y| comparisons[x].p_value.total_cmp(&comparisons[y].p_value));
    let mut floor = 0.0f64;
    for (rank, &index) in order.iter().enumerate() {
        let corrected = (comparisons[index].p_value * (order.len() - rank) as f64).min(1.0);
        floor = floor.max(corrected);
        comparisons[index].p_value = floor;
    }
}

impl Comparison {
    fn judge(&mut self, design: &Design, options: Options) {
        let small = self.verdict == Verdict::Same;
        if self.p_value < 0.05 {
            self.verdict = if self.ratio < 1.0 { Verdict::Faster } else { Verdict::Slower };
            self.negligible = small;
            if small {
                let margin = options.margin * 100.0;
                self.warnings.push(format!("the difference is shown but negligible: within ±{margin} %"));
            }
        } else if !small {
            let needed = self.rounds_needed(options.margin);
            if let Some(needed) = needed.filter(|&n| n > self.rounds) {
                let margin = options.margin * 100.0;
                let text = format!("undecided; about {needed} rounds would settle differences of {margin} %");
                self.warnings.push(text);
            }
        }
        // For a metric where more is better the ratio is turned back into variant / base of the printed number.
        if design.metric.sign() < 0.0 {
            self.ratio = 1.0 / self.ratio;
            (self.low, self.high) = (self.high.map(|x| 1.0 / x), self.low.map(|x| 1.0 / x));
        }
    }

    /// Rounds after which a difference of the margin is told from none (5 % two one-sided, 90 % power).
    fn rounds_needed(&self, margin: f64) -> Option<usize> {
        let half_width = (self.high?.ln() - self.low?.ln()) / 2.0;
        let error = half_width / 1.96;
        Some((self.rounds as f64 * (error * (1.645 + 1.2816) / margin.ln_1p()).powi(2)).ceil() as usize)
    }
}

fn summary(design: &Design, used: &[&Run], variant: usize) -> Summary {
    let of_variant = used.iter().filter(|run| run.variant == variant);
    let mut values: Vec<f64> = of_variant.filter_map(|run| design.metric.value(run)).collect();
    let middle = median(&mut values);
    let mut away: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    let spread = if middle > 0.0 { 1.4826 * median(&mut away) / middle } else { 0.0 };
    Summary { name: design.variants[variant].name.clone(), median: middle, spread }
}

#[path = "remarks.rs"]
mod remarks;

#[cfg(test)]
#[path = "analyse_tests.rs"]
mod tests;
