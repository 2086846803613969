//! What does chance alone give? Distribution functions and quantiles, from the `statrs` crate.
//!
//! Degrees of freedom below 1 are read as 1, so that the answer stays a number; probabilities are held inside (0, 1).

use statrs::distribution::{Beta, Binomial, ChiSquared, ContinuousCDF, DiscreteCDF, Normal, StudentsT};

fn inside(p: f64) -> f64 {
    p.clamp(1e-300, 1.0 - 1e-16)
}

/// Φ(x), the standard normal distribution function.
pub fn normal(x: f64) -> f64 {
    Normal::standard().cdf(x)
}

/// 1 − Φ(x), exact far out where Φ(x) rounds to 1.
pub fn normal_tail(x: f64) -> f64 {
    Normal::standard().sf(x)
}

/// The z with Φ(z) = `p`.
pub fn normal_quantile(p: f64) -> f64 {
    Normal::standard().inverse_cdf(inside(p))
}

/// Distribution function of Student's t with `df` degrees of freedom.
pub fn t(x: f64, df: f64) -> f64 {
    StudentsT::new(0.0, 1.0, df.max(1.0)).map_or(f64::NAN, |t| t.cdf(x))
}

/// Two-sided p-value of Student's t.
pub fn t_two_sided(x: f64, df: f64) -> f64 {
    (2.0 * t(-x.abs(), df)).min(1.0)
}

/// Quantile of Student's t; the normal's from a million degrees of freedom on.
pub fn t_quantile(p: f64, df: f64) -> f64 {
    if df > 1e6 {
        return normal_quantile(p);
    }
    // The library inverts the lower tail; the upper one is its mirror image.
    let lower = inside(p.min(1.0 - p));
    let away = StudentsT::new(0.0, 1.0, df.max(1.0)).map_or(f64::NAN, |t| t.inverse_cdf(lower).abs());
    if p < 0.5 { -away } else { away }
}

/// Quantile of χ² with `df` degrees of freedom.
pub fn chi_squared_quantile(p: f64, df: f64) -> f64 {
    ChiSquared::new(df.max(1.0)).map_or(f64::NAN, |c| c.inverse_cdf(inside(p)))
}

/// Upper tail of χ²: the p-value of a test of homogeneity.
pub fn chi_squared_tail(x: f64, df: f64) -> f64 {
    if x <= 0.0 { 1.0 } else { ChiSquared::new(df.max(1.0)).map_or(f64::NAN, |c| c.sf(x)) }
}

/// Quantile of the beta distribution.
pub fn beta_quantile(p: f64, a: f64, b: f64) -> f64 {
    Beta::new(a, b).map_or(f64::NAN, |beta| beta.inverse_cdf(inside(p)))
}

/// Interval of a share after `hits` of `trials` (Clopper and Pearson 1934): covers at least `level`, for any share.
pub fn clopper_pearson(hits: u64, trials: u64, level: f64) -> (f64, f64) {
    let half = (1.0 - level) / 2.0;
    let (k, n) = (hits.min(trials) as f64, trials as f64);
    let low = if hits == 0 { 0.0 } else { beta_quantile(half, k, n - k + 1.0) };
    let high = if hits >= trials { 1.0 } else { beta_quantile(1.0 - half, k + 1.0, n - k) };
    (low, high)
}

/// Two-sided sign test: how often a fair coin is at least as one-sided as `heads` of `throws`. 1 for no throw.
pub fn sign_test(heads: u64, throws: u64) -> f64 {
    let few = heads.min(throws.saturating_sub(heads));
    if throws == 0 {
        return 1.0;
    }
    Binomial::new(0.5, throws).map_or(1.0, |b| (2.0 * b.cdf(few)).min(1.0))
}

/// Tail of Kolmogorov's distribution: p-value of the distance `d` between `n` values and a continuous law
/// (asymptotic, with the small-sample factor of Stephens 1970).
pub fn kolmogorov_tail(d: f64, n: usize) -> f64 {
    let root = (n as f64).sqrt();
    let x = d * (root + 0.12 + 0.11 / root.max(1.0));
    if x < 0.2 {
        return 1.0;
    }
    let term = |k: i32| (-2.0 * f64::from(k * k) * x * x).exp() * if k % 2 == 1 { 2.0 } else { -2.0 };
    (1..=40).map(term).sum::<f64>().clamp(0.0, 1.0)
}
