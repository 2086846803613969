//! What a function is called and where it starts, which often stands in another entry, unit or
//! file.

use std::rc::Rc;

use gimli::Reader as _;
use rustc_hash::FxHashMap;

use super::form::Value;
use super::unit::{Dwarf, Unit};

/// More hops than this between entries of one function is a loop.
const MAX_HOPS: usize = 32;

/// In which file's `.debug_info` an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Space {
    /// The file of the unit that is being resolved: the main debug file or the unit's `.dwo`.
    Own,
    /// The file that several debug files share (dwz).
    Supplement,
}

/// Name and first line of a function, as far as its entries state them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Described<'a> {
    /// `DW_AT_linkage_name`, else `DW_AT_name`.
    pub(super) name: Option<&'a [u8]>,
    /// Whether it is the linkage name.
    pub(super) is_linkage_name: bool,
    /// `DW_AT_decl_line`, 0 when unknown.
    pub(super) start_line: u32,
    /// `DW_AT_decl_file`.
    pub(super) file: Option<DeclaredIn>,
}

/// The source file of a declaration: a number in a line table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct DeclaredIn {
    pub(super) space: Space,
    /// Offset of the line table in its `.debug_line`.
    pub(super) lines: u64,
    /// Position in its list of files.
    pub(super) file: u64,
}

/// Where entries outside the current unit are found.
pub(super) struct Files<'w, 'a> {
    pub(super) own: &'w Dwarf<'a>,
    /// Offsets of the units of `own`, sorted.
    pub(super) own_units: &'w dyn Fn(usize) -> Option<usize>,
    pub(super) supplement: Option<&'w Dwarf<'a>>,
    /// Offsets of the units of the supplementary file, sorted.
    pub(super) supplement_units: &'w [usize],
}

/// Reads names for one unit and remembers them.
pub(super) struct Describer<'w, 'a> {
    files: Files<'w, 'a>,
    unit: &'w Unit<'a>,
    known: FxHashMap<(Space, usize), Described<'a>>,
    others: FxHashMap<(Space, usize), Option<Rc<Unit<'a>>>>,
}

/// What one entry says itself.
#[derive(Default)]
struct Entry<'a> {
    linkage_name: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
    line: Option<u32>,
    file: Option<DeclaredIn>,
    origin: Option<(Space, usize)>,
    specification: Option<(Space, usize)>,
}

impl<'w, 'a> Describer<'w, 'a> {
    pub(super) fn new(files: Files<'w, 'a>, unit: &'w Unit<'a>) -> Describer<'w, 'a> {
        Describer { files, unit, known: FxHashMap::default(), others: FxHashMap::default() }
    }

