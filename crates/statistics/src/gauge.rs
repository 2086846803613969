//! What was timed beside each run says how slow the CPU was meanwhile. What does that explain of the
//! runs' own times, and what is left without it? Analysis of covariance with a robust fit.
//!
//! The fit does not ask which program ran, and programs are in random order inside a round: of
//! equal programs, swapping labels swaps adjusted runs, so the test of no difference stays exact.
//! That is why programs are not brought to a common level before the fit, as an analysis of
//! covariance usually does. Simulated, that claims a difference between equal programs in 10 to
//! 15 % of comparisons instead of 5 %.

use crate::Observation;
use crate::robust::{WINDOW, mean, median, running_median, spread, variance};
use std::collections::BTreeMap;

/// Fewer runs cannot tell a curve from noise.
pub const LEAST_RUNS: usize = 24;
/// The fit is used only if chance alone would fit as well in less than this share of measurements (F
/// test)…
const CHANCE: f64 = 0.01;
/// …and if it takes at least this share from the variance that the tests see.
const LEAST_EXPLAINED: f64 = 0.05;
/// Deviations beyond so many spreads weigh no more than that (Huber's estimator; 1.345 is the usual
/// bound, 95 % as good as least squares where there are no outliers).
const BOUND: f64 = 1.345;
/// The same for sums of squares, which tell how well it fits.
const FAR_BOUND: f64 = 3.0;
/// A binary whose mean is more than so many standard deviations of single runs away from the middle
/// is brought there before the fit: its difference would drown everything else, and no test is
/// needed to see it. Not spreads: of runs that fall into two groups, the median absolute deviation
/// may see one group.
const FAR: f64 = 1.0;
/// Rounds of the fit; it is settled after a few.
const FITS: usize = 12;

/// What a gauge explained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gauged {
    /// Share of the variance inside rounds, of runs without the running median and clipped at one
    /// spread, that is gone: 0 to 1.
    pub explained: f64,
}

/// Why a gauge was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unused {
    /// There are under [`LEAST_RUNS`] runs.
    Few,
    /// There is not one number of the gauge for each run.
    Unread,
    /// It explains next to nothing of how runs differ.
    Nothing,
}

/// Takes out of `observations`, in time order, what the gauge explains: a curve of second degree in
/// `gauge`, ln of what the gauge showed during each run, minus its value at the gauge's median.
///
/// Fitted to what is left of both when the mean of nine neighbours is taken from them, since the
/// tests leave slow changes out anyway.
///
/// # Errors
/// Why the observations stay as they were.
pub fn take_out(observations: &mut [Observation], gauge: &[f64]) -> Result<Gauged, Unused> {
    if observations.len() != gauge.len() {
        return Err(Unused::Unread);
    }
    if observations.len() < LEAST_RUNS {
        return Err(Unused::Few);
    }
    let middle = median(&mut gauge.to_vec());
    let line: Vec<f64> = gauge.iter().map(|x| x - middle).collect();
    let square: Vec<f64> = line.iter().map(|x| x * x).collect();
    let near = near(observations);
    let [values, x, xx] = [&near, &line, &square].map(|values| fast(values));
    let [slope, bend] = fit(&values, &x, &xx).ok_or(Unused::Nothing)?;
    if chance(&values, &without(&values, &x, &xx, [slope, bend])) >= CHANCE {
        return Err(Unused::Nothing);
    }
    let before = inside_rounds(observations, &near);
    let after = inside_rounds(observations, &without(&near, &line, &square, [slope, bend]));
    let explained = 1.0 - after / before;
    // Without any variance it is no number.
    if !(LEAST_EXPLAINED..=1.0).contains(&explained) {
        return Err(Unused::Nothing);
    }
    for (o, x) in observations.iter_mut().zip(&line) {
        o.log -= slope * x + bend * x * x;
    }
    Ok(Gauged { explained })
}

fn without(values: &[f64], x: &[f64], xx: &[f64], [slope, bend]: [f64; 2]) -> Vec<f64> {
    values.iter().zip(x.iter().zip(xx)).map(|(y, (x, xx))| y - slope * x - bend * xx).collect()
}

