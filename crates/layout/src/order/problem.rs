//! What is to be ordered: blocks with sizes and frequencies, and jumps between them.
//!
//! A problem knows neither names nor addresses, so that a function, a function with clones and a
//! whole program are the same to the algorithms. Everything in it is to be placed: cold blocks are
//! left out before.

use super::chains::{self, Chains};
use super::graph::Graph;
use super::{JumpKind, Params, exact, search};

/// A block to place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Bytes.
    pub size: u32,
    /// Executions.
    pub frequency: u64,
}

/// Control from a block to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Jump {
    /// Position of the block that is left, in [`Problem::nodes`].
    pub from: u32,
    /// Position of the block that is entered.
    pub to: u32,
    /// How.
    pub kind: JumpKind,
    /// Executions.
    pub weight: u64,
}

/// Blocks to order. The order of `nodes` is the one they have now and breaks ties; the order of
/// `jumps` means nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problem {
    /// The blocks.
    pub nodes: Vec<Node>,
    /// The jumps; those that name a block that is not there are left out, equal ones added up.
    pub jumps: Vec<Jump>,
    /// The block that has to come first.
    pub entry: Option<u32>,
    /// Blocks that stay together in this order, each at most once. Other paths are found by the
    /// algorithm.
    pub bundles: Vec<Vec<u32>>,
}

impl Problem {
    /// Score of an order of all blocks.
    pub fn score(&self, order: &[u32], params: &Params) -> f64 {
        Graph::new(self, &params.scoring).score(order)
    }
}

/// The best order of all blocks of a problem that was found: a permutation of the positions, the
/// entry first.
///
/// Unless the parameters leave searching out or blocks are bundled, it is at least as good as the
/// present order and the one that merging chains gives.
pub fn order(problem: &Problem, params: &Params) -> Vec<u32> {
    let graph = Graph::new(problem, &params.scoring);
    let merged = chains::one_after_another(Chains::merge(&graph, params));
    if params.search_steps == 0 || !problem.bundles.is_empty() {
        return merged;
    }
    let entry = problem.entry.filter(|&entry| (entry as usize) < graph.len());
    let others = (0..graph.len() as u32).filter(|&node| Some(node) != entry);
    let present: Vec<u32> = entry.into_iter().chain(others).collect();
    let budget = u64::from(params.search_steps) * graph.len() as u64;
    let mut best = merged;
    search::improve(&graph, &mut best, budget);
    // Where merging ends depends on where it begins; a large function is only worth one search.
    let mut other = present;
    if graph.len() <= SECOND_SEARCH {
        search::improve(&graph, &mut other, budget);
    }
    if graph.score(&other) > graph.score(&best) {
        best = other;
    }
    if graph.len() <= params.exact_blocks as usize {
        exact::improve(&graph, &mut best, budget * EXACT_STEPS);
    }
    best
}

/// Functions of more blocks are searched from what merging gives alone.
const SECOND_SEARCH: usize = 500;
/// Steps of exhaustive search are so much cheaper than others.
const EXACT_STEPS: u64 = 2;

/// The chains that merging makes of a problem, the entry's first, the others by executions per
/// byte.
pub(super) fn chains(problem: &Problem, params: &Params) -> Vec<Vec<u32>> {
    let graph = Graph::new(problem, &params.scoring);
    chains::by_density(Chains::merge(&graph, params))
}
