//! How the bytes of an image are held: mapped from the file, so that only what is read is loaded,
//! or owned.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

/// The bytes of one ELF file.
#[derive(Debug)]
pub(crate) enum Bytes {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl Bytes {
    /// Maps a regular file. Reads nothing; pages are loaded when they are touched.
    pub(crate) fn map(path: &Path) -> io::Result<Bytes> {
        // Asked before opening: to open a named pipe waits for a writer, to open a device may set
        // it off.
        let metadata = std::fs::metadata(path)?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        if metadata.len() == 0 {
            // An empty mapping is refused by the kernel; an empty slice says the same.
            return Ok(Bytes::Owned(Vec::new()));
        }
        let file = File::open(path)?;
        // SAFETY: the mapping is private and read-only, and it lives as long as the slice handed
        // out. A file that somebody shortens in place meanwhile raises SIGBUS, as in every
        // tool that maps its input; a linker that replaces the file (all of them unlink
        // first) does no harm.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Bytes::Mapped(map))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}
