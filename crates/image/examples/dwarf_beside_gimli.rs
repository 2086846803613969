//! What does our own reading of debug information gain over gimli's entries and attributes?
//!
//! `dwarf_beside_gimli ours|gimli|both FILE [EVERY]` resolves one address of EVERY (16) bytes of
//! code to its inline stack with line and discriminator, on one thread. `ours` is [`DebugInfo`],
//! `gimli` the same work with gimli's own reader of entries (`EntriesRaw`, as addr2line has it,
//! attributes of what is no function skipped). Prints seconds of CPU and MiB of memory beyond the list of
//! addresses; `both` says for how many addresses the answers differ.

use std::collections::hash_map::Entry;
use std::error::Error;

use gimli::{
    AttributeValue, DW_TAG_inlined_subroutine, DW_TAG_subprogram, EndianSlice, LittleEndian,
    UnitOffset,
};
use image::debug::DebugInfo;
use image::{DebugSearch, Image, ImageAddr};
use rustc_hash::FxHashMap;

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;
type Unit<'a> = gimli::Unit<Slice<'a>>;
type Fallible<T> = Result<T, Box<dyn Error>>;

/// No function, or no function around this one.
const NONE: u32 = u32::MAX;

/// Line and discriminator.
type Row = (u32, u32);
/// Name, line of the function's declaration, row.
type Frame<'a> = (&'a [u8], u32, Row);

fn main() -> Fallible<()> {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().ok_or("ours, gimli or both?")?;
    let path = arguments.next().ok_or("which file?")?;
    let every = arguments.next().map_or(Ok(16), |text| text.parse())?;
    let image = Image::open(path.as_ref())?;
    let mut addresses: Vec<u64> =
        image.code_ranges().flat_map(|range| (range.start.0..range.end.0).step_by(every)).collect();
    addresses.sort_unstable();
    let listed: Vec<ImageAddr> = addresses.iter().map(|address| ImageAddr(*address)).collect();
    let before = memory_mib("VmRSS:")?;
    let start = cpu_seconds()?;
    let described = match mode.as_str() {
        "ours" => {
            let resolved = DebugInfo::load(&image, &DebugSearch::default())?.resolve(&listed, 1)?;
            format!("{} stacks, {} names", resolved.stack_count(), resolved.names.len())
        }
        "gimli" => {
            let stacks = Stacks::read(&image, &addresses)?;
            format!("{} stacks, {} names", stacks.stacks.len(), stacks.names())
        }
        _ => differences(&image, &addresses, &listed)?,
    };
    let seconds = cpu_seconds()? - start;
    let memory = memory_mib("VmHWM:")?.saturating_sub(before);
    println!("{mode} {seconds:.3} s {memory} MiB: {} addresses, {described}", addresses.len());
    Ok(())
}

/// What this thread, the only one, spent on a CPU so far.
fn cpu_seconds() -> Fallible<f64> {
    let spent = std::fs::read_to_string("/proc/self/schedstat")?;
    Ok(spent.split(' ').next().ok_or("no number")?.parse::<f64>()? / 1e9)
}

/// A line of `/proc/self/status`, in MiB.
fn memory_mib(name: &str) -> Fallible<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? / 1024)
}

fn differences(image: &Image, addresses: &[u64], listed: &[ImageAddr]) -> Fallible<String> {
    let resolved = DebugInfo::load(image, &DebugSearch::default())?.resolve(listed, 1)?;
    let stacks = Stacks::read(image, addresses)?;
    let (mut differ, mut known) = (0, 0);
    for (at, number) in stacks.of.iter().enumerate() {
        let ours = resolved.frames(at).iter().map(|frame| {
            let name = resolved.names.get(frame.function).as_bytes();
            (name, frame.start_line, (frame.line, frame.discriminator))
        });
        let theirs = stacks.stacks.get(*number as usize).map_or(&[][..], Vec::as_slice);
        known += usize::from(!theirs.is_empty());
        differ += usize::from(!ours.eq(theirs.iter().copied()));
    }
    Ok(format!("{known} with a stack, {differ} differ"))
}

