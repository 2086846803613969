//! How is a file locked against other processes, and what did children use?

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// CPU time, user and system, of all children that have ended and been waited for, and of theirs.
pub(crate) fn children_cpu() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage writes one rusage to the place, which is large enough for it; all zeroes
    // are a rusage too, should it fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let of = |time: libc::timeval| {
        let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
        seconds + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// Locks an open file for this process alone; false when another process has it locked. The system
/// lifts the lock when the file is closed, also when the process is killed.
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: the descriptor is open as long as `file` lives, and flock touches no memory of this
    // process.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        e if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
        e => Err(e),
    }
}

/// Lifts the lock of an open file now, also where a child that another thread has just forked
/// still holds the file open until it runs its program (`flock(2)`: the lock belongs to the open
/// file description, and an unlock by any descriptor of it lifts it).
pub(crate) fn unlock(file: &File) -> io::Result<()> {
    // SAFETY: as above.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}
