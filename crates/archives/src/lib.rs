//! Tar archives of recordings and their symbols: the ones that `perf archive` makes, and planish's
//! own.
//!
//! * [`Packing`] tells how a file is compressed, and unpacks it as it is read.
//! * [`read`] shows the files of an archive to a visitor, within bounds, since anybody may have
//!   made it.
//! * [`Writer`] makes an archive: tar, compressed with zstd, the same bytes for the same files.
//!
//! This crate opens and makes no files; it takes and gives streams of bytes.

mod members;
mod packing;
mod writing;

pub use members::{Error, MOST_MEMBERS, Member, Skipped, read};
pub use packing::Packing;
pub use writing::Writer;
