//! How does a layout start at another place? Writes an object file with sections of padding.

use std::borrow::Cow;

use object::elf;

/// Functions are aligned to this many bytes, and so is padding.
pub(crate) const STEP: u64 = 16;

/// One section of padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pad {
    /// The section's name: `.text.…` to be ordered among the code, or one of its own to be placed
    /// before it.
    pub(crate) section: Cow<'static, str>,
    /// Name by which a symbol order finds it.
    pub(crate) symbol: Cow<'static, str>,
    /// Bytes of padding.
    pub(crate) bytes: u64,
    /// Is it code, can it be written to?
    pub(crate) executable: bool,
    /// See `executable`.
    pub(crate) writable: bool,
}

/// The parts of an ELF header that must equal those of the other objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    machine: u16,
    flags: u32,
    little: bool,
}

impl Target {
    /// Reads them from an object; none when it is not 64-bit ELF.
    pub(crate) fn of(object: &[u8]) -> Option<Target> {
        if !object.starts_with(b"\x7fELF\x02") {
            return None;
        }
        let little = object.get(5) == Some(&1);
        let machine: [u8; 2] = object.get(18..20)?.try_into().ok()?;
        let flags: [u8; 4] = object.get(48..52)?.try_into().ok()?;
        let (machine, flags) = if little {
            (u16::from_le_bytes(machine), u32::from_le_bytes(flags))
        } else {
            (u16::from_be_bytes(machine), u32::from_be_bytes(flags))
        };
        Some(Target { machine, flags, little })
    }
}

/// Puts numbers into a file in its byte order.
struct Bytes {
    bytes: Vec<u8>,
    little: bool,
}

impl Bytes {
    fn number(&mut self, value: u64, width: usize) {
        let big = value.to_be_bytes();
        let little = value.to_le_bytes();
        self.bytes.extend_from_slice(if self.little {
            &little[..width]
        } else {
            &big[8 - width..]
        });
    }

    fn numbers(&mut self, fields: &[(u64, usize)]) {
        for &(value, width) in fields {
            self.number(value, width);
        }
    }
}

const HEADER: u64 = 64;
const SYMBOL: u64 = 24;

/// Where the parts of an object file with padding lie: header, padding, symbols, strings, section
/// headers.
struct Places {
    strings: Vec<u8>,
    /// Of each padding: where its section's and its symbol's names are among the strings.
    names: Vec<(u64, u64)>,
    symbols_at: u64,
    symbols_size: u64,
    strings_at: u64,
    headers_at: u64,
    /// Of padding, symbols, strings, and the empty one that comes first.
    sections: u64,
}

impl Places {
    fn of(pads: &[Pad]) -> Places {
        let mut strings = b"\0.symtab\0.strtab\0".to_vec();
        let mut text = |name: &str| {
            let at = strings.len() as u64;
            strings.extend_from_slice(name.as_bytes());
            strings.push(0);
            at
        };
        let names: Vec<(u64, u64)> =
            pads.iter().map(|pad| (text(&pad.section), text(&pad.symbol))).collect();
        let bodies: u64 = pads.iter().map(|pad| pad.bytes).sum();
        let count = pads.len() as u64;
        let symbols_at = (HEADER + bodies).next_multiple_of(8);
        let symbols_size = SYMBOL * (count + 1);
        let strings_at = symbols_at + symbols_size;
        let headers_at = (strings_at + strings.len() as u64).next_multiple_of(8);
        Places {
            strings,
            names,
            symbols_at,
            symbols_size,
            strings_at,
            headers_at,
            sections: count + 3,
        }
    }

    fn write_header(&self, out: &mut Bytes, target: Target) {
        out.bytes.extend_from_slice(b"\x7fELF\x02");
        out.bytes.extend_from_slice(&[
            if target.little { 1 } else { 2 },
            1,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ]);
        out.numbers(&[
            (u64::from(elf::ET_REL.0), 2),
            (u64::from(target.machine), 2),
            (1, 4),
            (0, 8),
            (0, 8),
            (self.headers_at, 8),
        ]);
        out.numbers(&[
            (u64::from(target.flags), 4),
            (HEADER, 2),
            (0, 2),
            (0, 2),
            (64, 2),
            (self.sections, 2),
            (self.sections - 1, 2),
        ]);
    }

    /// A section symbol for each padding, behind the empty symbol.
    fn write_symbols(&self, out: &mut Bytes) {
        out.bytes.resize(out.bytes.len() + SYMBOL as usize, 0);
        for (place, &(_, symbol)) in self.names.iter().enumerate() {
            out.numbers(&[
                (symbol, 4),
                (u64::from(elf::STT_SECTION.0), 1),
                (0, 1),
                (place as u64 + 1, 2),
                (0, 8),
                (0, 8),
            ]);
        }
    }

    /// The headers of the padding, the symbols and the strings, behind the empty section's.
    fn write_section_headers(&self, out: &mut Bytes, pads: &[Pad]) {
        out.bytes.resize(out.bytes.len() + 64, 0);
        let mut at = HEADER;
        for (pad, &(section, _)) in pads.iter().zip(&self.names) {
            let flags = elf::SHF_ALLOC.0
                | elf::SHF_GNU_RETAIN.0
                | if pad.executable { elf::SHF_EXECINSTR.0 } else { 0 }
                | if pad.writable { elf::SHF_WRITE.0 } else { 0 };
            out.numbers(&[(section, 4), (u64::from(elf::SHT_PROGBITS.0), 4), (flags, 8), (0, 8)]);
            out.numbers(&[(at, 8), (pad.bytes, 8), (0, 4), (0, 4), (16, 8), (0, 8)]);
            at += pad.bytes;
        }
        let symbols = self.names.len() as u64 + 1;
        out.numbers(&[(1, 4), (u64::from(elf::SHT_SYMTAB.0), 4), (0, 8), (0, 8)]);
        out.numbers(&[(self.symbols_at, 8), (self.symbols_size, 8)]);
        out.numbers(&[(self.sections - 1, 4), (symbols, 4), (8, 8), (SYMBOL, 8)]);
        out.numbers(&[
            (9, 4),
            (u64::from(elf::SHT_STRTAB.0), 4),
            (0, 8),
            (0, 8),
            (self.strings_at, 8),
        ]);
        out.numbers(&[(self.strings.len() as u64, 8), (0, 4), (0, 4), (1, 8), (0, 8)]);
    }
}

/// An object file with these sections, each named by its own section symbol, which no program gets
/// to see, and kept even when unused sections are collected.
pub(crate) fn object(target: Target, pads: &[Pad]) -> Vec<u8> {
    let places = Places::of(pads);
    let mut out = Bytes { bytes: Vec::new(), little: target.little };
    places.write_header(&mut out, target);
    out.bytes.resize(places.symbols_at as usize, 0);
    places.write_symbols(&mut out);
    out.bytes.extend_from_slice(&places.strings);
    out.bytes.resize(places.headers_at as usize, 0);
    places.write_section_headers(&mut out, pads);
    out.bytes
}
