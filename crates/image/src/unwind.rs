//! Who called: registers and stack of a function at some address to those of its caller, by
//! `.eh_frame`.
//!
//! Input: an address of the image, the values of the registers there, and a way to read the stack.
//! Output: the values in the caller, right behind the call. The table of `.eh_frame_hdr` finds the
//! function, so that its rules cost a search in it; whoever walks many stacks keeps them by address.
//! Rules may be expressions (linkage tables, signal handlers). x86-64 only. Source: System V ABI for
//! x86-64, 3.6.2 (register numbers) and 3.7 (unwinding); DWARF 5, 6.4 and 2.5.

use crate::{Arch, Image, ImageAddr};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, Encoding, EndianSlice, EvaluationResult,
    Expression, Format, LittleEndian, Location, RegisterRule, UnwindContext, UnwindSection as _,
    Value,
};
use std::ops::Range;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// DWARF's numbers of the registers that the rules of ordinary functions speak of.
const FRAME_POINTER: u16 = 6;
const STACK_POINTER: u16 = 7;
const RETURN_ADDRESS: u16 = 16;
const REGISTERS: usize = 17;

/// Register values, by DWARF's numbers for x86-64; the one of the return address is the instruction
/// pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnwindRegisters {
    values: [u64; REGISTERS],
    /// A bit for each that is known.
    known: u32,
}

impl UnwindRegisters {
    /// Sets a register by DWARF's number; numbers above 16 are left out.
    pub fn set(&mut self, number: u16, value: u64) {
        if let Some(slot) = self.values.get_mut(usize::from(number)) {
            *slot = value;
            self.known |= 1 << number;
        }
    }

    /// Sets a register, or forgets it.
    fn put(&mut self, number: u16, value: Option<u64>) {
        match value {
            Some(value) => self.set(number, value),
            None if usize::from(number) < REGISTERS => self.known &= !(1 << number),
            None => {}
        }
    }

    /// A register by DWARF's number.
    pub fn get(&self, number: u16) -> Option<u64> {
        let value = self.values.get(usize::from(number))?;
        (self.known & 1 << number != 0).then_some(*value)
    }

    /// The instruction pointer.
    pub fn instruction_pointer(&self) -> Option<u64> {
        self.get(RETURN_ADDRESS)
    }

    /// The stack pointer.
    pub fn stack_pointer(&self) -> Option<u64> {
        self.get(STACK_POINTER)
    }
}

/// How the registers of the caller follow from those of a function, at one of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnwindRules {
    frame: Cfa,
    /// Of registers that the caller does not find as they are.
    registers: Box<[(u16, Rule)]>,
    /// Whether it is what a signal's handler returns to: the caller was interrupted and called
    /// nothing.
    is_signal: bool,
}

/// Where the frame begins: the stack pointer of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cfa {
    Register(u16, i64),
    Expression(Box<[u8]>),
}

/// A register of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    Undefined,
    /// Saved so far from the frame.
    Saved(i64),
    /// So far from the frame itself.
    Distance(i64),
    Register(u16),
    /// Saved where the expression says.
    SavedAt(Box<[u8]>),
    /// What the expression says.
    Is(Box<[u8]>),
}

impl UnwindRules {
    /// Of code that saved nothing and whose frame begins so many bytes above the stack pointer, the
    /// return address being the word below.
    pub(crate) fn above_stack(bytes: i64) -> UnwindRules {
        UnwindRules {
            frame: Cfa::Register(STACK_POINTER, bytes),
            registers: Box::new([(RETURN_ADDRESS, Rule::Saved(-8))]),
            is_signal: false,
        }
    }

    /// Whether the function has a caller at all; the first one of a thread has none.
    pub fn has_caller(&self) -> bool {
        let told =
            |(number, rule): &(u16, Rule)| *number == RETURN_ADDRESS && *rule != Rule::Undefined;
        self.registers.iter().any(told)
    }

    /// Whether the caller was interrupted by a signal, so that it goes on at its next instruction
    /// and not behind a call.
    pub fn is_signal(&self) -> bool {
        self.is_signal
    }

