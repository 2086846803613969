//! What of the counts is of the first half of the samples?

use super::{Place, Sums};
use crate::binding::ImageId;
use crate::ledger::Reason;
use crate::model::{Branch, FirstHalf, SampleCount};
use image::ImageAddr;
use rustc_hash::FxHashMap;

/// Sums of one image in the first half of the samples.
#[derive(Default)]
pub(super) struct HalfSums {
    pub samples: FxHashMap<ImageAddr, u64>,
    branches: FxHashMap<(Option<ImageAddr>, Option<ImageAddr>), u64>,
}

impl HalfSums {
    /// Adds the sums of another collector.
    pub(super) fn add(&mut self, other: HalfSums) {
        other.samples.into_iter().for_each(|(k, n)| *self.samples.entry(k).or_default() += n);
        other.branches.into_iter().for_each(|(k, n)| *self.branches.entry(k).or_default() += n);
    }

    /// The share of what was counted. A doubled entry that was taken back may be of either half;
    /// what is left of its branch bounds it.
    pub(super) fn of(self, samples: &[SampleCount], branches: &[Branch]) -> FirstHalf {
        let of = |whole: u64, half: Option<&u64>| {
            half.map(|&half| half.min(whole)).filter(|&count| count > 0)
        };
        let sample = |s: &SampleCount| {
            Some(SampleCount { count: of(s.count, self.samples.get(&s.address))?, ..*s })
        };
        let branch = |b: &Branch| {
            let count = of(b.count, self.branches.get(&(b.from, b.to)))?;
            Some(Branch { count, mispredicted: 0, ..*b })
        };
        FirstHalf {
            samples: samples.iter().filter_map(sample).collect(),
            branches: branches.iter().filter_map(branch).collect(),
        }
    }
}

impl Sums<'_> {
    /// Notes branches of the first half; those that turn out not to be counted fall away in the
    /// end.
    pub(super) fn add_half(
        &mut self,
        from: Result<Place, Reason>,
        to: Result<Place, Reason>,
        count: u64,
    ) {
        let mut note = |image: ImageId, ends| {
            if let Some((_, sums)) = self.images.get_mut(&image) {
                *sums.first_half.branches.entry(ends).or_default() += count;
            }
        };
        match (from, to) {
            (Ok(f), Ok(t)) if f.image == t.image => {
                note(f.image, (Some(f.address), Some(t.address)))
            }
            (f, t) => {
                f.into_iter().for_each(|f| note(f.image, (Some(f.address), None)));
                t.into_iter().for_each(|t| note(t.image, (None, Some(t.address))));
            }
        }
    }
}
