//! The clock of one thread: a perf event (`cpu-clock`, or one that the CPU counts) that sends a
//! signal each time a period of it is over.

use crate::options::Trigger;
use perfdata::{EventAttr, attr_flag, sample_type};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE_BYTES: usize = 4096;
const DATA_HEAD_AT: usize = 1024;
const DATA_TAIL_AT: usize = 1032;
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_PERIOD: libc::c_ulong = 0x4008_2404;
const FLAG_FD_CLOEXEC: libc::c_ulong = 8;
const PERF_TYPE_SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;
const RECORD_SAMPLE: u32 = 9;
const F_SETOWN_EX: libc::c_int = 15;
const F_SETSIG: libc::c_int = 10;
const F_OWNER_TID: libc::c_int = 0;

/// So many descriptors are left for other purposes.
const SPARE_DESCRIPTORS: usize = 6;

/// `struct f_owner_ex`.
#[repr(C)]
struct Owner {
    kind: libc::c_int,
    tid: libc::pid_t,
}

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
pub(crate) struct Event {
    fd: OwnedFd,
    ring: Option<Ring>,
}

impl Event {
    /// Opens a thread's clock, stopped. `with_ring`: learn where each period ended, where memory
    /// for that may be had.
    pub(crate) fn open(
        tid: i32,
        trigger: Trigger,
        period: u64,
        with_ring: bool,
    ) -> io::Result<Event> {
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
        let bytes = attr.to_kernel_bytes();
        // SAFETY: the kernel reads as many bytes as the structure's size field says, which is their
        // number, and returns a new descriptor.
        let fd = unsafe {
            let fd = libc::syscall(
                libc::SYS_perf_event_open,
                bytes.as_ptr(),
                tid,
                -1,
                -1,
                FLAG_FD_CLOEXEC,
            );
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd as i32)
        };
        // The last descriptors are needed to look at threads and memory; without them nothing would
        // work.
        let spare = [(); SPARE_DESCRIPTORS].map(|()| fd.try_clone());
        if let Some(Err(error)) = spare.into_iter().find(Result::is_err) {
            return Err(error);
        }
        let ring = if with_ring { Ring::map(&fd) } else { None };
        Ok(Event { fd, ring })
    }

    fn done(result: libc::c_int) -> io::Result<()> {
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Says who gets which signal at the end of each period.
    pub(crate) fn send(&self, signal: i32, tid: i32) -> io::Result<()> {
        let fd = self.fd.as_raw_fd();
        let owner = Owner { kind: F_OWNER_TID, tid };
        // SAFETY: the descriptor is open; the owner is read during the call.
        unsafe {
            Event::done(libc::fcntl(fd, F_SETSIG, signal))?;
            Event::done(libc::fcntl(fd, F_SETOWN_EX, &raw const owner))?;
            let flags = libc::fcntl(fd, libc::F_GETFL);
            Event::done(flags)?;
            Event::done(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_ASYNC))
        }
    }

    fn ioctl(&self, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<()> {
        // SAFETY: the requests used here take nothing, or a pointer that the caller made from a
        // local variable.
        Event::done(unsafe { libc::ioctl(self.fd.as_raw_fd(), request, argument) })
    }

    /// Lets it run.
    pub(crate) fn enable(&self) -> io::Result<()> {
        self.ioctl(IOC_ENABLE, 0)
    }

    /// Begins a new period of another length.
    pub(crate) fn set_period(&self, period: u64) -> io::Result<()> {
        self.ioctl(IOC_PERIOD, (&raw const period) as libc::c_ulong)
    }

    /// What the thread has used since the event was enabled, in the trigger's unit.
    pub(crate) fn count(&self) -> io::Result<u64> {
        let mut count = 0u64;
        // SAFETY: at most eight bytes are written, into a local of that size.
        let read =
            unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
        if read == size_of::<u64>() as isize { Ok(count) } else { Err(io::Error::last_os_error()) }
    }

    /// The number that its signals carry.
    pub(crate) fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// The latest end of a period, once.
    pub(crate) fn latest(&mut self) -> Option<Moment> {
        self.ring.as_mut()?.latest()
    }
}

/// Two pages that the kernel writes a line to at each end of a period.
#[derive(Debug)]
struct Ring(NonNull<u8>);

impl Ring {
    fn map(fd: &OwnedFd) -> Option<Ring> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping where the kernel likes; no existing memory is touched.
        let base = unsafe {
            let len = 2 * PAGE_BYTES;
            libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED { None } else { NonNull::new(base.cast::<u8>()).map(Ring) }
    }

    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: both positions lie, aligned, in the first page, and kernel and reader use them
        // atomically.
        unsafe { &*self.0.as_ptr().add(at).cast::<AtomicU64>() }
    }

    fn word(&self, at: u64) -> u64 {
        let at = (at as usize) & (PAGE_BYTES - 8);
        // SAFETY: an aligned word within the second page; records are multiples of eight bytes.
        unsafe { self.0.as_ptr().add(PAGE_BYTES + at).cast::<u64>().read_volatile() }
    }

    fn latest(&mut self) -> Option<Moment> {
        let head = self.position(DATA_HEAD_AT).load(Ordering::Acquire);
        let mut at = self.position(DATA_TAIL_AT).load(Ordering::Relaxed);
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
        self.position(DATA_TAIL_AT).store(head, Ordering::Release);
        latest
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly the range that was mapped.
        unsafe { libc::munmap(self.0.as_ptr().cast(), 2 * PAGE_BYTES) };
    }
}
