//! What can be done with profiles besides reading and writing them: merge, compare, trim,
//! summarise.

mod contexts;
mod diff;
mod merge;
mod overlap;
mod summary;
mod trim;

pub use contexts::{ColdContexts, flatten_contexts, merge_cold_contexts, nest_contexts};
pub use diff::{Difference, FunctionDifference, diff};
pub use merge::{MergeReport, add_function, add_profile, merge, refuse_mixture};
pub use overlap::{FunctionOverlap, Overlap, Shared, overlap};
pub use summary::{COLD_SHARE, CUTOFFS, Cutoff, HOT_SHARE, HotFunction, Summary, hot_functions};
pub use trim::{Trim, TrimReport, trim};
