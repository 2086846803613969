//! Which block is at an address.
//!
//! Input: the block address map and the symbols of an image. Output: candidates (functions with all
//! their blocks), and their ranges by address, disjoint, so that a look-up is two binary searches.
//! Entries that cannot be trusted are left out and counted. Cost: linear in the map but for the
//! sorting of ranges.

use std::collections::BTreeMap;

use image::blocks::{Block, BlockId, BlockRange, FunctionBlocks};
use image::{Image, ImageAddr};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::report::{BuildReport, Unusable};
use crate::successors::LARGEST_PADDING_BYTES;

/// A function of the map.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// Address of its entry block.
    pub(crate) address: ImageAddr,
    /// All blocks, range by range, the first range with the entry block first.
    pub(crate) blocks: Vec<Block>,
    /// Where the second and further ranges begin among the blocks.
    breaks: Vec<u32>,
}

/// Blocks that follow each other in memory.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: u64,
    end: u64,
    candidate: u32,
    first_block: u32,
    blocks: u32,
}

/// A block of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Spot {
    pub(crate) candidate: u32,
    pub(crate) block: u32,
}

/// Which end of a branch is looked up; it matters where empty blocks stand before a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Where control leaves: the block that holds an instruction.
    Source,
    /// Where control arrives: the first block that begins there.
    Target,
}

/// All usable functions of the map.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// By address.
    pub(crate) candidates: Vec<Candidate>,
    spans: Vec<Span>,
}

impl Table {
    pub(crate) fn new(image: &Image, maps: Vec<FunctionBlocks>, report: &mut BuildReport) -> Table {
        report.mapped_functions = maps.len() as u64;
        let mut functions: Vec<Vec<BlockRange>> = Vec::with_capacity(maps.len());
        for map in maps {
            report.mapped_blocks += map.blocks().count() as u64;
            match usable(image, &map) {
                Ok(()) => functions
                    .push(map.ranges.into_iter().filter(|r| !r.blocks.is_empty()).collect()),
                Err(reason) => *report.unusable.entry(reason).or_default() += 1,
            }
        }
        functions.sort_by_key(|ranges| ranges.first().map(|range| range.address));
        report.joined_parts = join_parts(image, &mut functions);
        report.relaxed_blocks = shorten_relaxed(&mut functions);
        drop_overlapping(&mut functions, &mut report.unusable);
        let mut table = Table::default();
        for (ranges, candidate) in functions.into_iter().zip(0u32..) {
            table.add(candidate, ranges);
        }
        table.spans.sort_unstable_by_key(|span| (span.start, span.end));
        table
    }

    fn add(&mut self, candidate: u32, ranges: Vec<BlockRange>) {
        let address = ranges.first().map_or(ImageAddr(0), |range| range.address);
        let mut blocks = Vec::new();
        let mut breaks = Vec::new();
        for range in ranges {
            self.spans.push(Span {
                start: start(&range),
                end: end(&range),
                candidate,
                first_block: blocks.len() as u32,
                blocks: range.blocks.len() as u32,
            });
            if blocks.is_empty() {
                blocks = range.blocks;
            } else {
                breaks.push(blocks.len() as u32);
                blocks.extend(range.blocks);
            }
        }
        self.candidates.push(Candidate { address, blocks, breaks });
    }

    pub(crate) fn candidate(&self, index: u32) -> Option<&Candidate> {
        self.candidates.get(index as usize)
    }

    pub(crate) fn block(&self, spot: Spot) -> Option<&Block> {
        self.candidate(spot.candidate)?.blocks.get(spot.block as usize)
    }

    fn span_at(&self, address: ImageAddr) -> Option<&Span> {
        let after = self.spans.partition_point(|span| span.start <= address.0);
        self.spans.get(after.checked_sub(1)?).filter(|span| address.0 < span.end)
    }

    fn span_blocks(&self, span: &Span) -> &[Block] {
        let first = span.first_block as usize;
        let blocks = self.candidate(span.candidate).map_or(&[][..], |candidate| &candidate.blocks);
        blocks.get(first..first.saturating_add(span.blocks as usize)).unwrap_or(&[])
    }

