//! What does a counts artefact unpack to? Asked before the Parquet library, which believes what a
//! file says of itself.
//!
//! A page's header states what the page unpacks to, in at most 31 bits, and the library allocates
//! that much; so a page of 64 KB may become two gigabytes, and a dictionary of a few bytes may
//! state two thousand million values. What zstd makes of a page is bounded by the same number: the
//! library unpacks into a buffer of the stated size, and it is an error where the page holds more
//! (`ZSTDCodec::decompress` of parquet 60; a test holds it to that).
//!
//! Input: the file, and its metadata as the library has read them. The page headers of each column
//! chunk are walked, from one to the next, as the library does (`SerializedPageReader`); the pages
//! themselves are not read. Invariant: no two chunks share a byte, so the time is linear in the
//! size of the file. Layout of the file: [Parquet format], `FileMetaData`, `ColumnMetaData` and
//! `PageHeader` of its parquet.thrift.
//!
//! [Parquet format]: https://github.com/apache/parquet-format

use super::{headers, malformed};
use crate::error::Error;
use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// Most that one page may unpack to, in bytes. Pages have a megabyte as planish and most others
/// write them.
const MOST_OF_PAGE: u64 = 64 << 20;
/// Most that the pages of one column of a row group may unpack to, in bytes. Planish's have 16 MiB
/// where all rows differ.
const MOST_OF_CHUNK: u64 = 256 << 20;
/// Most that all pages of a small file may unpack to, in bytes.
const MOST_OF_FILE: u64 = 512 << 20;
/// Most that a larger file's pages may unpack to, for each byte of the file. Honest ones reach ten.
const MOST_OF_BYTE: u64 = 64;
/// What such a file is, and what to do.
const BOMB: &str = "a decompression bomb; aggregate the recording again";
/// Most elements of a schema; planish's have 8 or 10. The library allocates for each of them in
/// each row group.
const MOST_ELEMENTS: i64 = 64;
/// Length of the footer in bytes and the magic bytes again, at the end of the file.
const END: u64 = 8;

/// Refuses a footer that asks for more than its bytes.
///
/// # Errors
/// With the file, where its footer is none, or has more elements than a counts artefact.
pub(super) fn check_footer(path: &Path, file: &File, size: u64) -> Result<(), Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let mut end = [0; 4];
    let mut file = file;
    let at = size.checked_sub(END).ok_or_else(|| {
        malformed(
            path,
            &format!("offset {size}"),
            "a Parquet footer",
            "the end of the file; aggregate again",
        )
    })?;
    file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(&mut end)).map_err(io)?;
    let length = u64::from(u32::from_le_bytes(end));
    let start = at.checked_sub(length).ok_or_else(|| {
        let (expected, found) =
            (format!("a footer of at most {at} bytes"), format!("one of {length} bytes"));
        malformed(path, &format!("offset {at}"), &expected, &found)
    })?;
    file.seek(SeekFrom::Start(start)).map_err(io)?;
    let place = || format!("footer at offset {start}");
    let see = &mut |at: &[u8], number: i64| match at {
        // The length of the schema.
        [2] if number > MOST_ELEMENTS => {
            Err(io::Error::other(format!("a schema of {number} elements")))
        }
        _ => Ok(()),
    };
    let walked = headers::file(BufReader::new(file).take(length), see);
    walked
        .map(drop)
        .map_err(|error| malformed(path, &place(), "that of a counts artefact", &error.to_string()))
}

/// Refuses a file whose pages unpack to more than an honest file's; else the most bytes that its
/// pages take where one row group after the other is read: of each column a dictionary, and another
/// page as it is packed and unpacked.
///
/// # Errors
/// With the file, the page's offset, and what it states.
pub(super) fn check_pages(
    path: &Path,
    file: &File,
    size: u64,
    metadata: &ParquetMetaData,
) -> Result<u64, Error> {
    let mut most_held = 0;
    let mut budget =
        Budget { packed: size, unpacked: MOST_OF_FILE.max(size.saturating_mul(MOST_OF_BYTE)) };
    for (group, number) in metadata.row_groups().iter().zip(1u64..) {
        let mut held = 0u64;
        for column in group.columns() {
            let name = column.column_path().string();
            let place = |at: u64| format!("row group {number}, column {name}, offset {at}");
            let chunk = check_chunk(file, size, column, &mut budget).map_err(|wrong| {
                malformed(path, &place(wrong.at), &wrong.expected, &wrong.found)
            })?;
            held = held.saturating_add(chunk);
        }
        most_held = most_held.max(held);
    }
    Ok(most_held)
}

/// What is left of a file's bytes, and of those that they may unpack to.
struct Budget {
    packed: u64,
    unpacked: u64,
}

/// What is wrong, and where.
struct Wrong {
    at: u64,
    expected: String,
    found: String,
}

