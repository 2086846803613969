//! Which part of a divided result does a row belong to, and are two files the same? Hashes that are
//! part of the format, or only tell files apart.

use counts::artefact::row::{ImageKey, RowKey};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// One part of a divided result: what a worker of several does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Which part, from 0.
    pub part: u32,
    /// Of how many.
    pub of: u32,
}

/// The part that a row belongs to, of so many: FNV-1a in 64 bits over build ID, path, architecture
/// and kind, each with a zero byte behind it, and over before, first, second and after, each as a
/// zero byte where it is absent, else as a byte 1 and eight bytes, the lowest first; the upper half
/// of the hash is xored into the lower, and the remainder by the number of parts taken.
pub fn part_of(image: &ImageKey, row: &RowKey, of: u32) -> u32 {
    Begun::of(image).part(row, of)
}

/// A hash whose image is in it already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun(u64);

impl Begun {
    pub(crate) fn of(image: &ImageKey) -> Begun {
        let mut hash = Begun(0xcbf2_9ce4_8422_2325);
        for text in [&image.build_id, &image.path, &image.architecture] {
            hash.text(text);
        }
        hash
    }

    pub(crate) fn part(mut self, row: &RowKey, of: u32) -> u32 {
        self.text(row.kind.name());
        for address in [row.before, row.first, row.second, row.after] {
            match address {
                None => self.byte(0),
                Some(address) => {
                    self.byte(1);
                    address.0.to_le_bytes().into_iter().for_each(|byte| self.byte(byte));
                }
            }
        }
        let folded = (self.0 ^ (self.0 >> 32)) & u64::from(u32::MAX);
        u32::try_from(folded % u64::from(of.max(1))).unwrap_or(0)
    }

    fn text(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.byte(byte));
        self.byte(0);
    }

    fn byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
}

/// The SHA-256 of a whole file.
pub(crate) fn of_file(mut file: &File) -> io::Result<[u8; 32]> {
    file.seek(SeekFrom::Start(0))?;
    of_bytes(file)
}

/// The SHA-256 of a Parquet file's footer and of its length: of files that differ it differs but by
/// intent, since it states where each column lies, and its sizes and smallest and largest values.
pub(crate) fn of_footer(mut file: &File) -> io::Result<[u8; 32]> {
    let (start, size) = footer(file)?;
    file.seek(SeekFrom::Start(start))?;
    of_bytes(io::Cursor::new(size.to_le_bytes()).chain(file))
}

/// The SHA-256 of what stands before a Parquet file's footer: of files with the same rows and other
/// words about them it is the same.
pub(crate) fn of_pages(mut file: &File) -> io::Result<[u8; 32]> {
    let (start, _) = footer(file)?;
    file.seek(SeekFrom::Start(0))?;
    of_bytes(file.take(start))
}

/// Where a Parquet file's footer begins, and the size of the file.
fn footer(mut file: &File) -> io::Result<(u64, u64)> {
    let size = file.metadata()?.len();
    let end = size.saturating_sub(8);
    file.seek(SeekFrom::Start(end))?;
    let mut length = [0; 4];
    file.read_exact(&mut length)?;
    Ok((end.saturating_sub(u64::from(u32::from_le_bytes(length))), size))
}

fn of_bytes(mut bytes: impl Read) -> io::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        match bytes.read(&mut piece)? {
            0 => return Ok(hash.finalize().into()),
            read => hash.update(piece.get(..read).unwrap_or_default()),
        }
    }
}

/// In hex.
pub(crate) fn hex(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
