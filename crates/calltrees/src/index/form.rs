//! The index as bytes.
//!
//! Numbers have their least significant byte first. A magic of 8 bytes, a version (4), the CRC-32
//! of all that follows (4), what binds the index to its recording (32), the number of streams (4).
//! For each stream: where its records begin (8), whether they lie one behind the other (1), unknown
//! records (8), missing bytes (8), the number of blocks (4), bytes of side records (8); then the
//! blocks (bytes, samples, damaged samples: 4 each; times of the first and last sample: 8 each, the
//! first behind the last where there is none); then the packed side records ([`Side`]).

use super::side::Side;
use super::{Block, Index, StreamIndex};

const MAGIC: [u8; 8] = *b"PLANIDX\n";
const VERSION: u32 = 2;
/// Bytes of what binds an index to its recording.
pub const BINDING_BYTES: usize = 32;
/// Bytes before what the CRC is of.
const HEAD_BYTES: usize = 16;
const BLOCK_BYTES: u64 = 28;
const STREAM_BYTES: u64 = 37;

/// Why bytes are no index that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// They are something else.
    #[error("offset 0: it is no index of a recording")]
    Other,
    /// Another version of planish made it.
    #[error("offset 8: it has version {found}, expected {VERSION}")]
    Version {
        /// Its version.
        found: u32,
    },
    /// It was changed, or its end is missing.
    #[error("offset {offset}: {what}")]
    Damaged {
        /// Where, in bytes.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
}

