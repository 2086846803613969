//! What interprocedural optimisation ties together: which functions change when one of them
//! changes, and how we know.
//!
//! A compiler inlines, clones, splits and folds functions. Who replaces a function in a running
//! program (a live patch) must replace whatever else holds its code too: its *closure*.
//!
//! ```text
//! build directory ──scan──> units (object files, dumps) ──read──> Graph ──> Closure of a function
//!                                                           └──> disagreements between sources
//! ```
//!
//! Sources, each of which may be missing: gcc's `-fdump-ipa-clones` ([`ipa_clones`]) and
//! `-fdump-ipa-icf-details` ([`icf`]), clang's `-fsave-optimization-record` ([`remarks`]), symbol
//! tables ([`symbols`]) and debug information. What leaves no trace in any of them (register
//! allocation across calls, purity, …) is in [`possible`].

mod analysis;
mod closure;
mod diff;
mod disagreements;
mod dumps;
mod error;
mod extent;
mod facts;
mod files;
pub mod flags;
mod graph;
pub mod icf;
pub mod ipa_clones;
mod linked_files;
mod objects;
mod patch;
mod plausible;
pub mod possible;
mod read;
pub mod remarks;
mod scan;
mod select;
pub mod symbols;
mod walk;

pub use analysis::{Analysis, Skipped};
pub use closure::{Closure, Member, Sizes, Step, closure, sizes};
pub use diff::{Difference, Differences, diff};
pub use disagreements::Disagreement;
pub use error::Error;
pub use graph::{Edge, Graph, Node, NodeId, Place, Reason, Source, UnitId};
pub use patch::{Hunk, Misfit, Touched, hunks, touched, touched_by};
pub use plausible::Implausible;
pub use read::analyse;
pub use scan::{Build, Dump, DumpKind, Unit, scan};
pub use select::{Unclear, select};
