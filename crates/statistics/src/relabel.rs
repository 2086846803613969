//! Which effects do random relabellings of layouts not reject? Exact p-values and intervals from
//! one enumeration.
//!
//! A relabelling turns the difference T(δ) = τ − δ (of levels with B shifted back by δ) into T*(δ)
//! = c − gδ. It counts against "the effect is δ" where |T*(δ)| ≥ |T(δ)|, that is for all δ between
//! the two roots (τ − c)/(1 − g) and (τ + c)/(1 + g), which lie on either side of τ. So each
//! relabelling gives an interval, p(δ) is the share of intervals that hold δ, and the ends of the
//! confidence interval are quantiles of the ends of these: no search, and interval and test never
//! disagree. For matched layouts the roots are means of a subset of the differences and of the rest
//! (Hartigan's typical values, 1969).

use crate::robust::mean;
use random::Random;

/// Up to so many assignments of layouts to variants all are tried.
const ALL: u64 = 200_000;
/// Up to so many matched layouts all sign patterns are tried.
const ALL_SIGNS: usize = 17;

/// The intervals of all relabellings tried.
pub(crate) struct Relabellings {
    lows: Vec<f64>,
    highs: Vec<f64>,
    extreme: usize,
    /// How many of them are as far from 0 whatever the levels are: the labels as they were, and
    /// exactly reversed.
    always: usize,
}

impl Relabellings {
    /// Share of relabellings at least as far from 0 as the labels that were.
    pub(crate) fn p_value(&self) -> f64 {
        self.extreme as f64 / self.lows.len().max(1) as f64
    }

    /// The smallest p-value that so few relabellings can give.
    pub(crate) fn least_p_value(&self) -> f64 {
        self.always as f64 / self.lows.len().max(1) as f64
    }

    /// Is no other relabelling as far from 0 as the labels that were?
    pub(crate) fn is_at_floor(&self) -> bool {
        self.extreme <= self.always
    }

    /// Effects not rejected at `alpha`; `None` when there are too few relabellings to reject any.
    pub(crate) fn interval(&mut self, alpha: f64) -> Option<(f64, f64)> {
        let rank = (alpha * self.lows.len() as f64).floor() as usize;
        if rank >= self.lows.len() {
            return None;
        }
        let low = *self.lows.select_nth_unstable_by(rank, f64::total_cmp).1;
        let high = *self.highs.select_nth_unstable_by(rank, |x, y| y.total_cmp(x)).1;
        (low.is_finite() && high.is_finite()).then_some((low, high))
    }

    fn with_capacity(n: usize) -> Self {
        Relabellings {
            lows: Vec::with_capacity(n),
            highs: Vec::with_capacity(n),
            extreme: 0,
            always: 0,
        }
    }

    fn add(&mut self, one: f64, other: f64, extreme: bool) {
        self.lows.push(one.min(other));
        self.highs.push(one.max(other));
        self.extreme += usize::from(extreme);
        self.always +=
            usize::from(one.min(other) == f64::NEG_INFINITY && one.max(other) == f64::INFINITY);
    }
}

/// Whole numbers around `centre` in place of fractions, 2^40 for the farthest: sums in any order
/// are equal then. Values that were equal only in decimals differ by rounding, so ties are allowed
/// a slack of one unit per addition.
fn whole(values: &[f64], centre: f64) -> (Vec<i64>, f64) {
    let largest = values.iter().fold(0.0f64, |m, v| m.max((v - centre).abs()));
    let scale = if largest > 0.0 { (1u64 << 40) as f64 / largest } else { 0.0 };
    (
        values.iter().map(|v| ((v - centre) * scale).round() as i64).collect(),
        scale.max(f64::MIN_POSITIVE),
    )
}

fn choose(n: u64, k: u64) -> u64 {
    let k = k.min(n - k);
    (1..=k).fold(1u64, |c, i| c.saturating_mul(n - k + i) / i)
}

