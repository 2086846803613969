//! A graph of an older build, carried over to a newer one.
//!
//! Functions are matched by name, then by the name without the suffixes that change from build to
//! build; their blocks by content (`matching`). What is matched keeps its counts where the newer
//! function has the way; flow repair fills in the rest. Cost: linear in the blocks of hot
//! functions, plus the symbols of the newer image.
//!
//! Where both images have block hashes (clang `-mllvm -emit-bb-hash`) these are compared, else the
//! decoded instructions. A hash holds, from its lowest 16 bits on: place, operations, instructions,
//! neighbours (LLVM 22, `MachineBlockHashInfo`).

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use image::Image;
use image::blocks::FunctionBlocks;
use image::code::fingerprints;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use crate::infer::{InferOptions, InferReport, repair};
use crate::matching::{MatchedBy, Signature, match_blocks};
use crate::report::{BuildReport, Unusable};
use crate::selection::{CodeSections, Identity};
use crate::successors::{Way, ways};
use crate::table::Table;
use crate::{
    Block, BlockIndex, BuildOptions, CallEdge, Cfg, Edge, Error, Function, FunctionIndex, Place,
};

/// Functions or blocks, and the executions of blocks that they stand for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// How many.
    pub count: u64,
    /// Sum of the frequencies of their blocks in the older graph.
    pub weight: u64,
}

impl Share {
    fn add(&mut self, weight: u64) {
        self.count += 1;
        self.weight = self.weight.saturating_add(weight);
    }
}

/// What was carried over, and what was not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StaleReport {
    /// Functions of the newer image that cannot be used, by reason.
    pub unusable: BTreeMap<Unusable, u64>,
    /// Functions found by one of their names.
    pub functions_exact: Share,
    /// Functions found by a name without `.llvm.…` or `.__uniq.…`.
    pub functions_loose: Share,
    /// Functions not found.
    pub functions_lost: Share,
    /// Functions of those found in which every block has the same content as before.
    pub functions_unchanged: u64,
    /// Blocks of functions that were found, by how they were recognised.
    pub blocks: BTreeMap<MatchedBy, Share>,
    /// Blocks of functions that were found, not recognised.
    pub blocks_lost: Share,
    /// Edges whose blocks were recognised, but which the newer function cannot take, with their
    /// weight.
    pub edges_lost: Share,
    /// Calls with an end that was not recognised, with their weight.
    pub calls_lost: Share,
    /// Functions that were compared by hashes of the compiler; the others by their instructions.
    pub functions_with_hashes: u64,
    /// What flow repair filled in.
    pub inferred: InferReport,
}

impl StaleReport {
    /// Share of the older graph's block executions that lie in recognised blocks, in percent.
    pub fn matched_pct(&self) -> f64 {
        let matched: u128 = self.blocks.values().map(|share| u128::from(share.weight)).sum();
        let lost = u128::from(self.blocks_lost.weight) + u128::from(self.functions_lost.weight);
        if matched + lost == 0 { 0.0 } else { 100.0 * matched as f64 / (matched + lost) as f64 }
    }
}

/// Carries the graph `old`, made of `old_image`, over to `image` with the blocks `blocks`. Of the
/// options only the choice of sections counts. Frequencies of functions that were not found are
/// gone; the report says how much.
///
/// # Errors
/// When the newer image has no usable block address map, or when no function was found in it.
pub fn carry_over(
    old: &Cfg,
    old_image: &Image,
    image: &Image,
    blocks: Vec<FunctionBlocks>,
    options: &BuildOptions,
) -> Result<(Cfg, StaleReport), Error> {
    if blocks.is_empty() {
        return Err(Error::NoBlockMap { image: image.path().to_owned() });
    }
    let mut build_report = BuildReport::default();
    let table = Table::new(image, blocks, &mut build_report);
    let mut report = StaleReport { unusable: build_report.unusable, ..StaleReport::default() };
    let names = Names::new(image, &table, options);
    let found = names.find(old, &mut report);
    let mut carried: Vec<Carried> = Vec::new();
    for (function, index) in old.functions.iter().zip(0u32..) {
        let Some(fresh) =
            found.get(&index).and_then(|&candidate| names.function(&table, candidate))
        else {
            continue;
        };
        carried.push(Carried::new(index, function, old_image, fresh, image, &mut report));
    }
    carried.sort_by_key(|carried| carried.function.blocks.first().map(|block| block.address));
    let cfg = assemble(old, carried, &mut report);
    if cfg.functions.is_empty() {
        let entered = weight(&old.functions);
        let reasons = format!("{} functions, none found by name", old.functions.len());
        return Err(Error::NothingHot { image: image.path().to_owned(), entered, reasons });
    }
    Ok((cfg, report))
}

