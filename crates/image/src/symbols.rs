//! The symbol tables, entry by entry, as they stand in the file.
//!
//! Entries are read straight from the mapped bytes: a kernel has 200,000 of them, and most callers
//! want one.

use object::elf;

use crate::bytes::c_string;
use crate::{Image, ImageAddr, Section};

/// One entry of `.symtab` or `.dynsym`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Symbol {
    /// Offset of the name in the string table.
    pub(crate) name: u32,
    /// `STT_…`.
    pub(crate) kind: u8,
    /// `STB_…`.
    pub(crate) binding: u8,
    /// Section index, already looked up in `SHT_SYMTAB_SHNDX` where needed; `None` for undefined
    /// and special ones.
    pub(crate) section: Option<u32>,
    /// Whether the value is absolute, that is belongs to no section.
    pub(crate) absolute: bool,
    pub(crate) value: u64,
    pub(crate) size: u64,
}

/// A named place in code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label<'i> {
    /// Its name.
    pub name: &'i str,
    /// Its address.
    pub address: ImageAddr,
    /// The size that the symbol states; 0 is possible.
    pub size: u64,
}

/// A symbol table with its strings.
pub(crate) struct SymbolTable<'i> {
    image: &'i Image,
    entries: &'i [u8],
    extended: Option<&'i [u8]>,
    /// The string table, and where it begins in the file.
    pub(crate) strings: &'i [u8],
    pub(crate) strings_offset: u64,
}

impl Image {
    /// The first symbol table of that section type (`SHT_SYMTAB` or `SHT_DYNSYM`) that holds a
    /// symbol.
    pub(crate) fn symbol_table(&self, kind: elf::SectionType) -> Option<SymbolTable<'_>> {
        let is_table = |section: &&Section| {
            section.kind == kind.0 && section.size > self.symbol_bytes() as u64
        };
        let table = self.sections().iter().find(is_table)?;
        let strings = self.sections().get(table.link as usize)?;
        let is_extension = |section: &&Section| {
            section.kind == elf::SHT_SYMTAB_SHNDX.0 && section.link == table.index
        };
        let extension = self.sections().iter().find(is_extension);
        Some(SymbolTable {
            image: self,
            entries: self.section_file_bytes(table)?,
            extended: extension.and_then(|section| self.section_file_bytes(section)),
            strings: self.section_file_bytes(strings)?,
            strings_offset: strings.offset.0,
        })
    }

    fn symbol_bytes(&self) -> usize {
        if self.is_64() { 24 } else { 16 }
    }

    /// All names in code, untyped local ones too: clang names the parts of a split function so
    /// (`f.__part.1`, `f.cold`). In the order of the symbol table; names that are no UTF-8 are
    /// left out.
    pub fn labels(&self) -> Vec<Label<'_>> {
        let sources = self.symbol_sources().into_iter().flatten();
        let tables = sources.filter_map(|(source, kind)| source.symbol_table(kind));
        tables.flat_map(|table| self.labels_of(&table)).collect()
    }

    fn labels_of<'i>(&self, table: &SymbolTable<'i>) -> Vec<Label<'i>> {
        let named = |symbol: Symbol| {
            let code = matches!(
                elf::SymbolType(symbol.kind),
                elf::STT_FUNC | elf::STT_GNU_IFUNC | elf::STT_NOTYPE
            ) && symbol.section.is_some();
            let address =
                table.address(&symbol).filter(|&a| code && self.is_executable_address(a))?;
            let name =
                std::str::from_utf8(table.name(&symbol)?).ok().filter(|name| !name.is_empty())?;
            Some(Label { name, address, size: symbol.size })
        };
        table.iter().filter_map(named).collect()
    }

    /// The address of a symbol that is defined under that name, whatever its type: `_text` and
    /// `_stext` of a kernel, `__llvm_fs_discriminator__`. The first definition counts.
    pub fn kernel_symbol(&self, name: &str) -> Option<ImageAddr> {
        self.symbol_table(elf::SHT_SYMTAB)
            .or_else(|| self.symbol_table(elf::SHT_DYNSYM))?
            .find(name)
    }
}

impl<'i> SymbolTable<'i> {
    /// All entries but the first, which is always empty.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Symbol> {
        let entries = self.entries.chunks_exact(self.image.symbol_bytes()).enumerate().skip(1);
        entries.filter_map(|(index, entry)| self.parse(index, entry))
    }

    /// The entry of that number.
    pub(crate) fn get(&self, index: usize) -> Option<Symbol> {
        let bytes = self.image.symbol_bytes();
        let start = index.checked_mul(bytes)?;
        self.parse(index, self.entries.get(start..start.checked_add(bytes)?)?)
    }

    /// The name of a symbol.
    pub(crate) fn name(&self, symbol: &Symbol) -> Option<&'i [u8]> {
        c_string(self.strings, u64::from(symbol.name))
    }

    /// The address of a symbol; in relocatable files, its place in its section.
    pub(crate) fn address(&self, symbol: &Symbol) -> Option<ImageAddr> {
        if symbol.absolute || !self.image.is_relocatable() {
            return Some(ImageAddr(symbol.value));
        }
        self.image.sections().get(symbol.section? as usize)?.address.checked_add(symbol.value)
    }

    fn find(&self, name: &str) -> Option<ImageAddr> {
        let is_wanted = |symbol: &Symbol| {
            let start = usize::try_from(symbol.name).ok()?;
            let found = self.strings.get(start..start.checked_add(name.len())?.checked_add(1)?)?;
            Some(
                (symbol.section.is_some() || symbol.absolute)
                    && found.split_last() == Some((&0, name.as_bytes())),
            )
        };
        let symbol = self.iter().find(|symbol| is_wanted(symbol) == Some(true))?;
        self.address(&symbol)
    }

    fn parse(&self, index: usize, entry: &[u8]) -> Option<Symbol> {
        let number = |offset, bytes| self.image.number(entry, offset, bytes);
        let (info, section, value, size) = if self.image.is_64() {
            (number(4, 1)?, number(6, 2)?, number(8, 8)?, number(16, 8)?)
        } else {
            (number(12, 1)?, number(14, 2)?, number(4, 4)?, number(8, 4)?)
        };
        let section_index = match elf::SymbolSection(section as u16) {
            elf::SHN_XINDEX => {
                self.extended.and_then(|table| self.image.number(table, index.checked_mul(4)?, 4))
            }
            _ if section == 0 || section >= 0xff00 => None,
            _ => Some(section),
        };
        Some(Symbol {
            name: number(0, 4)? as u32,
            kind: (info & 15) as u8,
            binding: (info >> 4) as u8,
            section: section_index.map(|index| index as u32),
            absolute: elf::SymbolSection(section as u16) == elf::SHN_ABS,
            value,
            size,
        })
    }
}
