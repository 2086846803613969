//! What a translation block's last instruction can do: where it may go, and what counts as a taken
//! branch.

use crate::api::{Api, Insn, Tb};
use crate::chain::Flow;
use crate::lru::Hint;
use std::sync::atomic::{AtomicBool, Ordering};

/// Guest architectures whose branches the plugin knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guest {
    X86_64,
    Aarch64,
}

/// No address: the block before decides nothing (start of a thread, or the block did not end in a
/// branch).
pub const NOWHERE: u64 = u64::MAX - 1;
/// Any address: an indirect branch or a return.
pub const ANYWHERE: u64 = u64::MAX;

/// How a block ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Straight on to the next address (also system calls: what they do is not a branch of the
    /// program).
    Sequential,
    /// Straight on, or to the target.
    Conditional(u64),
    /// Always to the target.
    Direct(u64),
    /// Always somewhere.
    Indirect,
}

/// How the run came from one block to another that is not the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// By a branch.
    Taken,
    /// The straight line goes on: a repeated string instruction, which qemu runs as a loop of
    /// blocks; or an instruction across a page's end, which qemu shows as the last of one block
    /// and runs as the first of the next. Either way the first block counted it.
    Straight,
    /// A signal, a fault, a system call that does not return: no branch of the program.
    Interrupted,
}

/// One translation block, as the callback before it gets it. One cache line each.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Block {
    /// Address of the first instruction.
    pub start: u64,
    /// Start of the block that follows without a branch; [`NOWHERE`] when the block always ends in
    /// a branch, so that a jump to the very next address counts as the branch it is.
    pub next: u64,
    /// Address of the last instruction.
    pub last: u64,
    /// Where a taken branch leads: an address, [`ANYWHERE`] or [`NOWHERE`].
    pub target: u64,
    /// Address of the last instruction's last byte.
    pub last_byte: u64,
    /// Instructions in the block.
    pub instructions: u32,
    /// 1 when the block ends in a branch.
    pub branches: u8,
    /// 1 when it ends in a conditional branch.
    pub conditionals: u8,
    /// Whether it ends in a call or a return.
    pub flow: Flow,
    /// The block is where a signal handler begins.
    pub handler: AtomicBool,
    /// Where its first two lines and its page were in the caches that hold them (see
    /// [`crate::metrics`]).
    pub line_hints: [Hint; 2],
    pub page_hint: Hint,
}

/// The block before the first one.
pub static NO_BLOCK: Block = Block {
    start: NOWHERE,
    next: NOWHERE,
    last: NOWHERE,
    target: NOWHERE,
    last_byte: NOWHERE,
    instructions: 0,
    branches: 0,
    conditionals: 0,
    flow: Flow::Neither,
    handler: AtomicBool::new(false),
    line_hints: [const { Hint::none() }; 2],
    page_hint: Hint::none(),
};

impl Block {
    /// Describes the block from `start` whose last instruction is `bytes` at `last`.
    pub fn new(guest: Guest, start: u64, last: u64, bytes: &[u8], instructions: u32) -> Block {
        let end = last.wrapping_add(bytes.len() as u64);
        let ending = match guest {
            Guest::X86_64 => x86_ending(bytes, end),
            Guest::Aarch64 => aarch64_ending(bytes, last),
        };
        let (next, target) = match ending {
            Ending::Sequential => (end, NOWHERE),
            Ending::Conditional(target) => (end, target),
            Ending::Direct(target) => (NOWHERE, target),
            Ending::Indirect => (NOWHERE, ANYWHERE),
        };
        Block {
            start,
            next,
            last,
            target,
            last_byte: end.wrapping_sub(1),
            instructions,
            branches: u8::from(ending != Ending::Sequential),
            conditionals: u8::from(matches!(ending, Ending::Conditional(_))),
            flow: match guest {
                Guest::X86_64 => x86_flow(bytes),
                Guest::Aarch64 => aarch64_flow(bytes),
            },
            handler: AtomicBool::new(false),
            line_hints: [const { Hint::none() }; 2],
            page_hint: Hint::none(),
        }
    }

    /// How the run came from this block to one that does not begin at [`Block::next`].
    #[inline(always)]
    pub fn transfer_to(&self, block: &Block) -> Transfer {
        if self.target == block.start || self.target == ANYWHERE && self.could_lead_to(block) {
            Transfer::Taken
        } else if block.start == self.last {
            Transfer::Straight
        } else {
            Transfer::Interrupted
        }
    }

