//! Which bytes of an ELF file go to which addresses, and where do its tables say so?
//!
//! Source: System V ABI, chapters 4 and 5.

use object::elf;
use serde::Serialize;

pub(crate) const PT_LOAD: u32 = elf::PT_LOAD.0;
pub(crate) const HEADER_BYTES: u64 = 64;
pub(crate) const PROGRAM_BYTES: u64 = 56;
pub(crate) const SECTION_BYTES: u64 = 64;

/// Instruction sets whose superpages are known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// x86-64: 2 MiB.
    #[serde(rename = "x86-64")]
    X86_64,
    /// AArch64: by base page.
    Aarch64,
    /// x86 of 32 bits, on a kernel of 64: as x86-64.
    X86,
    /// Arm of 32 bits, on a kernel of 64: as AArch64.
    Arm,
}

/// How a file is loaded, which decides how its base address is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A program with fixed addresses.
    Fixed,
    /// A position-independent program: the kernel aligns its base to the largest `p_align`.
    Pie,
    /// A shared library: mapped by the dynamic linker.
    Library,
}

/// The width of addresses in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// 32 bits.
    Narrow,
    /// 64 bits.
    Wide,
}

/// One program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) kind: u32,
    pub(crate) flags: u32,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) file_bytes: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) align: u64,
}

impl Program {
    pub(crate) fn is_load(&self) -> bool {
        self.kind == PT_LOAD
    }

    pub(crate) fn is_text(&self) -> bool {
        self.is_load() && self.flags & elf::PF_X.0 != 0 && self.file_bytes > 0
    }

    /// First file offset behind it. Reading has checked that it does not overflow.
    pub(crate) fn file_end(&self) -> u64 {
        self.offset.saturating_add(self.file_bytes)
    }

    /// First address behind its memory.
    pub(crate) fn memory_end(&self) -> u64 {
        self.address.saturating_add(self.memory_bytes)
    }
}

/// One section header, as far as rewriting needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) offset: u64,
    /// Bytes in the file; 0 for those that stand only in memory.
    pub(crate) file_bytes: u64,
    pub(crate) align: u64,
}

/// The tables of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    pub(crate) arch: Arch,
    pub(crate) class: Class,
    pub(crate) kind: Kind,
    pub(crate) programs: Vec<Program>,
    pub(crate) sections: Vec<Section>,
    /// Offset of the program header table.
    pub(crate) program_table: u64,
    /// Offset of the section header table; 0 when there is none.
    pub(crate) section_table: u64,
    pub(crate) file_bytes: u64,
    /// Path of the dynamic linker, when the file asks for one.
    pub(crate) interpreter: Option<String>,
    /// The file names libraries whose code runs while it is loaded (DT_AUDIT, DT_DEPAUDIT).
    pub(crate) audited: bool,
}

impl Headers {
    pub(crate) fn loads(&self) -> impl Iterator<Item = &Program> {
        self.programs.iter().filter(|program| program.is_load())
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = &Program> {
        self.programs.iter().filter(|program| program.is_text())
    }

    /// The largest alignment that a loadable segment asks for.
    pub(crate) fn base_align(&self) -> u64 {
        self.loads().map(|load| load.align).max().unwrap_or(0)
    }

    /// Path of the dynamic linker, when the file asks for one.
    pub(crate) fn interpreter(&self) -> Option<&str> {
        self.interpreter.as_deref()
    }

    /// Bytes of all executable segments.
    pub(crate) fn text_bytes(&self) -> u64 {
        self.texts().map(|text| text.file_bytes).sum()
    }
}