/// The stacks of all addresses.
#[derive(Default)]
struct Stacks<'a> {
    /// The number of each address's stack; [`NONE`] where there is none.
    of: Vec<u32>,
    stacks: Vec<Vec<Frame<'a>>>,
}

/// A function or an inlined call.
struct Node<'a> {
    parent: u32,
    name: &'a [u8],
    start_line: u32,
    call: Row,
}

/// Name and line of a function, by where its entry stands in the section.
type Known<'a> = FxHashMap<usize, (Option<&'a [u8]>, u32)>;

impl<'a> Stacks<'a> {
    fn read(image: &'a Image, addresses: &[u64]) -> Fallible<Stacks<'a>> {
        let mut dwarf = Dwarf::load(|id| {
            let bytes = match image.section(id.name()) {
                None => Ok::<&[u8], Box<dyn Error>>(&[]),
                Some(std::borrow::Cow::Borrowed(bytes)) => Ok(bytes),
                Some(std::borrow::Cow::Owned(_)) => Err("compressed sections".into()),
            };
            Ok::<_, Box<dyn Error>>(Slice::new(bytes?, LittleEndian))
        })?;
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        let floor = image.code_ranges().map(|range| range.start.0).min().unwrap_or(0);
        let mut headers = Vec::new();
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            headers.push(header);
        }
        let mut stacks = Stacks { of: vec![NONE; addresses.len()], ..Stacks::default() };
        let mut known = Known::default();
        let mut innermost = vec![NONE; addresses.len()];
        for header in &headers {
            let unit = dwarf.unit(*header)?;
            let mut walk = Walk {
                dwarf: &dwarf,
                unit: &unit,
                headers: &headers,
                addresses,
                floor,
                nodes: Vec::new(),
                innermost: &mut innermost,
                own: Vec::new(),
                known: &mut known,
            };
            walk.entries()?;
            let Walk { nodes, mut own, .. } = walk;
            own.sort_unstable();
            own.dedup();
            let places: Vec<u64> =
                own.iter().filter_map(|at| addresses.get(*at as usize).copied()).collect();
            let rows = rows(&unit, &places, floor)?;
            let of = own.iter().filter_map(|at| Some((*at, *innermost.get(*at as usize)?)));
            stacks.add(&nodes, of.zip(rows));
        }
        Ok(stacks)
    }

    /// Adds what was found in one unit: of each position the innermost node, and the row.
    fn add(&mut self, nodes: &[Node<'a>], found: impl Iterator<Item = ((u32, u32), Row)>) {
        let mut known: FxHashMap<(u32, Row), u32> = FxHashMap::default();
        for ((at, node), row) in found {
            let number = match known.entry((node, row)) {
                Entry::Occupied(found) => *found.get(),
                Entry::Vacant(free) => {
                    self.stacks.push(frames(nodes, node, row));
                    *free.insert(self.stacks.len() as u32 - 1)
                }
            };
            if let Some(slot) = self.of.get_mut(at as usize) {
                *slot = number;
            }
        }
    }

    fn names(&self) -> usize {
        let names = self.stacks.iter().flatten().map(|frame| frame.0);
        names.collect::<rustc_hash::FxHashSet<_>>().len()
    }
}

fn frames<'a>(nodes: &[Node<'a>], mut node: u32, mut row: Row) -> Vec<Frame<'a>> {
    let mut frames = Vec::new();
    while let Some(Node { parent, name, start_line, call }) = nodes.get(node as usize) {
        frames.push((*name, *start_line, row));
        (node, row) = (*parent, *call);
    }
    frames
}

