//! Where instructions begin, and which of them can change the flow of control.
//!
//! Decoding is linear from a given address, as the processor would do it, to the end of the
//! executable section or to the first byte sequence that is no instruction. It gives length, kind and
//! direct target; [`Disassembler`] writes single instructions of x86 as text.

mod aarch64;
mod fingerprint;
mod text;
mod x86;

pub use fingerprint::{Fingerprint, fingerprints};
pub use text::Disassembler;

use aarch64::Aarch64;

use crate::{Arch, Image, ImageAddr};

/// What an instruction does to the flow of control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InstructionKind {
    /// Goes on to the next instruction.
    Other,
    /// Goes to its target or to the next instruction (also `xbegin`, whose target is the abort
    /// handler).
    ConditionalBranch,
    /// Goes to its target, which the instruction states.
    UnconditionalBranch,
    /// Goes to an address from a register or from memory.
    IndirectBranch,
    /// Calls a target that the instruction states.
    Call,
    /// Calls an address from a register or from memory.
    IndirectCall,
    /// Returns from a function or an interrupt.
    Return,
    /// Enters the kernel or a hypervisor and comes back after it.
    Syscall,
    /// Stops or traps: `int3`, `ud2`, `hlt`; `brk`, `hlt`, `udf`.
    Trap,
    /// No instruction of this processor.
    Invalid,
}

impl InstructionKind {
    /// Whether the instruction never goes on to the next one by itself: control after it comes from
    /// elsewhere.
    pub fn ends_straight_line(self) -> bool {
        use InstructionKind::{IndirectBranch, Invalid, Return, Trap, UnconditionalBranch};
        matches!(self, UnconditionalBranch | IndirectBranch | Return | Trap | Invalid)
    }

    /// Whether a taken branch of this kind is recorded by a branch stack.
    pub fn is_transfer(self) -> bool {
        use InstructionKind::{
            Call, ConditionalBranch, IndirectBranch, IndirectCall, Return, Syscall,
            UnconditionalBranch,
        };
        matches!(
            self,
            ConditionalBranch
                | UnconditionalBranch
                | IndirectBranch
                | Call
                | IndirectCall
                | Return
                | Syscall
        )
    }
}

/// One decoded instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// Address of its first byte.
    pub address: ImageAddr,
    /// Length in bytes.
    pub len: u8,
    /// What it does to the flow of control.
    pub kind: InstructionKind,
    /// Where a direct branch or call goes. `None` in relocatable files when only the linker knows.
    pub target: Option<ImageAddr>,
}

/// The instructions of a stretch of code, see [`instructions`].
pub struct Instructions<'i> {
    decoder: Decoder<'i>,
    image: Option<&'i Image>,
}

enum Decoder<'i> {
    X86(Box<x86::X86<'i>>),
    Aarch64(Aarch64<'i>),
    None,
}

/// Decodes from an address to the end of its executable section. An invalid instruction is returned
/// as such and ends the walk. Nothing is returned for addresses without code, and for processors
/// other than x86 and AArch64.
pub fn instructions(image: &Image, from: ImageAddr) -> Instructions<'_> {
    let bytes = image.code_at(from).unwrap_or(&[]);
    let decoder = match image.arch() {
        _ if bytes.is_empty() => Decoder::None,
        Arch::X86_64 => Decoder::X86(Box::new(x86::X86::new(bytes, from, 64))),
        Arch::Other(machine) if machine == object::elf::EM_386.0 => {
            Decoder::X86(Box::new(x86::X86::new(bytes, from, 32)))
        }
        Arch::Aarch64 => Decoder::Aarch64(Aarch64::new(bytes, from)),
        Arch::Other(_) => Decoder::None,
    };
    Instructions { decoder, image: image.is_relocatable().then_some(image) }
}

impl Iterator for Instructions<'_> {
    type Item = Instruction;

    #[inline]
    fn next(&mut self) -> Option<Instruction> {
        let mut instruction = match &mut self.decoder {
            Decoder::X86(decoder) => decoder.next()?,
            Decoder::Aarch64(decoder) => decoder.next()?,
            Decoder::None => return None,
        };
        if instruction.kind == InstructionKind::Invalid {
            self.decoder = Decoder::None;
        }
        if let Some(image) = self.image {
            image.relocate_target(&mut instruction);
        }
        Some(instruction)
    }
}
