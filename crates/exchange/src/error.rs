//! What can be wrong with a profile of another tool, each with the place and the next thing to try.

use std::path::PathBuf;

/// An error of this crate. What merely cannot be counted is no error: it is in the ledger.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not of the format.
    #[error("{path}: {format}, byte {offset}{unpacked}: {problem}", unpacked = if *packed { " of what it unpacks to" } else { "" })]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The format that was read.
        format: &'static str,
        /// Where, in bytes.
        offset: usize,
        /// Whether the file is compressed.
        packed: bool,
        /// What is there, and what should be.
        problem: String,
    },
    /// It does not unpack.
    #[error("{path}: gzip that does not unpack: {source}; fetch the file again")]
    Gzip {
        /// The file.
        path: PathBuf,
        /// The library's word.
        source: std::io::Error,
    },
    /// It unpacks to more than any profile does.
    #[error(
        "{path}: a decompression bomb: its {packed} bytes unpack to more than {most}, which no \
         profile does; unpack it yourself if you trust it"
    )]
    Bomb {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        packed: usize,
        /// What it may unpack to.
        most: u64,
    },
    /// It is of no format that is read here.
    #[error("{path}: {found}, expected pprof or OpenTelemetry profiles{advice}")]
    Unknown {
        /// The file.
        path: PathBuf,
        /// What it seems to be.
        found: String,
        /// What to do next, or nothing.
        advice: &'static str,
    },
    /// A table is longer than any profile's.
    #[error("{path}: more than {most} {what}, more than any profile has; split it")]
    TooMany {
        /// The file.
        path: PathBuf,
        /// Of what.
        what: &'static str,
        /// How many may be there.
        most: usize,
    },
    /// None of its values counts what ran, or not the one that was asked for.
    #[error("{path}: {problem}; it has {found}: choose with --value")]
    Value {
        /// The file.
        path: PathBuf,
        /// What is missing.
        problem: String,
        /// What there is.
        found: String,
    },
    /// Nothing in it can be counted.
    #[error("{path}: no samples in it; was anything running while it was recorded?")]
    NoSamples {
        /// The file.
        path: PathBuf,
    },
    /// The counts have nothing that the format has a place for.
    #[error("{problem}")]
    Nothing {
        /// What is missing, and what to do.
        problem: String,
    },
    /// Counts do not fit.
    #[error("{0}")]
    Counts(#[from] counts::Error),
    /// It could not be written.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}
