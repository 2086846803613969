//! The vector registers: how wide they are here, where they lie in the kernel's picture of a thread, and the simplest
//! moves.

use crate::cpu::{Cpu, State, Vector};
use crate::op::Op;
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
            Widest::Avx512 => (Code::EVEX_Vmovups_zmm_k1z_zmmm512, Code::EVEX_Vmovups_zmmm512_k1z_zmm),
        }
    }

    pub(crate) fn mask_load(self) -> Code {
        Code::VEX_Kmovq_kr_km64
    }

    pub(crate) fn mask_store(self) -> Code {
        Code::VEX_Kmovq_m64_kr
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

/// Where the parts of the kernel's XSAVE area lie (Intel SDM volume 1, chapter 13; offsets from `cpuid` leaf 13).
const MXCSR_AT: usize = 24;
const XMM_AT: usize = 160;
const PRESENT_AT: usize = 512;
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
    pub(crate) fn here() -> Places {
        let offset = |part: u32| crate::sys::cpuid(13, part)[1] as usize;
        Places { avx: offset(2), masks: offset(5), upper: offset(6), more: offset(7) }
    }
}

/// Reads an XSAVE area in its standard form into the registers. The result is MXCSR.
pub(crate) fn read_xsave(area: &[u8], places: &Places, state: &mut State) -> u32 {
    let word = |at: usize| {
        let bytes = area.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_le_bytes)
    };
    let present = word(PRESENT_AT);
    for (number, vector) in state.vectors.iter_mut().enumerate() {
        *vector = Vector([0; 64]);
        let mut part = |bit: u64, at: usize, to: usize, bytes: usize| {
            let found = area.get(at..at + bytes).filter(|_| present & bit != 0 && at != 0);
            if let (Some(found), Some(place)) = (found, vector.0.get_mut(to..to + bytes)) {
                place.copy_from_slice(found);
            }
        };
        if number < 16 {
            part(SSE, XMM_AT + 16 * number, 0, 16);
            if places.avx != 0 {
                part(AVX, places.avx + 16 * number, 16, 16);
            }
            if places.upper != 0 {
                part(UPPER, places.upper + 32 * number, 32, 32);
            }
        } else if places.more != 0 {
            part(MORE, places.more + 64 * (number - 16), 0, 64);
        }
    }
    for (number, mask) in state.masks.iter_mut().enumerate() {
        let there = present & MASKS != 0 && places.masks != 0;
        *mask = if there { word(places.masks + 8 * number) } else { 0 };
    }
    if present & (SSE | AVX) == 0 { DEFAULT_MXCSR } else { word(MXCSR_AT) as u32 }
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
