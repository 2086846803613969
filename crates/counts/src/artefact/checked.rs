//! What are the pages of a Parquet file with a checksum each, which the Parquet library reads and does not write?
//!
//! The library writes a page; its header then gets one more field. Output: the CRC-32 of the page as it is in the file,
//! packed and without its header, so that other engines find damage as well as planish does. Source: field 4 of
//! `PageHeader` in parquet.thrift of the [Parquet format]; [Thrift's compact protocol].
//!
//! [Parquet format]: https://github.com/apache/parquet-format
//! [Thrift's compact protocol]: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md

use parquet::column::page::{CompressedPage, PageWriteSpec, PageWriter};
use parquet::errors::{ParquetError, Result};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};

/// The head of a field of 32 bits, one behind the field before.
const NEXT_I32: u8 = 0x15;
/// What a head of a field has one less of if the field before it is one nearer.
const NEARER: u8 = 0x10;

/// Writes pages into memory.
pub(super) struct Checked<'b> {
    /// The pages so far.
    bytes: &'b mut Vec<u8>,
}

impl<'b> Checked<'b> {
    pub(super) fn into(bytes: &'b mut Vec<u8>) -> Checked<'b> {
        Checked { bytes }
    }
}

impl PageWriter for Checked<'_> {
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec> {
        let packed = page.data().len();
        let checksum = crc32fast::hash(page.data());
        let mut plain = TrackedWrite::new(Vec::new());
        let mut spec = SerializedPageWriter::new(&mut plain).write_page(page)?;
        let plain = plain.into_inner()?;
        let header = plain.split_at_checked(plain.len().saturating_sub(packed));
        let parts = header.and_then(|(header, page)| Some((split(header)?, page)));
        let Some(((sizes, head, rest), page)) = parts else {
            return Err(ParquetError::General("the header of a page of another form".to_owned()));
        };
        spec.offset = self.bytes.len() as u64;
        self.bytes.extend_from_slice(sizes);
        self.bytes.push(NEXT_I32);
        varint(self.bytes, zigzag(checksum));
        self.bytes.push(head - NEARER);
        self.bytes.extend_from_slice(rest);
        self.bytes.extend_from_slice(page);
        let written = self.bytes.len() - usize::try_from(spec.offset)?;
        let more = written - plain.len();
        spec.compressed_size += more;
        spec.uncompressed_size += more;
        spec.bytes_written = written as u64;
        Ok(spec)
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The three fields that all headers begin with, the head of the field behind them, and what comes behind that.
fn split(header: &[u8]) -> Option<(&[u8], u8, &[u8])> {
    let mut rest = header;
    for _ in 0..3 {
        let (NEXT_I32, behind) = rest.split_first().map(|(head, behind)| (*head, behind))? else {
            return None;
        };
        let last = behind.iter().position(|byte| byte & 0x80 == 0)?;
        rest = behind.get(last + 1..)?;
    }
    let (head, behind) = rest.split_first()?;
    // Its distance is in the upper half; the checksum comes between, so it is at least two.
    let sizes = header.get(..header.len() - rest.len())?;
    (*head >= 2 * NEARER).then_some((sizes, *head, behind))
}

/// Bits of a signed number with the sign last.
fn zigzag(checksum: u32) -> u32 {
    (checksum << 1) ^ if checksum >> 31 == 1 { u32::MAX } else { 0 }
}

fn varint(to: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        to.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    to.push(u8::try_from(number).unwrap_or(0));
}
