//! Greedy merging of chains by Ext-TSP: from a block each to few long chains.
//!
//! Input: a graph. Output: chains that hold every block once, the entry first in its chain. At each
//! step the two chains whose merging gains most become one; see `merge` for the ways to merge.
//! Equal gains are decided by the label of a chain, which is its smallest block at the start.
//!
//! Cost: a heap holds for each pair of joined chains what merging would gain. After a merge the
//! pairs of the new chain are computed again; of a chain with many neighbours only those that its
//! smaller part brought, the others when they come to the top. With the bounds in [`Params`] the
//! work grows nearly linearly with the number of jumps. Source: Newell and Pupyrev (arXiv
//! 1809.04676), section 4.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::Params;
use super::bundles::Bundles;
use super::graph::Graph;
use super::merge::{Chain, Limits, Merge, Pair, Position, Way};

/// A chain with more neighbours than this has those of its larger part computed again only when it
/// matters: a bound of the cost, which changes no gain.
const EAGER_NEIGHBOURS: usize = 64;

/// What is known about merging two joined chains.
#[derive(Debug, Default)]
struct Joint {
    /// Jumps between the two, as positions in [`Graph::links`].
    between: Vec<u32>,
    /// The entry of the heap with this number is the valid one; 0: there is none.
    ticket: u32,
    /// The chains changed since the gain was computed.
    stale: bool,
}

/// An offer in the heap: ordered by gain, then the smaller labels of S and U, then way and split.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Offer {
    merge: Merge,
    labels: (u32, u32),
    s: u32,
    u: u32,
    joint: u32,
    ticket: u32,
}

impl Eq for Offer {}

impl Ord for Offer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |offer: &Offer| {
            (Reverse(offer.labels), offer.merge.way, offer.merge.split, offer.ticket)
        };
        self.merge.gain.total_cmp(&other.merge.gain).then_with(|| key(self).cmp(&key(other)))
    }
}

impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The chains of a graph while they are merged.
pub(super) struct Chains<'a> {
    graph: &'a Graph<'a>,
    limits: Limits,
    chain_blocks: usize,
    density_ratio: f64,
    chains: Vec<Chain>,
    /// Smallest block of a chain at the start; stays with S.
    labels: Vec<u32>,
    /// For each chain its joints by the other chain.
    neighbours: Vec<BTreeMap<u32, u32>>,
    joints: Vec<Joint>,
    positions: Vec<Position>,
    glued: Vec<bool>,
    offers: BinaryHeap<Offer>,
    tickets: u32,
}

impl<'a> Chains<'a> {
    /// Merges as long as something is gained.
    pub fn merge(graph: &'a Graph<'a>, params: &Params) -> Self {
        let mut chains = Chains::new(graph, params);
        for chain in 0..chains.chains.len() as u32 {
            let joined: Vec<(u32, u32)> = chains.neighbours[chain as usize]
                .range(chain..)
                .map(|(&other, &joint)| (other, joint))
                .collect();
            for (other, joint) in joined {
                chains.offer(chain, other, joint);
            }
        }
        loop {
            while let Some(offer) = chains.offers.pop() {
                let joint = &chains.joints[offer.joint as usize];
                if joint.ticket != offer.ticket {
                    continue;
                }
                if joint.stale {
                    chains.offer(offer.s, offer.u, offer.joint);
                } else {
                    chains.accept(offer);
                }
            }
            if !chains.offer_stale() {
                return chains;
            }
        }
    }

