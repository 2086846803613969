//! An instruction made ready to run: a function, and the operands it was made for.

use crate::cpu::Cpu;
use crate::word::Word;

/// Runs an instruction; false ends the look-ahead.
pub(crate) type Run = for<'c, 'e> fn(&'c mut Cpu<'e>, &Op) -> bool;

/// An instruction. Registers are numbers for [`Cpu::get`].
#[derive(Clone, Copy)]
pub(crate) struct Op {
    pub run: Run,
    pub ip: u64,
    /// Added to base and index; holds the whole address where neither is used.
    pub displacement: u64,
    /// Sign-extended immediate, or where a direct branch goes.
    pub immediate: u64,
    pub base: u8,
    pub index: u8,
    /// Shift of the index.
    pub scale: u8,
    pub segment: u8,
    pub target: u8,
    pub source: u8,
    /// Bytes of the instruction.
    pub length: u8,
    /// A condition, a size, or whatever the function wants.
    pub extra: u8,
    /// Number of the mnemonic in the decoder's list.
    pub mnemonic: u16,
    /// Place of a stub.
    pub stub: u32,
}

impl Op {
    pub(crate) fn next(&self) -> u64 {
        self.ip.wrapping_add(u64::from(self.length))
    }
}

/// Where an operand lies.
pub(crate) trait Place {
    const MEMORY: bool = false;
    fn read<W: Word>(cpu: &mut Cpu<'_>, op: &Op) -> Option<W>;
    #[must_use]
    fn write<W: Word>(cpu: &mut Cpu<'_>, op: &Op, value: W) -> bool;
}

/// The register `target`.
pub(crate) struct Target;
/// The register `source`.
pub(crate) struct Register;
/// Memory.
pub(crate) struct Memory;
/// The immediate; it cannot be written.
pub(crate) struct Immediate;

impl Place for Target {
    #[inline(always)]
    fn read<W: Word>(cpu: &mut Cpu<'_>, op: &Op) -> Option<W> {
        Some(cpu.get(op.target))
    }
    #[inline(always)]
    fn write<W: Word>(cpu: &mut Cpu<'_>, op: &Op, value: W) -> bool {
        cpu.set(op.target, value);
        true
    }
}

impl Place for Register {
    #[inline(always)]
    fn read<W: Word>(cpu: &mut Cpu<'_>, op: &Op) -> Option<W> {
        Some(cpu.get(op.source))
    }
    #[inline(always)]
    fn write<W: Word>(cpu: &mut Cpu<'_>, op: &Op, value: W) -> bool {
        cpu.set(op.source, value);
        true
    }
}

impl Place for Memory {
    const MEMORY: bool = true;
    #[inline(always)]
    fn read<W: Word>(cpu: &mut Cpu<'_>, op: &Op) -> Option<W> {
        let address = cpu.address(op);
        cpu.load(address)
    }
    #[inline(always)]
    fn write<W: Word>(cpu: &mut Cpu<'_>, op: &Op, value: W) -> bool {
        let address = cpu.address(op);
        cpu.store(address, value)
    }
}

impl Place for Immediate {
    #[inline(always)]
    fn read<W: Word>(_: &mut Cpu<'_>, op: &Op) -> Option<W> {
        Some(W::cut(op.immediate))
    }
    #[inline(always)]
    fn write<W: Word>(_: &mut Cpu<'_>, _: &Op, _: W) -> bool {
        true
    }
}

/// Makes a [`Run`] for each width and form of an instruction.
pub(crate) trait Family {
    fn run<W: Word, T: Place, S: Place>(cpu: &mut Cpu<'_>, op: &Op) -> bool;
}

/// The two operands of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    RegisterRegister,
    RegisterMemory,
    RegisterImmediate,
    MemoryRegister,
    MemoryImmediate,
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
        Form::RegisterRegister => F::run::<W, Target, Register>,
        Form::RegisterMemory => F::run::<W, Target, Memory>,
        Form::RegisterImmediate => F::run::<W, Target, Immediate>,
        Form::MemoryRegister => F::run::<W, Memory, Register>,
        Form::MemoryImmediate => F::run::<W, Memory, Immediate>,
    }
}
