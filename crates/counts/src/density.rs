//! How often was each byte of the code that matters executed, as far as the samples saw? The density of
//! a profile, by which LLVM's tools judge whether there are enough samples.
//!
//! Input: the fall-through ranges of an image. Output: executed bytes for each byte of a function,
//! sampled, and the smallest of these numbers among the densest functions that hold 99 % of all
//! executed bytes. `perf2bolt` warns below 60 ([`BOLT_LEAST`]), `llvm-profgen` below 50 of its own
//! unit, executions for each line. Source: LLVM pull requests 92144 and 101094. Cost: a walk over the
//! ranges.

use crate::model::ImageCounts;
use image::Image;
use std::collections::BTreeMap;

/// Below this, `perf2bolt` says that more samples would make the program faster.
pub const BOLT_LEAST: f64 = 60.0;
/// Below this, Perforator advises more recordings (its guide to continuous profile-guided optimization).
pub const PERFORATOR_LEAST: f64 = 1.0;
/// Executed bytes, in percent, that lie in functions which are looked at.
const HOLDING: u128 = 99;

/// The density of the counts; `None` where there are no ranges in functions.
pub fn density(counts: &ImageCounts, image: &Image) -> Option<f64> {
    // By the function's address: its size, and the bytes of it that were executed.
    let mut functions: BTreeMap<u64, (u64, u128)> = BTreeMap::new();
    for range in &counts.fall_throughs {
        let Some(function) = image.functions().find(range.first) else { continue };
        let bytes = range.last.0.saturating_sub(range.first.0).saturating_add(1);
        let sum = functions.entry(function.address.0).or_insert((function.size.max(1), 0));
        sum.1 = sum.1.saturating_add(u128::from(bytes) * u128::from(range.count));
    }
    let whole: u128 = functions.values().map(|(_, bytes)| bytes).sum();
    let mut dense: Vec<(f64, u128)> =
        functions.values().map(|(size, bytes)| (*bytes as f64 / *size as f64, *bytes)).collect();
    dense.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut held = 0u128;
    dense.into_iter().find_map(|(density, bytes)| {
        held += bytes;
        (held * 100 >= whole * HOLDING).then_some(density)
    })
}

/// Branches that were recorded, for each byte of an image's code; `None` where there are none, or no code. Perforator, which
/// calls it `TakenBranchesToExecutableBytesRatio`, asks for [`PERFORATOR_LEAST`].
pub fn branches_per_byte(counts: &ImageCounts, image: &Image) -> Option<f64> {
    let code = image.sections().iter().filter(|section| section.is_executable());
    let bytes: u64 = code.map(|section| section.size).fold(0, u64::saturating_add);
    (counts.has_branches() && bytes > 0).then(|| counts.branch_total() as f64 / bytes as f64)
}
