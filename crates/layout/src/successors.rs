//! Where control can go from a block, whether or not it was seen to: the fall-through by the
//! block's flags, direct branches by decoding it. Indirect branches lead to unknown places. Cost:
//! every instruction of a function once.

use image::code::instructions;
use image::{Image, ImageAddr};

use crate::{BlockIndex, Function};

/// Padding between blocks that follow each other; more than this is no padding.
pub(crate) const LARGEST_PADDING_BYTES: u32 = 256;

/// A way from a block to a block of its function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Way {
    /// The block that is left.
    pub from: BlockIndex,
    /// The block that is entered.
    pub to: BlockIndex,
    /// By falling through; else by a branch.
    pub falls: bool,
}

/// The ways within a function, sorted by (from, to). Where both a branch and a fall-through lead
/// from one block to another, they are one way that falls.
pub fn ways(image: &Image, function: &Function) -> Vec<Way> {
    let mut by_address: Vec<(ImageAddr, BlockIndex)> = function
        .blocks
        .iter()
        .zip(0u32..)
        .map(|(block, n)| (block.address, BlockIndex(n)))
        .collect();
    by_address.sort_unstable();
    let starting_at = |address: ImageAddr| {
        let first = by_address.partition_point(|&(start, _)| start < address);
        by_address.get(first).filter(|&&(start, _)| start == address).map(|&(_, index)| index)
    };
    let mut ways = Vec::new();
    let mut pairs = function.blocks.iter().zip(0u32..).peekable();
    while let Some((block, index)) = pairs.next() {
        let from = BlockIndex(index);
        let end = block.end();
        if let Some(&(next, next_index)) = pairs.peek()
            && (block.flags.can_fall_through() || block.size == 0)
            && next
                .address
                .distance_from(end)
                .is_some_and(|padding| padding <= LARGEST_PADDING_BYTES.into())
        {
            ways.push(Way { from, to: BlockIndex(next_index), falls: true });
        }
        if block.size == 0 {
            continue;
        }
        use image::code::InstructionKind::{ConditionalBranch, UnconditionalBranch};
        for instruction in instructions(image, block.address).take_while(|i| i.address < end) {
            if matches!(instruction.kind, ConditionalBranch | UnconditionalBranch)
                && let Some(to) = instruction.target.and_then(starting_at)
            {
                ways.push(Way { from, to, falls: false });
            }
        }
    }
    ways.sort_unstable_by_key(|way| (way.from, way.to, !way.falls));
    ways.dedup_by_key(|way| (way.from, way.to));
    ways
}
