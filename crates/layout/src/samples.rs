//! A graph from instruction pointer samples alone, where a recording has no branch stacks.
//!
//! A block's frequency is estimated as its samples divided by its instructions: time spent is
//! executions times time each, and nothing is known of the latter. Edges come from flow repair,
//! calls from the direct calls in a block. That is worse than observed edges: which of two
//! successors is hot is only known where their samples differ. Source of the idea: Levin, Newman,
//! Haber, "Complementing missing and inaccurate profiling using a minimum cost circulation
//! algorithm" (HiPEAC 2008).

use counts::ImageCounts;
use image::code::{InstructionKind, instructions};
use image::{Image, ImageAddr};
use rustc_hash::FxHashMap;

use crate::evidence::Evidence;
use crate::infer::{InferOptions, infer};
use crate::report::{BuildReport, Observed, Unused};
use crate::rules::Rules;
use crate::selection::Selection;
use crate::table::{End, Spot, Table};
use crate::{Block, BlockIndex, CallEdge, CallKind, Cfg, FunctionIndex, Place};

/// Executions that one sample in a block of one instruction stands for, so that larger blocks do
/// not round to nothing.
const EXECUTIONS_PER_SAMPLE: u64 = 64;
/// Mean size of an instruction in bytes, for processors without a decoder; about that of x86-64, and
/// that of AArch64.
const INSTRUCTION_BYTES: u64 = 4;

/// Makes the graph of the functions that hold samples.
pub(crate) fn graph(
    image: &Image,
    table: &Table,
    selection: &Selection,
    counts: &ImageCounts,
    report: &mut BuildReport,
) -> Cfg {
    report.observed = Observed::SamplesOnly;
    let mut samples: FxHashMap<Spot, u64> = FxHashMap::default();
    for sample in &counts.samples {
        let spot = selection.find(table, sample.address, End::Source, Unused::TargetUnmapped);
        report.samples.enter(spot.map(|_| ()), sample.count);
        if let Ok(spot) = spot {
            let sum = samples.entry(spot).or_default();
            *sum = sum.saturating_add(sample.count);
        }
    }
    let mut evidence = Evidence::default();
    for (spot, count) in samples.into_iter().filter(|&(_, count)| count != 0) {
        let Some(block) = table.block(spot) else { continue };
        let length = instruction_count(image, block.address, block.size);
        evidence.entered(spot, (count.saturating_mul(EXECUTIONS_PER_SAMPLE) / length).max(1));
    }
    let mut cfg = evidence.into_cfg(table, selection, Rules::Decoded);
    let options = InferOptions { observed: Observed::SamplesOnly, ..InferOptions::default() };
    report.inferred = Some(infer(&mut cfg, image, &options));
    cfg.calls = calls(image, &cfg);
    cfg
}

fn end_of(address: ImageAddr, size: u32) -> ImageAddr {
    ImageAddr(address.0.saturating_add(u64::from(size)))
}

/// How many instructions a block has; at least 1.
fn instruction_count(image: &Image, address: ImageAddr, size: u32) -> u64 {
    let end = end_of(address, size);
    match instructions(image, address).take_while(|i| i.address < end).count() as u64 {
        0 => (u64::from(size) / INSTRUCTION_BYTES).max(1),
        count => count,
    }
}

/// Calls and tail calls whose target the instruction states, as often as their block runs.
fn calls(image: &Image, cfg: &Cfg) -> Vec<CallEdge> {
    let entry = |(function, index): (&crate::Function, u32)| {
        let place = Place { function: FunctionIndex(index), block: BlockIndex(0) };
        Some((function.blocks.first()?.address, place))
    };
    let entries: FxHashMap<ImageAddr, Place> =
        cfg.functions.iter().zip(0u32..).filter_map(entry).collect();
    let mut sums: FxHashMap<(Place, Place, CallKind), u64> = FxHashMap::default();
    for (function, index) in cfg.functions.iter().zip(0u32..) {
        let hot = |(block, _): &(&Block, u32)| block.frequency != 0;
        for (block, number) in function.blocks.iter().zip(0u32..).filter(hot) {
            let from = Place { function: FunctionIndex(index), block: BlockIndex(number) };
            let end = end_of(block.address, block.size);
            for instruction in instructions(image, block.address).take_while(|i| i.address < end) {
                let kind = match instruction.kind {
                    InstructionKind::Call => CallKind::Call,
                    InstructionKind::UnconditionalBranch => CallKind::TailCall,
                    _ => continue,
                };
                let to = instruction.target.and_then(|target| entries.get(&target).copied());
                let Some(to) =
                    to.filter(|to| kind == CallKind::Call || to.function != from.function)
                else {
                    continue;
                };
                let sum = sums.entry((from, to, kind)).or_default();
                *sum = sum.saturating_add(block.frequency);
            }
        }
    }
    let edge = |((from, to, kind), weight)| CallEdge { from, to, kind, weight };
    let mut calls: Vec<CallEdge> = sums.into_iter().map(edge).collect();
    calls.sort_unstable();
    calls
}
