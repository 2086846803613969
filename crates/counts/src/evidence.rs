//! Are the samples enough for a profile or a layout?
//!
//! Input: the counts of an image, with what of them is of the first half of the samples. The two
//! halves are two recordings of the same run: what they disagree about is chance. Their agreement
//! is the **overlap** of Arnold and Ryder (PLDI 2001), Σ min(share in one half, share in the
//! other), over branches, or over functions where there are no branch stacks; what `llvm-profdata
//! overlap` calls similarity of edges is the same sum. The whole recording has twice the samples of
//! a half, so that its expected overlap with an endless recording is (1 + overlap) ÷ 2: the two
//! halves are √2 times as far from each other as either is from the truth, the whole 1 ÷ √2 times
//! as far as a half. How well that holds, and where the limits come from, stands in
//! `docs/reference/numbers.md`. Cost: one walk over the counts.

use crate::model::{Branch, ImageCounts, SampleCount};
use image::{Image, ImageAddr};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// With fewer samples the share of a function that takes 1 % of the time is known to no better than
/// ± 31 % of itself.
pub const LEAST_SAMPLES: u64 = 1000;

/// Halves that overlap less leave more than a twentieth of the profile to chance.
pub const LEAST_OVERLAP: f64 = 0.9;

/// What a profile or a layout of an image rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Samples in the image; 0 where executions were counted one by one.
    pub samples: u64,
    /// Whether they are branch stacks.
    pub branch_stacks: bool,
    /// Executions of branches seen in the image.
    pub executions: u64,
    /// The fewest functions that hold 90 % of what was seen.
    pub functions_90: u64,
    /// The same for 99 %.
    pub functions_99: u64,
    /// How far the two halves of the samples agree, 0 to 1; absent where the counts are not told
    /// apart by halves.
    pub split_half_overlap: Option<f64>,
    /// How far the whole can be expected to agree with an endless recording of the same work.
    pub expected_overlap: Option<f64>,
    /// The taken branches that a layout is expected to lose at most because there are not more
    /// samples, as a share of all; absent where the halves do not tell ([`crate::loss`]).
    pub expected_loss: Option<f64>,
    /// False where there are too few samples; absent where that is unknown.
    pub enough: Option<bool>,
    /// How many times as many samples are needed; 1 where there are enough.
    pub times_more: Option<u64>,
}

impl Evidence {
    /// What the counts of `image` rest on.
    pub fn of(counts: &ImageCounts, image: &Image) -> Evidence {
        let functions = |count: &mut dyn Iterator<Item = (Option<ImageAddr>, u64)>| {
            let mut sums: BTreeMap<Option<u64>, u64> = BTreeMap::new();
            for (address, count) in count {
                let function = address.and_then(|address| image.functions().find(address));
                let sum = sums.entry(function.map(|f| f.address.0)).or_default();
                *sum = sum.saturating_add(count);
            }
            sums
        };
        let sampled =
            |list: &[SampleCount]| functions(&mut list.iter().map(|s| (Some(s.address), s.count)));
        let branch_stacks = counts.has_branches();
        let mut hot = if branch_stacks {
            functions(&mut counts.branches.iter().map(|b| (b.from, b.count)))
        } else {
            sampled(&counts.samples)
        };
        let half = &counts.first_half;
        let split_half_overlap = if branch_stacks {
            overlap_of_halves(&half.branches, &counts.branches, |b: &Branch| {
                ((b.from, b.to), b.count)
            })
        } else {
            let (half, whole) = (sampled(&half.samples), sampled(&counts.samples));
            let pairs = |sums: BTreeMap<Option<u64>, u64>| sums.into_iter().collect::<Vec<_>>();
            overlap_of_halves(&pairs(half), &pairs(whole), |pair| *pair)
        };
        hot.remove(&None);
        let narrow = |sum: u128| u64::try_from(sum).unwrap_or(u64::MAX);
        let samples = narrow(counts.sample_total());
        let (enough, times_more) = judged(samples, split_half_overlap);
        Evidence {
            samples,
            branch_stacks,
            executions: narrow(counts.branch_total()),
            functions_90: holding(&hot, 90),
            functions_99: holding(&hot, 99),
            split_half_overlap,
            expected_overlap: split_half_overlap.map(|overlap| (1.0 + overlap) / 2.0),
            expected_loss: crate::loss::expected_loss(counts, image),
            enough,
            times_more,
        }
    }

    /// All of it on one line.
    pub fn line(&self) -> String {
        let what = match (self.samples, self.branch_stacks) {
            (0, _) => format!("{} executions of branches", self.executions),
            (samples, true) => {
                format!("{samples} branch stacks, {} executions of branches", self.executions)
            }
            (samples, false) => format!("{samples} samples without branch stacks"),
        };
        // So few have no halves to speak of.
        let told = self.samples == 0 || self.samples >= LEAST_SAMPLES;
        let overlap = self.split_half_overlap.filter(|_| told);
        let overlap = overlap.map_or_else(String::new, |overlap| {
            format!("; the halves of the samples overlap by {:.1} %", 100.0 * overlap)
        });
        let enough = match self.enough {
            Some(true) => ": enough",
            Some(false) => ": too few",
            None => "",
        };
        let (most, nearly) = (self.functions_90, self.functions_99);
        let most = if most == 1 {
            "1 function holds".to_owned()
        } else {
            format!("{most} functions hold")
        };
        let loss = self.expected_loss.filter(|_| told).map_or_else(String::new, |loss| {
            format!(
                ", and a layout made from them loses under {} of the taken branches",
                below(loss)
            )
        });
        format!("{what}; {most} 90 % of them, {nearly} 99 %{overlap}{loss}{enough}")
    }

