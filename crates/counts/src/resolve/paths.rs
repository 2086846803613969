//! Paths: from runtime addresses to image addresses, each kept where the range in its middle is.

use super::{ImageSums, Place, Rules, Spaces, Sums, autofdo_fault, range_ends};
use crate::ledger::{Ledger, Reason};
use crate::model::Path;
use crate::path_table::RuntimePath;
use image::ImageAddr;
use rustc_hash::FxHashMap;

/// Source of the first branch, both ends of the range, target of the second branch.
pub(super) type PathKey = (Option<ImageAddr>, ImageAddr, ImageAddr, Option<ImageAddr>);

impl Sums<'_> {
    /// Adds the paths of one address space. A path is in an image where its range is; ends
    /// elsewhere stay open.
    pub fn add_paths(
        &mut self,
        spaces: Spaces<'_>,
        paths: impl Iterator<Item = (RuntimePath, u64)>,
    ) {
        for (path, count) in paths {
            let (first, last) = (self.place(spaces, path.first), self.place(spaces, path.last));
            let fault =
                if self.rules == Rules::Autofdo { autofdo_fault(first, last) } else { None };
            let (first, last) = match (fault, range_ends(first, last)) {
                (Some(reason), _) | (None, Err(reason)) => {
                    self.ledger.paths.write_off(reason, count);
                    continue;
                }
                (None, Ok(ends)) => ends,
            };
            let inside = |end: Result<Place, Reason>| {
                end.ok().filter(|place| place.image == first.image).map(|place| place.address)
            };
            let from = inside(self.place(spaces, path.from));
            let to = inside(self.place(spaces, path.to));
            if let Some((_, sums)) = self.images.get_mut(&first.image) {
                *sums.paths.entry((from, first.address, last.address, to)).or_default() += count;
            }
        }
    }
}

/// Books the paths of an image and hands out, sorted, those whose range was not refused.
pub(super) fn check(
    sums: &mut ImageSums,
    rules: Rules,
    refused: &FxHashMap<(ImageAddr, ImageAddr), Reason>,
    ledger: &mut Ledger,
) -> Vec<Path> {
    let mut kept = Vec::with_capacity(sums.paths.len());
    for ((from, first, last, to), count) in std::mem::take(&mut sums.paths) {
        match refused.get(&(first, last)) {
            None => {
                ledger.paths.use_up(count);
                kept.push(Path { from, first, last, to, count });
            }
            // As for ranges: an entry that is equal in its source to the next is a repetition of
            // it.
            Some(_) if rules == Rules::Auto && from == Some(last) => {
                ledger.paths.write_off(Reason::DuplicateEntry, count);
            }
            Some(&reason) => ledger.paths.write_off(reason, count),
        }
    }
    kept.sort_unstable();
    kept
}
