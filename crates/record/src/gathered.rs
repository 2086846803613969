//! The way of a recording's bytes into its file: small writes gathered, large ones handed on in
//! pieces, all through a queue.

use crate::backlog::Backlog;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

/// Larger writes cost several times as much a byte.
const MOST_WRITE: usize = 1 << 20;
/// What is smaller is gathered first.
const GATHER_BYTES: usize = 64 << 10;

/// Small writes gathered, large ones handed on in pieces.
#[derive(Debug)]
pub(crate) struct Gathered {
    backlog: Backlog,
    buffer: Vec<u8>,
}

impl Gathered {
    /// At most so many bytes wait until they are written.
    pub(crate) fn new(file: File, most: u64) -> io::Result<Gathered> {
        Ok(Gathered { backlog: Backlog::new(file, most)?, buffer: Vec::new() })
    }

    /// Waits until all is written.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.flush()?;
        self.backlog.drain()
    }

    /// Forgets what was not written; where in the file that begins.
    pub(crate) fn discard(&mut self) -> io::Result<u64> {
        self.buffer.clear();
        self.backlog.discard()
    }

    /// The queue before the file.
    pub(crate) fn backlog(&self) -> &Backlog {
        &self.backlog
    }
}

impl Write for Gathered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() < GATHER_BYTES {
            if self.buffer.len() + bytes.len() > GATHER_BYTES {
                self.flush()?;
            }
            self.buffer.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        self.flush()?;
        let piece = bytes.get(..MOST_WRITE).unwrap_or(bytes);
        let mut own = self.backlog.buffer();
        own.extend_from_slice(piece);
        self.backlog.push(own)?;
        Ok(piece.len())
    }

    /// Hands on what is gathered.
    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let next = self.backlog.buffer();
        self.backlog.push(std::mem::replace(&mut self.buffer, next))
    }
}

impl Seek for Gathered {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.sync()?;
        let at = (&self.backlog.file).seek(to)?;
        self.backlog.moved(at);
        Ok(at)
    }
}
