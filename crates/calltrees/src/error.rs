//! What stops an analysis.

use std::path::PathBuf;

/// Why there are no call trees.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recording cannot be read.
    #[error("{}: {source}", path.display())]
    Recording {
        /// The recording.
        path: PathBuf,
        /// What is wrong with it.
        source: perfdata::Error,
    },
    /// There is nothing to sum up.
    #[error(
        "{}: there is no sample in it: expected records of the kind sample; record with `planish \
         record -- COMMAND`, and see `planish stat` for what does not sample",
        path.display()
    )]
    NoSamples {
        /// The recording.
        path: PathBuf,
    },
}