/// Assignments of the levels `a` and `b` to two groups of these sizes.
pub(crate) fn assignments(a: &[f64], b: &[f64], draws: usize, seed: u64) -> Relabellings {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let (total, k) = (all.len(), a.len());
    let (values, scale) = whole(&all, mean(&all));
    let groups = Groups::new(&values, k, scale);
    if total < 60 && choose(total as u64, k as u64) <= ALL {
        let mut found = Relabellings::with_capacity(choose(total as u64, k as u64) as usize);
        let mut mask: u64 = (1 << k) - 1;
        while mask < 1 << total {
            let (mut sum, mut rest) = (0, mask);
            while rest != 0 {
                sum += values[rest.trailing_zeros() as usize];
                rest &= rest - 1;
            }
            groups.add(&mut found, sum, (mask >> k).count_ones() as usize);
            // The next larger number with as many bits (Gosper).
            let low = mask & mask.wrapping_neg();
            let up = mask + low;
            mask = up | (((mask ^ up) >> 2) / low);
        }
        return found;
    }
    let mut found = Relabellings::with_capacity(draws + 1);
    groups.add(&mut found, groups.own, 0);
    let mut random = Random::new(seed);
    let mut order: Vec<usize> = (0..total).collect();
    for _ in 0..draws {
        for at in 0..k {
            order.swap(at, at + random.below(total - at));
        }
        let sum = order[..k].iter().map(|&i| values[i]).sum();
        groups.add(&mut found, sum, order[..k].iter().filter(|&&i| i >= k).count());
    }
    found
}

/// What all assignments share.
struct Groups {
    all: i64,
    own: i64,
    sizes: (i64, i64),
    scale: f64,
}

impl Groups {
    fn new(values: &[i64], k: usize, scale: f64) -> Groups {
        let own = values.iter().take(k).sum();
        Groups {
            all: values.iter().sum(),
            own,
            sizes: (k as i64, (values.len() - k) as i64),
            scale,
        }
    }

    /// (mean of B − mean of A) × |A||B| for the sum of group A.
    fn difference(&self, sum: i64) -> i64 {
        self.all * self.sizes.0 - sum * (self.sizes.0 + self.sizes.1)
    }

    fn add(&self, found: &mut Relabellings, sum: i64, swapped: usize) {
        let (observed, other) = (self.difference(self.own), self.difference(sum));
        let slack = (self.sizes.0 + self.sizes.1).pow(2);
        let (na, nb) = (self.sizes.0 as f64, self.sizes.1 as f64);
        let unit = 1.0 / (na * nb * self.scale);
        let (tau, c) = (observed as f64 * unit, other as f64 * unit);
        // Each of the `swapped` levels of B now counts for A and the other way round.
        let g = 1.0 - swapped as f64 * (1.0 / na + 1.0 / nb);
        let root = |top: f64, bottom: f64, else_: f64| {
            if bottom.abs() < 1e-9 { else_ } else { top / bottom }
        };
        let (one, other_root) =
            (root(tau - c, 1.0 - g, f64::NEG_INFINITY), root(tau + c, 1.0 + g, f64::INFINITY));
        let (one, other_root) = match (one.is_finite(), other_root.is_finite()) {
            (true, true) => (one, other_root),
            // The labels as they were, or exactly reversed: as far from 0 at every δ.
            _ => (f64::NEG_INFINITY, f64::INFINITY),
        };
        found.add(one, other_root, other.abs() + slack >= observed.abs());
    }
}

