//! Is a layout really in a program? Symbols, and the address map where there is one, of the program
//! that was linked anew.
//!
//! Input: the graph and layout that were written, and the new image. Output: how many of the
//! sections stand where they should, and the first that do not. Sections stand in order when their
//! addresses ascend as the layout lists them; of those that do not, as few as possible are called
//! misplaced (the complement of a longest ascending subsequence). With an address map, the numbers
//! of the blocks in each section are compared too. Cost: n log n.

use crate::write::order::{Part, Piece, pieces, symbol};
use crate::write::{Error, order};
use crate::{BlockIndex, Cfg, Function, Layout, Placed};
use image::blocks::{BlockRange, FunctionBlocks};
use image::{Image, ImageAddr};
use rustc_hash::{FxHashMap, FxHashSet};

/// What the image was built with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// The cc profile and the ld profile: sections of functions.
    Sections,
    /// An order of functions alone.
    Functions,
}

/// What is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deviation {
    /// No symbol of that name: the function was not compiled again, is inlined everywhere, or was
    /// not split.
    Missing,
    /// Several symbols of that name, and nothing tells which is meant.
    Ambiguous,
    /// It stands before something that should stand before it.
    Misplaced {
        /// The symbol that stands after it and should not.
        before: String,
    },
    /// Its section holds other blocks, or in another order: the code or the flags changed since the
    /// recording.
    Blocks {
        /// Numbers as the layout has them.
        expected: Vec<u32>,
        /// Numbers as the image has them.
        found: Vec<u32>,
    },
    /// The compiler moved its landing pads to a section of their own.
    LandingPads,
}

impl std::fmt::Display for Deviation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |ids: &[u32]| {
            let shown: Vec<String> = ids.iter().take(12).map(ToString::to_string).collect();
            shown.join(" ") + if ids.len() > 12 { " …" } else { "" }
        };
        match self {
            Deviation::Missing => f.write_str(
                "no such symbol; not compiled with the cc profile, or inlined everywhere",
            ),
            Deviation::Ambiguous => f.write_str(
                "several symbols of this name; build with unique names for static functions",
            ),
            Deviation::Misplaced { before } => {
                write!(f, "stands before {before}, expected after it")
            }
            Deviation::Blocks { expected, found } => {
                write!(f, "expected blocks {}, found {}", list(expected), list(found))
            }
            Deviation::LandingPads => {
                f.write_str("its landing pads were moved to a section of their own (`.eh`)")
            }
        }
    }
}

/// Whether a layout was applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// Sections (or functions) that the layout asks for, but those of functions that only their
    /// files tell apart.
    pub asked: u64,
    /// Of them found by one symbol.
    pub found: u64,
    /// Of those found, in the order asked for.
    pub in_order: u64,
    /// Sections whose blocks were compared with the address map; 0 without one.
    pub compared: u64,
    /// Of them with the blocks asked for.
    pub same_blocks: u64,
    /// Functions of the layout that were not looked for, since only their files tell them from
    /// others of their name.
    pub not_checked: u64,
    /// Executions of their blocks.
    pub not_checked_executions: u64,
    /// Executions of the blocks of all functions of the layout.
    pub executions: u64,
    /// Bytes of the hot sections that were found.
    pub hot_bytes: u64,
    /// Bytes from the first to the end of the last of them.
    pub hot_span: u64,
    /// The first deviations: the symbol, and what is wrong with it.
    pub deviations: Vec<(String, Deviation)>,
    /// How many there are.
    pub deviation_count: u64,
}

impl Verification {
    /// Whether everything that was looked for stands where it should. Where nothing could be looked
    /// for, it does not.
    pub fn is_applied(&self) -> bool {
        self.deviation_count == 0 && (self.asked > 0 || self.not_checked == 0)
    }

    fn deviates(&mut self, limit: usize, symbol: String, deviation: Deviation) {
        self.deviation_count += 1;
        if self.deviations.len() < limit {
            self.deviations.push((symbol, deviation));
        }
    }
}

