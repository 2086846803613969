//! What can be done with profiles besides reading and writing them: merge, compare, trim, summarise.

mod merge;
mod summary;

pub use merge::{MergeReport, add_function, merge};
pub use summary::{COLD_SHARE, CUTOFFS, Cutoff, HOT_SHARE, Summary};
