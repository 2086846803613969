//! Every opcode that an instruction without a model can have goes through a look-ahead, so that
//! none of them may reach the processor and fault there, or come back with the processor's modes
//! changed.

#![cfg(target_arch = "x86_64")]

use lookahead::{Engine, Fetched, Limits, Page, Registers, Source, Stop, Text};
use perfdata::RuntimeAddr;

const CODE: u64 = 0x40_0000;

/// Everywhere else lies the same page of data.
struct Memory {
    code: Vec<u8>,
    data: Page,
}

impl Source for Memory {
    fn page(&mut self, address: RuntimeAddr, into: &mut Page) -> Fetched {
        if address.0 == CODE {
            into.fill(0xcc);
            into.iter_mut().zip(&self.code).for_each(|(to, from)| *to = *from);
        } else {
            *into = self.data;
        }
        Fetched::Copied
    }
    fn text(&mut self, _: RuntimeAddr) -> Text {
        Text::Passing
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// Follows one instruction; whether it was followed to the jump behind it.
fn follow(engine: &mut Engine, memory: &mut Memory, bytes: &[u8], random: &mut Random) -> bool {
    let mut registers =
        Registers { instruction_pointer: RuntimeAddr(CODE), ..Registers::default() };
    registers.general.iter_mut().for_each(|register| *register = random.next() & 0x7fff_ffff_ffff);
    registers.flags = random.next() & 0xcd5 | 0x202;
    let mut xsave = vec![0u8; 2696];
    xsave.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.next().to_le_bytes()));
    memory.code.clear();
    memory.code.extend_from_slice(bytes);
    memory.code.extend_from_slice(&[0xeb, 0xfe]);
    let limits = Limits { depth: 1, instructions: 64 };
    let mut branches = Vec::new();
    engine.run(&registers, &xsave, memory, &limits, &mut branches).stop == Stop::Depth
}

/// What arithmetic gives where nobody has changed how the processor rounds, and what it does with
/// tiny numbers.
fn usual_arithmetic() -> bool {
    let [one, three, tiny] = [1.0f64, 3.0, f64::MIN_POSITIVE].map(std::hint::black_box);
    (one / three).to_bits() == 0x3fd5_5555_5555_5555 && tiny / 4.0 > 0.0
}

/// Shows each encoding of a kind: prefixes, opcodes, and some operands.
fn all(mut show: impl FnMut(&[u8])) {
    // A register and a base with displacement, each with all values of the middle field.
    let operands: [&[u8]; 2] = [&[0xc1], &[0x43, 0x11]];
    let mut with_operands = |head: &[u8]| {
        for operand in operands {
            for middle in 0..8u8 {
                let mut bytes = head.to_vec();
                bytes.push(operand[0] | middle << 3);
                bytes.extend_from_slice(&operand[1..]);
                // An immediate, where there is one.
                bytes.push(0x05);
                show(&bytes);
                bytes.pop();
                show(&bytes);
            }
        }
    };
    let maps: [&[u8]; 4] = [&[], &[0x0f], &[0x0f, 0x38], &[0x0f, 0x3a]];
    let prefixes: [&[u8]; 5] = [&[], &[0x66], &[0xf2], &[0xf3], &[0xf0]];
    for prefix in prefixes {
        for rex in [&[][..], &[0x4d]] {
            for map in maps {
                for opcode in 0..=255u8 {
                    with_operands(&[prefix, rex, map, &[opcode]].concat());
                }
            }
        }
    }
    for opcode in 0..=255u8 {
        for low in 0..16u8 {
            // Wide and long, and the prefix that the opcode wants.
            let (wide, long, prefix) = (low >> 3, low >> 2 & 1, low & 3);
            for map in 1..=3u8 {
                // With a register between, and without.
                for between in [0xf, 0x3] {
                    let last = wide << 7 | between << 3 | long << 2 | prefix;
                    with_operands(&[0xc4, 0xe0 | map, last, opcode]);
                }
            }
        }
    }
    for opcode in 0..=255u8 {
        for low in 0..8u8 {
            let (wide, prefix) = (low >> 2, low & 3);
            for map in 1..=3u8 {
                // Length, broadcast or rounding, zeroing, mask.
                for last in [0x08, 0x58, 0xcb] {
                    with_operands(&[0x62, 0xf0 | map, wide << 7 | 0x7c | prefix, last, opcode]);
                }
            }
        }
    }
}

#[test]
fn no_instruction_faults_on_the_processor() {
    let mut engine = Engine::new();
    let mut random = Random(0x706c_616e);
    let mut memory = Memory { code: Vec::new(), data: [0; 4096] };
    memory
        .data
        .chunks_exact_mut(8)
        .for_each(|word| word.copy_from_slice(&random.next().to_le_bytes()));
    let (mut tried, mut followed) = (0u64, 0u64);
    all(|bytes| {
        tried += 1;
        if follow(&mut engine, &mut memory, bytes, &mut random) {
            followed += 1;
        }
        assert!(usual_arithmetic(), "{bytes:02x?} leaves the processor's modes changed");
    });
    println!("{followed} of {tried} encodings were followed");
    assert!(followed > tried / 50);
}