    /// The registers of the caller; an instruction pointer of 0 ends some stacks. `read` gives a word
    /// of the stack. None where the function has no caller, or its registers cannot be told.
    pub fn caller(
        &self,
        registers: &UnwindRegisters,
        read: &dyn Fn(u64) -> Option<u64>,
    ) -> Option<UnwindRegisters> {
        let frame = match &self.frame {
            Cfa::Register(register, offset) => {
                registers.get(*register)?.wrapping_add_signed(*offset)
            }
            Cfa::Expression(bytes) => evaluate(bytes, None, registers, read)?,
        };
        let mut caller = *registers;
        // Unless a rule tells it, nobody knows where the caller goes on.
        caller.put(RETURN_ADDRESS, None);
        for (number, rule) in &self.registers {
            let value = match rule {
                Rule::Undefined => None,
                Rule::Saved(offset) => read(frame.wrapping_add_signed(*offset)),
                Rule::Distance(offset) => Some(frame.wrapping_add_signed(*offset)),
                Rule::Register(other) => registers.get(*other),
                Rule::SavedAt(bytes) => {
                    evaluate(bytes, Some(frame), registers, read).and_then(read)
                }
                Rule::Is(bytes) => evaluate(bytes, Some(frame), registers, read),
            };
            caller.put(*number, value);
        }
        // A signal's frame states the stack pointer; of all others it is the frame's begin.
        if !self.registers.iter().any(|(number, _)| *number == STACK_POINTER) {
            caller.set(STACK_POINTER, frame);
        }
        caller.instruction_pointer().map(|_| caller)
    }

    /// Whether the frame pointer leads from the function to its caller: if not, a walk along frame
    /// pointers leaves the caller out.
    pub fn has_frame_pointer(&self) -> bool {
        matches!(self.frame, Cfa::Register(FRAME_POINTER, _))
    }
}

/// What an expression of a rule says; `initial` lies on its stack before it begins.
fn evaluate(
    bytes: &[u8],
    initial: Option<u64>,
    registers: &UnwindRegisters,
    read: &dyn Fn(u64) -> Option<u64>,
) -> Option<u64> {
    /// Rules are a few operations long; a loop in one would never end.
    const MOST_OPERATIONS: u32 = 256;
    let encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 5 };
    let expression = Expression(Slice::new(bytes, LittleEndian));
    let mut evaluation = expression.evaluation(encoding);
    evaluation.set_max_iterations(MOST_OPERATIONS);
    if let Some(initial) = initial {
        evaluation.set_initial_value(initial);
    }
    let mut state = evaluation.evaluate().ok()?;
    loop {
        state = match state {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = registers.get(register.0)?;
                evaluation.resume_with_register(Value::Generic(value)).ok()?
            }
            EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                evaluation.resume_with_memory(Value::Generic(read(address)?)).ok()?
            }
            _ => return None,
        };
    }
    match evaluation.result().first()?.location {
        Location::Address { address } => Some(address),
        _ => None,
    }
}

impl Image {
    /// Whether a program or the loader begins to run here: the first instructions have no caller,
    /// whatever rules say of them (the loader's are written by hand and have none).
    pub fn is_start(&self, at: ImageAddr) -> bool {
        /// The loader's jump to the program lies behind its call of `_dl_start` and `_dl_init`.
        const BYTES: u64 = 64;
        let entry = self.headers.entry;
        entry != 0 && (entry..entry.saturating_add(BYTES)).contains(&at.0)
    }

    /// The rules at an address of the image. `None` where nothing is known of the function.
    pub fn unwind_rules(&self, at: ImageAddr) -> Option<UnwindRules> {
        let mut context = UnwindContext::new();
        let stated = self.with_table(|table, frames, bases| {
            let entry = table
                .fde_for_address(frames, bases, at.0, |section, bases, at| {
                    section.cie_from_offset(bases, at)
                })
                .ok()?;
            let row = entry.unwind_info_for_address(frames, bases, &mut context, at.0).ok()?;
            rules_of(row, frames, entry.is_signal_trampoline())
        });
        stated.or_else(|| self.linkage_rules(at))
    }

    /// The function around `at` as `.eh_frame` knows it, for files without symbols.
    pub fn unwind_range(&self, at: ImageAddr) -> Option<Range<ImageAddr>> {
        self.with_table(|table, frames, bases| {
            let entry = table
                .fde_for_address(frames, bases, at.0, |section, bases, offset| {
                    section.cie_from_offset(bases, offset)
                })
                .ok()?;
            let begin = entry.initial_address();
            Some(ImageAddr(begin)..ImageAddr(begin.checked_add(entry.len())?))
        })
    }