    /// Describes the function whose entry stands at this distance from the unit's start.
    ///
    /// Each fact is the first one met on the way over abstract origins and specifications, as
    /// readers of debug information agree.
    pub(super) fn describe(&mut self, entry: usize) -> Described<'a> {
        let start = (Space::Own, self.unit.root.offset.saturating_add(entry));
        if let Some(known) = self.known.get(&start) {
            return *known;
        }
        let first = self.entry(start).unwrap_or_default();
        // An inlined call says nothing itself: what its origin says is shared by all calls of the
        // function.
        let shared = match (&first, first.origin) {
            (
                Entry { linkage_name: None, name: None, line: None, specification: None, .. },
                Some(origin),
            ) => Some(origin),
            _ => None,
        };
        if let Some(known) = shared.and_then(|origin| self.known.get(&origin)) {
            return *known;
        }
        let described = self.follow(first);
        self.known.insert(shared.unwrap_or(start), described);
        described
    }

    fn follow(&mut self, first: Entry<'a>) -> Described<'a> {
        let (mut linkage_name, mut name, mut line, mut file) = (None, None, None, None);
        let mut waiting = Vec::new();
        let mut entry = first;
        for _ in 0..MAX_HOPS {
            linkage_name = linkage_name.or(entry.linkage_name);
            name = name.or(entry.name);
            line = line.or(entry.line);
            file = file.or(entry.file);
            if linkage_name.is_some() && line.is_some() {
                break;
            }
            waiting.extend(entry.origin);
            waiting.extend(entry.specification);
            let Some(next) = waiting.pop() else { break };
            entry = self.entry(next).unwrap_or_default();
        }
        Described {
            name: linkage_name.or(name),
            is_linkage_name: linkage_name.is_some(),
            start_line: line.unwrap_or(0),
            file,
        }
    }

    fn entry(&mut self, at: (Space, usize)) -> Option<Entry<'a>> {
        let (space, offset) = at;
        let home = &self.unit.root;
        let distance = offset.checked_sub(home.offset);
        if let Some(distance) =
            distance.filter(|distance| space == Space::Own && *distance < home.bytes.len())
        {
            return read_entry(self.files.own, self.files.supplement, self.unit, space, distance);
        }
        let other = self.open(space, offset)?;
        let dwarf = self.dwarf(space)?;
        read_entry(
            dwarf,
            self.files.supplement,
            &other,
            space,
            offset.checked_sub(other.root.offset)?,
        )
    }

    fn dwarf(&self, space: Space) -> Option<&'w Dwarf<'a>> {
        match space {
            Space::Own => Some(self.files.own),
            Space::Supplement => self.files.supplement,
        }
    }

    fn open(&mut self, space: Space, offset: usize) -> Option<Rc<Unit<'a>>> {
        let start = match space {
            Space::Own => (self.files.own_units)(offset)?,
            Space::Supplement => {
                let units = self.files.supplement_units;
                *units.get(units.partition_point(|unit| *unit <= offset).checked_sub(1)?)?
            }
        };
        let dwarf = self.dwarf(space)?;
        let skeleton =
            (dwarf.file_type == gimli::DwarfFileType::Dwo).then(|| self.unit.root.inherited());
        let open = || Unit::open(dwarf, start, skeleton).ok().map(Rc::new);
        self.others.entry((space, start)).or_insert_with(open).clone()
    }
}

fn read_entry<'a>(
    dwarf: &Dwarf<'a>,
    supplement: Option<&Dwarf<'a>>,
    unit: &Unit<'a>,
    space: Space,
    at: usize,
) -> Option<Entry<'a>> {
    let mut input = unit.entries(at).ok()?;
    let code = input.read_uleb128().ok().filter(|code| *code != 0)?;
    let abbreviation = unit.abbreviations.get(code).ok()?;
    let mut entry = Entry::default();
    let (mut linkage_name, mut name) = (None, None);
    let reference = |value| match value {
        Value::UnitRef(distance) => {
            let offset = usize::try_from(distance).ok()?.checked_add(unit.root.offset)?;
            Some((space, offset))
        }
        Value::SectionRef(offset) => Some((space, usize::try_from(offset).ok()?)),
        Value::SupplementRef(offset) => Some((Space::Supplement, usize::try_from(offset).ok()?)),
        _ => None,
    };
    abbreviation
        .read(&mut input, unit.root.encoding, |attribute, value| match attribute {
            gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                linkage_name = Some(value)
            }
            gimli::DW_AT_name => name = Some(value),
            gimli::DW_AT_decl_file => {
                let file = value.number();
                entry.file = unit.root.lines.map(|lines| DeclaredIn { space, lines, file });
            }
            gimli::DW_AT_decl_line => entry.line = Some(value.number() as u32),
            gimli::DW_AT_abstract_origin => entry.origin = reference(value),
            gimli::DW_AT_specification => entry.specification = reference(value),
            _ => {}
        })
        .ok()?;
    entry.linkage_name = linkage_name.and_then(|value| unit.root.string(dwarf, supplement, value));
    entry.name = name.and_then(|value| unit.root.string(dwarf, supplement, value));
    Some(entry)
}
