//! Bit tests: `bt`, `bts`, `btr` and `btc` (Intel SDM volume 2A, §3.1.1.9 for bit strings in
//! memory).
//!
//! Where the operand is memory and the bit's number stands in a register, the number is signed and
//! counts from the operand's first bit, however far; everywhere else it is taken modulo the
//! operand's width. Of the flags only CF is defined, and processors leave ZF as it was; the others
//! stay here, too.

use crate::arithmetic::Binary;
use crate::cpu::Cpu;
use crate::family::{Family, Place};
use crate::flags::Flags;
use crate::op::{Op, Reach};
use crate::word::Word;

/// The operand with nothing but the bit set.
#[inline(always)]
fn single<W: Word>(number: W) -> W {
    W::cut(1 << (number.wide() & u64::from(W::BITS - 1)))
}

/// Puts the bit into CF; the result is the bit in its place.
#[inline(always)]
fn tested<W: Word>(flags: &mut Flags, a: W, number: W) -> W {
    let bit = single(number);
    flags.carry = a.and(bit).wide() != 0;
    bit
}

/// `bt`.
pub(crate) struct Bt;
/// `bts`, which sets the bit.
pub(crate) struct Bts;
/// `btr`, which clears it.
pub(crate) struct Btr;
/// `btc`, which turns it over.
pub(crate) struct Btc;

impl Binary for Bt {
    #[inline(always)]
    fn apply<W: Word>(flags: &mut Flags, a: W, b: W) -> Option<W> {
        tested(flags, a, b);
        None
    }
}

impl Binary for Bts {
    #[inline(always)]
    fn apply<W: Word>(flags: &mut Flags, a: W, b: W) -> Option<W> {
        let bit = tested(flags, a, b);
        Some(a.or(bit))
    }
}

impl Binary for Btr {
    #[inline(always)]
    fn apply<W: Word>(flags: &mut Flags, a: W, b: W) -> Option<W> {
        let bit = tested(flags, a, b);
        Some(a.and(bit.xor(W::cut(u64::MAX))))
    }
}

impl Binary for Btc {
    #[inline(always)]
    fn apply<W: Word>(flags: &mut Flags, a: W, b: W) -> Option<W> {
        let bit = tested(flags, a, b);
        Some(a.xor(bit))
    }
}

/// One of them on a bit string in memory, with the bit's number in a register.
pub(crate) struct InString<B>(std::marker::PhantomData<B>);

impl<B: Binary> Family for InString<B> {
    #[inline(always)]
    fn run<W: Word, T: Place, S: Place, R: Reach>(cpu: &mut Cpu<'_>, op: &Op) -> bool {
        let Some(number) = S::read::<W, R>(cpu, op) else { return false };
        let words = number.signed() >> W::BITS.trailing_zeros();
        let address = cpu.address(op).wrapping_add((words as u64).wrapping_mul(W::BYTES as u64));
        let Some(a) = R::load::<W>(cpu, address) else { return false };
        match B::apply(&mut cpu.flags, a, number) {
            Some(value) => R::store(cpu, address, value),
            None => true,
        }
    }
}
