//! From a decoded instruction to an op.

use crate::arithmetic::*;
use crate::bits::{Bt, Btc, Btr, Bts, InString};
use crate::control;
use crate::family::{Family, Form, pick};
use crate::native::Native;
use crate::op::{Extent, JUMPS, Op, Run, Scaled, reaching, run};
use crate::state::{FS_BASE, GS_BASE, ZERO};
use crate::{processor, saved, string};
use iced_x86::{Code, ConditionCode, Instruction, Mnemonic, OpKind, Register};

/// Makes an instruction ready, as the first of a block. What has no model runs on the processor,
/// and what may not do that ends the look-ahead.
pub(crate) fn lower(instruction: &Instruction, native: &mut Native) -> Op {
    let mut op = Op {
        run: run!(control::unmodelled),
        displacement: 0,
        immediate: instruction.mnemonic() as u64,
        base: ZERO,
        index: ZERO,
        scaled: Scaled::new(0, ZERO),
        target: 0,
        source: 0,
        extra: 0,
        extent: Extent::default(),
    };
    if !addresses(instruction, &mut op) {
        return op;
    }
    match modelled(instruction, &mut op) {
        Some(run) => op.run = run,
        None => {
            // A fresh copy: what the attempt filled in means something else there.
            let immediate = instruction.mnemonic() as u64;
            op = Op { target: 0, source: 0, extra: 0, immediate, ..op };
            processor::lower(native, instruction, &mut op);
        }
    }
    op
}

/// Whether the interpreter does an instruction itself.
#[cfg(test)]
pub(crate) fn has_model(instruction: &Instruction, mut op: Op) -> bool {
    modelled(instruction, &mut op).is_some()
}

/// A general register's number in an op.
fn number(register: Register) -> Option<u8> {
    Some(match register {
        Register::AH => 16,
        Register::CH => 17,
        Register::DH => 18,
        Register::BH => 19,
        other if other.is_gpr() => other.full_register().number() as u8,
        _ => return None,
    })
}

/// Fills in the memory operand; false where its address is of an unusual kind.
fn addresses(instruction: &Instruction, op: &mut Op) -> bool {
    let memory =
        (0..instruction.op_count()).any(|index| instruction.op_kind(index) == OpKind::Memory);
    if !memory {
        return true;
    }
    let base = instruction.memory_base();
    op.displacement = instruction.memory_displacement64();
    let part = |register: Register| match register {
        Register::None => Some(ZERO),
        other if other.is_gpr64() => Some(other.number() as u8),
        // The index of a gather, which has no model and no stub.
        other if other.is_vector_register() => Some(ZERO),
        _ => None,
    };
    let base = if base == Register::RIP { Some(ZERO) } else { part(base) };
    let (Some(base), Some(index)) = (base, part(instruction.memory_index())) else { return false };
    (op.base, op.index) = (base, index);
    let scale = instruction.memory_index_scale().trailing_zeros() as u8;
    // `lea` computes without the segment.
    let segment = match instruction.memory_segment() {
        Register::FS if instruction.mnemonic() != Mnemonic::Lea => FS_BASE,
        Register::GS if instruction.mnemonic() != Mnemonic::Lea => GS_BASE,
        _ => ZERO,
    };
    op.scaled = Scaled::new(scale, segment);
    true
}

/// Bytes of an operand.
fn size(instruction: &Instruction, operand: u32) -> usize {
    match instruction.op_kind(operand) {
        OpKind::Register => instruction.op_register(operand).size(),
        OpKind::Memory => instruction.memory_size().size(),
        _ => 0,
    }
}

