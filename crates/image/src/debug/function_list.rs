//! The functions of the debug information: those that contain given addresses, and the names of
//! all.

use std::collections::BTreeSet;
use std::ops::Range;

use super::DebugInfo;
use super::resolve::{OpenUnit, Sight};
use super::resolved::DebugProblems;
use crate::ImageAddr;

/// A function that has code of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DwarfFunction {
    /// Linkage name, else plain name; empty when the debug information has none.
    pub name: String,
    /// Where its code is, in the order in which the debug information lists it.
    pub ranges: Vec<Range<ImageAddr>>,
    /// Line of its declaration, 0 when unknown.
    pub start_line: u32,
}

/// Which function contains which address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionsAt {
    /// The functions met.
    pub functions: Vec<DwarfFunction>,
    /// Position in `functions` for each address of the request.
    pub of: Vec<Option<u32>>,
    /// What could not be read.
    pub problems: DebugProblems,
}

impl FunctionsAt {
    /// The function that contains the address at this position of the request.
    pub fn at(&self, position: usize) -> Option<&DwarfFunction> {
        self.functions.get((*self.of.get(position)?)? as usize)
    }
}

impl DebugInfo<'_> {
    /// Finds the functions that contain addresses, which must be sorted and without duplicates. Of
    /// nested functions the innermost one.
    pub fn functions_at(&self, addresses: &[ImageAddr], threads: usize) -> FunctionsAt {
        let plain: Vec<u64> = addresses.iter().map(|address| address.0).collect();
        let mut all = FunctionsAt { of: vec![None; plain.len()], ..FunctionsAt::default() };
        if self.is_empty() {
            return all;
        }
        let sight = self.sight();
        let parts: Vec<(u32, Vec<u32>)> = sight.index.split(&plain).into_iter().collect();
        let found = jobs::run(parts.len(), threads, |number| match parts.get(number) {
            Some((unit, positions)) => sight.functions_of(*unit as usize, positions, &plain),
            None => FunctionsAt::default(),
        });
        for ((_, positions), mut unit) in parts.iter().zip(found) {
            let before = all.functions.len() as u32;
            for (position, function) in positions.iter().zip(unit.of) {
                if let Some(slot) = all.of.get_mut(*position as usize) {
                    *slot = function.map(|function| function + before);
                }
            }
            all.functions.append(&mut unit.functions);
            all.problems.add(unit.problems);
        }
        all
    }

    /// The function that contains an address. For many addresses use [`Self::functions_at`].
    pub fn function_at(&self, address: ImageAddr) -> Option<DwarfFunction> {
        self.functions_at(&[address], 1).functions.into_iter().next()
    }

    /// The compilation unit that contains each address, by its name: the source file as the
    /// compiler was given it (`DW_AT_name`). `None` where the debug information says nothing.
    /// Addresses must be sorted and without duplicates.
    pub fn unit_names_at(&self, addresses: &[ImageAddr], threads: usize) -> Vec<Option<String>> {
        let plain: Vec<u64> = addresses.iter().map(|address| address.0).collect();
        let mut names = vec![None; plain.len()];
        if self.is_empty() {
            return names;
        }
        let sight = self.sight();
        let parts: Vec<(u32, Vec<u32>)> = sight.index.split(&plain).into_iter().collect();
        let found = jobs::run(parts.len(), threads, |number| {
            sight.unit_name(parts.get(number)?.0 as usize).filter(|name| !name.is_empty())
        });
        for ((_, positions), name) in parts.iter().zip(found) {
            for position in positions {
                if let Some(slot) = names.get_mut(*position as usize) {
                    slot.clone_from(&name);
                }
            }
        }
        names
    }

    /// All functions with code, in the order of the debug information: one that stands in several
    /// units is there several times. Reads every unit.
    pub fn all_functions(&self, threads: usize) -> (Vec<DwarfFunction>, DebugProblems) {
        let mut problems = DebugProblems::default();
        if self.is_empty() {
            return (Vec::new(), problems);
        }
        let sight = self.sight();
        let mut functions = Vec::new();
        for (mut unit, more) in
            jobs::run(sight.index.units.len(), threads, |unit| sight.all_of(unit))
        {
            functions.append(&mut unit);
            problems.add(more);
        }
        (functions, problems)
    }

    /// Names of all functions with code. Reads every unit.
    pub fn all_function_names(&self, threads: usize) -> BTreeSet<String> {
        if self.is_empty() {
            return BTreeSet::new();
        }
        let sight = self.sight();
        let found = jobs::run(sight.index.units.len(), threads, |unit| sight.all_of(unit).0);
        let names = found.into_iter().flatten().map(|function| function.name);
        names.filter(|name| !name.is_empty()).collect()
    }
}