    /// What too few samples mean, and what to do about them.
    pub fn warning(&self) -> Option<String> {
        if self.enough != Some(false) {
            return None;
        }
        let times = self.times_more.unwrap_or(2);
        let why = match self.expected_overlap {
            Some(expected)
                if self.samples >= LEAST_SAMPLES || expected < (1.0 + LEAST_OVERLAP) / 2.0 =>
            {
                format!(
                    "about {:.0} % of the weight is expected to stand in wrong places",
                    100.0 * (1.0 - expected)
                )
            }
            _ => format!(
                "below {LEAST_SAMPLES} samples, what takes 1 % of the time is known to no better \
                 than ± {:.0} %, or not seen",
                100.0 * (0.99 / (0.01 * self.samples.max(1) as f64)).sqrt()
            ),
        };
        Some(format!(
            "too few samples: {why}, so part of the gain is left to chance; record about {times} \
             times as many: let the program run longer or more often, take more training, a \
             larger --budget (software branch stacks, up to 100%), a shorter period, or \
             --branches=emulated for a short run"
        ))
    }
}

/// The next tenth of a percent above a share.
pub fn below(share: f64) -> String {
    format!("{:.1} %", ((share * 1000.0).floor() + 1.0) / 10.0)
}

/// Whether the samples are enough, and how many times as many are needed. What halves disagree
/// about falls with the root of the number of samples.
fn judged(samples: u64, overlap: Option<f64>) -> (Option<bool>, Option<u64>) {
    let by_samples = LEAST_SAMPLES.div_ceil(samples.max(1));
    let by_overlap =
        overlap.map_or(1.0, |overlap| ((1.0 - overlap) / (1.0 - LEAST_OVERLAP)).powi(2).ceil());
    match (samples, overlap) {
        (0, _) => (None, None),
        (few, None) if few >= LEAST_SAMPLES => (None, None),
        _ => {
            let times = by_samples.max(by_overlap as u64).max(1);
            (Some(times == 1), Some(times))
        }
    }
}

/// The fewest entries that hold so many percent of the sum.
fn holding(sums: &BTreeMap<Option<u64>, u64>, percent: u128) -> u64 {
    let mut counts: Vec<u64> = sums.values().copied().collect();
    counts.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
    let whole: u128 = counts.iter().map(|&count| u128::from(count)).sum();
    let mut held = 0u128;
    let needed = counts.iter().take_while(|&&count| {
        let more = held * 100 < whole * percent;
        held += u128::from(count);
        more
    });
    needed.count() as u64
}

/// The overlap of the first half of sorted counts with the rest; `None` where one of the two is
/// empty.
fn overlap_of_halves<T, K: Ord>(
    half: &[T],
    whole: &[T],
    of: impl Fn(&T) -> (K, u64),
) -> Option<f64> {
    let sum = |list: &[T]| list.iter().map(|entry| u128::from(of(entry).1)).sum::<u128>();
    let first = sum(half);
    let second = sum(whole).checked_sub(first).filter(|&second| second > 0 && first > 0)?;
    let mut halves = half.iter().map(&of).peekable();
    let shares = whole.iter().map(|entry| {
        let (key, count) = of(entry);
        while halves.next_if(|(own, _)| *own < key).is_some() {}
        let own = halves.next_if(|(own, _)| *own == key).map_or(0, |(_, count)| count);
        (own as f64 / first as f64).min(count.saturating_sub(own) as f64 / second as f64)
    });
    Some(shares.sum::<f64>().clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_that_are_alike_overlap_wholly_and_others_by_what_they_share() {
        let overlap = |half: &[(u32, u64)], whole: &[(u32, u64)]| {
            overlap_of_halves(half, whole, |pair| *pair)
        };
        assert_eq!(overlap(&[(1, 5), (2, 1)], &[(1, 10), (2, 2)]), Some(1.0));
        assert_eq!(overlap(&[(1, 5)], &[(1, 5), (2, 5)]), Some(0.0));
        assert_eq!(overlap(&[(1, 4), (3, 4)], &[(1, 6), (2, 2), (3, 4)]), Some(0.5));
        assert_eq!(overlap(&[], &[(1, 6)]), None);
        assert_eq!(overlap(&[(1, 6)], &[(1, 6)]), None);
    }

    #[test]
    fn few_samples_are_told_with_what_is_needed_and_many_are_not() {
        for (samples, overlap, expected) in [
            (0, None, (None, None)),
            (5_000, None, (None, None)),
            (34, None, (Some(false), Some(30))),
            (224, Some(0.99), (Some(false), Some(5))),
            (2_000, Some(0.8), (Some(false), Some(4))),
            (20_000, Some(0.95), (Some(true), Some(1))),
        ] {
            assert_eq!(judged(samples, overlap), expected, "{samples} {overlap:?}");
        }
    }

    #[test]
    fn the_functions_that_hold_most_are_the_fewest() {
        let sums = [(Some(1), 90), (Some(2), 8), (Some(3), 1), (Some(4), 1)].into();
        assert_eq!(
            (holding(&sums, 90), holding(&sums, 99), holding(&BTreeMap::new(), 90)),
            (1, 3, 0)
        );
    }
}
