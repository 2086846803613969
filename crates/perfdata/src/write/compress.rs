//! Compressing records as `perf record -z` does: zstd, in COMPRESSED or COMPRESSED2 records of at
//! most 64 KiB with correct sizes.
//!
//! Each push is a zstd frame of its own, made in one go out of the memory where the records lie,
//! since a running stream would first copy them. The context is kept, and frames begin at records:
//! perf expands at most one frame a record.

use crate::bytes::Endian;
use crate::error::Error;
use crate::feature_kinds::CompressedInfo;
use crate::kinds::kind;
use zstd::bulk::Compressor as Context;
use zstd::zstd_safe::{CParameter, compress_bound};

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

/// Turns records into compressed records. One for each file.
pub struct Compressor {
    context: Context<'static>,
    kind: CompressedKind,
    level: i32,
    endian: Endian,
    buffer: Vec<u8>,
    bytes_in: u64,
    bytes_out: u64,
}

impl Compressor {
    /// The most bytes of records that one frame holds, which is what a reader needs room for.
    pub const FRAME_BYTES: usize = 2 << 20;

    /// Begins a stream of this level (1 to 22), in this machine's byte order.
    pub fn new(kind: CompressedKind, level: i32) -> Result<Compressor, Error> {
        Compressor::with_endian(kind, level, Endian::NATIVE)
    }

    /// The same in a byte order of choice.
    pub fn with_endian(
        kind: CompressedKind,
        level: i32,
        endian: Endian,
    ) -> Result<Compressor, Error> {
        let context = Context::new(level).map_err(wrong)?;
        let mut made = Compressor {
            context,
            kind,
            level,
            endian,
            buffer: Vec::new(),
            bytes_in: 0,
            bytes_out: 0,
        };
        made.tune()?;
        Ok(made)
    }

    /// Chooses another level for the frames to come.
    pub fn set_level(&mut self, level: i32) -> Result<(), Error> {
        if self.level == level {
            return Ok(());
        }
        self.level = level;
        self.context.set_parameter(CParameter::CompressionLevel(level)).map_err(wrong)?;
        self.tune()
    }

    /// Records repeat each other in long runs: at level 1 longer matches are found a fifth faster,
    /// and are as many. The parameters of other levels are zstd's (0).
    fn tune(&mut self) -> Result<(), Error> {
        let [table, least, target] = if self.level == 1 { [13, 7, 1] } else { [0; 3] };
        for parameter in [
            CParameter::HashLog(table),
            CParameter::MinMatch(least),
            CParameter::TargetLength(target),
        ] {
            self.context.set_parameter(parameter).map_err(wrong)?;
        }
        Ok(())
    }

    /// Compresses `records` and appends the result to `out`. All of them can be read back from what
    /// has been appended.
    pub fn compress(&mut self, records: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        for piece in records.chunks(Compressor::FRAME_BYTES) {
            let bound = compress_bound(piece.len());
            if self.buffer.len() < bound {
                self.buffer.resize(bound, 0);
            }
            let frame = self
                .context
                .compress_to_buffer(piece, self.buffer.as_mut_slice())
                .map_err(wrong)?;
            self.put(frame, out);
            self.bytes_in += piece.len() as u64;
        }
        Ok(())
    }

    /// Appends the first `frame` bytes of the buffer as records.
    fn put(&mut self, frame: usize, out: &mut Vec<u8>) {
        let endian = self.endian;
        for payload in self.buffer.get(..frame).unwrap_or_default().chunks(MOST_PAYLOAD) {
            let (kind, size) = match self.kind {
                CompressedKind::Unaligned => (kind::COMPRESSED, 8 + payload.len()),
                CompressedKind::Aligned => {
                    (kind::COMPRESSED2, (16 + payload.len()).next_multiple_of(8))
                }
            };
            let end = out.len() + size;
            out.extend(endian.put_u32(kind));
            out.extend([0, 0]);
            // `MOST_PAYLOAD` keeps the size within 16 bits.
            out.extend(endian.put_u16(size as u16));
            if self.kind == CompressedKind::Aligned {
                out.extend(endian.put_u64(payload.len() as u64));
            }
            out.extend(payload);
            out.resize(end, 0);
            self.bytes_out += payload.len() as u64;
        }
    }

    /// Bytes of records taken so far, and what they were compressed to.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes_in, self.bytes_out)
    }

    /// What the feature COMPRESSED must say about this stream.
    pub fn describe(&self) -> CompressedInfo {
        Compressor::describe_all(self.level, self.bytes())
    }

    /// The same of a recording of several streams of this level, with the sum of their bytes.
    pub fn describe_all(level: i32, (bytes_in, bytes_out): (u64, u64)) -> CompressedInfo {
        let ratio = bytes_in.div_ceil(bytes_out.max(1));
        CompressedInfo {
            version: 0,
            algorithm: 1,
            level: u32::try_from(level).unwrap_or(1),
            ratio: u32::try_from(ratio).unwrap_or(u32::MAX),
            // perf makes room for so much when it expands a record.
            mmap_len: Compressor::FRAME_BYTES as u32,
        }
    }
}

fn wrong(error: std::io::Error) -> Error {
    Error::write(format!("zstd: {error}"))
}
