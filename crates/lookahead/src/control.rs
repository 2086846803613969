//! Branches, calls, returns, the stack, and what ends a look-ahead.

use crate::Stop;
use crate::cpu::{Cpu, RBP, RCX, RSP};
use crate::flags::Flags;
use crate::op::{Op, Run};

fn conditional<const C: u8>(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    if cpu.flags.holds(C) {
        return cpu.branch(op, op.immediate);
    }
    fall_through(cpu, op)
}

#[inline(always)]
fn fall_through(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    cpu.taken = false;
    cpu.rip = op.next();
    true
}

/// `jcc` by the number of its condition.
pub(crate) const CONDITIONAL: [Run; 16] = [
    conditional::<0>,
    conditional::<1>,
    conditional::<2>,
    conditional::<3>,
    conditional::<4>,
    conditional::<5>,
    conditional::<6>,
    conditional::<7>,
    conditional::<8>,
    conditional::<9>,
    conditional::<10>,
    conditional::<11>,
    conditional::<12>,
    conditional::<13>,
    conditional::<14>,
    conditional::<15>,
];

/// The end of a block that was cut for its length.
pub(crate) fn go_on(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    cpu.taken = false;
    cpu.rip = op.ip;
    true
}

/// jrcxz (`extra` 0), loop (1), loope (2) and loopne (3).
pub(crate) fn count_down(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let mut count = cpu.wide(RCX);
    let taken = if op.extra == 0 {
        count == 0
    } else {
        count = count.wrapping_sub(1);
        cpu.set_wide(RCX, count);
        let zero = cpu.flags.zero == 0;
        count != 0 && (op.extra == 1 || zero == (op.extra == 2))
    };
    if taken { cpu.branch(op, op.immediate) } else { fall_through(cpu, op) }
}

pub(crate) fn jump(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    cpu.branch(op, op.immediate)
}

pub(crate) fn jump_register(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let to = cpu.wide(op.source);
    cpu.branch(op, to)
}

pub(crate) fn jump_memory(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let address = cpu.address(op);
    let Some(to) = cpu.load(address) else { return false };
    cpu.branch(op, to)
}

pub(crate) fn call(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    cpu.push(op.next()) && cpu.branch(op, op.immediate)
}

pub(crate) fn call_register(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let to = cpu.wide(op.source);
    cpu.push(op.next()) && cpu.branch(op, to)
}

pub(crate) fn call_memory(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let address = cpu.address(op);
    let Some(to) = cpu.load(address) else { return false };
    cpu.push(op.next()) && cpu.branch(op, to)
}

/// `ret`, with the bytes it drops from the stack as immediate.
pub(crate) fn ret(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let Some(to) = cpu.pop() else { return false };
    cpu.set_wide(RSP, cpu.wide(RSP).wrapping_add(op.immediate));
    cpu.branch(op, to)
}

pub(crate) fn push_register(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let value = cpu.wide(op.source);
    cpu.push(value)
}

pub(crate) fn push_immediate(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    cpu.push(op.immediate)
}

pub(crate) fn push_memory(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let address = cpu.address(op);
    let Some(value) = cpu.load(address) else { return false };
    cpu.push(value)
}

pub(crate) fn pop_register(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let Some(value) = cpu.pop() else { return false };
    cpu.set_wide(op.target, value);
    true
}

/// The address counts from the stack pointer after the pop.
pub(crate) fn pop_memory(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let Some(value) = cpu.pop() else { return false };
    let address = cpu.address(op);
    cpu.store::<u64>(address, value)
}

pub(crate) fn leave(cpu: &mut Cpu<'_>, _: &Op) -> bool {
    cpu.set_wide(RSP, cpu.wide(RBP));
    let Some(value) = cpu.pop() else { return false };
    cpu.set_wide(RBP, value);
    true
}

/// Bits of RFLAGS that `pushf` stores as 0: RF and VM.
const HIDDEN: u64 = 1 << 16 | 1 << 17;
/// The trap flag.
const TRAP: u64 = 1 << 8;
/// Bits that `popf` may change at the lowest privilege: the status flags, DF, NT, AC and ID.
const POPPED: u64 = 0xfd5 & !TRAP & !(1 << 9) | 1 << 14 | 1 << 18 | 1 << 21;

pub(crate) fn push_flags(cpu: &mut Cpu<'_>, _: &Op) -> bool {
    let image = cpu.flags.image() & !HIDDEN;
    cpu.push(image)
}

pub(crate) fn pop_flags(cpu: &mut Cpu<'_>, _: &Op) -> bool {
    let Some(image) = cpu.pop() else { return false };
    if image & TRAP != 0 {
        return cpu.end(Stop::Fault);
    }
    let kept = cpu.flags.image() & !POPPED;
    cpu.flags = Flags::from_image(image & POPPED | kept);
    true
}

/// cld (`extra` 0) and std (1).
pub(crate) fn direction(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    cpu.flags.down = op.extra == 1;
    true
}

/// clc (`extra` 0), stc (1) and cmc (2).
pub(crate) fn carry(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    cpu.flags.carry = match op.extra {
        0 => false,
        1 => true,
        _ => !cpu.flags.carry,
    };
    true
}

pub(crate) fn system_call(cpu: &mut Cpu<'_>, _: &Op) -> bool {
    cpu.end(Stop::SystemCall)
}

/// What always faults, or traps to the kernel or a debugger.
pub(crate) fn fault(cpu: &mut Cpu<'_>, _: &Op) -> bool {
    cpu.end(Stop::Fault)
}

pub(crate) fn unmodelled(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    cpu.end(Stop::Unmodelled { mnemonic: crate::Mnemonic(op.mnemonic) })
}