    /// True when an indirect branch can have led from this block to the other, and not an
    /// interruption: a signal handler entered, or the block broken off and resumed in its
    /// middle.
    #[inline(always)]
    fn could_lead_to(&self, block: &Block) -> bool {
        let in_the_middle = self.start < block.start && block.start <= self.last;
        !in_the_middle && !block.handler.load(Ordering::Relaxed)
    }

    /// True when both describe the same instructions, so that one description serves both.
    pub fn same(&self, other: &Block) -> bool {
        (self.start, self.next, self.last, self.target, self.last_byte, self.instructions)
            == (
                other.start,
                other.next,
                other.last,
                other.target,
                other.last_byte,
                other.instructions,
            )
    }
}

/// Sign-extends a relative operand of one or four bytes.
fn relative(bytes: &[u8]) -> Option<u64> {
    match bytes {
        [one] => Some(*one as i8 as u64),
        [a, b, c, d] => Some(i32::from_le_bytes([*a, *b, *c, *d]) as u64),
        _ => None,
    }
}

fn x86_without_prefixes(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    while let [
        0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3,
        tail @ ..,
    ] = rest
    {
        rest = tail;
    }
    rest
}

/// Whether an x86-64 instruction calls or returns.
fn x86_flow(bytes: &[u8]) -> Flow {
    match x86_without_prefixes(bytes) {
        [0xe8, ..] => Flow::Call,
        [0xff, modrm, ..] if matches!((modrm >> 3) & 7, 2 | 3) => Flow::Call,
        [0xc2 | 0xc3 | 0xca | 0xcb, ..] => Flow::Return,
        _ => Flow::Neither,
    }
}

/// Whether an AArch64 instruction calls or returns (BL, BLR, RET and those that authenticate).
fn aarch64_flow(bytes: &[u8]) -> Flow {
    let [a, b, c, d] = *bytes else { return Flow::Neither };
    let word = u32::from_le_bytes([a, b, c, d]);
    match (word & 0xfe00_0000, (word >> 21) & 7) {
        _ if word & 0xfc00_0000 == 0x9400_0000 => Flow::Call,
        (0xd600_0000, 1) => Flow::Call,
        (0xd600_0000, 2) => Flow::Return,
        _ => Flow::Neither,
    }
}

/// Classifies an x86-64 instruction that ends at `end` (Intel SDM volume 2, appendix A).
pub fn x86_ending(bytes: &[u8], end: u64) -> Ending {
    let rest = x86_without_prefixes(bytes);
    let to = |operand: &[u8], make: fn(u64) -> Ending| match relative(operand) {
        Some(distance) => make(end.wrapping_add(distance)),
        // An operand of 16 bits (prefix 66) means different things to different CPUs; no compiler
        // emits it.
        None => Ending::Sequential,
    };
    match rest {
        [0x70..=0x7f | 0xe0..=0xe3, operand @ ..] => to(operand, Ending::Conditional),
        [0x0f, 0x80..=0x8f, operand @ ..] => to(operand, Ending::Conditional),
        [0xe8 | 0xe9 | 0xeb, operand @ ..] => to(operand, Ending::Direct),
        [0xc2 | 0xc3 | 0xca | 0xcb, ..] => Ending::Indirect,
        [0xff, modrm, ..] if matches!((modrm >> 3) & 7, 2..=5) => Ending::Indirect,
        _ => Ending::Sequential,
    }
}

/// Classifies an AArch64 instruction at `address` (Arm ARM C4.1, branches and exception
/// generating).
pub(crate) fn aarch64_ending(bytes: &[u8], address: u64) -> Ending {
    let [a, b, c, d] = *bytes else { return Ending::Sequential };
    let word = u32::from_le_bytes([a, b, c, d]);
    // Shifts the field's top bit to bit 31 and back, which sign-extends it; the result counts
    // bytes.
    let target = |shift_left: u32, shift_right: u32| {
        let words = ((word << shift_left) as i32) >> shift_right;
        address.wrapping_add((i64::from(words) * 4) as u64)
    };
    if word & 0x7c00_0000 == 0x1400_0000 {
        Ending::Direct(target(6, 6))
    } else if word & 0xff00_0000 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000 {
        Ending::Conditional(target(8, 13))
    } else if word & 0x7e00_0000 == 0x3600_0000 {
        Ending::Conditional(target(13, 18))
    } else if word & 0xfe00_0000 == 0xd600_0000 {
        Ending::Indirect
    } else {
        Ending::Sequential
    }
}

