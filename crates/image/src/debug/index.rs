//! Which unit describes an address: from `.debug_aranges` where a unit is listed there, else from
//! its root entry.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::OnceLock;

use gimli::{Reader as _, Section as _};
use rustc_hash::{FxHashMap, FxHashSet};

use super::abbreviation::{Abbreviation, Abbreviations};
use super::damage::{Damage, Reading};
use super::dwo::Dwo;
use super::functions::FunctionTable;
use super::unit::{self, Dwarf, Root, Span, Unit};

/// A compilation unit of the main debug file, with what was found out about it so far.
#[derive(Debug)]
pub(super) struct UnitEntry {
    /// Offset in `.debug_info`.
    pub(super) offset: usize,
    /// Its functions, once somebody needed them.
    pub(super) functions: OnceLock<FunctionTable>,
    /// Its `.dwo` file, once somebody needed it; `None` when it is none or is missing.
    pub(super) dwo: OnceLock<Dwo>,
}

/// All units, and the address ranges they claim.
#[derive(Debug, Default)]
pub(super) struct UnitIndex {
    /// Sorted by offset.
    pub(super) units: Vec<UnitEntry>,
    /// Disjoint and sorted: begin, end, position in `units`.
    spans: Vec<(u64, u64, u32)>,
    /// Units whose root entry could not be read.
    pub(super) unreadable: usize,
    /// The first error met.
    pub(super) damage: Option<Damage>,
}

impl UnitIndex {
    /// Builds the index. `floor` is the lowest address of code.
    pub(super) fn build(dwarf: &Dwarf<'_>, floor: u64) -> UnitIndex {
        let mut index = UnitIndex::default();
        let (offsets, damage) = unit::unit_offsets(dwarf);
        index.damage = damage;
        let mut spans = Vec::new();
        let listed = listed_spans(dwarf, &offsets, &mut spans);
        let mut abbreviations = RootAbbreviations::new(dwarf);
        for (position, &offset) in offsets.iter().enumerate() {
            index.units.push(UnitEntry {
                offset,
                functions: OnceLock::new(),
                dwo: OnceLock::new(),
            });
            if listed.contains(&offset) {
                continue;
            }
            if let Err(error) = index.root_spans(
                dwarf,
                offset,
                position as u32,
                floor,
                &mut abbreviations,
                &mut spans,
            ) {
                index.unreadable += 1;
                index.damage.get_or_insert(error);
            }
        }
        spans.retain(|span| span.0 < span.1 && span.0 >= floor);
        index.spans = disjoint(spans);
        index
    }

    fn root_spans<'a>(
        &self,
        dwarf: &Dwarf<'a>,
        offset: usize,
        position: u32,
        floor: u64,
        abbreviations: &mut RootAbbreviations<'a>,
        into: &mut Vec<(u64, u64, u32)>,
    ) -> Reading<()> {
        let root = Root::read(dwarf, offset, None, |at, encoding, code| {
            abbreviations.find(at, encoding, code)
        })?;
        if !root.is_compile_unit {
            return Ok(());
        }
        let mut found: Vec<Span> = Vec::new();
        root.own_spans(dwarf, &mut found);
        if found.is_empty() && root.has_children {
            // A unit that does not say which addresses it covers: its functions do.
            let unit = Unit::open(dwarf, offset, None)?;
            let functions = FunctionTable::collect(dwarf, &unit, floor);
            found.extend(functions.entries.iter().flat_map(|function| functions.spans(function)));
        }
        into.extend(found.into_iter().map(|(begin, end)| (begin, end, position)));
        Ok(())
    }

    /// Position of the unit that contains the section offset.
    pub(super) fn containing(&self, offset: usize) -> Option<&UnitEntry> {
        let after = self.units.partition_point(|unit| unit.offset <= offset);
        self.units.get(after.checked_sub(1)?)
    }

    /// How many bytes of code each unit claims.
    pub(super) fn code_bytes(&self) -> Vec<u64> {
        let mut bytes = vec![0_u64; self.units.len()];
        for &(begin, end, unit) in &self.spans {
            if let Some(own) = bytes.get_mut(unit as usize) {
                *own = own.saturating_add(end.saturating_sub(begin));
            }
        }
        bytes
    }

    /// Splits sorted addresses by unit. Addresses that no unit claims are left out.
    pub(super) fn split(&self, addresses: &[u64]) -> BTreeMap<u32, Vec<u32>> {
        let mut by_unit: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut at = 0;
        for &(begin, end, unit) in &self.spans {
            let rest = addresses.get(at..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            // Most spans hold no address: one comparison decides before any search.
            if rest.first().is_some_and(|first| *first >= end) {
                continue;
            }
            let from = at + rest.partition_point(|address| *address < begin);
            let to = at + rest.partition_point(|address| *address < end);
            if from < to {
                by_unit.entry(unit).or_default().extend(from as u32..to as u32);
            }
            at = to;
        }
        by_unit
    }
}

