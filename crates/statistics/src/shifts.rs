//! Did the share that something has of a whole move between two sides, beyond noise?
//!
//! Input: the shares in several recordings of each side ([`over_recordings`]), or how far each
//! block of time is from its share ([`residuals`]), the blocks of both sides taken in pairs
//! ([`over_blocks`]). Blocks resemble their neighbours, so their variance alone is too small: the
//! long-run variance is taken from slow cosines, which see what neighbours share, and t has as many
//! degrees of freedom as there are cosines (Lazarus, Lewis, Stock and Watson, "HAR Inference:
//! Recommendations for Practice", 2018). Taking the blocks in pairs lets phases that both sides
//! have at the same part of their time cancel out.

use crate::distribution::{t_quantile, t_two_sided};
use crate::robust::{mean, variance};

/// A difference with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// New minus old.
    pub estimate: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// Degrees of freedom of the error.
    pub degrees: f64,
    /// Two-sided, of no difference; not corrected for other rows.
    pub p_value: f64,
}

impl Shift {
    fn of(estimate: f64, standard_error: f64, degrees: f64) -> Shift {
        let p_value = match (estimate == 0.0, standard_error > 0.0) {
            (true, _) => 1.0,
            (false, true) => t_two_sided(estimate / standard_error, degrees),
            // No two values differ on either side: nothing to measure the difference by but itself.
            (false, false) => 0.0,
        };
        Shift { estimate, standard_error, degrees, p_value }
    }

    /// The interval that holds the difference with the chance `level`.
    pub fn interval(&self, level: f64) -> (f64, f64) {
        let half = t_quantile(0.5 + level / 2.0, self.degrees) * self.standard_error;
        (self.estimate - half, self.estimate + half)
    }
}

/// How many blocks may stand on their own; fewer say too little about their own noise.
pub const LEAST_BLOCKS: usize = 32;

/// Cosines for so many blocks: an eighth, so that neighbours may resemble each other.
fn cosines(blocks: usize) -> usize {
    (blocks / 8).max(8).min(blocks.saturating_sub(1)).max(1)
}

/// By how much each block has more than the share of all blocks, as a part of the whole. They add
/// up to 0; without weight they all are 0.
pub fn residuals(row: &[f64], whole: &[f64]) -> Vec<f64> {
    let (all_row, all) = (row.iter().sum::<f64>(), whole.iter().sum::<f64>());
    if all <= 0.0 {
        return vec![0.0; row.len()];
    }
    let share = all_row / all;
    row.iter().zip(whole).map(|(row, whole)| (row - share * whole) / all).collect()
}

/// A difference of `estimate` whose error is the sum of `errors`, in the order of the time: of each
/// pair of blocks, the new one's residual minus the old one's.
pub fn over_blocks(estimate: f64, errors: &[f64]) -> Shift {
    let n = errors.len() as f64;
    if errors.len() < 2 {
        return Shift::of(estimate, f64::INFINITY, 1.0);
    }
    let count = cosines(errors.len());
    let slow = |number: usize| {
        let step = std::f64::consts::PI * number as f64 / n;
        let product = |(at, error): (usize, &f64)| error * (step * (at as f64 + 0.5)).cos();
        errors.iter().enumerate().map(product).sum::<f64>().powi(2) * 2.0
    };
    let long_run = (1..=count).map(slow).sum::<f64>() / count as f64;
    let alone = variance(errors) * n;
    // A few cosines may be small by luck; less than independent blocks vary it cannot be.
    Shift::of(estimate, long_run.max(alone).sqrt(), count as f64)
}

/// The difference of the means of shares, one of each recording (Welch's t).
pub fn over_recordings(old: &[f64], new: &[f64]) -> Shift {
    let error = |shares: &[f64]| variance(shares) / shares.len().max(1) as f64;
    let (of_old, of_new) = (error(old), error(new));
    let sum = of_old + of_new;
    let part = |error: f64, count: usize| error.powi(2) / (count.max(2) - 1) as f64;
    let below = part(of_old, old.len()) + part(of_new, new.len());
    let least = (old.len().min(new.len()).max(2) - 1) as f64;
    let degrees = if below > 0.0 { (sum * sum / below).max(least) } else { least };
    Shift::of(mean(new) - mean(old), sum.sqrt(), degrees)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_compared_by_welchs_t() {
        let shift = over_recordings(&[1.0, 2.0, 3.0, 4.0], &[3.0, 5.0, 4.0, 7.0, 6.5]);
        // Variances 5/3 and 2.8: t = 2.6 / sqrt(5/12 + 0.56), by Welch and Satterthwaite 6.9999 degrees of
        // freedom; the tails of t beyond 2.6309 hold 0.03387, by numerical integration.
        assert!((shift.estimate - 2.6).abs() < 1e-12);
        assert!((shift.degrees - 6.9999).abs() < 1e-3, "{shift:?}");
        assert!((shift.p_value - 0.03387).abs() < 2e-5, "{shift:?}");
        let (low, high) = shift.interval(0.95);
        assert!(low > 0.0 && low < 2.6 && high > 2.6 && (low + high - 5.2).abs() < 1e-9);
    }

    #[test]
    fn residuals_add_up_to_nothing_and_nothing_has_none() {
        let residuals = residuals(&[1.0, 0.0, 5.0], &[4.0, 1.0, 7.0]);
        assert!(residuals.iter().sum::<f64>().abs() < 1e-12 && residuals[2] > 0.0);
        assert_eq!(super::residuals(&[0.0; 3], &[0.0; 3]), [0.0; 3]);
        assert_eq!(over_blocks(0.0, &[0.0; 40]).p_value, 1.0);
        assert_eq!(over_blocks(1.0, &[]).p_value, 1.0);
    }

    #[test]
    fn blocks_in_one_long_phase_say_less_than_blocks_in_turn() {
        let phase: Vec<f64> = (0..64).map(|at| if at < 32 { 1.0 } else { -1.0 }).collect();
        let turns: Vec<f64> = (0..64).map(|at| if at % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let (slow, fast) = (over_blocks(20.0, &phase), over_blocks(20.0, &turns));
        assert!(slow.standard_error > 2.0 * fast.standard_error, "{slow:?} {fast:?}");
    }
}
