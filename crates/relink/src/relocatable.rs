//! Which sections of an object can be moved, by what names, and are two of them the same code?
//!
//! Two sections are the same when their bytes are, and their relocations name the same targets: a
//! string by its content and not by its place among the strings, a static variable without the
//! number that the compiler adds.

use std::collections::{BTreeMap, BTreeSet};

use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, SectionHeader, SectionTable, Sym, SymbolTable};
use object::read::{SectionIndex, SymbolIndex};
use sha2::{Digest, Sha256};

type Elf = elf::FileHeader64<Endianness>;

/// Output sections whose parts may lie in any order. Not so tables that the linker, the loader or
/// the C library walk through (.init_array, .eh_frame, sections with `__start_` symbols), nor .init
/// and .fini, which are one function made of parts.
const MOVABLE: &[&str] =
    &[".text", ".ltext", ".rodata", ".data", ".data.rel.ro", ".bss", ".bss.rel.ro"];

/// A section that the linker can put elsewhere.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) align: u64,
    pub(crate) executable: bool,
    /// Of content and relocations.
    pub(crate) hash: [u8; 32],
    /// Names of its global and weak symbols, sorted.
    pub(crate) globals: Vec<String>,
    /// Names of its local functions and variables, sorted.
    pub(crate) locals: Vec<String>,
    /// The local symbol whose name nobody needs: the section's own, else a local one.
    pub(crate) spare: Option<usize>,
}

/// What this crate needs of an object.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    /// The source file that the compiler noted, without directory.
    pub(crate) source: Option<String>,
    /// Its movable sections that are in use.
    pub(crate) sections: Vec<Section>,
    /// Names of symbols in its other sections that are in use; ordering by these would move what
    /// must stay.
    pub(crate) others: Vec<String>,
}

/// Is this LLVM bitcode?
pub(crate) fn is_bitcode(bytes: &[u8]) -> bool {
    bytes.starts_with(b"BC\xc0\xde") || bytes.starts_with(&[0xde, 0xc0, 0x17, 0x0b])
}

/// Is this an ELF object file (not a program, not a shared library)?
pub(crate) fn is_object(bytes: &[u8]) -> bool {
    let kind = |place: usize| bytes.get(place).copied();
    let little = kind(5) == Some(1);
    bytes.starts_with(b"\x7fELF") && if little { kind(16) == Some(1) } else { kind(17) == Some(1) }
}

/// Does an object hold gcc's intermediate code and nothing that can be linked?
pub(crate) fn is_gcc_lto_only(bytes: &[u8]) -> bool {
    // gcc marks such objects with a common symbol of this name.
    is_object(bytes) && bytes.windows(16).any(|window| window == b"\0__gnu_lto_slim\0")
}

