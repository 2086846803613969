//! How numbers are read from recorded bytes: byte order, a cursor that cannot run past the end,
//! addresses.

use crate::error::RecordError;
use std::fmt;

/// An address in a running process or kernel, as the recorder saw it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RuntimeAddr(pub u64);

impl fmt::Debug for RuntimeAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for RuntimeAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::LowerHex for RuntimeAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

/// The byte order of the machine that made the recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Endian {
    /// Least significant byte first (x86, AArch64).
    Little,
    /// Most significant byte first (s390x, ppc64).
    Big,
}

impl Endian {
    /// The byte order of this machine.
    pub const NATIVE: Endian =
        if cfg!(target_endian = "little") { Endian::Little } else { Endian::Big };

    /// Reads 2 bytes.
    #[inline]
    pub fn u16(self, bytes: [u8; 2]) -> u16 {
        if self == Endian::Little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) }
    }

    /// Reads 4 bytes.
    #[inline]
    pub fn u32(self, bytes: [u8; 4]) -> u32 {
        if self == Endian::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
    }

    /// Reads 8 bytes.
    #[inline]
    pub fn u64(self, bytes: [u8; 8]) -> u64 {
        if self == Endian::Little { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) }
    }

    /// Writes 2 bytes.
    #[inline]
    pub fn put_u16(self, value: u16) -> [u8; 2] {
        if self == Endian::Little { value.to_le_bytes() } else { value.to_be_bytes() }
    }

    /// Writes 4 bytes.
    #[inline]
    pub fn put_u32(self, value: u32) -> [u8; 4] {
        if self == Endian::Little { value.to_le_bytes() } else { value.to_be_bytes() }
    }

    /// Writes 8 bytes.
    #[inline]
    pub fn put_u64(self, value: u64) -> [u8; 8] {
        if self == Endian::Little { value.to_le_bytes() } else { value.to_be_bytes() }
    }
}

/// The 8 bytes at `at`, when they exist.
#[inline]
pub(crate) fn eight(bytes: &[u8], at: usize) -> Option<[u8; 8]> {
    bytes.get(at..)?.first_chunk::<8>().copied()
}

/// The 4 bytes at `at`, when they exist.
#[inline]
pub(crate) fn four(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..)?.first_chunk::<4>().copied()
}

/// The text before the first zero byte (all of it when there is none).
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    bytes.get(..end).unwrap_or(bytes)
}

/// Reads fields one after the other; every read that would leave the bytes is an error that names
/// the field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    endian: Endian,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], endian: Endian) -> Self {
        Cursor { rest: bytes, endian }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn take(
        &mut self,
        bytes: u64,
        field: &'static str,
    ) -> Result<&'a [u8], RecordError> {
        let short =
            RecordError::Short { field, need_bytes: bytes, left_bytes: self.rest.len() as u64 };
        let count = usize::try_from(bytes).map_err(|_| short.clone())?;
        let (head, tail) = self.rest.split_at_checked(count).ok_or(short)?;
        self.rest = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], RecordError> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(*head)
            }
            None => Err(RecordError::Short {
                field,
                need_bytes: N as u64,
                left_bytes: self.rest.len() as u64,
            }),
        }
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, RecordError> {
        self.array::<1>(field).map(|[b]| b)
    }

    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, RecordError> {
        let endian = self.endian;
        self.array(field).map(|b| endian.u16(b))
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, RecordError> {
        let endian = self.endian;
        self.array(field).map(|b| endian.u32(b))
    }

    pub(crate) fn i32(&mut self, field: &'static str) -> Result<i32, RecordError> {
        self.u32(field).map(|v| v as i32)
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, RecordError> {
        let endian = self.endian;
        self.array(field).map(|b| endian.u64(b))
    }

    /// `count` numbers of 8 bytes, left where they are.
    pub(crate) fn words(
        &mut self,
        count: u64,
        field: &'static str,
    ) -> Result<Words<'a>, RecordError> {
        let bytes = self.take(count.saturating_mul(8), field)?;
        Ok(Words::new(bytes, self.endian))
    }
}

/// A borrowed list of 8-byte numbers in the recording's byte order.
#[derive(Clone, Copy)]
pub struct Words<'a> {
    raw: &'a [u8],
    endian: Endian,
}

impl<'a> Words<'a> {
    /// The numbers in `raw`; a rest of less than 8 bytes is not part of the list.
    pub fn new(raw: &'a [u8], endian: Endian) -> Self {
        Words { raw, endian }
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.raw.len() / 8
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number at `index`.
    pub fn get(&self, index: usize) -> Option<u64> {
        eight(self.raw, index.checked_mul(8)?).map(|b| self.endian.u64(b))
    }

    /// The numbers in recorded order.
    pub fn iter(&self) -> WordsIter<'a> {
        WordsIter { raw: self.raw, endian: self.endian }
    }
}

impl Default for Words<'_> {
    fn default() -> Self {
        Words { raw: &[], endian: Endian::NATIVE }
    }
}

impl fmt::Debug for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(RuntimeAddr)).finish()
    }
}

impl PartialEq for Words<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

/// Iterates over [`Words`].
#[derive(Clone, Debug)]
pub struct WordsIter<'a> {
    raw: &'a [u8],
    endian: Endian,
}

impl Iterator for WordsIter<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let (head, tail) = self.raw.split_first_chunk::<8>()?;
        self.raw = tail;
        Some(self.endian.u64(*head))
    }
}

impl<'a> IntoIterator for Words<'a> {
    type Item = u64;
    type IntoIter = WordsIter<'a>;

    fn into_iter(self) -> WordsIter<'a> {
        self.iter()
    }
}
