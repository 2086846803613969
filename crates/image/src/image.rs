//! An opened ELF file: which bytes are code, at which address, under which build ID.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use object::elf;
use rustc_hash::FxHashMap;

use crate::bytes::byte_range;
use crate::function_table::FunctionTable;
use crate::headers::Headers;
use crate::memory_map::Bytes;
use crate::stubs::Stub;
use crate::{Arch, BuildId, Endian, Error, FileOffset, ImageAddr, ImageKind, Section, Segment};

/// Addresses `start..end` that hold instructions, and where they stand in the file (not at all in
/// debug files).
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodeRange {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) offset: Option<u64>,
}

/// A field of an instruction that only the linker can fill in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodeRelocation {
    pub(crate) address: ImageAddr,
    /// Where a direct branch goes, if into this file.
    pub(crate) target: Option<u64>,
}

/// An opened ELF file of either class and byte order.
///
/// Opening reads the headers and the build ID. Symbols, sections and code are read when they are
/// asked for, straight from the memory map, so opening a kernel of a gigabyte costs as much as
/// opening a small program.
#[derive(Debug)]
pub struct Image {
    path: PathBuf,
    bytes: Bytes,
    pub(crate) headers: Headers,
    kind: ImageKind,
    build_id: Option<BuildId>,
    segments: Vec<Segment>,
    code: Vec<CodeRange>,
    /// Where `.symtab` is looked for when this file has none.
    pub(crate) debug_symbols: Option<Arc<Image>>,
    /// What `.gnu_debugdata` holds.
    pub(crate) mini_debug: OnceLock<Option<Box<Image>>>,
    pub(crate) function_table: OnceLock<FunctionTable>,
    pub(crate) stubs: OnceLock<Vec<Stub>>,
    /// Decompressed and relocated sections, by section index.
    pub(crate) prepared: Vec<OnceLock<Result<Vec<u8>, String>>>,
    /// Relocation sections by the section they apply to; only built for relocatable files.
    pub(crate) relocation_sections: OnceLock<FxHashMap<u32, Vec<u32>>>,
    pub(crate) code_relocations: OnceLock<Vec<CodeRelocation>>,
    pub(crate) patched: OnceLock<Vec<std::ops::Range<ImageAddr>>>,
}

impl Image {
    /// Opens an ELF file by mapping it into memory.
    ///
    /// # Errors
    /// When the file cannot be read, is no ELF file, or announces header tables that it does not
    /// contain.
    pub fn open(path: &Path) -> Result<Image, Error> {
        let bytes =
            Bytes::map(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
        Image::new(path.to_owned(), bytes)
    }

    /// Reads an ELF file that is already in memory; `name` stands for its path in messages.
    ///
    /// # Errors
    /// As [`Image::open`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Image, Error> {
        Image::new(PathBuf::from(name), Bytes::Owned(bytes))
    }

    fn new(path: PathBuf, bytes: Bytes) -> Result<Image, Error> {
        let mut headers = Headers::read(&path, &bytes)?;
        let relocatable = headers.file_type == elf::ET_REL.0;
        if relocatable {
            // Sections of relocatable files all state address 0. Their file offset makes a distinct
            // address of every byte; perf and the kernel's own tools use the same
            // convention for modules.
            let loaded = headers.sections.iter_mut().filter(|section| section.is_loaded());
            loaded.for_each(|section| section.address = ImageAddr(section.offset.0));
        }
        let count = headers.sections.len();
        let mut image = Image {
            path,
            bytes,
            headers,
            kind: ImageKind::Executable,
            build_id: None,
            segments: Vec::new(),
            code: Vec::new(),
            debug_symbols: None,
            mini_debug: OnceLock::new(),
            function_table: OnceLock::new(),
            stubs: OnceLock::new(),
            prepared: std::iter::repeat_with(OnceLock::new).take(count).collect(),
            relocation_sections: OnceLock::new(),
            code_relocations: OnceLock::new(),
            patched: OnceLock::new(),
        };
        image.kind = image.find_kind();
        image.build_id = image.find_build_id();
        image.layout();
        Ok(image)
    }

    /// Takes function symbols from a separate debug file when this image has no symbol table of its
    /// own.
    #[must_use]
    pub fn with_symbols_of(mut self, debug: Arc<Image>) -> Image {
        self.debug_symbols = Some(debug);
        self.function_table = OnceLock::new();
        self
    }

