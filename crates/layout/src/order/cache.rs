//! In which order do clusters serve small caches best?
//!
//! Clusters are merged greedily, as blocks are. A merge gains what brings calls near: each counts
//! with a small negative power of its distance; and it gains or loses misses of a small cache with
//! random contents, because many cool bytes dilute hot ones. At the end the clusters with the most
//! executions per byte come first.
//!
//! Source of the model and its constants: CDSort in LLVM (`CodeLayout.h`, `CDSortConfig`); see also
//! Hoag, Lee, Mestre and Pupyrev, "Optimizing Function Layout for Mobile Applications" (arXiv
//! 2211.09285). Calls count at their true places in the clusters rather than between functions.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::functions::{Arc, Cluster, Unit, by_density};

/// Entries of the modelled cache (`CacheEntries` of CDSort).
const CACHE_ENTRIES: i32 = 16;
/// Bytes of an entry (`CacheSize`).
const ENTRY_BYTES: f64 = 2048.0;
/// Clusters do not grow beyond so many units (`MaxChainSize`).
const CLUSTER_UNITS: usize = 128;
/// A call over d bytes is worth d to this power (`DistancePower`).
const DISTANCE_POWER: f64 = -0.25;
/// Worth of an avoided miss (`FrequencyScale`).
const MISS_SCALE: f64 = 0.25;

/// An offer to put cluster `second` behind cluster `first`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Offer {
    gain: f64,
    first: u32,
    second: u32,
    /// How often the clusters had changed when it was made.
    changes: (u32, u32),
}

impl Eq for Offer {}

impl Ord for Offer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |offer: &Offer| Reverse((offer.first, offer.second, offer.changes));
        self.gain.total_cmp(&other.gain).then_with(|| key(self).cmp(&key(other)))
    }
}

impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

struct Merging<'a> {
    arcs: &'a [Arc],
    clusters: Vec<Cluster>,
    changes: Vec<u32>,
    /// For each cluster the calls to and from others, as positions in `arcs`.
    between: Vec<BTreeMap<u32, Vec<u32>>>,
    cluster_of: Vec<u32>,
    /// Bytes from the start of its cluster to a unit.
    offset: Vec<u64>,
    executions: f64,
    offers: BinaryHeap<Offer>,
}

/// The order of all units.
pub(super) fn cache_directed(units: &[Unit], arcs: &[Arc]) -> Vec<u32> {
    let count = units.len() as u32;
    let single = |(unit, of): (u32, &Unit)| Cluster {
        units: vec![unit],
        size: of.size,
        frequency: of.frequency,
    };
    let mut merging = Merging {
        arcs,
        clusters: (0u32..).zip(units).map(single).collect(),
        changes: vec![0; units.len()],
        between: vec![BTreeMap::new(); units.len()],
        cluster_of: (0..count).collect(),
        offset: vec![0; units.len()],
        executions: units.iter().map(|unit| unit.frequency as f64).sum(),
        offers: BinaryHeap::new(),
    };
    for (index, arc) in (0u32..).zip(arcs) {
        if arc.from != arc.to && arc.from < count && arc.to < count && arc.weight > 0 {
            merging.between[arc.from as usize].entry(arc.to).or_default().push(index);
            merging.between[arc.to as usize].entry(arc.from).or_default().push(index);
        }
    }
    for first in 0..count {
        let others: Vec<u32> =
            merging.between[first as usize].range(first..).map(|(&other, _)| other).collect();
        for second in others {
            merging.offer(first, second);
        }
    }
    while let Some(offer) = merging.offers.pop() {
        let (first, second) = (offer.first as usize, offer.second as usize);
        if (merging.changes[first], merging.changes[second]) == offer.changes {
            merging.accept(first, second, units);
        }
    }
    merging.clusters.retain(|cluster| !cluster.units.is_empty());
    by_density(merging.clusters)
}

impl Merging<'_> {
    fn offer(&mut self, a: u32, b: u32) {
        let (one, two) = (&self.clusters[a as usize], &self.clusters[b as usize]);
        if one.units.len() + two.units.len() > CLUSTER_UNITS {
            return;
        }
        let Some(arcs) = self.between[a as usize].get(&b) else { return };
        let misses = MISS_SCALE * self.misses_saved(one, two);
        let (mut forward, mut backward) = (misses, misses);
        for &arc in arcs {
            let arc = &self.arcs[arc as usize];
            let from = self.offset[arc.from as usize] + arc.from_offset;
            let to = self.offset[arc.to as usize] + arc.to_offset;
            let worth = |from: u64, to: u64| {
                let distance = from.abs_diff(to).max(1) as f64;
                arc.weight as f64 * distance.powf(DISTANCE_POWER)
            };
            let (in_one, in_two) = (one.size, two.size);
            if self.cluster_of[arc.from as usize] == a {
                forward += worth(from, to + in_one);
                backward += worth(from + in_two, to);
            } else {
                forward += worth(from + in_one, to);
                backward += worth(from, to + in_two);
            }
        }
        let (gain, first, second) =
            if forward >= backward { (forward, a, b) } else { (backward, b, a) };
        if gain > 0.0 {
            let changes = (self.changes[first as usize], self.changes[second as usize]);
            self.offers.push(Offer { gain, first, second, changes });
        }
    }

    /// Expected misses before merging two clusters minus those after.
    fn misses_saved(&self, one: &Cluster, two: &Cluster) -> f64 {
        let misses = |frequency: f64, size: u64| {
            let held = frequency / size.max(1) as f64 * ENTRY_BYTES / self.executions.max(1.0);
            frequency * (1.0 - held).max(0.0).powi(CACHE_ENTRIES)
        };
        let (a, b) = (one.frequency as f64, two.frequency as f64);
        misses(a, one.size) + misses(b, two.size) - misses(a + b, one.size + two.size)
    }

    fn accept(&mut self, first: usize, second: usize, units: &[Unit]) {
        let moved = std::mem::replace(
            &mut self.clusters[second],
            Cluster { units: Vec::new(), size: 0, frequency: 0 },
        );
        let mut end = self.clusters[first].size;
        for &unit in &moved.units {
            self.cluster_of[unit as usize] = first as u32;
            self.offset[unit as usize] = end;
            end += units[unit as usize].size;
        }
        let into = &mut self.clusters[first];
        into.units.extend(moved.units);
        into.size = end;
        into.frequency += moved.frequency;
        self.changes[first] += 1;
        self.changes[second] += 1;
        for (other, arcs) in std::mem::take(&mut self.between[second]) {
            self.between[other as usize].remove(&(second as u32));
            if other as usize != first {
                self.between[other as usize].entry(first as u32).or_default().extend(&arcs);
                self.between[first].entry(other).or_default().extend(arcs);
            }
        }
        let others: Vec<u32> = self.between[first].keys().copied().collect();
        for other in others {
            self.offer(first as u32, other);
        }
    }
}
