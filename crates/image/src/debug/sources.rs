//! The functions of the debug information by source place, and which were inlined into which: what
//! a change of one of them changes as well.

use rustc_hash::FxHashMap;

use super::DebugInfo;
use super::form::Slice;
use super::functions::Calls;
use super::names::{DeclaredIn, Describer, Space};
use super::resolve::Sight;
use super::resolved::DebugProblems;
use super::unit::Dwarf;
use crate::ImageAddr;

/// A function as its source declares it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceFunction {
    /// Linkage name, else plain name.
    pub name: String,
    /// Source file as the line table has it, with its directory where that is not the one of the
    /// compilation.
    pub file: Option<String>,
    /// Line of the declaration, 0 when unknown.
    pub line: u32,
    /// Where its code begins; `None` for a function without code of its own.
    pub address: Option<ImageAddr>,
}

/// A call that the compiler replaced by the callee's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InlinedCall {
    /// Position of the callee in [`SourceFunctions::functions`].
    pub callee: u32,
    /// Position of the function with code that holds the body, be it inlined there directly or
    /// with another one.
    pub caller: u32,
}

/// Functions with code, and functions that were inlined, folded or only declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFunctions {
    /// Each once per unit.
    pub functions: Vec<SourceFunction>,
    /// Inlined calls with repetitions: one entry per place.
    pub inlined: Vec<InlinedCall>,
    /// What could not be read.
    pub problems: DebugProblems,
}

impl DebugInfo<'_> {
    /// Reads all units: functions with code, and the calls inlined into them.
    pub fn source_functions(&self, threads: usize) -> SourceFunctions {
        let mut all = SourceFunctions::default();
        if self.is_empty() {
            return all;
        }
        let sight = self.sight();
        for unit in jobs::run(sight.index.units.len(), threads, |unit| sight.sources_of(unit)) {
            let before = all.functions.len() as u32;
            all.functions.extend(unit.functions);
            let moved = |call: InlinedCall| InlinedCall {
                callee: call.callee.saturating_add(before),
                caller: call.caller.saturating_add(before),
            };
            all.inlined.extend(unit.inlined.into_iter().map(moved));
            all.problems.add(unit.problems);
        }
        all
    }
}

/// Name, file, line and address as an entry states them.
type Stated<'a> = (&'a [u8], Option<DeclaredIn>, u32, Option<ImageAddr>);

/// The functions of one unit as they are met.
struct Collected<'d, 'w, 'a> {
    found: SourceFunctions,
    numbers: FxHashMap<SourceFunction, u32>,
    /// What entries said, so that most of them need no texts: name, file, line and address to the
    /// number.
    by_entry: FxHashMap<Stated<'a>, u32>,
    describer: &'d mut Describer<'w, 'a>,
    files: FileNames<'d, 'a>,
}

impl Sight<'_> {
    fn sources_of(&self, unit: usize) -> SourceFunctions {
        let mut found = SourceFunctions::default();
        let Some(open) = self.open(unit, &mut found.problems) else { return found };
        let table = self.functions(&open, &mut found.problems);
        let calls = Calls::collect(&open.unit);
        if let Some(damage) = calls.damage {
            found.problems.damaged(open.entry.offset, &damage);
        }
        let own = self.dwarf(&open);
        let address_size = open.unit.root.encoding.address_size;
        let files = FileNames {
            own,
            supplement: self.supplement.as_ref(),
            address_size,
            known: FxHashMap::default(),
            programs: FxHashMap::default(),
        };
        self.describing(&open, |describer| {
            let mut all = Collected {
                found,
                numbers: FxHashMap::default(),
                by_entry: FxHashMap::default(),
                describer,
                files,
            };
            let mut callers: FxHashMap<usize, u32> = FxHashMap::default();
            for entry in &table.entries {
                let address = table.spans(entry).first().map(|span| ImageAddr(span.0));
                callers
                    .extend(all.number(entry.entry, address).map(|number| (entry.entry, number)));
            }
            for entry in calls.without_code {
                all.number(entry, None);
            }
            for call in calls.inlined {
                let caller = callers.get(&call.function).copied();
                if let (Some(caller), Some(callee)) = (caller, all.number(call.call, None)) {
                    all.found.inlined.push(InlinedCall { callee, caller });
                }
            }
            all.found
        })
    }
}

impl Collected<'_, '_, '_> {
    /// The position of the function that an entry describes; `None` where it has no name.
    fn number(&mut self, entry: usize, address: Option<ImageAddr>) -> Option<u32> {
        let described = self.describer.describe(entry);
        let name = described.name?;
        let stated = (name, described.file, described.start_line, address);
        if let Some(number) = self.by_entry.get(&stated) {
            return Some(*number);
        }
        let function = SourceFunction {
            name: String::from_utf8_lossy(name).into_owned(),
            file: described.file.and_then(|file| self.files.get(file)),
            line: described.start_line,
            address,
        };
        let next = u32::try_from(self.found.functions.len()).ok()?;
        let number = *self.numbers.entry(function.clone()).or_insert(next);
        if number == next {
            self.found.functions.push(function);
        }
        self.by_entry.insert(stated, number);
        Some(number)
    }
}

/// Names of source files, each looked up once.
struct FileNames<'d, 'a> {
    own: &'d Dwarf<'a>,
    supplement: Option<&'d Dwarf<'a>>,
    address_size: u8,
    known: FxHashMap<DeclaredIn, Option<String>>,
    /// Headers of line tables by space and offset: they list all files, and there are many.
    programs: FxHashMap<(Space, u64), Option<Program<'a>>>,
}

type Program<'a> = gimli::IncompleteLineProgram<Slice<'a>>;

impl FileNames<'_, '_> {
    fn get(&mut self, file: DeclaredIn) -> Option<String> {
        if let Some(known) = self.known.get(&file) {
            return known.clone();
        }
        let dwarf = match file.space {
            Space::Own => Some(self.own),
            Space::Supplement => self.supplement,
        };
        let address_size = self.address_size;
        let program = self.programs.entry((file.space, file.lines)).or_insert_with(|| {
            let offset = gimli::DebugLineOffset(usize::try_from(file.lines).ok()?);
            dwarf?.debug_line.program(offset, address_size, None, None).ok()
        });
        let name = dwarf
            .zip(program.as_ref())
            .and_then(|(dwarf, program)| file_name(dwarf, program.header(), file.file));
        self.known.insert(file, name.clone());
        name
    }
}

/// A file of a line table, with its directory where that is not the one of the compilation.
pub(super) fn file_name<'a>(
    dwarf: &Dwarf<'a>,
    header: &gimli::LineProgramHeader<Slice<'a>>,
    file: u64,
) -> Option<String> {
    let text = |value| match value {
        gimli::AttributeValue::String(bytes) => Some(bytes),
        gimli::AttributeValue::DebugStrRef(offset) => dwarf.debug_str.get_str(offset).ok(),
        gimli::AttributeValue::DebugLineStrRef(offset) => dwarf.debug_line_str.get_str(offset).ok(),
        _ => None,
    };
    let entry = header.file(file)?;
    let name = text(entry.path_name())?;
    let name = String::from_utf8_lossy(name.slice());
    // Directory 0 is the one of the compilation.
    let directory = (entry.directory_index() != 0 && !name.starts_with('/'))
        .then(|| entry.directory(header).and_then(text))
        .flatten();
    Some(match directory {
        Some(directory) => format!("{}/{name}", String::from_utf8_lossy(directory.slice())),
        None => name.into_owned(),
    })
}
