//! AArch64 instructions: four bytes each, told apart by the masks of the architecture manual (Arm
//! DDI 0487, C4.1 "A64 instruction set encoding", branches, exception generating and system
//! instructions).
//!
//! Instructions are little-endian even in big-endian images.

use super::{Instruction, InstructionKind};
use crate::ImageAddr;

/// Decodes one instruction after the other.
pub(super) struct Aarch64<'b> {
    bytes: &'b [u8],
    address: u64,
}

impl<'b> Aarch64<'b> {
    pub(super) fn new(bytes: &'b [u8], from: ImageAddr) -> Aarch64<'b> {
        Aarch64 { bytes, address: from.0 }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<Instruction> {
        let address = self.address;
        let invalid = |len: usize| Instruction {
            address: ImageAddr(address),
            len: len.min(4) as u8,
            kind: InstructionKind::Invalid,
            target: None,
        };
        if self.bytes.is_empty() {
            return None;
        }
        let Some((word, rest)) = self.bytes.split_first_chunk::<4>() else {
            return Some(invalid(self.bytes.len()));
        };
        if !address.is_multiple_of(4) {
            return Some(invalid(4 - (address % 4) as usize));
        }
        let (kind, displacement) = classify(u32::from_le_bytes(*word));
        self.bytes = rest;
        self.address = address.wrapping_add(4);
        let target = displacement.map(|bytes| ImageAddr(address.wrapping_add_signed(bytes)));
        Some(Instruction { address: ImageAddr(address), len: 4, kind, target })
    }
}

/// The kind of an instruction word, and how far its direct target is away in bytes.
fn classify(word: u32) -> (InstructionKind, Option<i64>) {
    use InstructionKind as Kind;
    match word >> 24 {
        0x14..=0x17 => (Kind::UnconditionalBranch, Some(displacement(word, 0, 26))),
        0x94..=0x97 => (Kind::Call, Some(displacement(word, 0, 26))),
        // B.cond and BC.cond.
        0x54 => (Kind::ConditionalBranch, Some(displacement(word, 5, 19))),
        // CBZ and CBNZ, 32 and 64 bits.
        0x34 | 0x35 | 0xb4 | 0xb5 => (Kind::ConditionalBranch, Some(displacement(word, 5, 19))),
        // TBZ and TBNZ.
        0x36 | 0x37 | 0xb6 | 0xb7 => (Kind::ConditionalBranch, Some(displacement(word, 5, 14))),
        // CB with two registers, a byte, a halfword or an immediate (FEAT_CMPBR).
        0x74 | 0x75 | 0xf4 | 0xf5 => (Kind::ConditionalBranch, Some(displacement(word, 5, 9))),
        // RETAASPPC and RETABSPPC with an immediate (FEAT_PAuth_LR).
        0x55 if word & 0x00c0_001f == 0x1f => (Kind::Return, None),
        0xd6 | 0xd7 => (register_branch(word), None),
        0xd4 => (exception(word), None),
        0x00 if word & 0xffff_0000 == 0 => (Kind::Trap, None),
        _ => (Kind::Other, None),
    }
}

/// Branches through a register; `opc` is bits 24 to 21. Plain and pointer-authenticated forms
/// differ elsewhere.
fn register_branch(word: u32) -> InstructionKind {
    match word >> 21 & 15 {
        0b0000 | 0b1000 => InstructionKind::IndirectBranch,
        0b0001 | 0b1001 => InstructionKind::IndirectCall,
        // RET; ERET and DRPS return from exceptions.
        0b0010 | 0b0100 | 0b0101 => InstructionKind::Return,
        _ => InstructionKind::Other,
    }
}

/// SVC, HVC and SMC; BRK and HLT.
fn exception(word: u32) -> InstructionKind {
    match (word >> 21 & 7, word & 31) {
        (0, 1..=3) => InstructionKind::Syscall,
        (1 | 2, 0) => InstructionKind::Trap,
        _ => InstructionKind::Other,
    }
}

/// A signed field of `bits` bits at `shift`, counted in instructions, as bytes.
fn displacement(word: u32, shift: u32, bits: u32) -> i64 {
    let field = word << (32 - shift - bits);
    i64::from(field as i32 >> (32 - bits)) * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: u32, kind: InstructionKind, target: Option<u64>) {
        let bytes = word.to_le_bytes();
        let instruction = Aarch64::new(&bytes, ImageAddr(0x1000)).next().unwrap();
        assert_eq!(
            (instruction.kind, instruction.target, instruction.len),
            (kind, target.map(ImageAddr), 4),
            "{word:#x}"
        );
    }

    #[test]
    fn branches_are_told_apart_and_find_their_targets() {
        use InstructionKind as Kind;
        check(0x1400_0002, Kind::UnconditionalBranch, Some(0x1008));
        check(0x17ff_ffff, Kind::UnconditionalBranch, Some(0x0ffc));
        check(0x9400_0010, Kind::Call, Some(0x1040));
        check(0x5400_0040, Kind::ConditionalBranch, Some(0x1008)); // b.eq
        check(0xb4ff_ffe0, Kind::ConditionalBranch, Some(0x0ffc)); // cbz x0
        check(0x3700_0040, Kind::ConditionalBranch, Some(0x1008)); // tbnz w0, #0
        check(0xd61f_0200, Kind::IndirectBranch, None); // br x16
        check(0xd71f_0a11, Kind::IndirectBranch, None); // braa x16, x17
        check(0xd63f_0000, Kind::IndirectCall, None); // blr x0
        check(0xd73f_0801, Kind::IndirectCall, None); // blraa x0, x1
        check(0xd65f_03c0, Kind::Return, None); // ret
        check(0xd65f_0bff, Kind::Return, None); // retaa
        check(0xd69f_03e0, Kind::Return, None); // eret
    }

    #[test]
    fn exceptions_are_told_apart() {
        use InstructionKind as Kind;
        check(0xd400_0001, Kind::Syscall, None); // svc #0
        check(0xd400_0002, Kind::Syscall, None); // hvc #0
        check(0xd420_0000, Kind::Trap, None); // brk #0
        check(0x0000_0000, Kind::Trap, None); // udf #0
        check(0xd503_201f, Kind::Other, None); // nop
        check(0x9100_03fd, Kind::Other, None); // mov x29, sp
    }

    #[test]
    fn a_misaligned_or_cut_instruction_is_invalid() {
        assert_eq!(
            Aarch64::new(&[0; 8], ImageAddr(2)).next().unwrap().kind,
            InstructionKind::Invalid
        );
        assert_eq!(
            Aarch64::new(&[0; 3], ImageAddr(4)).next().unwrap().kind,
            InstructionKind::Invalid
        );
        assert_eq!(Aarch64::new(&[], ImageAddr(4)).next(), None);
    }
}
