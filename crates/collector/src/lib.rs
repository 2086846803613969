//! Records windows of what runs, again and again, and spools a shard of counts per window and
//! program, within a budget and a bounded spool.
//!
//! [`run`] is the loop. A window goes through four states, each of which a killed collector may
//! leave behind and the next one takes up ([`window`]): begun, recorded, counted, published. How
//! often and how densely is recorded, [`budget`] says by what it has cost, and [`pressure`] how busy
//! the machine is. [`schedule`] keeps the time: lengths by a clock that never jumps, dates by the
//! wall clock.
//!
//! Invariant: every window that is begun ends as shards that all appear whole and once, or is
//! counted in the next shards as one that gave nothing, with the reason ([`fleet::Missed`]).
#![forbid(unsafe_code)]

pub mod budget;
mod collect;
mod cost;
mod count;
mod error;
mod host;
pub mod pressure;
pub mod schedule;
mod shards;
mod spool;
mod state;
mod told;
pub mod window;

pub use collect::run;
pub use cost::Meter;
pub use error::Error;
pub use host::{Asked, Host, Settings, Taken};
pub use spool::Spool;
pub use told::{Summary, Told};
