//! Which blocks to clone into which predecessors, so that more of the program runs straight on.
//!
//! Input: a [`Cfg`], where control went from each block by where it came from ([`PathCounts`]), and
//! how blocks are ordered. Output: [`ClonedFunction`]s for [`crate::lay_out_with`]. A block with
//! several frequent predecessors can follow only one of them; the others jump to it. A copy of it
//! in the place where a predecessor ends saves that jump, and costs one only if what comes after
//! the block was a fall-through for this predecessor's share. So the best blocks to clone return,
//! jump by a table, or go on elsewhere depending on where control came from, which only path counts
//! can tell.
//!
//! What a path saves is estimated from the neighbours in the current order; the most promising per
//! byte are tried together, the function is ordered again, and they stay if its Ext-TSP score rose.
//! In the end the paths of all functions compete for the bytes of the budget. Cost: an ordering of
//! a function per round, a number of rounds that is bounded.
//!
//! Idea: "[RFC] Path cloning" of LLVM's Propeller, which applies the paths
//! (<https://github.com/llvm/llvm-project/blob/main/llvm/lib/CodeGen/BasicBlockPathCloning.cpp>);
//! what it accepts is told in `docs/explanation/path-cloning.md`.

mod choose;
mod flow;
mod path_counts;

pub use choose::choose_clones;
pub use path_counts::PathCounts;

/// What may be cloned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CloneParams {
    /// Bytes of a block that may be cloned.
    pub block_bytes: u32,
    /// Blocks that one path may clone.
    pub path_blocks: u32,
    /// How often the branch of a copy has to take its main direction, in percent of its executions.
    /// A copy of a branch that goes either way saves a jump, but is one more branch to predict
    /// (measured: `measurements/2026-11-30-function-starts.md`).
    pub min_bias_pct: u32,
    /// Bytes of all clones, in percent of the bytes of executed blocks.
    pub budget_pct: f64,
    /// Taken branches that a path has to save, in parts per million of all jumps within functions.
    pub least_saved_ppm: f64,
    /// Taken branches that each byte of a path has to save, in parts per million of all jumps
    /// within functions.
    pub least_saved_per_byte_ppm: f64,
    /// Times that a function is ordered anew to see what its clones are worth.
    pub rounds: u32,
}

impl Default for CloneParams {
    fn default() -> Self {
        CloneParams {
            block_bytes: 64,
            path_blocks: 5,
            min_bias_pct: 90,
            budget_pct: 5.0,
            least_saved_ppm: 50.0,
            least_saved_per_byte_ppm: 2.0,
            rounds: 24,
        }
    }
}

/// What was cloned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CloneReport {
    /// Functions with clones.
    pub functions: u64,
    /// Paths.
    pub paths: u64,
    /// Clones along them.
    pub clones: u64,
    /// Bytes of the clones.
    pub bytes: u64,
    /// Bytes that the budget allowed.
    pub budget_bytes: u64,
    /// Taken branches that the clones are expected to save, in the unit of the counts.
    pub saved: u64,
    /// Paths that were worth it, but for which no bytes were left.
    pub over_budget: u64,
}
