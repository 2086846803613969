//! Who called: registers and stack of a function at some address to those of its caller, by
//! `.eh_frame`.
//!
//! Input: an address of the image, the values of the registers there, and a way to read the stack.
//! Output: the values in the caller, right behind the call. The table of `.eh_frame_hdr` finds the
//! function, so a step costs a search in it and one function's rules. Frames whose rules are
//! expressions (linkage tables, signal handlers) are not followed. x86-64 only. Source: System V
//! ABI for x86-64, 3.6.2 (register numbers) and 3.7 (unwinding); DWARF 5, 6.4.

use crate::{Arch, Image, ImageAddr};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, Register, RegisterRule,
    UnwindContext, UnwindSection as _,
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
    values: [Option<u64>; REGISTERS],
}

impl UnwindRegisters {
    /// Sets a register by DWARF's number; numbers above 16 are left out.
    pub fn set(&mut self, number: u16, value: u64) {
        if let Some(slot) = self.values.get_mut(usize::from(number)) {
            *slot = Some(value);
        }
    }

    /// A register by DWARF's number.
    pub fn get(&self, number: u16) -> Option<u64> {
        self.values.get(usize::from(number)).copied().flatten()
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

impl Image {
    /// The registers of the caller of the function at `at`, whose own are `registers`. `read` gives
    /// a word of the stack.
    pub fn caller(
        &self,
        at: ImageAddr,
        registers: &UnwindRegisters,
        read: impl Fn(u64) -> Option<u64>,
    ) -> Option<UnwindRegisters> {
        let mut context = UnwindContext::new();
        self.with_row(at, &mut context, |row| {
            let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else { return None };
            let frame = registers.get(register.0)?.wrapping_add_signed(offset);
            let mut caller = UnwindRegisters::default();
            for number in 0..REGISTERS as u16 {
                let value = match row.register(Register(number)) {
                    None | Some(RegisterRule::SameValue) if number != RETURN_ADDRESS => {
                        registers.get(number)
                    }
                    Some(RegisterRule::Offset(offset)) => read(frame.wrapping_add_signed(offset)),
                    Some(RegisterRule::ValOffset(offset)) => {
                        Some(frame.wrapping_add_signed(offset))
                    }
                    Some(RegisterRule::Register(other)) => registers.get(other.0),
                    _ => None,
                };
                if let Some(value) = value {
                    caller.set(number, value);
                }
            }
            caller.set(STACK_POINTER, frame);
            caller.instruction_pointer().filter(|&address| address != 0).map(|_| caller)
        })
    }

    /// Whether the frame pointer leads from the function at `at` to its caller: if not, a walk
    /// along frame pointers leaves the caller out. `None` where nothing is known of the
    /// function.
    pub fn has_frame_pointer_at(&self, at: ImageAddr) -> Option<bool> {
        let mut context = UnwindContext::new();
        self.with_row(at, &mut context, |row| {
            Some(matches!(row.cfa(), CfaRule::RegisterAndOffset { register, .. } if register.0 == FRAME_POINTER))
        })
    }

    fn with_row<R>(
        &self,
        at: ImageAddr,
        context: &mut UnwindContext<usize>,
        use_row: impl FnOnce(&gimli::UnwindTableRow<usize>) -> Option<R>,
    ) -> Option<R> {
        self.with_table(|table, frames, bases| {
            let row = table
                .unwind_info_for_address(frames, bases, context, at.0, |section, bases, offset| {
                    section.cie_from_offset(bases, offset)
                })
                .ok()?;
            use_row(row)
        })
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
