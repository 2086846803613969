//! How alike do two programs lie in memory, and how large are they?

use std::collections::BTreeMap;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, SymbolKind};
use serde::Serialize;

use crate::error::Error;

/// From this share of code at equal addresses on, layouts count as matched; below, layout luck does
/// not cancel.
pub const SHARE_NEEDED: f64 = 0.95;

/// The size of a page; what processors index caches and predictors with lies mostly below it.
const PAGE: u64 = 4096;

/// How much code of two programs lies at the same place in a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Match {
    /// Bytes of functions of equal name and size whose addresses are equal modulo 4096.
    pub bytes_equal_mod_4096: u64,
    /// Bytes of functions of equal name and size whose addresses are equal.
    pub bytes_equal: u64,
    /// Bytes of functions in the program that has more.
    pub bytes_total: u64,
    /// The number of functions to `bytes_equal_mod_4096`.
    pub functions_equal_mod_4096: usize,
    /// The number of functions in the program that has more.
    pub functions_total: usize,
}

impl Match {
    /// The share of code at equal addresses modulo 4096, 0 to 1 (0 without functions).
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.bytes_total == 0 {
            0.0
        } else {
            self.bytes_equal_mod_4096 as f64 / self.bytes_total as f64
        }
    }

    /// Do the two match well enough for layout luck to cancel?
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.share() >= SHARE_NEEDED
    }
}

/// The sizes of a program in bytes, as `size` prints them (its Berkeley format).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// Code and constants.
    pub text: u64,
    /// Variables with a value in the file.
    pub data: u64,
    /// Variables that start as zero.
    pub bss: u64,
}

fn open<T>(path: &Path, read: impl FnOnce(&object::File<'_>) -> T) -> Result<T, Error> {
    let bytes =
        beside::given::read(path, beside::given::DATA).map_err(Error::file(path, "read"))?;
    let file = object::File::parse(bytes.as_slice());
    let file =
        file.map_err(|found| Error::Program { path: path.to_owned(), found: found.to_string() })?;
    Ok(read(&file))
}

/// The functions of a program: name and size to addresses, each address once.
type Functions = BTreeMap<(String, u64), Vec<u64>>;

fn functions(path: &Path) -> Result<Functions, Error> {
    open(path, |file| {
        // Of several names for the same code the first in the alphabet counts.
        let mut at: BTreeMap<(u64, u64), String> = BTreeMap::new();
        let defined =
            file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0);
        for symbol in defined.filter(|symbol| symbol.is_definition()) {
            let name =
                String::from_utf8_lossy(symbol.name_bytes().unwrap_or_default()).into_owned();
            let known = at.entry((symbol.address(), symbol.size())).or_insert_with(|| name.clone());
            if name < *known {
                *known = name;
            }
        }
        let mut functions = Functions::new();
        for ((address, size), name) in at {
            functions.entry((name, size)).or_default().push(address);
        }
        functions
    })
}

/// How many addresses of `a` have an equal one in `b`, each taken once.
fn pairs(a: &[u64], b: &[u64], place: impl Fn(u64) -> u64) -> usize {
    let mut left: BTreeMap<u64, usize> = BTreeMap::new();
    for &address in b {
        *left.entry(place(address)).or_default() += 1;
    }
    let mut taken = 0;
    for &address in a {
        if let Some(count) = left.get_mut(&place(address)).filter(|count| **count > 0) {
            *count -= 1;
            taken += 1;
        }
    }
    taken
}

/// Compares where the functions of two programs lie, by their symbol tables.
///
/// # Errors
///
/// [`Error::File`] and [`Error::Program`], the latter also for a program without symbols.
pub fn share_at_equal_address(a: &Path, b: &Path) -> Result<Match, Error> {
    let (in_a, in_b) = (functions(a)?, functions(b)?);
    for (path, functions) in [(a, &in_a), (b, &in_b)] {
        if functions.is_empty() {
            let found = "no functions in its symbol table, so its layout cannot be verified; link \
                         without -s";
            return Err(Error::Program { path: path.to_owned(), found: found.to_owned() });
        }
    }
    let bytes = |functions: &Functions| -> u64 {
        functions
            .iter()
            .map(|((_, size), addresses)| size.saturating_mul(addresses.len() as u64))
            .sum()
    };
    let count = |functions: &Functions| -> usize { functions.values().map(Vec::len).sum() };
    let mut found = Match {
        bytes_total: bytes(&in_a).max(bytes(&in_b)),
        functions_total: count(&in_a).max(count(&in_b)),
        ..Match::default()
    };
    for ((name, size), at_a) in &in_a {
        let Some(at_b) = in_b.get(&(name.clone(), *size)) else { continue };
        let in_page = pairs(at_a, at_b, |address| address % PAGE);
        found.functions_equal_mod_4096 += in_page;
        found.bytes_equal_mod_4096 += size.saturating_mul(in_page as u64);
        found.bytes_equal += size.saturating_mul(pairs(at_a, at_b, |address| address) as u64);
    }
    Ok(found)
}

/// Is the code of two programs the same, byte for byte? Executable sections by name and content.
///
/// A program and the link of the inputs it was made from are alike in this, unless another version
/// of the linker made one of them, or one was changed afterwards.
///
/// # Errors
///
/// [`Error::File`] and [`Error::Program`].
pub fn same_code(a: &Path, b: &Path) -> Result<bool, Error> {
    let code = |file: &object::File<'_>| -> Vec<(Vec<u8>, Vec<u8>)> {
        let executable = |section: &object::Section<'_, '_>| match section.flags() {
            SectionFlags::Elf { sh_flags, .. } => sh_flags.0 & object::elf::SHF_EXECINSTR.0 != 0,
            _ => false,
        };
        let sections = file.sections().filter(executable);
        let bytes = |s: object::Section<'_, '_>| {
            (s.name_bytes().unwrap_or_default().to_vec(), s.data().unwrap_or_default().to_vec())
        };
        sections.map(bytes).collect()
    };
    Ok(open(a, code)? == open(b, code)?)
}

/// The sizes of a program, from its sections.
///
/// # Errors
///
/// [`Error::File`] and [`Error::Program`].
pub fn sizes(path: &Path) -> Result<Sizes, Error> {
    open(path, |file| {
        let mut sizes = Sizes::default();
        for section in file.sections() {
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
            let has = |flag: object::elf::SectionFlags| sh_flags.0 & flag.0 != 0;
            // What lld fills the last read-only page up with holds no data: its size says where the
            // page begins.
            if !has(object::elf::SHF_ALLOC) || section.name_bytes() == Ok(b".relro_padding") {
                continue;
            }
            let kind = if has(object::elf::SHF_EXECINSTR) || !has(object::elf::SHF_WRITE) {
                &mut sizes.text
            } else if section.file_range().is_some() {
                &mut sizes.data
            } else {
                &mut sizes.bss
            };
            *kind = kind.saturating_add(section.size());
        }
        sizes
    })
}
