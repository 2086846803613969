//! String instructions, one or repeated.
//!
//! Source: Intel SDM volume 1, §7.3.9, and volume 2 on each of them.

use crate::Stop;
use crate::arithmetic::{Binary, Cmp};
use crate::cpu::Cpu;
use crate::op::{self, Op, Run};
use crate::state::{RAX, RCX, RDI, RSI};
use crate::word::Word;
use iced_x86::{Instruction, Mnemonic, OpKind};

/// Bytes that one repeated instruction may touch: what takes longer than a stop may last ends the
/// look-ahead.
const MOST_BYTES: u64 = 4 << 20;

/// Which instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Kind {
    Move,
    Store,
    Load,
    Scan,
    Compare,
}

/// Set in `extra`: repeated; and while the elements are the same, or differ.
const REPEATED: u8 = 1;
const WHILE_EQUAL: u8 = 2;

/// The function for an element of so many bytes.
fn pick(kind: Kind, bytes: usize) -> Option<Run> {
    Some(match bytes {
        1 => of::<u8>(kind),
        2 => of::<u16>(kind),
        4 => of::<u32>(kind),
        8 => of::<u64>(kind),
        _ => return None,
    })
}

fn of<W: Word>(kind: Kind) -> Run {
    match kind {
        Kind::Move => moved::<W>,
        Kind::Store => each::<W, { Kind::Store as u8 }>,
        Kind::Load => each::<W, { Kind::Load as u8 }>,
        Kind::Scan => each::<W, { Kind::Scan as u8 }>,
        Kind::Compare => each::<W, { Kind::Compare as u8 }>,
    }
}

fn moved<W: Word>(cpu: &mut Cpu<'_>, ops: &[Op]) -> bool {
    op::one_and_on(cpu, ops, move_elements::<W>)
}

fn each<W: Word, const KIND: u8>(cpu: &mut Cpu<'_>, ops: &[Op]) -> bool {
    op::one_and_on(cpu, ops, elements::<W, KIND>)
}

/// How many elements; ends the look-ahead where there are too many.
fn count<W: Word>(cpu: &mut Cpu<'_>, op: &Op) -> Option<u64> {
    if op.extra & REPEATED == 0 {
        return Some(1);
    }
    let count = cpu.wide(RCX);
    let bytes = count.saturating_mul(W::BYTES as u64);
    if bytes > MOST_BYTES {
        cpu.stop = Some(Stop::Long);
        return None;
    }
    cpu.patience = cpu.patience.saturating_sub(bytes / 64);
    Some(count)
}

fn step<W: Word>(cpu: &Cpu<'_>) -> u64 {
    if cpu.flags.down { (W::BYTES as u64).wrapping_neg() } else { W::BYTES as u64 }
}

/// movs: copies page by page where source and target do not overlap, else element by element, as
/// the processor does.
fn move_elements<W: Word>(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let Some(count) = count::<W>(cpu, op) else { return false };
    let (from, to) = (cpu.wide(RSI), cpu.wide(RDI));
    let bytes = count * W::BYTES as u64;
    let apart = from.wrapping_sub(to) >= bytes && to.wrapping_sub(from) >= bytes;
    let step = step::<W>(cpu);
    if apart && !cpu.flags.down {
        let mut done = 0;
        let mut room = [0u8; 4096];
        while done < bytes {
            let part = (bytes - done).min(4096) as usize;
            let Some(room) = room.get_mut(..part) else { return false };
            let (source, target) = (from.wrapping_add(done), to.wrapping_add(done));
            if cpu.pages.copy_out(cpu.source, source, room).is_none() {
                cpu.unreadable(source);
                return false;
            }
            if cpu.pages.copy_in(cpu.source, target, room).is_none() {
                cpu.unreadable(target);
                return false;
            }
            done += part as u64;
        }
    } else {
        for at in 0..count {
            let moved = step.wrapping_mul(at);
            let Some(value) = cpu.load::<W>(from.wrapping_add(moved)) else { return false };
            if !cpu.store(to.wrapping_add(moved), value) {
                return false;
            }
        }
    }
    let moved = step.wrapping_mul(count);
    cpu.set_wide(RSI, cpu.wide(RSI).wrapping_add(moved));
    cpu.set_wide(RDI, to.wrapping_add(moved));
    if op.extra & REPEATED != 0 {
        cpu.set_wide(RCX, 0);
    }
    true
}

