//! Two numbers per instruction that survive a rebuild: to recognise a block in another build of the
//! program.
//!
//! Addresses that a linker or a neighbour's size decides take no part: direct branch targets,
//! displacements from the instruction pointer, and in files at fixed addresses every constant that
//! is an address of the file. Padding (`nop`) is left out. The numbers are comparable within one
//! version of planish only.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction as Decoded, Mnemonic, OpKind, Register,
};
use rustc_hash::FxHasher;

use super::{Aarch64, InstructionKind};
use crate::{Arch, Image, ImageAddr, ImageKind};

/// What an instruction does, with and without its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// The operation alone.
    pub operation: u64,
    /// The operation with its registers and constants.
    pub with_operands: u64,
}

/// The fingerprints of the instructions that begin in `from..end`. Empty for processors that are
/// not decoded.
pub fn fingerprints(image: &Image, from: ImageAddr, end: ImageAddr) -> Vec<Fingerprint> {
    let bytes = image.code_at(from).unwrap_or(&[]);
    let size = usize::try_from(end.0.saturating_sub(from.0)).unwrap_or(usize::MAX);
    let bytes = bytes.get(..size).unwrap_or(bytes);
    match image.arch() {
        Arch::X86_64 => x86(bytes, from, 64, &fixed_addresses(image)),
        Arch::Other(machine) if machine == object::elf::EM_386.0 => {
            x86(bytes, from, 32, &fixed_addresses(image))
        }
        Arch::Aarch64 => aarch64(bytes, from),
        Arch::Other(_) => Vec::new(),
    }
}

/// The addresses that constants of the code may name: those of a file that lies where it says.
/// Empty for files that can lie anywhere, which name none.
fn fixed_addresses(image: &Image) -> Range<u64> {
    if !matches!(image.kind(), ImageKind::Executable | ImageKind::Kernel) {
        return 0..0;
    }
    let ends = image.segments().iter().map(|s| s.address.0.saturating_add(s.memory_bytes)).max();
    let begins = image.segments().iter().map(|s| s.address.0).filter(|&begin| begin > 0).min();
    begins.unwrap_or(0)..ends.unwrap_or(0)
}

fn x86(bytes: &[u8], from: ImageAddr, bitness: u32, addresses: &Range<u64>) -> Vec<Fingerprint> {
    let mut decoder = Decoder::with_ip(bitness, bytes, from.0, DecoderOptions::NONE);
    let mut list = Vec::new();
    let mut decoded = Decoded::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut decoded);
        if decoded.mnemonic() == Mnemonic::Nop {
            continue;
        }
        // Layout turns conditions around: a branch is a branch.
        let operation = match decoded.flow_control() {
            FlowControl::ConditionalBranch => u64::MAX,
            _ => decoded.mnemonic() as u64,
        };
        let mut hasher = FxHasher::default();
        operation.hash(&mut hasher);
        (decoded.op_count() as u64).hash(&mut hasher);
        for operand in 0..decoded.op_count() {
            let kind = decoded.op_kind(operand);
            match kind {
                OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => {}
                OpKind::FarBranch16 | OpKind::FarBranch32 => {}
                OpKind::Register => (decoded.op_register(operand) as u64).hash(&mut hasher),
                OpKind::Memory => memory(&decoded, &mut hasher, addresses),
                _ => {
                    let constant = decoded.try_immediate(operand).unwrap_or(0);
                    if !addresses.contains(&constant) {
                        constant.hash(&mut hasher);
                    }
                }
            }
        }
        list.push(Fingerprint { operation, with_operands: hasher.finish() });
    }
    list
}

fn memory(decoded: &Decoded, hasher: &mut FxHasher, addresses: &Range<u64>) {
    let base = decoded.memory_base();
    (base as u64, decoded.memory_index() as u64, decoded.memory_index_scale()).hash(hasher);
    // A displacement without a register, or from the instruction pointer, is an address.
    let is_address = matches!(base, Register::RIP | Register::EIP)
        || base == Register::None && decoded.memory_index() == Register::None
        || addresses.contains(&decoded.memory_displacement64());
    if !is_address {
        decoded.memory_displacement64().hash(hasher);
    }
}

/// Masks as in [`super`]'s decoder; `ADR` and `ADRP` hold addresses too.
fn aarch64(bytes: &[u8], from: ImageAddr) -> Vec<Fingerprint> {
    const NOP: u32 = 0xd503_201f;
    let words =
        bytes.chunks_exact(4).filter_map(|chunk| Some(u32::from_le_bytes(chunk.try_into().ok()?)));
    let mut decoder = Aarch64::new(bytes, from);
    let kinds = std::iter::from_fn(|| decoder.next());
    let mut list = Vec::new();
    for (word, instruction) in words.zip(kinds).filter(|(word, _)| *word != NOP) {
        use InstructionKind::{Call, ConditionalBranch, UnconditionalBranch};
        let is_adr = word & 0x1f00_0000 == 0x1000_0000;
        let (operation, with_operands) = match instruction.kind {
            ConditionalBranch => (u32::MAX, word & 0xff00_001f),
            Call | UnconditionalBranch if instruction.target.is_some() => {
                (word >> 26, word & 0xfc00_0000)
            }
            _ if is_adr => (word & 0x9f00_0000, word & 0x9f00_001f),
            _ => (word >> 21, word),
        };
        let (operation, with_operands) = (u64::from(operation), u64::from(with_operands));
        list.push(Fingerprint { operation, with_operands });
    }
    list
}
