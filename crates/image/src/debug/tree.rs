//! Which inlined call of which function stands at an address: the entries of the functions that
//! were asked for.

use gimli::Reader as _;

use super::abbreviation::{Abbreviation, Kind};
use super::damage::{Damage, Reading};
use super::functions::{FunctionEntry, FunctionTable};
use super::unit::{Dwarf, Span, Unit};

/// No node: an address outside every function, or the parent of a function.
pub(super) const NONE: u32 = u32::MAX;

/// Damaged entries could claim every address thousands of times over; real nesting claims it a few
/// times.
const MAX_CLAIMS: usize = 1 << 30;
const MAX_SPANS: usize = 1 << 26;
/// Compilers stop inlining long before this depth.
const MAX_DEPTH: u16 = 250;

/// A function or an inlined call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// The node around it; [`NONE`] for a function.
    pub(super) parent: u32,
    /// How many nodes are around it.
    depth: u16,
    /// Offset of the entry from the unit's start.
    pub(super) entry: usize,
    /// Where the call stood in `parent`.
    pub(super) call_line: u32,
    /// In which file of the unit's line table, where the entry says.
    pub(super) call_file: Option<u32>,
    pub(super) call_discriminator: u32,
}

/// The nodes of the functions that were asked for, and the innermost one of each address.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    pub(super) innermost: Vec<u32>,
    /// Why reading stopped early, if it did.
    pub(super) damage: Option<Damage>,
}

impl Tree {
    /// Finds the nodes of sorted addresses.
    pub(super) fn build(
        dwarf: &Dwarf<'_>,
        unit: &Unit<'_>,
        functions: &FunctionTable,
        addresses: &[u64],
    ) -> Tree {
        let tree = Tree { innermost: vec![NONE; addresses.len()], ..Tree::default() };
        let mut walk = Walk {
            dwarf,
            unit,
            functions,
            addresses,
            tree,
            claims: 0,
            spans_read: 0,
            spans: Vec::new(),
        };
        let mut next = 0;
        while let Some(function) = functions.entries.get(next) {
            next += 1;
            if !walk.is_touched(function) {
                continue;
            }
            if let Err(error) = walk.function(function, &mut next) {
                walk.tree.damage.get_or_insert(error);
            }
        }
        walk.tree
    }
}

struct Walk<'w, 'a> {
    dwarf: &'w Dwarf<'a>,
    unit: &'w Unit<'a>,
    functions: &'w FunctionTable,
    addresses: &'w [u64],
    tree: Tree,
    claims: usize,
    spans_read: usize,
    /// Kept to spare an allocation per inlined call.
    spans: Vec<Span>,
}

