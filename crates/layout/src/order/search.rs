//! Can moving a few blocks make an order better?
//!
//! Local search: two neighbouring runs of blocks change places as long as that raises the score.
//! Tried are the moves that would make some jump a fall-through, the jumps with most executions
//! first; runs are single blocks, what falls through, or everything up to an end. The score never
//! falls, the entry stays first, and the number of tries is bounded.
//!
//! Cost of a try: the jumps of blocks within the window around three cuts, however long the order
//! is. An exchange moves everything between its outer cuts; the jumps between what lies before and
//! what lies after stay as they are.

use super::JumpKind;
use super::graph::{Graph, Link};

/// Loops of at most so many blocks are tried at every point to begin with; the cost of that grows
/// with the square of their blocks.
const ROTATIONS: usize = 32;
/// Longest run that is looked for, in blocks: bounds the cost of a try.
const RUN: usize = 64;

/// An order of all blocks while it is changed.
struct Search<'a> {
    graph: &'a Graph<'a>,
    order: Vec<u32>,
    /// Position of each block in the order.
    index: Vec<usize>,
    /// Address of each block.
    at: Vec<i64>,
    /// First position that may change.
    begin: usize,
    /// Gains up to this are rounding.
    least: f64,
    steps: u64,
}

/// Improves an order in place, in so many steps at most.
pub(super) fn improve(graph: &Graph<'_>, order: &mut Vec<u32>, steps: u64) {
    if order.len() < 3 {
        return;
    }
    let before = graph.score(order);
    let mut search = Search::new(graph, order.clone(), steps);
    let mut links: Vec<&Link> =
        graph.links.iter().filter(|link| link.kind == JumpKind::Branch).collect();
    // Stable, so that equal ones stay sorted by their blocks.
    links.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    while search.steps > 0 {
        let mut improved = false;
        for link in &links {
            improved |= search.try_link(link);
        }
        if !improved {
            break;
        }
    }
    // Sums of differences are not exact; the score itself has the last word.
    if graph.score(&search.order) > before {
        *order = search.order;
    }
}

impl<'a> Search<'a> {
    fn new(graph: &'a Graph<'a>, order: Vec<u32>, steps: u64) -> Self {
        let begin = usize::from(graph.problem.entry.is_some());
        let weight: f64 = graph.links.iter().map(|link| link.weight).sum();
        let count = order.len();
        let mut search = Search {
            graph,
            order,
            index: vec![0; count],
            at: vec![0; count],
            begin,
            least: weight * 1e-10,
            steps,
        };
        search.place(0, count);
        search
    }

    fn place(&mut self, from: usize, to: usize) {
        let mut end = match from.checked_sub(1).and_then(|last| self.order.get(last)) {
            Some(&last) => self.at[last as usize] + self.graph.size(last),
            None => 0,
        };
        for (position, &node) in self.order.iter().enumerate().take(to).skip(from) {
            self.index[node as usize] = position;
            self.at[node as usize] = end;
            end += self.graph.size(node);
        }
    }

    /// Address of the block at a position, or the end of the order.
    fn start(&self, position: usize) -> i64 {
        match self.order.get(position) {
            Some(&node) => self.at[node as usize],
            None => {
                self.order.last().map_or(0, |&last| self.at[last as usize] + self.graph.size(last))
            }
        }
    }

