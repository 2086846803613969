//! How large is the difference between two variants, how sure is it? A randomisation test that mirrors the schedule.
//!
//! Input: ln(value) of every run in time order. From each the running median over nine neighbours is taken away: a
//! median that does not look at labels follows slow disturbances of the machine without breaking the test. The
//! statistic is the difference of the 25 % trimmed means of the residuals. Its law under "no difference" comes from
//! swapping the two labels inside each round, which is what the random schedule could as well have done: exact for
//! any noise (autocorrelated, drifting, heavy-tailed); only an effect of one run on the next one breaks it.
//!
//! The interval holds every shift that the same test, with the same swaps, does not reject; the estimate is the
//! shift at which the statistic vanishes. (The statistic itself, taken at no shift, is noisier when the effect is
//! much larger than the noise: the running median then jumps between the two variants' levels.)
//!
//! Cost: one test is draws × runs additions; an interval takes about fifty tests; 30 rounds need some 0.1 s.

use crate::Random;
use crate::robust::{TRIM, cut, median, running_median, trimmed_mean};

/// Up to this many rounds every pattern of swaps is tried.
pub const EXACT_ROUNDS: usize = 14;

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

/// The test of one pair over complete rounds.
pub struct PairTest {
    points: Vec<Point>,
    rounds: usize,
    /// One pattern after another, `words` words each; bit r says that round r is swapped.
    patterns: Vec<u64>,
    words: usize,
    exact: bool,
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

impl PairTest {
    /// `points` in time order, each round holding exactly one A and one B. `draws` patterns are drawn from `seed`
    /// when there are too many rounds to try all.
    pub fn new(points: Vec<Point>, draws: usize, seed: u64) -> Self {
        let rounds = points.iter().filter(|p| p.label == Label::A).count();
        let exact = rounds <= EXACT_ROUNDS;
        let words = rounds.div_ceil(64).max(1);
        let patterns = if exact {
            (0..1u64 << rounds).collect()
        } else {
            let mut random = Random::new(seed);
            (0..draws * words).map(|_| random.next_bits()).collect()
        };
        PairTest { points, rounds, patterns, words, exact }
    }

    /// Residuals of A and B per round, with B shifted by `-shift`.
    fn residuals(&self, shift: f64) -> Vec<[f64; 2]> {
        let mut logs: Vec<f64> =
            self.points.iter().map(|p| if p.label == Label::B { p.log - shift } else { p.log }).collect();
        self.level_others(&mut logs);
        let baseline = running_median(&logs);
        let mut rounds = vec![[0.0; 2]; self.rounds];
        for (index, point) in self.points.iter().enumerate() {
            let side = match point.label {
                Label::A => 0,
                Label::B => 1,
                Label::Other(_) => continue,
            };
            if let Some(round) = rounds.get_mut(point.round) {
                round[side] = logs[index] - baseline[index];
            }
        }
        rounds
    }

    /// Moves every third binary to the common level of A and B, so that it tells about the machine and not about
    /// itself. The common level does not change when A and B are swapped, so the test stays exact.
    fn level_others(&self, logs: &mut [f64]) {
        let pick = |wanted: &dyn Fn(Label) -> bool, logs: &[f64]| {
            let mut values: Vec<f64> =
                self.points.iter().zip(logs).filter(|(p, _)| wanted(p.label)).map(|(_, &x)| x).collect();
            median(&mut values)
        };
        let mut others: Vec<Label> = self.points.iter().map(|p| p.label).collect();
        others.retain(|label| matches!(label, Label::Other(_)));
        others.sort_by_key(|label| if let Label::Other(n) = label { *n } else { 0 });
        others.dedup();
        if others.is_empty() {
            return;
        }
        let common = pick(&|l| matches!(l, Label::A | Label::B), logs);
        for other in others {
            let level = pick(&|l| l == other, logs);
            for (point, log) in self.points.iter().zip(logs.iter_mut()).filter(|(p, _)| p.label == other) {
                debug_assert!(point.label == other);
                *log += common - level;
            }
        }
    }

    /// The statistic at a shift, without any swap.
    fn observed(&self, shift: f64) -> f64 {
        let rounds = self.residuals(shift);
        let mut a: Vec<f64> = rounds.iter().map(|r| r[0]).collect();
        let mut b: Vec<f64> = rounds.iter().map(|r| r[1]).collect();
        trimmed_mean(&mut b, TRIM) - trimmed_mean(&mut a, TRIM)
    }

