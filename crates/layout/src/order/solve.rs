//! What is the best order of a problem's blocks? Merging, then searching, then trying all.

use super::chains::{self, Chains};
use super::graph::Graph;
use super::{Params, Problem, exact, search};

/// Functions of more blocks are searched from what merging gives alone: a
/// second search would double the time of what takes longest.
const SECOND_SEARCH: usize = 500;
/// So many steps of exhaustive search cost as much as one of the local search.
const EXACT_STEPS: u64 = 2;

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

/// The chains that merging makes of a problem, the entry's first, the others by executions per
/// byte.
pub(super) fn chains(problem: &Problem, params: &Params) -> Vec<Vec<u32>> {
    let graph = Graph::new(problem, &params.scoring);
    chains::by_density(Chains::merge(&graph, params))
}
