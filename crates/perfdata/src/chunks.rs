//! The pass over the data: buffers of whole, uncompressed records, in file order, stream after
//! stream.
//!
//! A pass reads each stream in blocks of 1 MiB, walks over the record headers to find the last
//! whole record, and hands the block out without another copy. Only around compressed records and
//! AUX payloads are records copied.

mod expand;

use crate::bytes::Endian;
use crate::decompress::{Inflater, Pieces};
use crate::error::Error;
use crate::input::{Input, Stream};
use crate::kinds::kind;
use crate::stats::{AuxSpan, ReadStats};
use crate::sys;
use crate::walk::{Stop, is_special, walk};

/// Bytes read at once: large enough that system calls do not count, small enough for the second
/// level cache.
const BLOCK_BYTES: usize = 1 << 20;
/// Buffers kept for reuse.
const MOST_FREE: usize = 64;

/// Whole records, uncompressed, about 1 MiB of them. Give the buffer back with [`Chunks::recycle`].
#[derive(Debug)]
pub struct Chunk {
    /// The records, one behind the other.
    pub bytes: Vec<u8>,
    /// Where the first byte lies in the stream's file (of compressed data: where the compressed
    /// record lies).
    pub offset: u64,
    /// Which file of a directory recording; 0 is `data` (or the only file).
    pub stream: u32,
}

/// One pass over the data of a recording.
pub struct Chunks<'i> {
    streams: &'i [Stream],
    endian: Endian,
    stats: ReadStats,
    free: Vec<Vec<u8>>,
    done: bool,
    stream: usize,
    /// Last stream (exclusive) of this pass.
    last: usize,
    /// Where in the stream's file the pass stands.
    at: u64,
    /// Part of the file that is in memory.
    window: Vec<u8>,
    window_start: u64,
    inflater: Option<Inflater>,
    pieces: Pieces,
    /// Expanded records not yet handed out; the last one may be partial.
    expanded: Vec<u8>,
    expanded_from: u64,
}

impl<'i> Chunks<'i> {
    pub(crate) fn new(input: &'i Input, streams: std::ops::Range<usize>) -> Chunks<'i> {
        Chunks::over(&input.streams, streams, input.endian(), input.unfinished)
    }

    pub(crate) fn over(
        all: &'i [Stream],
        streams: std::ops::Range<usize>,
        endian: Endian,
        unfinished: bool,
    ) -> Chunks<'i> {
        let mut chunks = Chunks {
            streams: all,
            endian,
            stats: ReadStats { unfinished, ..ReadStats::default() },
            free: Vec::new(),
            done: false,
            stream: streams.start,
            last: streams.end,
            at: 0,
            window: Vec::new(),
            window_start: 0,
            inflater: None,
            pieces: Pieces::new(),
            expanded: Vec::new(),
            expanded_from: 0,
        };
        chunks.begin_stream();
        chunks
    }

