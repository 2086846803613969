//! Instructions without a model of their own run on the processor itself: a stub loads the
//! registers that the instruction names, runs it with its memory operand replaced by a pointer to
//! the copy, and stores what it wrote.
//!
//! So vector code means exactly what it means in the thread, for whatever this processor has. Only
//! instructions that cannot reach anything but their named operands get a stub.
//!
//! Convention: a stub is called as `extern "sysv64" fn(state, memory)`, and `memory` has as many
//! bytes as its instruction's operand ([`Op::extra`]).

use crate::Stop;
use crate::cpu::{Cpu, State, Vector};
use crate::flags::{Flags, bit};
use crate::op::{self, Op};
use crate::sys::{self, Arena, X87Image};
use crate::vectors::Widest;
use iced_x86::{
    Code, CpuidFeature, Encoder, Instruction, InstructionInfoFactory, MemoryOperand, Mnemonic,
    OpAccess, OpKind, Register,
};
use rustc_hash::FxHashMap;
use std::mem::offset_of;

/// Room for stubs; one takes 50 to 150 bytes.
const ARENA_BYTES: usize = 4 << 20;
/// A memory operand is at most a vector register.
const MOST_OPERAND_BYTES: usize = 64;
/// Bits of [`Op::source`] in a native op.
mod trait_bit {
    pub(super) const READS_FLAGS: u8 = 1;
    pub(super) const WRITES_FLAGS: u8 = 2;
    pub(super) const WRITES_MEMORY: u8 = 4;
    /// The operand must lie at a multiple of its size.
    pub(super) const ALIGNED: u8 = 8;
    /// The instruction uses the x87 or MMX registers.
    pub(super) const X87: u8 = 16;
}

/// The stubs, and the state that lives in the processor while they are used.
pub(crate) struct Native {
    arena: Option<Arena>,
    stubs: FxHashMap<Vec<u8>, u32>,
    info: InstructionInfoFactory,
    encoder: Encoder,
    widest: Widest,
    /// Room for a memory operand that cannot be used where it lies.
    bounce: Vector,
    pub x87: Box<X87Image>,
    pub x87_loaded: bool,
    /// What xsave put away.
    pub saved: Vec<crate::saved::Saved>,
    /// Whether it was found full: everything made so far has to be forgotten.
    pub full: bool,
}

impl Native {
    pub(crate) fn new() -> Native {
        Native {
            arena: Arena::new(ARENA_BYTES),
            stubs: FxHashMap::default(),
            info: InstructionInfoFactory::new(),
            encoder: Encoder::new(64),
            widest: Widest::here(),
            bounce: Vector([0; 64]),
            x87: Box::new(X87Image([0; 512])),
            x87_loaded: false,
            saved: Vec::new(),
            full: false,
        }
    }

    /// Forgets all stubs. Ops that name one must be forgotten with them.
    pub(crate) fn clear(&mut self) {
        self.full = false;
        self.stubs.clear();
        if let Some(arena) = &mut self.arena {
            arena.clear();
        }
    }

    /// Makes an op run on the processor; false where it must not or cannot.
    pub(crate) fn lower(&mut self, instruction: &Instruction, op: &mut Op) -> bool {
        crate::allowed::natively(instruction) && self.lower_any(instruction, op)
    }

    /// The same for an instruction that is known to be harmless.
    pub(crate) fn lower_any(&mut self, instruction: &Instruction, op: &mut Op) -> bool {
        let Some((code, size, traits)) = self.stub(instruction) else { return false };
        let Some(arena) = &mut self.arena else { return false };
        let at = match self.stubs.get(&code) {
            Some(at) => *at,
            None => {
                let Some(at) = arena.place(&code) else {
                    self.full = true;
                    return false;
                };
                self.stubs.insert(code, at);
                at
            }
        };
        (op.run, op.immediate, op.extra, op.source) =
            (op::run!(run), u64::from(at), size as u8, traits);
        true
    }

