//! What is a layout worth? Scores, fall-throughs and pages, before and after.
//!
//! Before: the addresses in the image that was recorded. After: the hot clusters one after another
//! from the start of a page, then the cold parts; the linker's true addresses differ by what it
//! aligns and by the code without counts.

use image::ImageAddr;
use std::collections::BTreeMap;

use super::params::Params;
use super::program::{Body, Site, SiteCall};
use super::{JumpKind, Scoring};
use crate::{CallKind, Cfg, Layout, Placed};

/// Pages that executed blocks lie on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pages {
    /// All of them.
    pub touched: u64,
    /// The fewest that hold 90 % of the executions of blocks.
    pub hottest: u64,
}

/// What can be said of an order of the whole program.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    /// Ext-TSP score of jumps within functions.
    pub intra: f64,
    /// Ext-TSP score of calls.
    pub inter: f64,
    /// Executions of jumps within functions that are no taken branches.
    pub fall_throughs: u64,
    /// Executions of jumps within functions that are taken branches.
    pub taken: u64,
    /// Pages of 4 KiB.
    pub small_pages: Pages,
    /// Pages of 2 MiB.
    pub large_pages: Pages,
}

/// What a layout consists of and what it is worth.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LayoutReport {
    /// Functions in the layout.
    pub functions: u64,
    /// Clusters of them.
    pub clusters: u64,
    /// Blocks and clones in a cluster.
    pub hot_blocks: u64,
    /// Their bytes.
    pub hot_bytes: u64,
    /// Blocks of these functions that are in no cluster.
    pub cold_blocks: u64,
    /// Their bytes.
    pub cold_bytes: u64,
    /// Clones among the blocks.
    pub clones: u64,
    /// Blocks and edges of cloned functions that could not be used, because they name what does
    /// not exist or do it twice.
    pub unknown: u64,
    /// In the image that was recorded.
    pub before: Totals,
    /// In this layout.
    pub after: Totals,
}

/// Bytes of a page and of a superpage, on x86-64 and with AArch64's 4 KiB granule.
const SMALL_PAGE: u64 = 4 << 10;
const LARGE_PAGE: u64 = 2 << 20;

