//! What can stop a merge, each with the file or row that it is about and the next thing to try.

use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Counts of different sources, and nothing says how they are added.
    #[error(
        "the shards are of different sources, whose counts stand for different numbers of \
         executions: {sources}; --executions weighs each by what its samples stand for, --raw adds \
         them as they are"
    )]
    Mixed {
        /// The sources, with the number of shards of each.
        sources: String,
    },
    /// A shard cannot be read, or is damaged. The rest may be merged without it.
    #[error("{source}")]
    Shard {
        /// The file.
        path: PathBuf,
        /// What is wrong; it names the file.
        source: Box<counts::Error>,
    },
    /// A shard says of itself what cannot be.
    #[error("{path}: {key}: expected {expected}, found {found}")]
    Description {
        /// The file.
        path: PathBuf,
        /// The key of its metadata.
        key: &'static str,
        /// What belongs there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// The metadata are of a version that this planish does not read.
    #[error(
        "{path}: says which recordings it holds in version {found}, this planish reads version \
         {expected}; update planish"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version it states.
        found: u64,
        /// The version read here.
        expected: u32,
    },
    /// Another program wrote to a shard meanwhile.
    #[error("{path}: has changed since it was looked at; merge again when it is whole")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A shard counts more than its recording had.
    #[error(
        "{path}: counts more branches, samples or ranges than the {stated} that its recording had; take \
         the shard from its host again"
    )]
    Overclaimed {
        /// The file.
        path: PathBuf,
        /// What it says that the recording had.
        stated: u128,
    },
    /// A shard counts more of the first half of the samples than of all of them.
    #[error(
        "{path}: counts more of the first half of its samples than of all; take the shard from its \
         host again"
    )]
    Overhalved {
        /// The file.
        path: PathBuf,
    },
    /// An input names no file.
    #[error("{path}: {why}")]
    NoFiles {
        /// The input.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// No shard is left to merge.
    #[error(
        "nothing to merge: of {given} files {rejected} are rejected, {left_out} left out{first}"
    )]
    Nothing {
        /// Files given.
        given: usize,
        /// Those that were rejected.
        rejected: usize,
        /// Those that the options leave out, or that are duplicates.
        left_out: usize,
        /// Why the first one is not merged.
        first: String,
    },
    /// Partial results do not make a whole, nor the same part of one.
    #[error(
        "{path}: is part {part} of {of}; give all {of} parts of the same recordings, or parts of \
         one number alone"
    )]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// Its part, from 1.
        part: u32,
        /// Of how many.
        of: u32,
    },
    /// A sum is too large for the format.
    #[error("the count at {place} reaches 10^38; give smaller weights or fewer files")]
    Overflow {
        /// Which count.
        place: String,
    },
    /// The memory does not suffice for two shards.
    #[error(
        "{path}: two such files need {needed_mib} MiB to be merged; give --memory {needed_mib}"
    )]
    Memory {
        /// One of the files.
        path: PathBuf,
        /// What is needed, in MiB.
        needed_mib: u64,
    },
    /// The result cannot be written.
    #[error("{0}")]
    Counts(#[source] Box<counts::Error>),
    /// A file cannot be written.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl From<counts::Error> for Error {
    fn from(source: counts::Error) -> Error {
        Error::Counts(Box::new(source))
    }
}

impl Error {
    /// What is wrong with the shard at `path`.
    pub(crate) fn of_shard(path: &std::path::Path, source: counts::Error) -> Error {
        Error::Shard { path: path.to_owned(), source: Box::new(source) }
    }

    /// The shard that is to blame, where the others may be merged without it.
    pub fn shard(&self) -> Option<&std::path::Path> {
        match self {
            Error::Shard { path, .. }
            | Error::Description { path, .. }
            | Error::Newer { path, .. }
            | Error::Overclaimed { path, .. }
            | Error::Overhalved { path }
            | Error::Changed { path } => Some(path),
            _ => None,
        }
    }
}
