//! The rings that the kernel writes an event's records into (`man 2 perf_event_open`).

use super::page_bytes;
use crate::span::Span;
use perf_events::{Event, Mapping};
use perfdata::write::TimeConversion;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

const DATA_HEAD_AT: usize = 1024;
const DATA_TAIL_AT: usize = 1032;
pub(super) const AUX_HEAD_AT: usize = 1056;
pub(super) const AUX_TAIL_AT: usize = 1064;
pub(super) const AUX_OFFSET_AT: usize = 1072;
pub(super) const AUX_SIZE_AT: usize = 1080;

/// The memory that kernel and recorder share: a page of positions, then the records.
pub(crate) struct Ring {
    memory: Mapping,
    data_bytes: usize,
    backward: bool,
    /// Where the newest record began when a backward ring was last read.
    dumped: u64,
}

impl Ring {
    /// Maps the ring of an event with room for so many bytes of records: a power of two, and a page
    /// at least. A backward ring is one that the kernel writes over itself from high to low
    /// places, and that must be paused to be read.
    pub(crate) fn map(event: &Event, data_bytes: usize, backward: bool) -> io::Result<Ring> {
        let memory = Mapping::of(event, data_bytes + page_bytes(), !backward)?;
        Ok(Ring { memory, data_bytes, backward, dumped: 0 })
    }

    /// Room for records, in bytes.
    pub(crate) fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    /// Whether it is written over itself.
    pub(crate) fn is_backward(&self) -> bool {
        self.backward
    }

    pub(super) fn position(&self, at: usize) -> &AtomicU64 {
        self.memory.word(at)
    }

    /// All records that lie in the ring, whole and in order. Their room stays taken until
    /// [`Ring::free`].
    ///
    /// Of a backward ring, which must be paused, from the newest record on towards the oldest: the
    /// last may be torn.
    pub(crate) fn filled(&self) -> Span<'_> {
        let head = self.position(DATA_HEAD_AT).load(Ordering::Acquire);
        let tail =
            if self.backward { head } else { self.position(DATA_TAIL_AT).load(Ordering::Relaxed) };
        let filled = if self.backward {
            // The head counts down from 0. What was read before is not read again.
            usize::try_from(self.dumped.wrapping_sub(head)).unwrap_or(usize::MAX)
        } else {
            usize::try_from(head.wrapping_sub(tail)).unwrap_or(0)
        };
        let filled = filled.min(self.data_bytes);
        let at = (tail as usize) & (self.data_bytes - 1);
        let first = filled.min(self.data_bytes - at);
        // SAFETY: the data begins after the first page and is `data_bytes` long; the kernel does
        // not write between tail and head until the tail moves, which takes `&mut self`,
        // nor into a ring that is paused.
        unsafe {
            let data = self.memory.base().as_ptr().add(page_bytes());
            Span {
                one: std::slice::from_raw_parts(data.add(at), first),
                two: std::slice::from_raw_parts(data, filled - first),
            }
        }
    }

    /// Gives the room of the oldest records back to the kernel; of a backward ring, remembers that
    /// all were read.
    pub(crate) fn free(&mut self, bytes: usize) {
        if self.backward {
            self.dumped = self.position(DATA_HEAD_AT).load(Ordering::Acquire);
        } else {
            let tail = self.position(DATA_TAIL_AT).load(Ordering::Relaxed);
            self.position(DATA_TAIL_AT).store(tail.wrapping_add(bytes as u64), Ordering::Release);
        }
    }
}

/// Offsets in the first page of what converts times, and the bits of its capabilities.
const CAPABILITIES_AT: usize = 40;
const CAP_ZERO: u64 = 1 << 4;
const CAP_SHORT: u64 = 1 << 5;
/// The half words and words behind: width of counters, shift, factor.
const SHIFT_AND_MULT_AT: usize = 48;
const ZERO_AT: usize = 64;
const CYCLES_AT: usize = 80;
const MASK_AT: usize = 88;
const LOCK_AT: usize = 8;

impl Ring {
    /// How ticks of the CPUs' timer become the kernel's own clock, where the kernel says so. Of
    /// events with another clock it means nothing.
    pub(crate) fn time_conversion(&self) -> Option<TimeConversion> {
        /// The kernel writes the page seldom and shortly.
        const TRIES: usize = 1000;
        let word = |at| self.position(at).load(Ordering::Acquire);
        for _ in 0..TRIES {
            let before = word(LOCK_AT) as u32;
            let capabilities = word(CAPABILITIES_AT);
            let numbers = word(SHIFT_AND_MULT_AT);
            let found = TimeConversion {
                shift: (numbers >> 16) as u16,
                mult: (numbers >> 32) as u32,
                zero: word(ZERO_AT),
                short: (capabilities & CAP_SHORT != 0).then(|| (word(CYCLES_AT), word(MASK_AT))),
            };
            if before & 1 == 0 && word(LOCK_AT) as u32 == before {
                return (capabilities & CAP_ZERO != 0).then_some(found);
            }
        }
        None
    }
}
