//! Which pages of the text are executed, and how often, in the recorded image and in a layout.
//!
//! Before: blocks at their addresses. After: the hot clusters from the start of the text, one after
//! another, then the cold parts, then everything else, as [`crate::lay_out`] assumes; the linker's
//! true addresses differ by alignment. The executions of a block count for every page that it lies
//! on. *Hot* are the fewest pages that hold 90 % of all executions, *warm* the others that were
//! executed, *cold* the rest.

use crate::{BlockIndex, Cfg, ClonedFunction, Layout, Params, Placed};
use image::ImageAddr;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// How often a page is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Heat {
    /// Never, as far as was seen.
    Cold,
    /// Seldom.
    Warm,
    /// One of the fewest pages that hold 90 % of the executions.
    Hot,
}

/// A page of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Its first address.
    pub address: ImageAddr,
    /// Executions of the blocks on it.
    pub executions: u128,
    /// Bytes of them on this page.
    pub executed_bytes: u64,
    /// Its class.
    pub heat: Heat,
}

/// The pages of a text in order, cold ones too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeatMap {
    /// Size of a page.
    pub page_bytes: u64,
    /// All pages of the text.
    pub pages: Vec<Page>,
}

impl HeatMap {
    /// How many pages are of a class.
    pub fn count(&self, heat: Heat) -> usize {
        self.pages.iter().filter(|page| page.heat == heat).count()
    }
}

/// The map of the recorded image, whose text is `text`.
pub fn before(cfg: &Cfg, text: Range<ImageAddr>, page_bytes: u64) -> HeatMap {
    let mut sums = Sums::new(page_bytes);
    for block in cfg.functions.iter().flat_map(|function| &function.blocks) {
        sums.add(block.address, block.size, block.frequency);
    }
    sums.finish(text)
}

/// The map of a layout with a text as large as `text`. `cloned` are the functions that
/// [`crate::lay_out_with`] was given.
pub fn after(
    cfg: &Cfg,
    layout: &Layout,
    cloned: &[ClonedFunction],
    params: &Params,
    text: Range<ImageAddr>,
    page_bytes: u64,
) -> HeatMap {
    let mut shares: FxHashMap<(u32, Placed), u64> = FxHashMap::default();
    for function in cloned {
        shares
            .extend(function.blocks.iter().map(|b| ((function.function.0, b.placed), b.frequency)));
    }
    let mut sums = Sums::new(page_bytes);
    let begin = text.start.0 / page_bytes.max(1) * page_bytes.max(1);
    let mut end = begin;
    for at in &layout.hot {
        let Some(of) = layout.functions.get(at.layout as usize) else { continue };
        let (Some(cluster), Some(function)) =
            (of.clusters.get(at.cluster as usize), cfg.function(of.function))
        else {
            continue;
        };
        if cluster.first() == Some(&Placed::ENTRY) {
            end = end.checked_next_multiple_of(u64::from(params.alignment.max(1))).unwrap_or(end);
        }
        for placed in cluster {
            let Some(block) = function.blocks.get(placed.block.0 as usize) else { continue };
            let share = shares.get(&(of.function.0, *placed)).copied();
            let own = if placed.clone == 0 { block.frequency } else { 0 };
            sums.add(ImageAddr(end), block.size, share.unwrap_or(own));
            end = end.saturating_add(u64::from(block.size));
        }
    }
    for &position in &layout.cold {
        let Some(of) = layout.functions.get(position as usize) else { continue };
        let Some(function) = cfg.function(of.function) else { continue };
        for (index, block) in (0..).zip(&function.blocks) {
            let own = Placed { block: BlockIndex(index), clone: 0 };
            if of.clusters.iter().flatten().any(|placed| *placed == own) {
                continue;
            }
            let share = shares.get(&(of.function.0, own)).copied();
            sums.add(ImageAddr(end), block.size, share.unwrap_or(block.frequency));
            end = end.saturating_add(u64::from(block.size));
        }
    }
    sums.finish(ImageAddr(begin)..ImageAddr(text.end.0.max(end)))
}

/// Executions and bytes by page number.
struct Sums {
    page_bytes: u64,
    pages: BTreeMap<u64, (u128, u64)>,
}

impl Sums {
    fn new(page_bytes: u64) -> Sums {
        Sums { page_bytes: page_bytes.max(1), pages: BTreeMap::new() }
    }

    fn add(&mut self, ImageAddr(address): ImageAddr, size: u32, frequency: u64) {
        if frequency == 0 {
            return;
        }
        let end = address.saturating_add(u64::from(size.max(1)));
        for page in address / self.page_bytes..=(end - 1) / self.page_bytes {
            let (begin, next) =
                (page * self.page_bytes, page.saturating_add(1).saturating_mul(self.page_bytes));
            let sum = self.pages.entry(page).or_default();
            sum.0 += u128::from(frequency);
            sum.1 += end.min(next) - address.max(begin);
        }
    }

    fn finish(self, text: Range<ImageAddr>) -> HeatMap {
        let mut order: Vec<(u128, u64)> =
            self.pages.iter().map(|(&page, &(count, _))| (count, page)).collect();
        order.sort_unstable_by_key(|&(count, page)| (std::cmp::Reverse(count), page));
        let all: u128 = order.iter().map(|&(count, _)| count).sum();
        let mut held = 0;
        let mut hot = std::collections::BTreeSet::new();
        for (count, page) in order {
            if held * 10 >= all * 9 {
                break;
            }
            held += count;
            hot.insert(page);
        }
        let first = text.start.0 / self.page_bytes;
        let bounds =
            first..text.end.0.div_ceil(self.page_bytes).min(first.saturating_add(MOST_PAGES));
        // Executed blocks outside of the text (other sections) are shown behind it; the gap between
        // is not.
        let outside = self.pages.keys().copied().filter(|page| !bounds.contains(page));
        let mut numbers: Vec<u64> = bounds.clone().chain(outside).collect();
        numbers.sort_unstable();
        let page = |number: u64| {
            let (executions, executed_bytes) = self.pages.get(&number).copied().unwrap_or_default();
            let heat = match executions {
                0 => Heat::Cold,
                _ if hot.contains(&number) => Heat::Hot,
                _ => Heat::Warm,
            };
            Page { address: ImageAddr(number * self.page_bytes), executions, executed_bytes, heat }
        };
        HeatMap { page_bytes: self.page_bytes, pages: numbers.into_iter().map(page).collect() }
    }
}

/// Pages of the text that are shown cold or not, 4 GiB in pages of 4 KiB; behind them only executed
/// ones are.
const MOST_PAGES: u64 = 1 << 20;

/// The addresses of the code of an image: from the first to the end of the last of its executable
/// sections but those that the linker makes (`.plt`, `.init`, `.fini`).
pub fn text_of(image: &image::Image) -> Range<ImageAddr> {
    let sections = image.sections().iter().filter(|section| {
        section.is_executable()
            && section.size > 0
            && image.section_name(section).starts_with(".text")
    });
    let (mut start, mut end) = (u64::MAX, 0);
    for section in sections {
        start = start.min(section.address.0);
        end = end.max(section.address.0.saturating_add(section.size));
    }
    if start >= end {
        let ranges = image.code_ranges();
        let (first, last) =
            ranges.fold((u64::MAX, 0), |(a, b), r| (a.min(r.start.0), b.max(r.end.0)));
        return ImageAddr(first.min(last))..ImageAddr(last);
    }
    ImageAddr(start)..ImageAddr(end)
}
