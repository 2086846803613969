//! A program's layout: problems out of functions, clusters out of orders, and the order of
//! clusters.

use std::collections::BTreeMap;

use super::cache;
use super::clusters::{Clusters, clusters_across};
use super::functions::{self, Arc, Unit};
use super::measure::{self, LayoutReport};
use super::params::{FunctionOrder, Mode, Params};
use super::{JumpKind, Scoring};
use crate::{
    BlockIndex, CallKind, Cfg, ClonePath, ClusterRef, Function, FunctionIndex, FunctionLayout,
    Layout, Placed, Score,
};

/// A block or clone with its share of the executions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedBlock {
    /// Which one.
    pub placed: Placed,
    /// Executions.
    pub frequency: u64,
}

/// A jump between blocks or clones of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlacedEdge {
    /// What is left.
    pub from: Placed,
    /// What is entered.
    pub to: Placed,
    /// Executions.
    pub weight: u64,
}

/// A function with clones: executions and jumps as they are shared among blocks and their clones.
/// It replaces the blocks' frequencies and the edges of the function in the graph; calls are shared
/// in proportion to frequencies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClonedFunction {
    /// The function.
    pub function: FunctionIndex,
    /// Which blocks are cloned along which paths.
    pub paths: Vec<ClonePath>,
    /// Every block of the function and every clone, each once.
    pub blocks: Vec<PlacedBlock>,
    /// Every jump with its executions.
    pub edges: Vec<PlacedEdge>,
}

/// A block or clone in a [`Body`].
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyBlock {
    pub placed: Placed,
    pub size: u32,
    pub frequency: u64,
    pub indirect: bool,
    pub landing_pad: bool,
    pub hot: bool,
}

/// A function as it is laid out, with clones.
pub(super) struct Body<'a> {
    pub index: FunctionIndex,
    pub function: &'a Function,
    pub paths: Vec<ClonePath>,
    /// The blocks by index, then the clones.
    pub blocks: Vec<BodyBlock>,
    pub edges: Vec<BodyEdge>,
}

/// A jump within a body, by positions in [`Body::blocks`].
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyEdge {
    pub from: u32,
    pub to: u32,
    pub weight: u64,
    pub kind: JumpKind,
}

/// A block or clone of the program: position among the bodies, position in the body.
pub(super) type Site = (u32, u32);

/// A call or return between blocks and clones.
#[derive(Debug, Clone, Copy)]
pub(super) struct SiteCall {
    pub from: Site,
    pub to: Site,
    pub kind: JumpKind,
    pub weight: u64,
}

/// Lays out the hot functions of a program.
pub fn lay_out(cfg: &Cfg, params: &Params) -> (Layout, LayoutReport) {
    lay_out_with(cfg, &[], params)
}

/// The same with clones in some functions. What a clone says of blocks that do not exist is left
/// out and counted.
pub fn lay_out_with(
    cfg: &Cfg,
    clones: &[ClonedFunction],
    params: &Params,
) -> (Layout, LayoutReport) {
    let mut report = LayoutReport::default();
    let by_function: BTreeMap<FunctionIndex, &ClonedFunction> =
        clones.iter().map(|cloned| (cloned.function, cloned)).collect();
    let mut bodies = Vec::new();
    for (index, function) in (0u32..).map(FunctionIndex).zip(&cfg.functions) {
        let mut body = body(index, function, by_function.get(&index).copied(), params, &mut report);
        if mark_hot(&mut body, params) {
            bodies.push(body);
        }
    }
    let calls = share_calls(cfg, &bodies);
    let clusters = match params.mode {
        Mode::PerFunction => Clusters::alone(&bodies, params),
        Mode::InterFunction => clusters_across(&bodies, &calls, params),
    };
    let mut layout = assemble(&bodies, clusters, &calls, params);
    if params.keep_whole {
        layout.keep_whole(cfg);
    }
    measure::measure(cfg, &bodies, &calls, params, layout, report)
}