/// A symbol that should be in the image.
struct Asked<'c> {
    function: &'c Function,
    part: Part,
    hot: bool,
    /// Numbers of its blocks; `None` for functions that are not split.
    blocks: Option<Vec<u32>>,
}

/// Looks for a layout in an image, and keeps the first `limit` deviations.
///
/// # Errors
/// Where the layout is not of this graph.
pub fn verify(
    cfg: &Cfg,
    layout: &Layout,
    image: &Image,
    map: &[FunctionBlocks],
    applied: Applied,
    limit: usize,
) -> Result<Verification, Error> {
    let asked: Vec<Asked<'_>> = match applied {
        Applied::Sections => pieces(cfg, layout)?.iter().map(asked_of).collect(),
        Applied::Functions => order::functions(cfg, layout)?
            .into_iter()
            .map(|function| Asked { function, part: Part::Entry, hot: true, blocks: None })
            .collect(),
    };
    // Of functions that only their files tell apart, symbols say nothing.
    let (asked, skipped): (Vec<Asked<'_>>, Vec<Asked<'_>>) =
        asked.into_iter().partition(|asked| asked.function.module.is_none());
    let symbols = Symbols::new(image);
    let ranges: FxHashMap<ImageAddr, &BlockRange> = map
        .iter()
        .flat_map(|function| &function.ranges)
        .map(|range| (range.address, range))
        .collect();
    let mut result = Verification { asked: asked.len() as u64, ..Verification::default() };
    (_, result.executions) = executions(&asked);
    (result.not_checked, result.not_checked_executions) = executions(&skipped);
    result.executions = result.executions.saturating_add(result.not_checked_executions);
    let mut found: Vec<(ImageAddr, String)> = Vec::new();
    let mut hot = (u64::MAX, 0u64);
    for piece in &asked {
        let name = piece.function.names.first().map_or("", String::as_str);
        let shown = symbol(name, piece.part);
        if piece.part == Part::Entry
            && applied == Applied::Sections
            && symbols.has(&format!("{name}.eh"))
        {
            result.deviates(limit, shown.clone(), Deviation::LandingPads);
        }
        match symbols.find(&piece.function.names, piece.part) {
            Ok((address, size)) => {
                if piece.hot {
                    result.hot_bytes = result.hot_bytes.saturating_add(size);
                    hot = (hot.0.min(address.0), hot.1.max(address.0.saturating_add(size)));
                }
                let range = ranges.get(&address).filter(|range| range.omitted_blocks == 0);
                if let (Some(expected), Some(range)) = (&piece.blocks, range) {
                    result.compared += 1;
                    match compare(expected, range, piece.part) {
                        None => result.same_blocks += 1,
                        Some(deviation) => result.deviates(limit, shown.clone(), deviation),
                    }
                }
                found.push((address, shown));
            }
            Err(deviation) => result.deviates(limit, shown, deviation),
        }
    }
    result.found = found.len() as u64;
    result.hot_span = hot.1.saturating_sub(hot.0);
    let kept = longest_ascending(&found);
    result.in_order = kept.len() as u64;
    let mut behind = 0usize;
    for (index, (address, shown)) in found.iter().enumerate() {
        // The first kept one from here on.
        let at = kept.partition_point(|&kept| kept < index);
        if kept.get(at) == Some(&index) {
            behind = index;
            continue;
        }
        // The neighbour in order that it lies before, or else the next one, which it lies behind.
        let before = found.get(behind).filter(|(other, _)| other > address);
        let next = kept.get(at).and_then(|&next| found.get(next));
        match (before, next) {
            (Some((_, other)), _) => {
                let deviation = Deviation::Misplaced { before: other.clone() };
                result.deviates(limit, shown.clone(), deviation);
            }
            (None, Some((_, other))) => {
                let deviation = Deviation::Misplaced { before: shown.clone() };
                result.deviates(limit, other.clone(), deviation);
            }
            (None, None) => result.deviates(
                limit,
                shown.clone(),
                Deviation::Misplaced { before: String::new() },
            ),
        }
    }
    Ok(result)
}

