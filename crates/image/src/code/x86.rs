//! x86 instructions of 32 and 64 bits, decoded by iced-x86.

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction as Decoded, OpKind};

use super::{Instruction, InstructionKind};
use crate::ImageAddr;

/// Decodes one instruction after the other.
pub(super) struct X86<'b> {
    decoder: Decoder<'b>,
    decoded: Decoded,
}

impl<'b> X86<'b> {
    /// `bitness` is 32 or 64.
    pub(super) fn new(bytes: &'b [u8], from: ImageAddr, bitness: u32) -> X86<'b> {
        let decoder = Decoder::with_ip(bitness, bytes, from.0, DecoderOptions::NONE);
        X86 { decoder, decoded: Decoded::default() }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<Instruction> {
        if !self.decoder.can_decode() {
            return None;
        }
        self.decoder.decode_out(&mut self.decoded);
        let kind = kind(&self.decoded);
        use InstructionKind::{Call, ConditionalBranch, UnconditionalBranch};
        let direct = matches!(kind, Call | ConditionalBranch | UnconditionalBranch)
            && is_near(&self.decoded);
        Some(Instruction {
            address: ImageAddr(self.decoded.ip()),
            // A prefix run of 15 bytes is the longest instruction there is.
            len: self.decoded.len().clamp(1, 15) as u8,
            kind,
            target: direct.then(|| ImageAddr(self.decoded.near_branch_target())),
        })
    }
}

fn is_near(decoded: &Decoded) -> bool {
    matches!(decoded.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64)
}

#[inline]
fn kind(decoded: &Decoded) -> InstructionKind {
    let code = decoded.code();
    match code.flow_control() {
        FlowControl::Next if code == Code::Hlt => InstructionKind::Trap,
        FlowControl::Next => InstructionKind::Other,
        FlowControl::ConditionalBranch => InstructionKind::ConditionalBranch,
        FlowControl::UnconditionalBranch => InstructionKind::UnconditionalBranch,
        FlowControl::IndirectBranch => InstructionKind::IndirectBranch,
        FlowControl::IndirectCall => InstructionKind::IndirectCall,
        FlowControl::Return => InstructionKind::Return,
        FlowControl::Call => call_kind(decoded),
        FlowControl::Interrupt if code == Code::Int_imm8 && decoded.immediate8() == 0x80 => {
            InstructionKind::Syscall
        }
        FlowControl::Interrupt => InstructionKind::Trap,
        FlowControl::XbeginXabortXend if is_near(decoded) => InstructionKind::ConditionalBranch,
        FlowControl::XbeginXabortXend => InstructionKind::Other,
        FlowControl::Exception if code == Code::INVALID => InstructionKind::Invalid,
        FlowControl::Exception => InstructionKind::Trap,
    }
}

/// The decoder calls everything a call that comes back: also `syscall`, `vmcall` and `vmlaunch`.
fn call_kind(decoded: &Decoded) -> InstructionKind {
    let far = matches!(decoded.op0_kind(), OpKind::FarBranch16 | OpKind::FarBranch32);
    if is_near(decoded) || far { InstructionKind::Call } else { InstructionKind::Syscall }
}
