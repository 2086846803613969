//! What stops a collector, with the next thing to try.

use std::io;
use std::path::{Path, PathBuf};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another collector has the spool.
    #[error("{path}: another collector uses this spool; end it, or give another directory")]
    InUse {
        /// The spool.
        path: PathBuf,
    },
    /// What a file of the spool says cannot be read.
    #[error(
        "{path}: {why}; it is none that a collector of this version wrote: remove it, or give another spool"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nothing can be recorded.
    #[error("{0}")]
    Record(#[source] Box<record::Error>),
    /// A recording cannot be counted.
    #[error("{0}")]
    Counts(#[source] Box<counts::Error>),
    /// A recording cannot be read.
    #[error("{0}")]
    Recording(#[source] Box<perfdata::Error>),
    /// A shard cannot be made.
    #[error("{0}")]
    Shard(#[source] Box<fleet::Error>),
    /// A window was not counted to its end.
    #[error("{path}: counting it ended by an error of planish's own")]
    Panicked {
        /// The recording.
        path: PathBuf,
    },
}

impl Error {
    /// That of a file.
    pub(crate) fn io(path: &Path) -> impl Fn(io::Error) -> Error + use<> {
        let path = path.to_owned();
        move |source| Error::Io { path: path.clone(), source }
    }

    /// Whether there is no room for a file.
    pub fn is_no_room(&self) -> bool {
        match self {
            Error::Io { source, .. } => no_room(source),
            Error::Record(source) => recording_no_room(source),
            _ => false,
        }
    }

    /// Whether nothing was wrong but that nothing ran.
    pub fn is_idle(&self) -> bool {
        match self {
            Error::Record(source) => matches!(**source, record::Error::Empty { .. }),
            Error::Counts(source) => matches!(**source, counts::Error::NoSamples { .. }),
            _ => false,
        }
    }
}

fn recording_no_room(error: &record::Error) -> bool {
    match error {
        record::Error::Io { source, .. } => no_room(source),
        record::Error::Cut { source, .. } => recording_no_room(source),
        _ => false,
    }
}

fn no_room(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    [StorageFull, QuotaExceeded, FileTooLarge].contains(&error.kind())
}

impl From<record::Error> for Error {
    fn from(source: record::Error) -> Error {
        Error::Record(Box::new(source))
    }
}

impl From<counts::Error> for Error {
    fn from(source: counts::Error) -> Error {
        Error::Counts(Box::new(source))
    }
}

impl From<perfdata::Error> for Error {
    fn from(source: perfdata::Error) -> Error {
        Error::Recording(Box::new(source))
    }
}

impl From<fleet::Error> for Error {
    fn from(source: fleet::Error) -> Error {
        Error::Shard(Box::new(source))
    }
}