fn weight(functions: &[Function]) -> u64 {
    functions.iter().map(function_weight).fold(0, u64::saturating_add)
}

fn function_weight(function: &Function) -> u64 {
    function.blocks.iter().map(|block| block.frequency).fold(0, u64::saturating_add)
}

/// The functions of the newer image by name.
struct Names {
    identities: Vec<Option<Identity>>,
    /// `None` where several functions have the name.
    exact: FxHashMap<String, Option<u32>>,
    loose: FxHashMap<String, Option<u32>>,
}

impl Names {
    fn new(image: &Image, table: &Table, options: &BuildOptions) -> Names {
        let sections = CodeSections::new(image);
        let mut exact = FxHashMap::default();
        let mut loose = FxHashMap::default();
        let mut identities = Vec::with_capacity(table.candidates.len());
        let enter = |map: &mut FxHashMap<String, Option<u32>>, name: &str, candidate: u32| {
            let known = map.entry(name.to_owned()).or_insert(Some(candidate));
            if *known != Some(candidate) {
                *known = None;
            }
        };
        for (function, candidate) in table.candidates.iter().zip(0u32..) {
            let identity = sections.identify(function.address, options.sections).ok();
            for name in identity.iter().flat_map(|identity| &identity.names) {
                enter(&mut exact, name, candidate);
                enter(&mut loose, stem(name), candidate);
            }
            identities.push(identity);
        }
        Names { identities, exact, loose }
    }

    /// For each function of the older graph, the function of the newer image that it is.
    fn find(&self, old: &Cfg, report: &mut StaleReport) -> FxHashMap<u32, u32> {
        let mut found = FxHashMap::default();
        let mut taken = FxHashSet::default();
        let by =
            |map: &FxHashMap<String, Option<u32>>, name: &str| map.get(name).copied().flatten();
        for (function, index) in old.functions.iter().zip(0u32..) {
            let candidate = function.names.iter().find_map(|name| by(&self.exact, name));
            if let Some(candidate) = candidate.filter(|&candidate| taken.insert(candidate)) {
                found.insert(index, candidate);
                report.functions_exact.add(function_weight(function));
            }
        }
        for (function, index) in old.functions.iter().zip(0u32..) {
            if found.contains_key(&index) {
                continue;
            }
            let candidate = function.names.iter().find_map(|name| by(&self.loose, stem(name)));
            match candidate.filter(|&candidate| taken.insert(candidate)) {
                Some(candidate) => {
                    found.insert(index, candidate);
                    report.functions_loose.add(function_weight(function));
                }
                None => report.functions_lost.add(function_weight(function)),
            }
        }
        found
    }

    /// A function of the newer image without any counts.
    fn function(&self, table: &Table, candidate: u32) -> Option<Function> {
        let Identity { names, section, .. } = self.identities.get(candidate as usize)?.as_ref()?;
        let block = |block: &image::blocks::Block| Block::of(block, 0);
        Some(Function {
            names: names.clone(),
            section: section.clone(),
            module: None,
            blocks: table.candidate(candidate)?.blocks.iter().map(block).collect(),
            edges: Vec::new(),
        })
    }
}

/// A name without what clang appends to make local names unique: hashes of module and of path
/// change with the build.
fn stem(name: &str) -> &str {
    let end = [".llvm.", ".__uniq."].iter().filter_map(|suffix| name.find(suffix)).min();
    end.and_then(|end| name.get(..end)).filter(|stem| !stem.is_empty()).unwrap_or(name)
}

/// A function in its newer form.
struct Carried {
    /// Its position in the older graph.
    old: u32,
    function: Function,
    /// Per older block, the newer one.
    blocks: Vec<Option<BlockIndex>>,
}

impl Carried {
    fn new(
        index: u32,
        old: &Function,
        old_image: &Image,
        mut fresh: Function,
        image: &Image,
        report: &mut StaleReport,
    ) -> Carried {
        let hashed = |function: &Function| function.blocks.iter().all(|block| block.hash.is_some());
        let use_hashes = hashed(old) && hashed(&fresh);
        report.functions_with_hashes += u64::from(use_hashes);
        let before = signatures(old_image, old, use_hashes);
        let after = signatures(image, &fresh, use_hashes);
        let same = |a: &Signature, b: &Signature| (a.exact, a.loose) == (b.exact, b.loose);
        let unchanged =
            before.len() == after.len() && before.iter().zip(&after).all(|(a, b)| same(a, b));
        report.functions_unchanged += u64::from(unchanged);
        let found = match_blocks(&before, &after);
        for (block, found) in old.blocks.iter().zip(&found) {
            match found {
                Some((_, by)) => report.blocks.entry(*by).or_default().add(block.frequency),
                None => report.blocks_lost.add(block.frequency),
            }
            let position = found.map_or(usize::MAX, |(position, _)| position as usize);
            if let Some(fresh) = fresh.blocks.get_mut(position) {
                fresh.frequency = block.frequency;
            }
        }
        let blocks: Vec<Option<BlockIndex>> =
            found.iter().map(|found| found.map(|(position, _)| BlockIndex(position))).collect();
        let ways = ways(image, &fresh);
        carry_edges(old, &mut fresh, &blocks, &ways, report);
        let repaired = repair(&mut fresh, &ways, &InferOptions::default());
        report.inferred.add(&repaired);
        Carried { old: index, function: fresh, blocks }
    }

