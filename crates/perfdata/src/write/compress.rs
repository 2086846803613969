//! Compressing records as `perf record -z` does: one zstd stream, flushed at each call, in COMPRESSED or COMPRESSED2
//! records of at most 64 KiB with correct sizes.

use crate::bytes::Endian;
use crate::error::Error;
use crate::feature_kinds::CompressedInfo;
use crate::record::kind;
use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

/// Which record carries the compressed bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompressedKind {
    /// COMPRESSED: every perf since 5.2 reads it; leaves the records behind it unaligned.
    Unaligned,
    /// COMPRESSED2: perf 6.16 and newer; padded to 8 bytes.
    Aligned,
}

/// Payload of one record: header and padding included it stays below 64 KiB.
const MOST_PAYLOAD: usize = 65_536 - 16 - 8;

/// Turns records into compressed records. One for each file, since the zstd stream runs through the whole file.
pub struct Compressor {
    encoder: Encoder<'static>,
    kind: CompressedKind,
    level: i32,
    endian: Endian,
    buffer: Vec<u8>,
    bytes_in: u64,
    bytes_out: u64,
}

impl Compressor {
    /// Begins a stream of this level (1 to 22), in this machine's byte order.
    pub fn new(kind: CompressedKind, level: i32) -> Result<Compressor, Error> {
        Compressor::with_endian(kind, level, Endian::NATIVE)
    }

    /// The same in a byte order of choice.
    pub fn with_endian(kind: CompressedKind, level: i32, endian: Endian) -> Result<Compressor, Error> {
        let encoder = Encoder::new(level).map_err(|error| Error::write(format!("zstd: {error}")))?;
        let buffer = Vec::with_capacity(MOST_PAYLOAD);
        Ok(Compressor { encoder, kind, level, endian, buffer, bytes_in: 0, bytes_out: 0 })
    }

    /// Compresses `records` and appends the result to `out`. All of them can be read back from what has been appended.
    pub fn compress(&mut self, records: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let wrong = |error: std::io::Error| Error::write(format!("zstd: {error}"));
        self.bytes_in += records.len() as u64;
        let mut input = InBuffer::around(records);
        while input.pos() < records.len() {
            let mut target = OutBuffer::around_pos(&mut self.buffer, 0);
            self.encoder.run(&mut input, &mut target).map_err(wrong)?;
            let full = target.pos();
            self.put(full, out);
        }
        loop {
            let mut target = OutBuffer::around_pos(&mut self.buffer, 0);
            let left = self.encoder.flush(&mut target).map_err(wrong)?;
            let full = target.pos();
            self.put(full, out);
            if left == 0 {
                return Ok(());
            }
        }
    }

    fn put(&mut self, payload: usize, out: &mut Vec<u8>) {
        if payload == 0 {
            return;
        }
        let bytes = self.buffer.get(..payload).unwrap_or_default();
        let endian = self.endian;
        let (kind, size) = match self.kind {
            CompressedKind::Unaligned => (kind::COMPRESSED, 8 + payload),
            CompressedKind::Aligned => (kind::COMPRESSED2, (16 + payload).next_multiple_of(8)),
        };
        let end = out.len() + size;
        out.extend(endian.put_u32(kind));
        out.extend([0, 0]);
        // `MOST_PAYLOAD` keeps the size within 16 bits.
        out.extend(endian.put_u16(size as u16));
        if self.kind == CompressedKind::Aligned {
            out.extend(endian.put_u64(payload as u64));
        }
        out.extend(bytes);
        out.resize(end, 0);
        self.bytes_out += payload as u64;
    }

    /// What the feature COMPRESSED must say about this stream; `mmap_len` is the size of the largest piece compressed at
    /// once, in bytes (perf takes it as the size of its own buffers).
    pub fn describe(&self, mmap_len: u32) -> CompressedInfo {
        let ratio = self.bytes_in.div_ceil(self.bytes_out.max(1));
        CompressedInfo {
            version: 0,
            algorithm: 1,
            level: u32::try_from(self.level).unwrap_or(1),
            ratio: u32::try_from(ratio).unwrap_or(u32::MAX),
            mmap_len,
        }
    }
}
