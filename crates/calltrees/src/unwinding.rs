//! Callers out of the copy of the stack that a sample carries (`--call-graph dwarf`), by
//! `.eh_frame`.
//!
//! Where the chain along frame pointers was recorded too, unwinding fills the gap at its begin:
//! such a chain starts with the sampled address and goes on with the first function that has a
//! frame pointer, and its callers before that are missing.

use crate::files::{Files, Place};
use crate::marks::Owner;
use address_spaces::SpaceRef;
use image::UnwindRegisters;
use perfdata::{RuntimeAddr, Sample};
use std::cell::Cell;

/// Frames unwound at most; perf records as many.
const MOST_FRAMES: usize = 127;
/// `PERF_SAMPLE_REGS_ABI_64`.
const ABI_64: u64 = 2;
/// DWARF's and perf's numbers (`arch/x86/include/uapi/asm/perf_regs.h`) of the registers that rules
/// of functions use.
const DWARF_TO_PERF: [(u16, u32); 17] = [
    (0, 0),
    (1, 3),
    (2, 2),
    (3, 1),
    (4, 4),
    (5, 5),
    (6, 6),
    (7, 7),
    (8, 16),
    (9, 17),
    (10, 18),
    (11, 19),
    (12, 20),
    (13, 21),
    (14, 22),
    (15, 23),
    (16, 8),
];

/// What became of call chains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// Callers found by unwinding.
    pub unwound: u64,
    /// Samples of whose user part the outermost callers are missing: the copy of the stack ends
    /// before, or nothing is known of a function.
    pub cut: u64,
}

impl Frames {
    pub(crate) fn add(&mut self, other: Frames) {
        self.unwound += other.unwound;
        self.cut += other.cut;
    }
}

/// Unwinds samples with the images that ran.
pub(crate) struct Unwinder<'f> {
    pub files: &'f Files<'f>,
}

/// The frames that a walk gave.
struct Walk {
    addresses: Vec<u64>,
    /// It ended before the outermost frame.
    cut: bool,
}

impl Unwinder<'_> {
    /// Completes the user part of a chain, which is the last one.
    pub(crate) fn complete(
        &self,
        words: &mut Vec<u64>,
        sample: &Sample<'_>,
        space: SpaceRef<'_>,
    ) -> Frames {
        let user = Owner::Process.mark();
        let walk = self.walk(sample, space);
        let begin = words.iter().rposition(|&word| word == user).map(|mark| mark + 1);
        let recorded = begin.map(|begin| words.split_off(begin)).unwrap_or_default();
        if walk.addresses.is_empty() {
            words.extend(&recorded);
            // A thread of the kernel has no user part at all.
            let has_user = !recorded.is_empty() || sample.regs_user.is_some_and(|r| r.abi != 0);
            return Frames { unwound: 0, cut: u64::from(has_user) };
        }
        if begin.is_none() {
            words.push(user);
        }
        let callers = recorded.get(1..).unwrap_or_default();
        let joined = walk.addresses.iter().skip(1).position(|one| callers.first() == Some(one));
        let taken = match joined {
            Some(between) if walk.cut => between + 1,
            _ => walk.addresses.len(),
        };
        words.extend(walk.addresses.iter().take(taken));
        if walk.cut {
            words.extend(callers);
        }
        let whole = !walk.cut || joined.is_some();
        Frames { unwound: taken.saturating_sub(1) as u64, cut: u64::from(!whole) }
    }

    /// The addresses of the user's frames, innermost first, as far as the copy of the stack
    /// reaches.
    fn walk(&self, sample: &Sample<'_>, space: SpaceRef<'_>) -> Walk {
        let mut walk = Walk { addresses: Vec::new(), cut: true };
        let (Some(recorded), Some(stack)) = (&sample.regs_user, &sample.stack_user) else {
            return walk;
        };
        let mut registers = UnwindRegisters::default();
        for (dwarf, perf) in DWARF_TO_PERF {
            if let Some(value) = recorded.get(perf) {
                registers.set(dwarf, value);
            }
        }
        let Some(bottom) = registers.stack_pointer().filter(|_| recorded.abi == ABI_64) else {
            return walk;
        };
        let beyond = Cell::new(false);
        let read = |address: u64| {
            let at = usize::try_from(address.checked_sub(bottom)?).ok()?;
            let word = stack.bytes.get(at..).and_then(|rest| rest.first_chunk::<8>());
            beyond.set(beyond.get() || word.is_none());
            word.map(|bytes| u64::from_le_bytes(*bytes))
        };
        while let Some(address) =
            registers.instruction_pointer().filter(|_| walk.addresses.len() < MOST_FRAMES)
        {
            let innermost = walk.addresses.is_empty();
            walk.addresses.push(address);
            let code = if innermost { address } else { address.saturating_sub(1) };
            let Place::In(file, at) = self.files.place(space, RuntimeAddr(code)) else {
                return walk;
            };
            let Some(image) = self.files.image(file) else { return walk };
            match image.caller(at, &registers, read) {
                // A caller's frame lies above; anything else would never end.
                Some(caller) if caller.stack_pointer() > registers.stack_pointer() => {
                    registers = caller;
                }
                _ => {
                    walk.cut = beyond.get() || image.has_frame_pointer_at(at).is_none();
                    return walk;
                }
            }
        }
        walk
    }
}