    fn place(&self, block: BlockIndex) -> Option<BlockIndex> {
        self.blocks.get(block.0 as usize).copied().flatten()
    }
}

/// Keeps the edges that the newer function can take. Where an indirect branch leads is not known,
/// so its edges stay.
fn carry_edges(
    old: &Function,
    fresh: &mut Function,
    blocks: &[Option<BlockIndex>],
    ways: &[Way],
    report: &mut StaleReport,
) {
    let place = |block: BlockIndex| blocks.get(block.0 as usize).copied().flatten();
    for edge in &old.edges {
        let (Some(from), Some(to)) = (place(edge.from), place(edge.to)) else { continue };
        let known = ways.binary_search_by_key(&(from, to), |way| (way.from, way.to)).is_ok();
        let indirect = |block: &Block| block.flags.has_indirect_branch();
        if known || fresh.blocks.get(from.0 as usize).is_some_and(indirect) {
            fresh.edges.push(Edge { from, to, weight: edge.weight });
        } else {
            report.edges_lost.add(edge.weight);
        }
    }
    fresh.edges.sort_unstable();
}

fn signatures(image: &Image, function: &Function, use_hashes: bool) -> Vec<Signature> {
    if use_hashes {
        let signature = |block: &Block| {
            let hash = block.hash.unwrap_or(0);
            Signature {
                exact: hash >> 16 & 0xffff_ffff,
                loose: hash >> 16 & 0xffff,
                neighbours: hash >> 48,
            }
        };
        return function.blocks.iter().map(signature).collect();
    }
    let content = |block: &Block| {
        let end = block.end();
        let (mut exact, mut loose) = (FxHasher::default(), FxHasher::default());
        for fingerprint in fingerprints(image, block.address, end) {
            fingerprint.with_operands.hash(&mut exact);
            fingerprint.operation.hash(&mut loose);
        }
        block.flags.bits().hash(&mut loose);
        (exact.finish(), loose.finish())
    };
    let contents: Vec<(u64, u64)> = function.blocks.iter().map(content).collect();
    let loose_at =
        |index: Option<usize>| index.and_then(|index| contents.get(index)).map_or(0, |pair| pair.1);
    let signature = |(index, &(exact, loose)): (usize, &(u64, u64))| {
        let mut around = FxHasher::default();
        (loose_at(index.checked_sub(1)), loose_at(index.checked_add(1))).hash(&mut around);
        Signature { exact, loose, neighbours: around.finish() }
    };
    contents.iter().enumerate().map(signature).collect()
}

/// Puts the functions together, with the calls whose ends were recognised.
fn assemble(old: &Cfg, carried: Vec<Carried>, report: &mut StaleReport) -> Cfg {
    let carried: Vec<Carried> =
        carried.into_iter().filter(|carried| carried.function.is_hot()).collect();
    let positions: FxHashMap<u32, u32> =
        carried.iter().map(|carried| carried.old).zip(0u32..).collect();
    let place = |old: Place| {
        let position = positions.get(&old.function.0).copied()?;
        let block = carried.get(position as usize)?.place(old.block)?;
        Some(Place { function: FunctionIndex(position), block })
    };
    let mut calls: BTreeMap<CallKey, u64> = BTreeMap::new();
    for call in &old.calls {
        match (place(call.from), place(call.to)) {
            (Some(from), Some(to)) => {
                let weight = calls.entry((from, to, call.kind)).or_default();
                *weight = weight.saturating_add(call.weight);
            }
            _ => report.calls_lost.add(call.weight),
        }
    }
    let calls =
        calls.into_iter().map(|((from, to, kind), weight)| CallEdge { from, to, kind, weight });
    let calls = calls.collect();
    Cfg { functions: carried.into_iter().map(|carried| carried.function).collect(), calls }
}

type CallKey = (Place, Place, crate::CallKind);

#[cfg(test)]
mod tests {
    use super::stem;

    #[test]
    fn names_lose_the_suffixes_that_change_with_the_build() {
        assert_eq!(stem("work.llvm.123"), "work");
        assert_eq!(stem("work.__uniq.77.llvm.123"), "work");
        assert_eq!(stem("work.part.1"), "work.part.1");
        assert_eq!(stem(".llvm.1"), ".llvm.1");
    }
}
