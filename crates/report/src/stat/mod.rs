//! How are counts of events told: as lines in the columns of perf stat, and as JSON?

pub mod json;
mod text;

pub use text::{interval, notes, total};
