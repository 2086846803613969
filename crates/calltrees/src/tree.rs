//! Stacks added up from one end: who called what, with what weight.

use crate::Weight;
use crate::names::FunctionId;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Number of a node in its [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// A function in the context of the path that leads to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The function; none of the root.
    pub function: Option<FunctionId>,
    /// The node before it on the path.
    pub parent: Option<NodeId>,
    /// Of stacks that end here.
    pub own: Weight,
    /// Of stacks that come through here or end here.
    pub total: Weight,
    /// Those that weigh most first.
    pub children: Vec<NodeId>,
}

/// A tree of paths; node 0 is the root.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: Vec<Node>,
    numbers: FxHashMap<(NodeId, FunctionId), NodeId>,
}

impl Default for Tree {
    fn default() -> Tree {
        let root = Node {
            function: None,
            parent: None,
            own: Weight::default(),
            total: Weight::default(),
            children: Vec::new(),
        };
        Tree { nodes: vec![root], numbers: FxHashMap::default() }
    }
}

impl Tree {
    /// Of whole stacks, each innermost first: callers lead to callees.
    pub fn of_calls<'s>(stacks: impl IntoIterator<Item = (&'s [FunctionId], Weight)>) -> Tree {
        let mut tree = Tree::default();
        for (functions, weight) in stacks {
            tree.add(functions.iter().rev().copied(), weight);
        }
        tree.finished()
    }

    /// What a function called: the parts of the stacks from its outermost frame on inwards.
    pub fn of_callees<'s>(
        stacks: impl IntoIterator<Item = (&'s [FunctionId], Weight)>,
        is_it: impl Fn(FunctionId) -> bool,
    ) -> Tree {
        Tree::of_calls(stacks.into_iter().filter_map(|(functions, weight)| {
            let outermost = functions.iter().rposition(|&function| is_it(function))?;
            Some((functions.get(..=outermost)?, weight))
        }))
    }

    /// Who called a function: the parts of the stacks from its outermost frame on outwards.
    pub fn of_callers<'s>(
        stacks: impl IntoIterator<Item = (&'s [FunctionId], Weight)>,
        is_it: impl Fn(FunctionId) -> bool,
    ) -> Tree {
        let mut tree = Tree::default();
        for (functions, weight) in stacks {
            let outermost = functions.iter().rposition(|&function| is_it(function));
            if let Some(outer) = outermost.and_then(|at| functions.get(at..)) {
                tree.add(outer.iter().copied(), weight);
            }
        }
        tree.finished()
    }

    fn add(&mut self, path: impl Iterator<Item = FunctionId>, weight: Weight) {
        let mut at = NodeId(0);
        self.weigh(at, weight);
        for function in path {
            let next = NodeId(self.nodes.len() as u32);
            let child = *self.numbers.entry((at, function)).or_insert(next);
            if child == next {
                self.nodes.push(Node {
                    function: Some(function),
                    parent: Some(at),
                    own: Weight::default(),
                    total: Weight::default(),
                    children: Vec::new(),
                });
                if let Some(parent) = self.nodes.get_mut(at.0 as usize) {
                    parent.children.push(child);
                }
            }
            at = child;
            self.weigh(at, weight);
        }
        if let Some(last) = self.nodes.get_mut(at.0 as usize) {
            last.own.add(weight);
        }
    }

    fn weigh(&mut self, at: NodeId, weight: Weight) {
        if let Some(node) = self.nodes.get_mut(at.0 as usize) {
            node.total.add(weight);
        }
    }

    fn finished(mut self) -> Tree {
        let order: Vec<_> = self
            .nodes
            .iter()
            .map(|node| (Reverse(node.total.period), Reverse(node.total.samples), node.function))
            .collect();
        for node in &mut self.nodes {
            node.children.sort_by_key(|child| order.get(child.0 as usize).copied());
        }
        self
    }

    /// The root: all stacks.
    pub fn root(&self) -> NodeId {
        NodeId(0)
    }

    /// A node.
    pub fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0 as usize)
    }

    /// How many nodes there are, the root among them.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no stack came in.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(numbers: &[u32]) -> Vec<FunctionId> {
        numbers.iter().map(|&number| FunctionId(number)).collect()
    }

    fn told(tree: &Tree, id: NodeId, out: &mut Vec<(u32, u64, u64)>) {
        let node = tree.get(id).unwrap();
        let number = node.function.map_or(99, |function| function.0);
        out.push((number, node.total.period, node.own.period));
        node.children.iter().for_each(|&child| told(tree, child, out));
    }

    fn all(tree: &Tree) -> Vec<(u32, u64, u64)> {
        let mut out = Vec::new();
        told(tree, tree.root(), &mut out);
        out
    }

    #[test]
    fn a_recursive_function_is_entered_at_its_outermost_frame() {
        // Innermost first: main (0) calls f (1), which calls itself and g (2).
        let stacks = [(path(&[2, 1, 1, 0]), 5), (path(&[1, 0]), 3), (path(&[2, 0]), 1)];
        let given = || stacks.iter().map(|(path, period)| (path.as_slice(), Weight::one(*period)));
        let calls = Tree::of_calls(given());
        let inside_f = [(1, 8, 3), (1, 5, 0), (2, 5, 5)];
        assert_eq!(all(&calls), [&[(99, 9, 0), (0, 9, 0)], &inside_f[..], &[(2, 1, 1)]].concat());
        let is_f = |function: FunctionId| function.0 == 1;
        let callees = Tree::of_callees(given(), is_f);
        assert_eq!(all(&callees), [&[(99, 8, 0)], &inside_f[..]].concat());
        let callers = Tree::of_callers(given(), is_f);
        assert_eq!(all(&callers), [(99, 8, 0), (1, 8, 0), (0, 8, 8)]);
    }
}