/// Reads `.debug_aranges`; returns the offsets of the units listed in it.
fn listed_spans(
    dwarf: &Dwarf<'_>,
    offsets: &[usize],
    into: &mut Vec<(u64, u64, u32)>,
) -> FxHashSet<usize> {
    let mut listed = FxHashSet::default();
    let mut headers = dwarf.debug_aranges.headers();
    while let Ok(Some(header)) = headers.next() {
        let offset = header.debug_info_offset().0;
        let Ok(position) = offsets.binary_search(&offset) else { continue };
        let before = into.len();
        let mut entries = header.entries();
        loop {
            match entries.next_raw() {
                Ok(Some(raw)) => {
                    let end = raw.address().saturating_add(raw.length());
                    into.push((raw.address(), end, position as u32));
                }
                Ok(None) => {
                    // An empty list says nothing, for a unit that may still have code.
                    if into.len() > before {
                        listed.insert(offset);
                    }
                    break;
                }
                Err(_) => {
                    // A damaged list is not trusted; the root entry is asked.
                    into.truncate(before);
                    break;
                }
            }
        }
    }
    listed
}

/// Makes spans disjoint. Where units overlap (identical code folded by the linker), the first unit
/// wins.
fn disjoint(mut spans: Vec<(u64, u64, u32)>) -> Vec<(u64, u64, u32)> {
    spans.sort_unstable();
    if spans.windows(2).all(|pair| matches!(pair, [a, b] if a.1 <= b.0)) {
        return spans;
    }
    let mut points: Vec<(u64, bool, u32)> = Vec::with_capacity(spans.len() * 2);
    for &(begin, end, unit) in &spans {
        points.push((begin, true, unit));
        points.push((end, false, unit));
    }
    points.sort_unstable();
    let mut active: BTreeMap<u32, u32> = BTreeMap::new();
    let mut result: Vec<(u64, u64, u32)> = Vec::with_capacity(spans.len());
    let mut last = 0;
    for (address, is_begin, unit) in points {
        if let Some((&owner, _)) = active.first_key_value().filter(|_| last < address) {
            match result.last_mut() {
                Some(previous) if previous.1 == last && previous.2 == owner => previous.1 = address,
                _ => result.push((last, address, owner)),
            }
        }
        last = address;
        if is_begin {
            *active.entry(unit).or_default() += 1;
        } else if let Some(count) = active.get_mut(&unit) {
            *count -= 1;
            if *count == 0 {
                active.remove(&unit);
            }
        }
    }
    result
}

/// Root abbreviations by table and number: dwz lets thousands of units share one table.
struct RootAbbreviations<'a> {
    section: Dwarf<'a>,
    known: FxHashMap<(usize, u64, u16), Rc<Abbreviation>>,
    budget: usize,
}

impl<'a> RootAbbreviations<'a> {
    fn new(dwarf: &Dwarf<'a>) -> RootAbbreviations<'a> {
        let budget = RootAbbreviations::budget(dwarf);
        let section = Dwarf { debug_abbrev: dwarf.debug_abbrev, ..Dwarf::default() };
        RootAbbreviations { section, known: FxHashMap::default(), budget }
    }

    /// Damaged headers could make every unit scan the whole section; real tables need far less than
    /// this.
    fn budget(dwarf: &Dwarf<'_>) -> usize {
        dwarf.debug_abbrev.reader().len().saturating_mul(16).saturating_add(1 << 24)
    }

    fn find(
        &mut self,
        at: usize,
        encoding: gimli::Encoding,
        code: u64,
    ) -> Reading<Rc<Abbreviation>> {
        let key = (at, code, encoding.version << 8 | u16::from(encoding.format.word_size()));
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let table = unit::table(&self.section, at)?;
        let available = table.len();
        let mut scanned = 0;
        let found = Abbreviations::parse_one(table, encoding, code, &mut scanned);
        self.budget = self.budget.checked_sub(scanned.min(available)).ok_or(Damage::TooMany {
            what: "bytes of abbreviations of root entries",
            limit: RootAbbreviations::budget(&self.section),
        })?;
        let found = Rc::new(found?);
        self.known.insert(key, found.clone());
        Ok(found)
    }
}
