//! Expanding COMPRESSED and COMPRESSED2 records: one zstd stream runs through all of a file's
//! compressed records, and the records inside straddle their borders.
//!
//! A small file may not claim to hold an endless recording: what comes out is bounded by a ratio,
//! and absolutely.

use crate::bytes::Endian;
use crate::kinds::kind;
use std::collections::VecDeque;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// zstd turns 128 KiB of zeros into some 10 bytes, but records are never that regular: a recording
/// of nothing but one sample repeated reaches 250 at level 1. Beyond this ratio (and the slack) the
/// data is made to fill memory or time.
const MOST_RATIO: u64 = 4_000;
/// Output that any stream may have whatever its ratio, in bytes: a full ring of repeated records.
const SLACK_BYTES: u64 = 64 << 20;
/// No recording has this many bytes of records.
const MOST_BYTES: u64 = 1 << 44;
/// Payload of the records in which perf 6.16 splits one push (PERF_SAMPLE_MAX_SIZE − header − 1).
const SPLIT_PAYLOAD: u64 = 65_536 - 16 - 1;
/// Largest push believed of a COMPRESSED2 record with a wrong size, in bytes.
const MOST_PUSH_BYTES: u64 = 256 << 20;
/// Bytes of a COMPRESSED2 record before its payload.
pub(crate) const HEADER2_BYTES: u64 = 16;

/// Payload bytes of compressed records that are still to be expanded: offset in the file and size.
pub(crate) type Pieces = VecDeque<(u64, u64)>;

/// The state of one file's zstd stream.
pub(crate) struct Inflater {
    decoder: Decoder<'static>,
    bytes_in: u64,
    bytes_out: u64,
    /// The last call filled the output to the brim, so that the decoder may hold more.
    may_hold_more: bool,
}

impl Inflater {
    pub(crate) fn new() -> std::io::Result<Inflater> {
        Ok(Inflater { decoder: Decoder::new()?, bytes_in: 0, bytes_out: 0, may_hold_more: false })
    }

    pub(crate) fn may_hold_more(&self) -> bool {
        self.may_hold_more
    }

    /// Expands from `input` behind the bytes that `out` already has, up to its capacity; gives the
    /// number of input bytes used.
    pub(crate) fn run(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<usize, String> {
        let (mut used, before) = (0, out.len());
        loop {
            let at = out.len();
            let mut source = InBuffer::around(input.get(used..).unwrap_or_default());
            let mut target = OutBuffer::around_pos(out, at);
            self.decoder
                .run(&mut source, &mut target)
                .map_err(|error| format!("zstd cannot expand it: {error}"))?;
            let taken = source.pos();
            used += taken;
            if out.len() == out.capacity() || used == input.len() || (taken == 0 && out.len() == at)
            {
                break;
            }
        }
        self.may_hold_more = out.len() == out.capacity();
        self.bytes_in += used as u64;
        self.bytes_out += (out.len() - before) as u64;
        let most =
            self.bytes_in.saturating_mul(MOST_RATIO).saturating_add(SLACK_BYTES).min(MOST_BYTES);
        if self.bytes_out > most {
            let (bytes_in, bytes_out) = (self.bytes_in, self.bytes_out);
            return Err(format!(
                "{bytes_in} bytes expand to more than {bytes_out}, beyond the ratio of \
                 {MOST_RATIO} that recordings have"
            ));
        }
        Ok(used)
    }
}

/// Where the payload of a compressed record lies, and where the next record starts.
#[derive(Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) pieces: Pieces,
    /// Next record, by the size that the record should have.
    pub(crate) next: u64,
    /// The next record may also start here, when the writer did not pad.
    pub(crate) next_unpadded: u64,
    /// The 16-bit size was wrong.
    pub(crate) repaired: bool,
}

/// Why a compressed record's payload cannot be placed.
#[derive(Debug, PartialEq)]
pub(crate) enum Misplaced {
    /// It goes on behind the end of the file.
    Truncated,
    /// It contradicts itself.
    Corrupt(String),
}

