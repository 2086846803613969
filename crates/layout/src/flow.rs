//! The nearest flow to observed numbers.
//!
//! Input: a directed graph whose arcs carry observed numbers that need not fit together, and what
//! it costs per unit to raise or lower each. Output: numbers that fit, inflow equal to outflow at
//! every node, none negative, at the smallest cost. Invariant: numbers that fit already stay as
//! they are.
//!
//! Method: a node with more inflow than outflow has an excess, which is sent along the cheapest way
//! to a node that lacks as much (successive shortest paths with node potentials, Edmonds and Karp
//! 1972; the search ends at the first node found, so it stays near). Setting all numbers to 0 is
//! always possible, so such a way always exists. Cost: near linear where counts are nearly right;
//! `work` bounds the arcs that are looked at. What is left then is routed along two trees, one from
//! the root and one to it, by raising alone, in linear time.
//!
//! Source of the model: He, Mestre, Pupyrev, Wang, Yu, "Profile inference revisited" (POPL 2022,
//! arXiv 2201.11187).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// An observed number and what changing it costs per unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arc {
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// What was observed.
    pub(crate) observed: u128,
    /// The cost of one more.
    pub(crate) raise: u64,
    /// The cost of one less.
    pub(crate) lower: u64,
}

/// A graph in which every node can be reached from the root, and the root from every node.
#[derive(Debug)]
pub(crate) struct Network {
    arcs: Vec<Arc>,
    flow: Vec<u128>,
    /// Inflow minus outflow.
    excess: Vec<i128>,
    /// Arc numbers by node: `incident[first[n]..first[n + 1]]`, both directions.
    first: Vec<usize>,
    incident: Vec<u32>,
    root: u32,
}

/// A step along an arc: forward raises it, backward lowers it.
#[derive(Debug, Clone, Copy)]
struct Step {
    arc: u32,
    forward: bool,
}

/// Distances and ways of one search; `round` tells fresh entries from old ones.
struct Search {
    round: u32,
    seen: Vec<u32>,
    done: Vec<u32>,
    distance: Vec<u64>,
    way: Vec<Option<Step>>,
    finished: Vec<u32>,
}

impl Network {
    /// Both ends of every arc must be below `nodes`.
    pub(crate) fn new(nodes: u32, root: u32, arcs: Vec<Arc>) -> Network {
        let count = nodes as usize;
        let mut first = vec![0usize; count + 2];
        let mut excess = vec![0i128; count];
        for arc in &arcs {
            for (node, sign) in [(arc.from, -1), (arc.to, 1)] {
                if let Some(sum) = excess.get_mut(node as usize) {
                    *sum += sign * arc.observed as i128;
                }
                if let Some(slot) = first.get_mut(node as usize + 2) {
                    *slot += 1;
                }
            }
        }
        let mut sum = 0;
        for slot in &mut first {
            sum += *slot;
            *slot = sum;
        }
        let mut incident = vec![0; arcs.len() * 2];
        for (arc, number) in arcs.iter().zip(0u32..) {
            for node in [arc.from, arc.to] {
                if let Some(slot) = first.get_mut(node as usize + 1) {
                    if let Some(entry) = incident.get_mut(*slot) {
                        *entry = number;
                    }
                    *slot += 1;
                }
            }
        }
        let flow = arcs.iter().map(|arc| arc.observed).collect();
        Network { arcs, flow, excess, first, incident, root }
    }

    /// Makes the numbers fit. False where the bound on work was met, so that the result is not the
    /// nearest.
    pub(crate) fn balance(&mut self, work: u64) -> bool {
        let nodes = self.excess.len();
        let mut potential = vec![0i128; nodes];
        let mut search = Search {
            round: 0,
            seen: vec![0; nodes],
            done: vec![0; nodes],
            distance: vec![0; nodes],
            way: vec![None; nodes],
            finished: Vec::new(),
        };
        let mut left = work;
        for source in 0..nodes as u32 {
            while self.excess_of(source) > 0 {
                match self.nearest_lack(source, &potential, &mut search, &mut left) {
                    Some(sink) => {
                        raise_potentials(&mut potential, &search, sink);
                        self.send(source, sink, &search);
                    }
                    None => {
                        self.route_along_trees();
                        return false;
                    }
                }
            }
        }
        true
    }

    /// The numbers, by arc.
    pub(crate) fn flows(&self) -> &[u128] {
        &self.flow
    }

    fn excess_of(&self, node: u32) -> i128 {
        self.excess.get(node as usize).copied().unwrap_or(0)
    }

    fn arcs_at(&self, node: u32) -> &[u32] {
        let start = self.first.get(node as usize).copied().unwrap_or(0);
        let end = self.first.get(node as usize + 1).copied().unwrap_or(start);
        self.incident.get(start..end).unwrap_or(&[])
    }

    /// The step from a node along an arc: where it leads, its cost per unit and how many units that
    /// holds for.
    fn step(&self, node: u32, number: u32, forward: bool) -> Option<(u32, i128, u128)> {
        let arc = self.arcs.get(number as usize)?;
        let flow = self.flow.get(number as usize).copied()?;
        if forward {
            let (cost, units) = if flow < arc.observed {
                (-i128::from(arc.lower), arc.observed - flow)
            } else {
                (i128::from(arc.raise), u128::MAX)
            };
            (arc.from == node).then_some((arc.to, cost, units))
        } else {
            let (cost, units) = if flow > arc.observed {
                (-i128::from(arc.raise), flow - arc.observed)
            } else {
                (i128::from(arc.lower), flow)
            };
            (arc.to == node && units != 0).then_some((arc.from, cost, units))
        }
    }

