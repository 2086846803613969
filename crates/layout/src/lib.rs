//! Counts to a layout: which basic blocks of which functions follow each other in the text of a
//! program.
//!
//! ```text
//! counts + image with a bb-addr-map ──> Cfg ──> chains (Ext-TSP) ──> clusters ──> Layout ──> cc profile, ld profile, …
//! ```
//!
//! [`Cfg`] is the weighted control flow graph, [`Layout`] the order that is computed from it.
//! Neither has heard of a file, a clock or a thread: the same graph and the same parameters give
//! the same layout.
//!
//! Papers: Newell and Pupyrev, "Improved Basic Block Reordering" (arXiv 1809.04676), for the
//! Ext-TSP score; Ottoni and Maher, "Optimizing Function Placement for Large-Scale Data-Center
//! Applications" (CGO 2017), for call-chain clustering; Shen et al., "Propeller" (ASPLOS 2023,
//! doi:10.1145/3575693.3575727), for layouts applied by a relink.

mod build;
mod cfg;
mod clone;
mod error;
mod evidence;
mod flow;
mod function_graph;
pub mod heat;
mod infer;
mod matching;
mod order;
mod placement;
mod plan;
mod report;
mod rules;
mod samples;
mod selection;
mod stale;
mod straightened;
mod successors;
mod table;
mod transfers;
pub mod verify;
pub mod write;

pub use build::{build, build_in_modules};
pub use cfg::{Block, BlockIndex, CallEdge, CallKind, Cfg, Edge, Function, FunctionIndex, Place};
pub use clone::{CloneParams, CloneReport, PathCounts, choose_clones};
pub use error::Error;
pub use function_graph::function_graph;
pub use infer::{InferOptions, InferReport, infer, repair};
pub use matching::MatchedBy;
pub use order::{
    ClonedFunction, FunctionOrder, Jump, JumpKind, LayoutReport, Mode, Node, Pages, Params,
    PlacedBlock, PlacedEdge, Problem, Scoring, Totals, lay_out, lay_out_with, order,
};
pub use placement::{ClonePath, ClusterRef, FunctionLayout, Layout, Placed, Score};
pub use plan::{Named, Plan, PlanOptions, plan};
pub use report::{Account, BuildReport, Observed, Unusable, Unused};
pub use rules::{BuildOptions, Modules, Rules, Sections};
pub use stale::{Share, StaleReport, carry_over};
pub use straightened::{FunctionTurned, Straightened, Turned};
pub use successors::{Way, ways};