    /// The code of a stub, the bytes of its memory operand, and its traits.
    fn stub(&mut self, instruction: &Instruction) -> Option<(Vec<u8>, usize, u8)> {
        let mut inner = *instruction;
        let memory = (0..inner.op_count()).any(|index| inner.op_kind(index) == OpKind::Memory);
        inner.set_memory_base(Register::None);
        inner.set_memory_index(Register::None);
        inner.set_segment_prefix(Register::None);
        let size = if memory { inner.memory_size().size() } else { 0 };
        if memory && !(1..=MOST_OPERAND_BYTES).contains(&size) {
            return None;
        }
        let mut traits = 0;
        let info = self.info.info(&inner);
        if info.used_memory().len() != usize::from(memory) {
            return None;
        }
        let writes = |access: OpAccess| {
            matches!(
                access,
                OpAccess::Write
                    | OpAccess::CondWrite
                    | OpAccess::ReadWrite
                    | OpAccess::ReadCondWrite
            )
        };
        if info.used_memory().iter().any(|used| writes(used.access())) {
            traits |= trait_bit::WRITES_MEMORY;
        }
        let mut used = Used::default();
        for register in info.used_registers() {
            used.add(register.register(), writes(register.access()))?;
        }
        if used.x87
            || instruction
                .cpuid_features()
                .iter()
                .any(|of| matches!(of, CpuidFeature::FPU | CpuidFeature::MMX))
        {
            traits |= trait_bit::X87;
        }
        if inner.rflags_read() != 0 {
            traits |= trait_bit::READS_FLAGS;
        }
        if inner.rflags_modified() != 0 {
            traits |= trait_bit::READS_FLAGS | trait_bit::WRITES_FLAGS;
        }
        if crate::allowed::wants_alignment(instruction, size) {
            traits |= trait_bit::ALIGNED;
        }
        // Low registers, since an instruction that names ah cannot name r8.
        let mut free = [
            Register::RSI,
            Register::RDI,
            Register::RBX,
            Register::RCX,
            Register::RDX,
            Register::RAX,
        ]
        .into_iter()
        .chain([Register::RBP])
        .filter(|register| !used.general.iter().any(|(known, _)| known == register));
        let (pointer, state) = (free.next()?, free.next()?);
        if memory {
            inner.set_memory_base(pointer);
            inner.set_memory_displacement64(0);
            inner.set_memory_displ_size(0);
            inner.set_memory_index_scale(1);
        }
        let code = self.encode(&inner, &used, pointer, state, traits)?;
        Some((code, size, traits))
    }

