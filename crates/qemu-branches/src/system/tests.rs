//! What a virtual CPU records and counts of made-up blocks.

use super::*;
use crate::kernel::{KERNEL_BEGINS, testing};

fn block(start: u64, last: u64, bytes: &[u8]) -> &'static Block {
    testing::block(start, last, bytes, 1)
}

fn stack(cpu: &Cpu) -> Vec<[u64; 2]> {
    (cpu.emptied_at..cpu.taken)
        .rev()
        .map(|at| cpu.ring[(at & RING_MASK) as usize].map(|address| address - KERNEL_BEGINS))
        .collect()
}

#[test]
fn an_interrupt_entry_is_learnt_and_then_never_taken_for_a_branch() {
    let mut cpu = Cpu { due: u64::MAX, ..EMPTY };
    let (jump, returns) = (block(0x10, 0x10, &[0xeb, 0x0e]), block(0x20, 0x24, &[0xc3]));
    let (entry, leaves) = (block(0x80, 0x84, &[0x75, 0x0a]), block(0x86, 0x88, &[0x48, 0xcf]));
    // The system call's entry comes from a program.
    for block in [block(0x60, 0x64, &[0xeb, 0xaa]), jump, returns, jump] {
        cpu.enter::<false>(block);
    }
    assert_eq!(stack(&cpu), [[0x24, 0x10], [0x10, 0x20], [0x64, 0x10]]);
    cpu.enter::<false>(entry);
    assert_eq!(stack(&cpu), [[0u64; 2]; 0], "a jump elsewhere did not lead to the entry");
    cpu.enter::<false>(leaves);
    cpu.enter::<false>(returns);
    assert_eq!(stack(&cpu), [[0u64; 2]; 0], "a return from an interrupt is no branch");
    cpu.enter::<false>(jump);
    assert_eq!(stack(&cpu), [[0x24, 0x10]], "what an interrupt returns to is no entry");
    cpu.enter::<false>(returns);
    cpu.enter::<false>(entry);
    assert_eq!(stack(&cpu), [[0u64; 2]; 0], "the entry is known by now");
}

#[test]
fn arm64_returns_from_interrupts_by_an_instruction_that_looks_like_a_branch() {
    let made = |start: u64, last: u64, word: u32| {
        let (guest, bytes) = (Guest::Aarch64, word.to_le_bytes());
        let (start, last) = (KERNEL_BEGINS + start, KERNEL_BEGINS + last);
        kernel::intern(kernel::kernel_block(
            guest,
            Block::new(guest, start, last, &bytes, 1),
            &bytes,
        ))
    };
    let mut cpu = Cpu { due: u64::MAX, ..EMPTY };
    // b .+0x10; ret; eret.
    let (jump, returns) = (made(0x5010, 0x5010, 0x1400_0004), made(0x5020, 0x5024, 0xd65f_03c0));
    let (entry, leaves) = (made(0x5080, 0x5080, 0x1400_0002), made(0x5088, 0x508c, 0xd69f_03e0));
    assert_eq!((leaves.branches, returns.branches), (0, 1));
    // The first block is where the kernel turned up; b .-0x54 ends it.
    for block in [made(0x5060, 0x5064, 0x17ff_ffeb), jump, returns, jump] {
        cpu.enter::<false>(block);
    }
    assert_eq!(stack(&cpu), [[0x5024, 0x5010], [0x5010, 0x5020], [0x5064, 0x5010]]);
    for block in [entry, leaves, returns] {
        cpu.enter::<false>(block);
    }
    assert_eq!(stack(&cpu), [[0u64; 2]; 0], "neither the entry nor the return is a branch");
    cpu.enter::<false>(jump);
    assert_eq!(stack(&cpu), [[0x5024, 0x5010]]);
}

