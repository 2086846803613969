//! Executions of a function's blocks and jumps while paths are cloned: what a copy takes over, the
//! block loses.
//!
//! Invariant: summed over a block and its clones, executions stay what they were, and so do those
//! of each jump between two blocks, summed over the clones at its ends. The order of paths matters
//! as it does in the compiler: a clone gets the jumps that its block has at that time.

use std::collections::BTreeMap;

use crate::order::{ClonedFunction, Jump, JumpKind, Node, PlacedBlock, PlacedEdge, Problem};
use crate::{BlockIndex, Cfg, ClonePath, FunctionIndex, Placed};

use super::PathCounts;

/// What is seen fewer times after a pair of blocks is chance; then what follows is taken to be what
/// follows the second block. Of 16, a share of a half is known to ± a quarter (95 %).
const LEAST_SEEN: u64 = 16;

/// A block or clone.
#[derive(Debug, Clone)]
pub(super) struct FlowNode {
    pub placed: Placed,
    pub size: u32,
    pub frequency: u64,
    /// Ends with a branch that is always taken, to a place that the compiler cannot change.
    pub indirect: bool,
    /// May not be cloned.
    pub fixed: bool,
}

/// Where a jump leads and how often it was taken or fallen through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    pub node: u32,
    pub weight: u64,
}

/// The executions of one function.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    pub function: FunctionIndex,
    /// The blocks by index, then the clones.
    pub nodes: Vec<FlowNode>,
    /// For each node its jumps by the block that they lead to, which may have become a clone of
    /// it.
    pub out: Vec<BTreeMap<u32, Target>>,
    /// Paths so far.
    pub paths: Vec<Vec<u32>>,
    blocks: u32,
}

/// What one clone of a path takes over.
pub(super) struct Step {
    /// The block that is cloned.
    pub block: u32,
    /// Executions that enter the clone.
    pub entered: u64,
    /// Its jumps: block they lead to, and the target with the clone's share.
    pub out: Vec<(u32, Target)>,
}

impl Flow {
    /// The function as it was recorded; `None` for an index of another graph.
    pub fn new(cfg: &Cfg, function: FunctionIndex, calls: &[bool]) -> Option<Self> {
        let of = cfg.function(function)?;
        let pads = of.blocks.iter().any(|block| block.flags.is_landing_pad());
        let mut nodes = Vec::with_capacity(of.blocks.len());
        for (index, block) in (0u32..).zip(&of.blocks) {
            // A call that may land in a pad carries labels that cannot be doubled.
            let invokes = pads && calls.get(index as usize).copied().unwrap_or(false);
            nodes.push(FlowNode {
                placed: Placed { block: BlockIndex(index), clone: 0 },
                size: block.size,
                frequency: block.frequency,
                indirect: block.flags.has_indirect_branch(),
                fixed: index == 0 || invokes || block.flags.is_landing_pad(),
            });
        }
        let mut out = vec![BTreeMap::new(); nodes.len()];
        for edge in &of.edges {
            if let Some(out) =
                out.get_mut(edge.from.0 as usize).filter(|_| (edge.to.0 as usize) < nodes.len())
            {
                out.insert(edge.to.0, Target { node: edge.to.0, weight: edge.weight });
            }
        }
        let blocks = nodes.len() as u32;
        Some(Flow { function, nodes, out, paths: Vec::new(), blocks })
    }

    pub fn node(&self, node: u32) -> Option<&FlowNode> {
        self.nodes.get(node as usize)
    }

    /// The jump of a block or clone to a block or a clone of it.
    pub fn target(&self, from: u32, to: u32) -> Option<Target> {
        self.out.get(from as usize)?.get(&to).copied()
    }

