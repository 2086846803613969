//! How do two variants differ on average over random code layouts? Layout means, and the test and
//! interval on them.
//!
//! A change of a program also moves code it does not touch, and where code lies costs or saves a
//! percent or two. One pair of binaries therefore shows effect plus luck. Relinking both variants
//! in L random orders turns luck into noise with L replicates:
//!
//! u(v,l) = μ(v) + λ(v,l) + ε, where λ has standard deviation σ_L and ε that of a mean over rounds.
//!
//! * **Independent** layouts: τ = mean u(B) − mean u(A); SE² = s²(A)/L(A) + s²(B)/L(B), Welch's
//!   degrees of freedom; p from assigning the layout means to the variants anew (all ways when at
//!   most 200,000, else drawn).
//! * **Matched** layouts (the same order for both): D(l) = u(B,l) − u(A,l); τ = mean D, SE =
//!   s(D)/√L, L − 1 degrees of freedom; p from flipping the signs of D (all patterns up to L = 17).
//!
//! Both tests are exact when the variants have the same law, whatever that law is, and the
//! intervals hold exactly the effects that the same test does not reject (`relabel`).
//!
//! So few layouts have few relabellings: 8 matched ones cannot go below p = 2/2⁸ however large the
//! effect, and after a correction for seven rows nothing could be claimed. Where no other
//! relabelling is as far from 0 as the labels that were, p is therefore the smaller one of that
//! floor and Student's t (matched) or Welch's (independent). Above the floor the answer is that of
//! the exact test alone; below it, it errs no more often than t, which for two variants of one law,
//! of whatever shape, is right or conservative (`measurements/2026-11-22-compare-rows.md`). It is
//! wrong where the layouts move the two variants by different laws, which a claim below the floor
//! has to say.
//!
//! Where layouts are too few for the test to reject anything (under 4 independent, under 6
//! matched), the interval is t's and nothing is claimed. The layout is the unit: more rounds make
//! each u sharper, only more layouts make τ certain. Intervals from resampling rounds alone would
//! cover 17 to 66 %.

use crate::Observation;
use crate::distribution::{t_quantile, t_two_sided};
use crate::relabel::{self, Relabellings};
use crate::robust::{mean, median, running_median, trimmed_mean, variance};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Two-sided error of the claims planned for.
pub const ALPHA: f64 = 0.05;
/// Share cut from each end of a binary's runs before its mean: a fifth, which Wilcox ("Introduction
/// to Robust Estimation and Hypothesis Testing") recommends.
pub const LAYOUT_TRIM: f64 = 0.2;
/// No p-value is told as smaller: levels without any spread make t infinite.
const SMALLEST_P: f64 = 1e-12;

/// Layouts of each variant without which nothing is decided: fewer have no randomisation p-value
/// under 5 % for a single comparison, be it by the 2^L signs of matched or by the C(2L, L)
/// assignments of independent ones.
pub const fn least_layouts(matched: bool) -> usize {
    if matched { 6 } else { 4 }
}

/// The effect averaged over layouts, on the log scale: ln(B) − ln(A).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Averaged {
    /// τ: mean difference.
    pub estimate: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
    /// Lower end of the 90 % interval, the one for equivalence.
    pub low90: f64,
    /// Upper end of the 90 % interval.
    pub high90: f64,
    /// p-value at the level of layouts, two-sided: of the relabellings, or of t where that is
    /// smaller and the relabellings are at their floor.
    pub p_value: f64,
    /// That floor: the smallest p-value that relabelling so few layouts can give.
    pub least_p_value: f64,
    /// Layouts per variant (the smaller number where they differ).
    pub layouts: usize,
    /// True when layout l of A and layout l of B have the same order.
    pub matched: bool,
    /// Standard error of the estimate.
    pub standard_error: f64,
    /// Degrees of freedom of the intervals.
    pub df: f64,
    /// Half-width of the band in which 95 % of the differences between two links of the same code
    /// fall: t·s·√2 with the pooled standard deviation s of the layout levels.
    pub relink_band: f64,
}

