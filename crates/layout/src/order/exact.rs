//! What is the best order of a few blocks?
//!
//! Branch and bound: orders are built from the front, and a begin is given up when even the most
//! that the rest could add does not reach the best order known. That most is: every other jump as a
//! short one, and of the fall-throughs into each block still to come the best one, or out of each,
//! whichever sum is smaller. The number of steps is bounded; what was found until then is never
//! worse than the order given.
//!
//! Source of the method: Land and Doig, "An Automatic Method of Solving Discrete Programming
//! Problems" (Econometrica 28, 1960, doi:10.2307/1910129).

use super::JumpKind;
use super::graph::Graph;

struct Exact<'a> {
    graph: &'a Graph<'a>,
    /// Worth of a fall-through from one block to another beyond that of the shortest jump.
    bonus: Vec<Vec<f64>>,
    /// Addresses of placed blocks.
    at: Vec<Option<i64>>,
    order: Vec<u32>,
    best: Vec<u32>,
    best_score: f64,
    /// Score of the best order up to rounding.
    least: f64,
    steps: u64,
}

/// Improves an order of all blocks in place, in so many steps at most.
pub(super) fn improve(graph: &Graph<'_>, order: &mut Vec<u32>, steps: u64) {
    let count = graph.len();
    let shortest = graph.scoring.forward.max(graph.scoring.backward);
    let mut bonus = vec![vec![0.0; count]; count];
    for link in &graph.links {
        let falls = graph.value(link, 0, graph.size(link.from));
        if matches!(link.kind, JumpKind::Branch | JumpKind::Indirect) {
            bonus[link.from as usize][link.to as usize] +=
                (falls - link.weight * shortest).max(0.0);
        }
    }
    let weight: f64 = graph.links.iter().map(|link| link.weight).sum();
    let mut exact = Exact {
        graph,
        bonus,
        at: vec![None; count],
        order: Vec::with_capacity(count),
        best: order.clone(),
        best_score: graph.score(order),
        least: weight * 1e-10,
        steps,
    };
    match graph.problem.entry {
        Some(entry) if (entry as usize) < count => exact.put(entry, 0, 0.0, weight * shortest),
        _ => exact.extend(0, 0.0, weight * shortest),
    }
    if graph.score(&exact.best) > graph.score(order) {
        *order = exact.best;
    }
}

impl Exact<'_> {
    /// Places a block behind the others; `open` is the most that jumps not between placed blocks
    /// add as short ones.
    fn put(&mut self, node: u32, end: i64, score: f64, open: f64) {
        if self.steps == 0 {
            return;
        }
        self.steps -= 1;
        self.at[node as usize] = Some(end);
        self.order.push(node);
        let shortest = self.graph.scoring.forward.max(self.graph.scoring.backward);
        let (mut score, mut open) = (score, open);
        for &link in self.graph.touching(node) {
            let link = &self.graph.links[link as usize];
            if let (Some(from), Some(to)) = (self.at[link.from as usize], self.at[link.to as usize])
            {
                score += self.graph.value(link, from, to);
                open -= link.weight * shortest;
            }
        }
        self.extend(end + self.graph.size(node), score, open);
        self.order.pop();
        self.at[node as usize] = None;
    }

    fn extend(&mut self, end: i64, score: f64, open: f64) {
        if self.order.len() == self.graph.len() {
            if score > self.best_score + self.least {
                self.best_score = score;
                self.best = self.order.clone();
            }
            return;
        }
        let left: Vec<u32> =
            (0..self.graph.len() as u32).filter(|&node| self.at[node as usize].is_none()).collect();
        let last = self.order.last().copied();
        if score + open + self.most_falls(&left, last) <= self.best_score + self.least {
            return;
        }
        let weight = |node: u32| last.map_or(0.0, |last| self.bonus[last as usize][node as usize]);
        let mut next = left;
        // Stable, so that equals stay in their order.
        next.sort_by(|&a, &b| weight(b).total_cmp(&weight(a)));
        for node in next {
            self.put(node, end, score, open);
        }
    }

    /// The most that fall-throughs into the blocks left can add beyond short jumps.
    fn most_falls(&self, left: &[u32], last: Option<u32>) -> f64 {
        // A block without bytes lets a jump over it fall through too: then every jump may.
        if self.graph.problem.nodes.iter().any(|node| node.size == 0) {
            return self.bonus.iter().flatten().sum();
        }
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        let sources = || left.iter().copied().chain(last);
        let bonus = |from: u32, to: u32| self.bonus[from as usize][to as usize];
        let into: f64 =
            left.iter().map(|&to| most(&mut sources().map(|from| bonus(from, to)))).sum();
        let out: f64 =
            sources().map(|from| most(&mut left.iter().map(|&to| bonus(from, to)))).sum();
        into.min(out)
    }
}
