//! Why what a run left behind cannot be told.

use std::path::PathBuf;

/// A file of a step is missing or damaged.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The steps cannot be planned again.
    #[error(transparent)]
    Build(#[from] build::Error),
    /// A program cannot be read.
    #[error(transparent)]
    Image(#[from] image::Error),
    /// A comparison cannot be read or judged.
    #[error(transparent)]
    Compare(#[from] compare::Error),
}
