//! How a caller wants a recording counted.

use crate::resolve::Rules;

/// How to aggregate.
#[derive(Clone, Copy, Debug)]
pub struct CountOptions {
    /// Which entries count.
    pub rules: Rules,
    /// Worker threads; the result does not depend on it.
    pub threads: usize,
    /// Only samples of this process.
    pub pid: Option<i32>,
    /// Whether to count paths ([`crate::Path`]) too; they cost a second table and change no other
    /// count.
    pub paths: bool,
}