#[test]
fn a_function_that_calls_itself_returns_to_its_return() {
    let mut cpu = Cpu { due: u64::MAX, ..EMPTY };
    let returns = block(0x3000, 0x3001, &[0xc3]);
    for block in [block(0x2ffb, 0x2ffb, &[0xe9, 0, 0, 0, 0]), returns, returns, returns] {
        cpu.enter::<false>(block);
    }
    assert_eq!(stack(&cpu), [[0x3001, 0x3000], [0x3001, 0x3000], [0x2ffb, 0x3000]]);
}

#[test]
fn a_program_between_two_kernel_blocks_empties_the_stack() {
    let mut cpu = Cpu { due: u64::MAX, ..EMPTY };
    let (calls, called) =
        (block(0x1000, 0x1000, &[0xe8, 0xfb, 0, 0, 0]), block(0x1100, 0x1104, &[0xc3]));
    cpu.enter::<false>(calls);
    cpu.enter::<false>(called);
    assert_eq!(stack(&cpu), [[0x1000, 0x1100]]);
    (cpu.next, cpu.block) = (NOWHERE, &raw const NO_BLOCK);
    cpu.enter::<false>(called);
    assert_eq!(stack(&cpu), [[0u64; 2]; 0]);
}

#[test]
fn a_new_stretch_empties_the_stack_and_one_outside_the_sections_records_nothing() {
    let mut cpu = Cpu { due: u64::MAX, ..EMPTY };
    let (calls, called) =
        (block(0x2000, 0x2000, &[0xe8, 0xfb, 0, 0, 0]), block(0x2100, 0x2104, &[0xc3]));
    let back = block(0x2005, 0x2005, &[0xeb, 0xf9]);
    let around = |cpu: &mut Cpu| {
        [calls, called, back, calls].into_iter().for_each(|block| cpu.enter::<false>(block))
    };
    around(&mut cpu);
    assert_eq!(stack(&cpu), [[0x2005, 0x2000], [0x2104, 0x2005], [0x2000, 0x2100]]);
    // As the next taken branch after a marker does.
    cpu.enter_stretch::<false>(cpu.stretch, Some(&(1..=99)));
    assert!(!cpu.recording && stack(&cpu).is_empty());
    around(&mut cpu);
    assert!(stack(&cpu).is_empty());
    cpu.enter_stretch::<false>(cpu.stretch, Some(&(0..=99)));
    cpu.enter::<false>(called);
    assert_eq!(stack(&cpu), [[0x2000, 0x2100]]);
}

#[test]
fn every_branch_is_counted_once_with_what_followed_it() {
    let mut cpu = Cpu { due: 1, ..EMPTY };
    let (calls, called) =
        (block(0x4000, 0x4000, &[0xe8, 0xfb, 0, 0, 0]), block(0x4100, 0x4104, &[0xc3]));
    let (back, fault) =
        (block(0x4005, 0x4005, &[0xeb, 0xf9]), block(0x4180, 0x4184, &[0x48, 0xcf]));
    let around = |cpu: &mut Cpu| {
        [calls, called, back].into_iter().for_each(|block| cpu.enter::<true>(block))
    };
    around(&mut cpu);
    around(&mut cpu);
    // A fault breaks the jump back off, which is done again after it; then comes a marker.
    for block in [calls, called, back, fault, back, calls] {
        cpu.enter::<true>(block);
    }
    cpu.enter_stretch::<true>(cpu.stretch, Some(&(1..=99)));
    around(&mut cpu);
    let last = crate::traces::NONE;
    let at = |[from, to, next, count]: [u64; 4]| {
        let address = |offset: u64| if offset == last { last } else { KERNEL_BEGINS + offset };
        [address(from), address(to), address(next), count]
    };
    let expected = [
        [0x4000, 0x4100, 0x4104, 3],
        [0x4005, 0x4000, 0x4000, 2],
        // Nothing followed the branch before the marker, nor the one before the fault.
        [0x4005, 0x4000, last, 1],
        [0x4104, 0x4005, 0x4005, 2],
        [0x4104, 0x4005, last, 1],
    ];
    assert_eq!(cpu.traces.entries(), expected.map(at));
    assert_eq!(cpu.taken, 9);
}
