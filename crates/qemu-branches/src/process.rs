//! Who is recorded: the process and its threads, and the records that tell of them.

use crate::lock::Lock;
use crate::records::{self, Mapping, Stamp};
use crate::settings::Settings;
use crate::spool::{self, EVENT_ID, SpoolFile, Stream};
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

struct Global {
    spool: SpoolFile,
    period: u64,
    call_chains: bool,
    comm: Vec<u8>,
}

static GLOBAL: OnceLock<Global> = OnceLock::new();
static PID: AtomicI32 = AtomicI32::new(0);
static PARENT: AtomicI32 = AtomicI32::new(0);
/// Grows at every fork, so that thread-local copies of a thread's number become invalid.
static EPOCH: AtomicU32 = AtomicU32::new(1);
/// The records of this process that are not samples. One lock and one clock keep them in order.
static STREAM: Lock<Stream> = Lock::new(Stream::new());

thread_local! {
    static TID: Cell<(u32, i32)> = const { Cell::new((0, 0)) };
}

/// The thread that a virtual CPU serves, as far as records told of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Thread(i32);

impl Thread {
    /// Not told of yet.
    pub const fn unknown() -> Thread {
        Thread(0)
    }
}

/// Nanoseconds of CLOCK_MONOTONIC, the clock that the attribute's clockid names.
pub fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time through a pointer to a local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Length of the usual interval.
pub fn period() -> u64 {
    GLOBAL.get().map_or(1, |global| global.period)
}

/// Whether samples carry a call chain.
pub fn call_chains() -> bool {
    GLOBAL.get().is_some_and(|global| global.call_chains)
}

/// The spool file.
pub fn spool() -> Option<SpoolFile> {
    GLOBAL.get().map(|global| global.spool)
}

/// Opens the spool, and tells of the first process.
pub fn begin(settings: Settings) -> std::io::Result<()> {
    let path: &'static PathBuf = Box::leak(Box::new(settings.spool));
    let spool = SpoolFile { path, header: spool::open(path)? };
    let global = Global {
        spool,
        period: settings.period.max(1),
        call_chains: settings.call_chains,
        comm: settings.comm,
    };
    GLOBAL.set(global).map_err(|_| std::io::Error::other("installed twice"))?;
    // SAFETY: plain system calls without arguments.
    let (pid, parent) = unsafe { (libc::getpid(), libc::getppid()) };
    PID.store(pid, Ordering::Relaxed);
    PARENT.store(parent, Ordering::Relaxed);
    spool.header.processes.fetch_add(1, Ordering::Relaxed);
    spool.header.installed.store(1, Ordering::Release);
    if !settings.count_only && !settings.machine {
        tell(pid, |stamp, comm| records::comm(stamp, comm, true));
    }
    // SAFETY: the three functions are safe to call around a fork: they only use atomics, the lock
    // and system calls.
    unsafe {
        libc::pthread_atfork(
            Some(before_fork),
            Some(after_fork_in_parent),
            Some(after_fork_in_child),
        )
    };
    Ok(())
}

/// Writes a record of this process; the time is taken under the lock, so the stream stays in order.
fn tell(tid: i32, record: impl FnOnce(Stamp, &[u8]) -> Vec<u8>) {
    let Some(global) = GLOBAL.get() else { return };
    STREAM.with(|stream| {
        let stamp = Stamp { pid: PID.load(Ordering::Relaxed), tid, time: now(), id: EVENT_ID };
        if stream.append(&global.spool, &record(stamp, &global.comm)).is_none() {
            global.spool.header.lost_samples.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// Tells of an executable mapping.
pub fn tell_mapping(mapping: &Mapping) {
    tell(PID.load(Ordering::Relaxed), |stamp, _| records::mmap2(stamp, mapping));
}

/// Tells of the end of the process.
pub fn tell_exit() {
    let parent = PARENT.load(Ordering::Relaxed);
    tell(PID.load(Ordering::Relaxed), |stamp, _| records::exit(stamp, (parent, parent)));
}

/// The calling thread's process and thread number; tells of the thread when it is new to this
/// virtual CPU.
pub fn announce(known: &mut Thread) -> (i32, i32) {
    let (pid, epoch) = (PID.load(Ordering::Relaxed), EPOCH.load(Ordering::Relaxed));
    let tid = TID.with(|cached| {
        let (of, tid) = cached.get();
        if of == epoch {
            return tid;
        }
        // SAFETY: a plain system call without arguments.
        let tid = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
        cached.set((epoch, tid));
        tid
    });
    if *known != Thread(tid) {
        *known = Thread(tid);
        if let Some(spool) = spool() {
            spool.header.threads.fetch_add(1, Ordering::Relaxed);
        }
        if tid != pid {
            tell(tid, |stamp, _| records::fork(stamp, (pid, pid)));
            tell(tid, |stamp, comm| records::comm(stamp, comm, false));
        }
    }
    (pid, tid)
}

extern "C" fn before_fork() {
    STREAM.acquire();
}

extern "C" fn after_fork_in_parent() {
    STREAM.release();
}

extern "C" fn after_fork_in_child() {
    STREAM.release();
    EPOCH.fetch_add(1, Ordering::Relaxed);
    // SAFETY: a plain system call without arguments.
    let pid = unsafe { libc::getpid() };
    let parent = PID.swap(pid, Ordering::Relaxed);
    PARENT.store(parent, Ordering::Relaxed);
    if let Some(spool) = spool() {
        spool.header.processes.fetch_add(1, Ordering::Relaxed);
    }
    STREAM.with(Stream::forget);
    tell(pid, |stamp, _| records::fork(stamp, (parent, parent)));
    tell(pid, |stamp, comm| records::comm(stamp, comm, false));
}
