//! Moves, arithmetic, logic, shifts and multiplications on general registers and memory (Intel
//! SDM volume 2, <https://www.intel.com/sdm>).

use crate::Stop;
use crate::cpu::Cpu;
use crate::family::{Family, Place};
use crate::flags::Flags;
use crate::op::{Op, Reach};
use crate::state::{RAX, RDX};
use crate::word::Word;

/// An operation of two operands; `None` where nothing is written.
pub(crate) trait Binary {
    /// As [`Family::COMPARES`].
    const COMPARES: bool = false;
    fn apply<W: Word>(flags: &mut Flags, a: W, b: W) -> Option<W>;
}

/// The family of a [`Binary`].
pub(crate) struct Of<B>(std::marker::PhantomData<B>);

impl<B: Binary> Family for Of<B> {
    const COMPARES: bool = B::COMPARES;
    #[inline(always)]
    fn run<W: Word, T: Place, S: Place, R: Reach>(cpu: &mut Cpu<'_>, op: &Op) -> bool {
        let Some(b) = S::read::<W, R>(cpu, op) else { return false };
        let Some(a) = T::read::<W, R>(cpu, op) else { return false };
        match B::apply(&mut cpu.flags, a, b) {
            Some(value) => T::write::<W, R>(cpu, op, value),
            None => true,
        }
    }
}

#[inline(always)]
fn add<W: Word>(flags: &mut Flags, a: W, b: W, carry: bool) -> W {
    let (sum, first) = a.plus(b);
    let (sum, second) = sum.plus(W::cut(u64::from(carry)));
    flags.carry = first | second;
    flags.overflow = a.xor(sum).and(b.xor(sum)).signed() < 0;
    flags.adjust = a.xor(b).xor(sum).wide() as u8;
    flags.result(sum);
    sum
}

#[inline(always)]
fn subtract<W: Word>(flags: &mut Flags, a: W, b: W, borrow: bool) -> W {
    let (difference, first) = a.minus(b);
    let (difference, second) = difference.minus(W::cut(u64::from(borrow)));
    flags.carry = first | second;
    flags.overflow = a.xor(b).and(a.xor(difference)).signed() < 0;
    flags.adjust = a.xor(b).xor(difference).wide() as u8;
    flags.result(difference);
    difference
}

#[inline(always)]
fn logic<W: Word>(flags: &mut Flags, value: W) -> W {
    (flags.carry, flags.overflow, flags.adjust) = (false, false, 0);
    flags.result(value);
    value
}

macro_rules! binary {
    ($name:ident, |$flags:ident, $a:ident, $b:ident| $body:expr $(, compares: $compares:literal)?) => {
        pub(crate) struct $name;
        impl Binary for $name {
            $(const COMPARES: bool = $compares;)?
            #[inline(always)]
            fn apply<W: Word>($flags: &mut Flags, $a: W, $b: W) -> Option<W> {
                $body
            }
        }
    };
}

binary!(Add, |flags, a, b| Some(add(flags, a, b, false)));
binary!(Adc, |flags, a, b| {
    let carry = flags.carry;
    Some(add(flags, a, b, carry))
});
binary!(Sub, |flags, a, b| Some(subtract(flags, a, b, false)));
binary!(Sbb, |flags, a, b| {
    let carry = flags.carry;
    Some(subtract(flags, a, b, carry))
});
binary!(Cmp, |flags, a, b| {
    subtract(flags, a, b, false);
    None
}, compares: true);
binary!(And, |flags, a, b| Some(logic(flags, a.and(b))));
binary!(Or, |flags, a, b| Some(logic(flags, a.or(b))));
binary!(Xor, |flags, a, b| Some(logic(flags, a.xor(b))));
binary!(Test, |flags, a, b| {
    logic(flags, a.and(b));
    None
}, compares: true);
binary!(Neg, |flags, a, _b| Some(subtract(flags, W::cut(0), a, false)));
binary!(Not, |_flags, a, _b| Some(a.xor(W::cut(u64::MAX))));
binary!(Inc, |flags, a, _b| {
    let carry = flags.carry;
    let sum = add(flags, a, W::cut(1), false);
    flags.carry = carry;
    Some(sum)
});
binary!(Dec, |flags, a, _b| {
    let carry = flags.carry;
    let difference = subtract(flags, a, W::cut(1), false);
    flags.carry = carry;
    Some(difference)
});

