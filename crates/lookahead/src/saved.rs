//! xsave and its kin, which the dynamic linker uses around the lazy binding of a function: the
//! registers are kept beside the area's address, and come back when the same area is restored. The
//! area itself is not written: code that looks into it, which user-level schedulers do, would see
//! what lay there before.

use crate::Stop;
use crate::cpu::Cpu;
use crate::op::Op;
use crate::state::{RAX, RDX, Saved};
use crate::vectors::{self, Places};
use crate::word::Word;

/// How many areas can be open at once.
const MOST: usize = 8;
/// The largest area with the registers that are known here.
const MOST_BYTES: usize = 4096;
const HEADER_END: u64 = 576;

pub(crate) fn save(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let area = cpu.address(op);
    // Touches the page, as the instruction does.
    if cpu.load::<u64>(area).is_none() {
        return false;
    }
    cpu.native.saved.retain(|saved| saved.area != area);
    if cpu.native.saved.len() >= MOST {
        cpu.native.saved.remove(0);
    }
    let vectors = Box::new(cpu.state.vectors);
    cpu.native.saved.push(Saved { area, vectors, masks: cpu.state.masks });
    true
}

pub(crate) fn restore(cpu: &mut Cpu<'_>, op: &Op) -> bool {
    let area = cpu.address(op);
    // The x87 registers are not put away with the others, so that once they are in use an area may
    // mean others.
    if cpu.native.x87_loaded {
        return cpu.end(Stop::Unmodelled { mnemonic: op.mnemonic() });
    }
    match cpu.native.saved.iter().find(|saved| saved.area == area) {
        Some(saved) => {
            cpu.state.vectors = *saved.vectors;
            cpu.state.masks = saved.masks;
            true
        }
        None => restore_from_memory(cpu, op, area),
    }
}

/// An area that was saved before the stop: it lies in memory as the processor wrote it.
fn restore_from_memory(cpu: &mut Cpu<'_>, op: &Op, address: u64) -> bool {
    let mut area = [0u8; MOST_BYTES];
    // The area's size is not known; it ends somewhere before the first page that cannot be read.
    let mut read = 0;
    for part in area.chunks_exact_mut(64) {
        if cpu.pages.copy_out(cpu.source, address.wrapping_add(read), part).is_none() {
            break;
        }
        read += part.len() as u64;
    }
    let wanted = cpu.get::<u32>(RAX).wide() | cpu.get::<u32>(RDX).wide() << 32;
    let by_xsave = matches!(
        iced_x86::Mnemonic::try_from(usize::from(op.mnemonic().0)),
        Ok(iced_x86::Mnemonic::Xrstor | iced_x86::Mnemonic::Xrstor64)
    );
    // x87 registers in such an area would have to be loaded too.
    if !by_xsave || read < HEADER_END || vectors::present(&area) & wanted & 1 != 0 {
        return cpu.end(Stop::Unmodelled { mnemonic: op.mnemonic() });
    }
    vectors::read_xsave(&area, &Places::of(&area), wanted, cpu.state);
    true
}
