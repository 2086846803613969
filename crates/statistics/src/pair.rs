//! How large is the difference between two variants, how sure is it? A randomisation test that
//! mirrors the schedule.
//!
//! Input: ln(value) of every run in time order. From each run the *baseline* is taken away: the
//! running median over nine neighbours, in which both runs of a pair stand with the smaller of
//! their two values. It follows slow disturbances of the machine, and does not look at labels: who
//! was the smaller is not asked. What is left is clipped at one spread (1.4826 times the median
//! absolute deviation), so that a disturbed run cannot weigh more than others. The statistic is the
//! mean of the differences B − A within rounds (a mean of Huber's kind: Huber 1964,
//! doi:10.1214/aoms/1177703732). Its law under "no difference" comes from swapping the two labels
//! inside each round, which is what the random schedule could as well have done, and turns the sign
//! of that round's difference: exact for any noise (autocorrelated, drifting, heavy-tailed); only
//! an effect of one run on the next one breaks it. Where B is above A in every round by much more
//! than the noise, no swap comes near, and the p-value is the smallest that the swaps allow.
//!
//! The interval holds every shift that the same test, with the same swaps, does not reject; the
//! estimate is the shift at which the statistic vanishes.
//!
//! Cost: one test is draws × rounds additions, many draws side by side in one register; an interval
//! takes about twelve tests. With very many rounds fewer patterns are drawn, never under 1,999.

use crate::distribution::{normal_quantile, t_quantile};
use crate::robust::{mean, median, median_around, spread};
use crate::swaps::Swaps;

/// Whose run is it?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// The base.
    A,
    /// The variant compared with it.
    B,
    /// A third binary of the same schedule: says how the machine was doing.
    Other(usize),
}

/// One run as the test sees it.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Whose.
    pub label: Label,
    /// Index of the round, 0-based, without gaps.
    pub round: usize,
    /// ln of the measured value.
    pub log: f64,
}

/// Residuals further from their median than so many spreads count as this far. Of 1, 1.5 and 2.5 one
/// is never far behind in simulations, and finds 3 % in 8 rounds on a shared machine in 91 % against
/// 86 and 79 % (measurements/2026-11-29-compare-simulation.md).
const CLIP: f64 = 1.0;

/// The test of one pair over complete rounds.
pub struct PairTest {
    points: Vec<Point>,
    /// The runs, every third binary around 0, A and B as measured.
    logs: Vec<f64>,
    rounds: usize,
    swaps: Swaps,
}

/// An estimate on the log scale with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The estimate: ln(B) − ln(A).
    pub estimate: f64,
    /// Lower end; minus infinity when no shift can be rejected (under six rounds).
    pub low: f64,
    /// Upper end; plus infinity likewise.
    pub high: f64,
}

impl Interval {
    /// The standard error that an interval at `level` with `df` degrees of freedom stands for;
    /// `None` without ends.
    pub fn standard_error(&self, level: f64, df: f64) -> Option<f64> {
        let width = self.high - self.low;
        width.is_finite().then(|| width / 2.0 / t_quantile((1.0 + level) / 2.0, df))
    }
}

impl PairTest {
    /// `points` in time order, each round holding exactly one A and one B. Up to `draws` patterns
    /// of swaps are drawn from `seed` when there are too many rounds to try all.
    pub fn new(points: Vec<Point>, draws: usize, seed: u64) -> Self {
        let rounds = points.iter().filter(|p| p.label == Label::A).count();
        let logs = level_others(&points);
        PairTest { points, logs, rounds, swaps: Swaps::new(rounds, draws, seed) }
    }

