//! Instructions of two operands: one function for each kind of them, width and form of operands.

use crate::control;
use crate::cpu::Cpu;
use crate::op::{Anywhere, AtHand, Op, Reach, Run, go_on, one_and_on};
use crate::word::Word;

/// Where an operand lies.
pub(crate) trait Place {
    const MEMORY: bool = false;
    fn read<W: Word, R: Reach>(cpu: &mut Cpu<'_>, op: &Op) -> Option<W>;
    #[must_use]
    fn write<W: Word, R: Reach>(cpu: &mut Cpu<'_>, op: &Op, value: W) -> bool;
}

/// The register `target`.
pub(crate) struct Target;
/// The register `source`.
pub(crate) struct Register;
/// Memory; `NEAR` where its address is a base register and a displacement, as mostly.
pub(crate) struct At<const NEAR: bool>;
type Memory = At<false>;
type Near = At<true>;
/// The immediate; it cannot be written.
pub(crate) struct Immediate;

impl Place for Target {
    #[inline(always)]
    fn read<W: Word, R: Reach>(cpu: &mut Cpu<'_>, op: &Op) -> Option<W> {
        Some(cpu.get(op.target))
    }
    #[inline(always)]
    fn write<W: Word, R: Reach>(cpu: &mut Cpu<'_>, op: &Op, value: W) -> bool {
        cpu.set(op.target, value);
        true
    }
}

impl Place for Register {
    #[inline(always)]
    fn read<W: Word, R: Reach>(cpu: &mut Cpu<'_>, op: &Op) -> Option<W> {
        Some(cpu.get(op.source))
    }
    #[inline(always)]
    fn write<W: Word, R: Reach>(cpu: &mut Cpu<'_>, op: &Op, value: W) -> bool {
        cpu.set(op.source, value);
        true
    }
}

impl<const NEAR: bool> At<NEAR> {
    #[inline(always)]
    fn address(cpu: &Cpu<'_>, op: &Op) -> u64 {
        if NEAR { cpu.near_address(op) } else { cpu.address(op) }
    }
}

impl<const NEAR: bool> Place for At<NEAR> {
    const MEMORY: bool = true;
    #[inline(always)]
    fn read<W: Word, R: Reach>(cpu: &mut Cpu<'_>, op: &Op) -> Option<W> {
        let address = Self::address(cpu, op);
        R::load(cpu, address)
    }
    #[inline(always)]
    fn write<W: Word, R: Reach>(cpu: &mut Cpu<'_>, op: &Op, value: W) -> bool {
        let address = Self::address(cpu, op);
        R::store(cpu, address, value)
    }
}

impl Place for Immediate {
    #[inline(always)]
    fn read<W: Word, R: Reach>(_: &mut Cpu<'_>, op: &Op) -> Option<W> {
        Some(W::cut(op.immediate))
    }
    #[inline(always)]
    fn write<W: Word, R: Reach>(_: &mut Cpu<'_>, _: &Op, _: W) -> bool {
        true
    }
}

/// Does an instruction, for each width and form of it.
pub(crate) trait Family {
    /// Whether a conditional branch mostly follows.
    const COMPARES: bool = false;
    fn run<W: Word, T: Place, S: Place, R: Reach>(cpu: &mut Cpu<'_>, op: &Op) -> bool;
}

/// The two operands of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    RegisterRegister,
    RegisterMemory,
    RegisterNear,
    RegisterImmediate,
    MemoryRegister,
    NearRegister,
    MemoryImmediate,
    NearImmediate,
}

/// The function of a family for a width in bytes and a form.
pub(crate) fn pick<F: Family>(bytes: usize, form: Form) -> Option<Run> {
    Some(match bytes {
        1 => pick_form::<F, u8>(form),
        2 => pick_form::<F, u16>(form),
        4 => pick_form::<F, u32>(form),
        8 => pick_form::<F, u64>(form),
        _ => return None,
    })
}

fn pick_form<F: Family, W: Word>(form: Form) -> Run {
    match form {
        Form::RegisterRegister => family::<F, W, Target, Register>,
        Form::RegisterMemory => family::<F, W, Target, Memory>,
        Form::RegisterNear => family::<F, W, Target, Near>,
        Form::RegisterImmediate => family::<F, W, Target, Immediate>,
        Form::MemoryRegister => family::<F, W, Memory, Register>,
        Form::NearRegister => family::<F, W, Near, Register>,
        Form::MemoryImmediate => family::<F, W, Memory, Immediate>,
        Form::NearImmediate => family::<F, W, Near, Immediate>,
    }
}

fn family<F: Family, W: Word, T: Place, S: Place>(cpu: &mut Cpu<'_>, ops: &[Op]) -> bool {
    let Some((op, rest)) = ops.split_first() else { return true };
    if !F::run::<W, T, S, AtHand>(cpu, op) {
        return family_far::<F, W, T, S>(cpu, ops);
    }
    match rest.first() {
        // A comparison and the branch after it are done in one.
        Some(next) if F::COMPARES && next.is_conditional() => {
            control::conditional(cpu, next) || cpu.ended(next)
        }
        _ => go_on(cpu, rest),
    }
}

#[cold]
#[inline(never)]
fn family_far<F: Family, W: Word, T: Place, S: Place>(cpu: &mut Cpu<'_>, ops: &[Op]) -> bool {
    one_and_on(cpu, ops, F::run::<W, T, S, Anywhere>)
}
