//! Did the machine warm up, drift or jump, do runs fall into two groups, does one run change the
//! next? Remarks only: thanks to the random order inside rounds none of this breaks the tests, and
//! nothing is cut for it.

use crate::Observation;
use crate::changes::changes;
use crate::distribution::t_two_sided;
use crate::layouts::{levelled, levelled_rounds};
use crate::robust::{cut, mean, median, running_median, spread, trimmed_mean, trimmed_mean_error};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Lag-1 autocorrelation: how much a value resembles the one before, −1 to 1. 0 under three values
/// or without spread.
pub fn autocorrelation(values: &[f64]) -> f64 {
    let middle = mean(values);
    let total: f64 = values.iter().map(|v| (v - middle).powi(2)).sum();
    let next: f64 = values.windows(2).map(|w| (w[0] - middle) * (w[1] - middle)).sum();
    if values.len() < 3 || total <= 0.0 { 0.0 } else { next / total }
}

/// Rounds at the start that a steady state would be clearer without (MSER, White 1997): the d ≤ R/2
/// with the least Σ(x − mean)² / (R − d)² over what follows d.
pub fn warm_up(values: &[f64]) -> usize {
    let n = values.len();
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    let centre = median(&mut values.to_vec());
    for (at, value) in values.iter().enumerate().rev() {
        let x = value - centre;
        sum += x;
        squares += x * x;
        let left = (n - at) as f64;
        let score = (squares - sum * sum / left).max(0.0) / (left * left);
        if at <= n / 2 && score <= best.0 {
            best = (score, at);
        }
    }
    best.1
}

/// The runs without the slow course of the machine: each binary around its own level, minus the
/// running median.
pub fn residuals(observations: &[Observation]) -> Vec<f64> {
    let levelled = levelled(observations);
    let baseline = running_median(&levelled);
    levelled.iter().zip(&baseline).map(|(x, m)| x - m).collect()
}

/// Median of each round, every binary first brought to the level 0: what the machine did, round by
/// round.
pub fn round_medians(observations: &[Observation]) -> Vec<(u32, f64)> {
    levelled_rounds(observations)
        .into_iter()
        .map(|(round, mut logs)| (round, median(&mut logs)))
        .collect()
}

/// What the rounds did over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Course {
    /// One level throughout.
    Flat,
    /// Slower at first; steady from this round (index) on, at least for the second half.
    WarmUp {
        /// Index of the first steady round.
        rounds: usize,
        /// ln of first level over steady level.
        excess: f64,
    },
    /// One lasting change.
    Step {
        /// Index of the first round after it.
        round: usize,
        /// ln of the level after over the level before.
        change: f64,
    },
    /// A steady slope, or several changes in one direction.
    Drift {
        /// ln of last level over first level.
        change: f64,
    },
    /// Several changes to and fro.
    Unsteady {
        /// How many.
        changes: usize,
    },
}

/// Classifies the medians of the rounds: PELT finds changes of mean or variance (penalty 15 ln R,
/// as in the study of virtual machine warm-up by Barrett et al. 2017); neighbours whose means
/// differ by less than 0.1 % or less than half their spread are one level.
pub fn course(values: &[f64]) -> Course {
    let mut segments: Vec<(usize, usize)> = Vec::new();
    let mut from = 0;
    for end in changes(values).into_iter().chain([values.len()]) {
        segments.push((from, end));
        from = end;
    }
    let level = |s: (usize, usize)| mean(values.get(s.0..s.1).unwrap_or_default());
    let noise = |s: (usize, usize)| spread(values.get(s.0..s.1).unwrap_or_default());
    let mut at = 1;
    while at < segments.len() {
        let (one, two) = (segments[at - 1], segments[at]);
        if (level(one) - level(two)).abs() < (0.5 * noise(one).max(noise(two))).max(0.001) {
            segments[at - 1].1 = two.1;
            segments.remove(at);
        } else {
            at += 1;
        }
    }
    let levels: Vec<f64> = segments.iter().map(|&s| level(s)).collect();
    let (Some(&first), Some(&last), Some(&(steady, _))) =
        (levels.first(), levels.last(), segments.last())
    else {
        return Course::Flat;
    };
    let falling = levels.windows(2).all(|w| w[1] < w[0]);
    let rising = levels.windows(2).all(|w| w[1] > w[0]);
    let line = line(values);
    let steps: f64 = segments
        .iter()
        .map(|&s| {
            values
                .get(s.0..s.1)
                .unwrap_or_default()
                .iter()
                .map(|v| (v - level(s)).powi(2))
                .sum::<f64>()
        })
        .sum();
    match levels.len() {
        0 | 1 => Course::Flat,
        // A straight line fits better than the stairs.
        _ if line.1 < steps => Course::Drift { change: line.0 },
        _ if falling && steady <= values.len() / 2 => {
            Course::WarmUp { rounds: steady, excess: first - last }
        }
        2 => Course::Step { round: steady, change: last - first },
        _ if falling || rising => Course::Drift { change: last - first },
        n => Course::Unsteady { changes: n - 1 },
    }
}