    fn encode(
        &mut self,
        inner: &Instruction,
        used: &Used,
        pointer: Register,
        state: Register,
        traits: u8,
    ) -> Option<Vec<u8>> {
        const KEPT: [Register; 6] = [
            Register::RBX,
            Register::RBP,
            Register::R12,
            Register::R13,
            Register::R14,
            Register::R15,
        ];
        let at = |offset: usize| MemoryOperand::with_base_displ(state, offset as i64);
        let mut list: Vec<Result<Instruction, iced_x86::IcedError>> = Vec::new();
        let touched = |register: &Register| {
            *register == pointer
                || *register == state
                || used.general.iter().any(|(known, _)| known == register)
        };
        let kept: Vec<Register> = KEPT.into_iter().filter(touched).collect();
        for register in &kept {
            list.push(Instruction::with1(Code::Push_r64, *register));
        }
        // The arguments come in rdi and rsi, which may be the other's place.
        list.push(Instruction::with1(Code::Push_r64, Register::RSI));
        list.push(Instruction::with2(Code::Mov_r64_rm64, state, Register::RDI));
        list.push(Instruction::with1(Code::Pop_r64, pointer));
        if traits & trait_bit::READS_FLAGS != 0 {
            list.push(Instruction::with1(Code::Push_rm64, at(offset_of!(State, flags_image))));
            list.push(Ok(Instruction::with(Code::Popfq)));
        }
        let (load, store) = self.widest.moves();
        let vector = |register: Register| offset_of!(State, vectors) + register.number() * 64;
        let mask = |register: Register| offset_of!(State, masks) + register.number() * 8;
        let general = |register: Register| offset_of!(State, gpr) + register.number() * 8;
        for (register, _) in &used.vectors {
            list.push(Instruction::with2(
                load,
                self.widest.register(*register),
                at(vector(*register)),
            ));
        }
        for (register, _) in &used.masks {
            list.push(Instruction::with2(Code::VEX_Kmovq_kr_km64, *register, at(mask(*register))));
        }
        for (register, _) in &used.general {
            list.push(Instruction::with2(Code::Mov_r64_rm64, *register, at(general(*register))));
        }
        list.push(Ok(*inner));
        for (register, _) in used.general.iter().filter(|(_, written)| *written) {
            list.push(Instruction::with2(Code::Mov_rm64_r64, at(general(*register)), *register));
        }
        for (register, _) in used.masks.iter().filter(|(_, written)| *written) {
            list.push(Instruction::with2(Code::VEX_Kmovq_m64_kr, at(mask(*register)), *register));
        }
        for (register, _) in used.vectors.iter().filter(|(_, written)| *written) {
            list.push(Instruction::with2(
                store,
                at(vector(*register)),
                self.widest.register(*register),
            ));
        }
        if traits & trait_bit::WRITES_FLAGS != 0 {
            list.push(Ok(Instruction::with(Code::Pushfq)));
            list.push(Instruction::with1(Code::Pop_rm64, at(offset_of!(State, flags_image))));
        }
        if !used.vectors.is_empty() && self.widest != Widest::Sse {
            list.push(Ok(Instruction::with(Code::VEX_Vzeroupper)));
        }
        for register in kept.iter().rev() {
            list.push(Instruction::with1(Code::Pop_r64, *register));
        }
        list.push(Ok(Instruction::with(Code::Retnq)));
        for instruction in list {
            // What the encoder does not take gets no stub.
            self.encoder.encode(&instruction.ok()?, 0).ok()?;
        }
        Some(self.encoder.take_buffer())
    }
}

/// The registers that an instruction names, each once, and whether it writes it.
#[derive(Default)]
struct Used {
    general: Vec<(Register, bool)>,
    vectors: Vec<(Register, bool)>,
    masks: Vec<(Register, bool)>,
    x87: bool,
}

impl Used {
    fn add(&mut self, register: Register, written: bool) -> Option<()> {
        let list = if register.is_gpr() {
            &mut self.general
        } else if register.is_vector_register() {
            &mut self.vectors
        } else if register.is_k() {
            &mut self.masks
        } else if register.is_st() || register.is_mm() {
            self.x87 = true;
            return Some(());
        } else if register.is_segment_register() && !written {
            return Some(());
        } else {
            return None;
        };
        let full = register.full_register();
        if full == Register::RSP {
            return None;
        }
        match list.iter_mut().find(|(known, _)| *known == full) {
            Some(known) => known.1 |= written,
            None => list.push((full, written)),
        }
        Some(())
    }
}

/// Runs an instruction through its stub.
fn run(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let size = usize::from(op.extra);
    let has = |bit: u8| op.source & bit != 0;
    if has(trait_bit::READS_FLAGS) {
        cpu.state.flags_image = cpu.flags.image() & bit::STATUS | 0x202;
    }
    if has(trait_bit::X87) {
        load_x87(cpu);
    }
    let stub = op.immediate as u32;
    let address = if size == 0 { 0 } else { cpu.address(op) };
    let Native { arena: Some(arena), bounce, .. } = &mut *cpu.native else {
        return cpu.end(Stop::Fault);
    };
    if size == 0 {
        arena.call(stub, cpu.state, &mut []);
    } else {
        let aligned = !has(trait_bit::ALIGNED) || address.is_multiple_of(size as u64);
        match cpu.pages.rest_of_page(cpu.source, address) {
            Some(bytes) if bytes.len() >= size && aligned => arena.call(stub, cpu.state, bytes),
            Some(_) => {
                let Some(room) = bounce.0.get_mut(..size) else { return false };
                if cpu.pages.copy_out(cpu.source, address, room).is_none() {
                    cpu.unreadable(address);
                    return false;
                }
                arena.call(stub, cpu.state, room);
                if has(trait_bit::WRITES_MEMORY)
                    && cpu.pages.copy_in(cpu.source, address, room).is_none()
                {
                    cpu.unreadable(address);
                    return false;
                }
            }
            None => {
                cpu.unreadable(address);
                return false;
            }
        }
    }
    if has(trait_bit::WRITES_FLAGS) {
        let kept = cpu.flags.image() & !bit::STATUS;
        cpu.flags = Flags::from_image(cpu.state.flags_image & bit::STATUS | kept);
    }
    true
}

