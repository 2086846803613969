//! An instruction made ready to run: a function, and the operands it was made for.

use crate::Mnemonic;
use crate::control;
use crate::cpu::Cpu;
use crate::word::Word;

/// Runs the first of these instructions and goes on with the others; false ends the look-ahead.
///
/// Each instruction calls the next one itself, so that the processor foresees what follows from
/// where it is, and no loop stands between them. The calls are the last thing that each does; where
/// they are not made into jumps, as in debug builds, a block's length bounds their depth.
pub(crate) type Run = for<'c, 'e, 'o> fn(&'c mut Cpu<'e>, &'o [Op]) -> bool;

/// A [`Run`] out of a function for one instruction: `fn(&mut Cpu, &Op) -> bool`, false to end the
/// look-ahead there.
macro_rules! run {
    ($one:expr) => {{
        fn first(cpu: &mut crate::cpu::Cpu<'_>, ops: &[crate::op::Op]) -> bool {
            crate::op::one_and_on(cpu, ops, $one)
        }
        first as crate::op::Run
    }};
}
pub(crate) use run;

/// Runs one instruction, and goes on with those behind it.
#[inline(always)]
pub(crate) fn one_and_on<'e>(
    cpu: &mut Cpu<'e>,
    ops: &[Op],
    one: impl for<'c, 'o> FnOnce(&'c mut Cpu<'e>, &'o Op) -> bool,
) -> bool {
    let Some((op, rest)) = ops.split_first() else { return true };
    if one(cpu, op) { go_on(cpu, rest) } else { cpu.ended(op) }
}

/// Goes on with these instructions.
#[inline(always)]
pub(crate) fn go_on(cpu: &mut Cpu<'_>, ops: &[Op]) -> bool {
    match ops.first() {
        Some(next) => (next.run)(cpu, ops),
        None => true,
    }
}

/// As `run!`, for a function over [`Reach`] that accesses memory and returns what `run!` wants;
/// none where memory is out of reach.
macro_rules! reaching {
    ($one:path) => {{
        fn first(cpu: &mut crate::cpu::Cpu<'_>, ops: &[crate::op::Op]) -> bool {
            use crate::op::AtHand as R;
            let Some((op, rest)) = ops.split_first() else { return true };
            match $one(cpu, op, R) {
                Some(true) => crate::op::go_on(cpu, rest),
                Some(false) => cpu.ended(op),
                None => far(cpu, ops),
            }
        }
        #[cold]
        #[inline(never)]
        fn far(cpu: &mut crate::cpu::Cpu<'_>, ops: &[crate::op::Op]) -> bool {
            use crate::op::Anywhere as R;
            crate::op::one_and_on(cpu, ops, |cpu, op| $one(cpu, op, R).unwrap_or(false))
        }
        first as crate::op::Run
    }};
}
pub(crate) use reaching;

fn family<F: Family, W: Word, T: Place, S: Place>(cpu: &mut Cpu<'_>, ops: &[Op]) -> bool {
    let Some((op, rest)) = ops.split_first() else { return true };
    if !F::run::<W, T, S, AtHand>(cpu, op) {
        return family_far::<F, W, T, S>(cpu, ops);
    }
    match rest.first() {
        // A comparison and the branch after it are done in one.
        Some(next) if F::COMPARES && next.base >= JUMPS => {
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

/// Which memory an instruction is tried with. With [`AtHand`] first, which is short code without
/// calls; where that finds nothing, it has changed nothing, and the instruction is done from its
/// begin with [`Anywhere`].
pub(crate) trait Reach {
    /// `None` where the memory is out of reach.
    fn load<W: Word>(cpu: &mut Cpu<'_>, address: u64) -> Option<W>;
    #[must_use]
    fn store<W: Word>(cpu: &mut Cpu<'_>, address: u64, value: W) -> bool;
}

/// Words on one page that was used of late.
pub(crate) struct AtHand;
/// All memory that the thread can access; where it cannot, the look-ahead ends.
pub(crate) struct Anywhere;

impl Reach for AtHand {
    #[inline(always)]
    fn load<W: Word>(cpu: &mut Cpu<'_>, address: u64) -> Option<W> {
        cpu.pages.at_hand::<W>(address).and_then(|bytes| W::read(bytes))
    }
    #[inline(always)]
    fn store<W: Word>(cpu: &mut Cpu<'_>, address: u64, value: W) -> bool {
        cpu.pages.at_hand::<W>(address).map(|place| value.write(place)).is_some()
    }
}

impl Reach for Anywhere {
    fn load<W: Word>(cpu: &mut Cpu<'_>, address: u64) -> Option<W> {
        cpu.load(address)
    }
    fn store<W: Word>(cpu: &mut Cpu<'_>, address: u64, value: W) -> bool {
        cpu.store(address, value)
    }
}

/// Added to the number of a condition in [`Op::base`].
pub(crate) const JUMPS: u8 = 0x80;

/// An instruction: half a cache line, since those of a look-ahead have mostly left the caches since
/// the last. Registers are numbers for [`Cpu::get`].
#[derive(Clone, Copy)]
pub(crate) struct Op {
    pub run: Run,
    /// Added to base and index; holds the whole address where neither is used.
    pub displacement: u64,
    /// Sign-extended immediate, where a direct branch goes, or the place of a stub; the number of
    /// the mnemonic in the decoder's list where it has none of them.
    pub immediate: u64,
    /// For a conditional branch its condition, from [`JUMPS`] on.
    pub base: u8,
    pub index: u8,
    /// Shift of the index in the upper three bits, and the register of the segment's begin.
    pub scale_and_segment: u8,
    pub target: u8,
    pub source: u8,
    /// A condition, a size, or whatever the function wants.
    pub extra: u8,
    /// Bytes from the begin of its block in the upper 12 bits, and its own.
    pub offset_and_length: u16,
}

impl Op {
    /// Where it lies; `block` is where its block begins.
    pub(crate) fn ip(&self, block: u64) -> u64 {
        block.wrapping_add(u64::from(self.offset_and_length >> 4))
    }

    /// Where the next one lies.
    pub(crate) fn next(&self, block: u64) -> u64 {
        self.ip(block).wrapping_add(self.length())
    }

    /// Its bytes; 0 for the end of a block that was cut.
    pub(crate) fn length(&self) -> u64 {
        u64::from(self.offset_and_length & 15)
    }

    /// The same instruction at `offset` bytes of a block and with so many bytes of its own.
    pub(crate) fn placed(self, offset: u64, length: usize) -> Op {
        Op { offset_and_length: (offset << 4) as u16 | (length & 15) as u16, ..self }
    }

    pub(crate) fn segment(&self) -> u8 {
        self.scale_and_segment & 31
    }

    /// What a [`crate::Stop::Unmodelled`] says of an instruction without an immediate.
    pub(crate) fn mnemonic(&self) -> Mnemonic {
        Mnemonic(self.immediate as u16)
    }
}

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
