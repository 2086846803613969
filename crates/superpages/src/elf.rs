//! Which bytes of an ELF file go to which addresses, and where do its tables say so?
//!
//! Reads the ELF header, the program headers and the section headers of little-endian files with
//! bounded reads; nothing else of the file is looked at. Source: System V ABI, chapters 4 and 5.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use serde::Serialize;

use crate::Error;
use crate::class::{Class, u16_at};

pub(crate) const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PF_X: u32 = 1;
const DT_SONAME: u64 = 14;
const DT_FLAGS_1: u64 = 0x6fff_fffb;
const DT_DEPAUDIT: u64 = 0x6fff_fefb;
const DT_AUDIT: u64 = 0x6fff_fefc;
const DF_1_PIE: u64 = 0x0800_0000;
pub(crate) const HEADER_BYTES: u64 = 64;
pub(crate) const PROGRAM_BYTES: u64 = 56;
pub(crate) const SECTION_BYTES: u64 = 64;
/// No dynamic section is longer in practice; what is longer is read up to here.
const MAX_DYNAMIC: u64 = 1 << 20;

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
        self.is_load() && self.flags & PF_X != 0 && self.file_bytes > 0
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
    /// Reads the tables of an open file.
    ///
    /// # Errors
    /// When it is no program or library with the least significant byte first, or its tables or
    /// segments do not fit into the file or into each other.
    pub(crate) fn read(path: &Path, file: &File) -> Result<Headers, Error> {
        Reader { path, file, file_bytes: length(path, file)? }.headers()
    }

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

/// Opens a file to be read, without waiting where it is a pipe with a name that nobody writes to.
pub(crate) fn open(path: &Path) -> Result<File, Error> {
    let read = |source| Error::Read { path: path.to_owned(), source };
    let file =
        File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(read)?;
    length(path, &file).map(|_| file)
}

/// Its length in bytes, when it is a regular file.
fn length(path: &Path, file: &File) -> Result<u64, Error> {
    let read = |source| Error::Read { path: path.to_owned(), source };
    let about = file.metadata().map_err(read)?;
    if !about.is_file() {
        let what = "is no regular file; give an ELF program or library".to_owned();
        return Err(Error::NotAProgram { path: path.to_owned(), what });
    }
    Ok(about.len())
}

/// What the dynamic section says.
#[derive(Clone, Copy, Default)]
struct Dynamic {
    there: bool,
    named: bool,
    pie: bool,
    audited: bool,
}

impl Dynamic {
    /// A program, or a library? Both have type 3; libc.so.6 even names an interpreter.
    fn kind(self, interpreted: bool) -> Kind {
        if self.pie || interpreted && !(self.there && self.named) {
            Kind::Pie
        } else {
            Kind::Library
        }
    }
}

struct Reader<'a> {
    path: &'a Path,
    file: &'a File,
    file_bytes: u64,
}

