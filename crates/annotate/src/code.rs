//! Which instructions a function has, what was sampled at each, and which block each is in.

use crate::{Instruction, Request};
use calltrees::Weight;
use image::ImageAddr;
use image::blocks::{BlockId, FunctionBlocks};
use image::code::{Disassembler, InstructionKind, instructions as decode};
use std::collections::BTreeSet;

/// Of a larger function, only the first part is told.
pub const MOST_CODE_BYTES: u64 = 4 << 20;

/// The instructions, and how many bytes at the end are left out. Decoding that meets something else
/// than code goes on at the next address that is known to be an instruction: one that was sampled,
/// or that a branch went to.
pub(crate) fn instructions(request: &Request<'_>) -> (Vec<Instruction>, u64) {
    let (start, end) = (request.code.start, request.code.end);
    let size = end.0.saturating_sub(start.0);
    let told = size.min(MOST_CODE_BYTES);
    let end = ImageAddr(start.0.saturating_add(told));
    let mut known: BTreeSet<ImageAddr> = request.samples.iter().map(|(at, _)| *at).collect();
    if let Some(counts) = request.counts {
        known.extend(counts.fall_throughs.iter().map(|range| range.first));
    }
    let mut writer = Disassembler::new(request.image);
    let mut all: Vec<Instruction> = Vec::new();
    let mut next = Some(start);
    while let Some(from) = next.filter(|from| *from < end) {
        let mut reached = from;
        for found in decode(request.image, from) {
            let after = ImageAddr(found.address.0.saturating_add(u64::from(found.len)));
            if found.kind == InstructionKind::Invalid || found.address >= end {
                break;
            }
            reached = after;
            all.push(Instruction {
                address: found.address,
                size: found.len,
                kind: found.kind,
                text: writer.as_mut().and_then(|writer| writer.text(found.address)),
                target: found.target,
                target_function: found.target.and_then(|to| function_at(request, to)),
                weight: Weight::default(),
                count: None,
                line: 0,
                block: None,
            });
        }
        // At least one byte further.
        let beyond = ImageAddr(reached.0.max(from.0.saturating_add(1)));
        next = known.range(beyond..).next().copied();
    }
    (all, size - told)
}

fn function_at(request: &Request<'_>, to: ImageAddr) -> Option<(String, u64)> {
    let found = request.image.functions().find_shown(to)?;
    let is_other = found.address != request.code.start;
    is_other.then(|| (found.name.to_owned(), to.0.saturating_sub(found.address.0)))
}

/// Gives each instruction the samples taken at its bytes; returns what lies at none.
pub(crate) fn weigh(instructions: &mut [Instruction], samples: &[(ImageAddr, Weight)]) -> Weight {
    let mut unplaced = Weight::default();
    for (at, weight) in samples {
        let after = instructions.partition_point(|instruction| instruction.address <= *at);
        let found = after.checked_sub(1).and_then(|index| instructions.get_mut(index));
        let found =
            found.filter(|found| at.0.wrapping_sub(found.address.0) < u64::from(found.size));
        match found {
            Some(found) => found.weight.add(*weight),
            None => unplaced.add(*weight),
        }
    }
    unplaced
}

/// Says of each instruction which block of the file's map it is in.
pub(crate) fn number_blocks(instructions: &mut [Instruction], functions: &[FunctionBlocks]) {
    let (Some(first), Some(last)) = (instructions.first(), instructions.last()) else { return };
    let told = first.address..=last.address;
    let mut blocks: Vec<(ImageAddr, ImageAddr, BlockId)> = functions
        .iter()
        .flat_map(FunctionBlocks::blocks)
        .filter(|block| block.address <= *told.end() && block.end() > *told.start())
        .map(|block| (block.address, block.end(), block.id))
        .collect();
    blocks.sort_unstable();
    for instruction in instructions {
        let at = instruction.address;
        let after = blocks.partition_point(|(begin, ..)| *begin <= at);
        let found = after.checked_sub(1).and_then(|index| blocks.get(index));
        instruction.block = found.filter(|(_, end, _)| at < *end).map(|(.., id)| *id);
    }
}
