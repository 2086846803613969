//! A timer that interrupts the tracing thread's wait from time to time.
//!
//! It sends SIGURG to this thread only. The program that records needs no SIGURG of its own: what
//! the signal does by default is nothing, and the handler installed here does nothing either; all
//! it is for is that the wait returns.

use std::io;
use std::sync::OnceLock;

/// What wakes the tracing thread: from the timer, and from events of threads that cannot get the
/// signal themselves.
pub(crate) const WAKE: i32 = libc::SIGURG;

extern "C" fn nothing(_signal: i32) {}

fn install() -> io::Result<()> {
    static DONE: OnceLock<Option<i32>> = OnceLock::new();
    let error = DONE.get_or_init(|| {
        // SAFETY: the handler does nothing, so it may run at any time; all zeros are an empty mask
        // and no flags.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as usize;
            // Without SA_RESTART: an interrupted wait has to return.
            if libc::sigaction(WAKE, &action, std::ptr::null_mut()) == 0 {
                None
            } else {
                io::Error::last_os_error().raw_os_error()
            }
        }
    });
    error.map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(code)))
}

/// While this lives, the thread that made it is woken at an interval.
pub(crate) struct Ticks {
    timer: libc::timer_t,
    /// What the thread blocked before.
    mask: libc::sigset_t,
}

impl Ticks {
    /// Begins.
    pub(crate) fn every(interval_ns: u32) -> io::Result<Ticks> {
        install()?;
        let interval = libc::timespec { tv_sec: 0, tv_nsec: interval_ns.min(999_999_999).into() };
        let times = libc::itimerspec { it_interval: interval, it_value: interval };
        // SAFETY: every pointer is to a local of the type that the call wants; all zeros are valid
        // values of them.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = WAKE;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer: libc::timer_t = std::ptr::null_mut();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) != 0 {
                return Err(io::Error::last_os_error());
            }
            let (mut only, mut mask): (libc::sigset_t, libc::sigset_t) =
                (std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&mut only);
            libc::sigaddset(&mut only, WAKE);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &only, &mut mask);
            let ticks = Ticks { timer, mask };
            if libc::timer_settime(timer, 0, &times, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(ticks)
        }
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        // SAFETY: the timer and the mask are those that the calls above returned.
        unsafe {
            libc::timer_delete(self.timer);
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.mask, std::ptr::null_mut());
        }
    }
}
