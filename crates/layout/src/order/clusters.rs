//! Which blocks share a section: the chains of hot blocks, cut where a section must end.
//!
//! Within functions a function is one chain, its entry first. Across functions a chain is cut where
//! the function changes and before entries, and the order keeps its pieces together, so that a
//! block may lie before an entry.

use std::collections::BTreeMap;

use super::params::Params;
use super::problem::{Jump, Node, Problem};
use super::program::{Body, Site, SiteCall};
use super::solve;
use crate::ClusterRef;

/// The hot blocks of all bodies, cut into what one section can hold.
pub(super) struct Clusters {
    /// For each body its clusters, as positions in it: that with the entry first, the others by
    /// their first block.
    pub of_bodies: Vec<Vec<Vec<u32>>>,
    /// Clusters that follow each other wherever the linker puts them: a jump from the last block
    /// of one may fall through into the next, and what comes before an entry stays before it.
    pub runs: Vec<Vec<ClusterRef>>,
}

impl Clusters {
    /// One cluster and one run for each body.
    pub fn alone(bodies: &[Body<'_>], params: &Params) -> Clusters {
        let of_bodies: Vec<Vec<Vec<u32>>> =
            bodies.iter().map(|body| vec![order_body(body, params)]).collect();
        let own = |layout: u32| vec![ClusterRef { layout, cluster: 0 }];
        Clusters { runs: (0..of_bodies.len() as u32).map(own).collect(), of_bodies }
    }
}

/// Adds the hot blocks of a body and the jumps between them to a problem; says which block stands
/// where in it.
fn add_body(body: &Body<'_>, problem: &mut Problem) -> Vec<Option<u32>> {
    let mut nodes = vec![None; body.blocks.len()];
    for (position, block) in body.blocks.iter().enumerate().filter(|(_, block)| block.hot) {
        nodes[position] = Some(problem.nodes.len() as u32);
        problem.nodes.push(Node { size: block.size, frequency: block.frequency });
    }
    for edge in &body.edges {
        if let (Some(from), Some(to)) = (nodes[edge.from as usize], nodes[edge.to as usize]) {
            problem.jumps.push(Jump { from, to, kind: edge.kind, weight: edge.weight });
        }
    }
    nodes
}

/// The hot blocks of a function in their order, as positions in the body.
fn order_body(body: &Body<'_>, params: &Params) -> Vec<u32> {
    let mut problem = Problem { entry: Some(0), ..Problem::default() };
    let nodes = add_body(body, &mut problem);
    let hot: Vec<u32> =
        (0u32..).zip(&nodes).filter(|(_, node)| node.is_some()).map(|(at, _)| at).collect();
    solve::order(&problem, params)
        .into_iter()
        .filter_map(|node| hot.get(node as usize).copied())
        .collect()
}

/// Clusters of each body out of chains across functions: a chain is cut where the function changes
/// and before entries.
pub(super) fn clusters_across(
    bodies: &[Body<'_>],
    calls: &[SiteCall],
    params: &Params,
) -> Clusters {
    let mut problem = Problem::default();
    let mut sites: Vec<Site> = Vec::new();
    let mut nodes = Vec::with_capacity(bodies.len());
    for (at, body) in (0u32..).zip(bodies) {
        let of_body = add_body(body, &mut problem);
        sites.extend(
            (0u32..)
                .zip(&of_body)
                .filter(|(_, node)| node.is_some())
                .map(|(position, _)| (at, position)),
        );
        // Its landing pads have to stay in one section, hence in one cluster.
        if body.blocks.iter().filter(|block| block.landing_pad && block.hot).count() > 1 {
            let alone = order_body(body, params);
            problem.bundles.push(
                alone.into_iter().filter_map(|position| of_body[position as usize]).collect(),
            );
        }
        nodes.push(of_body);
    }
    let node = |site: Site| nodes[site.0 as usize][site.1 as usize];
    for call in calls {
        if let (Some(from), Some(to)) = (node(call.from), node(call.to)) {
            problem.jumps.push(Jump { from, to, kind: call.kind, weight: call.weight });
        }
    }
    let mut of_bodies: Vec<Vec<Vec<u32>>> = vec![Vec::new(); bodies.len()];
    // A cluster is known by its body and first block until all are there.
    let mut runs: Vec<Vec<Site>> = Vec::new();
    for chain in solve::chains(&problem, params) {
        let mut run = Vec::new();
        let mut last = None;
        for site in chain.into_iter().filter_map(|node| sites.get(node as usize).copied()) {
            let of_body = &mut of_bodies[site.0 as usize];
            if last != Some(site.0) || site.1 == 0 {
                of_body.push(Vec::new());
                run.push(site);
            }
            if let Some(cluster) = of_body.last_mut() {
                cluster.push(site.1);
            }
            last = Some(site.0);
        }
        runs.push(run);
    }
    let mut places: BTreeMap<Site, u32> = BTreeMap::new();
    for (layout, of_body) in (0u32..).zip(&mut of_bodies) {
        of_body.sort();
        let firsts =
            (0u32..).zip(of_body.iter()).filter_map(|(at, cluster)| Some((*cluster.first()?, at)));
        places.extend(firsts.map(|(first, at)| ((layout, first), at)));
    }
    // In the order of the functions, as without chains across them.
    let placed = |site: &Site| Some(ClusterRef { layout: site.0, cluster: *places.get(site)? });
    let mut runs: Vec<Vec<ClusterRef>> =
        runs.iter().map(|run| run.iter().filter_map(placed).collect()).collect();
    runs.sort_by_key(|run| run.iter().map(|cluster| (cluster.layout, cluster.cluster)).min());
    Clusters { of_bodies, runs }
}
