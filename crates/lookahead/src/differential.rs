//! Tests that hold the models of integer instructions against the processor: random encodings,
//! registers and memory, followed by the look-ahead and run in a stub.

use crate::Branch;
use crate::cpu::Cpu;
use crate::flags::{Flags, bit};
use crate::lower::{has_model, lower};
use crate::memory::{Fetched, Page, Pages, Source, Text};
use crate::native::Native;
use crate::op::Op;
use crate::processor::lower_any;
use crate::state::{State, ZERO};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use perfdata::RuntimeAddr;

const CODE: u64 = 0x40_0000;
/// Two pages of data, all that there is.
const DATA: u64 = 0x10_0000;
const DATA_BYTES: u64 = 8192;

/// Room for one.
const NO_BRANCH: Branch = Branch { from: RuntimeAddr(0), to: RuntimeAddr(0) };

struct Data([Page; 2]);

impl Source for Data {
    fn page(&mut self, address: RuntimeAddr, into: &mut Page) -> Fetched {
        let found = address.0.checked_sub(DATA).and_then(|at| self.0.get((at / 4096) as usize));
        found.map_or(Fetched::Absent, |page| {
            *into = *page;
            Fetched::Copied
        })
    }
    fn text(&mut self, _: RuntimeAddr) -> Text {
        Text::Lasting
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
    /// Values at which carries, signs and counts change are likelier than others.
    fn operand(&mut self) -> u64 {
        let edge = [
            0,
            1,
            0x7f,
            0x80,
            0xff,
            0x7fff,
            0x8000,
            0x7fff_ffff,
            0x8000_0000,
            u64::MAX,
            1 << 63,
            31,
            32,
            64,
        ];
        match self.next() % 3 {
            0 => edge[(self.next() % edge.len() as u64) as usize],
            1 => self.next() >> (self.next() % 64),
            _ => self.next(),
        }
    }
}

/// Flags that the manual leaves undefined after an instruction; processors differ there, and
/// programs do not ask.
fn undefined(instruction: &Instruction, count: u64) -> u64 {
    use Mnemonic as M;
    match instruction.mnemonic() {
        M::And | M::Or | M::Xor | M::Test => bit::AF,
        M::Shl | M::Sal | M::Shr | M::Sar => {
            bit::AF | if count == 1 { 0 } else { bit::OF | bit::CF }
        }
        M::Rol | M::Ror if count != 1 => bit::OF,
        M::Imul | M::Mul => bit::SF | bit::ZF | bit::AF | bit::PF,
        M::Bt | M::Bts | M::Btr | M::Btc => bit::OF | bit::SF | bit::AF | bit::PF,
        M::Bsf | M::Bsr => bit::OF | bit::SF | bit::AF | bit::PF | bit::CF,
        M::Tzcnt => bit::OF | bit::SF | bit::AF | bit::PF,
        M::Div | M::Idiv => bit::STATUS,
        _ => 0,
    }
}

/// Opcodes with a ModRM byte, and how many bytes of immediate they have at most.
const OPCODES: [(&[u8], usize); 62] = [
    (&[0x00], 0),
    (&[0x01], 0),
    (&[0x02], 0),
    (&[0x03], 0),
    (&[0x08], 0),
    (&[0x09], 0),
    (&[0x0b], 0),
    (&[0x10], 0),
    (&[0x11], 0),
    (&[0x13], 0),
    (&[0x18], 0),
    (&[0x19], 0),
    (&[0x1b], 0),
    (&[0x20], 0),
    (&[0x21], 0),
    (&[0x23], 0),
    (&[0x28], 0),
    (&[0x29], 0),
    (&[0x2b], 0),
    (&[0x30], 0),
    (&[0x31], 0),
    (&[0x33], 0),
    (&[0x38], 0),
    (&[0x39], 0),
    (&[0x3b], 0),
    (&[0x84], 0),
    (&[0x85], 0),
    (&[0x86], 0),
    (&[0x87], 0),
    (&[0x88], 0),
    (&[0x89], 0),
    (&[0x8b], 0),
    (&[0x80], 1),
    (&[0x81], 4),
    (&[0x83], 1),
    (&[0xc0], 1),
    (&[0xc1], 1),
    (&[0xd0], 0),
    (&[0xd1], 0),
    (&[0xd2], 0),
    (&[0xd3], 0),
    (&[0xc6], 1),
    (&[0xc7], 4),
    (&[0xf6], 1),
    (&[0xf7], 4),
    (&[0xfe], 0),
    (&[0xff], 0),
    (&[0x69], 4),
    (&[0x6b], 1),
    (&[0x63], 0),
    (&[0x0f, 0xaf], 0),
    (&[0x0f, 0xb6], 0),
    (&[0x0f, 0xb7], 0),
    (&[0x0f, 0xbe], 0),
    (&[0x0f, 0xbf], 0),
    (&[0x0f, 0xb0], 0),
    (&[0x0f, 0xb1], 0),
    (&[0x0f, 0xc0], 0),
    (&[0x0f, 0xc1], 0),
    (&[0x0f, 0xba], 1),
    (&[0x0f, 0xbc], 0),
    (&[0x0f, 0xbd], 0),
];

/// An encoding of a modelled instruction without branches, stack or rsp.
fn encoding(random: &mut Random) -> Option<(Vec<u8>, Instruction)> {
    let mut bytes = Vec::new();
    match random.next() % 7 {
        0 => bytes.push(0x66),
        1 => bytes.push(0xf3),
        2 => bytes.push(0xf0),
        _ => {}
    }
    if random.next().is_multiple_of(2) {
        bytes.push(0x40 | (random.next() % 16) as u8);
    }
    match random.next() % 16 {
        0 => bytes.extend([0x0f, 0x40 | (random.next() % 16) as u8]),
        1 => bytes.extend([0x0f, 0x90 | (random.next() % 16) as u8]),
        2 => bytes.extend([0x0f, 0xa3 | ((random.next() % 4) as u8 * 8)]),
        _ => bytes.extend(OPCODES[(random.next() % OPCODES.len() as u64) as usize].0),
    }
    // ModRM, SIB, displacement and immediate: whatever comes.
    bytes.extend(random.next().to_le_bytes());
    bytes.extend(random.next().to_le_bytes());
    let mut decoder = Decoder::with_ip(64, &bytes, CODE, DecoderOptions::NONE);
    let instruction = decoder.decode();
    bytes.truncate(instruction.len());
    let usable = !instruction.is_invalid()
        && instruction.flow_control() == iced_x86::FlowControl::Next
        && !instruction.is_stack_instruction()
        && instruction.mnemonic() != Mnemonic::Xabort
        && !instruction.has_segment_prefix()
        && (0..instruction.op_count())
            .all(|index| instruction.op_register(index).full_register() != Register::RSP)
        && ![instruction.memory_base(), instruction.memory_index()]
            .map(Register::full_register)
            .contains(&Register::RSP)
        && !instruction.is_ip_rel_memory_operand()
        && instruction.memory_base().size() != 4
        && instruction.memory_index().size() != 4;
    usable.then_some((bytes, instruction))
}

/// Bytes of the first operand.
fn operand_bytes(instruction: &Instruction) -> usize {
    match instruction.op0_kind() {
        OpKind::Memory => instruction.memory_size().size(),
        _ => instruction.op0_register().size(),
    }
}

/// Whether the instruction tests a bit of a string in memory, by a number in a register.
fn is_bit_of_string(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(instruction.mnemonic(), M::Bt | M::Bts | M::Btr | M::Btc)
        && instruction.op0_kind() == OpKind::Memory
        && instruction.op1_kind() == OpKind::Register
}

/// Places such an instruction's operand in the middle of the first page, and its bit somewhere on
/// the same page, which is as far as the processor may reach in a copy. False where one register
/// stands for both.
fn place_bit(random: &mut Random, instruction: &Instruction, op: &Op, gpr: &mut [u64; 16]) -> bool {
    let register = instruction.op1_register();
    let number = register.full_register().number();
    if number == usize::from(op.base) || number == usize::from(op.index) {
        return false;
    }
    gpr[usize::from(op.base)] = (DATA + 2000 + random.next() % 64).wrapping_sub(op.displacement);
    // Half a page, before the operand and behind it, less the widest operand.
    let bit = (random.next() % 31_000) as i64 - 15_500;
    let kept = if register.size() == 8 { 0 } else { u64::MAX << (register.size() * 8) };
    gpr[number] = gpr[number] & kept | bit as u64 & !kept;
    true
}

struct After {
    gpr: [u64; 16],
    flags: u64,
    data: Vec<u8>,
    ran: bool,
}

fn run(op: &Op, native: &mut Native, gpr: &[u64; 16], flags: u64, source: &mut Data) -> After {
    let mut state = Box::new(State::new());
    state.gpr[..16].copy_from_slice(gpr);
    let mut pages = Pages::new();
    let mut branches = [NO_BRANCH];
    let mut cpu = Cpu {
        state: &mut state,
        flags: Flags::from_image(flags),
        rip: CODE,
        pages: &mut pages,
        source,
        branches: &mut branches,
        found: 0,
        stop: None,
        ended_at: 0,
        native,
        taken: false,
        patience: 1,
    };
    let ran = (op.run)(&mut cpu, std::slice::from_ref(op));
    let flags = cpu.flags.image() & bit::STATUS;
    let mut data = vec![0; DATA_BYTES as usize];
    cpu.pages.copy_out(cpu.source, DATA, &mut data).unwrap();
    let mut after = [0; 16];
    after.copy_from_slice(&state.gpr[..16]);
    After { gpr: after, flags, data, ran }
}

#[test]
fn models_do_what_the_processor_does() {
    let mut random = Random(0x706c_616e);
    let mut seen = std::collections::BTreeMap::<String, u64>::new();
    let mut native = Native::new();
    for _ in 0..400_000 {
        let Some((bytes, instruction)) = encoding(&mut random) else { continue };
        let op = lower(&instruction, &mut native);
        let mut on_processor = Op { target: 0, source: 0, extra: 0, immediate: 0, ..op };
        if !lower_any(&mut native, &instruction, &mut on_processor) {
            continue;
        }
        if native.full {
            native.clear();
            continue;
        }
        if !has_model(&instruction, op) {
            continue;
        }
        let mut gpr = [0u64; 16];
        gpr.iter_mut().for_each(|register| *register = random.operand());
        if instruction.op_kind(0) == OpKind::Memory || instruction.op_kind(1) == OpKind::Memory {
            // The address becomes one within the data, sometimes across its pages.
            let (base, index) = (op.base, op.index);
            let place = DATA + 4096 - 8 + random.next() % 16;
            if index != ZERO {
                gpr[usize::from(index)] = 0;
            }
            if base == ZERO || base == index {
                continue;
            }
            gpr[usize::from(base)] = place.wrapping_sub(op.displacement);
            if is_bit_of_string(&instruction)
                && !place_bit(&mut random, &instruction, &op, &mut gpr)
            {
                continue;
            }
        }
        let mut filler = Random(random.next());
        let page = |filler: &mut Random| {
            let mut page = [0; 4096];
            page.chunks_exact_mut(8)
                .for_each(|word| word.copy_from_slice(&filler.operand().to_le_bytes()));
            page
        };
        let mut data = Data([page(&mut filler), page(&mut filler)]);
        let flags = random.next() & bit::STATUS;
        if matches!(instruction.mnemonic(), Mnemonic::Div | Mnemonic::Idiv) {
            // Faults are not for the processor: the model says whether there is one.
            let model = run(&op, &mut native, &gpr, flags, &mut data);
            if !model.ran {
                continue;
            }
        }
        let model = run(&op, &mut native, &gpr, flags, &mut data);
        let real = run(&on_processor, &mut native, &gpr, flags, &mut data);
        let what = format!("{bytes:02x?} {:?}", instruction.mnemonic());
        assert!(model.ran && real.ran, "{what}");
        assert_eq!(model.gpr, real.gpr, "{what} from {gpr:x?}");
        assert!(model.data == real.data, "{what}: memory differs");
        let most = if operand_bytes(&instruction) == 8 { 63 } else { 31 };
        let count = if instruction.op1_kind() == OpKind::Register { gpr[1] } else { op.immediate };
        let count = count & most;
        let asked = !undefined(&instruction, count);
        assert_eq!(
            model.flags & asked,
            real.flags & asked,
            "{what} flags, from {gpr:x?} {flags:x}"
        );
        let form = if is_bit_of_string(&instruction) { " of a string" } else { "" };
        *seen.entry(format!("{:?}{form}", instruction.mnemonic())).or_default() += 1;
    }
    for name in ["Bt", "Bts", "Btr", "Btc"] {
        let of_string = seen.get(&format!("{name} of a string")).copied().unwrap_or(0);
        let other = seen.get(name).copied().unwrap_or(0);
        assert!(of_string > 500 && other > 500, "{name}: {of_string} of strings, {other} others");
    }
    let names: Vec<&str> = seen.keys().map(String::as_str).collect();
    assert!(seen.len() > 60, "only {} instructions were tried: {names:?}", seen.len());
}

#[test]
fn what_cannot_be_reached_ends_the_look_ahead() {
    let mut native = Native::new();
    let mut data = Data([[0; 4096], [0; 4096]]);
    let bytes = [0x48, 0x8b, 0x03];
    let instruction = Decoder::with_ip(64, &bytes, CODE, DecoderOptions::NONE).decode();
    let op = lower(&instruction, &mut native);
    let mut gpr = [0; 16];
    gpr[3] = DATA + DATA_BYTES - 4;
    let mut state = Box::new(State::new());
    state.gpr[..16].copy_from_slice(&gpr);
    let (mut pages, mut branches) = (Pages::new(), [NO_BRANCH]);
    let mut cpu = Cpu {
        state: &mut state,
        flags: Flags::default(),
        rip: CODE,
        pages: &mut pages,
        source: &mut data,
        branches: &mut branches,
        found: 0,
        stop: None,
        ended_at: 0,
        native: &mut native,
        taken: false,
        patience: 1,
    };
    assert!(!(op.run)(&mut cpu, std::slice::from_ref(&op)));
    let address = RuntimeAddr(DATA + DATA_BYTES - 4);
    assert_eq!(cpu.stop, Some(crate::Stop::Memory { address }));
}
