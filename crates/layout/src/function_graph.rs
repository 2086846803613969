//! A graph of functions alone, for programs without a block address map: what an order of functions
//! is computed from.
//!
//! Input: symbols and counts. Each function becomes an entry block, executed as often as it was
//! called, and a rest of all its other bytes, executed as often as branches were taken in it (or as
//! it was sampled, without branches); call chains are clustered by executions per byte, for which
//! that is a measure. A branch is a call when it goes to the first instruction of another function.
//! Cost: a search per distinct branch.

use crate::report::{BuildReport, Observed, Unused};
use crate::rules::Sections;
use crate::selection::{CodeSections, Identity};
use crate::{
    Block, BlockIndex, CallEdge, CallKind, Cfg, Edge, Error, Function, FunctionIndex, Place,
};
use counts::ImageCounts;
use image::blocks::{BlockFlags, BlockId};
use image::{Image, ImageAddr};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of the block that stands for a function's entry.
const ENTRY_BYTES: u32 = 16;

/// What was counted in a function.
#[derive(Default)]
struct Activity {
    calls: u64,
    executions: u64,
}

/// Makes the graph of an image's functions.
///
/// # Errors
/// When nothing was counted in a function that a symbol names.
pub fn function_graph(image: &Image, counts: &ImageCounts) -> Result<(Cfg, BuildReport), Error> {
    if counts.is_empty() {
        return Err(Error::NoCounts { image: image.path().to_owned() });
    }
    let mut report = BuildReport::default();
    let mut activity: BTreeMap<ImageAddr, Activity> = BTreeMap::new();
    let mut arcs: BTreeMap<(ImageAddr, ImageAddr), u64> = BTreeMap::new();
    let functions = image.functions();
    let start = |address: ImageAddr| functions.find(address).map(|function| function.address);
    for branch in &counts.branches {
        let outcome = match (branch.from, branch.to) {
            (_, None) => Err(Unused::TargetOutside),
            (from, Some(to)) => match (from.and_then(&start), start(to)) {
                (_, None) => Err(Unused::NoSymbol),
                (caller, Some(callee)) => {
                    let here = activity.entry(callee).or_default();
                    here.executions = here.executions.saturating_add(branch.count);
                    if to == callee && caller != Some(callee) {
                        here.calls = here.calls.saturating_add(branch.count);
                        if let Some(caller) = caller {
                            let arc = arcs.entry((caller, callee)).or_default();
                            *arc = arc.saturating_add(branch.count);
                        }
                    }
                    Ok(())
                }
            },
        };
        report.branches.enter(outcome, branch.count);
    }
    if !counts.has_branches() {
        report.observed = Observed::SamplesOnly;
        for sample in &counts.samples {
            let function = start(sample.address);
            if let Some(function) = function {
                let here = activity.entry(function).or_default();
                here.executions = here.executions.saturating_add(sample.count);
            }
            report.samples.enter(function.map(|_| ()).ok_or(Unused::NoSymbol), sample.count);
        }
    }
    let mut cfg = Cfg::default();
    let mut index: BTreeMap<ImageAddr, FunctionIndex> = BTreeMap::new();
    let shared = shared_names(image);
    let sections = CodeSections::new(image);
    for (&address, activity) in &activity {
        let Some(mut function) = function_at(image, &sections, address, activity) else { continue };
        // A linker cannot tell static functions of one name apart.
        function.names.retain(|name| !shared.contains(name.as_str()));
        if function.names.is_empty() {
            *report.left_out.entry(Unused::DuplicateName).or_default() += 1;
            continue;
        }
        index.insert(address, FunctionIndex(cfg.functions.len() as u32));
        cfg.functions.push(function);
    }
    if cfg.functions.is_empty() {
        let account = if counts.has_branches() { &report.branches } else { &report.samples };
        let (entered, reasons) = (account.entered, account.reasons());
        return Err(Error::NothingHot { image: image.path().to_owned(), entered, reasons });
    }
    let entry = |address| Some(Place { function: *index.get(&address)?, block: BlockIndex(0) });
    let calls = arcs.iter().filter_map(|(&(caller, callee), &weight)| {
        Some(CallEdge { from: entry(caller)?, to: entry(callee)?, kind: CallKind::Call, weight })
    });
    cfg.calls = calls.filter(|call| call.weight != 0).collect();
    report.mapped_functions = functions.len() as u64;
    report.hot_functions = cfg.functions.len() as u64;
    report.blocks = cfg.functions.iter().map(|function| function.blocks.len() as u64).sum();
    report.hot_blocks = report.blocks;
    Ok((cfg, report))
}

/// Names that stand for code at several addresses.
fn shared_names(image: &Image) -> BTreeSet<&str> {
    let mut seen: BTreeMap<&str, ImageAddr> = BTreeMap::new();
    let mut shared = BTreeSet::new();
    for function in image.functions().iter() {
        if *seen.entry(function.name).or_insert(function.address) != function.address {
            shared.insert(function.name);
        }
    }
    shared
}

fn function_at(
    image: &Image,
    sections: &CodeSections<'_>,
    address: ImageAddr,
    activity: &Activity,
) -> Option<Function> {
    let Identity { names, section, .. } = sections.identify(address, Sections::All).ok()?;
    let size = u32::try_from(image.functions().find(address)?.size).unwrap_or(u32::MAX);
    let head = size.min(ENTRY_BYTES);
    let block = |id: u32, offset: u32, size: u32, frequency: u64| Block {
        id: BlockId(id),
        address: ImageAddr(address.0.saturating_add(u64::from(offset))),
        size,
        flags: BlockFlags::default(),
        frequency,
        hash: None,
    };
    let mut blocks = vec![block(0, 0, head, activity.calls.max(1))];
    let mut edges = Vec::new();
    if size > head {
        blocks.push(block(1, head, size - head, activity.executions.max(1)));
        let weight = activity.executions.max(1);
        edges.push(Edge { from: BlockIndex(0), to: BlockIndex(1), weight });
    }
    Some(Function { names, section, module: None, blocks, edges })
}
