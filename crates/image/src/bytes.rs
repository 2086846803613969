//! Pieces of a file's bytes, by the numbers that stand in it.

use std::ops::Range;

/// The range of `size` bytes at `offset`, if it can be written as numbers of this machine.
pub(crate) fn byte_range(offset: u64, size: u64) -> Option<Range<usize>> {
    let start = usize::try_from(offset).ok()?;
    Some(start..start.checked_add(usize::try_from(size).ok()?)?)
}

/// The bytes from `offset` to the next NUL; `None` when there is no NUL.
pub(crate) fn c_string(table: &[u8], offset: u64) -> Option<&[u8]> {
    let tail = table.get(usize::try_from(offset).ok()?..)?;
    tail.get(..tail.iter().position(|&byte| byte == 0)?)
}