/// The runs in time order, each binary brought to the level 0 by its own median.
pub fn levelled(observations: &[Observation]) -> Vec<f64> {
    let mut logs = BTreeMap::<(usize, u32), Vec<f64>>::new();
    for o in observations {
        logs.entry((o.variant, o.layout)).or_default().push(o.log);
    }
    let level: BTreeMap<(usize, u32), f64> =
        logs.into_iter().map(|(key, mut logs)| (key, median(&mut logs))).collect();
    let own = |o: &Observation| level.get(&(o.variant, o.layout)).copied().unwrap_or(0.0);
    observations.iter().map(|o| o.log - own(o)).collect()
}

/// Levelled runs by round.
pub(crate) fn levelled_rounds(observations: &[Observation]) -> BTreeMap<u32, Vec<f64>> {
    let mut rounds = BTreeMap::<u32, Vec<f64>>::new();
    for (o, x) in observations.iter().zip(levelled(observations)) {
        rounds.entry(o.round).or_default().push(x);
    }
    rounds
}

/// The level of every binary, cleaned of what the machine did meanwhile.
#[derive(Clone, Debug, Default)]
pub struct LayoutMeans {
    means: BTreeMap<(usize, u32), f64>,
    cleaned: BTreeMap<(usize, u32), Vec<(u32, f64)>>,
}

impl LayoutMeans {
    /// From observations in time order. Every binary is treated alike; which variant it is of plays
    /// no part.
    ///
    /// Each binary is first brought to a common level by its own median, so that neither the
    /// running median nor the centre of a round depends on which binaries happened to be near;
    /// then both are taken from the runs as they were.
    pub fn new(observations: &[Observation]) -> Self {
        let levelled = levelled(observations);
        let baseline = running_median(&levelled);
        let mut rounds = BTreeMap::<u32, Vec<f64>>::new();
        for (o, (x, b)) in observations.iter().zip(levelled.iter().zip(&baseline)) {
            rounds.entry(o.round).or_default().push(x - b);
        }
        let centre: BTreeMap<u32, f64> =
            rounds.into_iter().map(|(round, mut values)| (round, median(&mut values))).collect();
        let mut cleaned = BTreeMap::<(usize, u32), Vec<(u32, f64)>>::new();
        for (o, b) in observations.iter().zip(&baseline) {
            let value = o.log - b - centre.get(&o.round).copied().unwrap_or(0.0);
            cleaned.entry((o.variant, o.layout)).or_default().push((o.round, value));
        }
        let of = |runs: &Vec<(u32, f64)>| {
            trimmed_mean(&mut runs.iter().map(|run| run.1).collect::<Vec<f64>>(), LAYOUT_TRIM)
        };
        LayoutMeans { means: cleaned.iter().map(|(&key, runs)| (key, of(runs))).collect(), cleaned }
    }

    /// Levels of one variant's layouts (the as-built binary is none): number and ln value.
    pub fn of(&self, variant: usize) -> Vec<(u32, f64)> {
        let range = self.means.range((variant, 1)..=(variant, u32::MAX));
        range.map(|(&(_, layout), &u)| (layout, u)).collect()
    }

    /// The cleaned runs of each binary as (round, ln value): for pictures, and for the noise of the
    /// means.
    pub fn cleaned(&self) -> &BTreeMap<(usize, u32), Vec<(u32, f64)>> {
        &self.cleaned
    }

    /// Level of every binary, as (variant, layout).
    pub fn levels(&self) -> BTreeMap<(usize, u32), f64> {
        self.means.clone()
    }

    /// The runs in time order with each binary's level taken away: the machine's own course.
    pub fn in_time(&self, observations: &[Observation]) -> Vec<f64> {
        let level =
            |o: &Observation| self.means.get(&(o.variant, o.layout)).copied().unwrap_or(0.0);
        observations.iter().map(|o| o.log - level(o)).collect()
    }

    /// Layouts that both variants have: number, ln level of A, ln level of B.
    pub fn pairs(&self, a: usize, b: usize) -> Vec<(u32, f64, f64)> {
        let of_b: BTreeMap<u32, f64> = self.of(b).into_iter().collect();
        self.of(a).into_iter().filter_map(|(l, u)| of_b.get(&l).map(|&w| (l, u, w))).collect()
    }

