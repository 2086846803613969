//! Would other recordings have given the same profile? The shards are divided into two halves at
//! random, many times, and each time the halves are compared.
//!
//! Halves of the samples of each recording ([`counts::evidence`]) differ by the chance of sampling alone.
//! Halves of the recordings differ by what hosts and hours do differently, too, so that they tell
//! whether the fleet was looked at long and widely enough. Input: counts of one image in groups of
//! recordings. Output: the overlap of halves, Σ min(share in one, share in the other) over branches or,
//! without them, samples (Arnold and Ryder, PLDI 2001), and the interval that 95 % of the divisions lie
//! in. The whole has twice the recordings of a half, so that its expected overlap with an endless
//! look at the same fleet is (1 + overlap) ÷ 2. Cost: divisions × groups × keys.

use counts::ImageCounts;
use random::Random;
use std::collections::BTreeMap;

/// Groups that recordings are put into.
pub const GROUPS: usize = 16;
/// With fewer groups that have counts nothing is said.
const LEAST_GROUPS: usize = 4;
/// Divisions that are looked at.
const DIVISIONS: usize = 200;

/// How far halves of the recordings agree, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stability {
    /// The overlap of two halves on average.
    pub overlap: f64,
    /// What 2.5 % of the divisions fall below.
    pub low: f64,
    /// What 2.5 % of the divisions exceed.
    pub high: f64,
}

impl Stability {
    /// The expected overlap of all recordings with an endless look at the same fleet.
    pub fn expected(&self) -> f64 {
        (1.0 + self.overlap) / 2.0
    }
}

/// The group of a recording, by its ID.
pub fn group_of(id: &str) -> usize {
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // The hash of a short text says little in its upper bits.
    Random::new(hash).below(GROUPS)
}

/// The counts of an image by their keys: branches, or samples where there are none.
fn keys(counts: &ImageCounts) -> BTreeMap<(u64, u64), u64> {
    const NONE: u64 = u64::MAX;
    let mut keys = BTreeMap::new();
    let mut add = |key, count: u64| {
        let sum: &mut u64 = keys.entry(key).or_default();
        *sum = sum.saturating_add(count);
    };
    if counts.has_branches() {
        for row in &counts.branches {
            add((row.from.map_or(NONE, |at| at.0), row.to.map_or(NONE, |at| at.0)), row.count);
        }
    } else {
        counts.samples.iter().for_each(|row| add((row.address.0, NONE), row.count));
    }
    keys
}

/// How far two sets of counts of an image agree; none where one is empty.
pub fn overlap(one: &ImageCounts, other: &ImageCounts) -> Option<f64> {
    let (one, other) = (keys(one), keys(other));
    let pairs = one.iter().map(|(key, count)| (*count, other.get(key).copied().unwrap_or(0)));
    let sums = [&one, &other].map(|keys| keys.values().map(|count| *count as f64).sum::<f64>());
    agreement(pairs, sums)
}

fn agreement(pairs: impl Iterator<Item = (u64, u64)>, sums: [f64; 2]) -> Option<f64> {
    let [first, second] = sums;
    if first <= 0.0 || second <= 0.0 {
        return None;
    }
    let same: f64 = pairs.map(|(a, b)| (a as f64 / first).min(b as f64 / second)).sum();
    Some(same.clamp(0.0, 1.0))
}

/// How far halves of these groups agree; none where there are too few groups with counts.
pub fn stability(groups: &[ImageCounts]) -> Option<Stability> {
    let groups: Vec<BTreeMap<(u64, u64), u64>> =
        groups.iter().map(keys).filter(|keys| !keys.is_empty()).collect();
    if groups.len() < LEAST_GROUPS {
        return None;
    }
    // A row for each key, with a column for each group.
    let mut rows: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
    for (number, keys) in groups.iter().enumerate() {
        for (key, count) in keys {
            let row = rows.entry(*key).or_insert_with(|| vec![0; groups.len()]);
            if let Some(cell) = row.get_mut(number) {
                *cell = *count;
            }
        }
    }
    let mut random = Random::new(1);
    let mut found: Vec<f64> = (0..DIVISIONS)
        .filter_map(|_| {
            let first = division(groups.len(), &mut random);
            let halves = |row: &Vec<u64>| {
                let mut sums = (0u64, 0u64);
                for (count, is_first) in row.iter().zip(&first) {
                    let sum = if *is_first { &mut sums.0 } else { &mut sums.1 };
                    *sum = sum.saturating_add(*count);
                }
                sums
            };
            let pairs: Vec<(u64, u64)> = rows.values().map(halves).collect();
            let sums = pairs.iter().fold([0.0, 0.0], |[first, second], (a, b)| {
                [first + *a as f64, second + *b as f64]
            });
            agreement(pairs.into_iter(), sums)
        })
        .collect();
    found.sort_by(f64::total_cmp);
    let at = |share: f64| found.get(((found.len() as f64 - 1.0) * share).round() as usize).copied();
    let overlap = found.iter().sum::<f64>() / found.len().max(1) as f64;
    Some(Stability { overlap, low: at(0.025)?, high: at(0.975)? })
}

/// Half of the numbers below `count`, at random.
fn division(count: usize, random: &mut Random) -> Vec<bool> {
    let mut wanted = count / 2;
    (0..count)
        .map(|number| {
            let is_first = random.unit() * ((count - number) as f64) < wanted as f64;
            wanted -= usize::from(is_first);
            is_first
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics fails")]

    use super::*;
    use counts::SampleCount;
    use image::ImageAddr;

    fn counted(list: &[(u64, u64)]) -> ImageCounts {
        let samples = list.iter().map(|&(at, count)| SampleCount { address: ImageAddr(at), count });
        ImageCounts { samples: samples.collect(), ..ImageCounts::default() }
    }

    #[test]
    fn groups_that_do_the_same_agree_wholly_and_others_by_what_they_share() {
        let same = vec![counted(&[(1, 30), (2, 70)]); 8];
        let found = stability(&same).unwrap();
        assert!((found.overlap - 1.0).abs() < 1e-9 && found.low > 0.999 && found.high < 1.001);
        let mut differ = same.clone();
        differ.iter_mut().take(4).for_each(|group| *group = counted(&[(3, 100)]));
        let found = stability(&differ).unwrap();
        assert!(found.low < found.overlap && found.overlap < 0.9 && found.high <= 1.0, "{found:?}");
        assert_eq!(stability(&same[..3]), None, "too few");
        let half = overlap(&counted(&[(1, 1), (2, 1)]), &counted(&[(2, 5)])).unwrap();
        assert!((half - 0.5).abs() < 1e-9);
        assert_eq!(overlap(&counted(&[]), &counted(&[(2, 5)])), None);
    }

    #[test]
    fn a_division_has_half_of_the_groups() {
        let mut random = Random::new(3);
        for count in [4, 7, 16] {
            let firsts = division(count, &mut random).into_iter().filter(|first| *first).count();
            assert_eq!(firsts, count / 2);
        }
        let groups: std::collections::BTreeSet<usize> =
            (0..200).map(|number| group_of(&format!("id{number}"))).collect();
        assert_eq!(groups.len(), GROUPS);
    }
}