    /// The block at an address. `None` for code without a map, and for padding between blocks.
    pub(crate) fn find(&self, address: ImageAddr, side: End) -> Option<Spot> {
        let span = self.span_at(address)?;
        let blocks = self.span_blocks(span);
        let position = match side {
            End::Target => {
                let first = blocks.partition_point(|block| block.address < address);
                match blocks.get(first) {
                    Some(block) if block.address == address => first,
                    _ => first.checked_sub(1)?,
                }
            }
            End::Source => {
                blocks.partition_point(|block| block.address <= address).checked_sub(1)?
            }
        };
        let block = blocks.get(position)?;
        let inside = block.address == address || address < block.end();
        inside.then_some(Spot {
            candidate: span.candidate,
            block: span.first_block + position as u32,
        })
    }

    /// Whether two blocks of one function lie in one range of it, so that control can run from one
    /// to the other.
    pub(crate) fn same_range(&self, a: Spot, b: Spot) -> bool {
        let Some(candidate) = self.candidate(a.candidate) else { return false };
        let range = |spot: Spot| candidate.breaks.partition_point(|&first| first <= spot.block);
        a.candidate == b.candidate && range(a) == range(b)
    }

    /// The block of the same function that begins where this one ends, or after padding: control
    /// that falls through arrives there. The linker may have put it there from another range.
    pub(crate) fn next(&self, spot: Spot) -> Option<Spot> {
        let next = Spot { block: spot.block.checked_add(1)?, ..spot };
        if self.block(next).is_some() && self.same_range(spot, next) {
            return Some(next);
        }
        let end = self.block(spot)?.end().0;
        let span = self.spans.get(self.spans.partition_point(|span| span.start < end))?;
        let near = span.candidate == spot.candidate
            && span.start.checked_sub(end)? <= LARGEST_PADDING_BYTES.into();
        near.then_some(Spot { candidate: span.candidate, block: span.first_block })
    }

    /// The block of the same function before this one.
    pub(crate) fn previous(&self, spot: Spot) -> Option<Spot> {
        let previous = spot.block.checked_sub(1).map(|block| Spot { block, ..spot });
        if let Some(previous) = previous.filter(|&previous| self.same_range(previous, spot)) {
            return Some(previous);
        }
        let start = self.block(spot)?.address;
        let last_byte = ImageAddr(start.0.checked_sub(1)?);
        self.find(last_byte, End::Source).filter(|previous| previous.candidate == spot.candidate)
    }
}

fn start(range: &BlockRange) -> u64 {
    range.blocks.first().map_or(range.address, |block| block.address).0.min(range.address.0)
}

fn end(range: &BlockRange) -> u64 {
    range.blocks.last().map_or(range.address, Block::end).0
}

fn usable(image: &Image, map: &FunctionBlocks) -> Result<(), Unusable> {
    if map.features.omits_blocks() {
        return Err(Unusable::BlocksOmitted);
    }
    if map.ranges.first().is_none_or(|range| range.blocks.is_empty()) {
        return Err(Unusable::NoBlocks);
    }
    if !map.ranges.iter().all(|range| image.is_executable_address(range.address)) {
        return Err(Unusable::NotInCode);
    }
    let ordered = |range: &BlockRange| {
        let mut pairs = range.blocks.iter().zip(range.blocks.iter().skip(1));
        pairs.all(|(block, next)| block.end() <= next.address)
    };
    let mut seen = FxHashSet::default();
    let unique = map.blocks().all(|block| seen.insert(block.id));
    if unique && map.ranges.iter().all(ordered) { Ok(()) } else { Err(Unusable::Disordered) }
}

/// The function that a symbol is a part of: `work` for `work.cold` and `work.__part.3`.
pub(crate) fn parent_name(name: &str) -> Option<&str> {
    if let Some(parent) = name.strip_suffix(".cold") {
        return (!parent.is_empty()).then_some(parent);
    }
    let (parent, number) = name.rsplit_once(".__part.")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !parent.is_empty()).then_some(parent)
}