    /// B against A averaged over layouts. `None` with fewer than two layouts of either.
    ///
    /// `draws` and `seed` serve where there are too many assignments to try all.
    pub fn compare(
        &self,
        a: usize,
        b: usize,
        matched: bool,
        draws: usize,
        seed: u64,
    ) -> Option<Averaged> {
        if matched {
            let (x, y): (Vec<f64>, Vec<f64>) =
                self.pairs(a, b).into_iter().map(|(_, x, y)| (x, y)).unzip();
            return (x.len() >= 2).then(|| matched_effect(&x, &y, draws, seed));
        }
        let values = |v| self.of(v).into_iter().map(|(_, u)| u).collect::<Vec<f64>>();
        let (x, y) = (values(a), values(b));
        (x.len() >= 2 && y.len() >= 2).then(|| independent_effect(&x, &y, draws, seed))
    }
}

/// Effect from the levels of independent layouts of A and of B (two each at least).
pub fn independent_effect(a: &[f64], b: &[f64], draws: usize, seed: u64) -> Averaged {
    let (na, nb) = (a.len() as f64, b.len() as f64);
    // In an order of their own, so that sums are equal to the last bit however the layouts are
    // numbered.
    let sorted = |levels: &[f64]| {
        let mut levels = levels.to_vec();
        levels.sort_unstable_by(f64::total_cmp);
        levels
    };
    let (own_a, own_b) = (sorted(a), sorted(b));
    let (va, vb) = (variance(&own_a) / na, variance(&own_b) / nb);
    // Welch and Satterthwaite; equal to 2L − 2 where both spread alike.
    let spread = va * va / (na - 1.0) + vb * vb / (nb - 1.0);
    let df = if spread > 0.0 { (va + vb).powi(2) / spread } else { na + nb - 2.0 };
    let labels = relabel::assignments(a, b, draws, seed);
    let effect =
        around(mean(&own_b) - mean(&own_a), (va + vb).sqrt(), df, a.len().min(b.len()), labels);
    Averaged { relink_band: relink_band(a, b), ..effect }
}

/// Effect from the levels of matched layouts: `a[i]` and `b[i]` have the same order (two at least).
pub fn matched_effect(a: &[f64], b: &[f64], draws: usize, seed: u64) -> Averaged {
    let differences: Vec<f64> = a.iter().zip(b).map(|(x, y)| y - x).collect();
    let n = differences.len();
    let labels = relabel::signs(&differences, draws, seed);
    // By size, which neither another numbering nor an exchange of the variants changes.
    let mut sorted = differences;
    sorted.sort_unstable_by(|x, y| x.abs().total_cmp(&y.abs()).then(x.total_cmp(y)));
    let error = (variance(&sorted) / n as f64).sqrt();
    let effect = around(mean(&sorted), error, n as f64 - 1.0, n, labels);
    Averaged { matched: true, relink_band: relink_band(a, b), ..effect }
}

fn around(
    estimate: f64,
    error: f64,
    df: f64,
    layouts: usize,
    mut labels: Relabellings,
) -> Averaged {
    let mut interval = |level: f64| {
        let half = t_quantile((1.0 + level) / 2.0, df) * error;
        labels.interval(1.0 - level).unwrap_or((estimate - half, estimate + half))
    };
    let ((low, high), (low90, high90)) = (interval(0.95), interval(0.90));
    let relabelled = labels.p_value();
    // Layouts too few for any claim (`least_layouts`) get none by t either.
    let p_value = match labels.is_at_floor() && relabelled < ALPHA {
        true => relabelled.min(t_two_sided(estimate / error, df).max(SMALLEST_P)),
        false => relabelled,
    };
    Averaged {
        estimate,
        low,
        high,
        low90,
        high90,
        p_value,
        least_p_value: labels.least_p_value(),
        layouts,
        matched: false,
        standard_error: error,
        df,
        relink_band: 0.0,
    }
}

fn relink_band(a: &[f64], b: &[f64]) -> f64 {
    let (fa, fb) = (a.len() as f64 - 1.0, b.len() as f64 - 1.0);
    let pooled = (variance(a) * fa + variance(b) * fb) / (fa + fb).max(1.0);
    t_quantile(0.975, fa + fb) * (2.0 * pooled).sqrt()
}

#[cfg(test)]
#[path = "layouts_tests.rs"]
mod tests;
