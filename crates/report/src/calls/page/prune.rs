//! Which calls does a page hold? The heaviest that there is room for.
//!
//! Input: a tree and the bytes that its nodes may take. Output: the kept nodes in columns, from the
//! root inwards, and for each kept node what was merged into it. Invariant: what is kept and what
//! was merged weigh together what the tree does. Cost: sorting the nodes by weight.

use calltrees::{FunctionId, Node, NodeId, Tree, Weight};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;

/// The nodes of a page, in the order of a walk that enters callers before their callees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Pruned {
    /// Positions of the functions in the page's table.
    #[serde(rename = "f")]
    pub(super) functions: Vec<u32>,
    /// How many callers stand before it.
    #[serde(rename = "d")]
    pub(super) depths: Vec<u32>,
    /// Weights of its own.
    #[serde(rename = "w")]
    pub(super) own: Vec<u64>,
    /// Samples of its own.
    #[serde(rename = "s")]
    pub(super) samples: Vec<u64>,
    /// What was merged: the position of the caller (−1: the root), weight, samples, and how many
    /// nodes.
    pub(super) cut: Vec<(i64, u64, u64, u64)>,
    /// Where each node of the tree stands: its row, or none if it was merged.
    #[serde(skip)]
    rows: Vec<Option<u32>>,
    /// The entry of `cut` that was merged into each row, the root before the first.
    #[serde(skip)]
    cut_of: Vec<Option<u32>>,
}

impl Pruned {
    /// What was merged away: nodes, and what they weigh.
    pub(super) fn merged(&self) -> (u64, Weight) {
        let mut sum = (0, Weight::default());
        for &(_, period, samples, nodes) in &self.cut {
            sum.0 += nodes;
            sum.1.add(Weight { period, samples, heaviest: 0 });
        }
        sum
    }

    /// Where the weight of a node of its own stands: at a row, or behind the last row at an entry
    /// of `cut`.
    pub(super) fn place(&self, tree: &Tree, id: NodeId) -> Option<u32> {
        let row = |id: NodeId| self.rows.get(id.0 as usize).copied().flatten();
        if let Some(row) = row(id) {
            return Some(row);
        }
        let mut above = tree.get(id)?.parent;
        while let Some(node) = above {
            let position = if node == tree.root() { Some(0) } else { row(node).map(|row| row + 1) };
            if let Some(position) = position {
                let cut = self.cut_of.get(position as usize).copied().flatten()?;
                return Some(self.functions.len() as u32 + cut);
            }
            above = tree.get(node)?.parent;
        }
        None
    }
}

/// Digits of a number and the comma after it.
fn written(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 2
}

/// More than the brackets, the position and the number of nodes in an entry of `cut` take.
const CUT_ENTRY: usize = 2 + 12 + 12;

struct Room {
    left: usize,
}

impl Room {
    /// Room for a node, and for an entry of what is merged into it as long as a callee lacks.
    fn takes(&mut self, of_node: usize, of_cut: usize) -> bool {
        let fits = of_node + of_cut <= self.left;
        if fits {
            self.left -= of_node + of_cut;
        }
        fits
    }
}

fn cut_bytes(node: &Node) -> usize {
    if node.children.is_empty() {
        0
    } else {
        CUT_ENTRY + written(node.total.period) + written(node.total.samples)
    }
}