fn check_chunk(
    file: &File,
    size: u64,
    column: &ColumnChunkMetaData,
    budget: &mut Budget,
) -> Result<u64, Wrong> {
    let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let wrong = |expected: String, found: String| Wrong {
        at: u64::try_from(start).unwrap_or(0),
        expected,
        found,
    };
    // What planish writes, and what takes no more memory than it has bytes. Others the library was
    // built without.
    if !matches!(column.compression(), Compression::ZSTD(_) | Compression::UNCOMPRESSED) {
        let expected = "pages packed with zstd, or not at all".to_owned();
        return Err(wrong(
            expected,
            format!("the codec {}; write it again with zstd", column.compression()),
        ));
    }
    let bytes = column.compressed_size();
    let range = u64::try_from(start).ok().zip(u64::try_from(bytes).ok());
    let range = range.and_then(|(start, bytes)| Some((start, bytes, start.checked_add(bytes)?)));
    let Some((start, bytes, end)) = range.filter(|(_, _, end)| *end <= size) else {
        let expected = format!("a column within the {size} bytes of the file");
        return Err(wrong(expected, format!("one of {bytes} bytes at offset {start}")));
    };
    budget.packed = budget.packed.checked_sub(bytes).ok_or_else(|| {
        wrong(
            "columns that share no bytes".to_owned(),
            format!("more than {size} bytes of columns"),
        )
    })?;
    let mut reader = BufReader::new(file);
    let mut at = start;
    let failed = |at: u64, error: io::Error| Wrong {
        at,
        expected: "the header of a page".to_owned(),
        found: error.to_string(),
    };
    reader.seek(SeekFrom::Start(start)).map_err(|error| failed(at, error))?;
    let mut chunk = MOST_OF_CHUNK;
    let (mut dictionary, mut page_bytes) = (0, 0);
    while at < end {
        let (page, header) =
            PageHeader::read((&mut reader).take(end - at)).map_err(|error| failed(at, error))?;
        let (packed, unpacked) = page
            .check(end - at - header, chunk.min(budget.unpacked))
            .map_err(|(expected, found)| Wrong { at, expected, found })?;
        if page.values.is_some() {
            dictionary = unpacked.max(dictionary);
        }
        page_bytes = packed.saturating_add(unpacked).max(page_bytes);
        chunk -= unpacked;
        budget.unpacked -= unpacked;
        let step = i64::try_from(packed).unwrap_or(i64::MAX);
        reader.seek_relative(step).map_err(|error| failed(at, error))?;
        at += header + packed;
    }
    Ok(dictionary.saturating_add(page_bytes))
}

/// What is read of a page's header: the numbers that the library allocates by.
#[derive(Debug, Default)]
struct PageHeader {
    unpacked: Option<i32>,
    packed: Option<i32>,
    /// Of the page's own header, whichever of the three kinds it is.
    encoding: Option<i32>,
    /// Values of a dictionary.
    values: Option<i32>,
}

impl PageHeader {
    /// Reads one; also the bytes that it takes.
    fn read(bytes: impl Read) -> io::Result<(PageHeader, u64)> {
        let mut header = PageHeader::default();
        let taken = headers::page(bytes, &mut |at, number| {
            let to = match at {
                [2] => &mut header.unpacked,
                [3] => &mut header.packed,
                [7, 1] => &mut header.values,
                // DataPageHeader, DictionaryPageHeader and DataPageHeaderV2, of which a page has
                // one.
                [5, 2] | [7, 2] | [8, 4] if header.encoding.is_none() => &mut header.encoding,
                [5, 2] | [7, 2] | [8, 4] => {
                    return Err(io::Error::other("headers of two kinds of pages"));
                }
                _ => return Ok(()),
            };
            *to = i32::try_from(number).ok();
            Ok(())
        })?;
        Ok((header, taken))
    }

    /// The bytes that the page has and those that it unpacks to, or what was expected and what was
    /// found; `left` bytes are left of the chunk, and it may unpack to `most`.
    fn check(&self, left: u64, most: u64) -> Result<(u64, u64), (String, String)> {
        let size = |stated: Option<i32>| stated.and_then(|bytes| u64::try_from(bytes).ok());
        let (Some(packed), Some(unpacked)) = (size(self.packed), size(self.unpacked)) else {
            let found = format!("{:?} and {:?}", self.packed, self.unpacked);
            return Err(("sizes of a page, packed and unpacked".to_owned(), found));
        };
        if packed > left {
            return Err((
                format!("a page of at most {left} bytes"),
                format!("one of {packed} bytes"),
            ));
        }
        if unpacked > MOST_OF_PAGE {
            let expected = format!("a page that unpacks to at most {} MiB", MOST_OF_PAGE >> 20);
            return Err((
                expected,
                format!("one of {packed} bytes that states {unpacked}: {BOMB}"),
            ));
        }
        if unpacked > most {
            let found = format!("a page that states {unpacked} more: {BOMB}");
            return Err((format!("at most {most} bytes more, unpacked"), found));
        }
        // Plain values, dictionaries and what refers to them; others repeat what they once said, as
        // often as they want. Numbers of parquet.thrift's Encoding: PLAIN,
        // PLAIN_DICTIONARY, RLE, RLE_DICTIONARY.
        if let Some(other) = self.encoding.filter(|encoding| !matches!(encoding, 0 | 2 | 3 | 8)) {
            let expected = "values in a plain encoding or of a dictionary".to_owned();
            return Err((expected, format!("encoding {other} of Parquet; write it again without")));
        }
        // The shortest value of a counts artefact is an empty string, which has its length in four
        // bytes.
        if let Some(values) =
            self.values.filter(|values| u64::try_from(*values).is_ok_and(|n| n > unpacked / 4))
        {
            return Err((
                format!("a dictionary within {unpacked} bytes"),
                format!("one of {values} values"),
            ));
        }
        Ok((packed, unpacked))
    }
}
