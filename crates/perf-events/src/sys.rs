//! The system calls on events: open, control, read, map.

use perfdata::EventAttr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_PERIOD: libc::c_ulong = 0x4008_2404;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
const IOC_ID: libc::c_ulong = 0x8008_2407;
const IOC_PAUSE_OUTPUT: libc::c_ulong = 0x4004_2409;
const FLAG_PID_CGROUP: libc::c_ulong = 4;
const FLAG_FD_CLOEXEC: libc::c_ulong = 8;
const F_SETOWN_EX: libc::c_int = 15;
const F_SETSIG: libc::c_int = 10;
const F_OWNER_TID: libc::c_int = 0;

/// `struct f_owner_ex`.
#[repr(C)]
struct Owner {
    kind: libc::c_int,
    tid: libc::pid_t,
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// An open event; closed when dropped.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// Opens an event for a thread (-1: all, 0: this one) on a CPU (-1: any), in the group of
    /// another where there is one.
    ///
    /// # Errors
    /// What the kernel says against it.
    pub fn open(attr: &EventAttr, tid: i32, cpu: i32, group: Option<&Event>) -> io::Result<Event> {
        Event::open_with(attr, tid, cpu, group, 0)
    }

    /// Opens an event for a control group, by its directory, on a CPU.
    ///
    /// # Errors
    /// What the kernel says against it.
    pub fn open_cgroup(
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
        done(unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) })
    }

    /// The id that its records carry.
    ///
    /// # Errors
    /// As for all of these: what the kernel says against it.
    pub fn id(&self) -> io::Result<u64> {
        let mut id = 0u64;
        self.ioctl(IOC_ID, (&raw mut id) as libc::c_ulong)?;
        Ok(id)
    }

    /// Starts counting.
    pub fn enable(&self) -> io::Result<()> {
        self.ioctl(IOC_ENABLE, 0)
    }

    /// Stops counting.
    pub fn disable(&self) -> io::Result<()> {
        self.ioctl(IOC_DISABLE, 0)
    }

    /// Begins a new period of another length.
    pub fn set_period(&self, period: u64) -> io::Result<()> {
        self.ioctl(IOC_PERIOD, (&raw const period) as libc::c_ulong)
    }

    /// Sends its records into another event's ring.
    pub fn share_ring_of(&self, other: &Event) -> io::Result<()> {
        self.ioctl(IOC_SET_OUTPUT, other.0.as_raw_fd() as libc::c_ulong)
    }

    /// Stops or resumes what goes into its ring, for a ring that is written backward and over
    /// itself.
    pub fn pause_output(&self, pause: bool) -> io::Result<()> {
        self.ioctl(IOC_PAUSE_OUTPUT, libc::c_ulong::from(pause))
    }

    /// Says which thread gets which signal at the end of each period.
    pub fn send(&self, signal: i32, tid: i32) -> io::Result<()> {
        let fd = self.0.as_raw_fd();
        let owner = Owner { kind: F_OWNER_TID, tid };
        // SAFETY: the descriptor is open; the owner is read during the call.
        unsafe {
            done(libc::fcntl(fd, F_SETSIG, signal))?;
            done(libc::fcntl(fd, F_SETOWN_EX, &raw const owner))?;
            let flags = libc::fcntl(fd, libc::F_GETFL);
            done(flags)?;
            done(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_ASYNC))
        }
    }

    /// The words that a read of the event gives, by its read format.
    pub fn read(&self) -> io::Result<Vec<u64>> {
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

    /// The count of an event that is in no group and has the plain read format.
    pub fn count(&self) -> io::Result<u64> {
        let mut count = 0u64;
        // SAFETY: at most eight bytes are written, into a local of that size.
        let read =
            unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
        if read == size_of::<u64>() as isize { Ok(count) } else { Err(io::Error::last_os_error()) }
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Memory that the kernel and this process share by an event; given back when dropped.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, and any thread may use it.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives out atomic words and a pointer whose use is the caller's.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps an event's page of positions and the records behind it, `bytes` together: whole pages.
    ///
    /// # Errors
    /// Where there is no memory for it that the kernel would keep in place, or no power of two of
    /// pages behind the first.
    pub fn of(event: &Event, bytes: usize, writable: bool) -> io::Result<Mapping> {
        let access = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let (nowhere, fd) = (std::ptr::null_mut(), event.0.as_raw_fd());
        // SAFETY: a new mapping where the kernel likes; no existing memory is touched.
        let base = unsafe { libc::mmap(nowhere, bytes, access, libc::MAP_SHARED, fd, 0) };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(Mapping { base, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Where it begins.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// A word of the first page, which the kernel writes and reads meanwhile: `at` bytes from its
    /// begin, rounded down to a word and kept within 4096 bytes.
    pub fn word(&self, at: usize) -> &AtomicU64 {
        let at = at & (4096 - 8);
        // SAFETY: an aligned word in the first page, which is mapped as long as this lives; kernel
        // and process use it atomically.
        unsafe { &*self.base.as_ptr().add(at).cast::<AtomicU64>() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that was mapped.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
