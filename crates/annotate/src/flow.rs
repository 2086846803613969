//! Which stretches of a function follow which: its basic blocks, and which of them every way to
//! another one comes through.
//!
//! Input: instructions and the branches that were seen. Output: blocks with successors, and
//! dominators. Blocks begin at the function's begin, where jumps lead, and behind jumps; where an
//! indirect jump leads, branch stacks tell. What no executed way reaches has no dominator. Cost:
//! linear but for dominators, which take a few rounds over the blocks. Source: Cooper, Harvey,
//! Kennedy, "A Simple, Fast Dominance Algorithm".

use crate::executions::Branch;
use crate::{Instruction, position};
use image::ImageAddr;
use image::code::InstructionKind;
use std::collections::BTreeSet;

/// A basic block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    /// Position of its first instruction.
    pub begin: usize,
    /// Position behind its last one.
    pub end: usize,
    /// Blocks that can run next.
    pub next: Vec<usize>,
    /// Blocks that can run before.
    pub before: Vec<usize>,
    /// The block right behind it, if control can run on into it.
    pub falls: Option<usize>,
}

/// The blocks of a function, by address.
pub(crate) struct Flow {
    pub blocks: Vec<Block>,
    /// For each block the last one that all ways to it come through; itself for roots.
    above: Vec<Option<usize>>,
    /// Position of each block in the order of a walk, for those that are reached.
    order: Vec<Option<usize>>,
    /// For each block the stretch of a walk over the tree of dominators that it spans.
    spans: Vec<(usize, usize)>,
    /// Whether the function is too tangled to say what dominates what.
    pub given_up: bool,
}

/// Steps up the tree of dominators: real functions take a few for each block.
const MOST_STEPS: u64 = 200_000_000;

impl Flow {
    pub(crate) fn new(instructions: &[Instruction], branches: &[Branch]) -> Flow {
        let mut leaders = BTreeSet::from([0]);
        let mut jumps: Vec<(usize, usize)> = Vec::new();
        for (index, one) in instructions.iter().enumerate() {
            if !is_jump(one.kind) {
                let ends = one.kind.ends_straight_line();
                let gap =
                    instructions.get(index + 1).is_some_and(|next| next.address != after(one));
                if ends || gap {
                    leaders.insert(index + 1);
                }
                continue;
            }
            leaders.insert(index + 1);
            let seen = branches.binary_search_by_key(&one.address, |branch| branch.address).ok();
            let seen = seen.and_then(|at| branches.get(at)).into_iter();
            let seen = seen.flat_map(|branch| &branch.targets).filter_map(|target| target.to);
            for to in one.target.into_iter().chain(seen) {
                if let Some(to) = position(instructions, to) {
                    leaders.insert(to);
                    jumps.push((index, to));
                }
            }
        }
        let leaders: Vec<usize> =
            leaders.into_iter().filter(|leader| *leader < instructions.len()).collect();
        let ends = leaders.iter().copied().skip(1).chain([instructions.len()]);
        let block = |(begin, end)| Block { begin, end, ..Block::default() };
        let mut blocks: Vec<Block> = leaders.iter().copied().zip(ends).map(block).collect();
        let count = blocks.len();
        for (number, block) in blocks.iter_mut().enumerate() {
            let last = instructions.get(block.end.wrapping_sub(1));
            let next = instructions.get(block.end);
            let runs_on = last.zip(next).is_some_and(|(last, next)| {
                !last.kind.ends_straight_line() && next.address == after(last)
            });
            block.falls = Some(number + 1).filter(|next| runs_on && *next < count);
            block.next.extend(block.falls);
        }
        let (above, order) = (vec![None; count], vec![None; count]);
        let mut flow = Flow { blocks, above, order, spans: Vec::new(), given_up: false };
        for (from, to) in jumps {
            let (from, to) = (flow.block_of(from), flow.block_of(to));
            if let Some(block) = flow.blocks.get_mut(from) {
                block.next.push(to);
            }
        }
        flow.link();
        flow.dominate(instructions);
        flow
    }

    /// The block of an instruction, by their positions.
    pub(crate) fn block_of(&self, instruction: usize) -> usize {
        self.blocks.partition_point(|block| block.begin <= instruction).saturating_sub(1)
    }

    fn link(&mut self) {
        for number in 0..self.blocks.len() {
            let block = self.blocks.get_mut(number);
            let next = block.map(|block| {
                block.next.sort_unstable();
                block.next.dedup();
                block.next.clone()
            });
            for to in next.into_iter().flatten() {
                if let Some(block) = self.blocks.get_mut(to) {
                    block.before.push(number);
                }
            }
        }
    }