/// The function of a family for the first two operands; fills in registers and immediate.
fn two<F: Family>(instruction: &Instruction, op: &mut Op, bytes: usize) -> Option<Run> {
    use OpKind as K;
    let count = instruction.op_count();
    let (first, second) =
        (instruction.op0_kind(), if count > 1 { instruction.op1_kind() } else { K::Immediate8 });
    let near = op.index == ZERO && op.scaled.segment() == ZERO;
    let form = match (first, second) {
        (K::Register, K::Register) => Form::RegisterRegister,
        (K::Register, K::Memory) if near => Form::RegisterNear,
        (K::Register, K::Memory) => Form::RegisterMemory,
        (K::Memory, K::Register) if near => Form::NearRegister,
        (K::Memory, K::Register) => Form::MemoryRegister,
        (K::Register, _) => Form::RegisterImmediate,
        (K::Memory, _) if near => Form::NearImmediate,
        (K::Memory, _) => Form::MemoryImmediate,
        _ => return None,
    };
    if first == K::Register {
        op.target = number(instruction.op0_register())?;
    }
    if second == K::Register {
        op.source = number(instruction.op1_register())?;
    }
    let last = count.saturating_sub(1);
    if count > 1 && !matches!(instruction.op_kind(last), K::Register | K::Memory) {
        op.immediate = instruction.immediate(last);
    }
    pick::<F>(bytes, form)
}

/// A bit test; with the number in a register it may reach memory far from the operand.
fn bit<B: Binary>(instruction: &Instruction, op: &mut Op, bytes: usize) -> Option<Run> {
    match (instruction.op0_kind(), instruction.op1_kind()) {
        (OpKind::Memory, OpKind::Register) => two::<InString<B>>(instruction, op, bytes),
        _ => two::<Of<B>>(instruction, op, bytes),
    }
}

/// The function for an instruction that has a model.
fn modelled(instruction: &Instruction, op: &mut Op) -> Option<Run> {
    use Mnemonic as M;
    let name = instruction.mnemonic();
    if instruction.is_string_instruction() {
        return string::lower(instruction, op);
    }
    if let Some(run) = branch(instruction, op) {
        return Some(run);
    }
    let condition = instruction.condition_code();
    if condition != ConditionCode::None {
        op.extra = condition as u8 - 1;
    }
    let first = size(instruction, 0);
    match name {
        M::Mov => two::<Mov>(instruction, op, first),
        M::Movnti => two::<Mov>(instruction, op, first),
        M::Add => two::<Of<Add>>(instruction, op, first),
        M::Adc => two::<Of<Adc>>(instruction, op, first),
        M::Sub => two::<Of<Sub>>(instruction, op, first),
        M::Sbb => two::<Of<Sbb>>(instruction, op, first),
        M::Cmp => two::<Of<Cmp>>(instruction, op, first),
        M::And => two::<Of<And>>(instruction, op, first),
        M::Or => two::<Of<Or>>(instruction, op, first),
        M::Xor => two::<Of<Xor>>(instruction, op, first),
        M::Test => two::<Of<Test>>(instruction, op, first),
        M::Inc => two::<Of<Inc>>(instruction, op, first),
        M::Dec => two::<Of<Dec>>(instruction, op, first),
        M::Neg => two::<Of<Neg>>(instruction, op, first),
        M::Not => two::<Of<Not>>(instruction, op, first),
        M::Shl | M::Sal => two::<Of<Shl>>(instruction, op, first),
        M::Shr => two::<Of<Shr>>(instruction, op, first),
        M::Sar => two::<Of<Sar>>(instruction, op, first),
        M::Rol => two::<Of<Rol>>(instruction, op, first),
        M::Ror => two::<Of<Ror>>(instruction, op, first),
        M::Bsf => two::<Of<Bsf>>(instruction, op, first),
        M::Bsr => two::<Of<Bsr>>(instruction, op, first),
        M::Tzcnt => two::<Of<Tzcnt>>(instruction, op, first),
        M::Bt => bit::<Bt>(instruction, op, first),
        M::Bts => bit::<Bts>(instruction, op, first),
        M::Btr => bit::<Btr>(instruction, op, first),
        M::Btc => bit::<Btc>(instruction, op, first),
        M::Imul if instruction.op_count() == 3 => two::<ImulBy>(instruction, op, first),
        M::Imul if instruction.op_count() == 2 => two::<Of<Imul>>(instruction, op, first),
        M::Imul => {
            op.extra = 1;
            two::<Multiply>(instruction, op, first)
        }
        M::Mul => two::<Multiply>(instruction, op, first),
        M::Div => two::<Divide>(instruction, op, first),
        M::Idiv => {
            op.extra = 1;
            two::<Divide>(instruction, op, first)
        }
        M::Movzx => {
            op.extra = first as u8;
            two::<Movzx>(instruction, op, size(instruction, 1))
        }
        M::Movsx | M::Movsxd => {
            op.extra = first as u8;
            two::<Movsx>(instruction, op, size(instruction, 1))
        }
        M::Xchg => two::<Xchg>(instruction, op, first),
        M::Xadd => two::<Xadd>(instruction, op, first),
        M::Cmpxchg => two::<Cmpxchg>(instruction, op, first),
        _ if condition != ConditionCode::None
            && instruction.op_count() == 2
            && instruction.op0_register().is_gpr() =>
        {
            two::<Cmov>(instruction, op, first)
        }
        _ if condition != ConditionCode::None && instruction.op_count() == 1 => {
            two::<Set>(instruction, op, first)
        }
        _ => simple(instruction, op, first),
    }
}

