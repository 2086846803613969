//! What can go wrong when a sample profile is read, written or combined.

/// Errors of this crate; each says where, what was found, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes start like none of the formats that this crate reads.
    #[error(
        "not a sample profile: it starts with {start}; expected LLVM text, binary or extbinary, \
         gcc gcov, or gzipped pprof"
    )]
    UnknownFormat {
        /// The first bytes, printed.
        start: String,
    },
    /// The file holds no bytes, or no function.
    #[error("the profile holds no function; was it written by a run without samples?")]
    Empty,
    /// A line of a text profile does not follow the grammar.
    #[error("line {line}: {problem}; found `{found}`")]
    Text {
        /// Line number, from 1.
        line: usize,
        /// What the grammar wants there.
        problem: &'static str,
        /// The line, shortened.
        found: String,
    },
    /// Bytes of a binary profile do not follow the format.
    #[error(
        "{format} profile, offset {offset}: {problem}; the file is truncated or corrupt, write it \
         again"
    )]
    Corrupt {
        /// Format name.
        format: &'static str,
        /// Offset in bytes from the start of the file (or of the decompressed section).
        offset: u64,
        /// What is wrong.
        problem: String,
    },
    /// The file is of a version that this crate does not know.
    #[error("{format} profile of version {found}; this reader knows {known}")]
    Version {
        /// Format name.
        format: &'static str,
        /// The version the file states.
        found: u64,
        /// The versions known.
        known: &'static str,
    },
    /// Inlined calls are nested deeper than [`crate::format::MAX_DEPTH`].
    #[error(
        "inlined calls are nested more than {limit} deep; no compiler does that, the file is \
         corrupt"
    )]
    TooDeep {
        /// The limit.
        limit: usize,
    },
    /// A section decompresses to more than the cap, or more than its ratio allows.
    #[error(
        "compressed data would grow to more than {limit} bytes; refusing it as a decompression \
         bomb"
    )]
    TooLarge {
        /// The cap in bytes.
        limit: u64,
    },
    /// More names than a file of this size can need.
    #[error(
        "more names than a file of its size has ({limit} more would be fine); refusing it as a \
         decompression bomb"
    )]
    TooManyNames {
        /// How many there could still be.
        limit: u64,
    },
    /// The profile cannot be expressed in the format asked for.
    #[error("cannot write this profile as {format}: {problem}")]
    Unwritable {
        /// Format name.
        format: &'static str,
        /// The reason and the next step.
        problem: String,
    },
    /// Lines and probe numbers look alike in a profile, and mean different places.
    #[error(
        "{probes} counts pseudo probes and {lines} lines; they cannot be put together, give \
         profiles of one kind"
    )]
    ProbesAndLines {
        /// A profile of probes.
        probes: String,
        /// A profile of lines.
        lines: String,
    },
    /// A context that one profile names and another has as a call inlined into its caller would
    /// stand there twice.
    #[error(
        "{contexts} keeps calling contexts (--contexts full) and {functions} does not (--contexts \
         nested or off); they cannot be put together, make all of them with the same --contexts"
    )]
    ContextsAndFunctions {
        /// A profile that keeps contexts.
        contexts: String,
        /// A profile that does not.
        functions: String,
    },
}
