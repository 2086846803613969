//! System calls: signals handed on, files mapped, the host described. The crate's only unsafe code
//! is here.

pub(crate) mod aux;
pub(crate) mod count;
pub(crate) mod files;
pub(crate) mod launch;
pub(crate) mod perf;
pub(crate) mod readers;
#[cfg(target_arch = "x86_64")]
pub(crate) mod vvar;

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};

/// The child that gets our signals; 0 when there is none.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// A signal asked the recording to end.
static STOP: AtomicBool = AtomicBool::new(false);
/// When the last of them came, in milliseconds of the monotonic clock; 0 when none did.
static LAST_MS: AtomicI64 = AtomicI64::new(0);
/// The alarm is our own: it ends a child that would not end.
const SIGNALS: [i32; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGALRM, libc::SIGUSR2];
/// A signal so soon after another is no repetition by chance: the child is to end now.
const INSIST_MS: i64 = 3000;
/// What a child gets, after SIGTERM, to end by itself.
const GRACE_SECONDS: u32 = 2;

/// While this lives, signals that would end the recorder go to the recorded program instead.
pub(crate) struct ForwardSignals {
    previous: Vec<(i32, libc::sigaction)>,
}

extern "C" fn forward(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let child = CHILD.load(Ordering::Relaxed);
    if signal == libc::SIGALRM {
        if child > 0 {
            // SAFETY: a call without pointers that a signal handler may make.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        return;
    }
    if signal == libc::SIGUSR2 {
        // It asks for a file now, of recordings that know that; others must not end by it.
        return;
    }
    STOP.store(true, Ordering::Relaxed);
    let now = now_ms();
    let last = LAST_MS.swap(now, Ordering::Relaxed);
    // SAFETY: the kernel passes a valid description; `kill` and `alarm` may be called from a signal
    // handler.
    unsafe {
        if child > 0 && last != 0 && now - last < INSIST_MS {
            libc::kill(child, libc::SIGTERM);
            libc::alarm(GRACE_SECONDS);
            return;
        }
        // A signal of the terminal (made by the kernel) reaches the whole foreground group: the
        // child has it.
        let from_terminal = (*info).si_code == libc::SI_KERNEL;
        if child > 0 && !from_terminal {
            libc::kill(child, signal);
        }
    }
}

fn now_ms() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time through a pointer to a local, and a signal handler may make
    // it.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    // Never 0, which says that no signal came.
    (time.tv_sec * 1000 + time.tv_nsec / 1_000_000).max(1)
}

/// Whether a child has ended; it is left for whoever waits for it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_ended(child: i32) -> bool {
    let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the description is a local that the call may write, and zeros are a valid one.
    unsafe {
        let mut found: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_PID, child as libc::id_t, &mut found, how) != 0
            || found.si_pid() == child
    }
}

/// What a clock shows, in nanoseconds.
pub(crate) fn clock_ns(clock: i32) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time through a pointer to a local.
    let done = unsafe { libc::clock_gettime(clock, &mut time) };
    let seconds = u64::try_from(time.tv_sec).ok().filter(|_| done == 0)?;
    seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(time.tv_nsec).ok()?)
}

impl ForwardSignals {
    /// Begins to hand signals on to a child; `0` only notes them.
    pub(crate) fn to(child: u32) -> ForwardSignals {
        CHILD.store(i32::try_from(child).unwrap_or(0), Ordering::Relaxed);
        STOP.store(false, Ordering::Relaxed);
        LAST_MS.store(0, Ordering::Relaxed);
        let mut previous = Vec::new();
        for signal in SIGNALS {
            // SAFETY: both structures are valid for the call; the handler only uses what a handler
            // may.
            unsafe {
                let mut new: libc::sigaction = std::mem::zeroed();
                let mut old: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = forward as *const () as usize;
                new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                // nohup: neither the recorder nor the program is to end by it.
                let hang_up = signal == libc::SIGHUP
                    && libc::sigaction(signal, std::ptr::null(), &mut old) == 0
                    && old.sa_sigaction == libc::SIG_IGN;
                if !hang_up && libc::sigaction(signal, &new, &mut old) == 0 {
                    previous.push((signal, old));
                }
            }
        }
        ForwardSignals { previous }
    }