    /// How often chance alone gives a difference at least as large, if B were A shifted by `shift` (ln scale).
    pub fn p_value(&self, shift: f64) -> f64 {
        let rounds = self.residuals(shift);
        // Sorted once; a swap changes labels only, so each draw is a walk without sorting.
        let mut sorted: Vec<(f64, u32, u32)> = Vec::with_capacity(rounds.len() * 2);
        for (round, pair) in rounds.iter().enumerate() {
            sorted.push((pair[0], round as u32, 0));
            sorted.push((pair[1], round as u32, 1));
        }
        sorted.sort_by(|x, y| x.0.total_cmp(&y.0).then(x.1.cmp(&y.1)).then(x.2.cmp(&y.2)));
        let cut = cut(self.rounds, TRIM);
        let kept = cut..self.rounds - cut;
        let statistic = |pattern: &[u64]| {
            let mut seen = [0usize; 2];
            let mut sum = [0.0f64; 2];
            for &(value, round, label) in &sorted {
                let flip = (pattern[(round / 64) as usize] >> (round % 64)) as u32 & 1;
                let side = (label ^ flip) as usize;
                if kept.contains(&seen[side]) {
                    sum[side] += value;
                }
                seen[side] += 1;
            }
            (sum[1] - sum[0]).abs()
        };
        let observed = statistic(&vec![0; self.words]);
        // Equal values must count as equal although they were added in another order.
        let reach = observed - (observed * 1e-9 + 1e-12);
        let extreme = self.patterns.chunks_exact(self.words).filter(|p| statistic(p) >= reach).count();
        let drawn = self.patterns.len() / self.words;
        if self.exact { extreme as f64 / drawn as f64 } else { (extreme + 1) as f64 / (drawn + 1) as f64 }
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
        for _ in 0..50 {
            let middle = (low + high) / 2.0;
            match self.observed(middle) {
                t if t > 0.0 => low = middle,
                t if t < 0.0 => high = middle,
                _ => return middle,
            }
        }
        (low + high) / 2.0
    }

    /// Estimate and interval at `level` (0.95): the shifts that are not rejected at 1 − `level`.
    pub fn interval(&self, level: f64) -> Interval {
        let estimate = self.estimate();
        let alpha = 1.0 - level;
        Interval {
            estimate,
            low: self.end(estimate, -1.0, alpha).unwrap_or(f64::NEG_INFINITY),
            high: self.end(estimate, 1.0, alpha).unwrap_or(f64::INFINITY),
        }
    }

    /// The farthest shift in one direction that is not rejected; `None` when none is.
    fn end(&self, estimate: f64, direction: f64, alpha: f64) -> Option<f64> {
        if self.rounds == 0 || 2.0 / 2f64.powi(self.rounds.min(1000) as i32) > alpha {
            return None;
        }
        let mut inside = 0.0;
        let mut outside = 1e-4;
        while self.p_value(estimate + direction * outside) > alpha {
            inside = outside;
            outside *= 2.0;
            if outside > 64.0 {
                return None;
            }
        }
        while outside - inside > 1e-3 * outside && outside - inside > 1e-6 {
            let middle = (inside + outside) / 2.0;
            if self.p_value(estimate + direction * middle) > alpha {
                inside = middle;
            } else {
                outside = middle;
            }
        }
        // The outer of the two: never narrower than what was tested.
        Some(estimate + direction * outside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(rounds: &[(f64, f64)]) -> Vec<Point> {
        let pair = |(round, &(a, b)): (usize, &(f64, f64))| {
            [Point { label: Label::A, round, log: a }, Point { label: Label::B, round, log: b }]
        };
        rounds.iter().enumerate().flat_map(pair).collect()
    }

    #[test]
    fn six_rounds_all_one_way_have_exactly_the_smallest_p_value() {
        // All B above all A by far: only the identity and its mirror image reach the statistic.
        let data = [(0.0, 1.0), (0.01, 1.01), (-0.01, 1.0), (0.0, 1.02), (0.02, 1.0), (0.0, 0.99)];
        let test = PairTest::new(points(&data), 9999, 1);
        assert_eq!(test.p_value(0.0), 2.0 / 64.0);
        let interval = test.interval(0.95);
        assert!((interval.estimate - 1.0).abs() < 0.02, "{interval:?}");
        assert!(interval.low > 0.9 && interval.high < 1.1, "{interval:?}");
    }

    #[test]
    fn equal_values_have_p_one_and_five_rounds_have_no_interval() {
        let test = PairTest::new(points(&[(0.5, 0.5); 5]), 9999, 1);
        assert_eq!(test.p_value(0.0), 1.0);
        let interval = test.interval(0.95);
        assert_eq!((interval.low, interval.high), (f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!(interval.estimate, 0.0);
    }

    #[test]
    fn a_large_effect_is_estimated_without_bias() {
        let mut random = Random::new(3);
        let data: Vec<(f64, f64)> =
            (0..30).map(|_| (0.01 * random.unit(), 0.7 + 0.01 * random.unit())).collect();
        let interval = PairTest::new(points(&data), 999, 1).interval(0.95);
        assert!((interval.estimate - 0.7).abs() < 0.003, "{interval:?}");
        assert!(interval.high - interval.low < 0.02, "{interval:?}");
    }

    #[test]
    fn a_third_binary_of_another_speed_changes_nothing() {
        let mut random = Random::new(9);
        let mut with_other = Vec::new();
        for round in 0..20 {
            for (label, level) in [(Label::Other(2), 5.0), (Label::A, 0.0), (Label::B, 0.1)] {
                with_other.push(Point { label, round, log: level + 0.01 * random.unit() });
            }
        }
        let interval = PairTest::new(with_other, 999, 1).interval(0.95);
        assert!((interval.estimate - 0.1).abs() < 0.01, "{interval:?}");
        assert!(interval.low > 0.08 && interval.high < 0.12, "{interval:?}");
    }
}
