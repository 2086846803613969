//! Is the difference between two programs real, layout luck, nothing, or undecided? Pure functions on numbers.
//!
//! No files, no clock; the same numbers and seed give the same answer.

pub mod pair;
mod random;
mod robust;

pub use random::Random;
pub use robust::{TRIM, WINDOW, mean, median, running_median, spread, trimmed_mean, variance};
