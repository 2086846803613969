//! Which fall-through ranges can have run, by the rules and by the code.

use super::{ImageSums, Rules};
use crate::ledger::{Ledger, Reason};
use crate::model::FallThrough;
use crate::straight_line::{self, Unrecorded};
use image::{Image, ImageAddr};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Ranges that could have run, sorted, and why the others could not.
pub(super) struct Checked {
    pub kept: Vec<FallThrough>,
    pub refused: FxHashMap<(ImageAddr, ImageAddr), Reason>,
}

/// Checks the ranges of an image and books them.
pub(super) fn check_ranges(
    image: &Image,
    sums: &mut ImageSums,
    rules: Rules,
    unrecorded: Unrecorded,
    ledger: &mut Ledger,
) -> Checked {
    let mut by_first: BTreeMap<ImageAddr, Vec<(ImageAddr, u64, u64)>> = BTreeMap::new();
    for (&(first, last), &(count, doubled)) in &sums.ranges {
        by_first.entry(first).or_default().push((last, count, doubled));
    }
    let mut kept = Vec::with_capacity(sums.ranges.len());
    let mut refused = FxHashMap::default();
    for (first, mut lasts) in by_first {
        lasts.sort_unstable();
        let addresses: Vec<ImageAddr> = lasts.iter().map(|l| l.0).collect();
        let verdicts = match rules {
            Rules::Auto => straight_line::check(image, first, &addresses, unrecorded),
            Rules::Profgen => straight_line::check(image, first, &addresses, Unrecorded::default()),
            Rules::Autofdo | Rules::None => addresses
                .iter()
                .map(|&last| if last < first { Err(Reason::Backwards) } else { Ok(()) })
                .collect(),
        };
        for ((last, count, doubled), verdict) in lasts.into_iter().zip(verdicts) {
            if let Err(reason) = verdict {
                refused.insert((first, last), reason);
            }
            match verdict {
                Ok(()) => {
                    ledger.fall_throughs.use_up(count);
                    kept.push(FallThrough { first, last, count });
                }
                Err(reason) if rules == Rules::Auto => {
                    ledger.fall_throughs.write_off(reason, count - doubled);
                    ledger.fall_throughs.write_off(Reason::DuplicateEntry, doubled);
                    drop_doubled(sums, last, first, doubled, ledger);
                }
                Err(reason) => ledger.fall_throughs.write_off(reason, count),
            }
        }
    }
    Checked { kept, refused }
}

/// Takes back the branches of doubled entries: the branch goes from the range's end to its
/// beginning.
fn drop_doubled(
    sums: &mut ImageSums,
    from: ImageAddr,
    to: ImageAddr,
    doubled: u64,
    ledger: &mut Ledger,
) {
    if doubled == 0 {
        return;
    }
    let key = (Some(from), Some(to));
    if let Some(sum) = sums.branches.get_mut(&key) {
        sum.0 = sum.0.saturating_sub(doubled);
        sum.1 = sum.1.min(sum.0);
        ledger.branches.revoke(Reason::DuplicateEntry, doubled);
        if sum.0 == 0 {
            sums.branches.remove(&key);
        }
    }
}
