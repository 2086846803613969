//! The clock of one thread: a perf event (`cpu-clock`, or one that the CPU counts) that sends a
//! signal each time a period of it is over.

use crate::options::Trigger;
use perf_events::{Event, Mapping};
use perfdata::{EventAttr, attr_flag, sample_type};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering;

const PAGE_BYTES: usize = 4096;
const DATA_HEAD_AT: usize = 1024;
const DATA_TAIL_AT: usize = 1032;
const PERF_TYPE_SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;
const RECORD_SAMPLE: u32 = 9;

/// So many descriptors are left for other purposes.
const SPARE_DESCRIPTORS: usize = 6;

/// When and where a period ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The monotonic clock, in nanoseconds.
    pub time_ns: u64,
    /// The CPU the thread ran on.
    pub cpu: u32,
}

/// The clock of a thread, running.
#[derive(Debug)]
pub(crate) struct ThreadClock {
    event: Event,
    ring: Option<Ring>,
}

impl ThreadClock {
    /// Opens a thread's clock, stopped. `with_ring`: learn where each period ended, where memory
    /// for that may be had.
    pub(crate) fn open(
        tid: i32,
        trigger: Trigger,
        period: u64,
        with_ring: bool,
    ) -> io::Result<ThreadClock> {
        let (kind, config) = match trigger {
            Trigger::CpuClock => (PERF_TYPE_SOFTWARE, CPU_CLOCK),
            Trigger::Counter { kind, config } => (kind, config),
        };
        let attr = EventAttr {
            kind,
            config,
            period_or_freq: period,
            sample_type: sample_type::TIME | sample_type::CPU,
            flags: attr_flag::DISABLED
                | attr_flag::EXCLUDE_KERNEL
                | attr_flag::EXCLUDE_HV
                | attr_flag::USE_CLOCKID,
            wakeup: 1,
            clockid: libc::CLOCK_MONOTONIC,
            ..EventAttr::default()
        };
        let event = Event::open(&attr, tid, -1, None)?;
        // The last descriptors are needed to look at threads and memory; without them nothing would
        // work.
        let spare = [(); SPARE_DESCRIPTORS].map(|()| event.as_fd().try_clone_to_owned());
        if let Some(Err(error)) = spare.into_iter().find(Result::is_err) {
            return Err(error);
        }
        let ring = with_ring.then(|| Mapping::of(&event, 2 * PAGE_BYTES, true).ok()).flatten();
        Ok(ThreadClock { event, ring: ring.map(Ring) })
    }

    /// Says who gets which signal at the end of each period.
    pub(crate) fn send(&self, signal: i32, tid: i32) -> io::Result<()> {
        self.event.send(signal, tid)
    }

    /// Lets it run.
    pub(crate) fn enable(&self) -> io::Result<()> {
        self.event.enable()
    }

    /// Begins a new period of another length.
    pub(crate) fn set_period(&self, period: u64) -> io::Result<()> {
        self.event.set_period(period)
    }

    /// What the thread has used since the event was enabled, in the trigger's unit.
    pub(crate) fn count(&self) -> io::Result<u64> {
        self.event.count()
    }

    /// The number that its signals carry.
    pub(crate) fn number(&self) -> i32 {
        self.event.as_fd().as_raw_fd()
    }

    /// The latest end of a period, once.
    pub(crate) fn latest(&mut self) -> Option<Moment> {
        self.ring.as_mut()?.latest()
    }
}

/// Two pages that the kernel writes a line to at each end of a period.
#[derive(Debug)]
struct Ring(Mapping);

impl Ring {
    fn word(&self, at: u64) -> u64 {
        let at = (at as usize) & (PAGE_BYTES - 8);
        // SAFETY: an aligned word within the second page; records are multiples of eight bytes.
        unsafe { self.0.base().as_ptr().add(PAGE_BYTES + at).cast::<u64>().read_volatile() }
    }

    fn latest(&mut self) -> Option<Moment> {
        let head = self.0.word(DATA_HEAD_AT).load(Ordering::Acquire);
        let mut at = self.0.word(DATA_TAIL_AT).load(Ordering::Relaxed);
        let mut latest = None;
        while at < head {
            let header = self.word(at);
            let bytes = header >> 48;
            if bytes < 8 {
                break;
            }
            if header as u32 == RECORD_SAMPLE {
                latest =
                    Some(Moment { time_ns: self.word(at + 8), cpu: self.word(at + 16) as u32 });
            }
            at += bytes;
        }
        self.0.word(DATA_TAIL_AT).store(head, Ordering::Release);
        latest
    }
}
