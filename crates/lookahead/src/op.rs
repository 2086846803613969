//! An instruction made ready to run: a function, and the operands it was made for.
//!
//! Source of the idea: Bell, "Threaded code" (CACM 16, 1973, doi:10.1145/362248.362270), by
//! calls at the end of each function in place of jumps.

use crate::Mnemonic;
use crate::cpu::Cpu;
use crate::state::REGISTERS;
use crate::word::Word;

/// Runs the first of these instructions and goes on with the others; false ends the look-ahead.
///
/// Each instruction calls the next one itself, so that the processor foresees what follows from
/// where it is, and no loop stands between them. The calls are the last thing that each does; where
/// they are not made into jumps, as in debug builds, they are nested, at most [`MOST_CALLS`] deep.
pub(crate) type Run = for<'c, 'e, 'o> fn(&'c mut Cpu<'e>, &'o [Op]) -> bool;

/// Ops that are handed to a [`Run`] at most. Where its calls are not made into jumps, each op has a
/// frame on the stack: less than 8 KiB, of which the area that `xrstor` reads takes 4. All together
/// take no more than half of the stack that the standard library gives a thread.
pub(crate) const MOST_CALLS: usize = 65;
const _: () = assert!(MOST_CALLS * (8 << 10) <= (2 << 20) / 2);

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
    pub scaled: Scaled,
    pub target: u8,
    pub source: u8,
    /// A condition, a size, or whatever the function wants.
    pub extra: u8,
    pub extent: Extent,
}

// Two to a cache line.
const _: () = assert!(size_of::<Op>() == 32);

/// How far the index of an address is shifted (upper three bits), and the register that holds the
/// start of its segment.
#[derive(Clone, Copy)]
pub(crate) struct Scaled(u8);

impl Scaled {
    pub(crate) const fn new(shift: u8, segment: u8) -> Scaled {
        Scaled(shift << 5 | segment & REGISTERS)
    }

    #[inline(always)]
    pub(crate) fn shift(self) -> u8 {
        self.0 >> 5 & 3
    }

    #[inline(always)]
    pub(crate) fn segment(self) -> u8 {
        self.0 & REGISTERS
    }
}

/// Bytes from the start of a block to an instruction (upper 12 bits), and its own.
#[derive(Clone, Copy, Default)]
pub(crate) struct Extent(u16);

impl Extent {
    /// The furthest begin that fits.
    pub(crate) const MOST_OFFSET: usize = (1 << 12) - 1;

    fn new(offset: u64, length: usize) -> Extent {
        Extent((offset << 4) as u16 | (length & 15) as u16)
    }

    #[inline(always)]
    fn offset(self) -> u64 {
        u64::from(self.0 >> 4)
    }

    #[inline(always)]
    fn length(self) -> u64 {
        u64::from(self.0 & 15)
    }
}

impl Op {
    /// Where it lies; `block` is where its block begins.
    pub(crate) fn ip(&self, block: u64) -> u64 {
        block.wrapping_add(self.extent.offset())
    }

    /// Where the next one lies.
    pub(crate) fn next(&self, block: u64) -> u64 {
        self.ip(block).wrapping_add(self.length())
    }

    /// Its bytes; 0 for the end of a block that was cut.
    pub(crate) fn length(&self) -> u64 {
        self.extent.length()
    }

    /// The same instruction at `offset` bytes of a block and with so many bytes of its own.
    pub(crate) fn placed(self, offset: u64, length: usize) -> Op {
        Op { extent: Extent::new(offset, length), ..self }
    }

    /// Whether it is a conditional branch.
    #[inline(always)]
    pub(crate) fn is_conditional(&self) -> bool {
        self.base >= JUMPS
    }

    /// What a [`crate::Stop::Unmodelled`] says of an instruction without an immediate.
    pub(crate) fn mnemonic(&self) -> Mnemonic {
        Mnemonic(self.immediate as u16)
    }
}