    fn dominate(&mut self, instructions: &[Instruction]) {
        let ran = |block: &Block| {
            instructions.get(block.begin).is_some_and(|one| one.count.unwrap_or(0) > 0)
        };
        let roots: Vec<usize> = self
            .blocks
            .iter()
            .enumerate()
            .filter(|(number, block)| *number == 0 || (block.before.is_empty() && ran(block)))
            .map(|(number, _)| number)
            .collect();
        // Reverse postorder from each root, on a stack of its own: functions can be large.
        let mut seen = vec![false; self.blocks.len()];
        let mut walked: Vec<usize> = Vec::new();
        for &root in roots.iter().rev() {
            let mut open = vec![(root, false)];
            while let Some((number, done)) = open.pop() {
                if done {
                    walked.push(number);
                    continue;
                }
                match seen.get_mut(number) {
                    Some(seen) if !*seen => *seen = true,
                    _ => continue,
                }
                open.push((number, true));
                let next = self.blocks.get(number).map_or(&[][..], |block| &block.next);
                open.extend(next.iter().rev().map(|&next| (next, false)));
            }
        }
        walked.reverse();
        for (at, &number) in walked.iter().enumerate() {
            if let Some(slot) = self.order.get_mut(number) {
                *slot = Some(at);
            }
        }
        for &root in &roots {
            if let Some(slot) = self.above.get_mut(root) {
                *slot = Some(root);
            }
        }
        let roots: BTreeSet<usize> = roots.into_iter().collect();
        let (mut changed, mut steps) = (true, 0u64);
        while std::mem::take(&mut changed) {
            for &number in walked.iter().filter(|number| !roots.contains(number)) {
                let found = self.meet(number, &mut steps);
                if let Some(slot) = self.above.get_mut(number).filter(|slot| **slot != found) {
                    *slot = found;
                    changed = true;
                }
            }
            steps = steps.saturating_add(walked.len() as u64);
            if steps > MOST_STEPS {
                self.given_up = true;
                return;
            }
        }
        self.span(&walked);
    }

    /// Numbers the tree of dominators so that what lies below a block lies within its numbers.
    fn span(&mut self, walked: &[usize]) {
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); self.blocks.len()];
        let mut open: Vec<(usize, bool)> = Vec::new();
        for &number in walked.iter().rev() {
            match self.above(number) {
                Some(up) if up != number => {
                    below.get_mut(up).into_iter().for_each(|b| b.push(number))
                }
                _ => open.push((number, false)),
            }
        }
        self.spans = vec![(usize::MAX, 0); self.blocks.len()];
        let mut clock = 0;
        while let Some((number, done)) = open.pop() {
            let Some(span) = self.spans.get_mut(number) else { continue };
            if done {
                span.1 = clock;
                continue;
            }
            span.0 = clock;
            clock += 1;
            open.push((number, true));
            let children = below.get_mut(number).map(std::mem::take);
            open.extend(children.into_iter().flatten().map(|child| (child, false)));
        }
    }

    /// What all ways to a block have in common, as far as is known; `None` where they begin at
    /// several roots.
    fn meet(&self, number: usize, steps: &mut u64) -> Option<usize> {
        let before = self.blocks.get(number).map_or(&[][..], |block| &block.before);
        let mut known = before.iter().copied().filter(|&one| self.above(one).is_some());
        let first = known.next()?;
        known.try_fold(first, |one, other| self.common(one, other, steps))
    }

    fn common(&self, mut one: usize, mut other: usize, steps: &mut u64) -> Option<usize> {
        while one != other {
            *steps = steps.saturating_add(1);
            if *steps > MOST_STEPS {
                return None;
            }
            let (a, b) = (self.order(one)?, self.order(other)?);
            if a > b {
                one = self.above(one).filter(|up| *up != one)?;
            } else {
                other = self.above(other).filter(|up| *up != other)?;
            }
        }
        Some(one)
    }

    fn above(&self, number: usize) -> Option<usize> {
        self.above.get(number).copied().flatten()
    }

    fn order(&self, number: usize) -> Option<usize> {
        self.order.get(number).copied().flatten()
    }

    /// Whether all ways to `number` come through `over`.
    pub(crate) fn is_below(&self, number: usize, over: usize) -> bool {
        let span = |number: usize| self.spans.get(number).copied();
        match (span(number), span(over)) {
            (Some((at, _)), Some((begin, end))) => begin <= at && at < end,
            _ => false,
        }
    }
}

/// Whether control goes elsewhere within the function.
pub(crate) fn is_jump(kind: InstructionKind) -> bool {
    use InstructionKind::{ConditionalBranch, IndirectBranch, UnconditionalBranch};
    matches!(kind, ConditionalBranch | UnconditionalBranch | IndirectBranch)
}

fn after(one: &Instruction) -> ImageAddr {
    ImageAddr(one.address.0.saturating_add(u64::from(one.size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(edges: &[(usize, usize)], without: Option<usize>) -> BTreeSet<usize> {
        let mut seen = BTreeSet::new();
        let mut open: Vec<usize> =
            Some(0).filter(|root| Some(*root) != without).into_iter().collect();
        while let Some(at) = open.pop() {
            if seen.insert(at) {
                let next = edges.iter().filter(|(from, to)| *from == at && Some(*to) != without);
                open.extend(next.map(|(_, to)| *to));
            }
        }
        seen
    }

    proptest::proptest! {
        #[test]
        fn a_block_is_below_those_without_which_it_is_not_reached(
            edges in proptest::collection::vec((0usize..12, 0usize..12), 0..40),
        ) {
            let mut blocks = vec![Block::default(); 12];
            edges.iter().for_each(|(from, to)| blocks[*from].next.push(*to));
            let (above, order) = (vec![None; 12], vec![None; 12]);
            let mut flow = Flow { blocks, above, order, spans: Vec::new(), given_up: false };
            flow.link();
            flow.dominate(&[]);
            let all = reached(&edges, None);
            for over in all.iter().copied() {
                let without = reached(&edges, Some(over));
                for number in all.iter().copied() {
                    let below = number == over || !without.contains(&number);
                    proptest::prop_assert_eq!(flow.is_below(number, over), below, "{} {}", number, over);
                }
            }
            for lost in (0..12).filter(|number| !all.contains(number)) {
                proptest::prop_assert!(!flow.is_below(0, lost) && !flow.is_below(lost, 0));
            }
        }
    }
}