/// Moves the ranges of map entries that stand at a part of another function to that function.
/// Returns how many.
fn join_parts(image: &Image, functions: &mut Vec<Vec<BlockRange>>) -> u64 {
    let mut parents: FxHashMap<ImageAddr, &str> = FxHashMap::default();
    for function in image.functions().iter() {
        if let Some(parent) = parent_name(function.name) {
            parents.insert(function.address, parent);
        }
    }
    if parents.is_empty() {
        return 0;
    }
    // Parents that exist twice cannot be told apart.
    let wanted: FxHashSet<&str> = parents.values().copied().collect();
    let mut addresses: FxHashMap<&str, Option<ImageAddr>> = FxHashMap::default();
    for function in image.functions().iter().filter(|function| wanted.contains(function.name)) {
        let known = addresses.entry(function.name).or_insert(Some(function.address));
        if *known != Some(function.address) {
            *known = None;
        }
    }
    let positions: FxHashMap<ImageAddr, usize> = functions
        .iter()
        .zip(0..)
        .filter_map(|(ranges, n)| Some((ranges.first()?.address, n)))
        .collect();
    let mut joined = 0;
    for position in 0..functions.len() {
        let Some([range]) = functions.get(position).map(Vec::as_slice) else { continue };
        let parent =
            parents.get(&range.address).and_then(|name| addresses.get(name).copied().flatten());
        let Some(&target) = parent.and_then(|parent| positions.get(&parent)) else { continue };
        let taken: FxHashSet<BlockId> = functions
            .get(target)
            .into_iter()
            .flatten()
            .flat_map(|r| &r.blocks)
            .map(|block| block.id)
            .collect();
        if target == position || range.blocks.iter().any(|block| taken.contains(&block.id)) {
            continue;
        }
        let moved = functions.get_mut(position).map(std::mem::take).unwrap_or_default();
        if let Some(ranges) = functions.get_mut(target) {
            ranges.extend(moved);
            joined += 1;
        }
    }
    functions.retain(|ranges| !ranges.is_empty());
    joined
}

/// Bytes of the jumps at the end of a block that a linker removes or shortens: a conditional and an
/// unconditional one.
const LARGEST_RELAXATION_BYTES: u64 = 16;

/// Shortens blocks that reach into the next range of their function: lld's `--optimize-bb-jumps`
/// removes a jump to the range that follows, and leaves the sizes in the map as they were. Returns
/// how many.
fn shorten_relaxed(functions: &mut [Vec<BlockRange>]) -> u64 {
    let mut shortened = 0;
    for ranges in functions.iter_mut().filter(|ranges| ranges.len() > 1) {
        let mut starts: Vec<u64> = ranges.iter().map(start).collect();
        starts.sort_unstable();
        for range in ranges {
            let first_byte = start(range);
            let next = starts.get(starts.partition_point(|&other| other <= first_byte)).copied();
            let Some((next, last)) = next.zip(range.blocks.last_mut()) else { continue };
            let surplus = last.end().0.saturating_sub(next);
            if surplus != 0
                && surplus <= LARGEST_RELAXATION_BYTES
                && surplus <= u64::from(last.size)
            {
                last.size -= surplus as u32;
                shortened += 1;
            }
        }
    }
    shortened
}

/// Drops functions with a range that overlaps one that begins before it.
fn drop_overlapping(functions: &mut Vec<Vec<BlockRange>>, unusable: &mut BTreeMap<Unusable, u64>) {
    let mut ranges: Vec<(u64, u64, usize)> = Vec::new();
    for (function, position) in functions.iter().zip(0..) {
        ranges.extend(function.iter().map(|range| (start(range), end(range), position)));
    }
    ranges.sort_unstable();
    let mut dropped = FxHashSet::default();
    let mut covered_to = 0;
    for (start, end, position) in ranges {
        if start < covered_to {
            dropped.insert(position);
        } else {
            covered_to = end;
        }
    }
    if dropped.is_empty() {
        return;
    }
    *unusable.entry(Unusable::Overlaps).or_default() += dropped.len() as u64;
    let mut position = 0;
    functions.retain(|_| {
        position += 1;
        !dropped.contains(&(position - 1))
    });
}