/// The block being translated, and where its first instruction lies in this process.
///
/// # Safety
/// `tb` must be the block that qemu called a translation callback with, during that call.
pub unsafe fn describe(api: &Api, guest: Guest, tb: *mut Tb) -> Option<(Block, Option<u64>)> {
    // SAFETY: the contract of this function; the block's instructions live as long as the callback,
    // and an instruction's bytes are `insn_len` long.
    unsafe {
        let count = (api.tb_instructions)(tb);
        let last_index = count.checked_sub(1)?;
        let (first, last): (*mut Insn, *mut Insn) =
            ((api.tb_instruction)(tb, 0), (api.tb_instruction)(tb, last_index));
        let start = (api.tb_address)(tb);
        let bytes = std::slice::from_raw_parts((api.insn_bytes)(last), (api.insn_len)(last));
        let block = Block::new(guest, start, (api.insn_address)(last), bytes, count as u32);
        let host = (api.insn_host)(first);
        Some((block, (!host.is_null()).then_some(host as u64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x86_branches_are_told_apart_with_their_targets() {
        let ending = |bytes: &[u8]| x86_ending(bytes, 0x1000);
        assert_eq!(ending(&[0x74, 0xfe]), Ending::Conditional(0xffe));
        assert_eq!(ending(&[0x0f, 0x85, 0x10, 0, 0, 0]), Ending::Conditional(0x1010));
        assert_eq!(ending(&[0x2e, 0x75, 0x02]), Ending::Conditional(0x1002));
        assert_eq!(ending(&[0xeb, 0x00]), Ending::Direct(0x1000));
        assert_eq!(ending(&[0xe8, 0xf0, 0xff, 0xff, 0xff]), Ending::Direct(0xff0));
        assert_eq!(ending(&[0xf3, 0xc3]), Ending::Indirect);
        assert_eq!(ending(&[0x41, 0xff, 0xe3]), Ending::Indirect);
        assert_eq!(ending(&[0xff, 0x14, 0xc8]), Ending::Indirect);
        assert_eq!(
            ending(&[0xff, 0xc0]),
            Ending::Sequential,
            "inc eax shares the opcode of indirect calls"
        );
        assert_eq!(ending(&[0xf3, 0x48, 0xab]), Ending::Sequential);
        assert_eq!(ending(&[0x0f, 0x05]), Ending::Sequential);
        assert_eq!(ending(&[]), Ending::Sequential);
    }

    #[test]
    fn aarch64_branches_are_told_apart_with_their_targets() {
        let ending = |word: u32| aarch64_ending(&word.to_le_bytes(), 0x1000);
        assert_eq!(ending(0x1400_0001), Ending::Direct(0x1004));
        assert_eq!(ending(0x97ff_ffff), Ending::Direct(0xffc));
        assert_eq!(ending(0x5400_0040), Ending::Conditional(0x1008));
        assert_eq!(ending(0x54ff_ffe1), Ending::Conditional(0xffc));
        assert_eq!(ending(0xb400_0040), Ending::Conditional(0x1008));
        assert_eq!(ending(0x3707_ffe0), Ending::Conditional(0xffc));
        assert_eq!(ending(0xd65f_03c0), Ending::Indirect);
        assert_eq!(ending(0xd63f_0000), Ending::Indirect);
        assert_eq!(ending(0xd400_0001), Ending::Sequential);
        assert_eq!(ending(0xd503_201f), Ending::Sequential);
    }

    #[test]
    fn calls_and_returns_are_told_from_other_branches() {
        assert_eq!(x86_flow(&[0xe8, 0, 0, 0, 0]), Flow::Call);
        assert_eq!(x86_flow(&[0x41, 0xff, 0xd3]), Flow::Call);
        assert_eq!(x86_flow(&[0x41, 0xff, 0xe3]), Flow::Neither, "an indirect jump");
        assert_eq!(x86_flow(&[0xf3, 0xc3]), Flow::Return);
        assert_eq!(x86_flow(&[0xe9, 0, 0, 0, 0]), Flow::Neither);
        let arm = |word: u32| aarch64_flow(&word.to_le_bytes());
        assert_eq!([arm(0x97ff_ffff), arm(0xd63f_0000), arm(0xd73f_0b3f)], [Flow::Call; 3]);
        assert_eq!([arm(0xd65f_03c0), arm(0xd65f_0bff)], [Flow::Return; 2]);
        assert_eq!([arm(0x1400_0001), arm(0xd61f_0000)], [Flow::Neither; 2]);
    }

    #[test]
    fn a_jump_to_the_next_address_is_still_a_branch() {
        let block = Block::new(Guest::X86_64, 0x1000, 0x1004, &[0xeb, 0x00], 2);
        assert_eq!((block.next, block.target), (NOWHERE, 0x1006));
    }
}
