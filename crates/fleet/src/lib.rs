//! Counts of many machines to one counts file: a streaming merge that counts each recording once.
//!
//! [`inputs::expand`] finds the files, [`Shard::open`] asks each what it says of itself
//! ([`recording::Description`]), [`Plan::of`] says which of them count and with which
//! [`weight::Weight`], and [`merge`] adds up their rows: a k-way merge of sorted files, in memory
//! that does not depend on the number of rows. The format is that of [`counts::artefact`], with one
//! key more in its metadata; `docs/reference/counts-file.md` states it, and the SQL that does the
//! same.
#![forbid(unsafe_code)]

pub mod collected;
mod digest;
mod error;
pub mod inputs;
mod kway;
pub mod law;
mod levels;
pub mod origin;
pub mod plan;
pub mod recording;
mod shard;
pub mod simulate;
mod sources;
pub mod stability;
pub mod time;
mod tree;
pub mod weight;

pub use collected::{Collected, Missed};
pub use digest::{Partition, part_of};
pub use error::Error;
pub use levels::{LEAST_MEMORY, Merged, merge};
pub use plan::{Options, Plan};
pub use recording::{Description, Parts, Recording};
pub use shard::{Shard, check, write};
pub use weight::Weight;