/// The heaviest nodes whose functions are `listed`, in `room` bytes of JSON.
pub(super) fn prune(tree: &Tree, listed: &HashMap<FunctionId, u32>, room: usize) -> Pruned {
    let kept = heaviest(tree, listed, room);
    let is_kept = |id: NodeId| kept.get(id.0 as usize).copied().unwrap_or(false);
    let sizes = sizes(tree);
    let mut out = Pruned { rows: vec![None; tree.len()], ..Pruned::default() };
    // Nodes to enter, each with the number of callers before it; the root has none and no row.
    let mut open = vec![(tree.root(), 0u32)];
    while let Some((id, depth)) = open.pop() {
        let Some(node) = tree.get(id) else { continue };
        let position = out.functions.len() as i64;
        let mut row = -1;
        if let Some(function) = node.function.and_then(|function| listed.get(&function)) {
            out.functions.push(*function);
            out.depths.push(depth - 1);
            out.own.push(node.own.period);
            out.samples.push(node.own.samples);
            row = position;
            if let Some(place) = out.rows.get_mut(id.0 as usize) {
                *place = Some(position as u32);
            }
        }
        let (mut merged, mut nodes) = (Weight::default(), 0);
        for &child in node.children.iter().rev() {
            if is_kept(child) {
                open.push((child, depth + 1));
            } else if let Some(child_node) = tree.get(child) {
                merged.add(child_node.total);
                nodes += u64::from(sizes.get(child.0 as usize).copied().unwrap_or(1));
            }
        }
        out.cut_of.push((nodes > 0).then_some(out.cut.len() as u32));
        if nodes > 0 {
            out.cut.push((row, merged.period, merged.samples, nodes));
        }
    }
    out
}

/// Which nodes are kept. A caller weighs no less than its callee and has a lower number, so that it
/// comes first.
fn heaviest(tree: &Tree, listed: &HashMap<FunctionId, u32>, room: usize) -> Vec<bool> {
    let node = |id: u32| tree.get(NodeId(id));
    let mut order: Vec<u32> = (1..tree.len() as u32).collect();
    order.sort_unstable_by_key(|&id| (Reverse(node(id).map_or(0, |n| n.total.period)), id));
    let mut kept = vec![false; tree.len()];
    let mut depths = vec![0u32; tree.len()];
    let mut missing: Vec<u32> = (0..tree.len() as u32)
        .map(|id| node(id).map_or(0, |node| node.children.len() as u32))
        .collect();
    let mut room = Room { left: room };
    if let Some(root) = node(0) {
        room.takes(0, cut_bytes(root));
    }
    if let Some(root) = kept.first_mut() {
        *root = true;
    }
    for id in order {
        let Some(of) = node(id) else { continue };
        let Some(parent) = of.parent.map(|parent| parent.0 as usize) else { continue };
        if !kept.get(parent).copied().unwrap_or(false) {
            continue;
        }
        let Some(&function) = of.function.and_then(|function| listed.get(&function)) else {
            continue;
        };
        let depth = depths.get(parent).map_or(0, |depth| depth + 1);
        let numbers = [u64::from(function), u64::from(depth), of.own.period, of.own.samples];
        if !room.takes(numbers.into_iter().map(written).sum(), cut_bytes(of)) {
            break;
        }
        let at = id as usize;
        if let (Some(kept), Some(own)) = (kept.get_mut(at), depths.get_mut(at)) {
            (*kept, *own) = (true, depth);
        }
        if let (Some(missing), Some(parent)) = (missing.get_mut(parent), node(parent as u32)) {
            *missing -= 1;
            if *missing == 0 {
                room.left += cut_bytes(parent);
            }
        }
    }
    kept
}

