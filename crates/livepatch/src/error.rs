//! What can be wrong with the input.

use std::path::PathBuf;

/// Why clones could not be analysed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory could not be read.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// An ELF file is damaged.
    #[error(transparent)]
    Image(#[from] image::Error),
    /// A line of a dump is not what the compiler writes.
    #[error(
        "{path}, line {line}: expected {expected}, found `{found}`; the dump is cut off or of \
         another kind"
    )]
    Dump {
        /// The dump.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What the line should hold.
        expected: &'static str,
        /// The line, shortened.
        found: String,
    },
    /// A patch has no hunk.
    #[error("{path}: expected a unified diff with at least one hunk `@@ -1,2 +1,2 @@`, found none")]
    NoHunk {
        /// The patch.
        path: PathBuf,
    },
    /// A patch is damaged.
    #[error("{path}, line {line}: this is no line of a unified diff, or a hunk is cut off")]
    Patch {
        /// The patch.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// A patch is of other sources.
    #[error(
        "{path}: does not fit {file}, line {line}: expected `{expected}`, found `{found}`; give \
         the patch before it is applied, and the sources of the build"
    )]
    Misfit {
        /// The patch.
        path: PathBuf,
        /// The source file.
        file: String,
        /// Counted from 1.
        line: u32,
        /// What the patch quotes.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// There is nothing to learn from.
    #[error(
        "{path}: neither object files with symbols nor dumps of the compiler (archives are not \
         read); give the directory of a build, made by gcc with `-fdump-ipa-clones \
         -fdump-ipa-icf-details -g` or by clang with `-fsave-optimization-record -g`"
    )]
    Empty {
        /// The directory.
        path: PathBuf,
    },
}