/// How far to shift: the count is taken modulo 64 for 64-bit operands, else modulo 32.
#[inline(always)]
fn shift_count<W: Word>(count: W) -> u32 {
    count.wide() as u32 & if W::BITS == 64 { 63 } else { 31 }
}

binary!(Shl, |flags, a, b| {
    let count = shift_count(b);
    if count == 0 {
        return Some(a);
    }
    let wide = a.wide();
    let value = W::cut(wide.checked_shl(count).unwrap_or(0));
    flags.carry = count <= W::BITS && wide >> (W::BITS - count) & 1 != 0;
    flags.overflow = (value.signed() < 0) != flags.carry;
    flags.adjust = 0;
    flags.result(value);
    Some(value)
});
binary!(Shr, |flags, a, b| {
    let count = shift_count(b);
    if count == 0 {
        return Some(a);
    }
    let value = W::cut(a.wide() >> count);
    flags.carry = a.wide() >> (count - 1) & 1 != 0;
    flags.overflow = a.signed() < 0;
    flags.adjust = 0;
    flags.result(value);
    Some(value)
});
binary!(Sar, |flags, a, b| {
    let count = shift_count(b);
    if count == 0 {
        return Some(a);
    }
    let value = W::cut((a.signed() >> count) as u64);
    flags.carry = a.signed() >> (count - 1) & 1 != 0;
    flags.overflow = false;
    flags.adjust = 0;
    flags.result(value);
    Some(value)
});
binary!(Rol, |flags, a, b| {
    let count = shift_count(b);
    if count == 0 {
        return Some(a);
    }
    let turn = count % W::BITS;
    let wide = a.wide();
    let value = if turn == 0 { a } else { W::cut(wide << turn | wide >> (W::BITS - turn)) };
    flags.carry = value.wide() & 1 != 0;
    flags.overflow = (value.signed() < 0) != flags.carry;
    Some(value)
});
binary!(Ror, |flags, a, b| {
    let count = shift_count(b);
    if count == 0 {
        return Some(a);
    }
    let turn = count % W::BITS;
    let wide = a.wide();
    let value = if turn == 0 { a } else { W::cut(wide >> turn | wide << (W::BITS - turn)) };
    flags.carry = value.signed() < 0;
    flags.overflow = flags.carry != (value.wide() >> (W::BITS - 2) & 1 != 0);
    Some(value)
});
binary!(Imul, |flags, a, b| {
    let product = i128::from(a.signed()) * i128::from(b.signed());
    let value = W::cut(product as u64);
    let lost = product != i128::from(value.signed());
    (flags.carry, flags.overflow) = (lost, lost);
    flags.result(value);
    Some(value)
});
binary!(Bsf, |flags, _a, b| {
    flags.result(b);
    // The target keeps its value, and all of it, where the source is 0.
    if b.wide() == 0 { None } else { Some(W::cut(u64::from(b.wide().trailing_zeros()))) }
});
binary!(Bsr, |flags, _a, b| {
    flags.result(b);
    if b.wide() == 0 { None } else { Some(W::cut(u64::from(63 - b.wide().leading_zeros()))) }
});
binary!(Tzcnt, |flags, _a, b| {
    let value = W::cut(u64::from(b.wide().trailing_zeros().min(W::BITS)));
    flags.carry = b.wide() == 0;
    flags.result(value);
    Some(value)
});

/// `mov`, which does not read its target.
pub(crate) struct Mov;
impl Family for Mov {
    #[inline(always)]
    fn run<W: Word, T: Place, S: Place, R: Reach>(cpu: &mut Cpu<'_>, op: &Op) -> bool {
        let Some(value) = S::read::<W, R>(cpu, op) else { return false };
        T::write::<W, R>(cpu, op, value)
    }
}

/// `imul` with three operands: source times immediate.
pub(crate) struct ImulBy;
impl Family for ImulBy {
    #[inline(always)]
    fn run<W: Word, T: Place, S: Place, R: Reach>(cpu: &mut Cpu<'_>, op: &Op) -> bool {
        let Some(value) = S::read::<W, R>(cpu, op) else { return false };
        match Imul::apply(&mut cpu.flags, value, W::cut(op.immediate)) {
            Some(product) => T::write::<W, R>(cpu, op, product),
            None => true,
        }
    }
}

