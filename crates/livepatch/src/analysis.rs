//! What a build says: its units, the graph of their functions, and what could not be used.

use crate::graph::{Graph, Source};
use std::path::PathBuf;

/// A file that was not used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skipped {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// What a build says.
#[derive(Debug, Clone, Default)]
pub struct Analysis {
    /// Names of the units by [`crate::UnitId`].
    pub units: Vec<String>,
    /// Their object files.
    pub objects: Vec<PathBuf>,
    /// The functions and what ties them.
    pub graph: Graph,
    /// How many units each of [`Source::ALL`] covers.
    pub covered: [usize; Source::ALL.len()],
    /// Files left out.
    pub skipped: Vec<Skipped>,
    /// Dumps that were used, but may be stale.
    pub doubts: Vec<Skipped>,
    /// Units that clang compiled, by [`crate::UnitId`].
    pub is_clang: Vec<bool>,
    /// How many units the compiler left to the link.
    pub link_time: usize,
}