impl Index {
    /// The index as bytes, bound to its recording.
    pub fn to_bytes(&self, binding: &[u8; BINDING_BYTES]) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 4]);
        out.extend(binding);
        out.extend((self.streams.len() as u32).to_le_bytes());
        for stream in &self.streams {
            out.extend(stream.start.to_le_bytes());
            out.push(u8::from(stream.is_seekable));
            out.extend(stream.unknown.to_le_bytes());
            out.extend(stream.truncated_bytes.to_le_bytes());
            out.extend((stream.blocks.len() as u32).to_le_bytes());
            out.extend((stream.side.packed().len() as u64).to_le_bytes());
            for block in &stream.blocks {
                for number in [block.bytes, block.samples, block.malformed] {
                    out.extend(number.to_le_bytes());
                }
                let (first, last) = block.times.unwrap_or((1, 0));
                out.extend(first.to_le_bytes());
                out.extend(last.to_le_bytes());
            }
            out.extend(stream.side.packed());
        }
        let sum = crc32fast::hash(out.get(HEAD_BYTES..).unwrap_or_default());
        if let Some(place) = out.get_mut(HEAD_BYTES - 4..HEAD_BYTES) {
            place.copy_from_slice(&sum.to_le_bytes());
        }
        out
    }

    /// Reads an index, and what binds it to its recording.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn parse(bytes: &[u8]) -> Result<(Index, [u8; BINDING_BYTES]), Unusable> {
        let mut reader = Reader { bytes, at: 0 };
        if reader.take(8).ok() != Some(&MAGIC[..]) {
            return Err(Unusable::Other);
        }
        let found = reader.u32()?;
        if found != VERSION {
            return Err(Unusable::Version { found });
        }
        let sum = reader.u32()?;
        if sum != crc32fast::hash(bytes.get(HEAD_BYTES..).unwrap_or_default()) {
            return Err(Unusable::Damaged {
                offset: 12,
                what: "its checksum is not that of the rest",
            });
        }
        let binding = reader.array::<BINDING_BYTES>()?;
        let streams = reader.u32()?;
        if u64::from(streams).saturating_mul(STREAM_BYTES) > reader.left() {
            return Err(reader.damaged("it has fewer streams than it says"));
        }
        let streams = (0..streams).map(|_| reader.stream()).collect::<Result<_, _>>()?;
        if reader.left() > 0 {
            return Err(reader.damaged("nothing should follow"));
        }
        Ok((Index { streams }, binding))
    }
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    fn damaged(&self, what: &'static str) -> Unusable {
        Unusable::Damaged { offset: self.at as u64, what }
    }

    fn left(&self) -> u64 {
        self.bytes.len().saturating_sub(self.at) as u64
    }

    fn take(&mut self, count: usize) -> Result<&'b [u8], Unusable> {
        let end = self.at.saturating_add(count);
        let Some(bytes) = self.bytes.get(self.at..end) else {
            return Err(self.damaged("its end is missing"));
        };
        self.at = end;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Unusable> {
        let wrong = self.damaged("its end is missing");
        self.take(N)?.try_into().map_err(|_| wrong)
    }

    fn u32(&mut self) -> Result<u32, Unusable> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Unusable> {
        self.array().map(u64::from_le_bytes)
    }

    fn stream(&mut self) -> Result<StreamIndex, Unusable> {
        let start = self.u64()?;
        let is_seekable = match self.array::<1>()? {
            [0] => false,
            [1] => true,
            _ => return Err(self.damaged("expected 0 or 1 before this place")),
        };
        let (unknown, truncated_bytes) = (self.u64()?, self.u64()?);
        let (blocks, side) = (self.u32()?, self.u64()?);
        let room = u64::from(blocks).saturating_mul(BLOCK_BYTES).saturating_add(side);
        if room > self.left() {
            return Err(self.damaged("a stream has more than is left"));
        }
        let blocks = (0..blocks).map(|_| self.block()).collect::<Result<_, _>>()?;
        let side = Side::of(self.take(usize::try_from(side).unwrap_or(usize::MAX))?.to_vec());
        Ok(StreamIndex { start, is_seekable, unknown, truncated_bytes, blocks, side })
    }

    fn block(&mut self) -> Result<Block, Unusable> {
        /// Bytes of the shortest record.
        const SHORTEST: u32 = 8;
        let (bytes, samples, malformed) = (self.u32()?, self.u32()?, self.u32()?);
        let (first, last) = (self.u64()?, self.u64()?);
        if samples > bytes / SHORTEST || malformed > samples {
            return Err(self.damaged("a block before this place has more samples than bytes"));
        }
        let times = (first <= last).then_some((first, last));
        Ok(Block { bytes, samples, malformed, times })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream() -> impl Strategy<Value = StreamIndex> {
        let block =
            (0u32..9, 0u32..9, 0u64..99, 0u64..99).prop_map(|(samples, bad, one, other)| Block {
                bytes: 8 * samples,
                samples,
                malformed: bad.min(samples),
                times: (one <= other).then_some((one, other)),
            });
        let side = prop::collection::vec(any::<u8>(), 0..20);
        (any::<u64>(), any::<bool>(), any::<u64>(), prop::collection::vec(block, 0..5), side)
            .prop_map(|(start, is_seekable, unknown, blocks, side)| StreamIndex {
                start,
                is_seekable,
                unknown,
                truncated_bytes: unknown / 2,
                blocks,
                side: Side::of(side),
            })
    }

    proptest! {
        #[test]
        fn an_index_comes_back_and_every_damage_is_seen(
            streams in prop::collection::vec(stream(), 0..4), at in 0.0f64..1.0, bits in 1u8..=255,
        ) {
            let index = Index { streams };
            let bytes = index.to_bytes(&[7; BINDING_BYTES]);
            prop_assert_eq!(Index::parse(&bytes), Ok((index, [7; BINDING_BYTES])));
            let at = (at * bytes.len() as f64) as usize;
            let mut changed = bytes.clone();
            changed[at] ^= bits;
            prop_assert!(Index::parse(&changed).is_err());
            prop_assert!(Index::parse(&bytes[..at]).is_err());
        }

        /// As above with a right checksum: whatever stands there, it ends.
        #[test]
        fn what_is_hostile_is_refused_or_read(
            streams in prop::collection::vec(stream(), 0..4), at in 0.0f64..1.0, word in any::<[u8; 4]>(),
        ) {
            let mut bytes = Index { streams }.to_bytes(&[7; BINDING_BYTES]);
            let at = HEAD_BYTES + (at * (bytes.len() - HEAD_BYTES) as f64) as usize;
            bytes.iter_mut().skip(at).zip(word).for_each(|(byte, other)| *byte = other);
            let sum = crc32fast::hash(&bytes[HEAD_BYTES..]);
            bytes[12..16].copy_from_slice(&sum.to_le_bytes());
            let _ = Index::parse(&bytes);
        }
    }

    #[test]
    fn other_files_and_versions_are_told_apart() {
        assert_eq!(Index::parse(b"PERFILE2 and so on"), Err(Unusable::Other));
        assert_eq!(Index::parse(b""), Err(Unusable::Other));
        let mut bytes = Index::default().to_bytes(&[0; BINDING_BYTES]);
        bytes[8] = 9;
        assert_eq!(Index::parse(&bytes), Err(Unusable::Version { found: 9 }));
    }
}