    /// Number of blocks, without clones.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// What the clones of a path would take over; `None` where the compiler refuses the path or
    /// nothing goes along it.
    pub fn steps(&self, path: &[u32], counts: &PathCounts) -> Option<Vec<Step>> {
        let (&head, cloned) = path.split_first()?;
        let (mut from, mut entered) = (head, 0);
        let mut steps: Vec<Step> = Vec::with_capacity(cloned.len());
        for &block in cloned {
            let again = block == head || steps.iter().any(|step| step.block == block);
            let target = self
                .target(from, block)
                .filter(|target| target.node == block && from < self.blocks)?;
            let (of, copied) = (self.node(from)?, self.node(block)?);
            if again || of.indirect || copied.fixed || copied.frequency == 0 {
                return None;
            }
            // A path is as frequent as its jumps, each as far as the one before leads to it.
            entered = match steps.last() {
                None => target.weight,
                Some(step) => {
                    step.out.iter().find(|(to, _)| *to == block).map_or(0, |(_, of)| of.weight)
                }
            };
            if entered == 0 {
                return None;
            }
            steps.push(Step { block, entered, out: self.share(from, block, entered, counts) });
            from = block;
        }
        (entered > 0).then_some(steps)
    }

    /// The jumps of a clone of `block` that `entered` executions come to from `from`.
    fn share(
        &self,
        from: u32,
        block: u32,
        entered: u64,
        counts: &PathCounts,
    ) -> Vec<(u32, Target)> {
        let Some(out) = self.out.get(block as usize) else { return Vec::new() };
        let all: u128 = out.values().map(|target| u128::from(target.weight)).sum();
        // Part of the executions may end here: by a return or a call that does not come back.
        let executions =
            u128::from(self.node(block).map_or(0, |node| node.frequency)).max(all).max(1);
        let wanted = (u128::from(entered) * all / executions) as u64;
        let seen = counts.after(self.function, BlockIndex(from), BlockIndex(block));
        let known = |to: u32| seen.and_then(|seen| seen.get(&BlockIndex(to))).copied().unwrap_or(0);
        let enough =
            out.keys().map(|&to| u128::from(known(to))).sum::<u128>() >= u128::from(LEAST_SEEN);
        let likely = |to: u32, target: &Target| if enough { known(to) } else { target.weight };
        let sum =
            out.iter().map(|(&to, target)| u128::from(likely(to, target))).sum::<u128>().max(1);
        let part = |likely: u64| (u128::from(wanted) * u128::from(likely) / sum) as u64;
        let mut shares: Vec<(u32, Target, u64)> = Vec::with_capacity(out.len());
        for (&to, target) in out {
            let weight = part(likely(to, target)).min(target.weight);
            shares.push((to, Target { node: target.node, weight }, target.weight));
        }
        // What rounding and what the jumps could not give is taken where most is left.
        let mut rest =
            wanted.saturating_sub(shares.iter().map(|(_, target, _)| target.weight).sum());
        shares.sort_by_key(|(to, target, most)| (std::cmp::Reverse(most - target.weight), *to));
        for (_, target, most) in &mut shares {
            let more = rest.min(*most - target.weight);
            target.weight += more;
            rest -= more;
        }
        shares.sort_by_key(|(to, ..)| *to);
        shares.into_iter().map(|(to, target, _)| (to, target)).collect()
    }

    /// Clones along a path; `false`, and nothing changes, where it cannot be.
    pub fn apply(&mut self, path: &[u32], counts: &PathCounts) -> bool {
        let (Some(steps), Some(&head)) = (self.steps(path, counts), path.first()) else {
            return false;
        };
        let mut from = head;
        for step in steps {
            let clone = self.nodes.len() as u32;
            let Some(block) = self.nodes.get_mut(step.block as usize) else { return false };
            let moved = step.entered.min(block.frequency);
            block.frequency -= moved;
            let mut copy = block.clone();
            copy.frequency = moved;
            copy.fixed = true;
            copy.placed.clone = 1 + self
                .paths
                .iter()
                .filter(|path| path.iter().skip(1).any(|&b| b == step.block))
                .count() as u32;
            self.nodes.push(copy);
            for (to, target) in &step.out {
                if let Some(of) =
                    self.out.get_mut(step.block as usize).and_then(|out| out.get_mut(to))
                {
                    of.weight -= target.weight.min(of.weight);
                }
            }
            self.out.push(step.out.into_iter().collect());
            if let Some(jump) =
                self.out.get_mut(from as usize).and_then(|out| out.get_mut(&step.block))
            {
                jump.node = clone;
            }
            from = clone;
        }
        self.paths.push(path.to_vec());
        true
    }

