//! What is the noise made of: single runs, code layouts, or the machine's drift?
//!
//! * σ_w², of one run around its binary's level, such that the level over R rounds has variance
//!   σ_w²/R: R times the squared standard error of the trimmed mean (Tukey and McLaughlin 1963),
//!   averaged over binaries. Resampling the rounds gives the same number slower and with an error
//!   of its own.
//! * σ_L², between layouts of one variant: max(0, s² − σ_w²/R), s² the variance of the layout
//!   levels pooled over variants with ν = Σ(L − 1) degrees of freedom; its interval takes ν·s²/χ²
//!   minus σ_w²/R.
//! * drift: variance of the round medians, minus what medians of that many runs scatter by
//!   themselves.

use crate::distribution::{chi_squared_quantile, t_quantile};
use crate::layouts::{LAYOUT_TRIM, levelled_rounds};
use crate::robust::{mean, median, trimmed_mean_error, variance};
use crate::{LayoutMeans, Observation};
use serde::{Deserialize, Serialize};

/// Variances on the log scale; 0.01² means about 1 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Components {
    /// σ_w²: one run around its binary's level, as far as it counts in the trimmed mean.
    pub run_variance: f64,
    /// σ_L²: layouts of one variant around their mean; 0 when no layout noise shows.
    pub layout_variance: f64,
    /// 95 % interval of σ_L (a standard deviation); absent without layouts.
    pub layout_interval: Option<(f64, f64)>,
    /// Slow changes of the machine that all binaries share.
    pub drift_variance: f64,
    /// Share of run noise in the sum of the three.
    pub run_share: f64,
    /// Share of layout noise.
    pub layout_share: f64,
    /// Share of drift.
    pub drift_share: f64,
    /// σ_L² / (σ_L² + σ_w²): how much of what differs between two runs of different layouts is
    /// layout.
    pub icc: f64,
    /// Half-width of the band in which 95 % of the differences between two relinks of the same
    /// code fall: t·σ_L·√2.
    pub relink_band: Option<f64>,
    /// Variance of matched differences D beyond run noise; absent without two layouts of both
    /// variants.
    pub difference_variance: Option<f64>,
    /// Correlation of matched layouts' levels, likewise: how well matching works.
    pub matched_correlation: Option<f64>,
    /// Degrees of freedom behind σ_L².
    pub layout_df: usize,
    /// Rounds.
    pub rounds: usize,
}

/// Splits the variance of the binaries of `pair` (A, B), or of all variants. `None` with fewer than
/// two rounds.
pub fn components(
    observations: &[Observation],
    means: &LayoutMeans,
    pair: Option<(usize, usize)>,
) -> Option<Components> {
    let wanted = |variant: usize| pair.is_none_or(|(a, b)| variant == a || variant == b);
    let runs: Vec<&Vec<(u32, f64)>> =
        means.cleaned().iter().filter(|(key, _)| wanted(key.0)).map(|(_, runs)| runs).collect();
    let rounds: Vec<u32> = {
        let mut all: Vec<u32> = runs.iter().flat_map(|r| r.iter().map(|run| run.0)).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    if rounds.len() < 2 {
        return None;
    }
    let run_variance = run_variance(&runs);
    let noise = run_variance / rounds.len() as f64;
    let mut variants: Vec<usize> =
        means.cleaned().keys().map(|key| key.0).filter(|&v| wanted(v)).collect();
    variants.dedup();
    let levels: Vec<Vec<f64>> =
        variants.iter().map(|&v| means.of(v).into_iter().map(|(_, u)| u).collect()).collect();
    let df: usize = levels.iter().map(|u| u.len().saturating_sub(1)).sum();
    let pooled = levels.iter().map(|u| variance(u) * u.len().saturating_sub(1) as f64).sum::<f64>()
        / df.max(1) as f64;
    let layout_variance = if df > 0 { (pooled - noise).max(0.0) } else { 0.0 };
    let end =
        |p: f64| (df as f64 * pooled / chi_squared_quantile(p, df as f64) - noise).max(0.0).sqrt();
    let drift_variance = drift(observations, run_variance);
    let total = (run_variance + layout_variance + drift_variance).max(f64::MIN_POSITIVE);
    let (difference_variance, matched_correlation) = matched(means, pair, noise);
    Some(Components {
        run_variance,
        layout_variance,
        layout_interval: (df > 0).then(|| (end(0.975), end(0.025))),
        drift_variance,
        run_share: run_variance / total,
        layout_share: layout_variance / total,
        drift_share: drift_variance / total,
        icc: layout_variance / (layout_variance + run_variance).max(f64::MIN_POSITIVE),
        relink_band: (df > 0)
            .then(|| t_quantile(0.975, df as f64) * (2.0 * layout_variance).sqrt()),
        difference_variance,
        matched_correlation,
        layout_df: df,
        rounds: rounds.len(),
    })
}

/// n × the squared standard error of the binaries' trimmed means, averaged: per run, so that a
/// binary that runs twice per round counts like the others.
fn run_variance(runs: &[&Vec<(u32, f64)>]) -> f64 {
    let of = |runs: &&Vec<(u32, f64)>| {
        let values: Vec<f64> = runs.iter().map(|run| run.1).collect();
        trimmed_mean_error(&values, LAYOUT_TRIM).0 * values.len() as f64
    };
    mean(&runs.iter().filter(|r| r.len() >= 2).map(of).collect::<Vec<f64>>())
}

fn drift(observations: &[Observation], run_variance: f64) -> f64 {
    let rounds = levelled_rounds(observations);
    let runs = mean(&rounds.values().map(|r| r.len() as f64).collect::<Vec<f64>>()).max(1.0);
    let medians: Vec<f64> = rounds.into_values().map(|mut values| median(&mut values)).collect();
    // The median of n normal values has π/2 times the variance of their mean.
    (variance(&medians) - std::f64::consts::FRAC_PI_2 * run_variance / runs).max(0.0)
}

fn matched(
    means: &LayoutMeans,
    pair: Option<(usize, usize)>,
    noise: f64,
) -> (Option<f64>, Option<f64>) {
    let Some((a, b)) = pair else { return (None, None) };
    let pairs = means.pairs(a, b);
    if pairs.len() < 2 {
        return (None, None);
    }
    let column = |f: &dyn Fn(&(u32, f64, f64)) -> f64| pairs.iter().map(f).collect::<Vec<f64>>();
    let (x, y, d) = (column(&|p| p.1), column(&|p| p.2), column(&|p| p.2 - p.1));
    let (vx, vy, vd) = (variance(&x), variance(&y), variance(&d));
    let correlation = (vx > 0.0 && vy > 0.0).then(|| (vx + vy - vd) / (2.0 * (vx * vy).sqrt()));
    (Some((vd - 2.0 * noise).max(0.0)), correlation)
}