impl Reader<'_> {
    fn damaged(&self, what: impl Into<String>) -> Error {
        Error::Damaged { path: self.path.to_owned(), what: what.into() }
    }

    fn no_program(&self, what: impl Into<String>) -> Error {
        Error::NotAProgram { path: self.path.to_owned(), what: what.into() }
    }

    /// Exactly these bytes; asked of the file's length before anything is allocated.
    fn bytes(&self, offset: u64, count: u64, what: &str) -> Result<Vec<u8>, Error> {
        let inside = offset.checked_add(count).is_some_and(|end| end <= self.file_bytes);
        let size = usize::try_from(count).ok().filter(|_| inside).ok_or_else(|| {
            self.damaged(format!(
                "{what} should be the {count} bytes at offset {offset}, the file has {}",
                self.file_bytes
            ))
        })?;
        let mut bytes = vec![0; size];
        let read = |source: io::Error| Error::Read { path: self.path.to_owned(), source };
        self.file.read_exact_at(&mut bytes, offset).map_err(read)?;
        Ok(bytes)
    }

    fn headers(&self) -> Result<Headers, Error> {
        let header = self.bytes(0, HEADER_BYTES.min(self.file_bytes), "the ELF header")?;
        let (class, arch) = self.arch(&header)?;
        let kind = u16_at(&header, 16);
        match kind {
            2 | 3 => {}
            1 => {
                return Err(self
                    .no_program("is an object file, not linked yet; give the program or library"));
            }
            4 => {
                return Err(self.no_program(
                    "is a core file, the memory of a process that ended; give the program or \
                     library it came from",
                ));
            }
            other => {
                return Err(self.no_program(format!(
                    "has ELF type {other}; a program (2) or library (3) is expected"
                )));
            }
        }
        let tables = class.tables(&header);
        let (program_table, section_table) = (tables.programs.0, tables.sections.0);
        let programs = self.programs(class, tables.programs)?;
        let sections = self.sections(class, tables.sections)?;
        let interpreter = self.interpreter(&programs);
        let dynamic = self.dynamic(class, &programs);
        let kind = match kind {
            2 => Kind::Fixed,
            _ => dynamic.kind(interpreter.is_some()),
        };
        let headers = Headers {
            arch,
            class,
            kind,
            programs,
            sections,
            program_table,
            section_table,
            file_bytes: self.file_bytes,
            interpreter,
            audited: dynamic.audited,
        };
        self.check(&headers)?;
        Ok(headers)
    }

    fn arch(&self, header: &[u8]) -> Result<(Class, Arch), Error> {
        if header.starts_with(b"#!") {
            let line = header.split(|&byte| byte == b'\n').next().unwrap_or_default();
            let line = String::from_utf8_lossy(line.get(2..).unwrap_or_default()).trim().to_owned();
            return Err(self.no_program(format!("is a script, run by {line}; give that program")));
        }
        if !header.starts_with(b"\x7fELF") {
            return Err(self.no_program("is no ELF file; give a program or library"));
        }
        let class = match header.get(4) {
            Some(1) => Class::Narrow,
            _ => Class::Wide,
        };
        if (header.len() as u64) < class.header_bytes() {
            let bytes = class.header_bytes();
            return Err(self.damaged(format!("the ELF header has {bytes} bytes, the file fewer")));
        }
        if !matches!(header.get(4), Some(1 | 2)) || header.get(5) != Some(&1) {
            return Err(self.no_program(
                "is no ELF file of 32 or 64 bits with the least significant byte first; only \
                 those are known here",
            ));
        }
        match (class, u16_at(header, 18)) {
            (Class::Wide, 62) => Ok((class, Arch::X86_64)),
            (Class::Wide, 183) => Ok((class, Arch::Aarch64)),
            (Class::Narrow, 3) => Ok((class, Arch::X86)),
            (Class::Narrow, 40) => Ok((class, Arch::Arm)),
            (_, other) => Err(self.no_program(format!(
                "is for ELF machine {other}; superpages are known here for x86-64 (62), AArch64 \
                 (183), and of 32 bits for x86 (3) and Arm (40)"
            ))),
        }
    }

    fn programs(
        &self,
        class: Class,
        (table, entry, count): (u64, u64, u64),
    ) -> Result<Vec<Program>, Error> {
        if count == 0 || table == 0 {
            return Err(self.no_program(
                "has no program headers, so nothing of it is loaded; give a linked program or \
                 library",
            ));
        }
        // Linux loads no file with more (fs/binfmt_elf.c, load_elf_phdrs).
        let usual = class.program_bytes();
        if entry != usual || count * entry > 65_536 {
            return Err(self.damaged(format!(
                "{count} program headers of {entry} bytes are announced; Linux loads at most \
                 65536 bytes of them, each of {usual}"
            )));
        }
        let bytes = self.bytes(table, count * entry, "the program header table")?;
        Ok(bytes.chunks_exact(usual as usize).map(|entry| class.program(entry)).collect())
    }

    fn sections(
        &self,
        class: Class,
        (table, entry, count): (u64, u64, u64),
    ) -> Result<Vec<Section>, Error> {
        if table == 0 {
            return Ok(Vec::new());
        }
        let usual = class.section_bytes();
        if entry != usual {
            let what =
                format!("section headers of {entry} bytes were announced, {usual} are usual");
            return Err(self.damaged(what));
        }
        let count = match count {
            // More than 65279: the number stands in the first entry.
            0 => class.section_count(&self.bytes(table, usual, "the first section header")?),
            count => count,
        };
        let bytes = self.bytes(table, count.saturating_mul(usual), "the section header table")?;
        Ok(bytes.chunks_exact(usual as usize).map(|entry| class.section(entry)).collect())
    }

    fn interpreter(&self, programs: &[Program]) -> Option<String> {
        let wanted = programs.iter().find(|program| program.kind == PT_INTERP)?;
        let bytes =
            self.bytes(wanted.offset, wanted.file_bytes.min(4096), "the interpreter").ok()?;
        let path = bytes.split(|&byte| byte == 0).next()?;
        Some(String::from_utf8_lossy(path).into_owned())
    }

    fn dynamic(&self, class: Class, programs: &[Program]) -> Dynamic {
        let Some(dynamic) = programs.iter().find(|program| program.kind == PT_DYNAMIC) else {
            return Dynamic::default();
        };
        // In separate debug files the dynamic section is empty.
        let size = dynamic.file_bytes.min(MAX_DYNAMIC);
        let bytes = self.bytes(dynamic.offset, size, "the dynamic section").unwrap_or_default();
        let mut found = Dynamic { there: true, ..Dynamic::default() };
        for entry in class.dynamic(&bytes) {
            match entry {
                (0, _) => break,
                (DT_SONAME, _) => found.named = true,
                (DT_FLAGS_1, flags) => found.pie = flags & DF_1_PIE != 0,
                (DT_AUDIT | DT_DEPAUDIT, _) => found.audited = true,
                _ => {}
            }
        }
        found
    }

    fn check(&self, headers: &Headers) -> Result<(), Error> {
        for load in headers.loads() {
            let in_file =
                load.offset.checked_add(load.file_bytes).is_some_and(|end| end <= self.file_bytes);
            if !in_file {
                return Err(self.damaged(format!(
                    "a segment should be the {} bytes at offset {:#x}, the file has {} bytes",
                    load.file_bytes, load.offset, self.file_bytes
                )));
            }
            // The last 2 MiB of the address space are left out, so that rounding up cannot
            // overflow.
            let fits = load
                .address
                .checked_add(load.memory_bytes)
                .is_some_and(|end| end < 0xffff_ffff_f000_0000);
            if !fits || load.memory_bytes < load.file_bytes {
                return Err(self.damaged(format!(
                    "the segment at address {:#x} has {:#x} bytes in memory and {:#x} in the file",
                    load.address, load.memory_bytes, load.file_bytes
                )));
            }
        }
        let mut loads: Vec<&Program> =
            headers.loads().filter(|load| load.memory_bytes > 0).collect();
        if loads.is_empty() {
            return Err(
                self.no_program("has no segment that is loaded; give a linked program or library")
            );
        }
        // Addresses of the upper half belong to kernels.
        if loads.iter().any(|load| load.address >= 1 << 63) {
            return Err(self.no_program(
                "has the addresses of a kernel, which maps itself; give a program or library",
            ));
        }
        loads.sort_by_key(|load| load.address);
        for pair in loads.windows(2) {
            if let [one, two] = pair
                && one.memory_end() > two.address
            {
                return Err(self.damaged(format!(
                    "the segments at addresses {:#x} and {:#x} overlap",
                    one.address, two.address
                )));
            }
        }
        Ok(())
    }
}
