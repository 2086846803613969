//! What can a layout be expected to lose because the samples are few?
//!
//! Input: the branches and fall-through ranges of an image, with what of them is of the first half
//! of the samples. A compiler or linker that has a profile lets the more frequent way of each
//! conditional branch fall through, so that only the other way is taken. Each half of the samples
//! says which way that is, and the other half, which knows nothing of it, says how often it goes
//! wrong. Output: the taken branches of both halves under the choice of the other half, less those
//! under their own, as a share of all branches that were taken.
//!
//! Invariant: the expected value is no less than what a layout made from one half loses against the
//! best one: the first of the two numbers has the true mean of a choice that knows half of the
//! samples, and the second is at most the true minimum, since it is fitted to the samples that
//! judge it. A profile of both halves loses less. What the layout does beside (hot and cold parts,
//! the order of functions, inlining) is not in it. Source of the idea: cross-validation (Stone,
//! "Cross-validatory choice and assessment of statistical predictions", J. Royal Statistical
//! Society B 36, 1974). Cost: sorting the ranges, and decoding one instruction per branch source.

use crate::model::{Branch, FallThrough, ImageCounts};
use image::code::{InstructionKind, instructions};
use image::{Image, ImageAddr};
use std::collections::BTreeMap;

/// How often a conditional branch went each way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ways {
    taken: u64,
    passed: u64,
}

impl Ways {
    /// How often it is taken once the way that `known` says is the more frequent falls through.
    /// What `known` has not seen, or as often, stays as it is.
    fn taken_by(self, known: Ways) -> u64 {
        if known.taken > known.passed { self.passed } else { self.taken }
    }

    fn without(self, part: Ways) -> Ways {
        Ways {
            taken: self.taken.saturating_sub(part.taken),
            passed: self.passed.saturating_sub(part.passed),
        }
    }
}

/// The expected loss of a layout made from these counts, as a share of the taken branches; `None`
/// where the halves do not tell ranges apart.
pub fn expected_loss(counts: &ImageCounts, image: &Image) -> Option<f64> {
    let half = &counts.first_half;
    if half.branches.is_empty() || half.fall_throughs.is_empty() {
        return None;
    }
    let ways = ways_of(&counts.branches, &counts.fall_throughs, image);
    let known = ways_of(&half.branches, &half.fall_throughs, image);
    let mut lost = 0u128;
    for (address, &all) in &ways {
        let first = known.get(address).copied().unwrap_or_default();
        let second = all.without(first);
        for (judged, knows) in [(first, second), (second, first)] {
            let own = judged.taken_by(judged);
            lost += u128::from(judged.taken_by(knows).saturating_sub(own));
        }
    }
    share(lost, &counts.branches)
}

/// What the choices that `known` makes lose against those that `truth` makes, judged by `truth`:
/// how much of the gain a profile leaves behind where the truth is known.
pub fn loss_against(known: &ImageCounts, truth: &ImageCounts, image: &Image) -> Option<f64> {
    let best = ways_of(&truth.branches, &truth.fall_throughs, image);
    let found = ways_of(&known.branches, &known.fall_throughs, image);
    let lost = best.iter().map(|(address, ways)| {
        let choice = found.get(address).copied().unwrap_or_default();
        u128::from(ways.taken_by(choice).saturating_sub(ways.taken_by(*ways)))
    });
    share(lost.sum(), &truth.branches)
}

fn share(lost: u128, branches: &[Branch]) -> Option<f64> {
    let inside = branches.iter().filter(|branch| branch.from.is_some());
    let taken: u128 = inside.map(|branch| u128::from(branch.count)).sum();
    (taken > 0).then(|| lost as f64 / taken as f64)
}

/// Both ways of each conditional branch that was taken; one that never was is where it belongs.
fn ways_of(
    branches: &[Branch],
    ranges: &[FallThrough],
    image: &Image,
) -> BTreeMap<ImageAddr, Ways> {
    let mut ways: BTreeMap<ImageAddr, Ways> = BTreeMap::new();
    for branch in branches {
        let Some(from) = branch.from else { continue };
        let sum = &mut ways.entry(from).or_default().taken;
        *sum = sum.saturating_add(branch.count);
    }
    let is_conditional = |address| {
        let first = instructions(image, address).next();
        first.is_some_and(|instruction| instruction.kind == InstructionKind::ConditionalBranch)
    };
    ways.retain(|&address, _| is_conditional(address));
    // A branch is passed by the ranges that have begun and not yet ended where it lies.
    let begun = Sums::of(ranges.iter().map(|range| (range.first, range.count)));
    let ended = Sums::of(ranges.iter().map(|range| (range.last, range.count)));
    for (&address, ways) in &mut ways {
        ways.passed = begun.up_to(address).saturating_sub(ended.up_to(address));
    }
    ways
}

/// Counts by address, added up from the lowest.
struct Sums(Vec<(ImageAddr, u64)>);

impl Sums {
    fn of(counts: impl Iterator<Item = (ImageAddr, u64)>) -> Sums {
        let mut all: Vec<(ImageAddr, u64)> = counts.collect();
        all.sort_unstable();
        let mut sum = 0u64;
        for (_, count) in &mut all {
            sum = sum.saturating_add(*count);
            *count = sum;
        }
        Sums(all)
    }

    /// The sum of what lies at `address` and below.
    fn up_to(&self, address: ImageAddr) -> u64 {
        let end = self.0.partition_point(|&(at, _)| at <= address);
        end.checked_sub(1).and_then(|last| self.0.get(last)).map_or(0, |&(_, sum)| sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_follows_what_is_known_of_it_and_stays_where_nothing_is() {
        let judged = Ways { taken: 30, passed: 70 };
        assert_eq!(judged.taken_by(judged), 30);
        assert_eq!(judged.taken_by(Ways { taken: 3, passed: 2 }), 70);
        assert_eq!(judged.taken_by(Ways { taken: 2, passed: 3 }), 30);
        assert_eq!(judged.taken_by(Ways::default()), 30);
    }

    #[test]
    fn ranges_pass_what_lies_between_their_ends() {
        let at = ImageAddr;
        let ranges = [(10, 20, 5), (12, 12, 100), (15, 40, 7)];
        let begun = Sums::of(ranges.iter().map(|&(first, _, count)| (at(first), count)));
        let ended = Sums::of(ranges.iter().map(|&(_, last, count)| (at(last), count)));
        let passed = |address| begun.up_to(at(address)) - ended.up_to(at(address));
        // The branch at the end of a range is taken, not passed.
        let found = [9, 10, 12, 16, 20, 39, 40].map(passed);
        assert_eq!(found, [0, 5, 5, 12, 7, 7, 0]);
    }
}