/// How many functions these are parts of, and how often their blocks were executed.
fn executions(asked: &[Asked<'_>]) -> (u64, u64) {
    // A function has one entry block, so its address tells it from others of its name.
    let entry = |function: &Function| function.blocks.first().map(|block| block.address);
    let functions: FxHashMap<Option<ImageAddr>, &Function> =
        asked.iter().map(|asked| (entry(asked.function), asked.function)).collect();
    let blocks = functions.values().flat_map(|function| &function.blocks);
    let sum = blocks.fold(0u64, |sum, block| sum.saturating_add(block.frequency));
    (functions.len() as u64, sum)
}

fn asked_of<'c>(piece: &Piece<'c>) -> Asked<'c> {
    let function = piece.function;
    let id = |index: BlockIndex| function.blocks.get(index.0 as usize).map(|block| block.id.0);
    let clusters = &piece.placed.clusters;
    let entry_at = clusters.iter().position(|cluster| cluster.contains(&Placed::ENTRY));
    let cluster = match piece.part {
        Part::Entry => entry_at,
        Part::Part(n) => Some(n as usize),
        Part::Cold => None,
    };
    let blocks = match cluster.and_then(|cluster| clusters.get(cluster)) {
        Some(blocks) => blocks.iter().filter_map(|placed| id(placed.block)).collect(),
        None => {
            let placed: FxHashSet<BlockIndex> =
                clusters.iter().flatten().filter(|b| b.clone == 0).map(|b| b.block).collect();
            let rest = (0..function.blocks.len() as u32)
                .map(BlockIndex)
                .filter(|index| !placed.contains(index));
            rest.filter_map(id).collect()
        }
    };
    Asked { function, part: piece.part, hot: cluster.is_some(), blocks: Some(blocks) }
}

/// The blocks of a section against those asked for. The compiler orders the cold part itself.
fn compare(expected: &[u32], range: &BlockRange, part: Part) -> Option<Deviation> {
    let found: Vec<u32> = range.blocks.iter().map(|block| block.id.0).collect();
    let same = if part == Part::Cold {
        let sorted = |ids: &[u32]| {
            let mut ids = ids.to_vec();
            ids.sort_unstable();
            ids
        };
        sorted(expected) == sorted(&found)
    } else {
        expected == found
    };
    (!same).then(|| Deviation::Blocks { expected: expected.to_vec(), found })
}

/// Addresses and sizes by name; the parts of a function are untyped labels.
struct Symbols<'i>(FxHashMap<&'i str, Vec<(ImageAddr, u64)>>);

impl<'i> Symbols<'i> {
    fn new(image: &'i Image) -> Symbols<'i> {
        let mut symbols: FxHashMap<&str, Vec<(ImageAddr, u64)>> = FxHashMap::default();
        for label in image.labels() {
            let places = symbols.entry(label.name).or_default();
            if !places.iter().any(|&(address, _)| address == label.address) {
                places.push((label.address, label.size));
            }
        }
        Symbols(symbols)
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The one place that the names agree on.
    fn find(&self, names: &[String], part: Part) -> Result<(ImageAddr, u64), Deviation> {
        let mut several = false;
        for name in names {
            match self.0.get(symbol(name, part).as_str()).map(Vec::as_slice) {
                Some([one]) => return Ok(*one),
                Some(_) => several = true,
                None => {}
            }
        }
        Err(if several { Deviation::Ambiguous } else { Deviation::Missing })
    }
}

/// Positions of a longest strictly ascending subsequence (patience sorting with back links).
fn longest_ascending(items: &[(ImageAddr, String)]) -> Vec<usize> {
    let mut ends: Vec<usize> = Vec::new();
    let mut previous: Vec<Option<usize>> = Vec::with_capacity(items.len());
    for (index, (address, _)) in items.iter().enumerate() {
        let length =
            ends.partition_point(|&end| items.get(end).is_some_and(|(other, _)| other < address));
        previous.push(length.checked_sub(1).and_then(|before| ends.get(before)).copied());
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut chain: Vec<usize> =
        std::iter::successors(ends.last().copied(), |&at| previous.get(at).copied().flatten())
            .collect();
    chain.reverse();
    chain
}
