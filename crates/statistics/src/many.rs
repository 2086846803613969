//! What do many comparisons say together, without one of them being right by luck?

use crate::distribution::{chi_squared_tail, normal_quantile, sign_test, t_quantile};
use crate::robust::{mean, variance};
use serde::{Deserialize, Serialize};

/// Holm's (1979) adjusted p-values, in the order given: claiming those under α keeps the chance of
/// any false claim ≤ α.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let order = ascending(p_values);
    let n = order.len();
    let mut adjusted = vec![1.0; n];
    let mut floor = 0.0f64;
    for (rank, &index) in order.iter().enumerate() {
        floor = floor.max((p_values[index] * (n - rank) as f64).min(1.0));
        adjusted[index] = floor;
    }
    adjusted
}

/// Benjamini and Hochberg's (1995) adjusted p-values: claiming those under q keeps the expected
/// share of false claims among all claims ≤ q.
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let order = ascending(p_values);
    let n = order.len();
    let mut adjusted = vec![1.0; n];
    let mut ceiling = 1.0f64;
    for (rank, &index) in order.iter().enumerate().rev() {
        ceiling = ceiling.min(p_values[index] * n as f64 / (rank + 1) as f64);
        adjusted[index] = ceiling;
    }
    adjusted
}

fn ascending(p_values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&x, &y| p_values[x].total_cmp(&p_values[y]).then(x.cmp(&y)));
    order
}

/// One row of a suite or cell of a matrix: effect on the log scale and its standard error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// ln(B) − ln(A).
    pub estimate: f64,
    /// Its standard error.
    pub standard_error: f64,
}

/// The geometric mean of a suite's ratios, on the log scale.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Index {
    /// Mean of the effects; e to this power is the index.
    pub estimate: f64,
    /// 95 % interval for these very benchmarks: only their measurement is uncertain.
    pub fixed: (f64, f64),
    /// 95 % interval for benchmarks like these (t over the rows); absent for a single row.
    pub sample: Option<(f64, f64)>,
    /// The lowest and the highest effect.
    pub range: (f64, f64),
    /// Rows.
    pub rows: usize,
}

/// Geometric mean index over rows; `None` without rows.
pub fn index(effects: &[Effect]) -> Option<Index> {
    let rows = effects.len();
    let values: Vec<f64> = effects.iter().map(|e| e.estimate).collect();
    let range = range(&values)?;
    let estimate = mean(&values);
    let n = rows as f64;
    let half = normal_quantile(0.975)
        * effects.iter().map(|e| e.standard_error.powi(2)).sum::<f64>().sqrt()
        / n;
    let sample = (rows > 1).then(|| {
        let half = t_quantile(0.975, n - 1.0) * (variance(&values) / n).sqrt();
        (estimate - half, estimate + half)
    });
    Some(Index { estimate, fixed: (estimate - half, estimate + half), sample, range, rows })
}

/// Lowest and highest value; `None` without any.
pub fn range(values: &[f64]) -> Option<(f64, f64)> {
    let low = values.iter().copied().reduce(f64::min)?;
    Some((low, values.iter().copied().reduce(f64::max)?))
}

/// A random-effects mean over cells (machine × parameter).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pooled {
    /// Weighted mean of the effects.
    pub estimate: f64,
    /// 95 % interval of the mean.
    pub interval: (f64, f64),
    /// Where the effect of one more such cell is expected with 95 %; absent under three cells.
    pub prediction: Option<(f64, f64)>,
    /// τ²: variance between cells.
    pub between: f64,
    /// I²: share of the cells' differences that is not measurement error.
    pub heterogeneity: f64,
    /// p-value of "all cells have the same effect" (Cochran's Q).
    pub p_same: f64,
}

