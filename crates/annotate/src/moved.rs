//! Which blocks a layout moved: those that followed another block in the file before.

use image::blocks::{BlockId, FunctionBlocks};
use image::{Image, ImageAddr};
use std::collections::BTreeMap;

/// A block that no longer follows the one that it followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The block.
    pub block: BlockId,
    /// What it followed before; none: it was the first.
    pub before: Option<BlockId>,
    /// What it follows now; none: it begins a piece of the function.
    pub now: Option<BlockId>,
}

/// The file that a layout began with.
#[derive(Clone, Copy)]
pub struct Before<'b> {
    /// It, with its symbols.
    pub image: &'b Image,
    /// Its blocks.
    pub blocks: &'b [FunctionBlocks],
}

/// The blocks of a function that lie behind another block than before; none where either file has no
/// map of the function's blocks. `name` is its linkage name. Of functions of one name, the first one
/// counts.
pub(crate) fn moved(
    (name, at): (&str, ImageAddr),
    blocks: &[FunctionBlocks],
    before: &Before<'_>,
) -> Option<Vec<Moved>> {
    let now = blocks
        .iter()
        .find(|function| function.blocks().any(|block| block.address <= at && at < block.end()))?;
    let named = before.image.functions().iter().find(|function| function.name == name)?;
    let old = before.blocks.iter().find(|function| function.address() == named.address)?;
    let (old, now) = (followed(old), followed(now));
    let other = |(block, now): (&BlockId, &Option<BlockId>)| {
        let before = *old.get(block)?;
        (before != *now).then_some(Moved { block: *block, before, now: *now })
    };
    Some(now.iter().filter_map(other).collect())
}

/// What each block of a function lies behind.
fn followed(function: &FunctionBlocks) -> BTreeMap<BlockId, Option<BlockId>> {
    let mut all = BTreeMap::new();
    for range in &function.ranges {
        let mut last = None;
        for block in &range.blocks {
            all.insert(block.id, last);
            last = Some(block.id);
        }
    }
    all
}
