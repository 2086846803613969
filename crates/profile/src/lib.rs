//! Counts to source-level sample profiles: attribute, read, merge, diff, trim, write.
//!
//! The data model ([`SampleProfile`]) is what clang calls a sample profile and gcc an AutoFDO
//! profile: per function, how often each source line (relative to the function's first line, and
//! split by discriminator) was executed, which functions were called from it, and the same again
//! for every call the compiler had inlined. [`mod@format`] reads and writes it, [`operations`]
//! merges, compares and trims it, [`matching`] carries that of an older source over to a newer one,
//! [`preinline`] decides which calling contexts the compiler is to inline.

pub mod attribute;
mod context;
pub mod density;
mod error;
pub mod format;
pub mod matching;
mod model;
pub mod operations;
pub mod preinline;
mod provenance;
pub mod recorded;

pub use context::{Context, Frame};
pub use error::Error;
pub use format::{Format, WriteOptions};
pub use model::{BodySample, FunctionProfile, Location, Name, SampleProfile, name_hash};
pub use provenance::Provenance;
