//! Which blocks have only each other: paths that every good order keeps.
//!
//! A jump that is the only one out of its source and the only one into its target is always worth a
//! fall-through: nothing else competes for either end. Such jumps make paths, which the merging of
//! chains moves as a whole.

use super::JumpKind;
use super::graph::Graph;

const NONE: u32 = u32::MAX;

/// For each block whether it has to follow the block before it, and the bundles: every block is in
/// exactly one.
pub(super) struct Bundles {
    /// Blocks of each bundle in order; bundles by their first block.
    pub paths: Vec<Vec<u32>>,
    /// Whether a block is inside a bundle, that is, not its first.
    pub inside: Vec<bool>,
}

impl Bundles {
    pub fn new(graph: &Graph<'_>) -> Self {
        let count = graph.len();
        let mut next = vec![NONE; count];
        let mut previous = vec![NONE; count];
        let mut given = vec![false; count];
        for bundle in &graph.problem.bundles {
            let mut last = NONE;
            for &node in bundle {
                if node as usize >= count || given[node as usize] {
                    continue;
                }
                given[node as usize] = true;
                if last != NONE && graph.problem.entry != Some(node) {
                    next[last as usize] = node;
                    previous[node as usize] = last;
                }
                last = node;
            }
        }
        forced(graph, &given, &mut next, &mut previous);
        break_cycles(&mut next, &mut previous);
        let mut paths = Vec::new();
        for first in 0..count as u32 {
            if previous[first as usize] == NONE {
                let follow = |&node: &u32| Some(next[node as usize]).filter(|&next| next != NONE);
                paths.push(std::iter::successors(Some(first), follow).collect());
            }
        }
        Bundles { paths, inside: previous.iter().map(|&previous| previous != NONE).collect() }
    }
}

/// Joins the blocks that have only each other, other than those in given bundles.
fn forced(graph: &Graph<'_>, given: &[bool], next: &mut [u32], previous: &mut [u32]) {
    let falls = |kind: JumpKind| match kind {
        JumpKind::Branch => true,
        JumpKind::Indirect => graph.scoring.indirect_falls_through,
        JumpKind::TailCall | JumpKind::Call | JumpKind::Return => false,
    };
    let within = |kind: JumpKind| matches!(kind, JumpKind::Branch | JumpKind::Indirect);
    let mut leaving = vec![0u32; graph.len()];
    let mut entering = vec![0u32; graph.len()];
    for link in graph.links.iter().filter(|link| within(link.kind)) {
        leaving[link.from as usize] += 1;
        entering[link.to as usize] += 1;
    }
    // Jumps of a block to itself are not among the links, but compete all the same.
    for jump in graph.problem.jumps.iter().filter(|jump| jump.from == jump.to && jump.weight > 0) {
        if within(jump.kind) && (jump.from as usize) < graph.len() {
            leaving[jump.from as usize] += 1;
            entering[jump.to as usize] += 1;
        }
    }
    for link in graph.links.iter().filter(|link| falls(link.kind)) {
        let (from, to) = (link.from as usize, link.to as usize);
        let alone = leaving[from] == 1 && entering[to] == 1;
        let free = !given[from] && !given[to] && graph.problem.entry != Some(link.to);
        if alone && free {
            next[from] = link.to;
            previous[to] = link.from;
        }
    }
}

/// Cuts every cycle before its smallest block.
fn break_cycles(next: &mut [u32], previous: &mut [u32]) {
    let mut seen = vec![false; next.len()];
    let walk = |next: &[u32], seen: &mut [bool], first: usize| {
        let mut node = first;
        seen[node] = true;
        while next[node] != NONE {
            node = next[node] as usize;
            seen[node] = true;
        }
    };
    // First everything that hangs on a path with a begin, then what is left are cycles.
    let begins: Vec<usize> =
        previous.iter().enumerate().filter(|&(_, &of)| of == NONE).map(|(node, _)| node).collect();
    for first in begins {
        walk(next, &mut seen, first);
    }
    for first in 0..next.len() {
        if !seen[first] {
            next[previous[first] as usize] = NONE;
            previous[first] = NONE;
            walk(next, &mut seen, first);
        }
    }
}
