//! The system calls around processes: orphans adopted, ends waited for, signals sent.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Whether orphans below come to this process.
static ADOPTS: AtomicBool = AtomicBool::new(false);

/// Makes this process the parent of every orphan below it, so that none escapes. Their ends must be
/// taken from then on: [`take_orphans`].
///
/// # Errors
/// Where the kernel does not let it (before Linux 3.4).
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: prctl takes integers here and touches no memory.
    match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } {
        0 => {
            ADOPTS.store(true, Ordering::Relaxed);
            Ok(())
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether [`adopt_orphans`] was called.
#[must_use]
pub fn adopts_orphans() -> bool {
    ADOPTS.load(Ordering::Relaxed)
}

/// Takes the ends of adopted orphans, which would stay zombies. That of `child`, the one process that this
/// one started itself, is left to whoever waits for it.
pub fn take_orphans(child: u32) {
    while adopts_orphans() {
        // SAFETY: all zeros are a value of this plain structure.
        let mut ended: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: `ended` is one live, writable structure.
        let answer = unsafe { libc::waitid(libc::P_ALL, 0, &mut ended, options) };
        // SAFETY: waitid fills in the process, and leaves 0 where none has ended.
        let pid = if answer == 0 { unsafe { ended.si_pid() } } else { 0 };
        if pid <= 0 || pid.cast_unsigned() == child {
            return;
        }
        // SAFETY: a null status is not written.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) };
    }
}

/// Sends a signal to a process below this one; never to all or to the first one. A number whose process
/// has ended and was waited for may be another's: [`signal_to`] cannot be wrong.
pub fn signal(pid: i32, signal: i32) {
    if pid > 1 {
        // SAFETY: kill has no memory effects.
        unsafe { libc::kill(pid, signal) };
    }
}

/// A descriptor that becomes readable when the process ends; kernels before 5.3 have none.
#[must_use]
pub fn descriptor(pid: i32) -> Option<OwnedFd> {
    // SAFETY: pidfd_open takes two integers and returns a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    // SAFETY: fd is valid, open and owned by nobody else.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Sleeps until the process of a descriptor ends, a signal comes, or the time is over.
pub fn sleep_until_end(process: Option<&OwnedFd>, most: Duration) {
    let Some(process) = process else {
        return std::thread::sleep(most.min(Duration::from_millis(10)));
    };
    let mut poll = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: poll is one live, writable pollfd.
    unsafe { libc::poll(&mut poll, 1, most.as_millis() as i32 + 1) };
}

/// Sends a signal to the process of a descriptor, and to no other.
pub(crate) fn signal_to(process: &OwnedFd, signal: i32) {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open; no description of the signal is given.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), signal, none, 0) };
}

/// Whether the process of a descriptor has ended with all its threads, waited for or not.
pub(crate) fn has_ended(process: &OwnedFd) -> bool {
    let mut poll = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: poll is one live, writable pollfd.
    unsafe { libc::poll(&mut poll, 1, 0) > 0 }
}
