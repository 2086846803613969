//! The ELF header, program headers and section headers as plain numbers, whatever the class and
//! byte order.
//!
//! Everything later works on these tables, so no other file has to be generic over 32 and 64 bits.
//! They are small: one entry per header that really stands in the file. Source: System V ABI,
//! chapter 4 and 5.

use std::path::Path;

use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader as _, SectionHeader as _};

use crate::{Error, FileOffset, ImageAddr};

/// Byte order of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

/// Instruction set of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arch {
    /// x86 with 64-bit registers, including the x32 ABI.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
    /// Any other machine, by its `e_machine` number.
    Other(u16),
}

/// How an image is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ImageKind {
    /// An executable with fixed addresses (`ET_EXEC`).
    Executable,
    /// A position-independent executable or a shared library (`ET_DYN`).
    PositionIndependent,
    /// A Linux kernel (`vmlinux`).
    Kernel,
    /// A Linux kernel module (`.ko`).
    KernelModule,
    /// Any other relocatable file (`.o`).
    Relocatable,
}

/// A loadable part of the image (`PT_LOAD`), or an executable section where there are no program
/// headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Address of the first byte.
    pub address: ImageAddr,
    /// Where the first byte stands in the file.
    pub offset: FileOffset,
    /// How many bytes stand in the file.
    pub file_bytes: u64,
    /// How many bytes the segment has in memory; what the file does not hold is zero.
    pub memory_bytes: u64,
    /// Alignment in bytes that the loader keeps (0x1000, or 0x10000 for systems with 64 KiB
    /// pages).
    pub align: u64,
    /// Whether its pages are executable.
    pub executable: bool,
}

/// A section header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Position in the section header table.
    pub index: u32,
    /// Offset of the name in the section name table.
    pub(crate) name: u32,
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// Address of the first byte. In relocatable files: the file offset, for sections that are
    /// loaded.
    pub address: ImageAddr,
    /// Where the first byte stands in the file.
    pub offset: FileOffset,
    /// Size in bytes; in the file, or only in memory for `SHT_NOBITS`.
    pub size: u64,
    /// `sh_link`, the index of a related section.
    pub link: u32,
    /// `sh_info`.
    pub info: u32,
    /// Alignment in bytes.
    pub align: u64,
}

impl Section {
    /// Whether the section takes part in the running program.
    pub fn is_loaded(&self) -> bool {
        self.flags & elf::SHF_ALLOC.0 != 0
    }

    /// Whether the section holds instructions in the running program.
    pub fn is_executable(&self) -> bool {
        self.is_loaded() && self.flags & elf::SHF_EXECINSTR.0 != 0
    }

    /// Whether the section holds instructions that the file really contains.
    pub fn is_code(&self) -> bool {
        self.is_executable() && self.size != 0 && !self.is_empty_in_file()
    }

    /// Whether the file holds no bytes of the section (`SHT_NOBITS`, as in separate debug files).
    pub fn is_empty_in_file(&self) -> bool {
        self.kind == elf::SHT_NOBITS.0
    }
}

/// A program header that is not a `PT_LOAD` but holds notes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoteSegment {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) align: u64,
}

/// All header tables of one ELF file.
#[derive(Debug)]
pub(crate) struct Headers {
    pub(crate) is_64: bool,
    pub(crate) endian: Endian,
    pub(crate) file_type: u16,
    pub(crate) machine: u16,
    /// Where the program begins to run; 0 in files that are not run.
    pub(crate) entry: u64,
    pub(crate) loads: Vec<Segment>,
    pub(crate) notes: Vec<NoteSegment>,
    pub(crate) sections: Vec<Section>,
    /// Index of the section with the section names.
    pub(crate) names: usize,
}

