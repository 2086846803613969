//! The functions of one unit that have code: which entry, which address ranges.

use gimli::Reader as _;

use super::abbreviation::Kind;
use super::damage::{Damage, Reading};
use super::form::Value;
use super::unit::{Dwarf, Span, Unit};

/// More ranges than this in one unit is damage: lists that entries share could otherwise be read
/// without end.
const MAX_SPANS: usize = 1 << 24;

/// A subprogram entry with code.
#[derive(Clone, Copy, Debug)]
pub(super) struct FunctionEntry {
    /// Offset of the entry from the unit's start.
    pub(super) entry: usize,
    first_span: usize,
    end_span: usize,
}

/// The entries of the functions that the compiler inlined somewhere, as far as the unit can be
/// read.
pub(super) fn inlined_entries(unit: &Unit<'_>) -> Vec<usize> {
    let mut found = Vec::new();
    // What damage hides is missing in the list, which only makes a check of names stricter.
    let _ = walk_inlined(unit, &mut found);
    found
}

fn walk_inlined(unit: &Unit<'_>, found: &mut Vec<usize>) -> Reading<()> {
    let total = unit.root.bytes.len();
    let mut input = unit.entries(unit.root.entries_at)?;
    while !input.is_empty() {
        let entry = total - input.len();
        let code = input.read_uleb128()?;
        if code == 0 {
            continue;
        }
        let abbreviation = unit.abbreviations.get(code)?;
        if abbreviation.is_inlined {
            found.push(entry);
        }
        abbreviation.skip(&mut input, unit.root.encoding)?;
    }
    Ok(())
}

/// What [`Calls::collect`] finds in a unit.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Inlined calls.
    pub(super) inlined: Vec<InlinedEntry>,
    /// Functions of the unit's outermost level without code: folded into others, inlined
    /// everywhere, or declared only.
    pub(super) without_code: Vec<usize>,
    /// Why reading ended early, if it did.
    pub(super) damage: Option<Damage>,
}

/// An inlined call, by the distances of its entries from the unit's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InlinedEntry {
    /// The function with code around it.
    pub(super) function: usize,
    /// The call's own entry.
    pub(super) call: usize,
}

impl Calls {
    /// Walks over all entries of the unit.
    pub(super) fn collect(unit: &Unit<'_>) -> Calls {
        let mut calls = Calls::default();
        calls.damage = calls.walk(unit).err();
        calls
    }

    fn walk(&mut self, unit: &Unit<'_>) -> Reading<()> {
        let total = unit.root.bytes.len();
        let mut input = unit.entries(unit.root.entries_at)?;
        // The function around each open entry; functions inside functions hide the outer one.
        let mut around: Vec<Option<usize>> = Vec::new();
        while !input.is_empty() {
            let entry = total - input.len();
            let code = input.read_uleb128()?;
            if code == 0 {
                around.pop();
                continue;
            }
            let abbreviation = unit.abbreviations.get(code)?;
            let mut inside = around.last().copied().flatten();
            match abbreviation.kind {
                Kind::Subprogram => {
                    inside = abbreviation.has_code.then_some(entry);
                    if inside.is_none() && around.len() == 1 {
                        self.without_code.push(entry);
                    }
                }
                Kind::Inlined => {
                    self.inlined
                        .extend(inside.map(|function| InlinedEntry { function, call: entry }));
                }
                Kind::Type | Kind::Other => {}
            }
            abbreviation.skip(&mut input, unit.root.encoding)?;
            if abbreviation.has_children {
                around.push(inside);
            }
        }
        Ok(())
    }
}

/// The functions of one unit in the order of their entries; a nested function follows the one
/// around it.
#[derive(Debug, Default)]
pub(super) struct FunctionTable {
    pub(super) entries: Vec<FunctionEntry>,
    spans: Vec<Span>,
    /// Why reading ended before the unit's end, if it did.
    pub(super) damage: Option<Damage>,
}

impl FunctionTable {
    /// Walks over all entries of the unit. `floor` is the lowest address of code: linkers leave
    /// functions that they dropped at 0 or 1.
    pub(super) fn collect(dwarf: &Dwarf<'_>, unit: &Unit<'_>, floor: u64) -> FunctionTable {
        let mut table = FunctionTable::default();
        if let Err(error) = table.walk(dwarf, unit, floor) {
            table.damage = Some(error);
        }
        table
    }

    fn walk(&mut self, dwarf: &Dwarf<'_>, unit: &Unit<'_>, floor: u64) -> Reading<()> {
        let encoding = unit.root.encoding;
        let total = unit.root.bytes.len();
        let mut input = unit.entries(unit.root.entries_at)?;
        while !input.is_empty() {
            let entry = total - input.len();
            let code = input.read_uleb128()?;
            if code == 0 {
                continue;
            }
            let abbreviation = unit.abbreviations.get(code)?;
            if abbreviation.kind == Kind::Subprogram && abbreviation.has_code {
                let (mut low, mut high, mut ranges) = (None, None, None);
                abbreviation.read(&mut input, encoding, |name, value| match name {
                    gimli::DW_AT_low_pc => low = Some(value),
                    gimli::DW_AT_high_pc => high = Some(value),
                    gimli::DW_AT_ranges => ranges = Some(value),
                    _ => {}
                })?;
                let first_span = self.spans.len();
                unit.root.spans(dwarf, low, high, ranges, &mut self.spans);
                self.keep(entry, first_span, floor)?;
            } else if abbreviation.can_jump {
                let mut sibling = None;
                abbreviation.read(&mut input, encoding, |name, value| {
                    if let (gimli::DW_AT_sibling, Value::UnitRef(at)) = (name, value) {
                        sibling = usize::try_from(at).ok();
                    }
                })?;
                // Only forwards, so that a damaged reference cannot make a loop.
                if let Some(distance) = sibling.and_then(|at| at.checked_sub(total - input.len())) {
                    input.skip(distance)?;
                }
            } else {
                abbreviation.skip(&mut input, encoding)?;
            }
        }
        Ok(())
    }

    fn keep(&mut self, entry: usize, first_span: usize, floor: u64) -> Reading<()> {
        let mut kept = first_span;
        for index in first_span..self.spans.len() {
            let span = self.spans.get(index).copied().filter(|span| span.0 >= floor);
            if let (Some(span), Some(slot)) = (span, self.spans.get_mut(kept)) {
                *slot = span;
                kept += 1;
            }
        }
        self.spans.truncate(kept);
        if kept > MAX_SPANS {
            return Err(Damage::TooMany { what: "address ranges of functions", limit: MAX_SPANS });
        }
        if kept > first_span {
            self.entries.push(FunctionEntry { entry, first_span, end_span: kept });
        }
        Ok(())
    }

    /// The address ranges of a function, in the order of its range list.
    pub(super) fn spans(&self, function: &FunctionEntry) -> &[Span] {
        self.spans.get(function.first_span..function.end_span).unwrap_or_default()
    }
}