/// Least-squares line: its rise from the first value to the last, and the squared deviations from
/// it.
fn line(values: &[f64]) -> (f64, f64) {
    let (centre, middle) = (mean(values), (values.len() as f64 - 1.0) / 2.0);
    let places = || values.iter().enumerate().map(|(at, v)| (at as f64 - middle, v - centre));
    let across: f64 = places().map(|(x, y)| x * y).sum();
    let width: f64 = places().map(|(x, _)| x * x).sum();
    let slope = if width > 0.0 { across / width } else { 0.0 };
    (slope * 2.0 * middle, places().map(|(x, y)| (y - slope * x).powi(2)).sum())
}

/// Runs of one binary that fall into two groups (page colours, address randomisation, turbo
/// states).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Modes {
    /// Mean of the lower group.
    pub low: f64,
    /// Mean of the upper group.
    pub high: f64,
    /// Share of runs in the upper group.
    pub upper_share: f64,
    /// Ashman's D: distance of the means in units of the groups' spread. One normal group cut in
    /// two has 2.6.
    pub separation: f64,
}

/// Two groups, when the best cut (least variance inside the groups) leaves at least a tenth of the
/// values on both sides and lies between groups that are clearly apart (D > 4.5; a uniform law has
/// 3.5). `None` under 20 values.
pub fn two_modes(values: &[f64]) -> Option<Modes> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len();
    if n < 20 {
        return None;
    }
    let least = n.div_ceil(10);
    // The longest slow runs say nothing about groups: a twentieth at each end is left out.
    let kept = sorted.get(cut(n, 0.05)..n - cut(n, 0.05))?;
    let inside = |part: &[f64]| crate::robust::variance(part) * (part.len() as f64 - 1.0);
    let score = |at: usize| inside(&kept[..at]) + inside(&kept[at..]);
    // Only the largest gaps can be the border of groups, so few cuts are tried.
    let mut gaps: Vec<usize> = (least..kept.len().saturating_sub(least)).collect();
    gaps.sort_by(|&x, &y| {
        (kept[y] - kept[y - 1]).total_cmp(&(kept[x] - kept[x - 1])).then(x.cmp(&y))
    });
    let at = gaps.into_iter().take(8).min_by(|&x, &y| score(x).total_cmp(&score(y)))?;
    let (below, above) = kept.split_at(at);
    let (low, high) = (mean(below), mean(above));
    let both = crate::robust::variance(below) + crate::robust::variance(above);
    let separation = if both > 0.0 { (high - low) * (2.0 / both).sqrt() } else { f64::MAX };
    let upper_share = above.len() as f64 / kept.len() as f64;
    (high > low && separation > 4.5).then_some(Modes { low, high, upper_share, separation })
}

/// A variant whose runs depend on which program ran just before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CarryOver {
    /// The variant.
    pub variant: usize,
    /// ln of its level after a run of the same variant over its level after another one.
    pub change: f64,
    /// p-value, corrected for the number of variants.
    pub p_value: f64,
}

/// Does a run depend on whether the same variant ran just before it? Yuen's (1974) test of 20 %
/// trimmed means on the residuals from the running median. The strongest variant, if its corrected
/// p is under 1 %.
pub fn carry_over(observations: &[Observation]) -> Option<CarryOver> {
    let residuals = residuals(observations);
    let mut groups = BTreeMap::<usize, [Vec<f64>; 2]>::new();
    for (at, pair) in observations.windows(2).enumerate() {
        let same = pair[0].variant == pair[1].variant;
        groups.entry(pair[1].variant).or_default()[usize::from(same)].push(residuals[at + 1]);
    }
    let count = groups.len() as f64;
    let test = |(variant, [foreign, own]): (usize, [Vec<f64>; 2])| {
        let (change, p) = yuen(&own, &foreign)?;
        Some(CarryOver { variant, change, p_value: (p * count).min(1.0) })
    };
    groups
        .into_iter()
        .filter_map(test)
        .min_by(|x, y| x.p_value.total_cmp(&y.p_value))
        .filter(|c| c.p_value < 0.01)
}

/// Difference of 20 % trimmed means (x − y) and its two-sided p-value; `None` with under six values
/// on a side.
pub fn yuen(x: &[f64], y: &[f64]) -> Option<(f64, f64)> {
    if x.len() < 6 || y.len() < 6 {
        return None;
    }
    let part = |values: &[f64]| {
        let centre = trimmed_mean(&mut values.to_vec(), 0.2);
        let (squared_error, df) = trimmed_mean_error(values, 0.2);
        (centre, squared_error, df)
    };
    let ((cx, dx, fx), (cy, dy, fy)) = (part(x), part(y));
    let error = (dx + dy).sqrt();
    if error <= 0.0 {
        return None;
    }
    let df = (dx + dy).powi(2) / (dx * dx / fx + dy * dy / fy);
    Some((cx - cy, t_two_sided((cx - cy) / error, df)))
}

#[cfg(test)]
#[path = "series_tests.rs"]
mod tests;
