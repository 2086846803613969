//! The vector registers: how wide they are here, and where they lie in the kernel's picture of a
//! thread.

use crate::state::State;
use iced_x86::{Code, Register};
use std::arch::is_x86_feature_detected as has;

/// The widest vector registers of this processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Widest {
    /// 16 bytes.
    Sse,
    /// 32 bytes.
    Avx,
    /// 64 bytes, 32 of them, and mask registers.
    Avx512,
}

impl Widest {
    pub(crate) fn here() -> Widest {
        if has!("avx512f") && has!("avx512bw") {
            Widest::Avx512
        } else if has!("avx") {
            Widest::Avx
        } else {
            Widest::Sse
        }
    }

    /// Instructions that load and store a whole register, wherever it lies.
    pub(crate) fn moves(self) -> (Code, Code) {
        match self {
            Widest::Sse => (Code::Movups_xmm_xmmm128, Code::Movups_xmmm128_xmm),
            Widest::Avx => (Code::VEX_Vmovups_ymm_ymmm256, Code::VEX_Vmovups_ymmm256_ymm),
            Widest::Avx512 => {
                (Code::EVEX_Vmovups_zmm_k1z_zmmm512, Code::EVEX_Vmovups_zmmm512_k1z_zmm)
            }
        }
    }

    /// The widest register of a number.
    pub(crate) fn register(self, register: Register) -> Register {
        let first = match self {
            Widest::Sse => Register::XMM0,
            Widest::Avx => Register::YMM0,
            Widest::Avx512 => Register::ZMM0,
        };
        first + register.number() as u32
    }
}

/// Where the parts of the kernel's XSAVE area lie (Intel SDM volume 1, §13.4; offsets from `cpuid`
/// leaf 13).
const MXCSR_AT: usize = 24;
const XMM_AT: usize = 160;
const PRESENT_AT: usize = 512;
const COMPACTED_AT: usize = 520;
const EXTENDED_AT: usize = 576;
const DEFAULT_MXCSR: u32 = 0x1f80;
const SSE: u64 = 1 << 1;
const AVX: u64 = 1 << 2;
const MASKS: u64 = 1 << 5;
const UPPER: u64 = 1 << 6;
const MORE: u64 = 1 << 7;

/// Offsets of the parts of an XSAVE area.
#[derive(Clone, Copy)]
pub(crate) struct Places {
    avx: usize,
    masks: usize,
    upper: usize,
    more: usize,
}

impl Places {
    /// The standard form: fixed places, which the processor tells.
    pub(crate) fn here() -> Places {
        let offset = |part: u32| crate::sys::cpuid(13, part)[1] as usize;
        Places { avx: offset(2), masks: offset(5), upper: offset(6), more: offset(7) }
    }

    /// The compacted form, which `xsavec` writes: the parts that its second header word names, one
    /// behind another.
    pub(crate) fn of(area: &[u8]) -> Places {
        let compacted = word(area, COMPACTED_AT);
        if compacted >> 63 == 0 {
            return Places::here();
        }
        let mut places = Places { avx: 0, masks: 0, upper: 0, more: 0 };
        let mut at = EXTENDED_AT;
        for part in (2..63).filter(|part| compacted & 1 << part != 0) {
            let [bytes, _, flags, _] = crate::sys::cpuid(13, part);
            if flags & 2 != 0 {
                at = at.next_multiple_of(64);
            }
            match part {
                2 => places.avx = at,
                5 => places.masks = at,
                6 => places.upper = at,
                7 => places.more = at,
                _ => {}
            }
            at += bytes as usize;
        }
        places
    }
}

/// All parts of the state.
pub(crate) const ALL: u64 = u64::MAX;

/// The header's word that says which parts an area holds, as a mask of parts; the others have their
/// first values.
pub(crate) fn present(area: &[u8]) -> u64 {
    word(area, PRESENT_AT)
}

fn word(area: &[u8], at: usize) -> u64 {
    let bytes = area.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}

/// Reads the wanted parts of an XSAVE area into the registers. The result is MXCSR.
pub(crate) fn read_xsave(area: &[u8], places: &Places, wanted: u64, state: &mut State) -> u32 {
    let present = present(area);
    for (number, vector) in state.vectors.iter_mut().enumerate() {
        let mut part = |bit: u64, start: usize, (from, to): (usize, usize), bytes: usize| {
            let Some(place) = vector.0.get_mut(to..to + bytes).filter(|_| wanted & bit != 0) else {
                return;
            };
            let there = present & bit != 0 && start != 0;
            let found = area.get(start + from..start + from + bytes).filter(|_| there);
            match found {
                Some(found) => place.copy_from_slice(found),
                None => place.fill(0),
            }
        };
        if number < 16 {
            part(SSE, XMM_AT, (16 * number, 0), 16);
            part(AVX, places.avx, (16 * number, 16), 16);
            part(UPPER, places.upper, (32 * number, 32), 32);
        } else {
            part(MORE, places.more, (64 * (number - 16), 0), 64);
        }
    }
    for (number, mask) in state.masks.iter_mut().enumerate().filter(|_| wanted & MASKS != 0) {
        let there = present & MASKS != 0 && places.masks != 0;
        *mask = if there { word(area, places.masks + 8 * number) } else { 0 };
    }
    if present & (SSE | AVX) == 0 { DEFAULT_MXCSR } else { word(area, MXCSR_AT) as u32 }
}
