//! Which compiler made the units, from which language and with which flags, and by which names does
//! it know its functions?
//!
//! Compilers look a function of a profile up by the name they would give its symbol. Debug
//! information has that name as `DW_AT_linkage_name`; only where a language does not mangle names
//! does `DW_AT_name` say the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gimli::DwLang;

use super::resolve::Sight;
use super::resolved::DebugProblems;
use super::{DebugInfo, functions};
use crate::ImageAddr;

/// A source language, as far as it decides about names and flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    /// C, or Objective-C.
    C,
    /// C++, or Objective-C++.
    Cpp,
    /// Rust.
    Rust,
    /// Assembly.
    Assembly,
    /// Another one, or an unknown one.
    #[default]
    Other,
}

impl Language {
    /// From `DW_AT_language`.
    fn of(code: u64) -> Language {
        match u16::try_from(code).map(DwLang) {
            Ok(
                gimli::DW_LANG_C
                | gimli::DW_LANG_C89
                | gimli::DW_LANG_C99
                | gimli::DW_LANG_C11
                | gimli::DW_LANG_C17
                | gimli::DW_LANG_ObjC,
            ) => Language::C,
            Ok(
                gimli::DW_LANG_C_plus_plus
                | gimli::DW_LANG_C_plus_plus_03
                | gimli::DW_LANG_C_plus_plus_11
                | gimli::DW_LANG_C_plus_plus_14
                | gimli::DW_LANG_C_plus_plus_17
                | gimli::DW_LANG_C_plus_plus_20
                | gimli::DW_LANG_ObjC_plus_plus,
            ) => Language::Cpp,
            Ok(gimli::DW_LANG_Rust) => Language::Rust,
            Ok(gimli::DW_LANG_Mips_Assembler) => Language::Assembly,
            _ => Language::Other,
        }
    }

    /// Whether a symbol is called otherwise than its function.
    fn mangles(self) -> bool {
        !matches!(self, Language::C | Language::Assembly)
    }
}

/// What a compilation unit says of its making.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CompiledUnit {
    /// The source file as the compiler was given it.
    pub name: String,
    /// The language of the source.
    pub language: Language,
    /// `DW_AT_producer`: the compiler's name and release, with its flags where it records them.
    pub producer: String,
}

impl CompiledUnit {
    /// The flags, where the compiler recorded them: gcc does by itself, clang with
    /// `-grecord-command-line`. What gcc compiled at link time has the flags of the link, which
    /// say nothing of those of its sources.
    pub fn flags(&self) -> Option<&str> {
        if self.producer.starts_with("GNU GIMPLE ") {
            return None;
        }
        self.producer.find(" -").and_then(|at| self.producer.get(at + 1..))
    }

    /// The major release of the gcc that made it (`GNU C17 12.2.0 …`).
    pub fn gcc_major(&self) -> Option<u32> {
        let rest = self.producer.strip_prefix("GNU ").filter(|rest| !rest.starts_with("AS "))?;
        let release =
            rest.split(' ').find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
        release.split('.').next()?.parse().ok()
    }
}

