//! How are the tables of an ELF file read?
//!
//! Reads the ELF header, the program headers and the section headers of little-endian files with
//! bounded reads; nothing else of the file is looked at. `object` knows where the fields of headers
//! lie; which tables make sense is checked here, since what is rewritten must be right. Source:
//! System V ABI, chapters 4 and 5.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader, ProgramHeader as _, SectionHeader as _};
use object::{LittleEndian, pod};

use crate::Error;
use crate::elf::{Arch, Class, HEADER_BYTES, Headers, Kind, Program, Section};

const LE: LittleEndian = LittleEndian;
/// No dynamic section is longer in practice; what is longer is read up to here.
const MAX_DYNAMIC: u64 = 1 << 20;

impl Headers {
    /// Reads the tables of an open file.
    ///
    /// # Errors
    /// When it is no program or library with the least significant byte first, or its tables or
    /// segments do not fit into the file or into each other.
    pub(crate) fn read(path: &Path, file: &File) -> Result<Headers, Error> {
        Reader { path, file, file_bytes: length(path, file)? }.headers()
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

/// Bytes of a file, where `object` can see entries of tables in them: as aligned as those.
struct Piece {
    words: Vec<u64>,
    size: usize,
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        pod::bytes_of_slice(&self.words).get(..self.size).unwrap_or_default()
    }

    /// The entries that it consists of, but for what is left at its end.
    fn entries<T: pod::Pod>(&self) -> &[T] {
        let count = self.size / size_of::<T>().max(1);
        pod::slice_from_bytes(self.bytes(), count).map_or(&[], |(entries, _)| entries)
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
    fn piece(&self, offset: u64, count: u64, what: &str) -> Result<Piece, Error> {
        let inside = offset.checked_add(count).is_some_and(|end| end <= self.file_bytes);
        let size = usize::try_from(count).ok().filter(|_| inside).ok_or_else(|| {
            self.damaged(format!(
                "{what} should be the {count} bytes at offset {offset}, the file has {}",
                self.file_bytes
            ))
        })?;
        let mut words = vec![0u64; size.div_ceil(8)];
        let read = |source: io::Error| Error::Read { path: self.path.to_owned(), source };
        let bytes = pod::bytes_of_slice_mut(&mut words).get_mut(..size).unwrap_or_default();
        self.file.read_exact_at(bytes, offset).map_err(read)?;
        Ok(Piece { words, size })
    }

    fn headers(&self) -> Result<Headers, Error> {
        let begin = self.piece(0, HEADER_BYTES.min(self.file_bytes), "the ELF header")?;
        let bytes = begin.bytes();
        if bytes.starts_with(b"#!") {
            let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
            let line = String::from_utf8_lossy(line.get(2..).unwrap_or_default()).trim().to_owned();
            return Err(self.no_program(format!("is a script, run by {line}; give that program")));
        }
        if !bytes.starts_with(&elf::ELFMAG) {
            return Err(self.no_program("is no ELF file; give a program or library"));
        }
        match bytes.get(4) {
            Some(1) => self.tables::<FileHeader32<LittleEndian>>(&begin),
            _ => self.tables::<FileHeader64<LittleEndian>>(&begin),
        }
    }

    /// The tables of a file whose headers are as wide as `E` says.
    fn tables<E: FileHeader<Endian = LittleEndian>>(
        &self,
        begin: &Piece,
    ) -> Result<Headers, Error> {
        let Some(header) = begin.entries::<E>().first() else {
            let bytes = size_of::<E>();
            return Err(self.damaged(format!("the ELF header has {bytes} bytes, the file fewer")));
        };
        let class = if E::is_type_64_sized() { Class::Wide } else { Class::Narrow };
        let arch = self.arch(class, header)?;
        let fixed = self.is_fixed(header.e_type(LE))?;
        let programs = self.programs(header)?;
        let sections = self.sections(header)?;
        let interpreter = self.interpreter(&programs);
        let dynamic = self.dynamic::<E>(&programs);
        let headers = Headers {
            arch,
            class,
            kind: if fixed { Kind::Fixed } else { dynamic.kind(interpreter.is_some()) },
            programs,
            sections,
            program_table: header.e_phoff(LE).into(),
            section_table: header.e_shoff(LE).into(),
            file_bytes: self.file_bytes,
            interpreter,
            audited: dynamic.audited,
        };
        self.check(&headers)?;
        Ok(headers)
    }

    fn arch<E: FileHeader<Endian = LittleEndian>>(
        &self,
        class: Class,
        header: &E,
    ) -> Result<Arch, Error> {
        let ident = header.e_ident();
        let known = [elf::ELFCLASS32, elf::ELFCLASS64].contains(&ident.class);
        if !known || ident.data != elf::ELFDATA2LSB {
            return Err(self.no_program(
                "is no ELF file of 32 or 64 bits with the least significant byte first; only \
                 those are known here",
            ));
        }
        match (class, header.e_machine(LE)) {
            (Class::Wide, elf::EM_X86_64) => Ok(Arch::X86_64),
            (Class::Wide, elf::EM_AARCH64) => Ok(Arch::Aarch64),
            (Class::Narrow, elf::EM_386) => Ok(Arch::X86),
            (Class::Narrow, elf::EM_ARM) => Ok(Arch::Arm),
            (_, other) => Err(self.no_program(format!(
                "is for ELF machine {}; superpages are known here for x86-64 (62), AArch64 \
                 (183), and of 32 bits for x86 (3) and Arm (40)",
                other.0
            ))),
        }
    }

    /// Whether it has fixed addresses, as far as its type tells.
    fn is_fixed(&self, kind: elf::FileType) -> Result<bool, Error> {
        Err(self.no_program(match kind {
            elf::ET_EXEC => return Ok(true),
            elf::ET_DYN => return Ok(false),
            elf::ET_REL => {
                "is an object file, not linked yet; give the program or library".to_owned()
            }
            elf::ET_CORE => "is a core file, the memory of a process that ended; give the program \
                             or library it came from"
                .to_owned(),
            other => {
                format!("has ELF type {}; a program (2) or library (3) is expected", other.0)
            }
        }))
    }

    fn programs<E: FileHeader<Endian = LittleEndian>>(
        &self,
        header: &E,
    ) -> Result<Vec<Program>, Error> {
        let table: u64 = header.e_phoff(LE).into();
        let (entry, count) = (u64::from(header.e_phentsize(LE)), u64::from(header.e_phnum(LE)));
        if count == 0 || table == 0 {
            return Err(self.no_program(
                "has no program headers, so nothing of it is loaded; give a linked program or \
                 library",
            ));
        }
        // Linux loads no file with more (fs/binfmt_elf.c, load_elf_phdrs).
        let usual = size_of::<E::ProgramHeader>() as u64;
        if entry != usual || count * entry > 65_536 {
            return Err(self.damaged(format!(
                "{count} program headers of {entry} bytes are announced; Linux loads at most \
                 65536 bytes of them, each of {usual}"
            )));
        }
        let piece = self.piece(table, count * entry, "the program header table")?;
        let program = |entry: &E::ProgramHeader| Program {
            kind: entry.p_type(LE).0,
            flags: entry.p_flags(LE).0,
            offset: entry.p_offset(LE).into(),
            address: entry.p_vaddr(LE).into(),
            file_bytes: entry.p_filesz(LE).into(),
            memory_bytes: entry.p_memsz(LE).into(),
            align: entry.p_align(LE).into(),
        };
        Ok(piece.entries().iter().map(program).collect())
    }

    fn sections<E: FileHeader<Endian = LittleEndian>>(
        &self,
        header: &E,
    ) -> Result<Vec<Section>, Error> {
        let table: u64 = header.e_shoff(LE).into();
        if table == 0 {
            return Ok(Vec::new());
        }
        let usual = size_of::<E::SectionHeader>() as u64;
        let entry = u64::from(header.e_shentsize(LE));
        if entry != usual {
            let what =
                format!("section headers of {entry} bytes were announced, {usual} are usual");
            return Err(self.damaged(what));
        }
        let count = match u64::from(header.e_shnum(LE)) {
            // More than 65279: the number stands in the first entry.
            0 => {
                let first = self.piece(table, usual, "the first section header")?;
                let first = first.entries::<E::SectionHeader>().first();
                first.map_or(0, |first| first.sh_size(LE).into())
            }
            count => count,
        };
        let piece = self.piece(table, count.saturating_mul(usual), "the section header table")?;
        let section = |entry: &E::SectionHeader| Section {
            offset: entry.sh_offset(LE).into(),
            file_bytes: match entry.sh_type(LE) {
                elf::SHT_NULL | elf::SHT_NOBITS => 0,
                _ => entry.sh_size(LE).into(),
            },
            align: entry.sh_addralign(LE).into(),
        };
        Ok(piece.entries().iter().map(section).collect())
    }

    fn interpreter(&self, programs: &[Program]) -> Option<String> {
        let wanted = programs.iter().find(|program| program.kind == elf::PT_INTERP.0)?;
        let size = wanted.file_bytes.min(4096);
        let piece = self.piece(wanted.offset, size, "the interpreter").ok()?;
        let path = piece.bytes().split(|&byte| byte == 0).next()?;
        Some(String::from_utf8_lossy(path).into_owned())
    }

    fn dynamic<E: FileHeader<Endian = LittleEndian>>(&self, programs: &[Program]) -> Dynamic {
        let dynamic = programs.iter().find(|program| program.kind == elf::PT_DYNAMIC.0);
        let Some(dynamic) = dynamic else { return Dynamic::default() };
        let mut found = Dynamic { there: true, ..Dynamic::default() };
        // In separate debug files the dynamic section is empty.
        let size = dynamic.file_bytes.min(MAX_DYNAMIC);
        let Ok(piece) = self.piece(dynamic.offset, size, "the dynamic section") else {
            return found;
        };
        for entry in piece.entries::<E::Dyn>() {
            match entry.tag(LE) {
                elf::DT_NULL => break,
                elf::DT_SONAME => found.named = true,
                elf::DT_FLAGS_1 => found.pie = entry.val(LE) & elf::DF_1_PIE.0 != 0,
                elf::DT_AUDIT | elf::DT_DEPAUDIT => found.audited = true,
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
