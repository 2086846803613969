//! Makes an archive: tar, compressed with zstd, in which nothing tells when and by whom it was made.

use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

/// zstd's own default: recordings and programs get little smaller beyond it.
const LEVEL: i32 = 3;

/// An archive that is being made.
pub struct Writer<W: Write> {
    tar: tar::Builder<zstd::Encoder<'static, W>>,
}

/// Exactly so many bytes of a stream: a file that grows or shrinks meanwhile would break the rest
/// of the archive.
struct Exactly<R> {
    stream: R,
    left: u64,
}

impl<R: Read> Read for Exactly<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.stream.read(buffer.get_mut(..most).unwrap_or_default())?;
        if read == 0 && most > 0 {
            let text = "the file became shorter while it was read";
            return Err(io::Error::new(ErrorKind::UnexpectedEof, text));
        }
        self.left = self.left.saturating_sub(read as u64);
        Ok(read)
    }
}

impl<W: Write> Writer<W> {
    /// Begins an archive.
    ///
    /// # Errors
    /// Where the compressor cannot be made.
    pub fn new(out: W) -> io::Result<Writer<W>> {
        let mut encoder = zstd::Encoder::new(out, LEVEL)?;
        encoder.include_checksum(true)?;
        Ok(Writer { tar: tar::Builder::new(encoder) })
    }

    /// Adds a file of so many bytes under a relative path.
    ///
    /// # Errors
    /// Where the stream has fewer bytes, cannot be read, or the archive cannot be written.
    pub fn add(&mut self, path: &Path, bytes: u64, stream: impl Read) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes);
        header.set_mode(0o644);
        self.tar.append_data(&mut header, path, Exactly { stream, left: bytes })
    }

    /// Writes the end.
    ///
    /// # Errors
    /// Where the archive cannot be written.
    pub fn finish(self) -> io::Result<W> {
        self.tar.into_inner()?.finish()
    }
}
