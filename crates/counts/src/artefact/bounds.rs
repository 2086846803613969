//! What does a counts artefact unpack to? Asked before the Parquet library, which believes what a
//! file says of itself.
//!
//! A page's header states what the page unpacks to, in at most 31 bits; so a page of 64 KB may become
//! two gigabytes, and a dictionary of a few bytes may state two thousand million values. What zstd
//! makes of a page is bounded by the same number ([`super::chunk`]).
//!
//! Input: the file, and its metadata as the library has read them. The page headers of each column
//! chunk are walked, from one to the next; the pages themselves are not read. Invariant: no two chunks share a byte, so the time is linear in the
//! size of the file. Layout of the file: [Parquet format], `FileMetaData`, `ColumnMetaData` and
//! `PageHeader` of its parquet.thrift.
//!
//! [Parquet format]: https://github.com/apache/parquet-format

use super::chunk::Range;
use super::page_header::{DICTIONARY_PAGE, MOST_OF_CHUNK, PageHeader};
use super::{MAGIC, headers, malformed};
use crate::error::Error;
use parquet::basic::Compression;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// Most that all pages of a small file may unpack to, in bytes.
const MOST_OF_FILE: u64 = 512 << 20;
/// Most that a larger file's pages may unpack to, for each byte of the file. Honest ones reach ten.
const MOST_OF_BYTE: u64 = 64;
/// Most elements of a schema; planish's have 8 or 10. The library allocates for each of them in
/// each row group.
const MOST_ELEMENTS: i64 = 64;
/// What a page's header seldom has more than, in bytes.
const HEADER_BYTES: usize = 128;
/// Length of the footer in bytes and the magic bytes again, at the end of the file.
const END: u64 = 8;
const CUT_OFF: &str = "others: a file that was cut off; copy it or aggregate again";

/// Refuses a footer that asks for more than its bytes.
///
/// # Errors
/// With the file, where its footer is none, or has more elements than a counts artefact.
pub(super) fn check_footer(path: &Path, file: &File, size: u64) -> Result<(), Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let mut end = [0; END as usize];
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
    let [a, b, c, d, magic @ ..] = end;
    if magic != *MAGIC {
        let expected = "the magic bytes of Parquet at its end";
        return Err(malformed(path, &format!("offset {}", at + 4), expected, CUT_OFF));
    }
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
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
    let failed = |at: u64, error: io::Error| Wrong {
        at,
        expected: "the header of a page".to_owned(),
        found: error.to_string(),
    };
    let mut at = start;
    let mut chunk = MOST_OF_CHUNK;
    let (mut dictionary, mut page_bytes) = (0, 0);
    while at < end {
        let bytes = BufReader::with_capacity(HEADER_BYTES, Range { file, at, left: end - at });
        let (page, header) = PageHeader::read(bytes).map_err(|error| failed(at, error))?;
        let (packed, unpacked) = page
            .check(end - at - header, chunk.min(budget.unpacked))
            .map_err(|(expected, found)| Wrong { at, expected, found })?;
        if page.kind == Some(DICTIONARY_PAGE) {
            dictionary = unpacked.max(dictionary);
        }
        page_bytes = packed.saturating_add(unpacked).max(page_bytes);
        chunk -= unpacked;
        budget.unpacked -= unpacked;
        at += header + packed;
    }
    Ok(dictionary.saturating_add(page_bytes))
}