    fn with_table<R>(
        &self,
        use_table: impl FnOnce(
            &gimli::EhHdrTable<'_, Slice<'_>>,
            &EhFrame<Slice<'_>>,
            &BaseAddresses,
        ) -> Option<R>,
    ) -> Option<R> {
        if self.arch() != Arch::X86_64 {
            return None;
        }
        let section = |name: &str| {
            let section = self.section_by_name(name)?;
            Some((section.address.0, self.section_file_bytes(section)?))
        };
        let ((header_at, header), (frames_at, frames)) =
            (section(".eh_frame_hdr")?, section(".eh_frame")?);
        let text = section(".text").map_or(0, |(address, _)| address);
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(header_at)
            .set_eh_frame(frames_at)
            .set_text(text);
        let header = EhFrameHdr::from(Slice::new(header, LittleEndian)).parse(&bases, 8).ok()?;
        let frames = EhFrame::from(Slice::new(frames, LittleEndian));
        use_table(&header.table()?, &frames, &bases)
    }
}

/// The rules of a row of the table, with the bytes of its expressions.
fn rules_of(
    row: &gimli::UnwindTableRow<usize>,
    frames: &EhFrame<Slice<'_>>,
    is_signal: bool,
) -> Option<UnwindRules> {
    let bytes = |expression: &gimli::UnwindExpression<usize>| {
        let found = expression.get(frames).ok()?;
        Some(Box::<[u8]>::from(found.0.slice()))
    };
    let frame = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => Cfa::Register(register.0, *offset),
        CfaRule::Expression(expression) => Cfa::Expression(bytes(expression)?),
    };
    let rule = |(register, rule): &(gimli::Register, RegisterRule<usize>)| {
        let rule = match rule {
            RegisterRule::SameValue => return None,
            RegisterRule::Offset(offset) => Rule::Saved(*offset),
            RegisterRule::ValOffset(offset) => Rule::Distance(*offset),
            RegisterRule::Register(other) => Rule::Register(other.0),
            RegisterRule::Expression(expression) => Rule::SavedAt(bytes(expression)?),
            RegisterRule::ValExpression(expression) => Rule::Is(bytes(expression)?),
            _ => Rule::Undefined,
        };
        Some((register.0, rule))
    };
    let registers = row.registers().filter_map(rule).collect();
    Some(UnwindRules { frame, registers, is_signal })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers(known: &[(u16, u64)]) -> UnwindRegisters {
        let mut all = UnwindRegisters::default();
        known.iter().for_each(|(number, value)| all.set(*number, *value));
        all
    }

    #[test]
    fn a_caller_follows_from_the_frame_and_from_what_was_saved_there() {
        let rules = UnwindRules {
            frame: Cfa::Register(STACK_POINTER, 16),
            registers: Box::new([
                (RETURN_ADDRESS, Rule::Saved(-8)),
                (FRAME_POINTER, Rule::Saved(-16)),
                (3, Rule::Undefined),
            ]),
            is_signal: false,
        };
        let here = registers(&[(STACK_POINTER, 0x1000), (RETURN_ADDRESS, 7), (3, 5), (12, 9)]);
        let read = |address: u64| Some(address + 1);
        let caller = rules.caller(&here, &read).unwrap();
        let wanted = registers(&[
            (STACK_POINTER, 0x1010),
            (RETURN_ADDRESS, 0x1009),
            (FRAME_POINTER, 0x1001),
            (12, 9),
        ]);
        for number in 0..20 {
            assert_eq!(caller.get(number), wanted.get(number), "{number}");
        }
        // Beyond the copy of the stack nothing is known, and without a return address no caller.
        assert_eq!(rules.caller(&here, &|_| None), None);
        assert!(!rules.has_frame_pointer() && rules.has_caller());
    }

    /// The rule of a linkage table (x86-64 ABI supplement; lld and GNU ld write it): eight bytes
    /// above the stack pointer, and eight more from the entry's second instruction on.
    #[test]
    fn rules_that_are_expressions_are_evaluated() {
        // breg7+8, breg16+0, lit15, and, lit11, ge, lit3, shl, plus
        let table = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        let frame = |ip: u64| {
            let here = registers(&[(STACK_POINTER, 0x1000), (RETURN_ADDRESS, ip)]);
            evaluate(&table, None, &here, &|_| None)
        };
        assert_eq!((frame(0x4010), frame(0x401b)), (Some(0x1008), Some(0x1010)));
        // The stack is read where an expression asks: breg7+8, deref.
        let here = registers(&[(STACK_POINTER, 0x1000)]);
        let word = |address: u64| (address == 0x1008).then_some(42);
        assert_eq!(evaluate(&[0x77, 8, 0x06], None, &here, &word), Some(42));
        // What cannot be told, damaged expressions and endless ones have no value.
        assert_eq!(evaluate(&[0x80, 0], None, &here, &word), None);
        assert_eq!(evaluate(&[0x77], None, &here, &word), None);
        assert_eq!(evaluate(&[0x2f, 0xfd, 0xff], None, &here, &word), None);
    }
}
