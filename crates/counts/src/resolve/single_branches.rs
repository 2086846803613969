//! Ranges of branches that stand alone, as Arm SPE records them.

use super::{Place, Rules, Spaces, Sums, autofdo_fault};
use crate::straight_line;
use perfdata::RuntimeAddr;

impl Sums<'_> {
    /// Adds fall-through ranges of one address space: first address, last address, count.
    pub fn add_ranges(
        &mut self,
        spaces: Spaces<'_>,
        ranges: impl Iterator<Item = (RuntimeAddr, RuntimeAddr, u64)>,
    ) {
        for (first, last, count) in ranges {
            let (first, last) = (self.place(spaces, first), self.place(spaces, last));
            match autofdo_fault(first, last).filter(|_| self.rules == Rules::Autofdo) {
                Some(fault) => self.ledger.fall_throughs.write_off(fault, count),
                None => self.add_range(first, last, count, false),
            }
        }
    }

    /// Adds what is known to have run behind the targets of branches: from the target to the first
    /// instruction that can transfer control. A target outside the images counted gives
    /// nothing; its branch is in the books already.
    pub fn add_targets(
        &mut self,
        spaces: Spaces<'_>,
        targets: impl Iterator<Item = (RuntimeAddr, u64)>,
    ) {
        for (target, count) in targets {
            let Ok(first) = self.place(spaces, target) else { continue };
            let last = self
                .images
                .get(&first.image)
                .and_then(|(image, _)| straight_line::next_transfer(image, first.address));
            let Some(address) = last else { continue };
            self.add_range(Ok(first), Ok(Place { address, ..first }), count, false);
            self.ledger.spe.inferred_ranges = self.ledger.spe.inferred_ranges.saturating_add(count);
        }
    }
}