    /// Gives a chunk's buffer back, so that the next chunk needs no new memory.
    pub fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.free.len() < MOST_FREE && bytes.capacity() >= BLOCK_BYTES {
            bytes.clear();
            self.free.push(bytes);
        }
    }

    /// What this pass has met so far.
    pub fn stats(&self) -> &ReadStats {
        &self.stats
    }

    fn stream(&self) -> Option<&'i Stream> {
        self.streams.get(self.stream).filter(|_| self.stream < self.last)
    }

    fn begin_stream(&mut self) {
        self.at = self.stream().map_or(0, |stream| stream.start);
        self.window.clear();
        self.window_start = self.at;
        self.inflater = None;
        self.pieces.clear();
        self.expanded.clear();
    }

    fn end_stream(&mut self, left: u64) {
        let missing = self.stream().map_or(0, |stream| stream.missing);
        let cut = left.saturating_add(missing).saturating_add(self.expanded.len() as u64);
        self.stats.truncated_bytes = self.stats.truncated_bytes.saturating_add(cut);
        self.stream += 1;
        self.begin_stream();
    }

    fn buffer(&mut self) -> Vec<u8> {
        self.free.pop().unwrap_or_else(|| Vec::with_capacity(BLOCK_BYTES + 65_536))
    }

    /// Makes sure that `want` bytes from `offset` on are in the window (fewer at the end of the
    /// stream), and gives what is there from `offset` on.
    fn fill(&mut self, stream: &Stream, offset: u64, want: usize) -> Result<&[u8], Error> {
        let within = offset.checked_sub(self.window_start).and_then(|at| usize::try_from(at).ok());
        let have = within.and_then(|at| self.window.len().checked_sub(at)).unwrap_or(0);
        let left = usize::try_from(stream.end.saturating_sub(offset)).unwrap_or(usize::MAX);
        if have >= want.min(left) {
            return Ok(self.window.get(within.unwrap_or(0)..).unwrap_or_default());
        }
        if self.window.capacity() == 0 {
            self.window = self.buffer();
        }
        self.window.clear();
        self.window_start = offset;
        let got = sys::read_at(&stream.file, offset, left.min(BLOCK_BYTES), &mut self.window)
            .map_err(|source| Error::Io { path: stream.path.clone(), action: "read", source })?;
        self.stats.file_bytes = self.stats.file_bytes.saturating_add(got as u64);
        Ok(&self.window)
    }

    fn chunk(&mut self, bytes: Vec<u8>, offset: u64) -> Chunk {
        self.stats.record_bytes = self.stats.record_bytes.saturating_add(bytes.len() as u64);
        // The stream's number is below the number of files of a directory.
        Chunk { bytes, offset, stream: self.stream as u32 }
    }

    fn advance(&mut self) -> Result<Option<Chunk>, Error> {
        loop {
            let Some(stream) = self.stream() else { return Ok(None) };
            if !self.pieces.is_empty()
                || self.inflater.as_ref().is_some_and(Inflater::may_hold_more)
            {
                self.inflate(stream)?;
                if self.expanded.len() >= BLOCK_BYTES
                    && let Some(chunk) = self.take_expanded(stream)?
                {
                    return Ok(Some(chunk));
                }
                continue;
            }
            let at = self.at;
            let head = self.fill(stream, at, 8)?;
            let Some(&[k0, k1, k2, k3, _, _, s0, s1]) = head.first_chunk::<8>() else {
                if let Some(chunk) = self.take_expanded(stream)? {
                    return Ok(Some(chunk));
                }
                let left = stream.end.saturating_sub(at);
                self.end_stream(left);
                continue;
            };
            let (kind, size) = (self.endian.u32([k0, k1, k2, k3]), self.endian.u16([s0, s1]));
            if matches!(kind, kind::COMPRESSED | kind::COMPRESSED2) {
                if !self.begin_compressed(stream, kind, size)? {
                    self.cut(stream);
                }
                continue;
            }
            if let Some(chunk) = self.take_expanded(stream)? {
                return Ok(Some(chunk));
            }
            let chunk = if is_special(kind) {
                self.with_payload(stream, kind, size)?
            } else {
                self.plain(stream)?
            };
            if chunk.is_some() {
                return Ok(chunk);
            }
        }
    }

    /// The stream ends here, within a record: the bytes from here on are of no use.
    fn cut(&mut self, stream: &Stream) {
        let left = stream.end.saturating_sub(self.at);
        self.at = stream.end;
        self.stats.truncated_bytes = self.stats.truncated_bytes.saturating_add(left);
    }

    /// Plain records from here to the last whole one in the window.
    fn plain(&mut self, stream: &Stream) -> Result<Option<Chunk>, Error> {
        let at = self.at;
        // A window that holds only the end of a block is not worth a chunk; a record is at most 64
        // KiB.
        let endian = self.endian;
        self.fill(stream, at, 65_536)?;
        let start = usize::try_from(at - self.window_start).unwrap_or(usize::MAX);
        let stats = &mut self.stats;
        let bytes = self.window.get(start..).unwrap_or_default();
        let (len, stop) = walk(bytes, endian, |kind| stats.add_unknown(kind));
        if len == 0 {
            if let Stop::Bad { size } = stop {
                return self.bad_size(stream, size);
            }
            self.cut(stream);
            return Ok(None);
        }
        self.at = at.saturating_add(len as u64);
        let bytes = if start == 0 {
            let mut bytes = std::mem::take(&mut self.window);
            self.window_start = self.at;
            if stop != Stop::End {
                // What follows is read again from memory rather than from the file.
                let mut rest = self.buffer();
                rest.extend_from_slice(bytes.get(len..).unwrap_or_default());
                self.window = rest;
            }
            bytes.truncate(len);
            bytes
        } else {
            let mut bytes = self.buffer();
            bytes.extend_from_slice(self.window.get(start..start + len).unwrap_or_default());
            bytes
        };
        Ok(Some(self.chunk(bytes, at)))
    }

    /// A header whose size is below 8. Where the recorder was killed, the file system may have left
    /// zeros at the end.
    fn bad_size(&mut self, stream: &Stream, size: u16) -> Result<Option<Chunk>, Error> {
        let at = self.at;
        let zeros = self.fill(stream, at, 8)?.first_chunk::<8>() == Some(&[0; 8]);
        if zeros && self.stats.unfinished {
            self.cut(stream);
            return Ok(None);
        }
        Err(Error::Corrupt {
            path: stream.path.clone(),
            offset: at,
            expected: "a record of at least 8 bytes".to_owned(),
            found: format!("a record size of {size}"),
            next: "the data before this place is intact; record again, or cut the file here",
        })
    }

    /// A record whose payload follows it and is not part of its size.
    fn with_payload(
        &mut self,
        stream: &Stream,
        kind: u32,
        size: u16,
    ) -> Result<Option<Chunk>, Error> {
        let at = self.at;
        let need = usize::from(size);
        let endian = self.endian;
        if need < 16 {
            return self.bad_size(stream, size);
        }
        let bytes = self.fill(stream, at, need)?;
        let Some(record) = bytes.get(..need) else {
            self.cut(stream);
            return Ok(None);
        };
        let Some(&[a, b, c, d, e, f, g, h]) =
            record.get(8..).and_then(|body| body.first_chunk::<8>())
        else {
            return self.bad_size(stream, size);
        };
        let payload = if kind == kind::AUXTRACE {
            endian.u64([a, b, c, d, e, f, g, h])
        } else {
            // Trace event formats: 32-bit size, payload padded to 8 bytes.
            u64::from(endian.u32([a, b, c, d])).next_multiple_of(8)
        };
        let record = record.to_vec();
        let start = at.saturating_add(need as u64);
        let stream_number = self.stream as u32;
        if kind == kind::AUXTRACE {
            self.stats.add_span(AuxSpan {
                stream: stream_number,
                offset: start,
                size_bytes: payload,
            });
        }
        let end = start.saturating_add(payload);
        if end > stream.end {
            self.stats.truncated_bytes =
                self.stats.truncated_bytes.saturating_add(end - stream.end);
        }
        self.at = end.min(stream.end);
        Ok(Some(self.chunk(record, at)))
    }
}

impl Iterator for Chunks<'_> {
    type Item = Result<Chunk, Error>;

    fn next(&mut self) -> Option<Result<Chunk, Error>> {
        if self.done {
            return None;
        }
        let result = self.advance().transpose();
        self.done = !matches!(result, Some(Ok(_)));
        result
    }
}
