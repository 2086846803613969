//! Whether any code, registers and memory make a look-ahead crash, hang, take memory without bound,
//! or leave the processor in another state than before: instructions without a model run on the
//! processor itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lookahead::{Engine, Fetched, Limits, Page, Registers, Source, Text};
use perfdata::RuntimeAddr;
use std::cell::RefCell;

const CODE: u64 = 0x40_0000;
const GENERAL_BYTES: usize = 16 * 8;
const XSAVE_BYTES: usize = 2696;

/// Memory made of the input: code in its first pages, and the same bytes turned by the address
/// elsewhere. Some pages cannot be read, and some change all the time.
struct Memory<'i> {
    bytes: &'i [u8],
    text: Text,
    live: u8,
}

impl Source for Memory<'_> {
    fn page(&mut self, address: RuntimeAddr, into: &mut Page) -> Fetched {
        let address = address.0;
        let number = address >> 12;
        let in_code = (CODE..CODE + (1 << 20)).contains(&address);
        if !in_code && number % 13 == 5 {
            return Fetched::Absent;
        }
        let turn = if in_code { address - CODE } else { number.wrapping_mul(7) } as usize;
        let from =
            if in_code { turn.min(self.bytes.len()) } else { turn % self.bytes.len().max(1) };
        let (before, behind) = self.bytes.split_at(from);
        let mut filled = 0;
        for part in [behind, if in_code { &[] } else { before }] {
            let count = part.len().min(into.len() - filled);
            into[filled..filled + count].copy_from_slice(&part[..count]);
            filled += count;
        }
        if in_code || filled == 0 {
            into[filled..].fill(0xcc);
        } else {
            // The input over and over: each time as much as is there already.
            while filled < into.len() {
                let count = filled.min(into.len() - filled);
                into.copy_within(..count, filled);
                filled += count;
            }
        }
        if !in_code && number % 13 == 7 {
            self.live = self.live.wrapping_add(1);
            into[0] = self.live;
            return Fetched::Live;
        }
        Fetched::Copied
    }

    fn text(&mut self, _: RuntimeAddr) -> Text {
        self.text
    }
}

thread_local! {
    static ENGINE: RefCell<Engine> = RefCell::new(Engine::new());
}

/// What arithmetic gives where nobody has changed how the processor rounds, and what it does with
/// tiny numbers.
fn usual_arithmetic() -> bool {
    let [one, three, tiny] = [1.0f64, 3.0, f64::MIN_POSITIVE].map(std::hint::black_box);
    (one / three).to_bits() == 0x3fd5_5555_5555_5555 && tiny / 4.0 > 0.0
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[how, depth], bytes)) = bytes.split_first_chunk() else { return };
    // Registers and vector state lie at the end, so that short inputs are code.
    let code = bytes.get(..bytes.len().min(512)).unwrap_or_default();
    let state = bytes.get(512..).unwrap_or_default();
    let mut registers =
        Registers { instruction_pointer: RuntimeAddr(CODE), ..Registers::default() };
    for (number, register) in registers.general.iter_mut().enumerate() {
        let given = state.get(8 * number..).and_then(|bytes| bytes.first_chunk());
        *register =
            given.map_or(0x10_0000 + 64 * number as u64, |bytes| u64::from_le_bytes(*bytes));
    }
    registers.flags = u64::from(how) << 4 | 0x202;
    registers.fs_base = 0x7000_0000;
    let mut xsave = state.get(GENERAL_BYTES..).unwrap_or_default().to_vec();
    xsave.resize(if how & 1 == 0 { XSAVE_BYTES } else { usize::from(depth) * 16 }, how);
    let text = if how & 2 == 0 { Text::Lasting } else { Text::Passing };
    let mut memory = Memory { bytes: code, text, live: 0 };
    let limits = Limits { depth: usize::from(depth) + 1, instructions: 4096 };
    let mut branches = Vec::new();
    ENGINE.with_borrow_mut(|engine| {
        engine.forget();
        let outcome = engine.run(&registers, &xsave, &mut memory, &limits, &mut branches);
        assert!(branches.len() <= limits.depth);
        assert!(outcome.instructions <= limits.instructions);
        let stops = branches.len();
        let mut instructions = 0u64;
        // Once more, with the code that is known now.
        engine.trace(&registers, &xsave, &mut memory, &limits, &mut branches, &mut |_| {
            instructions += 1
        });
        assert!(instructions <= limits.instructions + 64 && stops <= limits.depth);
    });
    assert!(usual_arithmetic(), "the processor's modes were left changed");
});
