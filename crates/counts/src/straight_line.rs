//! Whether code can really run straight from one address to another.
//!
//! A fall-through range is what lies between two branch stack entries. If the code in between holds a transfer that is
//! always taken, or decoding from the first address never meets the last, the range cannot have run: an entry is
//! missing or doubled, or the image is another than the recorded one. This replaces any limit on a range's length.

use crate::ledger::Reason;
use image::code::{InstructionKind, instructions};
use image::{Image, ImageAddr};

/// Transfers that the recording's branch filter left out and that therefore may lie inside a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unrecorded {
    /// Calls, direct and indirect.
    pub calls: bool,
    /// Returns.
    pub returns: bool,
    /// Unconditional and indirect jumps.
    pub jumps: bool,
}

impl Unrecorded {
    fn excuses(self, kind: InstructionKind) -> bool {
        match kind {
            InstructionKind::Call | InstructionKind::IndirectCall => self.calls,
            InstructionKind::Return => self.returns,
            InstructionKind::UnconditionalBranch | InstructionKind::IndirectBranch => self.jumps,
            _ => true,
        }
    }
}

/// Longest range in bytes that is decoded; straight-line code beyond it does not occur.
pub const LONGEST_BYTES: u64 = 1 << 20;

/// Checks the ranges `first..=last` for each of `lasts`, which must be sorted; one verdict each.
pub fn check(
    image: &Image,
    first: ImageAddr,
    lasts: &[ImageAddr],
    unrecorded: Unrecorded,
) -> Vec<Result<(), Reason>> {
    let mut verdicts = Vec::with_capacity(lasts.len());
    let mut wanted = lasts.iter().copied().peekable();
    while wanted.next_if(|last| *last < first).is_some() {
        verdicts.push(Err(Reason::Backwards));
    }
    let mut barrier = None;
    for instruction in instructions(image, first) {
        // A range that ended before this instruction, and at none, began or ended inside one.
        while wanted.next_if(|last| *last < instruction.address).is_some() {
            verdicts.push(Err(Reason::NotOnInstruction));
        }
        while wanted.next_if(|last| *last == instruction.address).is_some() {
            verdicts.push(Ok(()));
        }
        if wanted.peek().is_none() {
            return verdicts;
        }
        if instruction.kind == InstructionKind::Invalid {
            break;
        }
        if !unrecorded.excuses(instruction.kind) {
            barrier = Some(Reason::CrossesTransfer);
            break;
        }
        if instruction.address.0.wrapping_sub(first.0) > LONGEST_BYTES {
            barrier = Some(Reason::TooLong);
            break;
        }
    }
    verdicts.extend(wanted.map(|_| Err(barrier.unwrap_or(Reason::NotOnInstruction))));
    verdicts
}
