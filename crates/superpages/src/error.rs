//! What goes wrong with files, processes and the kernel, and what to do next.

use std::io;
use std::path::PathBuf;

/// Errors of this crate; each names the file or thing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be opened or read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("{}: cannot be written ({what}); choose a place where you may write", path.display())]
    Write {
        /// The destination.
        path: PathBuf,
        /// The step that failed.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The file is of a kind that has no program text.
    #[error("{}: {what}", path.display())]
    NotAProgram {
        /// The file.
        path: PathBuf,
        /// What it is, what was expected, what to do.
        what: String,
    },
    /// The headers contradict themselves or the file's size.
    #[error("{}: {what}; the file is damaged or was cut off", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The file cannot be rewritten safely.
    #[error("{}: is not rewritten: {reason}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why, and what to do instead.
        reason: String,
    },
    /// A program does not take the copy of a library.
    #[error(
        "{}: {} takes it from its own place whatever LD_LIBRARY_PATH says (an RPATH); align it \
         there and compare by hand with planish compare",
        file.display(),
        program.display()
    )]
    OwnPlace {
        /// The library.
        file: PathBuf,
        /// The program.
        program: PathBuf,
    },
    /// There is nothing to do.
    #[error("there is no file to warm")]
    NoFiles,
    /// The kernel refused something that is not about one file.
    #[error("{action}")]
    System {
        /// What was tried.
        action: String,
        /// Why it failed.
        source: io::Error,
    },
    /// There is no such process, or it may not be looked at.
    #[error("process {pid}: {what}")]
    Process {
        /// Its number.
        pid: u32,
        /// What is wrong and what to do.
        what: String,
    },
    /// The text of a program cannot be copied into memory of its process.
    #[error("{}: its text is not copied: {reason}", path.display())]
    NotCopied {
        /// The file.
        path: PathBuf,
        /// Why, and what to do instead.
        reason: String,
    },
    /// The library that copies text is not there.
    #[error(
        "{name} is not there (looked at {}); build it with `cargo build --release -p hugetext`, or name it in \
         PLANISH_HUGETEXT", looked.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    NoLibrary {
        /// Its file name.
        name: &'static str,
        /// The places looked at.
        looked: Vec<PathBuf>,
    },
    /// The libraries of a program cannot be listed.
    #[error("{}: its libraries cannot be listed: {what}", path.display())]
    Libraries {
        /// The program.
        path: PathBuf,
        /// What its loader said.
        what: String,
    },
}
