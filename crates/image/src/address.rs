//! The two numbers that are easily mixed up: an address as the ELF file states it, and an offset
//! into the file.

use std::fmt;

/// An address as the ELF file states it (`sh_addr`, `p_vaddr`, `st_value`), before any process has
/// moved it.
///
/// Relocatable files (`.o`, `.ko`) state no addresses; there the address of a byte of a section is
/// its file offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ImageAddr(pub u64);

/// An offset in bytes from the beginning of the ELF file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FileOffset(pub u64);

impl ImageAddr {
    /// The address `bytes` further on, or `None` past the end of the address space.
    pub fn checked_add(self, bytes: u64) -> Option<ImageAddr> {
        self.0.checked_add(bytes).map(ImageAddr)
    }

    /// The distance in bytes from `earlier` to this address, or `None` when `earlier` is the later
    /// one.
    pub fn distance_from(self, earlier: ImageAddr) -> Option<u64> {
        self.0.checked_sub(earlier.0)
    }
}

impl fmt::Debug for ImageAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ImageAddr({:#x})", self.0)
    }
}

impl fmt::Display for ImageAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for FileOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileOffset({:#x})", self.0)
    }
}

impl fmt::Display for FileOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
