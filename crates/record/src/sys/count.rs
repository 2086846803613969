//! What counting needs of the kernel: counters read, processes watched for their end, exact sleeps,
//! a child's times.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// `PIDFD_THREAD` (Linux 6.9): the descriptor is a thread's, not its process's.
const PIDFD_THREAD: libc::c_uint = libc::O_EXCL as libc::c_uint;

/// A descriptor that becomes readable when the process, or the thread, ends; none where the kernel
/// has no such thing.
pub(crate) fn end_of(id: i32, thread: bool) -> Option<OwnedFd> {
    let flags = if thread { PIDFD_THREAD } else { 0 };
    // SAFETY: a call on numbers that returns a new descriptor, which nobody else has.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, id, flags);
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd as i32))
    }
}

/// Sleeps for `time`, or until one of the descriptors is readable, or a signal comes. What is
/// readable is taken off the list.
pub(crate) fn sleep_until_end(ends: &mut Vec<OwnedFd>, time: Duration) {
    let mut list: Vec<libc::pollfd> = ends
        .iter()
        .map(|end| libc::pollfd { fd: end.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    let time = libc::timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos().into(),
    };
    // SAFETY: a list of open descriptors with its length, a time, and no signal mask.
    unsafe { libc::ppoll(list.as_mut_ptr(), list.len() as libc::nfds_t, &time, std::ptr::null()) };
    let mut entries = list.iter();
    ends.retain(|_| entries.next().is_none_or(|entry| entry.revents == 0));
}

/// The CPU time of a child and of the children that it waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Times {
    pub user: Duration,
    pub system: Duration,
}

/// Takes the end of a child, if it has come.
pub(crate) fn reap(pid: i32) -> io::Result<Option<(ExitStatus, Times)>> {
    loop {
        let mut status = 0;
        // SAFETY: the calls write into two locals; all zeros are a valid `rusage`.
        let (got, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(pid, &mut status, libc::WNOHANG, &mut usage), usage)
        };
        if got == 0 {
            return Ok(None);
        }
        if got > 0 {
            let time = |time: libc::timeval| {
                Duration::from_secs(time.tv_sec.try_into().unwrap_or(0))
                    + Duration::from_micros(time.tv_usec.try_into().unwrap_or(0))
            };
            let times = Times { user: time(usage.ru_utime), system: time(usage.ru_stime) };
            return Ok(Some((ExitStatus::from_raw(status), times)));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