/// How many nodes stand below each, itself among them.
fn sizes(tree: &Tree) -> Vec<u32> {
    let mut sizes = vec![1u32; tree.len()];
    for id in (1..tree.len()).rev() {
        let own = sizes.get(id).copied().unwrap_or(0);
        let parent = tree.get(NodeId(id as u32)).and_then(|node| node.parent);
        if let Some(size) = parent.and_then(|parent| sizes.get_mut(parent.0 as usize)) {
            *size += own;
        }
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(functions: u32) -> HashMap<FunctionId, u32> {
        (0..functions).map(|number| (FunctionId(number), number)).collect()
    }

    fn tree(stacks: &[(Vec<u32>, u64)]) -> Tree {
        let stacks: Vec<(Vec<FunctionId>, Weight)> = stacks
            .iter()
            .map(|(path, period)| {
                (path.iter().map(|&f| FunctionId(f)).collect(), Weight::one(*period))
            })
            .collect();
        Tree::of_calls(stacks.iter().map(|(path, weight)| (path.as_slice(), *weight)))
    }

    fn weighs(pruned: &Pruned) -> Weight {
        let mut sum = pruned.merged().1;
        sum.add(Weight {
            period: pruned.own.iter().sum(),
            samples: pruned.samples.iter().sum(),
            heaviest: 0,
        });
        sum
    }

    #[test]
    fn with_room_nothing_is_merged() {
        let tree = tree(&[(vec![2, 1, 0], 5), (vec![1, 0], 3), (vec![2, 0], 1)]);
        let all = prune(&tree, &listed(3), 10_000);
        assert_eq!(all.functions, [0, 1, 2, 2]);
        assert_eq!(all.depths, [0, 1, 2, 1]);
        assert_eq!((all.own, all.samples), (vec![0, 3, 5, 1], vec![0, 1, 1, 1]));
        assert_eq!(all.cut, []);
    }

    #[test]
    fn what_is_merged_weighs_what_it_did_and_stands_below_its_caller() {
        let tree = tree(&[(vec![3, 2, 1, 0], 5), (vec![1, 0], 300), (vec![2, 0], 100)]);
        // A function that is not listed takes what it called with it.
        let without = HashMap::from([(FunctionId(0), 0), (FunctionId(1), 1), (FunctionId(3), 2)]);
        let pruned = prune(&tree, &without, 10_000);
        assert_eq!(pruned.functions, [0, 1]);
        assert_eq!(pruned.cut, [(0, 100, 1, 1), (1, 5, 1, 2)]);
        assert_eq!(pruned.merged(), (3, Weight { period: 105, samples: 2, heaviest: 0 }));
        for room in 0..200 {
            let pruned = prune(&tree, &listed(4), room);
            assert_eq!(weighs(&pruned), Weight { period: 405, samples: 3, heaviest: 0 }, "{room}");
            let nodes = pruned.functions.len() as u64 + pruned.merged().0;
            assert_eq!(nodes, 5, "{room}");
            // What each node weighs by itself stands where the page shows it.
            let mut found = vec![0; pruned.functions.len() + pruned.cut.len()];
            for id in (1..tree.len() as u32).map(NodeId) {
                let own = tree.get(id).unwrap().own.period;
                found[pruned.place(&tree, id).unwrap() as usize] += own;
            }
            let cut = pruned.cut.iter().map(|cut| cut.1);
            assert_eq!(found, pruned.own.iter().copied().chain(cut).collect::<Vec<_>>(), "{room}");
        }
        assert_eq!(prune(&tree, &listed(4), 0).cut, [(-1, 405, 3, 5)]);
    }

    #[test]
    fn two_million_nodes_take_no_more_room_than_they_are_given() {
        // Stacks of ten, few with more than a beginning in common, with the weights of a sawtooth.
        let functions = 5000;
        let stacks: Vec<(Vec<FunctionId>, Weight)> = (0..300_000u32)
            .map(|n| {
                let path = (0..10).map(|at| {
                    FunctionId(n.wrapping_mul(2_654_435_761).rotate_left(at * 3) % functions)
                });
                (path.collect(), Weight::one(u64::from(n % 977) * 1_000_003))
            })
            .collect();
        let tree = Tree::of_calls(stacks.iter().map(|(path, weight)| (path.as_slice(), *weight)));
        assert!(tree.len() > 2_000_000, "{}", tree.len());
        let mut whole = Weight::default();
        stacks.iter().for_each(|(_, weight)| whole.add(*weight));
        // What is merged has no heaviest sample.
        whole.heaviest = 0;
        for room in [100, 50_000, 3_000_000] {
            let pruned = prune(&tree, &listed(functions), room);
            assert_eq!(weighs(&pruned), whole);
            let written = serde_json::to_string(&pruned).unwrap();
            let names = r#"{"f":[],"d":[],"w":[],"s":[],"cut":[]}"#.len();
            assert!(written.len() <= room.max(60) + names, "{room}: {}", written.len());
            assert!(room < 1000 || written.len() > room / 2, "{room}: {}", written.len());
        }
    }
}