    /// B − A of each round's clipped residuals, with B shifted by `-shift`.
    fn differences(&self, shift: f64) -> Vec<f64> {
        let mut rounds = vec![[0.0; 2]; self.rounds];
        for (log, point) in self.logs.iter().zip(&self.points) {
            if let (Some(side), Some(round)) = (side(point.label), rounds.get_mut(point.round)) {
                round[side] = log - [0.0, shift][side];
            }
        }
        // Third binaries come to the common level of the pairs, so that they tell about the machine
        // and not about themselves.
        let lower = |pair: &[f64; 2]| pair[0].min(pair[1]);
        let common = median(&mut rounds.iter().map(lower).collect::<Vec<f64>>());
        let level = |(log, point): (&f64, &Point)| match side(point.label) {
            Some(_) => rounds.get(point.round).map_or(0.0, lower),
            None => log + common,
        };
        let levels: Vec<f64> = self.logs.iter().zip(&self.points).map(level).collect();
        for (at, point) in self.points.iter().enumerate() {
            if let (Some(side), Some(round)) = (side(point.label), rounds.get_mut(point.round)) {
                round[side] -= median_around(&levels, at);
            }
        }
        let mut all: Vec<f64> = rounds.iter().flatten().copied().collect();
        let (middle, reach) = (median(&mut all), CLIP * spread(&all));
        // No spread: more than half of the runs have one value, and there is nothing to clip by.
        let reach = if reach > 0.0 { reach } else { f64::INFINITY };
        let clipped = |residual: f64| residual.clamp(middle - reach, middle + reach);
        rounds.iter().map(|&[a, b]| clipped(b) - clipped(a)).collect()
    }

    /// The statistic at a shift, without any swap.
    fn observed(&self, shift: f64) -> f64 {
        mean(&self.differences(shift))
    }

    /// How often chance alone gives a difference at least as large, if B were A shifted by `shift`
    /// (ln scale).
    pub fn p_value(&self, shift: f64) -> f64 {
        self.swaps.p_value(&self.differences(shift))
    }

    /// Are both shifts of ±`margin` rejected, so that the interval at 1 − `alpha` lies inside? Two
    /// one-sided tests at `alpha`/2 each, without searching the ends.
    pub fn excludes(&self, margin: f64, alpha: f64) -> bool {
        let inside = self.observed(-margin) > 0.0 && self.observed(margin) < 0.0;
        inside && self.p_value(margin) <= alpha && self.p_value(-margin) <= alpha
    }

    /// The shift at which the statistic vanishes.
    pub fn estimate(&self) -> f64 {
        let start = self.observed(0.0);
        let (mut low, mut high) = (start, start);
        let mut step = 0.001f64.max(start.abs() * 0.1);
        // The statistic falls as the shift grows; widen until it changes sign.
        for _ in 0..60 {
            let (at_low, at_high) = (self.observed(low), self.observed(high));
            if at_low >= 0.0 && at_high <= 0.0 {
                break;
            }
            if at_low < 0.0 {
                low -= step;
            }
            if at_high > 0.0 {
                high += step;
            }
            step *= 2.0;
        }
        // Regula falsi (Illinois): the statistic falls nearly along a line of slope −1.
        let (mut at_low, mut at_high) = (self.observed(low), self.observed(high));
        let mut last = 0.0;
        for _ in 0..60 {
            if high - low < 1e-9 || at_low <= 0.0 || at_high >= 0.0 {
                break;
            }
            let middle = (low + (high - low) * at_low / (at_low - at_high)).clamp(low, high);
            let value = self.observed(middle);
            if value.abs() < 1e-10 {
                return middle;
            }
            let side = value.signum();
            if value > 0.0 {
                (low, at_low) = (middle, value);
                at_high /= if side == last { 2.0 } else { 1.0 };
            } else {
                (high, at_high) = (middle, value);
                at_low /= if side == last { 2.0 } else { 1.0 };
            }
            last = side;
        }
        match (at_low <= 0.0, at_high >= 0.0) {
            (true, true) => (low + high) / 2.0,
            (true, false) => low,
            (false, true) => high,
            (false, false) => low + (high - low) * at_low / (at_low - at_high),
        }
    }

    /// Estimate and interval at `level` (0.95): the shifts that are not rejected at 1 − `level`.
    pub fn interval(&self, level: f64) -> Interval {
        self.intervals([level])[0]
    }

