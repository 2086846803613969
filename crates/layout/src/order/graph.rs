//! A problem in the form that the algorithms work on: jumps sorted, added up, and found by block.

use super::{JumpKind, Params, Problem, Scoring};

/// A jump between two different blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    pub from: u32,
    pub to: u32,
    pub kind: JumpKind,
    pub weight: f64,
    /// See [`Scoring::skew`].
    skew: i64,
}

/// The blocks and jumps of a problem. Jumps of a block to itself are left out: no order changes
/// them.
pub(super) struct Graph<'a> {
    pub problem: &'a Problem,
    pub scoring: &'a Scoring,
    /// Sorted by (from, to, kind).
    pub links: Vec<Link>,
    /// Positions in `links` of the jumps that touch a block, and where those of each block begin.
    touching: Vec<u32>,
    touching_start: Vec<u32>,
}

impl Problem {
    /// Score of an order of all blocks.
    pub fn score(&self, order: &[u32], params: &Params) -> f64 {
        Graph::new(self, &params.scoring).score(order)
    }
}

impl<'a> Graph<'a> {
    pub fn new(problem: &'a Problem, scoring: &'a Scoring) -> Self {
        let count = problem.nodes.len();
        let known = |node: u32| (node as usize) < count;
        let mut jumps = problem.jumps.clone();
        jumps.retain(|jump| {
            jump.weight > 0 && jump.from != jump.to && known(jump.from) && known(jump.to)
        });
        jumps.sort_unstable();
        let mut links: Vec<Link> = Vec::with_capacity(jumps.len());
        for jump in &jumps {
            if let Some(last) = links.last_mut()
                && (last.from, last.to, last.kind) == (jump.from, jump.to, jump.kind)
            {
                last.weight += jump.weight as f64;
                continue;
            }
            let size = |node: u32| problem.nodes[node as usize].size;
            let skew = Scoring::skew(jump.kind, size(jump.from), size(jump.to));
            let weight = jump.weight as f64;
            links.push(Link { from: jump.from, to: jump.to, kind: jump.kind, weight, skew });
        }
        let mut touching_start = vec![0u32; count + 1];
        for link in &links {
            touching_start[link.from as usize] += 1;
            touching_start[link.to as usize] += 1;
        }
        let mut sum = 0;
        for start in &mut touching_start {
            sum += *start;
            *start = sum;
        }
        // Filled from behind, so that each start ends where it belongs and the jumps of a block
        // stay sorted.
        let mut touching = vec![0u32; links.len() * 2];
        for (index, link) in links.iter().enumerate().rev() {
            for node in [link.to, link.from] {
                let start = &mut touching_start[node as usize];
                *start -= 1;
                touching[*start as usize] = index as u32;
            }
        }
        Graph { problem, scoring, links, touching, touching_start }
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.problem.nodes.len()
    }

    /// Bytes of a block.
    pub fn size(&self, node: u32) -> i64 {
        i64::from(self.problem.nodes[node as usize].size)
    }

    /// Positions in `links` of the jumps from or to a block.
    pub fn touching(&self, node: u32) -> &[u32] {
        let range = self.touching_start[node as usize]..self.touching_start[node as usize + 1];
        &self.touching[range.start as usize..range.end as usize]
    }

    /// What a jump is worth with its blocks at these addresses.
    pub fn value(&self, link: &Link, from: i64, to: i64) -> f64 {
        self.scoring.value(link.kind, link.weight, to - from + link.skew)
    }

    /// Bytes beyond which no jump is worth anything.
    pub fn window(&self) -> i64 {
        i64::from(self.scoring.forward_window.max(self.scoring.backward_window))
    }

    /// Score of an order of all blocks.
    pub fn score(&self, order: &[u32]) -> f64 {
        let mut at = vec![0i64; self.len()];
        let mut end = 0;
        for &node in order {
            at[node as usize] = end;
            end += self.size(node);
        }
        let value = |link: &Link| self.value(link, at[link.from as usize], at[link.to as usize]);
        self.links.iter().map(value).sum()
    }
}