impl Sight<'_> {
    fn functions_of(&self, unit: usize, positions: &[u32], addresses: &[u64]) -> FunctionsAt {
        let mut found = FunctionsAt { of: vec![None; positions.len()], ..FunctionsAt::default() };
        let Some(open) = self.open(unit, &mut found.problems) else { return found };
        let table = self.functions(&open, &mut found.problems);
        let own: Vec<u64> =
            positions.iter().filter_map(|at| addresses.get(*at as usize).copied()).collect();
        // Position in the table; a nested function comes after the one around it and so wins.
        let mut entries: Vec<Option<usize>> = vec![None; own.len()];
        for (number, entry) in table.entries.iter().enumerate() {
            let spans = table.spans(entry);
            for &(begin, end) in spans {
                let from = own.partition_point(|address| *address < begin);
                let to = own.partition_point(|address| *address < end);
                // Of several names of the same code (`memcpy` and `__memcpy` in assembly) the first
                // one stays.
                let before = entries
                    .get(from)
                    .copied()
                    .flatten()
                    .and_then(|number| table.entries.get(number));
                if before.is_some_and(|before| table.spans(before) == spans) {
                    continue;
                }
                if let Some(claimed) = entries.get_mut(from..to) {
                    claimed.fill(Some(number));
                }
            }
        }
        // Addresses of one function stand together, so runs are compared before anything is looked
        // up.
        let mut met: Vec<usize> = entries.iter().flatten().copied().collect();
        met.dedup();
        met.sort_unstable();
        met.dedup();
        found.functions = self.describe_all(&open, met.iter().copied());
        let mut last = (None, None);
        for (slot, entry) in found.of.iter_mut().zip(entries) {
            if last.0 != entry {
                let position = entry.and_then(|entry| met.binary_search(&entry).ok());
                last = (entry, position.map(|position| position as u32));
            }
            *slot = last.1;
        }
        found
    }

    fn describe_all(
        &self,
        open: &OpenUnit<'_>,
        numbers: impl Iterator<Item = usize>,
    ) -> Vec<DwarfFunction> {
        let table = self.functions(open, &mut DebugProblems::default());
        self.describing(open, |describer| {
            numbers
                .filter_map(|number| {
                    let entry = table.entries.get(number)?;
                    let described = describer.describe(entry.entry);
                    let range = |&(begin, end): &(u64, u64)| ImageAddr(begin)..ImageAddr(end);
                    Some(DwarfFunction {
                        name: String::from_utf8_lossy(described.name.unwrap_or_default())
                            .into_owned(),
                        ranges: table.spans(entry).iter().map(range).collect(),
                        start_line: described.start_line,
                    })
                })
                .collect()
        })
    }

    fn unit_name(&self, unit: usize) -> Option<String> {
        let open = self.open(unit, &mut DebugProblems::default())?;
        let name = open.unit.root.name(self.dwarf(&open), self.supplement.as_ref())?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    fn all_of(&self, unit: usize) -> (Vec<DwarfFunction>, DebugProblems) {
        let mut problems = DebugProblems::default();
        let Some(open) = self.open(unit, &mut problems) else { return (Vec::new(), problems) };
        let count = self.functions(&open, &mut problems).entries.len();
        (self.describe_all(&open, 0..count), problems)
    }
}
