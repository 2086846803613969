//! How often did loops turn, by branch stacks?
//!
//! A loop is the code from the target of a backward jump to the last jump that leads back there.
//! Its iterations are the executions of its first instruction; its entries are the times that
//! control came from elsewhere in the function, or into the function, to anywhere in the loop, but
//! not by a return from what the loop calls. Both are counted in stretches between branches, so
//! that what a stack's edge hides is missing from both alike.

use crate::executions::{Branch, is_behind_call};
use crate::{Instruction, position};
use counts::ImageCounts;
use image::ImageAddr;
use image::code::InstructionKind;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// A loop that branch stacks saw turning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Its first instruction, which a backward jump leads to.
    pub first: ImageAddr,
    /// The last jump that leads back.
    pub last: ImageAddr,
    /// How many loops it lies in.
    pub depth: usize,
    /// Times that control came into it.
    pub entries: u64,
    /// Times that a jump led back to its first instruction.
    pub back_edges: u64,
    /// Executions of its first instruction.
    pub iterations: u64,
}

impl Loop {
    /// Iterations per entry; none where no entry was recorded.
    pub fn trips(&self) -> Option<f64> {
        (self.entries > 0).then(|| self.iterations as f64 / self.entries as f64)
    }
}

/// The loops, by address, outer ones first.
pub(crate) fn loops(
    instructions: &[Instruction],
    branches: &[Branch],
    counts: &ImageCounts,
) -> Vec<Loop> {
    use InstructionKind::{ConditionalBranch, IndirectBranch, UnconditionalBranch};
    let jumps = branches.iter().filter(|branch| {
        matches!(branch.kind, ConditionalBranch | UnconditionalBranch | IndirectBranch)
    });
    let mut spans: BTreeMap<ImageAddr, ImageAddr> = BTreeMap::new();
    for jump in jumps {
        for to in jump.targets.iter().filter_map(|target| target.to) {
            if to <= jump.address && position(instructions, to).is_some() {
                let last = spans.entry(to).or_insert(jump.address);
                *last = (*last).max(jump.address);
            }
        }
    }
    let mut all: Vec<Loop> =
        spans.iter().map(|(&first, &last)| counted(instructions, first..=last, counts)).collect();
    let mut open: Vec<ImageAddr> = Vec::new();
    for found in &mut all {
        open.retain(|last| *last >= found.first);
        found.depth = open.iter().filter(|last| **last >= found.last).count();
        open.push(found.last);
    }
    all
}

fn counted(
    instructions: &[Instruction],
    span: RangeInclusive<ImageAddr>,
    counts: &ImageCounts,
) -> Loop {
    let (first, last) = (*span.start(), *span.end());
    let function = instructions.first().map(|one| one.address);
    let function = function.zip(instructions.last().map(|one| one.address));
    let is_own = |at: ImageAddr| function.is_some_and(|(begin, end)| begin <= at && at <= end);
    let kind_of = |at: ImageAddr| {
        position(instructions, at).and_then(|index| instructions.get(index)).map(|one| one.kind)
    };
    let (mut entries, mut back_edges) = (0u64, 0u64);
    // What runs into the loop from before it.
    for range in &counts.fall_throughs {
        if range.first < first && range.last >= first && is_own(range.first) {
            entries = entries.saturating_add(range.count);
        }
    }
    for path in &counts.paths {
        if !span.contains(&path.first) {
            continue;
        }
        let own = path.from.filter(|from| is_own(*from));
        let returns = own.is_none_or(|from| kind_of(from) == Some(InstructionKind::Return));
        let jumped_back = own.is_some_and(|from| span.contains(&from));
        if returns && is_behind_call(instructions, path.first) {
            continue;
        }
        if !jumped_back {
            entries = entries.saturating_add(path.count);
        } else if path.first == first {
            back_edges = back_edges.saturating_add(path.count);
        }
    }
    let at = position(instructions, first).and_then(|index| instructions.get(index));
    let iterations = at.and_then(|one| one.count).unwrap_or(0);
    Loop { first, last, depth: 0, entries, back_edges, iterations }
}
