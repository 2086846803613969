//! What can be wrong with a recording: as a whole ([`Error`]) and in one record ([`RecordError`]).

use std::path::PathBuf;

/// Why a recording cannot be read or written any further.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{path}: cannot {action}: {source}", path = path.display())]
    Io {
        /// The file concerned.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The file does not start as a perf.data file does.
    #[error(
        "{path}: offset 0: expected the magic PERFILE2, found {found}; is this the output of `perf record`?",
        path = path.display()
    )]
    NotPerfData {
        /// The file concerned.
        path: PathBuf,
        /// The bytes found instead, as text and hex.
        found: String,
    },
    /// The file ends within its header.
    #[error(
        "{path}: the file is cut: the header has {expected_bytes} bytes, {found_bytes} are there; copy the recording again",
        path = path.display()
    )]
    Cut {
        /// The file concerned.
        path: PathBuf,
        /// Size of the header, in bytes.
        expected_bytes: u64,
        /// Size of the file, in bytes.
        found_bytes: u64,
    },
    /// A number in the file contradicts the format or the file's length.
    #[error("{path}: offset {offset:#x}: expected {expected}, found {found}; {next}", path = path.display())]
    Corrupt {
        /// The file concerned.
        path: PathBuf,
        /// Where in the file, in bytes.
        offset: u64,
        /// What the format asks for.
        expected: String,
        /// What stands there.
        found: String,
        /// What to try next.
        next: &'static str,
    },
    /// Compressed data could not be expanded, or expands beyond all measure.
    #[error("{path}: offset {offset:#x}: compressed record: {reason}; record again, or without -z", path = path.display())]
    Compressed {
        /// The file concerned.
        path: PathBuf,
        /// Where the compressed record starts, in bytes.
        offset: u64,
        /// What went wrong.
        reason: String,
    },
    /// A directory recording lacks its files.
    #[error("{path}: {reason}; a directory recording (`perf record --threads`) has a file `data` and files data.N", path = path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is missing or wrong.
        reason: String,
    },
    /// Values handed to the writer do not fit into the format.
    #[error("cannot write a perf.data record: {reason}")]
    Write {
        /// What does not fit.
        reason: String,
    },
}

impl Error {
    pub(crate) fn write(reason: impl Into<String>) -> Error {
        Error::Write { reason: reason.into() }
    }
}

/// Why one record could not be understood. The records around it can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A field lies beyond the end of the record.
    #[error("the record ends inside `{field}`: {need_bytes} bytes needed, {left_bytes} left")]
    Short {
        /// The field.
        field: &'static str,
        /// Its size, in bytes.
        need_bytes: u64,
        /// What is left of the record, in bytes.
        left_bytes: u64,
    },
    /// No attribute of the recording has this event id.
    #[error("no event of the recording has the id {id}")]
    UnknownId {
        /// The id in the record.
        id: u64,
    },
    /// The recording describes no event at all, so samples cannot be read.
    #[error("the recording has no event attribute before this record")]
    NoAttr,
    /// A field has a value that the format rules out.
    #[error("`{field}` has the value {value}, which the format does not allow")]
    Value {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
}
