//! The closure of functions: everything that changes when they change, and the way by which we know.

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
        self.members.iter().filter(move |member| member.step.as_ref().is_some_and(|step| step.from == node))
    }
}

/// Everything that changes when the functions change: a search in breadth over all edges, also through functions that
/// have no code of their own any more.
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
            if let Some(reached) = reached.get_mut(edge.to.0 as usize).filter(|reached| !**reached) {
                *reached = true;
                let step = Some(Step { from, edge: edge.clone() });
                closure.members.push(Member { node: edge.to, step });
                waiting.push_back(edge.to);
            }
        }
    }
    closure
}