/// Finds the payload of the compressed record at `offset`. `read` gives the 16 bytes at a place in
/// the file.
///
/// perf 6.16 compresses a whole push into several records one behind the other, and then stores the
/// sum of them in the first one's `data_size` and, cut to 16 bits, in its `size`. The payload of
/// such a first record is full, and the headers of the others lie between the payloads. perf 7.3
/// gives each record its own right sizes (65,512 bytes of payload in a full one); but it does not
/// flush what zstd still holds after the last one, so that a recording may end within a record,
/// which counts as truncated.
pub(crate) fn place(
    offset: u64,
    end: u64,
    endian: Endian,
    mut read: impl FnMut(u64) -> Option<[u8; 16]>,
    size: u16,
    compressed_kind: u32,
) -> Result<Place, Misplaced> {
    let size = u64::from(size);
    if compressed_kind == kind::COMPRESSED {
        let next = offset.saturating_add(size);
        if next > end {
            return Err(Misplaced::Truncated);
        }
        return Ok(Place {
            pieces: [(offset + 8, size - 8)].into(),
            next,
            next_unpadded: next,
            repaired: false,
        });
    }
    let data = second_word(read(offset).ok_or(Misplaced::Truncated)?, endian);
    let used = data.checked_add(HEADER2_BYTES).filter(|&used| used <= MOST_PUSH_BYTES);
    let used =
        used.ok_or_else(|| Misplaced::Corrupt(format!("its data size of {data} bytes cannot be")))?;
    let padded = used.next_multiple_of(8);
    let unpadded = offset.saturating_add(used);
    if unpadded > end {
        return Err(Misplaced::Truncated);
    }
    let start = offset + HEADER2_BYTES;
    if size == padded || size == used {
        let next = offset.saturating_add(size);
        return Ok(Place {
            pieces: [(start, data)].into(),
            next,
            next_unpadded: next,
            repaired: false,
        });
    }
    let pieces = split_push(start, unpadded, endian, read)?;
    Ok(Place {
        pieces,
        next: offset.saturating_add(padded),
        next_unpadded: unpadded,
        repaired: true,
    })
}

fn split_push(
    start: u64,
    end: u64,
    endian: Endian,
    mut read: impl FnMut(u64) -> Option<[u8; 16]>,
) -> Result<Pieces, Misplaced> {
    let first = SPLIT_PAYLOAD.min(end - start);
    let mut pieces = Pieces::from([(start, first)]);
    let mut at = start + first;
    while at < end {
        let header = read(at).ok_or(Misplaced::Truncated)?;
        let [k0, k1, k2, k3, _, _, s0, s1, ..] = header;
        let size = u64::from(endian.u16([s0, s1]));
        let next = at.saturating_add(size);
        if endian.u32([k0, k1, k2, k3]) != kind::COMPRESSED2 || size <= HEADER2_BYTES || next > end
        {
            return Err(Misplaced::Corrupt(format!(
                "its size contradicts its data size, and no further COMPRESSED2 record starts at \
                 offset {at:#x}"
            )));
        }
        pieces.push_back((at + HEADER2_BYTES, size - HEADER2_BYTES));
        at = next;
    }
    Ok(pieces)
}

fn second_word(header: [u8; 16], endian: Endian) -> u64 {
    let [.., a, b, c, d, e, f, g, h] = header;
    endian.u64([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(size: u16, data: u64) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&kind::COMPRESSED2.to_le_bytes());
        bytes[6..8].copy_from_slice(&size.to_le_bytes());
        bytes[8..].copy_from_slice(&data.to_le_bytes());
        bytes
    }

    #[test]
    fn a_record_with_the_right_size_is_one_piece() {
        let place =
            place(100, 200, Endian::Little, |_| Some(header(40, 21)), 40, kind::COMPRESSED2)
                .unwrap();
        assert_eq!((place.pieces, place.next, place.repaired), ([(116, 21)].into(), 140, false));
    }

    #[test]
    fn a_push_split_in_two_with_the_sum_in_the_first_header_is_two_pieces() {
        // Sizes as perf 6.17 writes them: the first record's are the whole push, the second's are
        // its own.
        let whole = 65_519 + 16 + 1000;
        let wrapped = (whole + 16u64).next_multiple_of(8) as u16;
        let read = |at| Some(if at == 0 { header(wrapped, whole) } else { header(1016, 77) });
        let place = place(0, 1 << 20, Endian::Little, read, wrapped, kind::COMPRESSED2).unwrap();
        assert_eq!(place.pieces, Pieces::from([(16, 65_519), (65_551, 1000)]));
        assert_eq!((place.next, place.next_unpadded, place.repaired), (66_552, 66_551, true));
    }

    #[test]
    fn a_size_that_fits_nothing_is_corrupt_and_one_behind_the_end_truncated() {
        let read = |_| Some(header(0, 70_000));
        let result = place(
            0,
            1 << 20,
            Endian::Little,
            |at| if at == 0 { read(0) } else { Some([0; 16]) },
            0,
            83,
        );
        assert!(matches!(result, Err(Misplaced::Corrupt(_))));
        assert_eq!(place(0, 69_000, Endian::Little, read, 0, 83), Err(Misplaced::Truncated));
    }

    #[test]
    fn a_bomb_ends_in_an_error_before_it_fills_the_disk() {
        let zeros = vec![0u8; 16 << 20];
        let bomb: Vec<u8> =
            (0..8).flat_map(|_| zstd::bulk::compress(&zeros, 19).unwrap()).collect();
        let mut inflater = Inflater::new().unwrap();
        let (mut at, mut error) = (0, None);
        while at < bomb.len() && error.is_none() {
            let mut out = Vec::with_capacity(1 << 20);
            match inflater.run(&bomb[at..], &mut out) {
                Ok(used) => at += used,
                Err(reason) => error = Some(reason),
            }
        }
        assert!(error.is_some_and(|reason| reason.contains("ratio")));
    }
}
