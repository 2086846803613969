//! Where do the fields of headers lie in ELF files of 32 and of 64 bits?
//!
//! Source: System V ABI, chapters 4 and 5.

use crate::elf::{Program, Section};

/// Sections of this type stand only in memory; 0 is no section.
const SHT_NOBITS: u32 = 8;

/// The width of addresses in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// 32 bits.
    Narrow,
    /// 64 bits.
    Wide,
}

/// What the ELF header says of the tables: where each begins, bytes of an entry, entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    pub(crate) programs: (u64, u64, u64),
    pub(crate) sections: (u64, u64, u64),
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 2)
        .and_then(|part| part.try_into().ok())
        .map_or(0, |part| u16::from_le_bytes(part).into())
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|part| part.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|part| part.try_into().ok()).map_or(0, u64::from_le_bytes)
}

impl Class {
    fn wide(self) -> bool {
        self == Class::Wide
    }

    /// A number as wide as an address: the `n`-th place of files of 32 bits, or this one of files
    /// of 64.
    fn word(self, bytes: &[u8], narrow: usize, wide: usize) -> u64 {
        if self.wide() { u64_at(bytes, wide) } else { u32_at(bytes, narrow).into() }
    }

    /// Bytes of the ELF header.
    pub(crate) fn header_bytes(self) -> u64 {
        if self.wide() { 64 } else { 52 }
    }

    /// Bytes of a program header.
    pub(crate) fn program_bytes(self) -> u64 {
        if self.wide() { 56 } else { 32 }
    }

    /// Bytes of a section header.
    pub(crate) fn section_bytes(self) -> u64 {
        if self.wide() { 64 } else { 40 }
    }

    pub(crate) fn tables(self, header: &[u8]) -> Tables {
        let (programs, sections) = if self.wide() { (54, 58) } else { (42, 46) };
        let counted = |at: usize| (u16_at(header, at), u16_at(header, at + 2));
        let ((program, program_count), (section, section_count)) =
            (counted(programs), counted(sections));
        Tables {
            programs: (self.word(header, 28, 32), program, program_count),
            sections: (self.word(header, 32, 40), section, section_count),
        }
    }

    pub(crate) fn program(self, entry: &[u8]) -> Program {
        Program {
            kind: u32_at(entry, 0),
            flags: u32_at(entry, if self.wide() { 4 } else { 24 }),
            offset: self.word(entry, 4, 8),
            address: self.word(entry, 8, 16),
            file_bytes: self.word(entry, 16, 32),
            memory_bytes: self.word(entry, 20, 40),
            align: self.word(entry, 28, 48),
        }
    }

    pub(crate) fn section(self, entry: &[u8]) -> Section {
        let in_memory_only = matches!(u32_at(entry, 4), 0 | SHT_NOBITS);
        let file_bytes = if in_memory_only { 0 } else { self.section_count(entry) };
        Section { offset: self.word(entry, 16, 24), file_bytes, align: self.word(entry, 32, 48) }
    }

    /// The size of a section, which in the first entry is the number of entries.
    pub(crate) fn section_count(self, entry: &[u8]) -> u64 {
        self.word(entry, 20, 32)
    }

    /// The entries of a dynamic section: tag and value.
    pub(crate) fn dynamic(self, bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> {
        let (size, value) = if self.wide() { (16, 8) } else { (8, 4) };
        bytes
            .chunks_exact(size)
            .map(move |entry| (self.word(entry, 0, 0), self.word(entry, value, value)))
    }
}
