//! What do many comparisons say together, without one of them being right by luck?

use crate::distribution::{chi_squared_tail, normal_quantile, sign_test, t_quantile};
use crate::robust::{mean, variance};
use serde::{Deserialize, Serialize};

/// Holm's (1979) adjusted p-values, in the order given: claiming those under α keeps the chance of any false claim ≤ α.
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

/// Benjamini and Hochberg's (1995) adjusted p-values: claiming those under q keeps the expected share of false claims
/// among all claims ≤ q.
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
    let half =
        normal_quantile(0.975) * effects.iter().map(|e| e.standard_error.powi(2)).sum::<f64>().sqrt() / n;
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

/// DerSimonian and Laird's (1986) mean; prediction interval after Higgins, Thompson and Spiegelhalter (2009), t with
/// k − 2 degrees of freedom. Cells without a positive standard error are left out. `None` when none is left.
pub fn pool(cells: &[Effect]) -> Option<Pooled> {
    let cells: Vec<&Effect> =
        cells.iter().filter(|c| c.standard_error > 0.0 && c.standard_error.is_finite()).collect();
    if cells.is_empty() {
        return None;
    }
    let weigh = |between: f64| -> (f64, f64) {
        let weights: Vec<f64> = cells.iter().map(|c| 1.0 / (c.standard_error.powi(2) + between)).collect();
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
    let prediction =
        (cells.len() > 2).then(|| around(t_quantile(0.975, df - 1.0) * (between + 1.0 / sum).sqrt()));
    Some(Pooled {
        estimate,
        interval: around(normal_quantile(0.975) / sum.sqrt()),
        prediction,
        between,
        heterogeneity: if q > df { (q - df) / q } else { 0.0 },
        p_same: if df > 0.0 { chi_squared_tail(q, df) } else { 1.0 },
    })
}

/// Are the effects suspiciously often on one side? Sign test over all rows (or over A/A comparisons, where a small value
/// means that the place in the schedule favours one side). Zeros count for neither.
pub fn one_sidedness(effects: &[f64]) -> f64 {
    let up = effects.iter().filter(|&&e| e > 0.0).count() as u64;
    let down = effects.iter().filter(|&&e| e < 0.0).count() as u64;
    sign_test(up, up + down)
}
