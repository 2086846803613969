//! How an instruction is written: x86 code in the syntax of GNU's assembler.

use crate::{Arch, Image, ImageAddr};
use iced_x86::{Decoder, DecoderOptions, Formatter as _, GasFormatter};

/// No instruction of x86 is longer.
const LONGEST: usize = 15;

/// Writes instructions of an image as text.
pub struct Disassembler<'i> {
    image: &'i Image,
    formatter: GasFormatter,
    bitness: u32,
}

impl<'i> Disassembler<'i> {
    /// `None` for processors other than x86.
    pub fn new(image: &'i Image) -> Option<Disassembler<'i>> {
        let bitness = match image.arch() {
            Arch::X86_64 => 64,
            Arch::Other(machine) if machine == object::elf::EM_386.0 => 32,
            _ => return None,
        };
        let mut formatter = GasFormatter::new();
        let options = formatter.options_mut();
        options.set_space_after_operand_separator(true);
        options.set_uppercase_hex(false);
        options.set_branch_leading_zeros(false);
        options.set_gas_show_mnemonic_size_suffix(false);
        Some(Disassembler { image, formatter, bitness })
    }

    /// The instruction at an address; `None` where the image has no code or no instruction.
    pub fn text(&mut self, at: ImageAddr) -> Option<String> {
        let bytes = self.image.code_at(at)?;
        let bytes = bytes.get(..LONGEST).unwrap_or(bytes);
        let mut decoder = Decoder::with_ip(self.bitness, bytes, at.0, DecoderOptions::NONE);
        let decoded = decoder.can_decode().then(|| decoder.decode())?;
        if decoded.is_invalid() {
            return None;
        }
        let mut text = String::new();
        self.formatter.format(&decoded, &mut text);
        Some(text)
    }
}