/// Signs of the differences of matched layouts.
pub(crate) fn signs(differences: &[f64], draws: usize, seed: u64) -> Relabellings {
    let n = differences.len();
    let (values, scale) = whole(differences, 0.0);
    let sum: i64 = values.iter().sum();
    let mean_of = |part: i64, size: usize| part as f64 / (size as f64 * scale);
    let add = |found: &mut Relabellings, flipped: i64, size: usize| {
        let extreme = (sum - 2 * flipped).abs() + 2 * n as i64 >= sum.abs();
        if size == 0 || size == n {
            found.add(f64::NEG_INFINITY, f64::INFINITY, true);
        } else {
            found.add(mean_of(flipped, size), mean_of(sum - flipped, n - size), extreme);
        }
    };
    if n <= ALL_SIGNS {
        // A pattern and its mirror image count alike, so the last sign stays. Gray code: one sign
        // changes at a time.
        let patterns = 1usize << n.saturating_sub(1);
        let mut found = Relabellings::with_capacity(patterns);
        let (mut flipped, mut size) = (0i64, 0usize);
        let mut is_flipped = vec![false; n];
        for pattern in 1..=patterns {
            add(&mut found, flipped, size);
            let bit = pattern.trailing_zeros() as usize;
            if let (Some(state), Some(value)) = (is_flipped.get_mut(bit), values.get(bit)) {
                (flipped, size) =
                    if *state { (flipped - value, size - 1) } else { (flipped + value, size + 1) };
                *state = !*state;
            }
        }
        return found;
    }
    let mut random = Random::new(seed);
    let mut found = Relabellings::with_capacity(draws + 1);
    add(&mut found, 0, 0);
    for _ in 0..draws {
        let (mut flipped, mut size) = (0, 0);
        for chunk in values.chunks(64) {
            let bits = random.next_bits();
            for (at, value) in chunk.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1) {
                debug_assert!(at < 64);
                flipped += value;
                size += 1;
            }
        }
        add(&mut found, flipped, size);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_and_counting_give_the_same_p_value_at_every_effect() {
        let mut random = Random::new(2);
        for (na, nb) in [(5, 5), (4, 7), (6, 3)] {
            let mut levels = |n: usize| (0..n).map(|_| random.unit()).collect::<Vec<f64>>();
            let (a, b) = (levels(na), levels(nb));
            let found = assignments(&a, &b, 0, 1);
            let d = levels(8);
            let flips = signs(&d, 0, 1);
            for step in -20..20 {
                let shift = f64::from(step) * 0.0503;
                let share = |r: &Relabellings| {
                    let holds = r
                        .lows
                        .iter()
                        .zip(&r.highs)
                        .filter(|(l, h)| **l <= shift && shift <= **h)
                        .count();
                    holds as f64 / r.lows.len() as f64
                };
                let moved: Vec<f64> = b.iter().map(|x| x - shift).collect();
                assert_eq!(share(&found), assignments(&a, &moved, 0, 1).p_value());
                let moved: Vec<f64> = d.iter().map(|x| x - shift).collect();
                assert_eq!(share(&flips), signs(&moved, 0, 1).p_value());
            }
        }
    }

    #[test]
    fn drawn_relabellings_agree_with_all_of_them() {
        let mut random = Random::new(5);
        let a: Vec<f64> = (0..9).map(|_| random.unit()).collect();
        let b: Vec<f64> = (0..9).map(|_| random.unit() + 0.2).collect();
        let mut all = assignments(&a, &b, 0, 1);
        // Eleven values more than what is enumerated, all equal on both sides, only add the same
        // constant.
        let mut drawn = Relabellings::with_capacity(0);
        let (values, scale) = whole(&[a.clone(), b.clone()].concat(), 0.0);
        let groups = Groups::new(&values, 9, scale);
        let mut order: Vec<usize> = (0..18).collect();
        for _ in 0..40_000 {
            random.shuffle(&mut order);
            let sum = order[..9].iter().map(|&i| values[i]).sum();
            groups.add(&mut drawn, sum, order[..9].iter().filter(|&&i| i >= 9).count());
        }
        assert!((all.p_value() - drawn.p_value()).abs() < 0.01);
        let (x, y) = (all.interval(0.05).unwrap(), drawn.interval(0.05).unwrap());
        assert!((x.0 - y.0).abs() < 0.02 && (x.1 - y.1).abs() < 0.02, "{x:?} {y:?}");
    }

    #[test]
    fn with_too_few_layouts_nothing_is_rejected() {
        assert!(signs(&[0.1, 0.2, 0.3, 0.2, 0.1], 0, 1).interval(0.05).is_none());
        assert!(signs(&[0.1, 0.2, 0.3, 0.2, 0.1, 0.2], 0, 1).interval(0.05).is_some());
        assert!(assignments(&[0.1, 0.2, 0.3], &[0.4, 0.5, 0.6], 0, 1).interval(0.05).is_none());
        assert!(
            assignments(&[0.1, 0.2, 0.3, 0.25], &[0.4, 0.5, 0.6, 0.7], 0, 1)
                .interval(0.05)
                .is_some()
        );
        assert!(signs(&[], 9, 1).interval(0.05).is_none());
    }
}