impl<'a> Walk<'_, 'a> {
    fn is_touched(&self, function: &FunctionEntry) -> bool {
        self.functions.spans(function).iter().any(|&(begin, end)| {
            let first = self.addresses.partition_point(|address| *address < begin);
            self.addresses.get(first).is_some_and(|address| *address < end)
        })
    }

    /// Walks over one function and whatever is nested in it. `next` is the position of the function
    /// that follows in the table, and moves past nested ones.
    fn function(&mut self, function: &FunctionEntry, next: &mut usize) -> Reading<()> {
        let total = self.unit.root.bytes.len();
        let mut input = self.unit.entries(function.entry)?;
        let abbreviation = self.unit.abbreviations.get(input.read_uleb128()?)?;
        abbreviation.skip(&mut input, self.unit.root.encoding)?;
        let node = self.function_node(function)?;
        let mut around = vec![node];
        if !abbreviation.has_children {
            return Ok(());
        }
        while let Some(&parent) = around.last() {
            let entry = total - input.len();
            let code = input.read_uleb128()?;
            if code == 0 {
                around.pop();
                continue;
            }
            let abbreviation = self.unit.abbreviations.get(code)?;
            let inner = match abbreviation.kind {
                Kind::Inlined if parent != NONE => {
                    self.inlined(abbreviation, &mut input, entry, parent)?
                }
                Kind::Subprogram => {
                    abbreviation.skip(&mut input, self.unit.root.encoding)?;
                    self.nested(entry, next)?
                }
                _ => {
                    abbreviation.skip(&mut input, self.unit.root.encoding)?;
                    parent
                }
            };
            if abbreviation.has_children {
                around.push(inner);
            }
        }
        Ok(())
    }

    /// A function inside a function: its inlined calls are its own.
    fn nested(&mut self, entry: usize, next: &mut usize) -> Reading<u32> {
        while let Some(function) =
            self.functions.entries.get(*next).filter(|function| function.entry <= entry)
        {
            *next += 1;
            if function.entry == entry {
                return self.function_node(function);
            }
        }
        Ok(NONE)
    }

    fn function_node(&mut self, function: &FunctionEntry) -> Reading<u32> {
        let node = Node {
            parent: NONE,
            depth: 0,
            entry: function.entry,
            call_line: 0,
            call_file: None,
            call_discriminator: 0,
        };
        let index = self.push(node)?;
        for span in self.functions.spans(function) {
            self.claim(*span, index)?;
        }
        Ok(index)
    }

    fn inlined(
        &mut self,
        abbreviation: &Abbreviation,
        input: &mut super::form::Slice<'a>,
        entry: usize,
        parent: u32,
    ) -> Reading<u32> {
        let (mut low, mut high, mut ranges) = (None, None, None);
        let around = self.tree.nodes.get(parent as usize).map_or(0, |node| node.depth);
        let mut node = Node {
            parent,
            depth: around + 1,
            entry,
            call_line: 0,
            call_file: None,
            call_discriminator: 0,
        };
        abbreviation.read(input, self.unit.root.encoding, |name, value| match name {
            gimli::DW_AT_low_pc => low = Some(value),
            gimli::DW_AT_high_pc => high = Some(value),
            gimli::DW_AT_ranges => ranges = Some(value),
            gimli::DW_AT_call_line => node.call_line = value.number() as u32,
            gimli::DW_AT_call_file => node.call_file = Some(value.number() as u32),
            gimli::DW_AT_GNU_discriminator => node.call_discriminator = value.number() as u32,
            _ => {}
        })?;
        if node.depth > MAX_DEPTH {
            return Err(Damage::TooMany {
                what: "inlined calls inside each other",
                limit: MAX_DEPTH.into(),
            });
        }
        let index = self.push(node)?;
        let mut spans = std::mem::take(&mut self.spans);
        spans.clear();
        self.unit.root.spans(self.dwarf, low, high, ranges, &mut spans);
        self.spans_read += spans.len();
        let claimed = spans.iter().try_for_each(|span| self.claim(*span, index));
        self.spans = spans;
        claimed?;
        if self.spans_read > MAX_SPANS {
            return Err(Damage::TooMany {
                what: "address ranges of inlined calls",
                limit: MAX_SPANS,
            });
        }
        Ok(index)
    }

    fn push(&mut self, node: Node) -> Reading<u32> {
        let index = u32::try_from(self.tree.nodes.len()).ok().filter(|index| *index != NONE);
        let index = index
            .ok_or(Damage::TooMany { what: "inlined calls in a unit", limit: NONE as usize })?;
        self.tree.nodes.push(node);
        Ok(index)
    }

    /// Inner entries come after outer ones, so the last claim is the innermost.
    fn claim(&mut self, (begin, end): Span, node: u32) -> Reading<()> {
        let from = self.addresses.partition_point(|address| *address < begin);
        let rest = self.addresses.get(from..).unwrap_or_default();
        let bytes = usize::try_from(end.saturating_sub(begin)).unwrap_or(usize::MAX);
        // No more addresses than bytes fit in the range, which keeps the second search short.
        let near = rest.get(..bytes.min(rest.len())).unwrap_or_default();
        let count = near.partition_point(|address| *address < end);
        if let Some(claimed) = self.tree.innermost.get_mut(from..from + count) {
            claimed.fill(node);
        }
        self.claims += count;
        if self.claims > MAX_CLAIMS {
            return Err(Damage::TooMany { what: "claims of addresses", limit: MAX_CLAIMS });
        }
        Ok(())
    }
}
