//! Sections of a machine's run: which one the guest is in, by markers that its programs execute.
//!
//! A marker is an instruction that does nothing and needs no privilege, and holds a number N from 0
//! to 255: section N begins, and 0 means no section. On x86-64 it is the eight-byte `nopl
//! DISP32(%rax,%rax,1)` (`0f 1f 84 00`, then the displacement) with the displacement `0x504c0000 +
//! N`, on AArch64 `movk xzr, #(0x4c00 + N), lsl #48`, which writes to the register that forgets. It
//! is looked for in programs' code when that is translated. The section is the machine's, not a virtual CPU's: what other CPUs
//! do meanwhile belongs to it too.
//!
//! Every marker begins a new *stretch*, also one that names the section again. What is kept per
//! virtual CPU (branch stack, caches) compares the stretch with the one it was filled in.

use crate::api::{Api, NO_REGISTERS, Tb};
use crate::block::Guest;
use std::ffi::{c_uint, c_void};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

/// The first bytes of the instruction: opcode, and an address of base, index and displacement.
const OPCODE: [u8; 4] = [0x0f, 0x1f, 0x84, 0x00];
/// The displacement without the section.
const MAGIC: u32 = 0x504c_0000;
/// The marker of AArch64 without the section, which stands from bit 5 on.
const MOVK: u32 = 0xf2e0_001f | 0x4c00 << 5;

/// Stretches so far, in the bits above the section's eight.
static NOW: AtomicU64 = AtomicU64::new(0);
/// A bit for every section that began.
static BEGUN: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// A stretch of the run between two markers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch(u64);

impl Stretch {
    /// From the start of the machine to its first marker.
    pub const FIRST: Stretch = Stretch(0);

    /// The one that the machine is in.
    #[inline(always)]
    pub fn now() -> Stretch {
        Stretch(NOW.load(Ordering::Relaxed))
    }

    /// A made-up one.
    #[cfg(test)]
    pub fn made(number: u64, section: u8) -> Stretch {
        Stretch(number << 8 | u64::from(section))
    }

    /// Its section.
    pub fn section(self) -> u8 {
        self.0 as u8
    }
}

/// The sections that began, and 0.
pub fn begun() -> impl Iterator<Item = u8> {
    let seen = |number: u8| {
        BEGUN[usize::from(number >> 6)].load(Ordering::Relaxed) >> (number & 63) & 1 == 1
    };
    (0..=u8::MAX).filter(move |number| *number == 0 || seen(*number))
}

/// The section that an instruction begins, when it is a marker.
pub fn marker(guest: Guest, instruction: &[u8]) -> Option<u8> {
    let number = match guest {
        Guest::X86_64 => {
            let displacement = instruction.strip_prefix(&OPCODE)?;
            u32::from_le_bytes(displacement.try_into().ok()?).checked_sub(MAGIC)?
        }
        Guest::Aarch64 => {
            let rest = u32::from_le_bytes(instruction.try_into().ok()?) ^ MOVK;
            if rest & 0x1f != 0 {
                return None;
            }
            rest >> 5
        }
    };
    u8::try_from(number).ok()
}

/// Has every marker in a program's block call back.
///
/// # Safety
/// `tb` must be the block that qemu called a translation callback with, during that call.
pub unsafe fn watch(api: &Api, guest: Guest, tb: *mut Tb) {
    // SAFETY: the contract of this function; an instruction's bytes are `insn_len` long.
    unsafe {
        for index in 0..(api.tb_instructions)(tb) {
            let instruction = (api.tb_instruction)(tb, index);
            let bytes = std::slice::from_raw_parts(
                (api.insn_bytes)(instruction),
                (api.insn_len)(instruction),
            );
            if let Some(section) = marker(guest, bytes) {
                // The number travels in the pointer, which nobody follows.
                (api.on_insn)(
                    instruction,
                    marked,
                    NO_REGISTERS,
                    usize::from(section) as *mut c_void,
                );
            }
        }
    }
}

extern "C" fn marked(_vcpu: c_uint, section: *mut c_void) {
    begin(section as usize as u8);
}

/// A section begins.
pub fn begin(section: u8) {
    let next = |now: u64| Some(((now >> 8) + 1) << 8 | u64::from(section));
    let _ = NOW.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    BEGUN[usize::from(section >> 6)].fetch_or(1 << (section & 63), Ordering::Relaxed);
}

/// Reads the settings `from=LO,to=HI`, of which both or neither must be there.
pub fn range(from: Option<u8>, to: Option<u8>) -> Result<Option<RangeInclusive<u8>>, String> {
    match (from, to) {
        (None, None) => Ok(None),
        (Some(from), Some(to)) if from <= to => Ok(Some(from..=to)),
        (Some(from), Some(to)) => Err(format!("from={from},to={to} holds no section")),
        _ => Err("from=LO and to=HI go together".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_agreed_instruction_is_a_marker() {
        let marker = |bytes: &[u8]| marker(Guest::X86_64, bytes);
        assert_eq!(marker(&[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x4c, 0x50]), Some(0));
        assert_eq!(marker(&[0x0f, 0x1f, 0x84, 0x00, 0xff, 0x00, 0x4c, 0x50]), Some(255));
        for other in [
            // A section too many, one before the first, what assemblers pad with, a longer and a
            // shorter form.
            &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x01, 0x4c, 0x50][..],
            &[0x0f, 0x1f, 0x84, 0x00, 0xff, 0xff, 0x4b, 0x50],
            &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
            &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x01, 0x00, 0x4c, 0x50],
            &[0x0f, 0x1f, 0x84, 0x00, 0x01, 0x00, 0x4c],
            &[],
        ] {
            assert_eq!(marker(other), None, "{other:x?}");
        }
    }

    #[test]
    fn on_aarch64_it_is_a_move_to_the_register_that_forgets() {
        let marker = |word: u32| marker(Guest::Aarch64, &word.to_le_bytes());
        // As clang assembles `movk xzr, #0x4c01, lsl #48` and its like.
        assert_eq!(marker(0xf2e9_803f), Some(1));
        assert_eq!([marker(0xf2e9_801f), marker(0xf2e9_9fff)], [Some(0), Some(255)]);
        // A section too many, one before the first, another register, another place, a plain no-op.
        for other in [0xf2e9_a01f, 0xf2e9_7fff, 0xf2e9_8020, 0xf2c9_803f, 0xd503_201f] {
            assert_eq!(marker(other), None, "{other:x}");
        }
        assert_eq!(super::marker(Guest::Aarch64, &[0x3f, 0x80, 0xe9]), None);
    }

    #[test]
    fn a_range_has_two_ends() {
        assert_eq!(range(None, None), Ok(None));
        assert_eq!(range(Some(1), Some(99)), Ok(Some(1..=99)));
        assert!(range(Some(2), Some(1)).is_err());
        assert!(range(Some(2), None).is_err());
        assert!(range(None, Some(2)).is_err());
    }
}
