//! The walk from a sampled address to its callers, through the copy of the stack that the sample
//! carries, by rules of `.eh_frame`.

use image::UnwindRegisters;
use perfdata::{RuntimeAddr, Sample};
use std::cell::Cell;

/// Frames unwound at most: a copy of 64 KiB holds no more calls of functions that do anything.
const MOST_FRAMES: usize = 4096;
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

/// The frames that a walk gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    /// Runtime addresses of the user's frames, innermost first: the sampled one, then those that
    /// calls return to.
    pub addresses: Vec<u64>,
    /// Where it ended.
    pub end: End,
    /// Callers that were found without rules.
    pub guessed: u64,
}

/// Where a walk ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At the outermost frame: where the thread began.
    Start,
    /// Before it: the copy of the stack does not reach further.
    Copy,
    /// Before it: nothing is known of the code, or its caller cannot be told.
    Unknown,
}

/// What is known of the caller of the code at an address.
#[derive(Clone, Copy, Debug)]
pub enum CallerOf {
    /// It has none: there the thread began.
    Nobody,
    /// It cannot be told.
    Unknown,
    /// Its registers.
    Known {
        caller: UnwindRegisters,
        /// Whether it was interrupted there, and called nothing.
        interrupted: bool,
        /// Whether no rules tell it.
        guessed: bool,
    },
}

/// Walks as far as the copy of the stack reaches. `caller_of` is asked with an address of the code
/// (of callers, of the last byte of the call), the registers there, and a way to read the stack.
pub fn walk(
    sample: &Sample<'_>,
    mut caller_of: impl FnMut(RuntimeAddr, &UnwindRegisters, &dyn Fn(u64) -> Option<u64>) -> CallerOf,
) -> Walk {
    let mut walk = Walk { addresses: Vec::new(), end: End::Unknown, guessed: 0 };
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
    let mut exact = true;
    while let Some(address) =
        registers.instruction_pointer().filter(|_| walk.addresses.len() < MOST_FRAMES)
    {
        if address == 0 {
            walk.end = End::Start;
            return walk;
        }
        walk.addresses.push(address);
        let code = if exact { address } else { address.saturating_sub(1) };
        beyond.set(false);
        match caller_of(RuntimeAddr(code), &registers, &read) {
            CallerOf::Nobody => {
                walk.end = End::Start;
                return walk;
            }
            // A caller's frame lies above; anything else would never end.
            CallerOf::Known { caller, interrupted, guessed }
                if caller.stack_pointer() > registers.stack_pointer() =>
            {
                registers = caller;
                exact = interrupted;
                walk.guessed += u64::from(guessed);
            }
            _ => {
                walk.end = if beyond.get() { End::Copy } else { End::Unknown };
                return walk;
            }
        }
    }
    walk
}