fn body<'a>(
    index: FunctionIndex,
    function: &'a Function,
    cloned: Option<&ClonedFunction>,
    params: &Params,
    report: &mut LayoutReport,
) -> Body<'a> {
    let block = |placed: Placed, frequency: u64| {
        let of = function.blocks.get(placed.block.0 as usize)?;
        Some(BodyBlock {
            placed,
            size: of.size,
            frequency,
            indirect: of.flags.has_indirect_branch() && !params.scoring.indirect_falls_through,
            landing_pad: of.flags.is_landing_pad(),
            hot: false,
        })
    };
    let own = |index: u32| Placed { block: BlockIndex(index), clone: 0 };
    let mut blocks: Vec<BodyBlock> = Vec::with_capacity(function.blocks.len());
    blocks
        .extend((0u32..).zip(&function.blocks).filter_map(|(at, of)| block(own(at), of.frequency)));
    let mut positions: BTreeMap<Placed, u32> = BTreeMap::new();
    let originals = blocks.len() as u32;
    for cloned in cloned.iter().flat_map(|cloned| &cloned.blocks) {
        let Some(clone) = block(cloned.placed, cloned.frequency) else {
            report.unknown += 1;
            continue;
        };
        if clone.placed.clone == 0 {
            blocks[clone.placed.block.0 as usize].frequency = clone.frequency;
        } else if let std::collections::btree_map::Entry::Vacant(vacant) =
            positions.entry(clone.placed)
        {
            vacant.insert(blocks.len() as u32);
            blocks.push(clone);
        } else {
            report.unknown += 1;
        }
    }
    let position = |placed: Placed| match placed.clone {
        0 => Some(placed.block.0).filter(|&block| block < originals),
        _ => positions.get(&placed).copied(),
    };
    let all: Vec<PlacedEdge> = match cloned {
        Some(cloned) => cloned.edges.clone(),
        None => {
            let edge = |edge: &crate::Edge| PlacedEdge {
                from: own(edge.from.0),
                to: own(edge.to.0),
                weight: edge.weight,
            };
            function.edges.iter().map(edge).collect()
        }
    };
    let mut edges = Vec::with_capacity(all.len());
    for edge in all {
        let (Some(from), Some(to)) = (position(edge.from), position(edge.to)) else {
            report.unknown += 1;
            continue;
        };
        let kind =
            if blocks[from as usize].indirect { JumpKind::Indirect } else { JumpKind::Branch };
        edges.push(BodyEdge { from, to, weight: edge.weight, kind });
    }
    let paths = cloned.map(|cloned| cloned.paths.clone()).unwrap_or_default();
    Body { index, function, paths, blocks, edges }
}

/// Decides which blocks are hot; `false` if none is.
///
/// The entry goes with the hot ones. The compiler wants all landing pads of a function in one
/// section, so that one hot landing pad takes the others with it.
fn mark_hot(body: &mut Body<'_>, params: &Params) -> bool {
    let executed = |block: &BodyBlock| block.frequency >= params.cold_below.max(1);
    let hot_pad = body.blocks.iter().any(|block| block.landing_pad && executed(block));
    let mut any = false;
    for block in &mut body.blocks {
        block.hot = executed(block);
        any |= block.hot;
        block.hot |= block.landing_pad && hot_pad;
    }
    if let Some(entry) = body.blocks.first_mut() {
        entry.hot = true;
    }
    any
}

