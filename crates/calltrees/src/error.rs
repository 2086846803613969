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
    /// How many threads ran at once is not known.
    #[error(
        "{}: --latency needs to know how many threads ran at once: expected records of context \
         switches; record with `planish record --switch-events`",
        path.display()
    )]
    NoSwitches {
        /// The recording.
        path: PathBuf,
    },
    /// There is nothing to sum up, since the recording is not whole.
    #[error("{}: there is no sample in it: {loss}", path.display())]
    Nothing {
        /// The recording.
        path: PathBuf,
        /// What it has lost.
        loss: String,
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
    /// The index of the recording is not of this recording.
    #[error(
        "{}: its index does not fit: expected the samples that it names, found others; remove the \
         index ({}.planish-index, or planish-index in its directory), or read without it \
         (--no-index)",
        path.display(), path.display()
    )]
    Index {
        /// The recording.
        path: PathBuf,
    },
}