/// Zero extension; the width is the source's and the target is written whole, or 16 bits of it.
pub(crate) struct Movzx;
impl Family for Movzx {
    #[inline(always)]
    fn run<W: Word, T: Place, S: Place, R: Reach>(cpu: &mut Cpu<'_>, op: &Op) -> bool {
        let Some(value) = S::read::<W, R>(cpu, op) else { return false };
        extended(cpu, op, value.wide())
    }
}

/// Sign extension.
pub(crate) struct Movsx;
impl Family for Movsx {
    #[inline(always)]
    fn run<W: Word, T: Place, S: Place, R: Reach>(cpu: &mut Cpu<'_>, op: &Op) -> bool {
        let Some(value) = S::read::<W, R>(cpu, op) else { return false };
        extended(cpu, op, value.signed() as u64)
    }
}

/// Writes a register of `extra` bytes.
#[inline(always)]
fn extended(cpu: &mut Cpu<'_>, op: &Op, value: u64) -> bool {
    match op.extra {
        8 => cpu.set_wide(op.target, value),
        4 => cpu.set_wide(op.target, value & 0xffff_ffff),
        _ => cpu.set(op.target, value as u16),
    }
    true
}

/// `cmov`; the condition is in `extra`. A 32-bit target is written, and so extended, in any case.
pub(crate) struct Cmov;
impl Family for Cmov {
    #[inline(always)]
    fn run<W: Word, T: Place, S: Place, R: Reach>(cpu: &mut Cpu<'_>, op: &Op) -> bool {
        let Some(value) = S::read::<W, R>(cpu, op) else { return false };
        let Some(old) = T::read::<W, R>(cpu, op) else { return false };
        let chosen = if cpu.flags.holds(op.extra) { value } else { old };
        T::write::<W, R>(cpu, op, chosen)
    }
}

/// `setcc`.
pub(crate) struct Set;
impl Family for Set {
    #[inline(always)]
    fn run<W: Word, T: Place, S: Place, R: Reach>(cpu: &mut Cpu<'_>, op: &Op) -> bool {
        let value = W::cut(u64::from(cpu.flags.holds(op.extra)));
        T::write::<W, R>(cpu, op, value)
    }
}

/// `xchg`.
pub(crate) struct Xchg;
impl Family for Xchg {
    #[inline(always)]
    fn run<W: Word, T: Place, S: Place, R: Reach>(cpu: &mut Cpu<'_>, op: &Op) -> bool {
        let Some(b) = S::read::<W, R>(cpu, op) else { return false };
        let Some(a) = T::read::<W, R>(cpu, op) else { return false };
        T::write::<W, R>(cpu, op, b) && S::write::<W, R>(cpu, op, a)
    }
}

/// `xadd`: the sum goes to the target, its old value to the source.
pub(crate) struct Xadd;
impl Family for Xadd {
    #[inline(always)]
    fn run<W: Word, T: Place, S: Place, R: Reach>(cpu: &mut Cpu<'_>, op: &Op) -> bool {
        let Some(b) = S::read::<W, R>(cpu, op) else { return false };
        let Some(a) = T::read::<W, R>(cpu, op) else { return false };
        let sum = add(&mut cpu.flags, a, b, false);
        // The source may be part of the target's address, or the target itself, which then gets the
        // sum.
        T::write::<W, R>(cpu, op, sum)
            && S::write::<W, R>(cpu, op, a)
            && (T::MEMORY || T::write::<W, R>(cpu, op, sum))
    }
}

/// `cmpxchg`.
pub(crate) struct Cmpxchg;
impl Family for Cmpxchg {
    #[inline(always)]
    fn run<W: Word, T: Place, S: Place, R: Reach>(cpu: &mut Cpu<'_>, op: &Op) -> bool {
        let Some(b) = S::read::<W, R>(cpu, op) else { return false };
        let Some(a) = T::read::<W, R>(cpu, op) else { return false };
        let expected = cpu.get::<W>(RAX);
        subtract(&mut cpu.flags, expected, a, false);
        if expected == a {
            return T::write::<W, R>(cpu, op, b);
        }
        cpu.set(RAX, a);
        true
    }
}