/// How often a gauge that has nothing to do with the runs would fit as well: the p-value of F with
/// two degrees of freedom above, which is (1 − R²) to the power of half of those below.
fn chance(values: &[f64], left: &[f64]) -> f64 {
    let bound = FAR_BOUND * spread(values);
    let squares =
        |values: &[f64]| values.iter().map(|v| v.clamp(-bound, bound).powi(2)).sum::<f64>();
    // The mean of each window took its share.
    let below = values.len() as f64 * (1.0 - 1.0 / WINDOW as f64) - 2.0;
    let p = (squares(left) / squares(values)).powf(below / 2.0);
    if p.is_nan() { 1.0 } else { p }
}

/// Variance inside rounds of what the tests see: runs without the running median, clipped at one
/// spread.
fn inside_rounds(observations: &[Observation], values: &[f64]) -> f64 {
    let left: Vec<f64> = values.iter().zip(running_median(values)).map(|(x, m)| x - m).collect();
    let (middle, reach) = (median(&mut left.clone()), spread(&left));
    let mut rounds = BTreeMap::<u32, Vec<f64>>::new();
    for (o, value) in observations.iter().zip(left) {
        rounds.entry(o.round).or_default().push(value.clamp(middle - reach, middle + reach));
    }
    let inside = |round: &Vec<f64>| {
        let centre = mean(round);
        round.iter().map(|v| (v - centre).powi(2)).sum::<f64>()
    };
    rounds.values().map(inside).sum()
}

/// The runs' values, binaries that lie far from the others brought near.
fn near(observations: &[Observation]) -> Vec<f64> {
    let mut binaries = BTreeMap::<(usize, u32), Vec<f64>>::new();
    for o in observations {
        binaries.entry((o.variant, o.layout)).or_default().push(o.log);
    }
    let mut deviations: Vec<f64> = binaries.values().map(|own| variance(own).sqrt()).collect();
    let far = FAR * median(&mut deviations);
    let middles: BTreeMap<_, f64> =
        binaries.into_iter().map(|(key, own)| (key, mean(&own))).collect();
    let middle = median(&mut middles.values().copied().collect::<Vec<_>>());
    let level = |o: &Observation| middles.get(&(o.variant, o.layout)).map_or(0.0, |at| at - middle);
    observations
        .iter()
        .map(|o| o.log - Some(level(o)).filter(|away| away.abs() > far).unwrap_or(0.0))
        .collect()
}

/// What changes from one run to the next: each value minus the mean of it and its neighbours.
fn fast(values: &[f64]) -> Vec<f64> {
    let reach = WINDOW / 2;
    let around = |at: usize| {
        let window = at.saturating_sub(reach)..values.len().min(at + reach + 1);
        mean(values.get(window).unwrap_or_default())
    };
    values.iter().enumerate().map(|(at, value)| value - around(at)).collect()
}

/// The two coefficients by Huber's estimator: least squares to values that are pulled in to the
/// bound.
fn fit(values: &[f64], x: &[f64], xx: &[f64]) -> Option<[f64; 2]> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let (a, b, c) = (dot(x, x), dot(x, xx), dot(xx, xx));
    let determinant = a * c - b * b;
    let solve = |values: &[f64]| {
        let (p, q) = (dot(values, x), dot(values, xx));
        // Where the gauge took two values only, its square says nothing more.
        if determinant > 1e-9 * a * c {
            Some([(p * c - q * b) / determinant, (q * a - p * b) / determinant])
        } else if a > 0.0 {
            Some([p / a, 0.0])
        } else {
            None
        }
    };
    let mut found = solve(values)?;
    for _ in 0..FITS {
        let curve: Vec<f64> =
            x.iter().zip(xx).map(|(x, xx)| found[0] * x + found[1] * xx).collect();
        let left: Vec<f64> = values.iter().zip(&curve).map(|(y, at)| y - at).collect();
        let bound = BOUND * spread(&left);
        let pulled: Vec<f64> =
            left.iter().zip(&curve).map(|(r, at)| at + r.clamp(-bound, bound)).collect();
        found = solve(&pulled)?;
    }
    found.iter().all(|c| c.is_finite()).then_some(found)
}

#[cfg(test)]
#[path = "gauge_tests.rs"]
mod tests;
