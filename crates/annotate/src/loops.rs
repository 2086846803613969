//! How often did loops turn, by branch stacks?
//!
//! A loop has a first block that every way into it comes through, and a way back there. An
//! iteration is a pass through the first block that stays in the loop; in loops of one block, every
//! pass. An entry is control coming in from elsewhere, other than by a return from what the loop
//! calls. Both are counted in stretches between branches, so that what a stack's edge hides is
//! missing from both alike.

use crate::executions::{Branch, is_behind_call};
use crate::flow::{Flow, is_jump};
use crate::{Instruction, position};
use counts::{ImageCounts, Path};
use image::ImageAddr;
use image::code::InstructionKind;
use std::collections::{BTreeMap, BTreeSet};

/// A loop that branch stacks saw turning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Its first instruction.
    pub first: ImageAddr,
    /// Its instruction at the highest address.
    pub last: ImageAddr,
    /// How many loops it lies in.
    pub depth: usize,
    /// Times that control came into it.
    pub entries: u64,
    /// Times that control came back to its first instruction.
    pub back_edges: u64,
    /// Passes that stay in it.
    pub iterations: u64,
}

impl Loop {
    /// Iterations per entry; none where no entry was recorded.
    pub fn trips(&self) -> Option<f64> {
        (self.entries > 0).then(|| self.iterations as f64 / self.entries as f64)
    }
}

/// Loops, blocks in all of them together, and looks at paths: what a function has beyond is not
/// told.
const MOST_LOOPS: usize = 10_000;
const MOST_BLOCKS: usize = 1 << 22;
const MOST_LOOKS: usize = 1 << 28;

/// The loops, by address, each before those in it, and whether there are more.
pub(crate) fn loops(
    instructions: &[Instruction],
    branches: &[Branch],
    counts: &ImageCounts,
) -> (Vec<Loop>, bool) {
    let flow = Flow::new(instructions, branches);
    let function = instructions.first().zip(instructions.last());
    let is_own = |path: &&Path| {
        let at = path.first;
        function.is_some_and(|(first, last)| first.address <= at && at <= last.address)
    };
    let paths: Vec<&Path> = counts.paths.iter().filter(is_own).collect();
    let most = MOST_LOOPS.min(MOST_LOOKS / paths.len().max(1));
    let counting = Counting { instructions, flow: &flow, paths, starts: starts(counts) };
    let mut bodies: Vec<(usize, BTreeSet<usize>)> = Vec::new();
    let (mut room, mut more) = (MOST_BLOCKS, flow.given_up);
    for (first, ends) in ways_back(&flow) {
        let body = body(&flow, first, &ends);
        room = room.saturating_sub(body.len());
        if room == 0 || bodies.len() >= most {
            more = true;
            break;
        }
        bodies.push((first, body));
    }
    // Each loop with those that it lies in, outermost first: the order in which they are told.
    let mut all: Vec<(Vec<ImageAddr>, Loop)> = Vec::new();
    for (first, body) in &bodies {
        let mut around: Vec<(usize, usize)> = bodies
            .iter()
            .filter(|(other, outer)| other != first && outer.contains(first))
            .map(|(other, outer)| (outer.len(), *other))
            .collect();
        around.sort_unstable_by_key(|(size, other)| (std::cmp::Reverse(*size), *other));
        let Some(found) = counting.count(*first, body, around.len()) else { continue };
        let addresses = around.iter().map(|(_, other)| *other).chain([*first]);
        let key = addresses.filter_map(|number| counting.begin_of(number)).collect();
        all.push((key, found));
    }
    all.retain(|(_, found)| found.back_edges > 0);
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    (all.into_iter().map(|(_, found)| found).collect(), more)
}

/// First blocks with the blocks that lead back to them.
fn ways_back(flow: &Flow) -> BTreeMap<usize, Vec<usize>> {
    let mut found: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, block) in flow.blocks.iter().enumerate() {
        for &next in &block.next {
            if flow.is_below(number, next) {
                found.entry(next).or_default().push(number);
            }
        }
    }
    found
}

/// The blocks from which the way back can be reached without leaving through the first block.
fn body(flow: &Flow, first: usize, ends: &[usize]) -> BTreeSet<usize> {
    let mut body = BTreeSet::from([first]);
    let mut open = ends.to_vec();
    while let Some(number) = open.pop() {
        if body.insert(number) {
            let before = flow.blocks.get(number).map_or(&[][..], |block| &block.before);
            open.extend(before.iter().filter(|before| flow.is_below(**before, first)));
        }
    }
    body
}

