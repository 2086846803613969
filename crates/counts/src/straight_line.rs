//! Whether code can really run straight from one address to another.
//!
//! A fall-through range is what lies between two branch stack entries. If the code in between holds
//! a transfer that is always taken, or decoding from the first address never meets the last, the
//! range cannot have run: an entry is missing or doubled, or the image is another than the recorded
//! one. This replaces any limit on a range's length.
//!
//! Where a kernel rewrites its own code ([`Image::patched_code`]) the file does not tell what was
//! executed: there every address may be an instruction, and nothing is known to be a transfer.

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

/// The first instruction at or behind `first` that can transfer control; `None` where decoding
/// meets none.
pub fn next_transfer(image: &Image, first: ImageAddr) -> Option<ImageAddr> {
    let near = |address: ImageAddr| address.0.wrapping_sub(first.0) <= LONGEST_BYTES;
    instructions(image, first)
        .take_while(|instruction| {
            near(instruction.address) && instruction.kind != InstructionKind::Invalid
        })
        .find(|instruction| instruction.kind != InstructionKind::Other)
        .map(|instruction| instruction.address)
}

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
    let sites = image.patched_code();
    let rewritten = |address: ImageAddr| {
        let after = sites.partition_point(|site| site.end <= address);
        sites.get(after).filter(|site| site.contains(&address))
    };
    // What is jumped to within rewritten code is no instruction of the file; what follows it is.
    let begin = rewritten(first).filter(|site| site.start < first).map_or(first, |site| site.end);
    for instruction in instructions(image, begin) {
        // A range that ended before this instruction, and at none, began or ended inside one.
        while let Some(last) = wanted.next_if(|last| *last < instruction.address) {
            verdicts.push(rewritten(last).map(|_| ()).ok_or(Reason::NotOnInstruction));
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
        if !unrecorded.excuses(instruction.kind) && rewritten(instruction.address).is_none() {
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