    fn new(graph: &'a Graph<'a>, params: &Params) -> Self {
        let bundles = Bundles::new(graph);
        let mut positions = vec![Position::default(); graph.len()];
        let mut chains = Vec::with_capacity(bundles.paths.len());
        let mut labels = Vec::with_capacity(bundles.paths.len());
        for path in bundles.paths {
            labels.push(path.first().copied().unwrap_or(0));
            let mut chain = Chain::default();
            for (index, &node) in path.iter().enumerate() {
                let id = chains.len() as u32;
                positions[node as usize] =
                    Position { chain: id, index: index as u32, offset: chain.size };
                chain.size += graph.size(node);
                chain.frequency += u128::from(graph.problem.nodes[node as usize].frequency);
            }
            chain.nodes = path;
            chains.push(chain);
        }
        let mut neighbours = vec![BTreeMap::new(); chains.len()];
        let mut joints: Vec<Joint> = Vec::new();
        for (index, link) in graph.links.iter().enumerate() {
            let (a, b) = (positions[link.from as usize].chain, positions[link.to as usize].chain);
            if a == b {
                chains[a as usize].within.push(index as u32);
                continue;
            }
            let joint = *neighbours[a as usize].entry(b).or_insert_with(|| {
                joints.push(Joint::default());
                joints.len() as u32 - 1
            });
            neighbours[b as usize].insert(a, joint);
            joints[joint as usize].between.push(index as u32);
        }
        Chains {
            graph,
            limits: Limits {
                try_all_splits: params.try_all_splits,
                swap_halves: params.swap_halves,
            },
            chain_blocks: params.chain_blocks as usize,
            density_ratio: params.density_ratio,
            chains,
            labels,
            neighbours,
            joints,
            positions,
            glued: bundles.inside,
            offers: BinaryHeap::new(),
            tickets: 0,
        }
    }

    /// Computes the best way to merge two chains, either of them split, and offers it if it gains.
    fn offer(&mut self, a: u32, b: u32, joint_id: u32) {
        let mut best: Option<Offer> = None;
        let (one, two) = (&self.chains[a as usize], &self.chains[b as usize]);
        let fits = one.nodes.len() + two.nodes.len() <= self.chain_blocks
            && one.is_about_as_dense_as(two, self.density_ratio);
        let orders: &[(u32, u32)] = if fits { &[(a, b), (b, a)] } else { &[] };
        for &(s, u) in orders {
            let pair = Pair {
                graph: self.graph,
                positions: &self.positions,
                glued: &self.glued,
                s: &self.chains[s as usize],
                u: &self.chains[u as usize],
                s_id: s,
                between: &self.joints[joint_id as usize].between,
            };
            if let Some(merge) = pair.best(self.graph.problem.entry, self.limits) {
                let labels = (self.labels[s as usize], self.labels[u as usize]);
                let offer =
                    Offer { merge, labels, s, u, joint: joint_id, ticket: self.tickets + 1 };
                best = best.max(Some(offer));
            }
        }
        let joint = &mut self.joints[joint_id as usize];
        joint.stale = false;
        joint.ticket = 0;
        if let Some(offer) = best {
            self.tickets += 1;
            joint.ticket = self.tickets;
            self.offers.push(offer);
        }
    }

    /// Offers again what was put off and is not in the heap; `false` if there was nothing.
    fn offer_stale(&mut self) -> bool {
        let mut stale = Vec::new();
        for (chain, neighbours) in self.neighbours.iter().enumerate() {
            for (&other, &joint) in neighbours.range(chain as u32..) {
                if self.joints[joint as usize].stale {
                    stale.push((chain as u32, other, joint));
                }
            }
        }
        for &(a, b, joint) in &stale {
            self.offer(a, b, joint);
        }
        !stale.is_empty()
    }

