//! Cuts the pipe form of a recording that still comes in into whole recordings, one after another.
//!
//! Input: bytes, in pieces of any size. Output: what began the recording (attributes, features), the
//! records of the processes that live ([`Processes`]), and the samples since the last output.
//! Memory: at most [`MOST_SAMPLES`] and [`MOST_BEGIN`] bytes, and those of the processes; what is
//! beyond is counted. Source: `tools/perf/Documentation/perf.data-file-format.txt`.

use crate::processes::Processes;
use perfdata::kind;

/// Bytes of samples between two outputs: several seconds of a busy machine of many CPUs.
const MOST_SAMPLES: usize = 32 << 20;
/// Bytes of attributes and features.
const MOST_BEGIN: usize = 16 << 20;
/// Magic and size of the header in pipe form.
const HEADER_BYTES: usize = 16;
const RECORD_HEADER_BYTES: usize = 8;

/// Why a recording cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It does not begin as the pipe form does.
    #[error("the recorder sent no recording in pipe form")]
    NoRecording,
    /// A record is shorter than its header.
    #[error("the recorder sent a damaged record at byte {at}")]
    Damaged {
        /// Where it begins.
        at: u64,
    },
}

/// A recording, and what is to be said of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// In pipe form.
    pub recording: Vec<u8>,
    /// Its samples.
    pub samples: u64,
    /// Records that the kernel could not write since the last output.
    pub lost: u64,
    /// Samples and other records since the last output for which there was no room here.
    pub dropped: u64,
}

/// A recording that comes in.
#[derive(Debug, Default)]
pub struct Incoming {
    /// What has come and is no whole record yet.
    rest: Vec<u8>,
    /// Bytes of a record's data that follow it, still to come; they belong to the start.
    follows: usize,
    at: u64,
    begin: Vec<u8>,
    processes: Processes,
    samples: Vec<u8>,
    count: u64,
    lost: u64,
    dropped: u64,
}

impl Incoming {
    /// Whether the recording has begun.
    pub fn has_begun(&self) -> bool {
        !self.begin.is_empty()
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// Where they are no recording.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), Unreadable> {
        self.rest.extend_from_slice(bytes);
        let rest = std::mem::take(&mut self.rest);
        let mut left = rest.as_slice();
        while let Some(whole) = self.next(left)? {
            let Some((record, behind)) = left.split_at_checked(whole) else { break };
            self.record(record);
            self.at = self.at.saturating_add(whole as u64);
            left = behind;
        }
        self.rest = left.to_vec();
        Ok(())
    }

    /// The bytes of what comes next, if they are all there.
    fn next(&self, left: &[u8]) -> Result<Option<usize>, Unreadable> {
        let bytes = if self.follows > MOST_BEGIN {
            return Err(Unreadable::Damaged { at: self.at });
        } else if self.follows > 0 {
            self.follows
        } else if self.begin.is_empty() {
            if !left.starts_with(b"PERFILE2".get(..left.len().min(8)).unwrap_or_default()) {
                return Err(Unreadable::NoRecording);
            }
            HEADER_BYTES
        } else {
            let Some(size) = left.get(6..8) else { return Ok(None) };
            let size = usize::from(u16::from_ne_bytes([size[0], size[1]]));
            if size < RECORD_HEADER_BYTES {
                return Err(Unreadable::Damaged { at: self.at });
            }
            size
        };
        Ok((left.len() >= bytes).then_some(bytes))
    }

    fn record(&mut self, record: &[u8]) {
        if self.begin.is_empty() || self.follows > 0 {
            self.follows = 0;
            self.keep_begin(record);
            return;
        }
        let word = |at: usize| {
            let bytes = record.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        let number = record.get(..4).and_then(|bytes| bytes.try_into().ok());
        match number.map_or(0, u32::from_ne_bytes) {
            kind::SAMPLE if self.samples.len() + record.len() > MOST_SAMPLES => self.dropped += 1,
            kind::SAMPLE => {
                self.samples.extend_from_slice(record);
                self.count += 1;
            }
            kind::LOST => self.lost = self.lost.saturating_add(word(16)),
            kind::LOST_SAMPLES => self.lost = self.lost.saturating_add(word(8)),
            kind::FINISHED_ROUND | kind::THROTTLE | kind::UNTHROTTLE | kind::READ => {}
            // The data of these follows the record, so many bytes as it says.
            kind::HEADER_TRACING_DATA => {
                self.keep_begin(record);
                self.follows = (word(8) as u32 as usize).next_multiple_of(8);
            }
            number if number >= kind::USER => self.keep_begin(record),
            number => self.dropped += u64::from(!self.processes.note(number, record)),
        }
    }

    fn keep_begin(&mut self, record: &[u8]) {
        if self.begin.len() + record.len() <= MOST_BEGIN {
            self.begin.extend_from_slice(record);
        } else {
            self.dropped += 1;
        }
    }

    /// The samples since the last time, with all that is needed to name them.
    pub fn take(&mut self) -> Taken {
        self.processes.settle();
        let mut recording = self.begin.clone();
        self.processes.write(&mut recording);
        recording.append(&mut self.samples);
        self.processes.forget();
        Taken {
            recording,
            samples: std::mem::take(&mut self.count),
            lost: std::mem::take(&mut self.lost),
            dropped: std::mem::take(&mut self.dropped),
        }
    }

    /// The processes of which something is known.
    pub fn processes(&self) -> impl Iterator<Item = i32> + '_ {
        self.processes.numbers()
    }
}
