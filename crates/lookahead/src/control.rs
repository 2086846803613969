//! Branches, calls, returns, the stack, and what ends a look-ahead.

use crate::Stop;
use crate::cpu::Cpu;
use crate::flags::Flags;
use crate::op::{Anywhere, Op, Reach};
use crate::state::{RBP, RCX, RSP};

/// `jcc`, with the condition in the op's base.
#[inline(always)]
pub(crate) fn conditional(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    if cpu.flags.holds(op.base) {
        return cpu.branch(op, op.immediate);
    }
    fall_through(cpu, op)
}

#[inline(always)]
fn fall_through(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    cpu.taken = false;
    cpu.rip = op.next(cpu.rip);
    true
}

/// The end of a block that was cut for its length.
pub(crate) fn go_on(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    cpu.taken = false;
    cpu.rip = op.ip(cpu.rip);
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

pub(crate) fn jump_memory<R: Reach>(cpu: &mut Cpu<'_>, op: &Op, _: R) -> Option<bool> {
    let address = cpu.address(op);
    let to = R::load(cpu, address)?;
    Some(cpu.branch(op, to))
}

pub(crate) fn call<R: Reach>(cpu: &mut Cpu<'_>, op: &Op, _: R) -> Option<bool> {
    cpu.push::<R>(op.next(cpu.rip))?;
    Some(cpu.branch(op, op.immediate))
}

pub(crate) fn call_register<R: Reach>(cpu: &mut Cpu<'_>, op: &Op, _: R) -> Option<bool> {
    let to = cpu.wide(op.source);
    cpu.push::<R>(op.next(cpu.rip))?;
    Some(cpu.branch(op, to))
}

pub(crate) fn call_memory<R: Reach>(cpu: &mut Cpu<'_>, op: &Op, _: R) -> Option<bool> {
    let address = cpu.address(op);
    let to = R::load(cpu, address)?;
    cpu.push::<R>(op.next(cpu.rip))?;
    Some(cpu.branch(op, to))
}

/// `ret`, with the bytes it drops from the stack as immediate.
pub(crate) fn ret<R: Reach>(cpu: &mut Cpu<'_>, op: &Op, _: R) -> Option<bool> {
    let to = cpu.pop::<R>()?;
    cpu.set_wide(RSP, cpu.wide(RSP).wrapping_add(op.immediate));
    Some(cpu.branch(op, to))
}

pub(crate) fn push_register<R: Reach>(cpu: &mut Cpu<'_>, op: &Op, _: R) -> Option<bool> {
    let value = cpu.wide(op.source);
    cpu.push::<R>(value).map(|()| true)
}

pub(crate) fn push_immediate<R: Reach>(cpu: &mut Cpu<'_>, op: &Op, _: R) -> Option<bool> {
    cpu.push::<R>(op.immediate).map(|()| true)
}

pub(crate) fn push_memory<R: Reach>(cpu: &mut Cpu<'_>, op: &Op, _: R) -> Option<bool> {
    let address = cpu.address(op);
    let value = R::load(cpu, address)?;
    cpu.push::<R>(value).map(|()| true)
}

pub(crate) fn pop_register<R: Reach>(cpu: &mut Cpu<'_>, op: &Op, _: R) -> Option<bool> {
    let value = cpu.pop::<R>()?;
    cpu.set_wide(op.target, value);
    Some(true)
}

/// The address counts from the stack pointer after the pop.
pub(crate) fn pop_memory(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let Some(value) = cpu.pop::<Anywhere>() else { return false };
    let address = cpu.address(op);
    cpu.store::<u64>(address, value)
}

pub(crate) fn leave<R: Reach>(cpu: &mut Cpu<'_>, _: &Op, _: R) -> Option<bool> {
    let frame = cpu.wide(RBP);
    let value = R::load(cpu, frame)?;
    cpu.set_wide(RSP, frame.wrapping_add(8));
    cpu.set_wide(RBP, value);
    Some(true)
}

/// Bits of RFLAGS that `pushf` stores as 0: RF and VM.
const HIDDEN: u64 = 1 << 16 | 1 << 17;
/// The trap flag.
const TRAP: u64 = 1 << 8;
/// Bits that `popf` may change at the lowest privilege: the status flags, DF, NT, AC and ID.
const POPPED: u64 = 0xfd5 & !TRAP & !(1 << 9) | 1 << 14 | 1 << 18 | 1 << 21;

pub(crate) fn push_flags(cpu: &mut Cpu<'_>, _: &Op) -> bool {
    let image = cpu.flags.image() & !HIDDEN;
    cpu.push::<Anywhere>(image).is_some()
}

pub(crate) fn pop_flags(cpu: &mut Cpu<'_>, _: &Op) -> bool {
    let Some(image) = cpu.pop::<Anywhere>() else { return false };
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
    cpu.end(Stop::Unmodelled { mnemonic: op.mnemonic() })
}
