//! What does the header of a page of a Parquet file say? Its kind and sizes, how many values there are
//! and how they are stored; and would an honest file have such a page?
//!
//! Source: `PageHeader` of parquet.thrift of the [Parquet format].
//!
//! [Parquet format]: https://github.com/apache/parquet-format

use super::headers;
use std::io::{self, Read};

/// Most that one page may unpack to, in bytes. Pages have a megabyte as planish and most others
/// write them.
const MOST_OF_PAGE: u64 = 64 << 20;
/// Most that the pages of one column of a row group may unpack to, in bytes. Planish's have 16 MiB
/// where all rows differ.
pub(super) const MOST_OF_CHUNK: u64 = 256 << 20;
/// What such a file is, and what to do.
const BOMB: &str = "a decompression bomb; aggregate the recording again";
/// Kinds of pages, as `PageType` numbers them.
pub(super) const DATA_PAGE: i32 = 0;
/// A page with the values that others refer to.
pub(super) const DICTIONARY_PAGE: i32 = 2;
/// A page whose levels are never packed.
pub(super) const DATA_PAGE_V2: i32 = 3;

/// What is read of a page's header.
#[derive(Debug, Default)]
pub(super) struct PageHeader {
    pub(super) kind: Option<i32>,
    unpacked: Option<i32>,
    packed: Option<i32>,
    /// CRC-32 of the page as it is in the file, without this header.
    checksum: Option<i32>,
    /// Of the page's own header, whichever of the three kinds it is.
    pub(super) encoding: Option<i32>,
    /// Values of a page of data, absent ones among them.
    pub(super) count: Option<i32>,
    /// Values of a dictionary.
    pub(super) values: Option<i32>,
    /// How the levels of a page of the first version are stored.
    pub(super) level_encoding: Option<i32>,
    /// Bytes of the levels of a page of the second version: those that say what is absent, and those of
    /// lists.
    pub(super) levels: [Option<i32>; 2],
    /// Whether the values of a page of the second version are packed; they are if it does not say.
    pub(super) is_packed: Option<bool>,
}

impl PageHeader {
    /// Reads one; also the bytes that it takes.
    pub(super) fn read(bytes: impl Read) -> io::Result<(PageHeader, u64)> {
        let mut header = PageHeader::default();
        let taken = headers::page(bytes, &mut |at, number| {
            let to = match at {
                [1] => &mut header.kind,
                [2] => &mut header.unpacked,
                [3] => &mut header.packed,
                [4] => &mut header.checksum,
                // DataPageHeader, DictionaryPageHeader and DataPageHeaderV2, of which a page has
                // one.
                [5, 1] | [8, 1] => &mut header.count,
                [7, 1] => &mut header.values,
                [5, 3] => &mut header.level_encoding,
                [8, 5] => &mut header.levels[0],
                [8, 6] => &mut header.levels[1],
                [8, 7] => {
                    header.is_packed = Some(number != 0);
                    return Ok(());
                }
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
    pub(super) fn check(&self, left: u64, most: u64) -> Result<(u64, u64), (String, String)> {
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

    /// Refuses a page, as it is in the file, that is not the one that was written. Not all writers say what to check it by.
    pub(super) fn check_page(&self, page: &[u8]) -> Result<(), String> {
        let Some(stated) = self.checksum.map(i32::cast_unsigned) else { return Ok(()) };
        match crc32fast::hash(page) {
            found if found == stated => Ok(()),
            found => Err(format!(
                "a damaged page: its checksum is {found:08x}, and was {stated:08x} when it was written"
            )),
        }
    }
}
