//! In which order do the clusters of functions follow each other in the text?
//!
//! Call-chain clustering puts a function behind the one that calls it most, so that a call and its
//! return stay on a page; then the clusters with the most executions per byte come first, so that
//! the hot text is on as few pages as can be. Source: Ottoni and Maher, "Optimizing Function
//! Placement for Large-Scale Data-Center Applications" (CGO 2017, doi:10.1109/CGO.2017.7863743),
//! section 4; the limits below are those of Google's Propeller tools.

/// A run of blocks to place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    /// Bytes.
    pub size: u64,
    /// Sum of executions of its blocks.
    pub frequency: u128,
}

/// Calls from a unit to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arc {
    pub from: u32,
    pub to: u32,
    /// Executions.
    pub weight: u64,
    /// Executions of the block that is called.
    pub target_frequency: u64,
    /// Bytes from the start of the unit to the call.
    pub from_offset: u64,
    /// Bytes from the start of the other unit to the block that is called.
    pub to_offset: u64,
}

/// A cluster does not grow beyond the page that large text is mapped with.
const CLUSTER_BYTES: u64 = 2 << 20;
/// Units with fewer executions per byte, in thousandths, stay alone.
const DENSITY_PER_MILLE: u128 = 5;
/// A caller with fewer than one in so many of the executions of its callee does not draw it.
const CALLER_SHARE: u64 = 10;
/// A cluster takes in another unless its executions per byte would fall by more than this factor.
const DENSITY_LOSS: u128 = 8;

/// Units that follow each other.
pub(super) struct Cluster {
    pub units: Vec<u32>,
    pub size: u64,
    pub frequency: u128,
}

/// Call-chain clustering: the order of all units.
pub(super) fn call_chains(units: &[Unit], arcs: &[Arc]) -> Vec<u32> {
    let count = units.len() as u32;
    let single = |(unit, of): (u32, &Unit)| Cluster {
        units: vec![unit],
        size: of.size,
        frequency: of.frequency,
    };
    let mut clusters: Vec<Cluster> = (0u32..).zip(units).map(single).collect();
    let mut cluster_of: Vec<u32> = (0..count).collect();
    let known = |unit: u32| unit < count;
    let mut arcs: Vec<Arc> =
        arcs.iter().copied().filter(|arc| known(arc.from) && known(arc.to)).collect();
    arcs.retain(|arc| arc.from != arc.to && arc.weight > 0);
    arcs.sort_unstable_by_key(|arc| (arc.to, *arc));
    let mut incoming = vec![0u128; units.len()];
    for arc in &arcs {
        incoming[arc.to as usize] += u128::from(arc.weight);
    }
    let mut called: Vec<u32> = (0..count).collect();
    called.sort_by_key(|&unit| (std::cmp::Reverse(incoming[unit as usize]), unit));
    for unit in called {
        let of = &units[unit as usize];
        if of.frequency * 1000 < DENSITY_PER_MILLE * u128::from(of.size) {
            continue;
        }
        let first = arcs.partition_point(|arc| arc.to < unit);
        let calls = arcs.iter().skip(first).take_while(|arc| arc.to == unit);
        let callee = cluster_of[unit as usize];
        let drawn =
            calls.filter(|arc| arc.weight.saturating_mul(CALLER_SHARE) >= arc.target_frequency);
        let mut callers: Vec<(u32, u64)> =
            drawn.map(|arc| (cluster_of[arc.from as usize], arc.weight)).collect();
        callers.sort_unstable();
        callers.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
        callers.retain(|&(caller, _)| caller != callee && fits(&clusters, caller, callee));
        let best =
            callers.into_iter().max_by_key(|&(caller, weight)| (weight, std::cmp::Reverse(caller)));
        if let Some((caller, _)) = best {
            let moved = std::mem::replace(
                &mut clusters[callee as usize],
                Cluster { units: Vec::new(), size: 0, frequency: 0 },
            );
            for &unit in &moved.units {
                cluster_of[unit as usize] = caller;
            }
            let into = &mut clusters[caller as usize];
            into.units.extend(moved.units);
            into.size += moved.size;
            into.frequency += moved.frequency;
        }
    }
    clusters.retain(|cluster| !cluster.units.is_empty());
    by_density(clusters)
}

/// Whether a cluster may take in another.
fn fits(clusters: &[Cluster], into: u32, other: u32) -> bool {
    let (into, other) = (&clusters[into as usize], &clusters[other as usize]);
    let small = into.size <= CLUSTER_BYTES && other.size <= CLUSTER_BYTES;
    let merged = (into.frequency + other.frequency) * DENSITY_LOSS * u128::from(into.size);
    small && merged >= into.frequency * u128::from(into.size + other.size)
}

/// The units of all clusters, the densest cluster first, equals by their first unit.
pub(super) fn by_density(mut clusters: Vec<Cluster>) -> Vec<u32> {
    clusters.sort_by(|a, b| {
        let bytes = |cluster: &Cluster| u128::from(cluster.size.max(1));
        let density = (b.frequency * bytes(a)).cmp(&(a.frequency * bytes(b)));
        density.then_with(|| a.units.cmp(&b.units))
    });
    clusters.into_iter().flat_map(|cluster| cluster.units).collect()
}
