//! Counts that a recording of a given graph would hold, and walks through programs that make such
//! graphs.

use counts::{Branch, FallThrough, ImageCounts};
use image::code::{InstructionKind, instructions};
use image::{Image, ImageAddr};
use layout::{Block, CallKind, Cfg, Edge, Function, Place, ways};

/// The address of the last instruction of a block.
pub fn last_instruction(image: &Image, block: &Block) -> ImageAddr {
    let end = ImageAddr(block.address.0 + u64::from(block.size));
    instructions(image, block.address).take_while(|i| i.address < end).last().unwrap().address
}

/// Counts that a recording would have held to give this graph.
pub fn counts_of(image: &Image, cfg: &Cfg) -> ImageCounts {
    let mut counts = ImageCounts { build_id: image.build_id().copied(), ..ImageCounts::default() };
    let block = |place: Place| cfg.block(place).unwrap();
    let mut branch = |from, to, count| {
        counts.branches.push(Branch { from: Some(from), to: Some(to), count, mispredicted: 0 });
    };
    for function in &cfg.functions {
        for edge in &function.edges {
            let (from, to) =
                (&function.blocks[edge.from.0 as usize], &function.blocks[edge.to.0 as usize]);
            let jumps = instructions(image, last_instruction(image, from))
                .next()
                .is_some_and(|last| last.kind == InstructionKind::UnconditionalBranch);
            if edge.to.0 == edge.from.0 + 1 && from.flags.can_fall_through() && !jumps {
                let range =
                    FallThrough { first: from.address, last: to.address, count: edge.weight };
                counts.fall_throughs.push(range);
            } else {
                branch(last_instruction(image, from), to.address, edge.weight);
            }
        }
    }
    let call_in = |block: &Block| {
        instructions(image, block.address).find(|i| i.kind == InstructionKind::Call).unwrap()
    };
    for call in &cfg.calls {
        let (from, to) = (block(call.from), block(call.to));
        match call.kind {
            CallKind::Call => branch(call_in(from).address, to.address, call.weight),
            CallKind::TailCall => branch(last_instruction(image, from), to.address, call.weight),
            CallKind::Return => {
                let instruction = call_in(to);
                let after = ImageAddr(instruction.address.0 + u64::from(instruction.len));
                branch(last_instruction(image, from), after, call.weight);
            }
        }
    }
    counts.branches.sort();
    counts.fall_throughs.sort();
    counts
}

/// A graph of these functions (all of the map when empty), with the counts of `steps` steps through
/// each, started again at its entry after each return. The choices depend on the seed and on the
/// function's name, not on addresses.
pub fn walked(image: &Image, names: &[&str], steps: u64, seed: u64) -> Cfg {
    let mut cfg = Cfg::default();
    for map in image::blocks::read(image).unwrap() {
        let named: Vec<String> =
            image.functions().at(map.address()).map(|function| function.name.to_owned()).collect();
        let wanted = names.is_empty() || named.iter().any(|name| names.contains(&name.as_str()));
        let section = image.sections().iter().find(|section| {
            let distance = map.address().0.checked_sub(section.address.0);
            section.is_code() && distance.is_some_and(|distance| distance < section.size)
        });
        let (true, Some(section)) = (wanted && !named.is_empty(), section) else { continue };
        let block = |block: &image::blocks::Block| Block {
            id: block.id,
            address: block.address,
            size: block.size,
            flags: block.flags,
            frequency: 0,
            hash: block.hash(),
        };
        let mut function = Function {
            names: named,
            section: image.section_name(section).to_owned(),
            module: None,
            blocks: map.blocks().map(block).collect(),
            edges: Vec::new(),
        };
        shorten(&mut function);
        walk(image, &mut function, steps, seed);
        cfg.functions.push(function);
    }
    cfg
}

/// Ends each block where the next one by address begins, at the latest: a linker that removes jumps
/// leaves sizes too large.
fn shorten(function: &mut Function) {
    let starts: Vec<u64> = function.blocks.iter().map(|block| block.address.0).collect();
    for block in &mut function.blocks {
        let room = starts
            .iter()
            .filter(|&&start| start > block.address.0)
            .min()
            .map(|next| next - block.address.0);
        block.size = room.map_or(block.size, |room| block.size.min(room as u32));
    }
}

fn walk(image: &Image, function: &mut Function, steps: u64, seed: u64) {
    let ways = ways(image, function);
    let mut weights = vec![0u64; ways.len()];
    let mut state = function.names[0]
        .bytes()
        .fold(seed, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let mut at = 0u32;
    for _ in 0..steps {
        function.blocks[at as usize].frequency += 1;
        let first = ways.partition_point(|way| way.from.0 < at);
        let last = ways.partition_point(|way| way.from.0 <= at);
        if first == last {
            at = 0;
            continue;
        }
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        // Uneven choices: three of four times the first way.
        let choice = first + if (state >> 40) % 4 == 0 { last - first - 1 } else { 0 };
        weights[choice] += 1;
        at = ways[choice].to.0;
    }
    let edges =
        ways.iter().zip(weights).map(|(way, weight)| Edge { from: way.from, to: way.to, weight });
    function.edges = edges.filter(|edge| edge.weight != 0).collect();
}