/// The other string instructions.
fn elements<W: Word, const KIND: u8>(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let Some(mut left) = count::<W>(cpu, op) else { return false };
    let step = step::<W>(cpu);
    let (loads, scans, compares) =
        (KIND == Kind::Load as u8, KIND == Kind::Scan as u8, KIND == Kind::Compare as u8);
    let repeated = op.extra & REPEATED != 0;
    while left > 0 {
        let (from, to) = (cpu.wide(RSI), cpu.wide(RDI));
        if loads {
            let Some(value) = cpu.load::<W>(from) else { return false };
            cpu.set(RAX, value);
        } else if scans || compares {
            let Some(b) = cpu.load::<W>(to) else { return false };
            let a = if scans { Some(cpu.get(RAX)) } else { cpu.load::<W>(from) };
            let Some(a) = a else { return false };
            Cmp::apply(&mut cpu.flags, a, b);
        } else {
            let value = cpu.get::<W>(RAX);
            if !cpu.store(to, value) {
                return false;
            }
        }
        if loads || compares {
            cpu.set_wide(RSI, from.wrapping_add(step));
        }
        if !loads {
            cpu.set_wide(RDI, to.wrapping_add(step));
        }
        left -= 1;
        if repeated {
            cpu.set_wide(RCX, left);
        }
        let wanted = op.extra & WHILE_EQUAL != 0;
        if repeated && (scans || compares) && (cpu.flags.zero == 0) != wanted {
            break;
        }
    }
    true
}

/// The function for a string instruction.
pub(crate) fn lower(instruction: &Instruction, op: &mut Op) -> Option<Run> {
    use Mnemonic as M;
    let (kind, bytes) = match instruction.mnemonic() {
        M::Movsb => (Kind::Move, 1),
        M::Movsw => (Kind::Move, 2),
        M::Movsd => (Kind::Move, 4),
        M::Movsq => (Kind::Move, 8),
        M::Stosb => (Kind::Store, 1),
        M::Stosw => (Kind::Store, 2),
        M::Stosd => (Kind::Store, 4),
        M::Stosq => (Kind::Store, 8),
        M::Lodsb => (Kind::Load, 1),
        M::Lodsw => (Kind::Load, 2),
        M::Lodsd => (Kind::Load, 4),
        M::Lodsq => (Kind::Load, 8),
        M::Scasb => (Kind::Scan, 1),
        M::Scasw => (Kind::Scan, 2),
        M::Scasd => (Kind::Scan, 4),
        M::Scasq => (Kind::Scan, 8),
        M::Cmpsb => (Kind::Compare, 1),
        M::Cmpsw => (Kind::Compare, 2),
        M::Cmpsd => (Kind::Compare, 4),
        M::Cmpsq => (Kind::Compare, 8),
        _ => return None,
    };
    // Another segment, or 32-bit addresses.
    let usual = |index: u32| {
        !matches!(
            instruction.op_kind(index),
            OpKind::MemorySegESI | OpKind::MemoryESEDI | OpKind::MemorySegSI | OpKind::MemoryESDI
        )
    };
    if instruction.has_segment_prefix() || !(0..instruction.op_count()).all(usual) {
        return Some(op::run!(crate::control::unmodelled));
    }
    if instruction.has_rep_prefix() || instruction.has_repne_prefix() {
        op.extra = REPEATED;
    }
    if !instruction.has_repne_prefix() {
        op.extra |= WHILE_EQUAL;
    }
    pick(kind, bytes)
}
