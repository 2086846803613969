//! How is the summary of a recording told: as lines, and as JSON?

pub mod json;
mod text;

pub use text::{Asked, lines};