    /// Dijkstra's search from a node to the nearest one that lacks inflow.
    fn nearest_lack(
        &self,
        source: u32,
        potential: &[i128],
        search: &mut Search,
        work: &mut u64,
    ) -> Option<u32> {
        search.round += 1;
        search.finished.clear();
        let round = search.round;
        let mut queue = BinaryHeap::from([Reverse((0u64, source))]);
        set(&mut search.seen, source, round);
        set(&mut search.distance, source, 0);
        set(&mut search.way, source, None);
        while let Some(Reverse((distance, node))) = queue.pop() {
            if get(&search.done, node) == Some(round) {
                continue;
            }
            set(&mut search.done, node, round);
            search.finished.push(node);
            if self.excess_of(node) < 0 {
                return Some(node);
            }
            for &arc in self.arcs_at(node) {
                *work = work.checked_sub(1)?;
                for forward in [true, false] {
                    let Some((next, cost, _)) = self.step(node, arc, forward) else { continue };
                    let here = get(potential, node).unwrap_or(0);
                    let reduced = cost + here - get(potential, next).unwrap_or(0);
                    let next_distance =
                        distance.saturating_add(u64::try_from(reduced).unwrap_or(0));
                    let known = get(&search.seen, next) == Some(round);
                    if known
                        && get(&search.distance, next).is_some_and(|known| known <= next_distance)
                    {
                        continue;
                    }
                    set(&mut search.seen, next, round);
                    set(&mut search.distance, next, next_distance);
                    set(&mut search.way, next, Some(Step { arc, forward }));
                    queue.push(Reverse((next_distance, next)));
                }
            }
        }
        None
    }

    /// Sends as much as fits along the way that was found.
    fn send(&mut self, source: u32, sink: u32, search: &Search) {
        let mut amount = self.excess_of(source).min(-self.excess_of(sink)).unsigned_abs();
        for pass in [false, true] {
            let mut node = sink;
            while let Some(Some(step)) = get(&search.way, node) {
                let Some(arc) = self.arcs.get(step.arc as usize).copied() else { break };
                let before = if step.forward { arc.from } else { arc.to };
                if pass {
                    self.change(step, amount);
                } else if let Some((_, _, units)) = self.step(before, step.arc, step.forward) {
                    amount = amount.min(units);
                }
                node = before;
            }
        }
        self.move_excess(source, sink, amount);
    }

    fn change(&mut self, step: Step, amount: u128) {
        if let Some(flow) = self.flow.get_mut(step.arc as usize) {
            *flow = if step.forward {
                flow.saturating_add(amount)
            } else {
                flow.saturating_sub(amount)
            };
        }
    }

    fn move_excess(&mut self, source: u32, sink: u32, amount: u128) {
        if let Some(excess) = self.excess.get_mut(source as usize) {
            *excess -= amount as i128;
        }
        if let Some(excess) = self.excess.get_mut(sink as usize) {
            *excess += amount as i128;
        }
    }

    /// Sends every excess to the root, and what is lacking from the root, by raising alone.
    fn route_along_trees(&mut self) {
        for to_root in [true, false] {
            let (order, parents) = self.tree(to_root);
            for &node in order.iter().rev() {
                let excess = self.excess_of(node);
                let Some(Some(arc)) = get(&parents, node) else { continue };
                let Some(ends) = self.arcs.get(arc as usize).copied() else { continue };
                if to_root && excess > 0 {
                    self.change(Step { arc, forward: true }, excess.unsigned_abs());
                    self.move_excess(node, ends.to, excess.unsigned_abs());
                } else if !to_root && excess < 0 {
                    self.change(Step { arc, forward: true }, excess.unsigned_abs());
                    self.move_excess(ends.from, node, excess.unsigned_abs());
                }
            }
        }
    }

    /// Nodes in the order in which a search finds them from the root (`to_root`: against the arcs),
    /// each with the arc by which it was found.
    fn tree(&self, to_root: bool) -> (Vec<u32>, Vec<Option<u32>>) {
        let mut parents = vec![None; self.excess.len()];
        let mut found = vec![false; self.excess.len()];
        set(&mut found, self.root, true);
        let mut order = Vec::new();
        let mut queue = VecDeque::from([self.root]);
        while let Some(node) = queue.pop_front() {
            order.push(node);
            for &number in self.arcs_at(node) {
                let Some(arc) = self.arcs.get(number as usize) else { continue };
                let (near, far) = if to_root { (arc.to, arc.from) } else { (arc.from, arc.to) };
                if near == node && get(&found, far) == Some(false) {
                    set(&mut found, far, true);
                    set(&mut parents, far, Some(number));
                    queue.push_back(far);
                }
            }
        }
        (order, parents)
    }
}

/// Keeps all reduced costs at 0 or above after a search that ended at `sink`.
fn raise_potentials(potential: &mut [i128], search: &Search, sink: u32) {
    let farthest = get(&search.distance, sink).unwrap_or(0);
    for &node in &search.finished {
        let distance = get(&search.distance, node).unwrap_or(0);
        if let Some(slot) = potential.get_mut(node as usize) {
            *slot += i128::from(distance) - i128::from(farthest);
        }
    }
}

fn get<T: Copy>(list: &[T], node: u32) -> Option<T> {
    list.get(node as usize).copied()
}

fn set<T>(list: &mut [T], node: u32, value: T) {
    if let Some(slot) = list.get_mut(node as usize) {
        *slot = value;
    }
}
