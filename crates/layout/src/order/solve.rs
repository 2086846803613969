//! What is the best order of a problem's blocks? Merging, then searching, then trying all.

use super::chains::{self, Chains};
use super::graph::Graph;
use super::{Jump, Params, Problem, exact, search};

/// Functions of more blocks are searched from what merging gives alone: a
/// second search would double the time of what takes longest.
const SECOND_SEARCH: usize = 500;
/// So many steps of exhaustive search cost as much as one of the local search.
const EXACT_STEPS: u64 = 2;

/// The best order of all blocks of a problem that was found: a permutation of the positions, the
/// entry first.
///
/// Merging says which blocks belong together; each of its chains is then searched by itself. With
/// one chain, and unless the parameters leave searching out or blocks are bundled, the order is at
/// least as good as the present one and the one that merging gives.
pub fn order(problem: &Problem, params: &Params) -> Vec<u32> {
    let merged = chains(problem, params);
    if params.search_steps == 0 || !problem.bundles.is_empty() {
        return merged.concat();
    }
    match merged.as_slice() {
        [all] => searched(problem, all.clone(), params),
        _ => {
            let jumps = jumps_within(problem, &merged);
            let chains = merged.into_iter().zip(jumps);
            chains
                .flat_map(|(chain, jumps)| searched_alone(problem, chain, jumps, params))
                .collect()
        }
    }
}

/// For each chain the jumps that stay in it.
fn jumps_within(problem: &Problem, chains: &[Vec<u32>]) -> Vec<Vec<Jump>> {
    let mut chain_of = vec![None; problem.nodes.len()];
    for (at, chain) in chains.iter().enumerate() {
        chain.iter().for_each(|&node| chain_of[node as usize] = Some(at));
    }
    let mut within = vec![Vec::new(); chains.len()];
    for jump in &problem.jumps {
        let of = |node: u32| chain_of.get(node as usize).copied().flatten();
        if let Some(at) = of(jump.from).filter(|_| of(jump.from) == of(jump.to)) {
            within[at].push(*jump);
        }
    }
    within
}

/// A chain searched as if there were nothing else.
fn searched_alone(
    problem: &Problem,
    chain: Vec<u32>,
    jumps: Vec<Jump>,
    params: &Params,
) -> Vec<u32> {
    if chain.len() < 3 {
        return chain;
    }
    let mut present = chain.clone();
    present.sort_unstable();
    let place = |node: u32| present.binary_search(&node).ok().map(|at| at as u32);
    let moved = |jump: Jump| Some(Jump { from: place(jump.from)?, to: place(jump.to)?, ..jump });
    let part = Problem {
        nodes: present
            .iter()
            .filter_map(|&node| problem.nodes.get(node as usize))
            .copied()
            .collect(),
        jumps: jumps.into_iter().filter_map(moved).collect(),
        entry: problem.entry.and_then(place),
        bundles: Vec::new(),
    };
    let chain = chain.into_iter().filter_map(place).collect();
    let found = searched(&part, chain, params);
    found.into_iter().filter_map(|node| present.get(node as usize)).copied().collect()
}

/// What searching makes of an order of all blocks.
fn searched(problem: &Problem, merged: Vec<u32>, params: &Params) -> Vec<u32> {
    let graph = Graph::new(problem, &params.scoring);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{JumpKind, Node};

    #[test]
    fn what_seldom_runs_does_not_lie_between_what_always_runs() {
        let node = |frequency| Node { size: 32, frequency };
        let jump = |from, to, weight| Jump { from, to, kind: JumpKind::Branch, weight };
        // 0, 1, 2 run together, 4, 5, 6 as well; once in ten thousand 3 leads from 1 to 5.
        let problem = Problem {
            nodes: [9999, 9999, 9999, 1, 9999, 9999, 9999].map(node).to_vec(),
            jumps: vec![
                jump(0, 1, 9999),
                jump(1, 2, 9998),
                jump(1, 3, 1),
                jump(3, 5, 1),
                jump(4, 5, 9998),
                jump(5, 6, 9999),
            ],
            entry: Some(0),
            ..Problem::default()
        };
        let by = |density_ratio| order(&problem, &Params { density_ratio, ..Params::default() });
        assert_eq!(by(f64::INFINITY), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(by(100.0), [0, 1, 2, 4, 5, 6, 3]);
        assert_eq!(by(100_000.0), [0, 1, 2, 3, 4, 5, 6]);
    }
}
