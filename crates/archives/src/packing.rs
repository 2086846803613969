//! How is a file compressed? Told by its first bytes, never by its name.

use bzip2::read::MultiBzDecoder;
use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use std::io::{self, Read};

/// Most memory of xz's decompressor in KiB; its own levels take up to 65 MiB.
const XZ_KIB: u32 = 160 << 10;
/// Largest window of zstd as a power of two: 128 MiB, as its command line tool accepts by default.
const ZSTD_WINDOW: u32 = 27;
/// Where a tar file says that it is one.
const TAR_MAGIC_AT: usize = 257;

/// How bytes are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Not at all: a tar file.
    Tar,
    /// By gzip.
    Gzip,
    /// By bzip2.
    Bzip2,
    /// By xz.
    Xz,
    /// By zstd.
    Zstd,
}

impl Packing {
    /// How many of a file's first bytes tell.
    pub const HEAD: usize = TAR_MAGIC_AT + 5;

    /// Told by the first bytes of a file; none if it is neither compressed nor a tar file.
    pub fn of(head: &[u8]) -> Option<Packing> {
        match head {
            [0x1f, 0x8b, ..] => Some(Packing::Gzip),
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Some(Packing::Bzip2),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Packing::Xz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Packing::Zstd),
            _ => (head.get(TAR_MAGIC_AT..)?.starts_with(b"ustar")).then_some(Packing::Tar),
        }
    }

    /// The unpacked bytes of a stream. How many there are, nobody knows before: read them within
    /// a bound.
    ///
    /// # Errors
    /// Where the decompressor cannot be made.
    pub fn unpack<'r>(self, packed: impl Read + 'r) -> io::Result<Box<dyn Read + 'r>> {
        Ok(match self {
            Packing::Tar => Box::new(packed),
            Packing::Gzip => Box::new(MultiGzDecoder::new(packed)),
            Packing::Bzip2 => Box::new(MultiBzDecoder::new(packed)),
            Packing::Xz => Box::new(XzReader::new_mem_limit(packed, true, XZ_KIB)),
            Packing::Zstd => {
                let mut decoder = zstd::Decoder::new(packed)?;
                decoder.window_log_max(ZSTD_WINDOW)?;
                Box::new(decoder)
            }
        })
    }
}
