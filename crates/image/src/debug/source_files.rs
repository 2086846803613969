//! Which source files does the debug information name?

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::DebugInfo;
use super::damage::Reading;
use super::resolve::Sight;
use super::source_lines::in_directory;
use super::sources::file_name;
use super::unit::Unit;

impl DebugInfo<'_> {
    /// The files that the line tables of the units list, in the directory of their compilation: sources,
    /// and headers with code in them. A damaged table lists what stands before the damage.
    pub fn source_files(&self) -> BTreeSet<PathBuf> {
        let mut all = BTreeSet::new();
        if !self.is_empty() {
            let sight = self.sight();
            let mut tables = BTreeSet::new();
            for unit in &sight.index.units {
                // Of a damaged one there is what was added.
                let _ = sight.add_files(unit.offset, &mut tables, &mut all);
            }
        }
        all
    }
}

/// A line table that was read, for units in a directory: several units may have one table.
type Table<'a> = (usize, Option<&'a [u8]>);

impl<'a> Sight<'a> {
    fn add_files(
        &self,
        unit: usize,
        tables: &mut BTreeSet<Table<'a>>,
        all: &mut BTreeSet<PathBuf>,
    ) -> Reading<()> {
        let unit = Unit::open(&self.main, unit, None)?;
        let offset = unit.root.lines.and_then(|offset| usize::try_from(offset).ok());
        let Some(offset) = offset.map(gimli::DebugLineOffset) else { return Ok(()) };
        let directory = unit.root.directory(&self.main);
        if !tables.insert((offset.0, directory)) {
            return Ok(());
        }
        let size = unit.root.encoding.address_size;
        let program = self.main.debug_line.program(offset, size, None, None)?;
        let header = program.header();
        // Up to DWARF 4 the first file has number 1.
        let first = u64::from(header.version() < 5);
        for number in first..first + header.file_names().len() as u64 {
            if let Some(name) = file_name(&self.main, header, number) {
                all.insert(in_directory(directory, name).into());
            }
        }
        Ok(())
    }
}
