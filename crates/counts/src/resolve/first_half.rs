//! What of the counts is of the first half of the samples?

use super::{Place, Sums};
use crate::binding::ImageId;
use crate::ledger::Reason;
use crate::model::{Branch, FallThrough, FirstHalf, SampleCount};
use image::ImageAddr;
use rustc_hash::FxHashMap;

/// Sums of one image in the first half of the samples.
#[derive(Default)]
pub(super) struct HalfSums {
    pub samples: FxHashMap<ImageAddr, u64>,
    branches: FxHashMap<(Option<ImageAddr>, Option<ImageAddr>), u64>,
    ranges: FxHashMap<(ImageAddr, ImageAddr), u64>,
}

impl HalfSums {
    /// Adds the sums of another collector.
    pub(super) fn add(&mut self, other: HalfSums) {
        other.samples.into_iter().for_each(|(k, n)| *self.samples.entry(k).or_default() += n);
        other.branches.into_iter().for_each(|(k, n)| *self.branches.entry(k).or_default() += n);
        other.ranges.into_iter().for_each(|(k, n)| *self.ranges.entry(k).or_default() += n);
    }

    /// The share of what was counted. A doubled entry that was taken back may be of either half;
    /// what is left of its branch bounds it.
    pub(super) fn of(
        self,
        samples: &[SampleCount],
        branches: &[Branch],
        ranges: &[FallThrough],
    ) -> FirstHalf {
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
        let range = |r: &FallThrough| {
            Some(FallThrough { count: of(r.count, self.ranges.get(&(r.first, r.last)))?, ..*r })
        };
        FirstHalf {
            fall_throughs: ranges.iter().filter_map(range).collect(),
            samples: samples.iter().filter_map(sample).collect(),
            branches: branches.iter().filter_map(branch).collect(),
        }
    }
}

impl Sums<'_> {
    /// Notes a branch of the first half, and where the next one left; what turns out not to be
    /// counted falls away in the end.
    pub(super) fn add_half(
        &mut self,
        from: Result<Place, Reason>,
        to: Result<Place, Reason>,
        next: Option<Result<Place, Reason>>,
        count: u64,
    ) {
        if let (Ok(first), Some(Ok(last))) = (to, next)
            && first.image == last.image
            && let Some((_, sums)) = self.images.get_mut(&first.image)
        {
            *sums.first_half.ranges.entry((first.address, last.address)).or_default() += count;
        }
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