    /// The child that signals go to from now on; one that came before it was there reaches it now.
    pub(crate) fn child(&self, child: u32) {
        let child = i32::try_from(child).unwrap_or(0);
        CHILD.store(child, Ordering::Relaxed);
        if child > 0 && self.stopped() {
            // SAFETY: a call without pointers.
            unsafe { libc::kill(child, libc::SIGTERM) };
        }
    }

    /// The child has ended: its number may soon be another's. Signals are only noted from now on,
    /// so that the file gets finished.
    pub(crate) fn ended(&self) {
        CHILD.store(0, Ordering::Relaxed);
        // SAFETY: a call without pointers.
        unsafe { libc::alarm(0) };
    }

    /// True once a signal came.
    pub(crate) fn stopped(&self) -> bool {
        STOP.load(Ordering::Relaxed)
    }
}

impl Drop for ForwardSignals {
    fn drop(&mut self) {
        self.ended();
        for (signal, old) in &self.previous {
            // SAFETY: `old` is what the kernel returned for this signal.
            unsafe { libc::sigaction(*signal, old, std::ptr::null_mut()) };
        }
    }
}

/// Lets the program begin with the usual answers to Ctrl-C: a shell that starts the recorder in the
/// background has it ignore them, and a program that inherits this could not be asked to end. With
/// `bound`, the program is asked to end (SIGTERM) when the thread that starts it dies; that thread
/// must live until then.
pub(crate) fn prepare(command: &mut Command, bound: bool) {
    // SAFETY: the closure runs in the forked child, and only makes system calls on values of its
    // own.
    unsafe {
        command.pre_exec(move || {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            libc::signal(libc::SIGQUIT, libc::SIG_DFL);
            if bound {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            }
            Ok(())
        });
    }
}

/// Lets the program begin without address randomisation.
pub(crate) fn fix_addresses(command: &mut Command) {
    // SAFETY: the closure runs in the forked child, and only makes a system call without pointers.
    unsafe {
        command.pre_exec(|| {
            // A container may forbid it. A guest's addresses are then still qemu's own choice.
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            Ok(())
        });
    }
}

/// Whether a signal asked the recording to end that is being made.
pub(crate) fn asked_to_end() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Takes a file's lock, unless another process has it. It is given back when the file is closed.
pub(crate) fn lock(file: &File) -> bool {
    // SAFETY: a call on a descriptor that is open; no memory is passed.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

/// A whole file, mapped for reading.
pub(crate) struct Map {
    address: NonNull<u8>,
    len: usize,
}

impl Map {
    /// Maps a file that nobody shortens while the map lives.
    pub(crate) fn of(file: &File) -> io::Result<Map> {
        let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        // SAFETY: a new mapping where the kernel likes; no existing memory is touched.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(address.cast::<u8>()) {
            Some(address) if address.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(Map { address, len })
            }
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Deref for Map {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is `len` bytes long and lives as long as `self`; only the recorder's
        // own spool, whose writers have ended, is mapped.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.len) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: exactly the range that was mapped.
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.len) };
    }
}

/// What uname and sysconf say.
pub(crate) struct Host {
    pub name: String,
    pub release: String,
    pub machine: String,
    pub cpus_configured: u32,
    pub cpus_online: u32,
}

/// Describes this machine.
pub(crate) fn host() -> Host {
    // SAFETY: `uname` fills the structure with NUL-terminated strings; all zeros are strings too.
    let names = unsafe {
        let mut names: libc::utsname = std::mem::zeroed();
        libc::uname(&mut names);
        names
    };
    let text = |field: &[libc::c_char]| {
        // Signed on x86-64, unsigned on AArch64.
        let bytes: Vec<u8> = field
            .iter()
            .take_while(|byte| **byte != 0)
            .flat_map(|byte| byte.to_ne_bytes())
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    // SAFETY: a call without pointers.
    let count = |name| u32::try_from(unsafe { libc::sysconf(name) }).unwrap_or(1);
    Host {
        name: text(&names.nodename),
        release: text(&names.release),
        machine: text(&names.machine),
        cpus_configured: count(libc::_SC_NPROCESSORS_CONF),
        cpus_online: count(libc::_SC_NPROCESSORS_ONLN),
    }
}

/// Bytes of a page, which mappings of the kernel's rings are made of: 4096 on x86-64, on AArch64
/// also 16 or 64 KiB.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: a call without pointers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// The user whose files we may replace.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: a call without arguments.
    unsafe { libc::geteuid() }
}