impl Headers {
    /// Reads the tables. Fails when a table that the header announces does not fit into the file.
    pub(crate) fn read(path: &Path, bytes: &[u8]) -> Result<Headers, Error> {
        match bytes {
            [0x7f, b'E', b'L', b'F', 1, ..] => {
                Self::read_class::<elf::FileHeader32<Endianness>>(path, bytes)
            }
            [0x7f, b'E', b'L', b'F', 2, ..] => {
                Self::read_class::<elf::FileHeader64<Endianness>>(path, bytes)
            }
            [0x7f, b'E', b'L', b'F', class, ..] => Err(header_error(
                path,
                bytes,
                "the ELF class",
                format!("expected 1 or 2 at offset 4, found {class}"),
            )),
            _ => Err(Error::NotElf {
                path: path.to_owned(),
                found: bytes.get(..4).unwrap_or(bytes).to_vec(),
            }),
        }
    }

    fn read_class<E: FileHeader<Endian = Endianness>>(
        path: &Path,
        bytes: &[u8],
    ) -> Result<Headers, Error> {
        let fail =
            |what| move |reason: object::Error| header_error(path, bytes, what, reason.to_string());
        let header = E::parse(bytes).map_err(fail("the ELF header"))?;
        let endian = header.endian().map_err(fail("the byte order"))?;
        let mut headers = Headers {
            is_64: header.is_type_64(),
            endian: if endian == Endianness::Little { Endian::Little } else { Endian::Big },
            file_type: header.e_type(endian).0,
            machine: header.e_machine(endian).0,
            entry: header.e_entry(endian).into(),
            loads: Vec::new(),
            notes: Vec::new(),
            sections: Vec::new(),
            names: 0,
        };
        for header in
            header.program_headers(endian, bytes).map_err(fail("the program header table"))?
        {
            headers.add_program_header::<E>(header, endian);
        }
        let sections =
            header.section_headers(endian, bytes).map_err(fail("the section header table"))?;
        headers.sections = sections
            .iter()
            .zip(0..)
            .map(|(header, index)| section::<E>(header, index, endian))
            .collect();
        if !headers.sections.is_empty() {
            // A file without names is still usable by segment; so a bad index only costs the names.
            headers.names = header.shstrndx(endian, bytes).unwrap_or(0) as usize;
        }
        headers.loads.sort_by_key(|load| (load.address, load.offset, load.file_bytes));
        Ok(headers)
    }

    fn add_program_header<E: FileHeader<Endian = Endianness>>(
        &mut self,
        header: &E::ProgramHeader,
        endian: Endianness,
    ) {
        let (offset, file_bytes) = (header.p_offset(endian).into(), header.p_filesz(endian).into());
        let align = header.p_align(endian).into();
        match header.p_type(endian) {
            elf::PT_LOAD => self.loads.push(Segment {
                address: ImageAddr(header.p_vaddr(endian).into()),
                offset: FileOffset(offset),
                file_bytes,
                memory_bytes: header.p_memsz(endian).into(),
                align,
                executable: header.p_flags(endian).0 & elf::PF_X.0 != 0,
            }),
            elf::PT_NOTE => self.notes.push(NoteSegment { offset, bytes: file_bytes, align }),
            _ => {}
        }
    }
}

fn section<E: FileHeader<Endian = Endianness>>(
    header: &E::SectionHeader,
    index: u32,
    endian: Endianness,
) -> Section {
    Section {
        index,
        name: header.sh_name(endian),
        kind: header.sh_type(endian).0,
        flags: header.sh_flags(endian).0,
        address: ImageAddr(header.sh_addr(endian).into()),
        offset: FileOffset(header.sh_offset(endian).into()),
        size: header.sh_size(endian).into(),
        link: header.sh_link(endian),
        info: header.sh_info(endian),
        align: header.sh_addralign(endian).into(),
    }
}

fn header_error(path: &Path, bytes: &[u8], what: &'static str, reason: String) -> Error {
    Error::Header { path: path.to_owned(), what, reason, file_bytes: bytes.len() as u64 }
}
