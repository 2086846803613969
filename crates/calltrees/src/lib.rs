//! Samples to call trees: self and total weight by function, library, source line, thread, process and
//! control group.
//!
//! [`read`] makes of a recording its distinct stacks, named, each with the weight of its samples
//! ([`Recorded`]); [`rows`](rows::rows) and [`Tree`] add them up. It works in two passes, as
//! `counts` does: the first reads what is not a sample (mappings, names of threads), the second
//! counts samples by distinct call chain on worker threads, and only distinct places get names.
//!
//! This crate opens no file of its own accord: [`Options::open`] does.

mod analysis;
mod branch_chain;
mod build_ids;
mod distinct;
mod dumped;
mod error;
mod event;
mod files;
mod handing;
mod index;
mod inlining;
mod jit_dump;
mod kernel;
mod kernel_code;
mod made;
mod marks;
mod names;
mod naming;
mod owners;
mod perf_map;
pub mod rows;
mod session;
mod sideband;
mod sites;
mod stack_copy;
pub mod switching;
mod times;
mod tree;
mod unwinding;
mod workers;

pub use address_spaces::module_name;
pub use analysis::{Cgroup, Ledger, Options, Recorded, Stack, Thread, read, read_then};
pub use build_ids::BuildIds;
pub use distinct::Weight;
pub use error::Error;
pub use event::Event;
pub use files::{Opened, Opener, Wanted, is_anonymous};
pub use index::{BINDING_BYTES, Index, Unusable};
pub use jit_dump::{DumpLedger, DumpOpener, JitDump};
pub use kernel::KernelSymbols;
pub use names::{Function, FunctionId, Known, Library, LibraryId, Line, Names, SourceId};
pub use naming::{Kind, PlaceId};
pub use perf_map::{MapOpener, PerfMap};
pub use session::{Code, Distinct, Frame, Session, Timed};
pub use sites::{Site, of_library, own_function, sites};
pub use times::{Blocks, first_time, times};
pub use tree::{Node, NodeId, Tree};
pub use unwinding::Frames;
