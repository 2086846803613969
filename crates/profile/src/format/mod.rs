//! Reading and writing sample profiles: which formats there are, and which one a file is in.

/// Inlined calls may be nested this deep; deeper input is refused, so that reading needs a bounded stack.
pub const MAX_DEPTH: usize = 256;
