//! How is a file locked against other processes, and a child asked to end?

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Asks a child to end, which may do so in order (SIGTERM).
pub(crate) fn ask_to_end(child: &std::process::Child) {
    // SAFETY: kill has no memory effects; the number belongs to our child, which has not been
    // waited for, or to nobody.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
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
