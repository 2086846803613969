//! What is computed: the order of blocks and functions, and what it is worth.

use crate::{BlockIndex, Cfg, FunctionIndex};
use std::collections::BTreeSet;

/// A block or a clone of it at its place in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Placed {
    /// The block.
    pub block: BlockIndex,
    /// 0 the block itself, n its n-th clone.
    pub clone: u32,
}

impl Placed {
    /// The entry block of a function.
    pub const ENTRY: Placed = Placed { block: BlockIndex(0), clone: 0 };
}

/// Blocks to clone along a path, so that the path has copies of its own: the first block stays, a
/// copy of each further one is made in the order of the path. The n-th path that clones a block
/// makes clone n of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClonePath(pub Vec<BlockIndex>);

/// Ext-TSP scores as they are and as they become; the same unit as the counts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Score {
    /// In the order of the image that was recorded.
    pub before: f64,
    /// In this layout.
    pub after: f64,
}

/// The order of a function's blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionLayout {
    /// The function.
    pub function: FunctionIndex,
    /// Clone paths in the order in which clones are numbered.
    pub clones: Vec<ClonePath>,
    /// Runs of blocks that lie together. The entry block begins a cluster. A block or clone is in
    /// one cluster at most; blocks in none are cold and go to the function's cold part.
    pub clusters: Vec<Vec<Placed>>,
    /// Edges within the function.
    pub intra: Score,
    /// Calls and returns that begin in the function.
    pub inter: Score,
}

/// A cluster of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterRef {
    /// Position in [`Layout::functions`].
    pub layout: u32,
    /// Position in [`FunctionLayout::clusters`].
    pub cluster: u32,
}

/// The layout of a program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layout {
    /// Layouts of hot functions, by function index.
    pub functions: Vec<FunctionLayout>,
    /// Every cluster once, in the order of the text.
    pub hot: Vec<ClusterRef>,
    /// Functions with a cold part (blocks in no cluster), as positions in `functions`, in the
    /// order of the cold text.
    pub cold: Vec<u32>,
}

impl Layout {
    /// Puts the cold blocks of each function behind those of its entry's cluster, so that no
    /// function has a cold part.
    ///
    /// For arm64's kernels: clang does not move targets of `asm goto`, which stand in every atomic
    /// operation there, to the cold part. It leaves them behind the entry block, in front of what
    /// runs, unless the layout names another place.
    pub fn keep_whole(&mut self, cfg: &Cfg) {
        for layout in &mut self.functions {
            let placed: BTreeSet<Placed> = layout.clusters.iter().flatten().copied().collect();
            let blocks = cfg.function(layout.function).map_or(0, |of| of.blocks.len());
            let own = (0u32..).take(blocks).map(|n| Placed { block: BlockIndex(n), clone: 0 });
            let entry = layout.clusters.iter_mut().find(|c| c.first() == Some(&Placed::ENTRY));
            if let Some(cluster) = entry {
                cluster.extend(own.filter(|block| !placed.contains(block)));
            }
        }
        self.cold.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Block, Function};
    use image::ImageAddr;
    use image::blocks::{BlockFlags, BlockId};

    #[test]
    fn a_function_that_is_kept_whole_has_its_cold_blocks_behind_those_of_its_entry() {
        let block = |n: u32| Block {
            id: BlockId(n),
            address: ImageAddr(u64::from(n) * 4),
            size: 4,
            flags: BlockFlags::default(),
            frequency: 1,
            hash: None,
        };
        let function = Function {
            names: vec!["f".to_owned()],
            section: ".text".to_owned(),
            module: None,
            blocks: (0..6).map(block).collect(),
            edges: Vec::new(),
        };
        let cfg = Cfg { functions: vec![function], calls: Vec::new() };
        let placed = |n: &[u32]| -> Vec<Placed> {
            n.iter().map(|&n| Placed { block: BlockIndex(n), clone: 0 }).collect()
        };
        let own = FunctionLayout {
            function: FunctionIndex(0),
            clones: Vec::new(),
            clusters: vec![placed(&[3]), placed(&[0, 5, 2])],
            intra: Score::default(),
            inter: Score::default(),
        };
        let mut layout = Layout { functions: vec![own], hot: Vec::new(), cold: vec![0] };
        layout.keep_whole(&cfg);
        let clusters: Vec<_> = layout.functions.iter().map(|of| of.clusters.clone()).collect();
        assert_eq!(clusters, [[placed(&[3]), placed(&[0, 5, 2, 1, 4])]]);
        assert!(layout.cold.is_empty());
    }
}
