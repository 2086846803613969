//! How is a counts artefact written whose rows come one after the other? In row groups of a bounded
//! number of rows, each written as soon as it is full.

use super::row::{ImageKey, Row};
use super::{Form, group};
use crate::error::Error;
use crate::ledger::Ledger;
use image::ImageAddr;
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows of a row group, which are in memory until it is full.
const GROUP_ROWS: usize = 1 << 17;
/// Most bytes that the rows of a group take until they are written, names left out.
pub const GROUP_BYTES: u64 = 128 << 20;

/// A file on its way.
pub struct Writer<W: Write + Send> {
    path: PathBuf,
    file: SerializedFileWriter<W>,
    /// Images of the rows that wait.
    images: Vec<Arc<ImageKey>>,
    /// Rows that wait, each with the place of its image.
    rows: Vec<(usize, Row)>,
    written: u64,
}

impl<W: Write + Send> Writer<W> {
    /// Begins a file; `path` names it in messages, and `more` are keys and values of its metadata.
    ///
    /// # Errors
    /// Where `out` refuses.
    pub fn new(
        path: &Path,
        out: W,
        form: Form,
        ledger: &Ledger,
        more: Vec<(String, String)>,
    ) -> Result<Writer<W>, Error> {
        let fault = |source| Error::Parquet { path: path.to_owned(), source };
        let file = form.begin(out, ledger, more).map_err(fault)?;
        let (images, rows) = (Vec::new(), Vec::new());
        Ok(Writer { path: path.to_owned(), file, images, rows, written: 0 })
    }

    /// Adds a row, which must come behind all others in order.
    ///
    /// # Errors
    /// Where `out` refuses.
    pub fn push(&mut self, image: &Arc<ImageKey>, row: Row) -> Result<(), Error> {
        if !self.images.last().is_some_and(|last| Arc::ptr_eq(last, image)) {
            self.images.push(Arc::clone(image));
        }
        self.rows.push((self.images.len() - 1, row));
        self.written += 1;
        if self.rows.len() < GROUP_ROWS { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let written = self.write_rows();
        written.map_err(|source| Error::Parquet { path: self.path.clone(), source })?;
        self.rows.clear();
        self.images.clear();
        Ok(())
    }

    fn write_rows(&mut self) -> Result<(), ParquetError> {
        let bare = |address: Option<ImageAddr>| address.map(|address| address.0);
        let rows = self.rows.iter().filter_map(|(at, Row { key, count, mispredicted })| {
            let image = self.images.get(*at)?;
            Some(super::Row {
                build_id: &image.build_id,
                path: &image.path,
                architecture: &image.architecture,
                kind: key.kind,
                first: bare(key.first),
                second: bare(key.second),
                count: *count,
                mispredicted: *mispredicted,
                before: bare(key.before),
                after: bare(key.after),
            })
        });
        let rows: Vec<super::Row<'_>> = rows.collect();
        group::write(&mut self.file, &rows)
    }

    /// Ends the file; the rows that it has.
    ///
    /// # Errors
    /// Where `out` refuses.
    pub fn finish(mut self) -> Result<u64, Error> {
        if !self.rows.is_empty() {
            self.flush()?;
        }
        let closed = self.file.close();
        closed.map_err(|source| Error::Parquet { path: self.path.clone(), source })?;
        Ok(self.written)
    }
}
