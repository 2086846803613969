//! What is computed: the order of blocks and functions, and what it is worth.

use crate::{BlockIndex, FunctionIndex};

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
