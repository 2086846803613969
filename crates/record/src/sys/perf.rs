//! perf_event_open, and the rings that the kernel writes its records into (`man 2 perf_event_open`).

use perfdata::EventAttr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE_BYTES: usize = 4096;
const DATA_HEAD_AT: usize = 1024;
const DATA_TAIL_AT: usize = 1032;
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
const IOC_ID: libc::c_ulong = 0x8008_2407;
const FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// An open event.
#[derive(Debug)]
pub(crate) struct Event(OwnedFd);

impl Event {
    /// Opens an event for a thread (-1: all) on a CPU (-1: any), in the group of another where there is one.
    pub(crate) fn open(attr: &EventAttr, tid: i32, cpu: i32, group: Option<&Event>) -> io::Result<Event> {
        let group = group.map_or(-1, |leader| leader.0.as_raw_fd());
        let bytes = attr.to_kernel_bytes();
        // SAFETY: the kernel reads as many bytes as the structure's size field says, which is their number, and returns
        // a new descriptor.
        unsafe {
            let fd =
                libc::syscall(libc::SYS_perf_event_open, bytes.as_ptr(), tid, cpu, group, FLAG_FD_CLOEXEC);
            if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(Event(OwnedFd::from_raw_fd(fd as i32))) }
        }
    }

    fn ioctl(&self, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<()> {
        // SAFETY: the requests used here take a number, or a pointer that the caller made from a local variable.
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
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until one of the events wants its ring read, or the time is over, or a signal came.
pub(crate) fn wait(events: &[&Event], milliseconds: i32) {
    let mut list: Vec<libc::pollfd> = events
        .iter()
        .map(|event| libc::pollfd { fd: event.0.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    // SAFETY: a list of open descriptors and its length.
    unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, milliseconds) };
    // An event whose task has ended is always ready; without a pause the reader would spin.
    if list.iter().any(|entry| entry.revents & libc::POLLHUP != 0) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// The memory that kernel and recorder share: a page of positions, then the records.
pub(crate) struct Ring {
    base: NonNull<u8>,
    data_bytes: usize,
    scratch: Vec<u8>,
}

impl Ring {
    /// Maps the ring of an event; `pages` is a power of two.
    pub(crate) fn map(event: &Event, pages: usize) -> io::Result<Ring> {
        let len = (pages + 1) * PAGE_BYTES;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping where the kernel likes; no existing memory is touched.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, event.0.as_raw_fd(), 0)
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(Ring { base, data_bytes: pages * PAGE_BYTES, scratch: Vec::new() })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: both positions lie, aligned, in the first page, and kernel and recorder use them atomically.
        unsafe { &*self.base.as_ptr().add(at).cast::<AtomicU64>() }
    }

    /// Hands all records that lie in the ring to `take`, whole and in order, then frees their room.
    pub(crate) fn drain<E>(&mut self, take: impl FnOnce(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let head = self.position(DATA_HEAD_AT).load(Ordering::Acquire);
        let tail = self.position(DATA_TAIL_AT).load(Ordering::Relaxed);
        let filled = usize::try_from(head.wrapping_sub(tail)).unwrap_or(0).min(self.data_bytes);
        if filled == 0 {
            return Ok(());
        }
        let at = (tail as usize) & (self.data_bytes - 1);
        let first = filled.min(self.data_bytes - at);
        // SAFETY: the data begins after the first page and is `data_bytes` long; the kernel does not write between
        // tail and head until the tail moves.
        let (one, two) = unsafe {
            let data = self.base.as_ptr().add(PAGE_BYTES);
            (
                std::slice::from_raw_parts(data.add(at), first),
                std::slice::from_raw_parts(data, filled - first),
            )
        };
        let done = if two.is_empty() {
            take(one)
        } else {
            self.scratch.clear();
            self.scratch.extend_from_slice(one);
            self.scratch.extend_from_slice(two);
            take(&self.scratch)
        };
        self.position(DATA_TAIL_AT).store(head, Ordering::Release);
        done
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly the range that was mapped.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.data_bytes + PAGE_BYTES) };
    }
}

/// Raises the limit of open files as far as it goes: many threads on many CPUs need many events.
pub(crate) fn allow_many_files() {
    // SAFETY: the calls read and write a local structure.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}
