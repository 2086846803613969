//! The closure of functions: everything that changes when they change, and the way by which we
//! know.

use crate::graph::{Edge, Graph, NodeId};
use std::collections::VecDeque;

/// How a member was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The member from which.
    pub from: NodeId,
    /// The edge.
    pub edge: Edge,
}

/// A function of a closure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The function.
    pub node: NodeId,
    /// The shortest way to it; `None` for the functions that were asked for.
    pub step: Option<Step>,
}

/// All functions that change with some.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Closure {
    /// The functions that were asked for, then those nearest to them first.
    pub members: Vec<Member>,
}

impl Closure {
    /// Whether the function is in it.
    pub fn holds(&self, node: NodeId) -> bool {
        self.members.iter().any(|member| member.node == node)
    }

    /// The members whose shortest way comes directly from a member.
    pub fn after(&self, node: NodeId) -> impl Iterator<Item = &Member> {
        self.members
            .iter()
            .filter(move |member| member.step.as_ref().is_some_and(|step| step.from == node))
    }
}

/// Everything that changes when the functions change: a search in breadth over all edges, also
/// through functions that have no code of their own any more.
pub fn closure(graph: &Graph, of: &[NodeId]) -> Closure {
    let mut reached = vec![false; graph.nodes().len()];
    let mut closure = Closure::default();
    let mut waiting = VecDeque::new();
    for &node in of {
        if let Some(reached) = reached.get_mut(node.0 as usize).filter(|reached| !**reached) {
            *reached = true;
            closure.members.push(Member { node, step: None });
            waiting.push_back(node);
        }
    }
    while let Some(from) = waiting.pop_front() {
        for edge in graph.leaving(from) {
            if let Some(reached) = reached.get_mut(edge.to.0 as usize).filter(|reached| !**reached)
            {
                *reached = true;
                let step = Some(Step { from, edge: edge.clone() });
                closure.members.push(Member { node: edge.to, step });
                waiting.push_back(edge.to);
            }
        }
    }
    closure
}

/// How large closures are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sizes {
    /// Functions of the source, with or without code of their own.
    pub functions: usize,
    /// Mean number of functions with code that change with one of them, itself included.
    pub mean: f64,
    /// The same at half and at 95 % of all functions.
    pub median: usize,
    /// 95th percentile.
    pub p95: usize,
    /// The functions with the largest closures and their sizes, the largest first.
    pub largest: Vec<(NodeId, usize)>,
}

/// Sizes of the closures of all functions of the source; copies and parts are not asked for alone.
pub fn sizes(graph: &Graph, largest: usize) -> Sizes {
    // Whoever is reached anew carries the number of the round, so that nothing is cleared in
    // between.
    let mut reached = vec![0u32; graph.nodes().len()];
    let mut waiting = Vec::new();
    let mut found: Vec<(usize, NodeId)> = Vec::new();
    for (root, node) in graph.nodes() {
        if crate::symbols::origin(&node.name).is_some() {
            continue;
        }
        let round = root.0 + 1;
        let mut size = 0;
        waiting.push(root);
        while let Some(at) = waiting.pop() {
            match reached.get_mut(at.0 as usize).filter(|seen| **seen != round) {
                Some(seen) => *seen = round,
                None => continue,
            }
            size += usize::from(graph.get(at).is_some_and(|node| node.has_code));
            waiting.extend(graph.leaving(at).map(|edge| edge.to));
        }
        if size > 0 {
            found.push((size, root));
        }
    }
    found.sort_unstable_by_key(|&(size, node)| (std::cmp::Reverse(size), node));
    let at = |share: f64| {
        found.get((found.len() as f64 * (1.0 - share)) as usize).map_or(0, |(size, _)| *size)
    };
    Sizes {
        functions: found.len(),
        mean: found.iter().map(|(size, _)| *size).sum::<usize>() as f64 / found.len().max(1) as f64,
        median: at(0.5),
        p95: at(0.95),
        largest: found.iter().take(largest).map(|&(size, node)| (node, size)).collect(),
    }
}
