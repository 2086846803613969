//! How are recordings of different commands given the weights that they shall have?
//!
//! How many stacks a command gives depends on chance as far as a profile is concerned: on its
//! branches per second under emulation, on what a stop costs with software stacks. What it shall
//! weigh is known beforehand. Each recording is therefore multiplied by a whole number, so that
//! counts stay exact and none falls away. Output: the smallest numbers that bring each share within
//! [`PRECISION`] of what is wanted. Cost: a walk over the recordings per trial.

use crate::error::Error;
use crate::model::{Counts, ImageCounts};

/// How far a factor may be from what is wanted, as a share of itself: less than the time that a
/// command takes is known to.
pub const PRECISION: f64 = 0.01;

/// Largest number by which the recording with the smallest factor is multiplied: √(1 ÷ PRECISION)
/// is often enough, half of 1 ÷ PRECISION always is.
const MOST: u64 = 50;

/// No factor is larger: a sum of 2^32 counts then still has 2^11 to grow.
const LARGEST: f64 = (1u64 << 21) as f64;

/// What a recording shall weigh, and what it weighs as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weight {
    /// Wanted, in any unit that is the same for all recordings; 0 or less counts as nothing wanted.
    pub wanted: f64,
    /// Branch stack entries recorded, wherever they lie; samples where there are no stacks.
    pub recorded: u64,
}

/// The whole number that each recording is multiplied by. A recording of nothing, or one of which
/// nothing is wanted, gets 1 or 0.
pub fn factors(weights: &[Weight]) -> Vec<u64> {
    let ratio = |weight: &Weight| {
        let usable = weight.wanted.is_finite() && weight.wanted > 0.0 && weight.recorded > 0;
        usable.then(|| weight.wanted / weight.recorded as f64)
    };
    let least = weights.iter().filter_map(ratio).fold(f64::INFINITY, f64::min);
    let factor = |weight: &Weight, times: u64| match ratio(weight) {
        Some(ratio) => times as f64 * (ratio / least),
        None if weight.recorded == 0 => 1.0,
        None => 0.0,
    };
    let close = |times: &u64| {
        weights.iter().all(|weight| {
            let exact = factor(weight, *times);
            (exact.round() - exact).abs() <= PRECISION * exact
        })
    };
    let times = (1..=MOST).find(close).unwrap_or(MOST);
    weights.iter().map(|weight| factor(weight, times).round().min(LARGEST) as u64).collect()
}

impl Counts {
    /// The entries of branch stacks that were recorded, used or not; samples where there are none:
    /// what [`Weight::recorded`] wants.
    pub fn recorded(&self) -> u64 {
        let branches = self.ledger.branches.entered;
        if branches > 0 { branches } else { self.ledger.samples.entered }
    }

    /// Everything `factor` times. The ledger stays what was recorded, and so does the number of
    /// samples where there are branch stacks: it says how much is known, not how much it weighs.
    ///
    /// # Errors
    /// Where a count leaves the range of 64 bits.
    pub fn times(mut self, factor: u64) -> Result<Counts, Error> {
        if factor == 0 {
            self.images.clear();
        }
        for image in &mut self.images {
            if times(image, factor).is_none() {
                return Err(Error::Overflow { place: format!("{} times {factor}", image.path) });
            }
        }
        Ok(self)
    }
}

/// `None` where a count gets too large.
fn times(image: &mut ImageCounts, factor: u64) -> Option<()> {
    let stacks = image.has_branches();
    let half = &mut image.first_half;
    let mut all: Vec<&mut u64> = Vec::new();
    for branch in image.branches.iter_mut().chain(&mut half.branches) {
        all.extend([&mut branch.count, &mut branch.mispredicted]);
    }
    let ranges = image.fall_throughs.iter_mut().chain(&mut half.fall_throughs);
    all.extend(ranges.map(|range| &mut range.count));
    all.extend(image.paths.iter_mut().map(|path| &mut path.count));
    let samples = image.samples.iter_mut().chain(&mut half.samples);
    all.extend(samples.filter(|_| !stacks).map(|sample| &mut sample.count));
    for count in all {
        *count = count.checked_mul(factor)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Branch, FallThrough, SampleCount};
    use image::ImageAddr;

    fn of(weights: &[(f64, u64)]) -> Vec<u64> {
        let weight = |&(wanted, recorded)| Weight { wanted, recorded };
        factors(&weights.iter().map(weight).collect::<Vec<_>>())
    }

    #[test]
    fn factors_are_the_smallest_that_give_each_recording_its_weight() {
        assert_eq!(of(&[(3.0, 500)]), [1]);
        // Alike per second: nothing is multiplied.
        assert_eq!(of(&[(1.0, 1000), (10.0, 10_050)]), [1, 1]);
        // As long, but with a third of the branches.
        assert_eq!(of(&[(1.0, 3000), (1.0, 1000)]), [1, 3]);
        assert_eq!(of(&[(1.0, 2000), (1.5, 1000)]), [1, 3]);
        assert_eq!(of(&[(2.0, 3000), (1.0, 1000)]), [2, 3]);
        assert_eq!(of(&[(1.0, 0), (1.0, 1000), (0.0, 77)]), [1, 1, 0]);
        assert_eq!(of(&[]), [0u64; 0]);
    }

    proptest::proptest! {
        #[test]
        fn shares_come_within_the_precision(
            weights in proptest::collection::vec((0.01f64..100.0, 1u64..1_000_000), 1..6),
        ) {
            let found = of(&weights);
            let sum: f64 = weights.iter().map(|weight| weight.0).sum();
            let got: Vec<f64> =
                weights.iter().zip(&found).map(|(w, &k)| w.1 as f64 * k as f64).collect();
            let all: f64 = got.iter().sum();
            proptest::prop_assume!(found.iter().all(|&k| k < LARGEST as u64));
            for (weight, got) in weights.iter().zip(got) {
                let (wanted, got) = (weight.0 / sum, got / all);
                proptest::prop_assert!((got / wanted - 1.0).abs() < 2.5 * PRECISION);
            }
        }
    }

    #[test]
    fn everything_is_multiplied_but_what_says_how_much_is_known() {
        let (from, to) = (Some(ImageAddr(1)), Some(ImageAddr(9)));
        let branch = Branch { from, to, count: 5, mispredicted: 2 };
        let range = FallThrough { first: ImageAddr(9), last: ImageAddr(12), count: 4 };
        let sample = SampleCount { address: ImageAddr(9), count: 3 };
        let mut image = ImageCounts {
            samples: vec![sample],
            branches: vec![branch],
            fall_throughs: vec![range],
            ..ImageCounts::default()
        };
        image.first_half.branches = vec![branch];
        let counts =
            |image: &ImageCounts| Counts { images: vec![image.clone()], ..Counts::default() };
        let tripled = counts(&image).times(3).unwrap().images.remove(0);
        assert_eq!(tripled.branches, [Branch { count: 15, mispredicted: 6, ..branch }]);
        assert_eq!(tripled.first_half.branches, tripled.branches);
        assert_eq!(tripled.fall_throughs, [FallThrough { count: 12, ..range }]);
        assert_eq!(tripled.samples, [sample]);
        image.branches.clear();
        image.fall_throughs.clear();
        let plain = counts(&image).times(3).unwrap().images.remove(0);
        assert_eq!(plain.samples, [SampleCount { count: 9, ..sample }]);
        assert!(counts(&image).times(u64::MAX).is_err());
        assert!(counts(&image).times(0).unwrap().images.is_empty());
    }
}
