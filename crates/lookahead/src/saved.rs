//! xsave and its kin, which the dynamic linker uses around the lazy binding of a function: the registers are kept
//! beside the area's address, and come back when the same area is restored.

use crate::Stop;
use crate::cpu::{Cpu, Vector};
use crate::op::Op;

/// How many areas can be open at once.
const MOST: usize = 8;

/// The vector registers, as an area holds them.
pub(crate) struct Saved {
    area: u64,
    vectors: Box<[Vector; 32]>,
    masks: [u64; 8],
}

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
    match cpu.native.saved.iter().find(|saved| saved.area == area) {
        Some(saved) => {
            cpu.state.vectors = *saved.vectors;
            cpu.state.masks = saved.masks;
            true
        }
        // Saved before the stop: what lies there is the kernel's and the program's business.
        None => cpu.end(Stop::Unmodelled { mnemonic: crate::Mnemonic(op.mnemonic) }),
    }
}