/// `mul` and, where `extra` is 1, `imul` with one operand: rdx:rax = rax × operand.
pub(crate) struct Multiply;
impl Family for Multiply {
    fn run<W: Word, T: Place, S: Place, R: Reach>(cpu: &mut Cpu<'_>, op: &Op) -> bool {
        let Some(b) = T::read::<W, R>(cpu, op) else { return false };
        let a = cpu.get::<W>(RAX);
        let signed = op.extra == 1;
        let product = if signed {
            (i128::from(a.signed()) * i128::from(b.signed())) as u128
        } else {
            u128::from(a.wide()) * u128::from(b.wide())
        };
        let (low, high) = (W::cut(product as u64), W::cut((product >> W::BITS) as u64));
        let lost =
            if signed { i128::from(low.signed()) != product as i128 } else { high.wide() != 0 };
        (cpu.flags.carry, cpu.flags.overflow) = (lost, lost);
        if W::BYTES == 1 {
            cpu.set(RAX, product as u16);
        } else {
            cpu.set(RAX, low);
            cpu.set(RDX, high);
        }
        true
    }
}

/// `div` and, where `extra` is 1, `idiv`.
pub(crate) struct Divide;
impl Family for Divide {
    fn run<W: Word, T: Place, S: Place, R: Reach>(cpu: &mut Cpu<'_>, op: &Op) -> bool {
        let Some(divisor) = T::read::<W, R>(cpu, op) else { return false };
        let (low, high) = if W::BYTES == 1 {
            let both = cpu.get::<u16>(RAX);
            (W::cut(u64::from(both)), W::cut(u64::from(both >> 8)))
        } else {
            (cpu.get::<W>(RAX), cpu.get::<W>(RDX))
        };
        let results = if op.extra == 1 {
            let dividend = (i128::from(high.signed()) << W::BITS) | i128::from(low.wide());
            let by = i128::from(divisor.signed());
            dividend.checked_div(by).zip(dividend.checked_rem(by)).and_then(|(quotient, rest)| {
                let cut = W::cut(quotient as u64);
                (i128::from(cut.signed()) == quotient).then(|| (cut, W::cut(rest as u64)))
            })
        } else {
            let dividend = (u128::from(high.wide()) << W::BITS) | u128::from(low.wide());
            let by = u128::from(divisor.wide());
            dividend.checked_div(by).zip(dividend.checked_rem(by)).and_then(|(quotient, rest)| {
                let cut = W::cut(quotient as u64);
                (u128::from(cut.wide()) == quotient).then(|| (cut, W::cut(rest as u64)))
            })
        };
        let Some((quotient, rest)) = results else { return cpu.end(Stop::Fault) };
        if W::BYTES == 1 {
            let both = quotient.wide() | rest.wide() << 8;
            cpu.set(RAX, both as u16);
        } else {
            cpu.set(RAX, quotient);
            cpu.set(RDX, rest);
        }
        true
    }
}

/// `lea` with a result of `extra` bytes.
pub(crate) fn lea(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let saved = cpu.address(op);
    extended(cpu, op, saved)
}

/// cbw, cwde and cdqe: sign-extends the low half of rax to `extra` bytes.
pub(crate) fn widen(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    match op.extra {
        2 => cpu.set(RAX, cpu.get::<u8>(RAX).signed() as u16),
        4 => cpu.set(RAX, cpu.get::<u16>(RAX).signed() as u32),
        _ => cpu.set(RAX, cpu.get::<u32>(RAX).signed() as u64),
    }
    true
}

/// cwd, cdq and cqo: fills rdx with the sign of rax.
pub(crate) fn spread(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    match op.extra {
        2 => cpu.set(RDX, (cpu.get::<u16>(RAX).signed() >> 15) as u16),
        4 => cpu.set(RDX, (cpu.get::<u32>(RAX).signed() >> 31) as u32),
        _ => cpu.set(RDX, (cpu.get::<u64>(RAX).signed() >> 63) as u64),
    }
    true
}

/// bswap of `extra` bytes.
pub(crate) fn bswap(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    if op.extra == 8 {
        cpu.set(op.target, cpu.get::<u64>(op.target).swap_bytes());
    } else {
        cpu.set(op.target, cpu.get::<u32>(op.target).swap_bytes());
    }
    true
}

/// What has no effect here: nop, endbr64, prefetches, fences, pause.
pub(crate) fn nothing(_: &mut Cpu<'_>, _: &Op) -> bool {
    true
}
