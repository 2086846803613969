//! Samples to counts per image address, with a ledger of everything that could not be used.
//!
//! [`aggregate::aggregate`] reads one perf.data twice: the first pass (`sideband`) collects what
//! processes mapped and when ([`address_spaces`]), the second (`workers`) counts samples by runtime
//! address ([`traces`]). Only the distinct keys, a few thousand where there were millions of
//! entries, are then translated to image addresses ([`resolve`]), checked against the code
//! ([`straight_line`]) and handed out as [`Counts`]. [`kernel`] takes traces that an emulator
//! counted the same way.

pub mod aggregate;
pub mod artefact;
pub mod binding;
mod by_name;
mod by_space;
pub mod contexts;
pub mod density;
mod enough;
mod error;
pub mod evidence;
mod halves;
pub mod input;
pub mod kernel;
mod ledger;
mod lines;
mod listed;
pub mod loss;
mod merge;
mod model;
mod namesakes;
mod options;
pub mod path_table;
pub mod preaggregated;
pub mod programs;
pub mod resolve;
pub mod script;
mod sideband;
mod spe;
pub mod straight_line;
pub mod text;
pub mod traces;
pub mod weigh;
mod workers;

pub use enough::{is_too_few, refuse_too_few};
pub use error::Error;
pub use ledger::{Book, Ledger, Reason, SpeLedger};
pub use merge::merge;
pub use model::{Branch, Counts, FallThrough, FirstHalf, ImageCounts, Path, SampleCount};
pub use namesakes::Namesake;
