//! The part of a pass that expands compressed records into chunks of whole records.

use super::{Chunk, Chunks};
use crate::decompress::{HEADER2_BYTES, Inflater, Misplaced, place};
use crate::error::Error;
use crate::input::Stream;
use crate::kinds::kind;
use crate::sys;
use crate::walk::{Stop, is_known, walk};

impl Chunks<'_> {
    /// Finds the payload of the compressed record here; `false` when it lies beyond the end of the
    /// stream.
    pub(super) fn begin_compressed(
        &mut self,
        stream: &Stream,
        kind: u32,
        size: u16,
    ) -> Result<bool, Error> {
        let at = self.at;
        if size < 8 && kind == kind::COMPRESSED {
            return self.bad_size(stream, size).map(|_| true);
        }
        let read = |offset: u64| {
            let mut bytes = Vec::with_capacity(HEADER2_BYTES as usize);
            let room = stream.end.saturating_sub(offset) >= HEADER2_BYTES;
            if !room
                || sys::read_at(&stream.file, offset, HEADER2_BYTES as usize, &mut bytes).is_err()
            {
                return None;
            }
            bytes.first_chunk::<16>().copied()
        };
        let place = match place(at, stream.end, self.endian, read, size, kind) {
            Ok(place) => place,
            Err(Misplaced::Truncated) => return Ok(false),
            Err(Misplaced::Corrupt(reason)) => {
                return Err(Error::Compressed { path: stream.path.clone(), offset: at, reason });
            }
        };
        self.stats.compressed_records += 1;
        self.stats.repaired_sizes += u64::from(place.repaired);
        if self.inflater.is_none() {
            let source = |source| Error::Io { path: stream.path.clone(), action: "expand", source };
            self.inflater = Some(Inflater::new().map_err(source)?);
        }
        if self.expanded.is_empty() {
            self.expanded_from = at;
        }
        self.at = if place.next == place.next_unpadded || self.plausible(stream, place.next)? {
            place.next
        } else {
            place.next_unpadded
        }
        .min(stream.end);
        self.pieces = place.pieces;
        Ok(true)
    }

    /// Whether a record (or nothing more) can start at `offset`.
    fn plausible(&mut self, stream: &Stream, offset: u64) -> Result<bool, Error> {
        if offset >= stream.end {
            return Ok(true);
        }
        let endian = self.endian;
        Ok(match self.fill(stream, offset, 8)?.first_chunk::<8>() {
            Some(&[k0, k1, k2, k3, _, _, s0, s1]) => {
                let kind = endian.u32([k0, k1, k2, k3]);
                is_known(kind) && (endian.u16([s0, s1]) >= 8 || kind == kind::COMPRESSED2)
            }
            None => true,
        })
    }

    /// Expands from the pieces until they are used up or the buffer is full.
    pub(super) fn inflate(&mut self, stream: &Stream) -> Result<(), Error> {
        if self.expanded.capacity() == 0 {
            self.expanded = self.buffer();
        }
        let (offset, size) = self.pieces.front().copied().unwrap_or((self.at, 0));
        let want = usize::try_from(size).unwrap_or(usize::MAX).min(65_536);
        let mut inflater = self.inflater.take();
        let mut expanded = std::mem::take(&mut self.expanded);
        let before = expanded.len();
        let input = self.fill(stream, offset, want)?;
        let input = input.get(..want.min(input.len())).unwrap_or_default();
        let result = match &mut inflater {
            Some(inflater) => inflater.run(input, &mut expanded),
            None => Ok(input.len()),
        };
        let stuck = input.len() < want
            || (!input.is_empty() && matches!(result, Ok(0)) && expanded.len() == before);
        self.inflater = inflater;
        self.expanded = expanded;
        let used = result.map_err(|reason| Error::Compressed {
            path: stream.path.clone(),
            offset,
            reason,
        })? as u64;
        self.stats.compressed_bytes = self.stats.compressed_bytes.saturating_add(used);
        if let Some(front) = self.pieces.front_mut() {
            *front = (offset.saturating_add(used), size.saturating_sub(used));
            if front.1 == 0 || stuck {
                self.pieces.pop_front();
            }
        }
        Ok(())
    }

    /// The whole records among the expanded bytes; a partial one at the end stays.
    pub(super) fn take_expanded(&mut self, stream: &Stream) -> Result<Option<Chunk>, Error> {
        if self.expanded.is_empty() {
            return Ok(None);
        }
        let stats = &mut self.stats;
        let (len, stop) = walk(&self.expanded, self.endian, |kind| stats.add_unknown(kind));
        let offset = self.expanded_from;
        let wrong = match stop {
            Stop::End => None,
            Stop::Bad { size } => Some(format!("the expanded data holds a record of size {size}")),
            Stop::Special { kind } => {
                Some(format!("the expanded data holds a record of kind {kind}"))
            }
        };
        if let Some(reason) = wrong.filter(|_| len == 0) {
            return Err(Error::Compressed { path: stream.path.clone(), offset, reason });
        }
        if len == 0 {
            return Ok(None);
        }
        let mut rest = self.buffer();
        rest.extend_from_slice(self.expanded.get(len..).unwrap_or_default());
        let mut bytes = std::mem::replace(&mut self.expanded, rest);
        bytes.truncate(len);
        self.expanded_from = self.at;
        Ok(Some(self.chunk(bytes, offset)))
    }
}
