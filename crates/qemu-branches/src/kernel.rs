//! The kernel's code as an emulated machine runs it: its blocks, and which ways between them are
//! branches.
//!
//! The kernel is interrupted at any block's end, so a way counts as a branch only when the
//! instruction before can make it: a direct branch to its encoded target, an indirect one to
//! anything but the first instruction of an interrupt's or a fault's entry. Those entries are
//! learnt: they are where the kernel turns up without any instruction that leads there.

use crate::api::{Api, Tb};
use crate::block::{ANYWHERE, Block, Guest, NOWHERE, Transfer, describe};
use crate::chain::Flow;
use crate::lock::Lock;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

/// The kernel has the upper half of the canonical addresses (`Documentation/x86/x86_64/mm.rst`). On
/// AArch64 its image and its modules lie above this too, whatever the size of addresses is
/// (`Documentation/arm64/memory.rst`): the linear map below it holds no code.
pub const KERNEL_BEGINS: u64 = 0xffff_8000_0000_0000;
/// A return from an interrupt: it may lead anywhere, but not by a branch of the program.
const INTERRUPT_RETURN: u64 = u64::MAX - 2;

/// What the plugin remembers of the kernel's code.
#[derive(Default)]
struct Code {
    blocks: HashMap<u64, Vec<&'static Block>>,
    entries: HashSet<u64>,
}

static CODE: Lock<Option<Code>> = Lock::new(None);

/// The block being translated, when it is the kernel's.
///
/// # Safety
/// `tb` must be the block that qemu called a translation callback with, during that call.
pub unsafe fn translated(api: &Api, guest: Guest, tb: *mut Tb) -> Option<&'static Block> {
    // SAFETY: the contract of this function.
    unsafe {
        if (api.tb_address)(tb) < KERNEL_BEGINS {
            return None;
        }
        let (block, _) = describe(api, guest, tb)?;
        let last = (api.tb_instruction)(tb, (api.tb_instructions)(tb).checked_sub(1)?);
        let bytes = std::slice::from_raw_parts((api.insn_bytes)(last), (api.insn_len)(last));
        Some(intern(kernel_block(guest, block, bytes)))
    }
}

/// Adds what only kernels have; `last` is the last instruction.
pub fn kernel_block(guest: Guest, mut block: Block, last: &[u8]) -> Block {
    if returns_from_interrupt(guest, last) {
        (block.next, block.target) = (NOWHERE, INTERRUPT_RETURN);
        // Not a branch, though it looks like one on AArch64.
        (block.branches, block.flow) = (0, Flow::Neither);
    }
    block
}

/// `iret`, or `eret` and those of its forms that authenticate (Arm ARM C6.2, ERET and ERETAA).
fn returns_from_interrupt(guest: Guest, instruction: &[u8]) -> bool {
    match guest {
        Guest::X86_64 => matches!(instruction, [0xcf] | [0x48, 0xcf]),
        Guest::Aarch64 => match instruction.try_into().map(u32::from_le_bytes) {
            Ok(word) => matches!(word, 0xd69f_03e0 | 0xd69f_0bff | 0xd69f_0fff),
            Err(_) => false,
        },
    }
}

/// A description that lives forever; the same block translated again gets the same one.
pub fn intern(block: Block) -> &'static Block {
    CODE.with(|code| {
        let code = code.get_or_insert_default();
        block.handler.store(code.entries.contains(&block.start), Ordering::Relaxed);
        let of_address = code.blocks.entry(block.start).or_default();
        if let Some(known) = of_address.iter().find(|known| known.same(&block)) {
            return *known;
        }
        let block: &'static Block = Box::leak(Box::new(block));
        of_address.push(block);
        block
    })
}

/// True when a block begins within the one before, which was broken off there. One that begins
/// where the one before began is another round: a function that calls itself returns so.
pub fn in_the_middle(before: &Block, block: &Block) -> bool {
    before.start < block.start && block.start <= before.last
}

/// How the kernel came from one block to another that is not the next one. Learns interrupt entries
/// by the way.
#[inline(always)]
pub fn transfer(before: &Block, block: &Block) -> Transfer {
    let known_entry = || block.handler.load(Ordering::Relaxed);
    let led = before.target == block.start
        || before.target == ANYWHERE && !in_the_middle(before, block) && !known_entry();
    if led {
        return Transfer::Taken;
    }
    // A repeated string instruction, or one across a page's end, goes straight on.
    if block.start == before.last {
        return Transfer::Straight;
    }
    // Where an interrupt returns to, and where a block broken off goes on or begins again, are
    // places of their own kind.
    let own = before.start <= block.start && block.start <= before.last;
    if !own && before.target != INTERRUPT_RETURN && !known_entry() {
        learn_entry(block.start);
    }
    Transfer::Interrupted
}

/// The kernel turned up at `start` without a branch.
#[cold]
#[inline(never)]
fn learn_entry(start: u64) {
    CODE.with(|code| {
        let code = code.get_or_insert_default();
        code.entries.insert(start);
        for block in code.blocks.get(&start).into_iter().flatten() {
            block.handler.store(true, Ordering::Relaxed);
        }
    });
}

#[cfg(test)]
pub mod testing {
    //! Made-up kernel code.

    use super::*;

    /// A block of the kernel at an offset from where it begins.
    pub fn block(start: u64, last: u64, bytes: &[u8], instructions: u32) -> &'static Block {
        let (start, last) = (KERNEL_BEGINS + start, KERNEL_BEGINS + last);
        let block = Block::new(Guest::X86_64, start, last, bytes, instructions);
        intern(kernel_block(Guest::X86_64, block, bytes))
    }
}