/// Instructions of one operand or none.
fn simple(instruction: &Instruction, op: &mut Op, first: usize) -> Option<Run> {
    use Mnemonic as M;
    let mut with = |extra: u8, run: Run| {
        op.extra = extra;
        Some(run)
    };
    match instruction.mnemonic() {
        M::Lea => {
            op.target = number(instruction.op0_register())?;
            op.extra = first as u8;
            Some(run!(lea))
        }
        M::Cbw => with(2, run!(widen)),
        M::Cwde => with(4, run!(widen)),
        M::Cdqe => with(8, run!(widen)),
        M::Cwd => with(2, run!(spread)),
        M::Cdq => with(4, run!(spread)),
        M::Cqo => with(8, run!(spread)),
        M::Bswap if first >= 4 => {
            op.target = number(instruction.op0_register())?;
            op.extra = first as u8;
            Some(run!(bswap))
        }
        M::Cld => with(0, run!(control::direction)),
        M::Std => with(1, run!(control::direction)),
        M::Clc => with(0, run!(control::carry)),
        M::Stc => with(1, run!(control::carry)),
        M::Cmc => with(2, run!(control::carry)),
        M::Pushfq => Some(run!(control::push_flags)),
        M::Popfq => Some(run!(control::pop_flags)),
        M::Leave => (instruction.code() == Code::Leaveq).then_some(reaching!(control::leave)),
        M::Push => push(instruction, op, first),
        M::Pop => pop(instruction, op, first),
        M::Vzeroupper => Some(run!(processor::zero_upper)),
        M::Vzeroall => Some(run!(processor::zero_all)),
        M::Ldmxcsr | M::Vldmxcsr => Some(run!(processor::load_mxcsr)),
        M::Stmxcsr | M::Vstmxcsr => Some(run!(processor::store_mxcsr)),
        M::Fldcw => Some(run!(processor::load_x87_control)),
        // Exceptions are masked, so none waits.
        M::Wait => Some(run!(nothing)),
        M::Rdsspd | M::Rdsspq => Some(run!(processor::read_shadow_stack_pointer)),
        M::Xsave
        | M::Xsave64
        | M::Xsavec
        | M::Xsavec64
        | M::Xsaveopt
        | M::Xsaveopt64
        | M::Fxsave
        | M::Fxsave64 => Some(run!(saved::save)),
        M::Xrstor | M::Xrstor64 | M::Fxrstor | M::Fxrstor64 => Some(run!(saved::restore)),
        M::Rdfsbase => base(instruction, op, FS_BASE, false),
        M::Rdgsbase => base(instruction, op, GS_BASE, false),
        M::Wrfsbase => base(instruction, op, FS_BASE, true),
        M::Wrgsbase => base(instruction, op, GS_BASE, true),
        M::Nop
        | M::Endbr64
        | M::Pause
        | M::Lfence
        | M::Mfence
        | M::Sfence
        | M::Clflush
        | M::Clflushopt => Some(run!(nothing)),
        M::Prefetcht0
        | M::Prefetcht1
        | M::Prefetcht2
        | M::Prefetchnta
        | M::Prefetchw
        | M::Prefetch => Some(run!(nothing)),
        M::Ud2 | M::Int3 | M::Hlt | M::Ud1 | M::Int1 | M::INVALID => Some(run!(control::fault)),
        other => processor::machine(other),
    }
}

