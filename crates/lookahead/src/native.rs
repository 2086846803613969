//! Stubs, which run one instruction on the processor itself: a stub loads the registers that the
//! instruction names, runs it with its memory operand replaced by a pointer to the copy, and stores
//! what it wrote.
//!
//! So vector code means exactly what it means in the thread, for whatever this processor has. Only
//! instructions that cannot reach anything but their named operands get a stub.
//!
//! Convention: a stub is called as `extern "sysv64" fn(state, memory)`, and `memory` has as many
//! bytes as its instruction's operand.

use crate::allowed;
use crate::state::{Saved, State, Vector};
use crate::sys::{Arena, X87Image};
use crate::vectors::Widest;
use iced_x86::{
    Code, CpuidFeature, Encoder, Instruction, InstructionInfoFactory, MemoryOperand, OpAccess,
    OpKind, Register,
};
use rustc_hash::FxHashMap;
use std::mem::offset_of;

/// Room for stubs; one takes 50 to 150 bytes.
const ARENA_BYTES: usize = 4 << 20;
/// A memory operand is at most a vector register.
const MOST_OPERAND_BYTES: usize = 64;
/// What has to be done around a stub, as bits of a byte.
#[derive(Clone, Copy, Default)]
pub(crate) struct Traits(pub u8);

impl Traits {
    pub(crate) const READS_FLAGS: Traits = Traits(1);
    pub(crate) const WRITES_FLAGS: Traits = Traits(2);
    pub(crate) const WRITES_MEMORY: Traits = Traits(4);
    /// The operand must lie at a multiple of its size.
    pub(crate) const ALIGNED: Traits = Traits(8);
    /// The instruction uses the x87 or MMX registers.
    pub(crate) const X87: Traits = Traits(16);

    #[inline(always)]
    pub(crate) fn has(self, one: Traits) -> bool {
        self.0 & one.0 != 0
    }

    fn set(&mut self, one: Traits, on: bool) {
        self.0 |= if on { one.0 } else { 0 };
    }
}

/// A stub in its place.
pub(crate) struct Stub {
    /// Where it lies among the stubs.
    pub at: u32,
    /// Bytes of its memory operand; 0 where it has none.
    pub operand_bytes: u8,
    pub traits: Traits,
}

/// The stubs, and the state that lives in the processor while they are used.
pub(crate) struct Native {
    pub arena: Option<Arena>,
    stubs: FxHashMap<Vec<u8>, u32>,
    info: InstructionInfoFactory,
    encoder: Encoder,
    widest: Widest,
    /// Room for a memory operand that cannot be used where it lies.
    pub bounce: Vector,
    pub x87: Box<X87Image>,
    pub x87_loaded: bool,
    /// What xsave put away.
    pub saved: Vec<Saved>,
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

    /// The stub of an instruction that is known to be harmless; none where it cannot have one.
    pub(crate) fn stub(&mut self, instruction: &Instruction) -> Option<Stub> {
        let (code, operand_bytes, traits) = self.code(instruction)?;
        if let Some(at) = self.stubs.get(&code) {
            return Some(Stub { at: *at, operand_bytes, traits });
        }
        let placed = self.arena.as_mut()?.place(&code);
        self.full |= placed.is_none();
        let at = placed?;
        self.stubs.insert(code, at);
        Some(Stub { at, operand_bytes, traits })
    }

    /// The code of a stub, the bytes of its memory operand, and its traits.
    fn code(&mut self, instruction: &Instruction) -> Option<(Vec<u8>, u8, Traits)> {
        let mut inner = *instruction;
        let memory = (0..inner.op_count()).any(|index| inner.op_kind(index) == OpKind::Memory);
        inner.set_memory_base(Register::None);
        inner.set_memory_index(Register::None);
        inner.set_segment_prefix(Register::None);
        let size = if memory { inner.memory_size().size() } else { 0 };
        if memory && !(1..=MOST_OPERAND_BYTES).contains(&size) {
            return None;
        }
        let mut traits = Traits::default();
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
        let writes_memory = info.used_memory().iter().any(|used| writes(used.access()));
        traits.set(Traits::WRITES_MEMORY, writes_memory);
        let mut used = Used::default();
        for register in info.used_registers() {
            used.add(register.register(), writes(register.access()))?;
        }
        let x87 = |of: &CpuidFeature| matches!(of, CpuidFeature::FPU | CpuidFeature::MMX);
        traits.set(Traits::X87, used.x87 || instruction.cpuid_features().iter().any(x87));
        let modifies = inner.rflags_modified() != 0;
        traits.set(Traits::READS_FLAGS, modifies || inner.rflags_read() != 0);
        traits.set(Traits::WRITES_FLAGS, modifies);
        traits.set(Traits::ALIGNED, allowed::wants_alignment(instruction, size));
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
        Some((code, size as u8, traits))
    }

    fn encode(
        &mut self,
        inner: &Instruction,
        used: &Used,
        pointer: Register,
        state: Register,
        traits: Traits,
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
        if traits.has(Traits::READS_FLAGS) {
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
        if traits.has(Traits::WRITES_FLAGS) {
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