    /// Gives the sections of a separate debug file of a relocatable image the addresses they have
    /// in that image.
    ///
    /// Tools that split debug information off move the sections inside the file, so that the file
    /// offsets, which are the addresses of relocatable images, would differ between the two
    /// files.
    pub(crate) fn adopt_addresses(&mut self, of: &Image) {
        if !self.is_relocatable() {
            return;
        }
        let by_name: FxHashMap<&str, ImageAddr> = of
            .sections()
            .iter()
            .rev()
            .map(|section| (of.section_name(section), section.address))
            .collect();
        let address = |own: &Section| {
            let name = self.section_name(own);
            let same_index = of
                .sections()
                .get(own.index as usize)
                .filter(|other| of.section_name(other) == name);
            same_index.map(|other| other.address).or_else(|| by_name.get(name).copied())
        };
        let addresses: Vec<Option<ImageAddr>> = self.sections().iter().map(address).collect();
        for (section, address) in self.headers.sections.iter_mut().zip(addresses) {
            if let (true, Some(address)) = (section.is_loaded(), address) {
                section.address = address;
            }
        }
        self.layout();
    }

    /// The path the image was opened by, or its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The whole file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn headers(&self) -> &Headers {
        &self.headers
    }

    /// The build ID, from a note section, or from a `PT_NOTE` segment when the section headers were
    /// stripped.
    pub fn build_id(&self) -> Option<&BuildId> {
        self.build_id.as_ref()
    }

    /// The instruction set.
    pub fn arch(&self) -> Arch {
        match elf::Machine(self.headers.machine) {
            elf::EM_X86_64 => Arch::X86_64,
            elf::EM_AARCH64 => Arch::Aarch64,
            elf::Machine(other) => Arch::Other(other),
        }
    }

    /// How the image is loaded.
    pub fn kind(&self) -> ImageKind {
        self.kind
    }

    /// Whether the file has the 64-bit format.
    pub fn is_64(&self) -> bool {
        self.headers.is_64
    }

    /// The byte order of the file.
    pub fn endian(&self) -> Endian {
        self.headers.endian
    }

    /// Whether addresses are file offsets because the file states none (`.o`, `.ko`).
    pub fn is_relocatable(&self) -> bool {
        self.headers.file_type == elf::ET_REL.0
    }

    /// The loadable segments, sorted by address; in files without program headers, the executable
    /// sections.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The address of a byte of the file. Where segments share file bytes, the executable one
    /// counts.
    pub fn address_of(&self, offset: FileOffset) -> Option<ImageAddr> {
        let inside = |segment: &&Segment| {
            offset
                .0
                .checked_sub(segment.offset.0)
                .is_some_and(|distance| distance < segment.file_bytes)
        };
        let executable = self.segments.iter().filter(inside).find(|segment| segment.executable);
        let segment = executable.or_else(|| self.segments.iter().find(inside))?;
        segment.address.checked_add(offset.0.checked_sub(segment.offset.0)?)
    }

    /// Where the byte at an address stands in the file; `None` for addresses that only exist in
    /// memory.
    pub fn offset_of(&self, address: ImageAddr) -> Option<FileOffset> {
        let inside = |segment: &&Segment| {
            address
                .distance_from(segment.address)
                .is_some_and(|distance| distance < segment.file_bytes)
        };
        let executable = self.segments.iter().filter(inside).find(|segment| segment.executable);
        let segment = executable.or_else(|| self.segments.iter().find(inside))?;
        segment.offset.0.checked_add(address.distance_from(segment.address)?).map(FileOffset)
    }

    /// Whether the address lies in an executable section (in an executable segment where there are
    /// no sections).
    pub fn is_executable_address(&self, address: ImageAddr) -> bool {
        self.executable_range(address).is_some()
    }

    /// The bytes from the address to the end of its executable section (or segment, where there are
    /// no sections). `None` where the file holds no code.
    pub fn code_at(&self, address: ImageAddr) -> Option<&[u8]> {
        let range = self.executable_range(address)?;
        let distance = address.0.checked_sub(range.start)?;
        let start = range.offset?.checked_add(distance)?;
        let wanted = byte_range(start, range.end.checked_sub(address.0)?)?;
        let end = wanted.end.min(self.bytes.len());
        self.bytes.get(wanted.start..end).filter(|bytes| !bytes.is_empty())
    }

    /// The address ranges that hold instructions, sorted: executable sections, or segments where
    /// there are none.
    pub fn code_ranges(&self) -> impl ExactSizeIterator<Item = std::ops::Range<ImageAddr>> + '_ {
        self.code.iter().map(|range| ImageAddr(range.start)..ImageAddr(range.end))
    }

    pub(crate) fn executable_range(&self, address: ImageAddr) -> Option<CodeRange> {
        let after = self.code.partition_point(|range| range.start <= address.0);
        self.code.get(after.checked_sub(1)?).copied().filter(|range| address.0 < range.end)
    }

    fn find_kind(&self) -> ImageKind {
        let has = |name: &str| self.section_by_name(name).is_some();
        match elf::FileType(self.headers.file_type) {
            elf::ET_REL if has(".gnu.linkonce.this_module") || has(".modinfo") => {
                ImageKind::KernelModule
            }
            elf::ET_REL => ImageKind::Relocatable,
            _ if has("__ksymtab") || has(".init.text") && has("__ex_table") => ImageKind::Kernel,
            elf::ET_DYN => ImageKind::PositionIndependent,
            _ => ImageKind::Executable,
        }
    }

    fn find_build_id(&self) -> Option<BuildId> {
        let is_note = |section: &&Section| section.kind == elf::SHT_NOTE.0;
        let sections = self.sections().iter().filter(is_note);
        let from_sections =
            sections.filter_map(|section| Some((self.section_file_bytes(section)?, section.align)));
        let segments = self.headers.notes.iter();
        let from_segments = segments.filter_map(|note| {
            Some((self.bytes.get(byte_range(note.offset, note.bytes)?)?, note.align))
        });
        from_sections
            .chain(from_segments)
            .find_map(|(notes, align)| self.build_id_note(notes, align))
    }

    /// Looks for `NT_GNU_BUILD_ID` among the notes. Source: System V ABI, "Note Section". Notes are
    /// padded to 4 bytes, or to 8 where the section says so (`.note.gnu.property`).
    fn build_id_note(&self, notes: &[u8], align: u64) -> Option<BuildId> {
        let align = if align == 8 { 8 } else { 4 };
        let mut offset = 0usize;
        loop {
            let field =
                |at| self.number(notes, offset.checked_add(at)?, 4).map(|number| number as usize);
            let (name_bytes, id_bytes, kind) = (field(0)?, field(4)?, field(8)?);
            let name = offset.checked_add(12)?;
            let id = name.checked_add(name_bytes)?.checked_next_multiple_of(align)?;
            let end = id.checked_add(id_bytes)?;
            if kind == 3 && notes.get(name..name.checked_add(name_bytes)?)? == b"GNU\0" {
                return BuildId::from_bytes(notes.get(id..end)?);
            }
            offset = end.checked_next_multiple_of(align)?;
        }
    }

    /// Derives segments and code ranges from the headers.
    fn layout(&mut self) {
        let code_sections = self
            .headers
            .sections
            .iter()
            .filter(|section| section.is_executable() && section.size != 0);
        self.code = code_sections
            .clone()
            .map(|section| CodeRange {
                start: section.address.0,
                end: section.address.0.saturating_add(section.size),
                offset: section.is_code().then_some(section.offset.0),
            })
            .collect();
        self.segments = self.headers.loads.clone();
        if self.segments.is_empty() {
            self.segments = code_sections
                .map(|section| Segment {
                    address: section.address,
                    offset: section.offset,
                    file_bytes: if section.is_code() { section.size } else { 0 },
                    memory_bytes: section.size,
                    align: section.align,
                    executable: true,
                })
                .collect();
            self.segments.sort_by_key(|segment| (segment.address, segment.offset));
        }
        if self.code.is_empty() && self.headers.sections.is_empty() {
            let executable = self.segments.iter().filter(|segment| segment.executable);
            self.code = executable
                .map(|segment| CodeRange {
                    start: segment.address.0,
                    end: segment.address.0.saturating_add(segment.file_bytes),
                    offset: Some(segment.offset.0),
                })
                .collect();
        }
        self.code.sort_by_key(|range| (range.start, range.end));
    }
}
