//! What are the pages of a column of a row group, unpacked?
//!
//! The Parquet library has a reader of pages, which makes a decompressor for each column of each row group;
//! for the many small shards of a fleet that takes longer than unpacking them. Input: the file and
//! what its metadata say of the column. Output: its pages, one at a time. Invariant: a page unpacks to
//! what it states and no more; memory is that of a page, packed and unpacked.

use super::page_header::{DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, MOST_OF_CHUNK, PageHeader};
use bytes::Bytes;
use parquet::basic::Compression;
use parquet::file::metadata::ColumnChunkMetaData;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Deref;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes that are read at once, unless a page has more.
const READ_BYTES: usize = 16 << 10;

thread_local! {
    /// What unpacks pages. It has a table of 100 KB, so that not each column has one.
    static UNPACKER: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// A page.
pub(super) enum Page {
    /// The values that other pages refer to, and how many there are.
    Dictionary(Bytes, usize),
    /// Rows.
    Rows(RowsPage),
}

/// A page with rows.
pub(super) struct RowsPage {
    /// Which rows have a value; empty where all must have one.
    pub(super) levels: Bytes,
    pub(super) values: Bytes,
    pub(super) rows: usize,
    /// How the values are stored, as `Encoding` numbers it.
    pub(super) encoding: i32,
}

/// A column of a row group.
pub(super) struct Chunk {
    file: BufReader<Range<Arc<File>>>,
    is_packed: bool,
    /// Bytes that are left, and those that they may unpack to.
    left: u64,
    most: u64,
    /// Room for a page as it is in the file.
    packed: Vec<u8>,
}

/// A part of a file, from `at` on.
pub(super) struct Range<F> {
    pub(super) file: F,
    pub(super) at: u64,
    pub(super) left: u64,
}

impl<F: Deref<Target = File>> Read for Range<F> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(to.len());
        let read = self.file.read_at(to.get_mut(..most).unwrap_or_default(), self.at)?;
        self.at += read as u64;
        self.left -= read as u64;
        Ok(read)
    }
}

impl Chunk {
    /// The column; it is within the file, and its pages are honest ([`super::bounds::check_pages`]).
    pub(super) fn of(file: &Arc<File>, column: &ColumnChunkMetaData) -> Chunk {
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let unsigned = |number: i64| u64::try_from(number).unwrap_or(0);
        let (at, left) = (unsigned(start), unsigned(column.compressed_size()));
        let range = Range { file: Arc::clone(file), at, left };
        Chunk {
            file: BufReader::with_capacity(
                READ_BYTES.min(usize::try_from(left).unwrap_or(READ_BYTES)),
                range,
            ),
            is_packed: column.compression() != Compression::UNCOMPRESSED,
            left,
            most: MOST_OF_CHUNK,
            packed: Vec::new(),
        }
    }

    /// The next page; none at the end. Pages of indices are passed over.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn next(&mut self, is_optional: bool) -> Result<Option<Page>, String> {
        loop {
            if self.left == 0 {
                return Ok(None);
            }
            let (header, taken) = PageHeader::read(&mut self.file)
                .map_err(|error| format!("the header of a page: {error}"))?;
            self.left = self.left.saturating_sub(taken);
            let (packed, unpacked) = header
                .check(self.left, self.most)
                .map_err(|(expected, found)| format!("expected {expected}, found {found}"))?;
            self.left -= packed;
            self.most -= unpacked;
            let narrow =
                |bytes: u64| usize::try_from(bytes).map_err(|_| "a page too large".to_owned());
            self.packed.clear();
            self.packed.resize(narrow(packed)?, 0);
            self.file.read_exact(&mut self.packed).map_err(|error| error.to_string())?;
            header.check_page(&self.packed)?;
            if let Some(page) = self.page(&header, narrow(unpacked)?, is_optional)? {
                return Ok(Some(page));
            }
        }
    }

    fn page(
        &self,
        header: &PageHeader,
        unpacked: usize,
        is_optional: bool,
    ) -> Result<Option<Page>, String> {
        let number = |stated: Option<i32>, what: &str| {
            stated
                .and_then(|n| usize::try_from(n).ok())
                .ok_or_else(|| format!("a page without {what}"))
        };
        let encoding =
            header.encoding.ok_or("a page that does not say how its values are stored")?;
        match header.kind {
            Some(DICTIONARY_PAGE) => {
                let bytes = self.unpack(&self.packed, self.is_packed, unpacked)?;
                Ok(Some(Page::Dictionary(bytes, number(header.values, "a number of values")?)))
            }
            Some(DATA_PAGE) => {
                let rows = number(header.count, "a number of values")?;
                let mut values = self.unpack(&self.packed, self.is_packed, unpacked)?;
                let mut levels = Bytes::new();
                if is_optional {
                    // RLE of Encoding; the length of the levels stands before them.
                    let length = values
                        .get(..4)
                        .and_then(|bytes| bytes.try_into().ok())
                        .map(u32::from_le_bytes);
                    let length = length.and_then(|length| usize::try_from(length).ok());
                    let fits = |length: &usize| {
                        header.level_encoding == Some(3) && *length <= values.len() - 4
                    };
                    let length = length.filter(fits).ok_or(LEVELS)?;
                    levels = values.slice(4..4 + length);
                    values = values.slice(4 + length..);
                }
                Ok(Some(Page::Rows(RowsPage { levels, values, rows, encoding })))
            }
            Some(DATA_PAGE_V2) => {
                let rows = number(header.count, "a number of values")?;
                let [own, lists] = header.levels;
                let length = number(own, "the length of its levels")?;
                let there = self
                    .packed
                    .get(..length)
                    .filter(|_| lists.unwrap_or(0) == 0 && length <= unpacked);
                let levels = Bytes::copy_from_slice(there.ok_or(LEVELS)?);
                let rest = self.packed.get(length..).unwrap_or_default();
                let is_packed = self.is_packed && header.is_packed != Some(false);
                let values = self.unpack(rest, is_packed, unpacked - length)?;
                Ok(Some(Page::Rows(RowsPage { levels, values, rows, encoding })))
            }
            _ => Ok(None),
        }
    }

    fn unpack(&self, packed: &[u8], is_packed: bool, unpacked: usize) -> Result<Bytes, String> {
        if is_packed && unpacked == 0 {
            return Ok(Bytes::new());
        }
        let found = match is_packed {
            true => UNPACKER.with_borrow_mut(|unpacker| {
                let unpacker = match unpacker {
                    Some(unpacker) => unpacker,
                    None => unpacker.insert(zstd::bulk::Decompressor::new()?),
                };
                // No more than the capacity is unpacked.
                unpacker.decompress(packed, unpacked)
            }),
            false => Ok(packed.to_vec()),
        };
        let found = found.map_err(|error| format!("a page that cannot be unpacked: {error}"))?;
        match found.len() == unpacked {
            true => Ok(Bytes::from(found)),
            false => {
                Err(format!("a page that unpacks to {} bytes and states {unpacked}", found.len()))
            }
        }
    }
}

const LEVELS: &str = "a page whose levels do not fit into it";
