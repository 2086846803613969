//! perf_event_open, and the rings that the kernel writes its records into (`man 2
//! perf_event_open`).

use super::page_bytes;
use crate::span::Span;
use perfdata::EventAttr;
use perfdata::write::TimeConversion;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const DATA_HEAD_AT: usize = 1024;
const DATA_TAIL_AT: usize = 1032;
pub(super) const AUX_HEAD_AT: usize = 1056;
pub(super) const AUX_TAIL_AT: usize = 1064;
pub(super) const AUX_OFFSET_AT: usize = 1072;
pub(super) const AUX_SIZE_AT: usize = 1080;
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
const IOC_ID: libc::c_ulong = 0x8008_2407;
const IOC_PAUSE_OUTPUT: libc::c_ulong = 0x4004_2409;
const FLAG_PID_CGROUP: libc::c_ulong = 4;
const FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// An open event.
#[derive(Debug)]
pub(crate) struct Event(OwnedFd);

impl Event {
    /// Opens an event for a thread (-1: all) on a CPU (-1: any), in the group of another where
    /// there is one.
    pub(crate) fn open(
        attr: &EventAttr,
        tid: i32,
        cpu: i32,
        group: Option<&Event>,
    ) -> io::Result<Event> {
        Event::open_with(attr, tid, cpu, group, 0)
    }

    /// Opens an event for a control group, by its directory, on a CPU.
    pub(crate) fn open_cgroup(
        attr: &EventAttr,
        cgroup: &File,
        cpu: i32,
        group: Option<&Event>,
    ) -> io::Result<Event> {
        Event::open_with(attr, cgroup.as_raw_fd(), cpu, group, FLAG_PID_CGROUP)
    }

    fn open_with(
        attr: &EventAttr,
        whom: i32,
        cpu: i32,
        group: Option<&Event>,
        flags: libc::c_ulong,
    ) -> io::Result<Event> {
        let group = group.map_or(-1, |leader| leader.0.as_raw_fd());
        let bytes = attr.to_kernel_bytes();
        // SAFETY: the kernel reads as many bytes as the structure's size field says, which is their
        // number, and returns a new descriptor.
        unsafe {
            let flags = flags | FLAG_FD_CLOEXEC;
            let fd =
                libc::syscall(libc::SYS_perf_event_open, bytes.as_ptr(), whom, cpu, group, flags);
            if fd < 0 {
                Err(io::Error::last_os_error())
            } else {
                Ok(Event(OwnedFd::from_raw_fd(fd as i32)))
            }
        }
    }

    fn ioctl(&self, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<()> {
        // SAFETY: the requests used here take a number, or a pointer that the caller made from a
        // local variable.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The id that its records carry.
    pub(crate) fn id(&self) -> io::Result<u64> {
        let mut id = 0u64;
        self.ioctl(IOC_ID, (&raw mut id) as libc::c_ulong)?;
        Ok(id)
    }

    /// Starts counting.
    pub(crate) fn enable(&self) -> io::Result<()> {
        self.ioctl(IOC_ENABLE, 0)
    }

    /// Stops counting.
    pub(crate) fn disable(&self) -> io::Result<()> {
        self.ioctl(IOC_DISABLE, 0)
    }

    /// Sends its records into another event's ring.
    pub(crate) fn share_ring_of(&self, other: &Event) -> io::Result<()> {
        self.ioctl(IOC_SET_OUTPUT, other.0.as_raw_fd() as libc::c_ulong)
    }

    /// Stops or resumes what goes into its ring, for a ring that is written backward and over
    /// itself.
    pub(crate) fn pause_output(&self, pause: bool) -> io::Result<()> {
        self.ioctl(IOC_PAUSE_OUTPUT, libc::c_ulong::from(pause))
    }

    /// The words that a read of the event gives, by its read format.
    pub(crate) fn read(&self) -> io::Result<Vec<u64>> {
        /// More than any group has.
        const MOST_WORDS: usize = 1024;
        let mut words = vec![0u64; MOST_WORDS];
        // SAFETY: the kernel writes at most as many bytes as the buffer has.
        let got =
            unsafe { libc::read(self.0.as_raw_fd(), words.as_mut_ptr().cast(), MOST_WORDS * 8) };
        let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        words.truncate(got / 8);
        Ok(words)
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The memory that kernel and recorder share: a page of positions, then the records.
pub(crate) struct Ring {
    base: NonNull<u8>,
    data_bytes: usize,
    backward: bool,
    /// Where the newest record began when a backward ring was last read.
    dumped: u64,
}

// SAFETY: the mapping belongs to the ring alone, and any thread may use it.
unsafe impl Send for Ring {}
// SAFETY: through a shared reference it is only read; room is freed through an exclusive one.
unsafe impl Sync for Ring {}

impl Ring {
    /// Maps the ring of an event with room for so many bytes of records: a power of two, and a page
    /// at least. A backward ring is one that the kernel writes over itself from high to low
    /// places, and that must be paused to be read.
    pub(crate) fn map(event: &Event, data_bytes: usize, backward: bool) -> io::Result<Ring> {
        let len = data_bytes + page_bytes();
        let access = if backward { libc::PROT_READ } else { libc::PROT_READ | libc::PROT_WRITE };
        // SAFETY: a new mapping where the kernel likes; no existing memory is touched.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, event.0.as_raw_fd(), 0)
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(Ring { base, data_bytes, backward, dumped: 0 })
            }
            _ => Err(io::Error::last_os_error()),
        }
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
        // SAFETY: the positions that this crate names lie, aligned, in the first page, and kernel
        // and recorder use them atomically.
        unsafe { &*self.base.as_ptr().add(at).cast::<AtomicU64>() }
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
            let data = self.base.as_ptr().add(page_bytes());
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

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly the range that was mapped.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.data_bytes + page_bytes()) };
    }
}