    /// The blocks and clones that were executed, to be ordered, and which node each of them is.
    ///
    /// Indirect branches are left out of the trial: they are taken in any order, and copies of a block
    /// that jumps by a table would each bring all its targets.
    pub fn problem(&self) -> (Problem, Vec<u32>) {
        let hot: Vec<u32> = (0u32..)
            .zip(&self.nodes)
            .filter(|(at, node)| *at == 0 || node.frequency > 0)
            .map(|(at, _)| at)
            .collect();
        let mut position = vec![None; self.nodes.len()];
        let mut problem = Problem { entry: Some(0), ..Problem::default() };
        for (at, node) in (0u32..).zip(&hot) {
            if let (Some(position), Some(of)) = (position.get_mut(*node as usize), self.node(*node))
            {
                *position = Some(at);
                problem.nodes.push(Node { size: of.size, frequency: of.frequency });
            }
        }
        let at = |node: u32| position.get(node as usize).copied().flatten();
        let branches =
            (0u32..).zip(&self.nodes).zip(&self.out).filter(|((_, node), _)| !node.indirect);
        for ((from, _), out) in branches {
            for target in out.values().filter(|target| target.weight > 0) {
                if let (Some(from), Some(to)) = (at(from), at(target.node)) {
                    let (kind, weight) = (JumpKind::Branch, target.weight);
                    problem.jumps.push(Jump { from, to, kind, weight });
                }
            }
        }
        (problem, hot)
    }

    /// The function in the words of the layout.
    pub fn cloned(&self) -> ClonedFunction {
        let placed = |node: u32| self.node(node).map(|node| node.placed);
        let mut edges = Vec::new();
        for (node, out) in self.nodes.iter().zip(&self.out) {
            for target in out.values().filter(|target| target.weight > 0) {
                if let Some(to) = placed(target.node) {
                    edges.push(PlacedEdge { from: node.placed, to, weight: target.weight });
                }
            }
        }
        edges.sort_unstable();
        let path =
            |path: &Vec<u32>| ClonePath(path.iter().map(|&block| BlockIndex(block)).collect());
        let block =
            |node: &FlowNode| PlacedBlock { placed: node.placed, frequency: node.frequency };
        ClonedFunction {
            function: self.function,
            paths: self.paths.iter().map(path).collect(),
            blocks: self.nodes.iter().map(block).collect(),
            edges,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_a_block_that_jumps_by_a_table_do_not_each_bring_its_targets_to_be_ordered() {
        // 0 enters the dispatch 1, which jumps to the cases 2 to 41, and these jump back to it.
        let cases = 2..42;
        let node = |index: u32| FlowNode {
            placed: Placed { block: BlockIndex(index), clone: 0 },
            size: 16,
            frequency: if index == 1 { 4100 } else { 100 },
            indirect: index == 1,
            fixed: index == 0,
        };
        let to = |node: u32, weight| BTreeMap::from([(node, Target { node, weight })]);
        let mut flow = Flow {
            function: FunctionIndex(0),
            nodes: (0..42).map(node).collect(),
            out: (0..42).map(|_| to(1, 100)).collect(),
            paths: Vec::new(),
            blocks: 42,
        };
        flow.out[1] = cases.clone().map(|node| (node, Target { node, weight: 100 })).collect();
        for case in cases {
            assert!(flow.apply(&[case, 1], &PathCounts::default()));
        }
        let (problem, nodes) = flow.problem();
        let (dispatch, jumps) = (nodes.iter().position(|&node| node == 1), &problem.jumps);
        assert!(jumps.iter().all(|jump| Some(jump.from as usize) != dispatch));
        assert_eq!(jumps.len(), 41, "one into each dispatch");
    }
}
