//! The system calls around one run: resource use of a child, memory-backed files for its output.

use crate::Error;
use std::fs::File;
use std::os::fd::FromRawFd;

/// How a child ended and what it used.
pub(crate) struct Ended {
    /// Exit code, or 128 + the number of the signal that ended it.
    pub(crate) code: i32,
    pub(crate) usage: libc::rusage,
}

/// Waits for one child. `interrupted` is asked whenever a signal arrives; when it says yes the child is killed.
///
/// `wait4` rather than `getrusage(RUSAGE_CHILDREN)`: the latter sums over all children so far and has no maximum of
/// its own for the last one.
pub(crate) fn wait(pid: u32, interrupted: impl Fn() -> bool) -> Result<Ended, Error> {
    let pid = pid as libc::pid_t;
    let mut status = 0;
    // SAFETY: rusage is plain integers, for which all-zero bytes are a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers lead to live, writable values of the right type for the length of the call.
        let got = unsafe { libc::wait4(pid, &mut status, 0, &mut usage) };
        if got == pid {
            break;
        }
        let source = std::io::Error::last_os_error();
        if source.kind() != std::io::ErrorKind::Interrupted {
            return Err(Error::System { action: "waiting for the program", source });
        }
        if interrupted() {
            // SAFETY: kill has no memory effects; the pid is our own child, not yet waited for, hence not reused.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
    let code =
        if libc::WIFSIGNALED(status) { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) };
    Ok(Ended { code, usage })
}

/// A file that lives in memory only.
///
/// The program's output goes there rather than into a pipe: a pipe's reader would wake up beside the program and
/// disturb what is measured.
pub(crate) fn memory_file() -> Result<File, Error> {
    // SAFETY: the name is a NUL-terminated literal; the call returns a new descriptor or -1.
    let fd = unsafe { libc::memfd_create(c"planish-output".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        let source = std::io::Error::last_os_error();
        return Err(Error::System { action: "creating a file in memory for the program's output", source });
    }
    // SAFETY: fd is valid, open and owned by nobody else.
    Ok(unsafe { File::from_raw_fd(fd) })
}

pub(crate) fn nanoseconds(time: libc::timeval) -> u64 {
    (time.tv_sec.max(0) as u64) * 1_000_000_000 + (time.tv_usec.max(0) as u64) * 1000
}
