//! The records of a stream that are no samples, packed: mappings and names repeat themselves, so that
//! they take a tenth of their size.
//!
//! One zstd stream, in which each record has its position in the stream of the recording (8 bytes)
//! and its size (4) before it, both of the least significant byte first.

use perfdata::{Endian, RawRecord, raw_records};
use std::io::{self, Read as _, Write as _};
use zstd::stream::{read::Decoder, write::Encoder};

/// Level of compression: mappings are the same byte by byte, and the lowest finds that.
const LEVEL: i32 = 1;
/// Bytes before a record.
const HEAD_BYTES: u64 = 12;
/// Bytes of the shortest and of the longest record.
const SHORTEST: u64 = 8;
const LONGEST: u32 = 1 << 16;

/// Records that are no samples, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Side {
    packed: Vec<u8>,
}

/// They are damaged, or more than their stream can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

impl Side {
    /// From what [`packed`](Self::packed) gave.
    pub(crate) fn of(packed: Vec<u8>) -> Side {
        Side { packed }
    }

    pub(crate) fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// Shows each record with its position. Their stream has `stream_bytes`, which bounds what a
    /// small index can become; `endian` is the recording's.
    ///
    /// # Errors
    /// At the first that is damaged; those before it were shown.
    pub(crate) fn each(
        &self,
        stream_bytes: u64,
        endian: Endian,
        show: &mut dyn FnMut(u64, RawRecord<'_>),
    ) -> Result<(), Damaged> {
        if self.packed.is_empty() {
            return Ok(());
        }
        let mut reader = Decoder::with_buffer(self.packed.as_slice()).map_err(|_| Damaged)?;
        let mut room = (stream_bytes / SHORTEST).saturating_mul(SHORTEST + HEAD_BYTES);
        let mut record = Vec::new();
        loop {
            let mut position = [0; 8];
            // Between records is where it may end.
            match reader.read(&mut position).map_err(|_| Damaged)? {
                0 => return Ok(()),
                read => {
                    let rest = position.get_mut(read..).unwrap_or_default();
                    reader.read_exact(rest).map_err(|_| Damaged)?;
                }
            }
            let mut size = [0; 4];
            reader.read_exact(&mut size).map_err(|_| Damaged)?;
            let size = u32::from_le_bytes(size);
            room = room.checked_sub(HEAD_BYTES + u64::from(size)).ok_or(Damaged)?;
            if size > LONGEST {
                return Err(Damaged);
            }
            record.resize(size as usize, 0);
            reader.read_exact(&mut record).map_err(|_| Damaged)?;
            let position = u64::from_le_bytes(position);
            let raw = raw_records(&record, position, endian).next().ok_or(Damaged)?;
            show(position, raw);
        }
    }
}

/// Packs the records of a stream.
pub(super) struct Packer {
    encoder: Option<Encoder<'static, Vec<u8>>>,
}

impl Packer {
    pub(super) fn new() -> Packer {
        Packer { encoder: None }
    }

    /// Packs records that [`put`] wrote; they follow those that it was given before.
    pub(super) fn add(&mut self, records: &[u8]) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let encoder = match &mut self.encoder {
            Some(encoder) => encoder,
            none => none.insert(Encoder::new(Vec::new(), LEVEL)?),
        };
        encoder.write_all(records)
    }

    pub(super) fn finish(self) -> io::Result<Side> {
        let packed = self.encoder.map(Encoder::finish).transpose()?;
        Ok(Side { packed: packed.unwrap_or_default() })
    }
}

/// Writes a record of a position.
pub(super) fn put(position: u64, record: &[u8], out: &mut Vec<u8>) {
    out.extend(position.to_le_bytes());
    // A record's size has 16 bits.
    out.extend((record.len() as u32).to_le_bytes());
    out.extend(record);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record with nothing but its header.
    fn record(size: u16) -> Vec<u8> {
        let mut bytes = vec![0; usize::from(size)];
        bytes[0] = 3;
        bytes[6..8].copy_from_slice(&size.to_le_bytes());
        bytes
    }

    fn packed(sizes: &[u16]) -> Side {
        let mut packer = Packer::new();
        for (size, position) in sizes.iter().zip(0u64..) {
            let mut bytes = Vec::new();
            put(100 * position, &record(*size), &mut bytes);
            packer.add(&bytes).unwrap();
        }
        packer.finish().unwrap()
    }

    fn sizes(side: &Side, stream_bytes: u64) -> (Vec<(u64, usize)>, Result<(), Damaged>) {
        let mut seen = Vec::new();
        let ended = side.each(stream_bytes, Endian::Little, &mut |position, raw| {
            seen.push((position, raw.body.len()));
        });
        (seen, ended)
    }

    #[test]
    fn records_come_back_and_take_little_room_where_they_repeat() {
        let many = vec![64; 10_000];
        let side = packed(&many);
        assert!(side.packed().len() < 100_000, "{}", side.packed().len());
        let (seen, ended) = sizes(&side, 64 * 10_000);
        assert_eq!((seen.len(), ended), (10_000, Ok(())));
        assert_eq!(seen[7], (700, 56));
        assert_eq!(sizes(&packed(&[]), 0), (Vec::new(), Ok(())));
    }

    #[test]
    fn what_is_damaged_or_more_than_a_stream_has_is_refused() {
        let side = packed(&[64; 100]);
        assert_eq!(sizes(&side, 100).1, Err(Damaged), "the stream is smaller");
        let cut = Side::of(side.packed()[..side.packed().len() - 5].to_vec());
        assert_eq!(sizes(&cut, 6400).1, Err(Damaged));
        assert_eq!(sizes(&Side::of(b"something else".to_vec()), 6400).1, Err(Damaged));
        let mut packer = Packer::new();
        packer.add(&[0; 11]).unwrap();
        assert_eq!(sizes(&packer.finish().unwrap(), 6400).1, Err(Damaged), "a cut head");
        let mut packer = Packer::new();
        let mut bytes = Vec::new();
        put(0, &[0; 8], &mut bytes);
        packer.add(&bytes).unwrap();
        assert_eq!(sizes(&packer.finish().unwrap(), 6400).1, Err(Damaged), "a record of no size");
    }
}
