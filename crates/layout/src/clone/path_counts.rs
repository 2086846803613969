//! Where control went from a block, by the block it came from.

use counts::Path;
use image::ImageAddr;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

use crate::{BlockIndex, Cfg, Function, FunctionIndex, Place};

/// Windows of three blocks that follow each other: how often control came from the first through
/// the second to the third.
///
/// A block that calls is entered, left and entered again in its middle, so for it nothing may be
/// known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathCounts {
    /// By function, first and second block.
    windows: FxHashMap<(FunctionIndex, BlockIndex, BlockIndex), BTreeMap<BlockIndex, u64>>,
    /// Paths that gave at least one window.
    used: u64,
    /// Executions of these.
    used_count: u64,
}

/// Ranges over more blocks than this are not looked at; straight-line code does not have them.
const MOST_BLOCKS: usize = 4096;

impl PathCounts {
    /// From the paths that were counted in the image of `cfg`.
    pub fn new(cfg: &Cfg, paths: &[Path]) -> Self {
        let table = Table::new(cfg);
        let mut counts = PathCounts::default();
        for path in paths {
            if counts.add(&table, path) {
                counts.used += 1;
                counts.used_count = counts.used_count.saturating_add(path.count);
            }
        }
        counts
    }

    /// From windows that are known; equal ones are added up.
    pub fn from_windows(
        windows: impl IntoIterator<Item = (FunctionIndex, [BlockIndex; 3], u64)>,
    ) -> Self {
        let mut counts = PathCounts::default();
        for (function, [first, second, third], count) in windows {
            counts.window(function, first, second, third, count);
        }
        counts
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// Distinct paths that told something, and their executions.
    pub fn used(&self) -> (u64, u64) {
        (self.used, self.used_count)
    }

    /// Where control went from `block` when it came from `from`, with the count of each.
    pub fn after(
        &self,
        function: FunctionIndex,
        from: BlockIndex,
        block: BlockIndex,
    ) -> Option<&BTreeMap<BlockIndex, u64>> {
        self.windows.get(&(function, from, block))
    }

    fn window(
        &mut self,
        function: FunctionIndex,
        first: BlockIndex,
        second: BlockIndex,
        third: BlockIndex,
        count: u64,
    ) {
        let sum =
            self.windows.entry((function, first, second)).or_default().entry(third).or_default();
        *sum = sum.saturating_add(count);
    }

    /// Adds the windows of one path; `false` if it has none.
    fn add(&mut self, table: &Table<'_>, path: &Path) -> bool {
        let (Some(begin), Some(end)) = (table.find(path.first), table.find(path.last)) else {
            return false;
        };
        let Some(range) = table.spots.get(begin..=end).filter(|range| range.len() <= MOST_BLOCKS)
        else {
            return false;
        };
        let Some(function) = range.first().map(|spot| spot.place.function) else { return false };
        if range.iter().any(|spot| spot.place.function != function) {
            return false;
        }
        let block_at = |address: Option<ImageAddr>| {
            let spot = table.spots.get(table.find(address?)?)?;
            Some((spot.place, Some(spot.start) == address))
                .filter(|(place, _)| place.function == function)
        };
        let mut blocks: Vec<BlockIndex> = Vec::with_capacity(range.len() + 2);
        if let (Some((from, _)), Some((first, true))) =
            (block_at(path.from), block_at(Some(path.first)))
            && table.has_edge(from, first)
        {
            blocks.push(from.block);
        }
        blocks.extend(range.iter().map(|spot| spot.place.block));
        if let (Some((to, true)), Some((last, _))) = (block_at(path.to), block_at(Some(path.last)))
            && table.has_edge(last, to)
        {
            blocks.push(to.block);
        }
        for window in blocks.windows(3) {
            if let [first, second, third] = *window {
                self.window(function, first, second, third, path.count);
            }
        }
        blocks.len() > 2
    }
}

/// A block that is not empty.
struct Spot {
    start: ImageAddr,
    end: ImageAddr,
    place: Place,
}

/// Blocks by address.
struct Table<'a> {
    cfg: &'a Cfg,
    spots: Vec<Spot>,
}

impl<'a> Table<'a> {
    fn new(cfg: &'a Cfg) -> Self {
        let mut spots = Vec::new();
        for (function, of) in (0u32..).map(FunctionIndex).zip(&cfg.functions) {
            for (block, of) in
                (0u32..).map(BlockIndex).zip(&of.blocks).filter(|(_, of)| of.size > 0)
            {
                spots.push(Spot {
                    start: of.address,
                    end: of.end(),
                    place: Place { function, block },
                });
            }
        }
        spots.sort_by_key(|spot| (spot.start, spot.place));
        Table { cfg, spots }
    }

    /// The block that covers an address, as a position in the table.
    fn find(&self, address: ImageAddr) -> Option<usize> {
        let at = self.spots.partition_point(|spot| spot.start <= address).checked_sub(1)?;
        self.spots.get(at).filter(|spot| address < spot.end).map(|_| at)
    }

    fn has_edge(&self, from: Place, to: Place) -> bool {
        let edges = |function: &Function| {
            function
                .edges
                .binary_search_by_key(&(from.block, to.block), |edge| (edge.from, edge.to))
                .is_ok()
        };
        self.cfg.function(from.function).is_some_and(edges)
    }
}