/// The rows of a unit's line table at sorted addresses.
fn rows(unit: &Unit<'_>, addresses: &[u64], floor: u64) -> Fallible<Vec<Row>> {
    let mut found = vec![Row::default(); addresses.len()];
    let Some(program) = unit.line_program.clone() else { return Ok(found) };
    let mut rows = program.rows();
    let mut previous: Option<(u64, Row)> = None;
    let mut at = 0;
    while let Some((_, row)) = rows.next_row()? {
        if let Some((begin, of)) = previous.filter(|(begin, _)| *begin < row.address()) {
            // Rows mostly follow each other.
            let before = at > 0 && addresses.get(at - 1).is_some_and(|address| *address >= begin);
            if before || addresses.get(at).is_some_and(|address| *address < begin) {
                at = addresses.partition_point(|address| *address < begin);
            }
            while addresses.get(at).is_some_and(|address| *address < row.address()) {
                found[at] = of;
                at += 1;
            }
        }
        previous = (!row.end_sequence() && row.address() >= floor).then(|| {
            let line = row.line().map_or(0, |line| line.get() as u32);
            (row.address(), (line, row.discriminator() as u32))
        });
    }
    Ok(found)
}

/// What the attributes of a function's entry say.
#[derive(Default)]
struct Function<'a> {
    low: Option<u64>,
    high: Option<AttributeValue<Slice<'a>>>,
    ranges: Option<AttributeValue<Slice<'a>>>,
    call: Row,
    linkage_name: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
    line: Option<u32>,
    /// Abstract origin or specification.
    origin: Option<usize>,
}

struct Walk<'w, 'a> {
    dwarf: &'w Dwarf<'a>,
    unit: &'w Unit<'a>,
    headers: &'w [gimli::UnitHeader<Slice<'a>>],
    addresses: &'w [u64],
    floor: u64,
    nodes: Vec<Node<'a>>,
    /// Node of each address, by position; of the ones that are not this unit's, of other units.
    innermost: &'w mut [u32],
    /// Positions of addresses in functions of this unit.
    own: Vec<u32>,
    known: &'w mut Known<'a>,
}

