//! What does chance alone give? Distribution functions and quantiles, from the `statrs` crate.
//!
//! Degrees of freedom below 1 are read as 1, so that the answer stays a number; probabilities are
//! held within 10⁻¹² of 0 and 1.

use statrs::distribution::{
    Beta, Binomial, ChiSquared, ContinuousCDF, DiscreteCDF, Normal, StudentsT,
};

fn inside(p: f64) -> f64 {
    p.clamp(1e-12, 1.0 - 1e-12)
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

/// Quantile of Student's t. From 2,000 degrees of freedom on by Cornish and Fisher's expansion,
/// exact to nine digits there, where the library's iteration loses some.
pub fn t_quantile(p: f64, df: f64) -> f64 {
    if df > 2000.0 {
        let z = normal_quantile(p);
        let (first, second) =
            ((z.powi(3) + z) / 4.0, (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0);
        return z + first / df + second / (df * df);
    }
    // The library inverts the lower tail; the upper one is its mirror image.
    let lower = inside(p.min(1.0 - p));
    let away =
        StudentsT::new(0.0, 1.0, df.max(1.0)).map_or(f64::NAN, |t| t.inverse_cdf(lower).abs());
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

/// Interval of a share after `hits` of `trials` (Clopper and Pearson 1934): covers at least
/// `level`, for any share.
pub fn clopper_pearson(hits: u64, trials: u64, level: f64) -> (f64, f64) {
    let half = (1.0 - level) / 2.0;
    let hits = hits.min(trials);
    let (k, n) = (hits as f64, trials as f64);
    let low = if hits == 0 { 0.0 } else { beta_quantile(half, k, n - k + 1.0) };
    let high = if hits >= trials { 1.0 } else { beta_quantile(1.0 - half, k + 1.0, n - k) };
    (low, high)
}

/// Two-sided sign test: how often a fair coin is at least as one-sided as `heads` of `throws`. 1
/// for no throw.
pub fn sign_test(heads: u64, throws: u64) -> f64 {
    let few = heads.min(throws.saturating_sub(heads));
    if throws == 0 {
        return 1.0;
    }
    Binomial::new(0.5, throws).map_or(1.0, |b| (2.0 * b.cdf(few)).min(1.0))
}

/// Tail of Kolmogorov's distribution: p-value of the distance `d` between `n` values and a
/// continuous law (asymptotic, with the small-sample factor of Stephens 1970).
pub fn kolmogorov_tail(d: f64, n: usize) -> f64 {
    let root = (n as f64).sqrt();
    let x = d * (root + 0.12 + 0.11 / root.max(1.0));
    if x < 0.2 {
        return 1.0;
    }
    let term =
        |k: i32| (-2.0 * f64::from(k * k) * x * x).exp() * if k % 2 == 1 { 2.0 } else { -2.0 };
    (1..=40).map(term).sum::<f64>().clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(x: f64, y: f64) -> bool {
        (x - y).abs() < 1e-7 * (1e-9 + y.abs()) + 1e-12
    }

    #[test]
    fn quantiles_and_tails_are_those_of_scipy() {
        assert!(close(t_quantile(0.975, 14.0), 2.144786687916925));
        assert!(close(t_quantile(0.95, 7.0), 1.894578605061305));
        assert!((t_quantile(0.8, 3.7) - 0.94987782).abs() < 1e-8);
        assert!(close(t_quantile(0.2, 3.7), -t_quantile(0.8, 3.7)));
        assert!((t_quantile(0.975, 2e5) - 1.959975845966768).abs() < 1e-6);
        assert!(close(t(1.3, 5.0), 0.8748496829146615));
        assert!((normal_quantile(0.975) - 1.959963984540054).abs() < 1e-9);
        assert!((normal_tail(8.0) / 6.22096057427174e-16 - 1.0).abs() < 1e-6);
        assert!((chi_squared_quantile(0.025, 11.0) - 3.81574825).abs() < 1e-6);
        assert!((chi_squared_quantile(0.975, 11.0) - 21.92004926).abs() < 1e-6);
        assert!(close(chi_squared_tail(7.3, 4.0), 0.12085874882121235));
        assert!(close(sign_test(2, 12), 0.03857421875) && close(sign_test(10, 12), 0.03857421875));
        assert!((kolmogorov_tail(0.1, 100) - 0.2526927).abs() < 0.01);
    }

    #[test]
    fn shares_have_the_exact_interval() {
        let (low, high) = clopper_pearson(9, 200, 0.95);
        assert!(
            (low - 0.020780422227).abs() < 1e-7 && (high - 0.083702688076).abs() < 1e-7,
            "{low} {high}"
        );
        let (low, high) = clopper_pearson(0, 50, 0.95);
        assert!(low == 0.0 && (high - 0.071121736465).abs() < 1e-7);
        assert_eq!(clopper_pearson(50, 50, 0.95).1, 1.0);
    }

    #[test]
    fn senseless_arguments_give_a_number() {
        assert!(t_quantile(0.0, 0.0).is_finite() && t_quantile(1.0, 5.0).is_finite());
        assert_eq!(sign_test(0, 0), 1.0);
        assert_eq!(clopper_pearson(3, 0, 0.95), (0.0, 1.0));
    }
}
