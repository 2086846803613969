//! Which functions, inlined ones included, stand at an address, each with the file and line that it
//! is at there.
//!
//! [`DebugInfo::resolve`] knows no files, which profiles do not need; those who show source text
//! ask here. Units are separate jobs.

use super::damage::Reading;
use super::lines::Row;
use super::resolve::{Part, Sight, name_nodes, parts};
use super::resolved::{DebugProblems, NameId, NameTable};
use super::source_lines::{FoundLines, SourceFile, SourceLine, in_directory};
use super::sources::file_name;
use super::tree::{NONE, Tree};
use super::unit::Unit;
use super::{DebugInfo, Dwarf};
use crate::ImageAddr;
use rustc_hash::FxHashMap;

/// A function and where in its source the address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceFrame {
    /// Linkage name, else plain name; none where the debug information has lines and no function.
    pub function: Option<NameId>,
    /// The line of the instruction in the innermost function, of the call in the others.
    pub line: Option<SourceLine>,
}

/// The frames of a list of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFrames {
    /// Function names.
    pub names: NameTable,
    /// Paths as the line tables have them, behind the directory of the compilation where they are
    /// relative and it is known.
    pub files: Vec<String>,
    /// What could not be read.
    pub problems: DebugProblems,
    frames: Vec<SourceFrame>,
    /// Where the frames of each address lie.
    spans: Vec<(u32, u32)>,
}

impl SourceFrames {
    /// The frames of the address at this position of the request, innermost first.
    pub fn frames(&self, position: usize) -> &[SourceFrame] {
        let (begin, end) = self.spans.get(position).copied().unwrap_or_default();
        self.frames.get(begin as usize..end as usize).unwrap_or_default()
    }
}

impl DebugInfo<'_> {
    /// The frames of addresses, which must be sorted and without duplicates.
    pub fn source_frames(&self, addresses: &[ImageAddr], threads: usize) -> SourceFrames {
        let plain: Vec<u64> = addresses.iter().map(|address| address.0).collect();
        let mut all = SourceFrames { spans: vec![(0, 0); plain.len()], ..SourceFrames::default() };
        if self.is_empty() {
            return all;
        }
        let sight = self.sight();
        let parts = parts(sight.index, &plain);
        let work = |number: usize| parts.get(number).map(|part| sight.frames_of(part));
        let found = jobs::run(parts.len(), threads, work);
        let mut numbers = FxHashMap::default();
        for (part, unit) in parts.iter().zip(found.into_iter().flatten()) {
            all.add(part, unit, &mut numbers);
        }
        all
    }
}

/// What one unit has; numbers are its own.
struct UnitFrames<'a> {
    names: Vec<&'a [u8]>,
    files: Vec<String>,
    problems: DebugProblems,
    /// For each address its frames: the number of the name, and the line.
    frames: Vec<Vec<(Option<u32>, Option<SourceLine>)>>,
}

impl SourceFrames {
    fn add(
        &mut self,
        part: &Part,
        unit: UnitFrames<'_>,
        numbers: &mut FxHashMap<String, SourceFile>,
    ) {
        self.problems.add(unit.problems);
        let names: Vec<NameId> = unit.names.iter().map(|name| self.names.intern(name)).collect();
        let files: Vec<SourceFile> = unit
            .files
            .into_iter()
            .map(|file| {
                let next = SourceFile(self.files.len() as u32);
                *numbers.entry(file).or_insert_with_key(|file| {
                    self.files.push(file.clone());
                    next
                })
            })
            .collect();
        for (&position, frames) in part.positions.iter().zip(unit.frames) {
            let begin = self.frames.len() as u32;
            let line = |line: SourceLine| {
                let file = files.get(line.file.0 as usize).copied()?;
                Some(SourceLine { file, line: line.line })
            };
            self.frames.extend(frames.into_iter().map(|(name, at)| SourceFrame {
                function: name.and_then(|name| names.get(name as usize).copied()),
                line: at.and_then(line),
            }));
            if let Some(span) = self.spans.get_mut(position as usize) {
                *span = (begin, self.frames.len() as u32);
            }
        }
    }
}