/// Brings the x87 registers of the thread into the processor.
fn load_x87(cpu: &mut Cpu<'_>) {
    if !cpu.native.x87_loaded {
        sys::load_x87(&cpu.native.x87);
        cpu.native.x87_loaded = true;
    }
}

/// fldcw, with exceptions masked.
pub(crate) fn load_x87_control(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let address = cpu.address(op);
    let Some(value) = cpu.load::<u16>(address) else { return false };
    load_x87(cpu);
    sys::set_x87_control(value);
    true
}

/// rdsspd and rdsspq, which do nothing where there is no shadow stack.
pub(crate) fn read_shadow_stack_pointer(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    !cpu.source.has_shadow_stack() || cpu.end(Stop::Unmodelled { mnemonic: op.mnemonic() })
}

/// ldmxcsr, with exceptions masked.
pub(crate) fn load_mxcsr(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let address = cpu.address(op);
    let Some(value) = cpu.load::<u32>(address) else { return false };
    if value & !sys::MXCSR_KNOWN != 0 {
        return cpu.end(Stop::Fault);
    }
    sys::set_mxcsr(value);
    true
}

/// stmxcsr.
pub(crate) fn store_mxcsr(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let address = cpu.address(op);
    cpu.store(address, sys::mxcsr())
}

/// Whether a mnemonic is one of those that say what the machine or the time is, and its function.
pub(crate) fn machine(mnemonic: Mnemonic) -> Option<crate::op::Run> {
    Some(match mnemonic {
        Mnemonic::Cpuid => op::run!(cpuid),
        Mnemonic::Rdtsc => op::run!(time_stamp),
        Mnemonic::Rdtscp => op::run!(time_stamp_and_cpu),
        Mnemonic::Xgetbv => op::run!(extended_control),
        _ => return None,
    })
}

/// Leaves of `cpuid` that hold the number of the CPU they are asked on (its APIC ID): Intel SDM
/// volume 2A, `CPUID`; AMD APM volume 3, appendix E.
const NAMES_THE_CPU: [u32; 4] = [1, 0xb, 0x1f, 0x8000_001e];

fn cpuid(cpu: &mut Cpu<'_>, _: &Op) -> bool {
    use crate::cpu::{RAX, RCX, RDX};
    let leaf = cpu.get(RAX);
    let found = sys::cpuid(leaf, cpu.get(RCX));
    // As with a clock, the thread may see another value: it may have moved to another CPU.
    cpu.pages.clock_read |= NAMES_THE_CPU.contains(&leaf);
    for (register, value) in [RAX, 3, RCX, RDX].into_iter().zip(found) {
        cpu.set(register, value);
    }
    true
}

fn time_stamp(cpu: &mut Cpu<'_>, _: &Op) -> bool {
    use crate::cpu::{RAX, RDX};
    cpu.pages.clock_read = true;
    let (stamp, _) = sys::time_stamp();
    cpu.set(RAX, stamp as u32);
    cpu.set(RDX, (stamp >> 32) as u32);
    true
}

fn time_stamp_and_cpu(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let (_, aux) = sys::time_stamp();
    cpu.set(crate::cpu::RCX, aux);
    time_stamp(cpu, op)
}

fn extended_control(cpu: &mut Cpu<'_>, _: &Op) -> bool {
    use crate::cpu::{RAX, RCX, RDX};
    if cpu.get::<u32>(RCX) != 0 {
        return cpu.end(Stop::Fault);
    }
    let value = sys::extended_control(0);
    cpu.set(RAX, value as u32);
    cpu.set(RDX, (value >> 32) as u32);
    true
}