/// Fills in the scores of a layout and completes the report.
pub(super) fn measure(
    cfg: &Cfg,
    bodies: &[Body<'_>],
    calls: &[SiteCall],
    params: &Params,
    mut layout: Layout,
    mut report: LayoutReport,
) -> (Layout, LayoutReport) {
    before(cfg, bodies, &mut layout, &params.scoring, &mut report.before);
    let addresses = place(bodies, &layout, params, &mut report);
    after(bodies, calls, &addresses, &mut layout, &params.scoring, &mut report.after);
    report.functions = layout.functions.len() as u64;
    report.clusters = layout.hot.len() as u64;
    (layout, report)
}

/// A jump in the words of the totals.
struct Measured {
    from: u64,
    from_size: u32,
    to: u64,
    to_size: u32,
    kind: JumpKind,
    weight: u64,
}

impl Measured {
    fn distance(&self) -> i64 {
        // Wrapping: addresses of one image are never 2^63 apart, and nothing depends on it if they
        // were.
        let difference = self.to.wrapping_sub(self.from).cast_signed();
        difference.wrapping_add(Scoring::skew(self.kind, self.from_size, self.to_size))
    }

    fn value(&self, scoring: &Scoring) -> f64 {
        scoring.value(self.kind, self.weight as f64, self.distance())
    }

    fn falls_through(&self) -> bool {
        self.kind == JumpKind::Branch && self.distance() == 0
    }
}

impl Totals {
    fn add_intra(&mut self, jump: &Measured, scoring: &Scoring) -> f64 {
        let value = jump.value(scoring);
        self.intra += value;
        match jump.falls_through() {
            true => self.fall_throughs = self.fall_throughs.saturating_add(jump.weight),
            false => self.taken = self.taken.saturating_add(jump.weight),
        }
        value
    }
}

fn before(
    cfg: &Cfg,
    bodies: &[Body<'_>],
    layout: &mut Layout,
    scoring: &Scoring,
    totals: &mut Totals,
) {
    let mut layout_of = vec![None; cfg.functions.len()];
    let mut pages = PageCounts::default();
    for (at, body) in bodies.iter().enumerate() {
        layout_of[body.index.0 as usize] = Some(at);
        let blocks = &body.function.blocks;
        for block in blocks.iter().filter(|block| block.frequency > 0) {
            pages.add(block.address, block.size, block.frequency);
        }
        for edge in &body.function.edges {
            let (from, to) = (blocks.get(edge.from.0 as usize), blocks.get(edge.to.0 as usize));
            let (Some(from), Some(to)) = (from, to) else { continue };
            // The compiler aligns loops with instructions that do nothing; no block of the map
            // holds them.
            let gap = to.address.0.saturating_sub(from.end().0);
            let is_next = edge.to.0 == edge.from.0 + 1 && from.flags.can_fall_through();
            let padding = u32::try_from(gap).ok().filter(|gap| is_next && *gap <= scoring.padding);
            let indirect = from.flags.has_indirect_branch() && !scoring.indirect_falls_through;
            let jump = Measured {
                from: from.address.0,
                from_size: from.size.saturating_add(padding.unwrap_or(0)),
                to: to.address.0,
                to_size: to.size,
                kind: if indirect { JumpKind::Indirect } else { JumpKind::Branch },
                weight: edge.weight,
            };
            layout.functions[at].intra.before += totals.add_intra(&jump, scoring);
        }
    }
    for call in &cfg.calls {
        let kind = match call.kind {
            CallKind::Call => JumpKind::Call,
            CallKind::TailCall => JumpKind::TailCall,
            CallKind::Return => continue,
        };
        let (Some(from), Some(to)) = (cfg.block(call.from), cfg.block(call.to)) else { continue };
        let jump = Measured {
            from: from.address.0,
            from_size: from.size,
            to: to.address.0,
            to_size: to.size,
            kind,
            weight: call.weight,
        };
        let value = jump.value(scoring);
        let caller = layout_of.get(call.from.function.0 as usize).copied().flatten();
        if let Some(function) = caller.and_then(|at| layout.functions.get_mut(at)) {
            function.inter.before += value;
            totals.inter += value;
        }
    }
    (totals.small_pages, totals.large_pages) = pages.totals();
}

/// Addresses of all blocks and clones in the layout, by body and position.
fn place(
    bodies: &[Body<'_>],
    layout: &Layout,
    params: &Params,
    report: &mut LayoutReport,
) -> Vec<Vec<u64>> {
    let mut addresses: Vec<Vec<u64>> =
        bodies.iter().map(|body| vec![u64::MAX; body.blocks.len()]).collect();
    let mut positions = BTreeMap::new();
    for (at, body) in bodies.iter().enumerate() {
        for (position, block) in body.blocks.iter().enumerate() {
            report.clones += u64::from(block.placed.clone > 0);
            positions.insert((at, block.placed), position);
        }
    }
    let mut end = 0u64;
    for cluster in &layout.hot {
        let at = cluster.layout as usize;
        let Some(placed) =
            layout.functions.get(at).and_then(|of| of.clusters.get(cluster.cluster as usize))
        else {
            continue;
        };
        if placed.first() == Some(&Placed::ENTRY) {
            end = end.next_multiple_of(u64::from(params.alignment.max(1)));
        }
        for &placed in placed {
            let Some(&position) = positions.get(&(at, placed)) else { continue };
            let size = bodies[at].blocks[position].size;
            addresses[at][position] = end;
            end += u64::from(size);
            report.hot_blocks += 1;
            report.hot_bytes += u64::from(size);
        }
    }
    for &at in &layout.cold {
        let Some(body) = bodies.get(at as usize) else { continue };
        for (block, address) in body.blocks.iter().zip(&mut addresses[at as usize]) {
            if *address == u64::MAX {
                *address = end;
                end += u64::from(block.size);
                report.cold_blocks += 1;
                report.cold_bytes += u64::from(block.size);
            }
        }
    }
    addresses
}

fn after(
    bodies: &[Body<'_>],
    calls: &[SiteCall],
    addresses: &[Vec<u64>],
    layout: &mut Layout,
    scoring: &Scoring,
    totals: &mut Totals,
) {
    let mut pages = PageCounts::default();
    let measured = |from: Site, to: Site, kind: JumpKind, weight: u64| Measured {
        from: addresses[from.0 as usize][from.1 as usize],
        from_size: bodies[from.0 as usize].blocks[from.1 as usize].size,
        to: addresses[to.0 as usize][to.1 as usize],
        to_size: bodies[to.0 as usize].blocks[to.1 as usize].size,
        kind,
        weight,
    };
    for ((at, body), function) in (0u32..).zip(bodies).zip(&mut layout.functions) {
        for (block, &address) in body.blocks.iter().zip(&addresses[at as usize]) {
            if block.frequency > 0 {
                pages.add(ImageAddr(address), block.size, block.frequency);
            }
        }
        for edge in &body.edges {
            let jump = measured((at, edge.from), (at, edge.to), edge.kind, edge.weight);
            function.intra.after += totals.add_intra(&jump, scoring);
        }
    }
    for call in calls.iter().filter(|call| call.kind != JumpKind::Return) {
        let value = measured(call.from, call.to, call.kind, call.weight).value(scoring);
        totals.inter += value;
        if let Some(function) = layout.functions.get_mut(call.from.0 as usize) {
            function.inter.after += value;
        }
    }
    (totals.small_pages, totals.large_pages) = pages.totals();
}

/// Executions per page of either size.
#[derive(Default)]
struct PageCounts {
    small: BTreeMap<u64, u128>,
    large: BTreeMap<u64, u128>,
}

impl PageCounts {
    fn add(&mut self, ImageAddr(address): ImageAddr, size: u32, frequency: u64) {
        let last = address.saturating_add(u64::from(size.max(1) - 1));
        for (pages, bytes) in [(&mut self.small, SMALL_PAGE), (&mut self.large, LARGE_PAGE)] {
            for page in address / bytes..=last / bytes {
                *pages.entry(page).or_default() += u128::from(frequency);
            }
        }
    }

    fn totals(&self) -> (Pages, Pages) {
        (pages(&self.small), pages(&self.large))
    }
}

fn pages(counts: &BTreeMap<u64, u128>) -> Pages {
    let mut executions: Vec<u128> = counts.values().copied().collect();
    executions.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
    let all: u128 = executions.iter().sum();
    let mut held = 0;
    let mut hottest = 0;
    for count in &executions {
        if held * 10 >= all * 9 {
            break;
        }
        held += count;
        hottest += 1;
    }
    Pages { touched: executions.len() as u64, hottest }
}
