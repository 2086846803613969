//! What is to be ordered: blocks with sizes and frequencies, and jumps between them.
//!
//! A problem knows neither names nor addresses, so that a function, a function with clones and a
//! whole program are the same to the algorithms. Everything in it is to be placed: cold blocks are
//! left out before.

use super::JumpKind;

/// A block to place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Bytes.
    pub size: u32,
    /// Executions.
    pub frequency: u64,
}

/// Control from a block to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Jump {
    /// Position of the block that is left, in [`Problem::nodes`].
    pub from: u32,
    /// Position of the block that is entered.
    pub to: u32,
    /// How.
    pub kind: JumpKind,
    /// Executions.
    pub weight: u64,
}

/// Blocks to order. The order of `nodes` is the one they have now and breaks ties; the order of
/// `jumps` means nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problem {
    /// The blocks.
    pub nodes: Vec<Node>,
    /// The jumps; those that name a block that is not there are left out, equal ones added up.
    pub jumps: Vec<Jump>,
    /// The block that has to come first.
    pub entry: Option<u32>,
    /// Blocks that stay together in this order, each at most once. Other paths are found by the
    /// algorithm.
    pub bundles: Vec<Vec<u32>>,
}