    /// Merges two chains; the one with more neighbours keeps its identity, which saves work.
    fn accept(&mut self, offer: Offer) {
        let (s, u) = (offer.s as usize, offer.u as usize);
        let (keep, gone) =
            if self.neighbours[s].len() >= self.neighbours[u].len() { (s, u) } else { (u, s) };
        let split = (offer.merge.split as usize).min(self.chains[s].nodes.len());
        let mut one = std::mem::take(&mut self.chains[s]);
        let other = std::mem::take(&mut self.chains[u]);
        let two = one.nodes.split_off(split);
        let pieces: [Vec<u32>; 3] = match offer.merge.way {
            Way::Append => [one.nodes, two, other.nodes],
            Way::Insert => [one.nodes, other.nodes, two],
            Way::SwapAppend => [two, one.nodes, other.nodes],
            Way::PrependSwap => [other.nodes, two, one.nodes],
            Way::SwapAround => [two, other.nodes, one.nodes],
        };
        let [mut nodes, second, third] = pieces;
        // What lies in front and has kept its identity has kept its place.
        let unmoved = if keep == s && matches!(offer.merge.way, Way::Append | Way::Insert) {
            nodes.len()
        } else {
            0
        };
        nodes.extend(second);
        nodes.extend(third);
        let (mut within, less) = if one.within.len() >= other.within.len() {
            (one.within, other.within)
        } else {
            (other.within, one.within)
        };
        within.extend(less);
        within.append(&mut self.joints[offer.joint as usize].between);
        self.chains[keep] = Chain {
            nodes,
            size: one.size + other.size,
            frequency: one.frequency + other.frequency,
            within,
        };
        self.labels[keep] = self.labels[s];
        self.place(keep, unmoved);
        self.join(keep, gone);
    }

    /// Writes down where the blocks of a chain are, from a position on.
    fn place(&mut self, chain: usize, from: usize) {
        let nodes = &self.chains[chain].nodes;
        let mut offset = match from.checked_sub(1).and_then(|last| nodes.get(last)) {
            Some(&last) => self.positions[last as usize].offset + self.graph.size(last),
            None => 0,
        };
        for (index, &node) in nodes.iter().enumerate().skip(from) {
            self.positions[node as usize] =
                Position { chain: chain as u32, index: index as u32, offset };
            offset += self.graph.size(node);
        }
    }

    /// Gives the neighbours of a chain that is gone to the one that took it in, and offers anew.
    fn join(&mut self, keep: usize, gone: usize) {
        let brought = std::mem::take(&mut self.neighbours[gone]);
        self.neighbours[keep].remove(&(gone as u32));
        let mut again = Vec::with_capacity(brought.len());
        for (other, joint) in brought {
            if other as usize == keep {
                self.joints[joint as usize].ticket = 0;
                continue;
            }
            self.neighbours[other as usize].remove(&(gone as u32));
            let kept = match self.neighbours[keep].get(&other) {
                Some(&kept) => {
                    let mut more = std::mem::take(&mut self.joints[joint as usize].between);
                    self.joints[joint as usize].ticket = 0;
                    let between = &mut self.joints[kept as usize].between;
                    if between.len() < more.len() {
                        std::mem::swap(between, &mut more);
                    }
                    between.extend(more);
                    kept
                }
                None => {
                    self.neighbours[keep].insert(other, joint);
                    self.neighbours[other as usize].insert(keep as u32, joint);
                    joint
                }
            };
            again.push((other, kept));
        }
        if self.neighbours[keep].len() <= EAGER_NEIGHBOURS {
            again = self.neighbours[keep].iter().map(|(&other, &joint)| (other, joint)).collect();
        } else {
            for &joint in self.neighbours[keep].values() {
                self.joints[joint as usize].stale = true;
            }
        }
        for (other, joint) in again {
            self.offer(keep as u32, other, joint);
        }
    }
}

/// The chains, the entry's first and the others by executions per byte, the densest first, then by
/// label.
pub(super) fn by_density(chains: Chains<'_>) -> Vec<Vec<u32>> {
    let entry = chains.graph.problem.entry;
    let mut sorted: Vec<(Chain, u32)> = chains.chains.into_iter().zip(chains.labels).collect();
    sorted.retain(|(chain, _)| !chain.nodes.is_empty());
    sorted.sort_by(|(a, a_label), (b, b_label)| {
        let not_entry = |chain: &Chain| entry.is_none() || chain.nodes.first().copied() != entry;
        let bytes = |chain: &Chain| chain.size.max(1) as u128;
        // a.frequency / a.size against b.frequency / b.size, without rounding.
        let density = (b.frequency * bytes(a)).cmp(&(a.frequency * bytes(b)));
        not_entry(a).cmp(&not_entry(b)).then(density).then(a_label.cmp(b_label))
    });
    sorted.into_iter().map(|(chain, _)| chain.nodes).collect()
}
