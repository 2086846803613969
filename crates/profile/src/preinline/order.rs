//! In which order functions are looked at: callers before callees, and where functions call each
//! other in a circle, the hottest calls first.
//!
//! Input: the tree of contexts. Its edges are the calls that a context shows, weighed by how often
//! they were taken. Algorithm: Tarjan's strongly connected components ("Depth-first search and
//! linear graph algorithms", 1972), found from functions in the order of their names. Inside a
//! component Kruskal's maximum spanning forest ("On the shortest spanning subtree of a graph",
//! 1956), walked from the functions without callers in it, as Kahn does ("Topological sorting of
//! large networks", 1962). Cost: O(edges · log edges).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::trie::{ROOT, Trie};
use super::{call_count, entries};
use crate::Name;

/// Who calls whom, and how often; every function is there.
type Calls = BTreeMap<Name, BTreeMap<Name, u64>>;

/// All functions of the tree in the order in which they are to be looked at.
pub(super) fn top_down(trie: &Trie) -> Vec<Name> {
    let calls = calls(trie);
    let functions: Vec<&Name> = calls.keys().collect();
    let number =
        |name: &Name| functions.binary_search(&name).unwrap_or_else(|missing| missing) as u32;
    let edges: Vec<Vec<(u32, u64)>> = calls
        .values()
        .map(|callees| callees.iter().map(|(name, weight)| (number(name), *weight)).collect())
        .collect();
    let mut order: Vec<u32> = Vec::with_capacity(functions.len());
    for component in components(&edges) {
        order.extend(hottest_first(component, &edges).into_iter().rev());
    }
    order.reverse();
    order.into_iter().filter_map(|at| functions.get(at as usize).copied().cloned()).collect()
}

fn calls(trie: &Trie) -> Calls {
    let mut calls = Calls::new();
    for id in trie.breadth_first() {
        let Some(node) = trie.node(id) else { continue };
        calls.entry(node.function.clone()).or_default();
        let Some(caller) = trie.node(node.parent).filter(|_| node.parent != ROOT) else { continue };
        let weight = match (trie.counts(node.parent), trie.counts(id)) {
            (Some(caller), Some(callee)) => {
                call_count(caller, node.callsite, &node.function).max(entries(callee))
            }
            _ => 0,
        };
        let callees = calls.entry(caller.function.clone()).or_default();
        let sum = callees.entry(node.function.clone()).or_default();
        *sum = sum.saturating_add(weight);
    }
    calls
}

/// A function on the way of the depth-first search.
struct Visit {
    function: u32,
    next: usize,
    lowest: u32,
}

/// The strongly connected components, callees before callers; in each the function met last first.
fn components(edges: &[Vec<(u32, u64)>]) -> Vec<Vec<u32>> {
    /// Number of a function whose component is complete.
    const DONE: u32 = u32::MAX;
    let mut found = Vec::new();
    let mut numbers = vec![0u32; edges.len()];
    let number_of = |numbers: &[u32], at: u32| numbers.get(at as usize).copied().unwrap_or(DONE);
    let (mut met, mut path, mut visits) = (0u32, Vec::new(), Vec::<Visit>::new());
    for start in 0..edges.len() as u32 {
        let mut enter = (number_of(&numbers, start) == 0).then_some(start);
        loop {
            if let Some(function) = enter.take() {
                met += 1;
                if let Some(number) = numbers.get_mut(function as usize) {
                    *number = met;
                }
                path.push(function);
                visits.push(Visit { function, next: 0, lowest: met });
            }
            let Some(visit) = visits.last_mut() else { break };
            let callees = edges.get(visit.function as usize).map(Vec::as_slice).unwrap_or_default();
            if let Some((callee, _)) = callees.get(visit.next) {
                visit.next += 1;
                match number_of(&numbers, *callee) {
                    0 => enter = Some(*callee),
                    number => visit.lowest = visit.lowest.min(number),
                }
                continue;
            }
            let (function, lowest) = (visit.function, visit.lowest);
            visits.pop();
            if let Some(caller) = visits.last_mut() {
                caller.lowest = caller.lowest.min(lowest);
            }
            if lowest != number_of(&numbers, function) {
                continue;
            }
            let mut component = Vec::new();
            while let Some(member) = path.pop() {
                if let Some(number) = numbers.get_mut(member as usize) {
                    *number = DONE;
                }
                component.push(member);
                if member == function {
                    break;
                }
            }
            found.push(component);
        }
    }
    found
}

/// The functions of one component in the order in which they are to be looked at.
fn hottest_first(component: Vec<u32>, edges: &[Vec<(u32, u64)>]) -> Vec<u32> {
    if component.len() <= 1 {
        return component;
    }
    let members: BTreeSet<u32> = component.iter().copied().collect();
    let mut inside: Vec<(u64, u32, u32)> = Vec::new();
    for from in &component {
        let callees = edges.get(*from as usize).map(Vec::as_slice).unwrap_or_default();
        let kept = callees.iter().filter(|(to, _)| members.contains(to));
        inside.extend(kept.map(|(to, weight)| (*weight, *from, *to)));
    }
    inside.sort_by_key(|(weight, ..)| Reverse(*weight));
    let mut group: BTreeMap<u32, u32> = members.iter().map(|member| (*member, *member)).collect();
    let mut forest: BTreeSet<(u32, u32)> = BTreeSet::new();
    let mut waits_for: BTreeMap<u32, usize> = BTreeMap::new();
    for (_, from, to) in &inside {
        let (a, b) = (root(&mut group, *from), root(&mut group, *to));
        if a != b {
            group.insert(a, b);
            forest.insert((*from, *to));
            *waits_for.entry(*to).or_default() += 1;
        }
    }
    let mut known = BTreeSet::new();
    let free = inside.iter().map(|(_, from, _)| *from);
    let mut next: VecDeque<u32> =
        free.filter(|from| !waits_for.contains_key(from) && known.insert(*from)).collect();
    let mut order = Vec::with_capacity(component.len());
    while let Some(from) = next.pop_front() {
        order.push(from);
        for (to, _) in edges.get(from as usize).map(Vec::as_slice).unwrap_or_default() {
            let Some(waiting) = waits_for.get_mut(to).filter(|_| forest.contains(&(from, *to)))
            else {
                continue;
            };
            *waiting = waiting.saturating_sub(1);
            if *waiting == 0 {
                next.push_back(*to);
            }
        }
    }
    order
}

/// The function that stands for the group of another one.
fn root(group: &mut BTreeMap<u32, u32>, mut at: u32) -> u32 {
    while let Some(above) = group.get(&at).copied().filter(|above| *above != at) {
        let higher = group.get(&above).copied().unwrap_or(above);
        group.insert(at, higher);
        at = above;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callees_come_before_callers_and_circles_stay_together() {
        // 0 calls 1 and 3; 1 and 2 call each other.
        let edges = vec![vec![(1, 5), (3, 1)], vec![(2, 7)], vec![(1, 2)], vec![]];
        assert_eq!(components(&edges), [vec![2, 1], vec![3], vec![0]]);
    }

    #[test]
    fn in_a_circle_the_hottest_call_leads() {
        let edges = vec![vec![(1, 1)], vec![(2, 90)], vec![(0, 50)]];
        assert_eq!(hottest_first(vec![2, 1, 0], &edges), [1, 2, 0]);
    }
}