/// Is this section one whose order is free?
fn is_movable(name: &str) -> bool {
    MOVABLE.iter().any(|&of| {
        name.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// A name without the numbers that compilers add to tell copies apart, which change with every
/// edit.
pub(crate) fn settled(name: &str) -> &str {
    let name = name.split(".__uniq.").next().unwrap_or(name);
    let base = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    base.strip_suffix('.')
        .filter(|base| !base.is_empty() && base.len() < name.len())
        .unwrap_or(name)
}

/// Reads an object; of its sections those named in `live`.
pub(crate) fn parse(bytes: &[u8], live: &BTreeSet<String>) -> Result<Object, String> {
    Reader::new(bytes).and_then(|reader| reader.read(live)).map_err(|found| found.to_string())
}

/// The names of an object's sections.
pub(crate) fn section_names(bytes: &[u8]) -> Result<BTreeSet<String>, String> {
    let reader = Reader::new(bytes).map_err(|found| found.to_string())?;
    Ok(reader.sections.iter().map(|section| reader.section_name(section)).collect())
}

struct Reader<'d> {
    bytes: &'d [u8],
    endian: Endianness,
    sections: SectionTable<'d, Elf>,
    symbols: SymbolTable<'d, Elf>,
    mips64el: bool,
}

impl<'d> Reader<'d> {
    fn new(bytes: &'d [u8]) -> object::Result<Reader<'d>> {
        let header = Elf::parse(bytes)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, bytes)?;
        let symbols = sections.symbols(endian, bytes, elf::SHT_SYMTAB)?;
        Ok(Reader { bytes, endian, sections, symbols, mips64el: header.is_mips64el(endian) })
    }

    fn name_of(&self, symbol: &'d elf::Sym64<Endianness>) -> String {
        let name = self.symbols.symbol_name(self.endian, symbol).unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }

    fn section_name(&self, section: &elf::SectionHeader64<Endianness>) -> String {
        let name = self.sections.section_name(self.endian, section).unwrap_or_default();
        String::from_utf8_lossy(name).into_owned()
    }

    /// The section a symbol is defined in.
    fn home(&self, index: SymbolIndex, symbol: &elf::Sym64<Endianness>) -> Option<SectionIndex> {
        self.symbols.symbol_section(self.endian, symbol, index).ok().flatten()
    }

    fn read(&self, live: &BTreeSet<String>) -> object::Result<Object> {
        let mut wanted: BTreeMap<usize, Section> = BTreeMap::new();
        for (index, header) in self.sections.enumerate() {
            let flags = header.sh_flags(self.endian);
            let avoided = elf::SHF_MERGE | elf::SHF_TLS | elf::SHF_LINK_ORDER;
            let kind = header.sh_type(self.endian);
            let size = header.sh_size(self.endian);
            let name = self.section_name(header);
            let plain = kind == elf::SHT_PROGBITS || kind == elf::SHT_NOBITS;
            let fits =
                plain && flags.0 & elf::SHF_ALLOC.0 != 0 && flags.0 & avoided.0 == 0 && size > 0;
            if fits && is_movable(&name) && live.contains(&name) {
                let section = Section {
                    align: header.sh_addralign(self.endian),
                    size,
                    executable: flags.0 & elf::SHF_EXECINSTR.0 != 0,
                    hash: [0; 32],
                    globals: Vec::new(),
                    locals: Vec::new(),
                    spare: None,
                    name,
                };
                wanted.insert(index.0, section);
            }
        }
        let (source, others) = self.name_sections(&mut wanted, live);
        let relocations = self.relocation_sections();
        for (&index, section) in &mut wanted {
            section.hash =
                self.hash(SectionIndex(index), relocations.get(&index).map_or(&[], Vec::as_slice))?;
        }
        Ok(Object { source, others, sections: wanted.into_values().collect() })
    }

    /// Gives the sections the names of their symbols; returns the source file's name and the other
    /// names.
    fn name_sections(
        &self,
        wanted: &mut BTreeMap<usize, Section>,
        live: &BTreeSet<String>,
    ) -> (Option<String>, Vec<String>) {
        let mut source = None;
        let mut others = Vec::new();
        let mut own = BTreeSet::new();
        for (index, symbol) in self.symbols.enumerate() {
            if symbol.st_type() == elf::STT_FILE {
                let name = self.name_of(symbol);
                source.get_or_insert_with(|| name.rsplit('/').next().unwrap_or(&name).to_owned());
                continue;
            }
            let Some(home) = self.home(index, symbol) else { continue };
            let Some(section) = wanted.get_mut(&home.0) else {
                let name = self
                    .sections
                    .section(home)
                    .map(|home| self.section_name(home))
                    .unwrap_or_default();
                if live.contains(&name) {
                    others.push(self.name_of(symbol));
                }
                continue;
            };
            if symbol.st_type() == elf::STT_SECTION {
                section.spare = Some(index.0);
                own.insert(home.0);
                continue;
            }
            let name = self.name_of(symbol);
            if name.is_empty() {
                continue;
            }
            if symbol.is_local() {
                if !own.contains(&home.0) {
                    section.spare.get_or_insert(index.0);
                }
                if !name.starts_with(".L") && !name.starts_with('$') {
                    section.locals.push(name);
                }
            } else {
                section.globals.push(name);
            }
        }
        for section in wanted.values_mut() {
            section.globals.sort_unstable();
            section.locals.sort_unstable();
        }
        (source, others)
    }

    /// The relocation sections of each section.
    fn relocation_sections(&self) -> BTreeMap<usize, Vec<SectionIndex>> {
        let mut of: BTreeMap<usize, Vec<SectionIndex>> = BTreeMap::new();
        for (index, header) in self.sections.enumerate() {
            if matches!(header.sh_type(self.endian), elf::SHT_RELA | elf::SHT_REL) {
                of.entry(header.sh_info(self.endian) as usize).or_default().push(index);
            }
        }
        of
    }

    fn hash(&self, index: SectionIndex, relocations: &[SectionIndex]) -> object::Result<[u8; 32]> {
        let header = self.sections.section(index)?;
        let mut hash = Sha256::new();
        let size: u64 = header.sh_size(self.endian);
        let align: u64 = header.sh_addralign(self.endian);
        let kind = header.sh_type(self.endian);
        for number in [size, align, u64::from(kind.0)] {
            hash.update(number.to_le_bytes());
        }
        hash.update(header.data(self.endian, self.bytes)?);
        for &table in relocations {
            let table = self.sections.section(table)?;
            if let Some((entries, _)) = table.rela(self.endian, self.bytes)? {
                for entry in entries {
                    let addend: i64 = entry.r_addend.get(self.endian);
                    let symbol = entry.r_sym(self.endian, self.mips64el);
                    let kind = entry.r_type(self.endian, self.mips64el);
                    hash.update(entry.r_offset.get(self.endian).to_le_bytes());
                    hash.update(kind.0.to_le_bytes());
                    self.hash_target(&mut hash, symbol as usize, addend);
                }
            } else if let Some((entries, _)) = table.rel(self.endian, self.bytes)? {
                for entry in entries {
                    hash.update(entry.r_offset.get(self.endian).to_le_bytes());
                    hash.update(entry.r_type(self.endian).0.to_le_bytes());
                    self.hash_target(&mut hash, entry.r_sym(self.endian) as usize, 0);
                }
            }
        }
        Ok(hash.finalize().into())
    }

    /// Adds what a relocation refers to, in words that do not change when something else in the
    /// file does.
    fn hash_target(&self, hash: &mut Sha256, symbol: usize, addend: i64) {
        let index = SymbolIndex(symbol);
        let Ok(symbol) = self.symbols.symbol(index) else { return hash.update(b"none") };
        let name = self.name_of(symbol);
        let home = self.home(index, symbol).and_then(|home| self.sections.section(home).ok());
        let (Some(home), true) = (home, symbol.is_local()) else {
            hash.update(name.as_bytes());
            return hash.update(addend.to_le_bytes());
        };
        let flags = home.sh_flags(self.endian).0;
        let unnamed = symbol.st_type() == elf::STT_SECTION || name.starts_with(".L");
        if flags & elf::SHF_MERGE.0 != 0 {
            return self.hash_constant(hash, home, symbol, addend);
        }
        if !unnamed {
            hash.update(settled(&name).as_bytes());
            return hash.update(addend.to_le_bytes());
        }
        hash.update(settled(&self.section_name(home)).as_bytes());
        // Places in code say which instruction is meant; those in data shift when other data comes
        // before them.
        if flags & elf::SHF_EXECINSTR.0 != 0 {
            hash.update(symbol.st_value(self.endian).to_le_bytes());
            hash.update(addend.to_le_bytes());
        }
    }

    /// Adds the string or constant that is referred to.
    fn hash_constant(
        &self,
        hash: &mut Sha256,
        home: &'d elf::SectionHeader64<Endianness>,
        symbol: &elf::Sym64<Endianness>,
        addend: i64,
    ) {
        let start: u64 = symbol.st_value(self.endian);
        let start = if symbol.st_type() == elf::STT_SECTION {
            // x86 counts from the end of a field of four bytes, elsewhere this is harmless.
            start.wrapping_add_signed(addend).wrapping_add(if addend % 4 == 0 && addend < 0 {
                4
            } else {
                0
            })
        } else {
            hash.update(addend.to_le_bytes());
            start
        };
        let flags = home.sh_flags(self.endian).0;
        let width: u64 = home.sh_entsize(self.endian);
        let data = home.data(self.endian, self.bytes).unwrap_or_default();
        let rest =
            usize::try_from(start).ok().and_then(|start| data.get(start..)).unwrap_or_default();
        let width = usize::try_from(width).unwrap_or(1).clamp(1, 64);
        let length = if flags & elf::SHF_STRINGS.0 == 0 {
            width
        } else {
            let end = rest.chunks(width).position(|letter| letter.iter().all(|&byte| byte == 0));
            end.map_or(rest.len(), |letters| letters * width)
        };
        hash.update(b"constant");
        hash.update(rest.get(..length.min(rest.len())).unwrap_or_default());
    }
}

/// Gives local symbols new names; `names` holds the symbol's number and its name. The rest of the
/// object stays as it is: the string table is written anew at the end of the file, with the new
/// names after the old ones.
pub(crate) fn rename(bytes: &[u8], names: &[(usize, String)]) -> Result<Vec<u8>, String> {
    let reader = Reader::new(bytes).map_err(|found| found.to_string())?;
    let broken = || "its symbol table lies outside of the file".to_owned();
    let table =
        reader.sections.section(reader.symbols.section()).map_err(|found| found.to_string())?;
    let strings_index = table.sh_link(reader.endian) as usize;
    let strings =
        reader.sections.section(SectionIndex(strings_index)).map_err(|found| found.to_string())?;
    let mut grown = strings.data(reader.endian, bytes).map_err(|found| found.to_string())?.to_vec();
    let symbols_at: u64 = table.sh_offset(reader.endian);
    let mut out = bytes.to_vec();
    let mut put = |at: Option<usize>, value: &[u8]| {
        let end = at.and_then(|at| at.checked_add(value.len()));
        let place = at.zip(end).and_then(|(at, end)| out.get_mut(at..end)).ok_or_else(broken)?;
        place.copy_from_slice(value);
        Ok::<(), String>(())
    };
    let little = reader.endian == Endianness::Little;
    let word = |value: usize| {
        let value = u32::try_from(value).map_err(|_| broken())?;
        Ok::<_, String>(if little { value.to_le_bytes() } else { value.to_be_bytes() })
    };
    let long = |value: usize| {
        if little { (value as u64).to_le_bytes() } else { (value as u64).to_be_bytes() }
    };
    for (symbol, name) in names {
        let at = usize::try_from(symbols_at)
            .ok()
            .zip(symbol.checked_mul(24))
            .and_then(|(at, by)| at.checked_add(by));
        put(at, &word(grown.len())?)?;
        grown.extend_from_slice(name.as_bytes());
        grown.push(0);
    }
    let header = Elf::parse(bytes).map_err(|found| found.to_string())?;
    let headers_at: u64 = header.e_shoff(reader.endian);
    let at = usize::try_from(headers_at)
        .ok()
        .zip(strings_index.checked_mul(64))
        .and_then(|(at, by)| at.checked_add(by));
    put(at.and_then(|at| at.checked_add(24)), &long(bytes.len()))?;
    put(at.and_then(|at| at.checked_add(32)), &long(grown.len()))?;
    out.extend_from_slice(&grown);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_compilers_add_are_taken_off() {
        assert_eq!(settled("counter.12"), "counter");
        assert_eq!(settled("helper.__uniq.1234567"), "helper");
        assert_eq!(settled("sha256"), "sha256");
        assert_eq!(settled("helper.constprop.0"), "helper.constprop");
        assert_eq!(settled(".text.f2"), ".text.f2");
        assert_eq!(settled("7"), "7");
    }

    #[test]
    fn tables_are_not_moved() {
        for name in
            [".text", ".text.f", ".text.unlikely.f", ".rodata.str", ".data.rel.ro.x", ".bss"]
        {
            assert!(is_movable(name), "{name}");
        }
        for name in [
            ".init_array",
            ".init",
            ".ctors",
            ".eh_frame",
            "my_table",
            ".textual",
            ".tdata",
            ".fini",
        ] {
            assert!(!is_movable(name), "{name}");
        }
    }

    #[test]
    fn a_broken_object_is_an_error() {
        assert!(parse(b"\x7fELF", &BTreeSet::new()).is_err());
        assert!(rename(b"", &[(0, "x".to_owned())]).is_err());
    }
}
