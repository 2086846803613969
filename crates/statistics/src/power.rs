//! How small a difference would have been noticed, and how much more must be measured to see one of
//! a given size?
//!
//! Detectable difference: (t(1−α/2) + t(power)) · SE, the usual approximation (Kalibera and Jones
//! 2013, doi:10.1145/2464157.2464160, use the same for benchmarks). Needed replicates solve it for
//! n, with the degrees of freedom that n gives.

use crate::distribution::{normal_quantile, t_quantile};
use crate::layouts::{ALPHA, least_layouts};

/// Chance to notice a difference that is there: four in five, the usual one (Cohen 1988).
pub const POWER: f64 = 0.8;
/// Chance to show equivalence where there is no difference.
pub const EQUIVALENCE_POWER: f64 = 0.9;
/// Most rounds or layouts that are planned.
const MOST: u32 = 100_000;

/// What more measuring is planned for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// To show a difference of this size (ln scale) at this two-sided level, with [`POWER`].
    Difference {
        /// Its size.
        size: f64,
        /// The level after a correction for the number of comparisons.
        alpha: f64,
    },
    /// To show that any difference lies within ± this (ln scale) where there is none, with
    /// [`EQUIVALENCE_POWER`].
    Equivalence(f64),
}

impl Goal {
    /// The room that the error has, and by how many standard errors it must be smaller: with `df`
    /// degrees of freedom.
    fn room(self, df: f64) -> (f64, f64) {
        match self {
            Goal::Difference { size, alpha } => {
                (size, t_quantile(1.0 - alpha / 2.0, df) + t_quantile(POWER, df))
            }
            // z(0.95), not z(0.9): with no difference either side can fail.
            Goal::Equivalence(margin) => (
                margin,
                t_quantile(0.95, df) + normal_quantile(1.0 - (1.0 - EQUIVALENCE_POWER) / 2.0),
            ),
        }
    }
}

/// The smallest difference (ln scale) that is noticed with probability `power` at two-sided
/// `alpha`.
pub fn detectable(standard_error: f64, df: f64, alpha: f64, power: f64) -> f64 {
    (t_quantile(1.0 - alpha / 2.0, df) + t_quantile(power, df)) * standard_error
}

