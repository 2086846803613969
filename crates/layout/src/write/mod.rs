//! A layout to the files that make compilers, linkers and BOLT apply it, and those files back.
//!
//! | file | for | module |
//! |---|---|---|
//! | cc profile, version 0 and 1 | clang `-fbasic-block-sections=list=FILE` | [`cc`], read by [`read_cc`], judged by [`check`] |
//! | ld profile, symbol order | lld `--symbol-ordering-file` | [`order`] |
//! | section order | GNU ld, gold, for code of `-ffunction-sections` | [`sections`] |
//! | fdata, pre-aggregated text | `llvm-bolt` | [`bolt`] |
//!
//! [`merge`] puts the files of several images together. All of them return text, [`files`] all files of a kind; nothing here opens a file.

pub mod bolt;
pub mod cc;
pub mod check;
pub mod files;
pub mod merge;
pub mod order;
pub mod read_cc;
pub mod sections;

use image::ImageAddr;

/// What cannot be written or read, with what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The layout names a function, block or cluster that its graph does not have.
    #[error(
        "{what} is not in the graph that the layout belongs to; compute the layout from this very \
         graph"
    )]
    Foreign {
        /// What is named, in words.
        what: String,
    },
    /// A name that the format cannot hold.
    #[error(
        "function `{name}`: {format} ends a name at {found:?}, so this one cannot be written; \
         leave the function out"
    )]
    Name {
        /// The name.
        name: String,
        /// The format.
        format: &'static str,
        /// The character.
        found: char,
    },
    /// Version 0 has no clones.
    #[error(
        "function `{name}` has cloned blocks, and version 0 of the cc profile knows none; write \
         version 1"
    )]
    Clones {
        /// The function.
        name: String,
    },
    /// Version 0 has no lines beside clusters.
    #[error(
        "function `{name}` has a line of `{letter}`, and version 0 of the cc profile knows none; \
         write version 1"
    )]
    Annotated {
        /// The function.
        name: String,
        /// What the line begins with.
        letter: char,
    },
    /// The first finding that a compiler would end on.
    #[error("line {line}: {found}")]
    Malformed {
        /// Line, from 1.
        line: u32,
        /// What is wrong there and what was expected.
        found: String,
    },
    /// fdata holds branches alone.
    #[error(
        "the counts have no branches, which a branch profile of BOLT is made of; write \
         pre-aggregated counts instead"
    )]
    NoBranches,
    /// The image cannot be decoded.
    #[error(
        "no instructions are known at {address}: fdata needs an x86-64 or aarch64 image with its \
         code"
    )]
    NoCode {
        /// The first address asked for.
        address: ImageAddr,
    },
}