/// DerSimonian and Laird's (1986) mean; prediction interval after Higgins, Thompson and
/// Spiegelhalter (2009), t with k − 2 degrees of freedom. Cells without a positive standard error
/// are left out. `None` when none is left.
pub fn pool(cells: &[Effect]) -> Option<Pooled> {
    let cells: Vec<&Effect> =
        cells.iter().filter(|c| c.standard_error > 0.0 && c.standard_error.is_finite()).collect();
    if cells.is_empty() {
        return None;
    }
    let weigh = |between: f64| -> (f64, f64) {
        let weights: Vec<f64> =
            cells.iter().map(|c| 1.0 / (c.standard_error.powi(2) + between)).collect();
        let sum: f64 = weights.iter().sum();
        (cells.iter().zip(&weights).map(|(c, w)| c.estimate * w).sum::<f64>() / sum, sum)
    };
    let (fixed, sum) = weigh(0.0);
    let q: f64 = cells.iter().map(|c| ((c.estimate - fixed) / c.standard_error).powi(2)).sum();
    let squares: f64 = cells.iter().map(|c| c.standard_error.powi(-4)).sum();
    let df = cells.len() as f64 - 1.0;
    let scale = sum - squares / sum;
    let between = if scale > 0.0 { ((q - df) / scale).max(0.0) } else { 0.0 };
    let (estimate, sum) = weigh(between);
    let around = |half: f64| (estimate - half, estimate + half);
    let prediction = (cells.len() > 2)
        .then(|| around(t_quantile(0.975, df - 1.0) * (between + 1.0 / sum).sqrt()));
    Some(Pooled {
        estimate,
        interval: around(normal_quantile(0.975) / sum.sqrt()),
        prediction,
        between,
        heterogeneity: if q > df { (q - df) / q } else { 0.0 },
        p_same: if df > 0.0 { chi_squared_tail(q, df) } else { 1.0 },
    })
}

/// Are the effects suspiciously often on one side? Sign test over all rows (or over A/A
/// comparisons, where a small value means that the place in the schedule favours one side). Zeros
/// count for neither.
pub fn one_sidedness(effects: &[f64]) -> f64 {
    let up = effects.iter().filter(|&&e| e > 0.0).count() as u64;
    let down = effects.iter().filter(|&&e| e < 0.0).count() as u64;
    sign_test(up, up + down)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrections_are_those_counted_by_hand() {
        let p = [0.01, 0.04, 0.03, 0.005];
        let close = |x: &[f64], y: &[f64]| x.iter().zip(y).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(close(&holm(&p), &[0.03, 0.06, 0.06, 0.02]), "{:?}", holm(&p));
        // scipy.stats.false_discovery_control
        assert!(close(&benjamini_hochberg(&p), &[0.02, 0.04, 0.04, 0.02]));
        assert!(holm(&[]).is_empty() && benjamini_hochberg(&[]).is_empty());
    }

    #[test]
    fn cells_are_pooled_as_dersimonian_and_laird_do() {
        let cell = |(estimate, standard_error): (f64, f64)| Effect { estimate, standard_error };
        let cells: Vec<Effect> =
            [(0.02, 0.01), (0.035, 0.008), (-0.005, 0.012), (0.05, 0.02)].map(cell).into();
        let pooled = pool(&cells).unwrap();
        assert!((pooled.estimate - 0.023065479312020683).abs() < 1e-12);
        assert!((pooled.interval.0 - 0.0028747309191578772).abs() < 1e-9);
        assert!((pooled.between - 0.0002776159147869675).abs() < 1e-12);
        assert!((pooled.heterogeneity - 0.6868581172731854).abs() < 1e-9);
        assert!((pooled.p_same - 0.02249204659508673).abs() < 1e-9);
        assert!((pooled.prediction.unwrap().0 + 0.06122025928904973).abs() < 1e-8);
        assert!(pool(&[]).is_none() && pool(&[cell((0.1, 0.0))]).is_none());
    }

    #[test]
    fn an_index_knows_these_benchmarks_better_than_others() {
        let rows: Vec<Effect> =
            [0.01, 0.05, -0.02].map(|estimate| Effect { estimate, standard_error: 0.003 }).into();
        let index = index(&rows).unwrap();
        assert!((index.estimate - 0.04 / 3.0).abs() < 1e-12 && index.range == (-0.02, 0.05));
        // 1.96 · 0.003 / √3 and t(2) · s / √3.
        assert!((index.fixed.1 - index.estimate - 0.0033947572).abs() < 1e-8);
        assert!((index.sample.unwrap().1 - index.estimate - 0.0872423).abs() < 1e-5, "{index:?}");
    }

    #[test]
    fn eleven_of_twelve_on_one_side_are_suspicious() {
        let mut effects = [0.01; 12];
        effects[0] = -0.01;
        assert!(
            one_sidedness(&effects) < 0.01
                && one_sidedness(&[]) == 1.0
                && one_sidedness(&[0.0; 9]) == 1.0
        );
    }
}