/// Layouts per variant that reach the goal.
///
/// `deviation` is the standard deviation of one layout's level (independent) or of one matched
/// difference. `None` when the size is 0 or more than 100,000 are needed.
pub fn layouts(goal: Goal, deviation: f64, matched: bool) -> Option<u32> {
    let (samples, least) = (if matched { 1.0 } else { 2.0 }, least_layouts(matched) as u32);
    let (Goal::Difference { size, .. } | Goal::Equivalence(size)) = goal;
    if size.is_nan() || size <= 0.0 || !deviation.is_finite() {
        return None;
    }
    let enough = |n: u32| {
        let (size, factor) = goal.room(samples * (f64::from(n) - 1.0));
        factor * deviation * (samples / f64::from(n)).sqrt() <= size
    };
    // Fewer than `least` decide nothing. The condition is
    // monotone in n, so the smallest n lies between a power of two and its half.
    let mut high = least;
    while !enough(high) {
        high *= 2;
        if high > MOST {
            return None;
        }
    }
    let mut low = least;
    while low < high {
        let middle = (low + high) / 2;
        if enough(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(high)
}

/// Layouts per variant that notice `effect` (ln scale) at 5 % with 80 % power.
pub fn layouts_for(effect: f64, deviation: f64, matched: bool) -> Option<u32> {
    layouts(Goal::Difference { size: effect, alpha: ALPHA }, deviation, matched)
}

/// Layouts per variant that show equivalence within ±`margin` (ln scale) with 90 % chance where
/// nothing differs.
///
/// Two one-sided tests at 5 % each: n = k·σ²·(t(0.95) + z(0.95))²/m², k = 2 independent, 1 matched.
pub fn layouts_for_equivalence(margin: f64, deviation: f64, matched: bool) -> Option<u32> {
    layouts(Goal::Equivalence(margin), deviation, matched)
}

/// Rounds after which a pair of programs reaches the goal, given the standard error after `rounds`:
/// it falls with the root of the rounds.
pub fn rounds(goal: Goal, standard_error: f64, rounds: usize) -> Option<u32> {
    let (size, factor) = goal.room(1e6);
    let n = rounds as f64 * (standard_error * factor / size).powi(2);
    let least = match goal {
        Goal::Difference { alpha, .. } => least_rounds(ALPHA / alpha),
        Goal::Equivalence(_) => least_rounds(1.0),
    };
    (n.is_finite() && n < 1e9).then(|| (n.ceil() as u32).max(least))
}

/// Rounds under which the swaps of one pair cannot be rare enough for a claim that is corrected for
/// so many `rows`: the smallest p-value of R rounds is 2/2^R.
pub fn least_rounds(rows: f64) -> u32 {
    (1..64).find(|&r| 2.0 * rows.max(1.0) < ALPHA * 2f64.powi(r)).unwrap_or(64) as u32
}

/// Rounds at which the present `layouts` reach the goal, when more layouts are not wanted: solves
/// k(σ_L² + σ_w²/R)/L = (size/f)². `None` when layouts alone are too noisy for that.
pub fn rounds_with_layouts(
    goal: Goal,
    layout_variance: f64,
    run_variance: f64,
    layouts: usize,
    matched: bool,
) -> Option<u32> {
    let (samples, l) = (if matched { 1.0 } else { 2.0 }, layouts as f64);
    let (size, factor) = goal.room(samples * (l - 1.0));
    let room = l / samples * (size / factor).powi(2) - layout_variance;
    let n = run_variance / room;
    (room > 0.0 && n < 1e9).then(|| n.ceil().max(1.0) as u32)
}

/// Rounds per layout that waste no machine time: √(cost of a relink / cost of a run · σ_w² / σ_L²),
/// at least 4 (Kalibera and Jones 2013, with one level).
pub fn best_rounds(
    relink_cost: f64,
    run_cost: f64,
    run_variance: f64,
    layout_variance: f64,
) -> u32 {
    let r = (relink_cost / run_cost * run_variance / layout_variance).sqrt();
    if r.is_finite() { r.ceil().clamp(4.0, 1e6) as u32 } else { 4 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_layouts_are_those_of_the_design_study() {
        let layouts =
            |effect: f64, deviation: f64, matched| layouts_for(effect, deviation, matched).unwrap();
        assert_eq!([layouts(0.01, 0.013, false), layouts(0.01, 0.015, false)], [28, 37]);
        assert_eq!(layouts(0.01, 0.0085, true), 8);
        assert_eq!(layouts(0.03, 0.015, false), 6);
        // Six matched ones are the least that can reach 5 %.
        assert_eq!(layouts(0.5, 0.001, true), 6);
        assert!(layouts_for(0.0, 0.01, true).is_none() && layouts_for(1e-9, 0.01, true).is_none());
    }

    #[test]
    fn what_is_needed_is_enough_and_one_less_is_not() {
        let n = layouts_for_equivalence(0.01, 0.015, false).unwrap();
        let half = |n: u32| {
            (t_quantile(0.95, 2.0 * f64::from(n) - 2.0) + 1.6448536)
                * 0.015
                * (2.0 / f64::from(n)).sqrt()
        };
        assert!(half(n) <= 0.01 && half(n - 1) > 0.01, "{n}");
        let rounds = rounds_with_layouts(Goal::Equivalence(0.01), 1e-5, 1e-3, 16, true).unwrap();
        let error = ((1e-5 + 1e-3 / f64::from(rounds)) / 16.0).sqrt();
        assert!(error * (t_quantile(0.95, 15.0) + 1.6448536) <= 0.01 + 1e-12, "{rounds}");
        assert!(rounds_with_layouts(Goal::Equivalence(0.01), 1e-3, 1e-3, 4, false).is_none());
    }

    #[test]
    fn a_claim_among_many_rows_needs_more_rounds_and_layouts_than_one_alone() {
        assert_eq!([1.0, 7.0, 8.0, 40.0].map(least_rounds), [6, 9, 9, 11]);
        let among = |rows: f64| Goal::Difference { size: 0.03, alpha: ALPHA / rows };
        let of = |rows| layouts(among(rows), 0.02, true).unwrap();
        assert!(of(1.0) < of(8.0) && of(8.0) < of(40.0), "{} {} {}", of(1.0), of(8.0), of(40.0));
        assert!(rounds(among(40.0), 0.01, 10) > rounds(among(1.0), 0.01, 10));
        assert_eq!(rounds(among(8.0), 1e-6, 10), Some(9));
    }

    #[test]
    fn cheap_relinks_mean_few_rounds() {
        assert_eq!(best_rounds(1.0, 1.0, 1e-4, 1e-4), 4);
        assert_eq!(best_rounds(100.0, 1.0, 4e-4, 1e-4), 20);
        assert_eq!(best_rounds(1.0, 1.0, 1e-4, 0.0), 4);
    }
}
