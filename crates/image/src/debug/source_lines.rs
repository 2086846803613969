//! Which line of which file an address has in the line table, for those who show source text.
//!
//! Profiles need lines and discriminators, and no files; so that their path stays lean, files are
//! read here, in a run of its own over the line programs of the units that the addresses fall into.

use super::damage::Reading;
use super::resolve::{Part, Sight, parts};
use super::resolved::DebugProblems;
use super::sources::file_name;
use super::unit::Unit;
use super::{DebugInfo, Dwarf};
use crate::ImageAddr;
use rustc_hash::FxHashMap;

/// Number of a file in [`SourceLines::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceFile(pub u32);

/// A line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceLine {
    /// The file.
    pub file: SourceFile,
    /// The line, 0 where the compiler gave none.
    pub line: u32,
}

/// The lines of a list of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceLines {
    /// The line of each address, in the order of the request; none where no line table has it.
    pub lines: Vec<Option<SourceLine>>,
    /// Paths as the line tables have them, behind the directory of the compilation where they are
    /// relative and it is known.
    pub files: Vec<String>,
    /// What could not be read.
    pub problems: DebugProblems,
}

/// Lines as they are found, with the numbers of their files.
#[derive(Debug, Default)]
pub(super) struct FoundLines {
    pub(super) lines: Vec<Option<SourceLine>>,
    pub(super) files: Vec<String>,
    numbers: FxHashMap<String, SourceFile>,
}

impl FoundLines {
    /// Room for the lines of `count` addresses.
    pub(super) fn for_addresses(count: usize) -> FoundLines {
        FoundLines { lines: vec![None; count], ..FoundLines::default() }
    }

    /// The number of a file.
    pub(super) fn file(&mut self, name: String) -> SourceFile {
        let next = SourceFile(self.files.len() as u32);
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.files.push(name.clone());
            next
        })
    }
}

impl DebugInfo<'_> {
    /// The lines of addresses, which must be sorted and without duplicates.
    pub fn source_lines(&self, addresses: &[ImageAddr]) -> SourceLines {
        let plain: Vec<u64> = addresses.iter().map(|address| address.0).collect();
        let mut found = FoundLines::for_addresses(plain.len());
        let mut problems = DebugProblems::default();
        if !self.is_empty() {
            let sight = self.sight();
            for part in parts(sight.index, &plain) {
                if let Err(error) = sight.add_lines(&part, &mut found) {
                    let offset = sight.index.units.get(part.unit).map_or(0, |unit| unit.offset);
                    problems.damaged(offset, &error);
                }
            }
        }
        SourceLines { lines: found.lines, files: found.files, problems }
    }
}

impl<'a> Sight<'a> {
    /// The lines of a unit's addresses.
    pub(super) fn add_lines(&self, part: &Part, found: &mut FoundLines) -> Reading<()> {
        let Some(entry) = self.index.units.get(part.unit) else { return Ok(()) };
        let dwarf: &Dwarf<'a> = &self.main;
        let unit = Unit::open(dwarf, entry.offset, None)?;
        let offset = unit.root.lines.and_then(|offset| usize::try_from(offset).ok());
        let Some(offset) = offset.map(gimli::DebugLineOffset) else { return Ok(()) };
        let size = unit.root.encoding.address_size;
        let mut rows = dwarf.debug_line.program(offset, size, None, None)?.rows();
        let directory = unit.root.directory(dwarf);
        let mut known: FxHashMap<u64, Option<SourceFile>> = FxHashMap::default();
        let mut previous: Option<(u64, u64, u32)> = None;
        while let Some((header, row)) = rows.next_row()? {
            if let Some((begin, file, line)) = previous {
                let from = part.addresses.partition_point(|address| *address < begin);
                let to = part.addresses.partition_point(|address| *address < row.address());
                for position in part.positions.get(from..to).unwrap_or_default() {
                    let file = *known.entry(file).or_insert_with(|| {
                        let name = file_name(dwarf, header, file)?;
                        Some(found.file(in_directory(directory, name)))
                    });
                    if let Some(slot) = found.lines.get_mut(*position as usize) {
                        *slot = file.map(|file| SourceLine { file, line });
                    }
                }
            }
            previous = (!row.end_sequence() && row.address() >= self.floor).then(|| {
                let line = row.line().map_or(0, |line| line.get() as u32);
                (row.address(), row.file_index(), line)
            });
        }
        Ok(())
    }
}

pub(super) fn in_directory(directory: Option<&[u8]>, name: String) -> String {
    match directory {
        Some(directory) if !name.starts_with('/') && !directory.is_empty() => {
            format!("{}/{name}", String::from_utf8_lossy(directory).trim_end_matches('/'))
        }
        _ => name,
    }
}