    /// Intervals at several levels, the widest first: each search begins with what the ones before
    /// have found.
    pub fn intervals<const N: usize>(&self, levels: [f64; N]) -> [Interval; N] {
        let estimate = self.estimate();
        let error = spread(&self.differences(estimate)) / (self.rounds.max(1) as f64).sqrt();
        let [low, high] = [-1.0, 1.0].map(|direction| {
            let mut search = Search { test: self, estimate, direction, tried: vec![(0.0, 1.0)] };
            levels.map(|level| search.end(1.0 - level, error).unwrap_or(f64::INFINITY * direction))
        });
        std::array::from_fn(|at| Interval { estimate, low: low[at], high: high[at] })
    }
}

/// The search for one end of intervals.
struct Search<'t> {
    test: &'t PairTest,
    estimate: f64,
    direction: f64,
    /// Distances from the estimate tried so far, with their p-values.
    tried: Vec<(f64, f64)>,
}

impl Search<'_> {
    fn p_value(&mut self, away: f64) -> f64 {
        let p = self.test.p_value(self.estimate + self.direction * away);
        self.tried.push((away, p));
        p
    }

    /// The nearest shift that is rejected, found to 0.2 %; `None` when none is. `error` is a first
    /// guess of the standard error.
    fn end(&mut self, alpha: f64, error: f64) -> Option<f64> {
        let rounds = self.test.rounds;
        if rounds == 0 || 2.0 / 2f64.powi(rounds.min(1000) as i32) > alpha {
            return None;
        }
        // On the scale of z the p-value falls nearly along a line, so a secant finds the end in a
        // few steps.
        let z_of = |p: f64| normal_quantile(1.0 - p / 2.0);
        let goal = z_of(alpha);
        let mut next = (error * (goal + 0.2)).max(1e-4);
        let (mut low, mut high) = loop {
            let rejected = self
                .tried
                .iter()
                .filter(|t| t.1 <= alpha)
                .min_by(|x, y| x.0.total_cmp(&y.0))
                .copied();
            if let Some(high) = rejected {
                let inside = self.tried.iter().filter(|t| t.1 > alpha && t.0 < high.0);
                break (
                    inside.max_by(|x, y| x.0.total_cmp(&y.0)).copied().unwrap_or((0.0, 1.0)),
                    high,
                );
            }
            if next > 64.0 {
                return None;
            }
            self.p_value(next);
            next *= 1.5;
        };
        let mut side = 1.0;
        while high.0 - low.0 > 2e-3 * high.0 && high.0 - low.0 > 1e-6 {
            let width = high.0 - low.0;
            let (z_low, z_high) = (z_of(low.1), z_of(high.1));
            let share = ((goal - z_low) / (z_high - z_low).max(1e-9)).clamp(0.0, 1.0);
            // A little beyond the expected end, from alternating sides, so that both ends of the
            // bracket close in.
            side = -side;
            let aim = low.0 + width * share + side * 8e-4 * high.0;
            let aim = aim.clamp(low.0 + 0.05 * width, high.0 - 0.05 * width);
            let p = self.p_value(aim);
            if p > alpha {
                low = (aim, p);
            } else {
                high = (aim, p);
            }
        }
        // The outer of the two: never narrower than what was tested.
        Some(self.estimate + self.direction * high.0)
    }
}

/// Which of the two values of its round a run is; `None` for a third binary's.
fn side(label: Label) -> Option<usize> {
    match label {
        Label::A => Some(0),
        Label::B => Some(1),
        Label::Other(_) => None,
    }
}

/// The runs with every third binary's own median taken away.
fn level_others(points: &[Point]) -> Vec<f64> {
    let mut of = std::collections::BTreeMap::<usize, Vec<f64>>::new();
    for point in points {
        if let Label::Other(other) = point.label {
            of.entry(other).or_default().push(point.log);
        }
    }
    let level: std::collections::BTreeMap<usize, f64> =
        of.into_iter().map(|(other, mut logs)| (other, median(&mut logs))).collect();
    let own =
        |label| if let Label::Other(other) = label { level.get(&other).copied() } else { None };
    points.iter().map(|p| p.log - own(p.label).unwrap_or(0.0)).collect()
}

#[cfg(test)]
#[path = "pair_tests.rs"]
mod tests;