    /// Tries to make a jump a fall-through; whether something was gained.
    fn try_link(&mut self, link: &Link) -> bool {
        let (from, to) = (self.index[link.from as usize], self.index[link.to as usize]);
        if to == from + 1 || to < self.begin {
            return false;
        }
        let mut best: Option<(f64, [usize; 3])> = None;
        let mut consider = |search: &mut Self, cuts: [usize; 3]| {
            let [a, b, c] = cuts;
            if search.steps == 0 || a < search.begin || a >= b || b >= c || c > search.order.len() {
                return;
            }
            search.steps -= 1;
            let gain = search.gain(a, b, c);
            if gain > search.least && best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, cuts));
            }
        };
        let run_end = self.run_end(to);
        let run_begin = self.run_begin(from);
        if to > from {
            for end in [to + 1, to + 2, run_end, self.order.len()] {
                consider(self, [from + 1, to, end]);
            }
            for begin in [from, from.saturating_sub(1), run_begin, self.begin] {
                consider(self, [begin, from + 1, to]);
            }
        } else {
            for end in [to + 1, run_end, run_begin, from] {
                consider(self, [to, end, from + 1]);
            }
            if from - to <= ROTATIONS {
                for cut in to + 1..=from {
                    consider(self, [to, cut, from + 1]);
                }
            }
            // Only one end moves: the source in front of the target, or the target behind the
            // source.
            consider(self, [to, from, from + 1]);
        }
        match best {
            Some((_, [a, b, c])) => {
                self.order[a..c].rotate_left(b - a);
                self.place(a, c);
                true
            }
            None => false,
        }
    }

    fn falls(&self, position: usize) -> bool {
        let (Some(&node), Some(&next)) = (self.order.get(position), self.order.get(position + 1))
        else {
            return false;
        };
        let links = self.graph.touching(node).iter().map(|&link| &self.graph.links[link as usize]);
        links
            .into_iter()
            .any(|link| link.from == node && link.to == next && link.kind == JumpKind::Branch)
    }

    /// First position after one to which control does not fall through.
    fn run_end(&self, position: usize) -> usize {
        let mut end = position;
        while end < position + RUN && self.falls(end) {
            end += 1;
        }
        end + 1
    }

    /// First position of the run of fall-throughs that a position is in.
    fn run_begin(&self, position: usize) -> usize {
        let mut begin = position;
        while begin > self.begin && begin + RUN > position && self.falls(begin - 1) {
            begin -= 1;
        }
        begin
    }

    /// What is gained when the blocks at `a..b` and at `b..c` change places.
    fn gain(&self, a: usize, b: usize, c: usize) -> f64 {
        let (first, second) = (self.start(b) - self.start(a), self.start(c) - self.start(b));
        let after = |node: u32| {
            let position = self.index[node as usize];
            let moved = match () {
                () if position < a || position >= c => 0,
                () if position < b => second,
                () => -first,
            };
            self.at[node as usize] + moved
        };
        let outside = |position: usize| position < a || position >= c;
        let mut gain = 0.0;
        // What crosses a cut now: seen from its later block, which is near the start of its piece
        // or worth nothing.
        for (begin, end) in [(a, b), (b, c), (c, self.order.len())] {
            self.near(begin, end, |link, other| {
                let other = self.index[other as usize];
                if other < begin && !(begin == c && outside(other)) {
                    gain -= self.graph.value(
                        link,
                        self.at[link.from as usize],
                        self.at[link.to as usize],
                    );
                }
            });
        }
        // What will cross a cut: the pieces are then before, second, first, after.
        let piece = |position: usize| match () {
            () if position < a => 0,
            () if position >= c => 3,
            () if position >= b => 1,
            () => 2,
        };
        for (begin, end) in [(a, b), (b, c), (c, self.order.len())] {
            let own = piece(begin);
            self.near(begin, end, |link, other| {
                let other = piece(self.index[other as usize]);
                if other < own && !(own == 3 && other == 0) {
                    gain += self.graph.value(link, after(link.from), after(link.to));
                }
            });
        }
        gain
    }

    /// Every jump of the blocks in `begin..end` that start within the window after the first of
    /// them.
    fn near(&self, begin: usize, end: usize, mut visit: impl FnMut(&Link, u32)) {
        let from = self.start(begin);
        let window = self.graph.window();
        for &node in self.order.get(begin..end).unwrap_or_default() {
            if self.at[node as usize] - from > window {
                break;
            }
            for &link in self.graph.touching(node) {
                let link = &self.graph.links[link as usize];
                visit(link, if link.from == node { link.to } else { link.from });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{Jump, Node, Problem, Scoring};

    /// A generator of our own, so that a failure can be repeated: Knuth's linear congruence, its
    /// upper bits.
    fn random(state: &mut u64, below: u64) -> u64 {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

    #[test]
    fn the_gain_of_an_exchange_is_the_difference_of_the_scores() {
        let mut state = 7;
        for round in 0..200 {
            let count = 3 + random(&mut state, 40) as u32;
            let size = if round % 2 == 0 { 40 } else { 900 };
            let nodes: Vec<Node> = (0..count)
                .map(|_| Node { size: random(&mut state, size) as u32, frequency: 1 })
                .collect();
            let kinds = [
                JumpKind::Branch,
                JumpKind::Indirect,
                JumpKind::Call,
                JumpKind::Return,
                JumpKind::TailCall,
            ];
            let jumps = (0..count * 2)
                .map(|_| Jump {
                    from: random(&mut state, u64::from(count)) as u32,
                    to: random(&mut state, u64::from(count)) as u32,
                    kind: kinds[random(&mut state, 5) as usize],
                    weight: random(&mut state, 1000),
                })
                .collect();
            let problem = Problem { nodes, jumps, ..Problem::default() };
            let scoring = Scoring::default();
            let graph = Graph::new(&problem, &scoring);
            let search = Search::new(&graph, (0..count).collect(), 0);
            for _ in 0..50 {
                let mut cuts = [0; 3].map(|_| random(&mut state, u64::from(count) + 1) as usize);
                cuts.sort_unstable();
                let [a, b, c] = cuts;
                if a == b || b == c {
                    continue;
                }
                let mut changed = search.order.clone();
                changed[a..c].rotate_left(b - a);
                let expected = graph.score(&changed) - graph.score(&search.order);
                let gain = search.gain(a, b, c);
                assert!(
                    (gain - expected).abs() < 1e-6,
                    "round {round}, {cuts:?}: {gain}, expected {expected}"
                );
            }
        }
    }
}