impl DebugInfo<'_> {
    /// The compilation unit that contains each address. `None` where the debug information says
    /// nothing. Addresses must be sorted and without duplicates.
    pub fn units_at(
        &self,
        addresses: &[ImageAddr],
        threads: usize,
    ) -> Vec<Option<Arc<CompiledUnit>>> {
        let plain: Vec<u64> = addresses.iter().map(|address| address.0).collect();
        let mut units = vec![None; plain.len()];
        if self.is_empty() {
            return units;
        }
        let sight = self.sight();
        let parts: Vec<(u32, Vec<u32>)> = sight.index.split(&plain).into_iter().collect();
        let found = jobs::run(parts.len(), threads, |number| {
            sight.compiled(parts.get(number)?.0 as usize).map(Arc::new)
        });
        for ((_, positions), unit) in parts.iter().zip(found) {
            for position in positions {
                if let Some(slot) = units.get_mut(*position as usize) {
                    slot.clone_from(&unit);
                }
            }
        }
        units
    }

    /// The unit that stands for most of the code: of the language and compiler with the most bytes.
    /// Reads every unit's root.
    pub fn main_unit(&self, threads: usize) -> Option<CompiledUnit> {
        if self.is_empty() {
            return None;
        }
        let sight = self.sight();
        let found = jobs::run(sight.index.units.len(), threads, |unit| sight.compiled(unit));
        let mut bytes: BTreeMap<(Language, &str), (u64, usize)> = BTreeMap::new();
        for ((position, unit), own) in found.iter().enumerate().zip(sight.index.code_bytes()) {
            let Some(unit) = unit else { continue };
            let entry =
                bytes.entry((unit.language, release(&unit.producer))).or_insert((0, position));
            entry.0 = entry.0.saturating_add(own);
        }
        let (_, (_, position)) = bytes.into_iter().max_by_key(|(_, (bytes, _))| *bytes)?;
        found.into_iter().nth(position).flatten()
    }

    /// The names by which the compiler itself knows the functions of the debug information, with
    /// code or inlined everywhere. A name that is not the symbol's is left out: in a language
    /// that mangles names a plain one counts only in units that have linkage names at all
    /// (`extern "C"`). Reads every unit.
    pub fn compiler_names(&self, threads: usize) -> BTreeSet<String> {
        if self.is_empty() {
            return BTreeSet::new();
        }
        let sight = self.sight();
        let names =
            jobs::run(sight.index.units.len(), threads, |unit| sight.compiler_names_of(unit));
        names.into_iter().flatten().filter(|name| !name.is_empty()).collect()
    }
}

/// The producer without the flags.
fn release(producer: &str) -> &str {
    producer.split(" -").next().unwrap_or(producer)
}

impl Sight<'_> {
    fn compiled(&self, unit: usize) -> Option<CompiledUnit> {
        let open = self.open(unit, &mut DebugProblems::default())?;
        let root = &open.unit.root;
        let text =
            |value: Option<&[u8]>| String::from_utf8_lossy(value.unwrap_or_default()).into_owned();
        let (own, supplement) = (self.dwarf(&open), self.supplement.as_ref());
        Some(CompiledUnit {
            name: text(root.name(own, supplement)),
            language: Language::of(root.language),
            producer: text(root.producer(own, supplement)),
        })
    }

    fn compiler_names_of(&self, unit: usize) -> Vec<String> {
        let mut problems = DebugProblems::default();
        let Some(open) = self.open(unit, &mut problems) else { return Vec::new() };
        let table = self.functions(&open, &mut problems);
        let mut entries: Vec<usize> = table.entries.iter().map(|entry| entry.entry).collect();
        entries.extend(functions::inlined_entries(&open.unit));
        let described: Vec<(&[u8], bool)> = self.describing(&open, |describer| {
            let each = |entry| {
                let described = describer.describe(entry);
                (described.name.unwrap_or_default(), described.is_linkage_name)
            };
            entries.into_iter().map(each).collect()
        });
        let mangles = Language::of(open.unit.root.language).mangles();
        let plain_too = !mangles || described.iter().any(|(_, linkage)| *linkage);
        let named = described.into_iter().filter(|(_, linkage)| *linkage || plain_too);
        named.map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn producers_tell_their_flags_and_release() {
        let unit =
            |producer: &str| CompiledUnit { producer: producer.into(), ..CompiledUnit::default() };
        let gcc = unit("GNU C17 12.2.0 -mtune=generic -O2 -fauto-profile=a.gcov");
        assert_eq!(gcc.flags(), Some("-mtune=generic -O2 -fauto-profile=a.gcov"));
        assert_eq!(gcc.gcc_major(), Some(12));
        let plain = unit("Debian clang version 22.1.8 (1~deb12u1)");
        assert_eq!((plain.flags(), plain.gcc_major()), (None, None));
        let told = unit("clang version 22.1.8 /usr/bin/clang -O2 -fprofile-sample-use=p");
        assert_eq!(told.flags(), Some("-O2 -fprofile-sample-use=p"));
        assert_eq!(unit("GNU GIMPLE 12.2.0 -O2 -fltrans").flags(), None);
        assert_eq!(unit("GNU AS 2.40").gcc_major(), None);
    }
}
