//! Writing a perf.data file that is readable at any moment: header first, sections last, renamed when complete.

use crate::Error;
use crate::attr::{ATTR_BYTES, Attr};
use crate::features::Section;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const HEADER_BYTES: u64 = 104;
const DATA_SIZE_AT: u64 = 48;
const FEATURES_AT: u64 = 72;
/// Writes of 256 KiB to 1 MiB cost the least per byte.
const BUFFER_BYTES: usize = 512 * 1024;
const FINISHED_ROUND: [u8; 8] = 0x0008_0000_0000_0044u64.to_ne_bytes();

/// A perf.data being written.
pub(crate) struct Output {
    file: File,
    path: PathBuf,
    partial: PathBuf,
    buffer: Vec<u8>,
    data_at: u64,
    written: u64,
    complete: bool,
}

impl Output {
    /// Refuses what must not be replaced, creates the file beside it, and writes the header.
    pub(crate) fn create(path: &Path, attr: &Attr, ids: &[u64]) -> Result<Output, Error> {
        check(path)?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let partial = path.with_file_name(name);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&partial)
            .map_err(Error::io(&partial, "create"))?;
        let ids_bytes = 8 * ids.len() as u64;
        let attrs_at = HEADER_BYTES + ids_bytes;
        let attr_entry = u64::from(ATTR_BYTES) + 16;
        let data_at = attrs_at + attr_entry;
        let mut start = b"PERFILE2".to_vec();
        for word in [HEADER_BYTES, attr_entry, attrs_at, attr_entry, data_at, 0, 0, 0, 0, 0, 0, 0] {
            start.extend_from_slice(&word.to_ne_bytes());
        }
        ids.iter().for_each(|id| start.extend_from_slice(&id.to_ne_bytes()));
        start.extend_from_slice(&attr.bytes());
        for word in [HEADER_BYTES, ids_bytes] {
            start.extend_from_slice(&word.to_ne_bytes());
        }
        file.write_all_at(&start, 0).map_err(Error::io(&partial, "write"))?;
        let buffer = Vec::with_capacity(BUFFER_BYTES + 64 * 1024);
        Ok(Output { file, path: path.to_owned(), partial, buffer, data_at, written: 0, complete: false })
    }

    /// Adds whole records.
    pub(crate) fn records(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Promises that nothing older than what was written before the last round follows.
    pub(crate) fn finish_round(&mut self) -> Result<(), Error> {
        self.records(&FINISHED_ROUND)
    }

    /// Bytes of records so far.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Writes what is buffered, then its size into the header, so that a recorder killed now leaves a valid file.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let failed = || Error::io(&self.partial, "write");
        self.file.write_all_at(&self.buffer, self.data_at + self.written).map_err(failed())?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        self.file.write_all_at(&self.written.to_ne_bytes(), DATA_SIZE_AT).map_err(failed())
    }

    /// Writes the feature sections, moves an existing file to `NAME.old`, and gives the file its name.
    pub(crate) fn finish(mut self, mut sections: Vec<Section>) -> Result<u64, Error> {
        self.flush()?;
        sections.sort_by_key(|(number, _)| *number);
        let table_at = self.data_at + self.written;
        let mut at = table_at + 16 * sections.len() as u64;
        let (mut bits, mut table, mut bodies) = (0u64, Vec::new(), Vec::new());
        for (number, body) in &sections {
            bits |= 1 << number;
            table.extend_from_slice(&at.to_ne_bytes());
            table.extend_from_slice(&(body.len() as u64).to_ne_bytes());
            bodies.extend_from_slice(body);
            at += body.len() as u64;
        }
        table.extend_from_slice(&bodies);
        let failed = || Error::io(&self.partial, "write");
        self.file.write_all_at(&table, table_at).map_err(failed())?;
        self.file.write_all_at(&bits.to_ne_bytes(), FEATURES_AT).map_err(failed())?;
        if self.path.exists() {
            let mut old = self.path.clone().into_os_string();
            old.push(".old");
            std::fs::rename(&self.path, &old).map_err(Error::io(&self.path, "rename to .old"))?;
        }
        std::fs::rename(&self.partial, &self.path).map_err(Error::io(&self.partial, "rename"))?;
        self.complete = true;
        Ok(at)
    }
}

impl Drop for Output {
    /// A recording that failed leaves nothing behind; one that was killed leaves its readable part.
    fn drop(&mut self) {
        if !self.complete {
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}

/// An existing output must be a regular file of the caller's.
fn check(path: &Path) -> Result<(), Error> {
    let refuse = |reason: &str| Error::Output { path: path.to_owned(), reason: reason.to_owned() };
    if path.file_name().is_none() {
        return Err(refuse("it is not the name of a file"));
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => Err(refuse("it is not a regular file")),
        Ok(found) if found.uid() != crate::sys::effective_user() => Err(refuse("it belongs to another user")),
        _ => Ok(()),
    }
}