/// rdfsbase and its kin are moves from and to the registers that hold the bases.
fn base(instruction: &Instruction, op: &mut Op, which: u8, write: bool) -> Option<Run> {
    let register = number(instruction.op0_register())?;
    (op.target, op.source) = if write { (which, register) } else { (register, which) };
    pick::<Mov>(size(instruction, 0), Form::RegisterRegister)
}

fn push(instruction: &Instruction, op: &mut Op, first: usize) -> Option<Run> {
    if instruction.stack_pointer_increment() != -8 {
        return None;
    }
    match instruction.op0_kind() {
        OpKind::Register if first == 8 => {
            op.source = number(instruction.op0_register())?;
            Some(reaching!(control::push_register))
        }
        OpKind::Memory => Some(reaching!(control::push_memory)),
        OpKind::Register => None,
        _ => {
            op.immediate = instruction.immediate(0);
            Some(reaching!(control::push_immediate))
        }
    }
}

fn pop(instruction: &Instruction, op: &mut Op, first: usize) -> Option<Run> {
    match instruction.op0_kind() {
        OpKind::Register if first == 8 => {
            op.target = number(instruction.op0_register())?;
            Some(reaching!(control::pop_register))
        }
        OpKind::Memory if first == 8 => Some(run!(control::pop_memory)),
        _ => None,
    }
}

/// Whatever may not go on with the next instruction.
fn branch(instruction: &Instruction, op: &mut Op) -> Option<Run> {
    use Mnemonic as M;
    let kind = instruction.op0_kind();
    let near = kind == OpKind::NearBranch64;
    if near {
        op.immediate = instruction.near_branch64();
    }
    let register = kind == OpKind::Register;
    if register && matches!(instruction.mnemonic(), M::Jmp | M::Call) {
        op.source = number(instruction.op0_register())?;
    }
    match instruction.mnemonic() {
        _ if instruction.is_jcc_short_or_near() && near => {
            op.base = JUMPS + (instruction.condition_code() as u8).wrapping_sub(1) % 16;
            Some(run!(control::conditional))
        }
        M::Jmp if near => Some(run!(control::jump)),
        M::Call if near => Some(reaching!(control::call)),
        M::Jmp if instruction.is_jmp_near_indirect() => Some(if register {
            run!(control::jump_register)
        } else {
            reaching!(control::jump_memory)
        }),
        M::Call if instruction.is_call_near_indirect() => Some(if register {
            reaching!(control::call_register)
        } else {
            reaching!(control::call_memory)
        }),
        M::Ret => {
            op.immediate =
                if instruction.op_count() == 1 { instruction.immediate(0) & 0xffff } else { 0 };
            Some(reaching!(control::ret))
        }
        M::Jrcxz => Some(run!(control::count_down)),
        // With a prefix they count in ecx.
        M::Loop | M::Loope | M::Loopne if near && !counts_in_ecx(instruction) => {
            op.extra = match instruction.mnemonic() {
                M::Loop => 1,
                M::Loope => 2,
                _ => 3,
            };
            Some(run!(control::count_down))
        }
        M::Syscall | M::Sysenter | M::Int => Some(run!(control::system_call)),
        _ => None,
    }
}

fn counts_in_ecx(instruction: &Instruction) -> bool {
    matches!(
        instruction.code(),
        Code::Loop_rel8_64_ECX | Code::Loope_rel8_64_ECX | Code::Loopne_rel8_64_ECX
    )
}