/// How many stretches begin at each address.
fn starts(counts: &ImageCounts) -> BTreeMap<ImageAddr, u64> {
    let mut starts: BTreeMap<ImageAddr, u64> = BTreeMap::new();
    for range in &counts.fall_throughs {
        let sum = starts.entry(range.first).or_default();
        *sum = sum.saturating_add(range.count);
    }
    starts
}

struct Counting<'c> {
    instructions: &'c [Instruction],
    flow: &'c Flow,
    /// Those through the function.
    paths: Vec<&'c Path>,
    starts: BTreeMap<ImageAddr, u64>,
}

impl Counting<'_> {
    fn begin_of(&self, number: usize) -> Option<ImageAddr> {
        let block = self.flow.blocks.get(number)?;
        Some(self.instructions.get(block.begin)?.address)
    }

    fn count(&self, first: usize, body: &BTreeSet<usize>, depth: usize) -> Option<Loop> {
        let last = body.iter().next_back().and_then(|&last| self.flow.blocks.get(last))?;
        let last = self.instructions.get(last.end.checked_sub(1)?)?.address;
        let head = self.flow.blocks.get(first)?;
        let begin = self.instructions.get(head.begin)?;
        let (mut entries, mut back_edges) = (0u64, 0u64);
        for &number in body {
            let fallen = self.fallen_into(number);
            let from_inside = number.checked_sub(1).is_some_and(|before| body.contains(&before));
            if !from_inside {
                entries = entries.saturating_add(fallen);
            } else if number == first {
                back_edges = back_edges.saturating_add(fallen);
            }
        }
        for path in &self.paths {
            if !self.is_in(body, path.first) {
                continue;
            }
            match self.origin(path, body) {
                Origin::Outside => entries = entries.saturating_add(path.count),
                Origin::Inside if path.first == begin.address => {
                    back_edges = back_edges.saturating_add(path.count);
                }
                Origin::Inside | Origin::Callee => {}
            }
        }
        let iterations = match head.next.contains(&first) {
            true => begin.count.unwrap_or(0),
            false => self.staying(first, body),
        };
        Some(Loop { first: begin.address, last, depth, entries, back_edges, iterations })
    }

    fn is_in(&self, body: &BTreeSet<usize>, at: ImageAddr) -> bool {
        position(self.instructions, at)
            .is_some_and(|index| body.contains(&self.flow.block_of(index)))
    }

    /// How often control ran into a block from the code before it.
    fn fallen_into(&self, number: usize) -> u64 {
        let begin = self.flow.blocks.get(number).and_then(|block| {
            number.checked_sub(1).and_then(|before| self.flow.blocks.get(before)?.falls)?;
            self.instructions.get(block.begin)
        });
        begin.map_or(0, |begin| {
            let begun = self.starts.get(&begin.address).copied().unwrap_or(0);
            begin.count.unwrap_or(0).saturating_sub(begun)
        })
    }

    /// Where the branch before a stretch came from.
    fn origin(&self, path: &Path, body: &BTreeSet<usize>) -> Origin {
        let from = path.from.and_then(|from| position(self.instructions, from));
        let kind = from.and_then(|index| self.instructions.get(index)).map(|one| one.kind);
        match (from, kind) {
            (Some(index), Some(kind)) if is_jump(kind) => {
                let inside = body.contains(&self.flow.block_of(index));
                if inside { Origin::Inside } else { Origin::Outside }
            }
            (_, None | Some(InstructionKind::Return | InstructionKind::Syscall))
                if is_behind_call(self.instructions, path.first) =>
            {
                Origin::Callee
            }
            _ => Origin::Outside,
        }
    }

    /// How often control left the first block for another one of the loop.
    fn staying(&self, first: usize, body: &BTreeSet<usize>) -> u64 {
        let head = self.flow.blocks.get(first);
        let end = head.and_then(|head| self.instructions.get(head.end.checked_sub(1)?));
        let fallen = head.and_then(|head| head.falls).filter(|next| body.contains(next));
        let jumped = self.paths.iter().filter(|path| {
            end.is_some_and(|end| is_jump(end.kind) && path.last == end.address)
                && path.to.is_some_and(|to| self.is_in(body, to))
        });
        let jumped = jumped.fold(0u64, |sum, path| sum.saturating_add(path.count));
        fallen.map_or(0, |next| self.fallen_into(next)).saturating_add(jumped)
    }
}

enum Origin {
    /// The loop itself.
    Inside,
    /// The function's other code, or a caller.
    Outside,
    /// A function that the loop called, which returns.
    Callee,
}
