//! Instructions that run on the processor itself: those without a model of their own, through stubs
//! ([`crate::native`]), and the few that set or tell what the processor is and does.

use crate::cpu::Cpu;
use crate::flags::{Flags, bit};
use crate::native::{Native, Traits};
use crate::op::{Op, Run, run};
use crate::state::{RAX, RCX, RDX, Vector};
use crate::{Stop, allowed, sys};
use iced_x86::{Instruction, Mnemonic};

/// Makes an op run on the processor; false where it must not or cannot.
pub(crate) fn lower(native: &mut Native, instruction: &Instruction, op: &mut Op) -> bool {
    allowed::natively(instruction) && lower_any(native, instruction, op)
}

/// The same for an instruction that is known to be harmless.
pub(crate) fn lower_any(native: &mut Native, instruction: &Instruction, op: &mut Op) -> bool {
    let Some(stub) = native.stub(instruction) else { return false };
    (op.run, op.immediate) = (run!(through_stub), u64::from(stub.at));
    (op.extra, op.source) = (stub.operand_bytes, stub.traits.0);
    true
}

/// Runs an instruction through its stub.
fn through_stub(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let (size, traits) = (usize::from(op.extra), Traits(op.source));
    if traits.has(Traits::READS_FLAGS) {
        cpu.state.flags_image = cpu.flags.image() & bit::STATUS | 0x202;
    }
    if traits.has(Traits::X87) {
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
        let aligned = !traits.has(Traits::ALIGNED) || address.is_multiple_of(size as u64);
        match cpu.pages.rest_of_page(cpu.source, address) {
            Some(bytes) if bytes.len() >= size && aligned => arena.call(stub, cpu.state, bytes),
            Some(_) => {
                let Some(room) = bounce.0.get_mut(..size) else { return false };
                if cpu.pages.copy_out(cpu.source, address, room).is_none() {
                    cpu.unreadable(address);
                    return false;
                }
                arena.call(stub, cpu.state, room);
                if traits.has(Traits::WRITES_MEMORY)
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
    if traits.has(Traits::WRITES_FLAGS) {
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
pub(crate) fn machine(mnemonic: Mnemonic) -> Option<Run> {
    Some(match mnemonic {
        Mnemonic::Cpuid => run!(cpuid),
        Mnemonic::Rdtsc => run!(time_stamp),
        Mnemonic::Rdtscp => run!(time_stamp_and_cpu),
        Mnemonic::Xgetbv => run!(extended_control),
        _ => return None,
    })
}

/// Leaves of `cpuid` that hold the number of the CPU they are asked on (its APIC ID): Intel SDM
/// volume 2A, `CPUID`; AMD APM volume 3, appendix E.
const NAMES_THE_CPU: [u32; 4] = [1, 0xb, 0x1f, 0x8000_001e];

fn cpuid(cpu: &mut Cpu<'_>, _: &Op) -> bool {
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
    cpu.pages.clock_read = true;
    let (stamp, _) = sys::time_stamp();
    cpu.set(RAX, stamp as u32);
    cpu.set(RDX, (stamp >> 32) as u32);
    true
}

fn time_stamp_and_cpu(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let (_, aux) = sys::time_stamp();
    cpu.set(RCX, aux);
    time_stamp(cpu, op)
}

fn extended_control(cpu: &mut Cpu<'_>, _: &Op) -> bool {
    if cpu.get::<u32>(RCX) != 0 {
        return cpu.end(Stop::Fault);
    }
    let value = sys::extended_control(0);
    cpu.set(RAX, value as u32);
    cpu.set(RDX, (value >> 32) as u32);
    true
}

/// vzeroupper.
pub(crate) fn zero_upper(cpu: &mut Cpu<'_>, _: &Op) -> bool {
    for vector in cpu.state.vectors.iter_mut().take(16) {
        vector.0[16..].fill(0);
    }
    true
}

/// vzeroall.
pub(crate) fn zero_all(cpu: &mut Cpu<'_>, _: &Op) -> bool {
    cpu.state.vectors[..16].fill(Vector([0; 64]));
    true
}