impl<'a> Sight<'a> {
    fn frames_of(&self, part: &Part) -> UnitFrames<'a> {
        let mut problems = DebugProblems::default();
        let count = part.addresses.len();
        let mut lines = FoundLines::for_addresses(count);
        // In a list of this unit's addresses alone.
        let own = Part {
            unit: part.unit,
            positions: (0..count as u32).collect(),
            addresses: part.addresses.clone(),
        };
        let offset = self.index.units.get(part.unit).map_or(0, |unit| unit.offset);
        if let Err(error) = self.add_lines(&own, &mut lines) {
            problems.damaged(offset, &error);
        }
        let mut tree = Tree { innermost: vec![NONE; count], ..Tree::default() };
        let (mut nodes, mut names) = Default::default();
        if let Some(open) = self.open(part.unit, &mut problems) {
            let functions = self.functions(&open, &mut problems);
            tree = Tree::build(self.dwarf(&open), &open.unit, functions, &part.addresses);
            if let Some(error) = &tree.damage {
                problems.damaged(offset, error);
            }
            (nodes, names) = self.describing(&open, |describer| name_nodes(&tree, describer));
        }
        // Split-off units have the line table of their skeleton.
        let mut calls = self.call_files(part.unit).ok();
        let mut frames = Vec::with_capacity(count);
        for (&innermost, line) in tree.innermost.iter().zip(lines.lines.clone()) {
            let mut own = Vec::new();
            let (mut next, mut line) = (innermost, line);
            while let Some((node, named)) =
                tree.nodes.get(next as usize).zip(nodes.get(next as usize))
            {
                own.push((Some(named.name), line));
                let Row { line: number, .. } = named.call;
                let file = node.call_file.zip(calls.as_mut());
                let file = file.and_then(|(file, calls)| calls.get(file, &mut lines));
                line = file.map(|file| SourceLine { file, line: number });
                next = node.parent;
            }
            if own.is_empty() && line.is_some() {
                own.push((None, line));
            }
            frames.push(own);
        }
        UnitFrames { names, files: lines.files, problems, frames }
    }

    fn call_files(&self, unit: usize) -> Reading<CallFiles<'_, 'a>> {
        let none = CallFiles {
            dwarf: &self.main,
            program: None,
            directory: None,
            known: FxHashMap::default(),
        };
        let Some(entry) = self.index.units.get(unit) else { return Ok(none) };
        let unit = Unit::open(&self.main, entry.offset, None)?;
        let offset = unit.root.lines.and_then(|offset| usize::try_from(offset).ok());
        let Some(offset) = offset.map(gimli::DebugLineOffset) else { return Ok(none) };
        let size = unit.root.encoding.address_size;
        let program = self.main.debug_line.program(offset, size, None, None)?;
        let directory = unit.root.directory(&self.main);
        Ok(CallFiles { program: Some(program), directory, ..none })
    }
}

/// The files that calls stand in, each looked up once.
struct CallFiles<'d, 'a> {
    dwarf: &'d Dwarf<'a>,
    program: Option<gimli::IncompleteLineProgram<super::form::Slice<'a>>>,
    directory: Option<&'a [u8]>,
    known: FxHashMap<u32, Option<SourceFile>>,
}

impl CallFiles<'_, '_> {
    fn get(&mut self, file: u32, lines: &mut FoundLines) -> Option<SourceFile> {
        if let Some(known) = self.known.get(&file) {
            return *known;
        }
        let header = self.program.as_ref().map(gimli::IncompleteLineProgram::header);
        let name = header.and_then(|header| file_name(self.dwarf, header, file.into()));
        let number = name.map(|name| lines.file(in_directory(self.directory, name)));
        self.known.insert(file, number);
        number
    }
}
