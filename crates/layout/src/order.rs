//! Weighted graph to layout: how blocks form chains, chains clusters, and clusters the text of a
//! program.
//!
//! ```text
//! Cfg ──> Problem per function ──> chains (greedy) ──> search ──> clusters ──> functions (call chains) ──> Layout
//! ```
//!
//! `params` says what can be chosen, `score` what a layout is worth and `problem` what is to be
//! ordered; `graph` is the form that the algorithms work on. `bundles` finds blocks that stay
//! together, `chains` merges greedily, by the ways and gains of `merge`, `search` and `exact`
//! improve, and `solve` calls them in turn. `clusters` cuts chains where a section must end,
//! `functions` and `cache` order clusters, `program` puts it together and `measure` says what came
//! out. Work is bounded by counts of steps, never by time.

mod bundles;
mod cache;
mod chains;
mod clusters;
mod exact;
mod functions;
mod graph;
mod measure;
mod merge;
mod params;
mod problem;
mod program;
mod score;
mod search;
mod solve;

pub use measure::{LayoutReport, Pages, Totals};
pub use params::{FunctionOrder, Mode, Params};
pub use problem::{Jump, Node, Problem};
pub use program::{ClonedFunction, PlacedBlock, PlacedEdge, lay_out, lay_out_with};
pub use score::{JumpKind, Scoring};
pub use solve::order;
