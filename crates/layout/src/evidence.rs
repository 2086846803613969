//! What was seen of edges, calls and blocks, until a graph is made of it.

use image::ImageAddr;
use rustc_hash::FxHashMap;

use crate::rules::Rules;
use crate::selection::Selection;
use crate::table::{Spot, Table};
use crate::{Block, BlockIndex, CallEdge, CallKind, Cfg, Edge, Function, FunctionIndex, Place};

/// Sums while they grow.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// Edges within a function, from the block to the number of the other.
    edges: FxHashMap<(Spot, u32), u64>,
    calls: FxHashMap<(Spot, Spot, CallKind), u64>,
    /// Executions of call instructions.
    call_sites: FxHashMap<(Spot, ImageAddr), u64>,
    /// Arrivals after call instructions.
    return_sites: FxHashMap<(Spot, ImageAddr), u64>,
    /// Arrivals at the start of a block from code that is not in the graph.
    entered: FxHashMap<Spot, u64>,
    /// Departures from the end of a block to code that is not in the graph.
    left: FxHashMap<Spot, u64>,
}

fn add<K: std::hash::Hash + Eq>(sums: &mut FxHashMap<K, u64>, key: K, count: u64) {
    let sum = sums.entry(key).or_default();
    *sum = sum.saturating_add(count);
}

impl Evidence {
    /// Both blocks are of one function.
    pub(crate) fn edge(&mut self, from: Spot, to: Spot, count: u64) {
        add(&mut self.edges, (from, to.block), count);
    }

    pub(crate) fn call(&mut self, from: Spot, to: Spot, kind: CallKind, count: u64) {
        add(&mut self.calls, (from, to, kind), count);
    }

    pub(crate) fn call_site(&mut self, block: Spot, instruction: ImageAddr, count: u64) {
        add(&mut self.call_sites, (block, instruction), count);
    }

    pub(crate) fn return_site(&mut self, block: Spot, after_call: ImageAddr, count: u64) {
        add(&mut self.return_sites, (block, after_call), count);
    }

    pub(crate) fn entered(&mut self, block: Spot, count: u64) {
        add(&mut self.entered, block, count);
    }

    pub(crate) fn left(&mut self, block: Spot, count: u64) {
        add(&mut self.left, block, count);
    }

    /// The graph of all functions in which anything was executed.
    pub(crate) fn into_cfg(self, table: &Table, selection: &Selection, rules: Rules) -> Cfg {
        let sums = self.sums(table, rules);
        let mut hot: Vec<u32> = sums.keys().copied().collect();
        hot.sort_unstable();
        let indices: FxHashMap<u32, u32> = hot.iter().copied().zip(0u32..).collect();
        let mut cfg = Cfg::default();
        for candidate in &hot {
            let (Some(identity), Some(mapped)) =
                (selection.identity(*candidate), table.candidate(*candidate))
            else {
                continue;
            };
            let frequencies =
                sums.get(candidate).map_or(&[][..], Vec::as_slice).iter().map(Sums::frequency);
            let block =
                |(block, frequency): (&image::blocks::Block, u64)| Block::of(block, frequency);
            cfg.functions.push(Function {
                names: identity.names.clone(),
                section: identity.section.clone(),
                module: identity.module.clone(),
                blocks: mapped.blocks.iter().zip(frequencies).map(block).collect(),
                edges: Vec::new(),
            });
        }
        for ((from, to), weight) in self.edges.into_iter().filter(|&(_, weight)| weight != 0) {
            let function = indices
                .get(&from.candidate)
                .and_then(|&index| cfg.functions.get_mut(index as usize));
            if let Some(function) = function {
                function.edges.push(Edge {
                    from: BlockIndex(from.block),
                    to: BlockIndex(to),
                    weight,
                });
            }
        }
        cfg.functions.iter_mut().for_each(|function| function.edges.sort_unstable());
        let place = |spot: Spot| {
            let function = indices.get(&spot.candidate).copied().map(FunctionIndex)?;
            Some(Place { function, block: BlockIndex(spot.block) })
        };
        let calls = self.calls.into_iter().filter(|&(_, weight)| weight != 0);
        let calls = calls.filter_map(|((from, to, kind), weight)| {
            Some(CallEdge { from: place(from)?, to: place(to)?, kind, weight })
        });
        cfg.calls = calls.collect();
        cfg.calls.sort_unstable();
        cfg
    }

    /// Per candidate with any weight, the sums of each block.
    fn sums(&self, table: &Table, rules: Rules) -> FxHashMap<u32, Vec<Sums>> {
        let mut blocks = BlockSums { table, sums: FxHashMap::default() };
        for (&(from, to), &weight) in &self.edges {
            blocks.with(from, weight, |sums| sums.leaving = sums.leaving.saturating_add(weight));
            let to = Spot { block: to, ..from };
            blocks.with(to, weight, |sums| sums.arriving = sums.arriving.saturating_add(weight));
        }
        for (&(from, to, kind), &weight) in &self.calls {
            blocks.with(from, weight, |sums| match kind {
                CallKind::Call if rules == Rules::Upstream => {
                    sums.calling = sums.calling.max(weight)
                }
                CallKind::Call => {}
                CallKind::TailCall | CallKind::Return => {
                    sums.leaving = sums.leaving.saturating_add(weight)
                }
            });
            blocks.with(to, weight, |sums| match kind {
                CallKind::Return if rules == Rules::Upstream => {
                    sums.returned = sums.returned.max(weight)
                }
                CallKind::Return => {}
                CallKind::Call | CallKind::TailCall => {
                    sums.arriving = sums.arriving.saturating_add(weight)
                }
            });
        }
        if rules == Rules::Upstream {
            return blocks.sums;
        }
        for (&(block, _), &weight) in &self.call_sites {
            blocks.with(block, weight, |sums| sums.calling = sums.calling.max(weight));
        }
        for (&(block, _), &weight) in &self.return_sites {
            blocks.with(block, weight, |sums| sums.returned = sums.returned.max(weight));
        }
        for (&block, &weight) in &self.entered {
            blocks.with(block, weight, |sums| sums.arriving = sums.arriving.saturating_add(weight));
        }
        for (&block, &weight) in &self.left {
            blocks.with(block, weight, |sums| sums.leaving = sums.leaving.saturating_add(weight));
        }
        blocks.sums
    }
}

/// What was seen of one block. Each number is too small where something was not recorded, so the
/// largest counts.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    /// Its most executed call.
    calling: u64,
    /// The most frequent return into it.
    returned: u64,
    leaving: u64,
    arriving: u64,
}

impl Sums {
    fn frequency(&self) -> u64 {
        self.calling.max(self.returned).max(self.leaving).max(self.arriving)
    }
}

struct BlockSums<'t> {
    table: &'t Table,
    sums: FxHashMap<u32, Vec<Sums>>,
}

impl BlockSums<'_> {
    fn with(&mut self, spot: Spot, weight: u64, change: impl FnOnce(&mut Sums)) {
        if weight == 0 {
            return;
        }
        let blocks =
            self.table.candidate(spot.candidate).map_or(0, |candidate| candidate.blocks.len());
        let sums = self.sums.entry(spot.candidate).or_insert_with(|| vec![Sums::default(); blocks]);
        if let Some(sums) = sums.get_mut(spot.block as usize) {
            change(sums);
        }
    }
}