/// Calls between blocks become calls between blocks and clones, shared in proportion to
/// frequencies.
fn share_calls(cfg: &Cfg, bodies: &[Body<'_>]) -> Vec<SiteCall> {
    let mut sites: BTreeMap<(u32, u32), Vec<(Site, u64)>> = BTreeMap::new();
    let mut position_of = vec![None; cfg.functions.len()];
    for (at, body) in (0u32..).zip(bodies) {
        position_of[body.index.0 as usize] = Some(at);
        if body.blocks.len() == body.function.blocks.len() {
            continue;
        }
        for (position, block) in (0u32..).zip(&body.blocks) {
            let key = (body.index.0, block.placed.block.0);
            sites.entry(key).or_default().push(((at, position), block.frequency));
        }
    }
    let shares = |place: crate::Place, weight: u64| -> Vec<(Site, u64)> {
        let Some(at) = position_of.get(place.function.0 as usize).copied().flatten() else {
            return Vec::new();
        };
        match sites.get(&(place.function.0, place.block.0)) {
            None => vec![((at, place.block.0), weight)],
            Some(copies) => share(copies, weight),
        }
    };
    let mut calls = Vec::with_capacity(cfg.calls.len());
    for call in cfg
        .calls
        .iter()
        .filter(|call| cfg.block(call.from).is_some() && cfg.block(call.to).is_some())
    {
        let kind = match call.kind {
            CallKind::Call => JumpKind::Call,
            CallKind::TailCall => JumpKind::TailCall,
            CallKind::Return => JumpKind::Return,
        };
        for (from, weight) in shares(call.from, call.weight) {
            for (to, weight) in shares(call.to, weight) {
                calls.push(SiteCall { from, to, kind, weight });
            }
        }
    }
    calls
}

/// A weight divided among copies in proportion to their frequencies; what rounding leaves goes to
/// the first.
fn share(copies: &[(Site, u64)], weight: u64) -> Vec<(Site, u64)> {
    let total: u128 = copies.iter().map(|&(_, frequency)| u128::from(frequency)).sum();
    let part = |frequency: u64| {
        (u128::from(weight) * u128::from(frequency)).checked_div(total).unwrap_or(0) as u64
    };
    let mut shared: Vec<(Site, u64)> =
        copies.iter().map(|&(site, frequency)| (site, part(frequency))).collect();
    let given: u64 = shared.iter().map(|&(_, part)| part).sum();
    if let Some(first) = shared.first_mut() {
        first.1 += weight - given;
    }
    shared.retain(|&(_, part)| part > 0);
    shared
}

/// Orders the clusters and puts the layout together, yet without scores.
fn assemble(
    bodies: &[Body<'_>],
    clusters: Clusters,
    calls: &[SiteCall],
    params: &Params,
) -> Layout {
    let Clusters { of_bodies: clusters, runs } = clusters;
    let mut units = Vec::with_capacity(runs.len());
    // For each block of a body its unit, which is a run, and the bytes before it in the unit.
    let mut unit_of: Vec<Vec<Option<(u32, u64)>>> =
        bodies.iter().map(|body| vec![None; body.blocks.len()]).collect();
    for run in &runs {
        let mut unit = Unit { size: 0, frequency: 0 };
        for cluster in run {
            let at = cluster.layout as usize;
            for &position in &clusters[at][cluster.cluster as usize] {
                let block = &bodies[at].blocks[position as usize];
                unit_of[at][position as usize] = Some((units.len() as u32, unit.size));
                unit.size += u64::from(block.size);
                unit.frequency += u128::from(block.frequency);
            }
        }
        units.push(unit);
    }
    let block = |site: Site| &bodies[site.0 as usize].blocks[site.1 as usize];
    let arc = |call: &SiteCall| -> Option<Arc> {
        let (from, from_offset) = unit_of[call.from.0 as usize][call.from.1 as usize]?;
        let (to, to_offset) = unit_of[call.to.0 as usize][call.to.1 as usize]?;
        let skew = -Scoring::skew(call.kind, block(call.from).size, block(call.to).size);
        Some(Arc {
            from,
            to,
            weight: call.weight,
            target_frequency: block(call.to).frequency,
            from_offset: from_offset + skew.unsigned_abs(),
            to_offset,
        })
    };
    let forward = calls.iter().filter(|call| call.kind != JumpKind::Return);
    let arcs: Vec<Arc> = forward.filter_map(arc).collect();
    let ordered = match params.function_order {
        FunctionOrder::Input => (0..units.len() as u32).collect(),
        FunctionOrder::CallChains => functions::call_chains(&units, &arcs),
        FunctionOrder::CacheDirected => cache::cache_directed(&units, &arcs),
    };
    let hot: Vec<ClusterRef> =
        ordered.into_iter().filter_map(|unit| runs.get(unit as usize)).flatten().copied().collect();
    let mut cold = Vec::new();
    let mut seen = vec![false; bodies.len()];
    for cluster in &hot {
        let at = cluster.layout as usize;
        if std::mem::replace(&mut seen[at], true) {
            continue;
        }
        let hot_blocks: usize = clusters[at].iter().map(Vec::len).sum();
        if hot_blocks < bodies[at].blocks.len() {
            cold.push(cluster.layout);
        }
    }
    let mut functions = Vec::with_capacity(bodies.len());
    for (body, of_body) in bodies.iter().zip(clusters) {
        let placed = |positions: Vec<u32>| -> Vec<Placed> {
            positions.into_iter().map(|position| body.blocks[position as usize].placed).collect()
        };
        functions.push(FunctionLayout {
            function: body.index,
            clones: body.paths.clone(),
            clusters: of_body.into_iter().map(placed).collect(),
            intra: Score::default(),
            inter: Score::default(),
        });
    }
    Layout { functions, hot, cold }
}
