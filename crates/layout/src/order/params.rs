//! What can be chosen about a layout.

use super::Scoring;

/// What chains may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Each function is laid out alone and has one hot cluster.
    PerFunction,
    /// Chains run across functions along calls and returns; a function may have several clusters.
    InterFunction,
}

/// How clusters are ordered in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FunctionOrder {
    /// As the functions lay in the image.
    Input,
    /// Call-chain clustering: a function after its most frequent caller, the hottest clusters
    /// first.
    CallChains,
    /// Merging of clusters by the distance of calls and the share of a small cache's misses that it
    /// saves.
    CacheDirected,
}

/// The parameters of [`crate::lay_out`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Params {
    /// What a jump is worth.
    pub scoring: Scoring,
    /// What chains may hold.
    pub mode: Mode,
    /// Chains of at most so many blocks are tried at every split point, longer ones where a jump
    /// from or to an end of the other chain meets them.
    pub try_all_splits: u32,
    /// Chains of more blocks take another one in, but their halves do not change places.
    pub swap_halves: u32,
    /// Chains do not grow beyond so many blocks.
    pub chain_blocks: u32,
    /// Chains whose executions per byte differ by more than this factor are not merged, so that
    /// blocks that seldom run do not lie between those that always do: they would fill cache lines
    /// for nothing. As LLVM's block placement has it (`ext-tsp-max-merge-density-ratio`).
    pub density_ratio: f64,
    /// Blocks executed fewer times than this are cold; 1: what was never executed.
    pub cold_below: u64,
    /// Steps of the search for a better order per block of a function; 0 leaves what merging
    /// found.
    pub search_steps: u32,
    /// Functions of at most so many hot blocks are searched exhaustively, as far as the steps go.
    pub exact_blocks: u32,
    /// How clusters are ordered.
    pub function_order: FunctionOrder,
    /// Bytes to whose multiple the address of a cluster with an entry block is rounded up; 0 and
    /// 1: nothing.
    pub alignment: u32,
    /// Functions are not split: see [`crate::Layout::keep_whole`].
    pub keep_whole: bool,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            scoring: Scoring::default(),
            mode: Mode::PerFunction,
            try_all_splits: 32,
            swap_halves: 512,
            chain_blocks: 16_384,
            density_ratio: 100.0,
            cold_below: 1,
            search_steps: 1_000,
            exact_blocks: 10,
            function_order: FunctionOrder::CallChains,
            alignment: 16,
            keep_whole: false,
        }
    }
}

impl Params {
    /// What Google's Propeller tools do: greedy merging only, with their constants, and addresses
    /// without alignment.
    pub fn propeller() -> Self {
        Params {
            scoring: Scoring::propeller(),
            try_all_splits: 0,
            swap_halves: u32::MAX,
            chain_blocks: u32::MAX,
            density_ratio: f64::INFINITY,
            search_steps: 0,
            exact_blocks: 0,
            alignment: 1,
            ..Params::default()
        }
    }
}