impl<'a> Walk<'_, 'a> {
    fn entries(&mut self) -> Fallible<()> {
        let unit = self.unit;
        let mut entries = unit.entries_raw(None)?;
        // Depth and node of what is around.
        let mut around: Vec<(isize, u32)> = Vec::new();
        while !entries.is_empty() {
            let depth = entries.next_depth();
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            while around.last().is_some_and(|(above, _)| *above >= depth) {
                around.pop();
            }
            let parent = around.last().map_or(NONE, |(_, node)| *node);
            let tag = abbreviation.tag();
            if tag != DW_TAG_subprogram && (tag != DW_TAG_inlined_subroutine || parent == NONE) {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let mut function = Function::default();
            for specification in abbreviation.attributes() {
                let attribute = entries.read_attribute(*specification)?;
                function.take(self.dwarf, unit, attribute.name(), attribute.value())?;
            }
            let spans = self.spans(&function)?;
            let node = if spans.is_empty() {
                NONE
            } else {
                let parent = if tag == DW_TAG_subprogram { NONE } else { parent };
                self.node(parent, function, &spans)?
            };
            if abbreviation.has_children() {
                around.push((depth, node));
            }
        }
        Ok(())
    }

    fn spans(&self, function: &Function<'a>) -> Fallible<Vec<(u64, u64)>> {
        let mut spans = Vec::new();
        if let Some(ranges) = function.ranges {
            if let Some(mut list) = self.dwarf.attr_ranges(self.unit, ranges)? {
                while let Some(range) = list.next()? {
                    spans.push((range.begin, range.end));
                }
            }
        } else if let (Some(low), Some(high)) = (function.low, function.high) {
            let high = match self.dwarf.attr_address(self.unit, high)? {
                Some(address) => address,
                None => low.saturating_add(high.udata_value().unwrap_or(0)),
            };
            spans.push((low, high));
        }
        spans.retain(|(begin, end)| *begin >= self.floor && begin < end);
        Ok(spans)
    }

    fn node(&mut self, parent: u32, function: Function<'a>, spans: &[(u64, u64)]) -> Fallible<u32> {
        let node = self.nodes.len() as u32;
        for (begin, end) in spans {
            let from = self.addresses.partition_point(|address| address < begin);
            let to = self.addresses.partition_point(|address| address < end);
            self.innermost[from..to].fill(node);
            if parent == NONE {
                self.own.extend(from as u32..to as u32);
            }
        }
        let call = function.call;
        let (name, line) = self.described(function)?;
        self.nodes.push(Node { parent, name: name.unwrap_or_default(), start_line: line, call });
        Ok(node)
    }

    /// Name and line of a function, by way of its origin.
    fn described(&mut self, function: Function<'a>) -> Fallible<(Option<&'a [u8]>, u32)> {
        let own = function.linkage_name.or(function.name);
        let (name, line) = match function.origin {
            Some(origin) if function.linkage_name.is_none() || function.line.is_none() => {
                self.origin(origin)?
            }
            _ => (None, 0),
        };
        Ok((function.linkage_name.or(name).or(own), function.line.unwrap_or(line)))
    }

    fn origin(&mut self, at: usize) -> Fallible<(Option<&'a [u8]>, u32)> {
        if let Some(known) = self.known.get(&at) {
            return Ok(*known);
        }
        let home = &self.unit.header;
        let own = at.checked_sub(home.offset().0);
        let function = match own.filter(|within| *within < home.length_including_self()) {
            Some(within) => self.entry(self.unit, UnitOffset(within))?,
            None => {
                let after = self.headers.partition_point(|header| header.offset().0 <= at);
                let header = after.checked_sub(1).and_then(|index| self.headers.get(index));
                let header = *header.ok_or("an entry before all units")?;
                self.entry(&self.dwarf.unit(header)?, UnitOffset(at - header.offset().0))?
            }
        };
        let described = self.described(function)?;
        self.known.insert(at, described);
        Ok(described)
    }

    fn entry(&self, unit: &Unit<'a>, at: UnitOffset) -> Fallible<Function<'a>> {
        let mut function = Function::default();
        let mut entries = unit.entries_raw(Some(at))?;
        if let Some(abbreviation) = entries.read_abbreviation()? {
            for specification in abbreviation.attributes() {
                let attribute = entries.read_attribute(*specification)?;
                function.take(self.dwarf, unit, attribute.name(), attribute.value())?;
            }
        }
        Ok(function)
    }
}

impl<'a> Function<'a> {
    fn take(
        &mut self,
        dwarf: &Dwarf<'a>,
        unit: &Unit<'a>,
        name: gimli::DwAt,
        value: AttributeValue<Slice<'a>>,
    ) -> Fallible<()> {
        let number = || value.udata_value().unwrap_or(0) as u32;
        let text = || dwarf.attr_string(unit, value).ok().map(|text| text.slice());
        match name {
            gimli::DW_AT_low_pc => self.low = dwarf.attr_address(unit, value)?,
            gimli::DW_AT_high_pc => self.high = Some(value),
            gimli::DW_AT_ranges => self.ranges = Some(value),
            gimli::DW_AT_call_line => self.call.0 = number(),
            gimli::DW_AT_GNU_discriminator => self.call.1 = number(),
            gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                self.linkage_name = text();
            }
            gimli::DW_AT_name => self.name = text(),
            gimli::DW_AT_decl_line => self.line = Some(number()),
            gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                self.origin = match value {
                    AttributeValue::UnitRef(offset) => Some(unit.header.offset().0 + offset.0),
                    AttributeValue::DebugInfoRef(offset) => Some(offset.0),
                    _ => None,
                };
            }
            _ => {}
        }
        Ok(())
    }
}
