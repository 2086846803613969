//! The system calls around processes: ends taken, times read.

use crate::used::Used;

/// A child that ended.
pub(crate) struct Reaped {
    pub pid: i32,
    /// Exit code, or 128 + the number of the signal that ended it.
    pub code: i32,
    /// What it used, and those of its children that it waited for.
    pub used: Used,
}

/// Takes the end of one child, if one has ended and was not taken.
pub(crate) fn reap() -> Option<Reaped> {
    let mut status = 0;
    // SAFETY: rusage is plain integers, for which all-zero bytes are a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers lead to live, writable values of the right type for the length of the
    // call.
    let pid = unsafe { libc::wait4(-1, &mut status, libc::WNOHANG, &mut usage) };
    if pid <= 0 {
        return None;
    }
    let code = if libc::WIFSIGNALED(status) {
        128 + libc::WTERMSIG(status)
    } else {
        libc::WEXITSTATUS(status)
    };
    let count = |n: libc::c_long| n.max(0) as u64;
    let used = Used {
        user_ns: nanoseconds(usage.ru_utime),
        system_ns: nanoseconds(usage.ru_stime),
        max_rss_bytes: count(usage.ru_maxrss) * 1024,
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
        voluntary_switches: Some(count(usage.ru_nvcsw)),
        involuntary_switches: Some(count(usage.ru_nivcsw)),
        ..Used::default()
    };
    Some(Reaped { pid, code, used })
}

fn nanoseconds(time: libc::timeval) -> u64 {
    (time.tv_sec.max(0) as u64) * 1_000_000_000 + (time.tv_usec.max(0) as u64) * 1000
}

/// CPU time of all threads of a process, those that ended too: in user mode and in the kernel,
/// nanoseconds.
///
/// The sum is that of the scheduler, exact. Kernels that sample at ticks where time is spent know
/// the two parts less well; the sum is divided as they were sampled (`cputime_adjust`,
/// kernel/sched/cputime.c, does the same for /proc).
pub(crate) fn cpu_time(pid: i32) -> Option<(u64, u64)> {
    // linux/posix-timers.h, MAKE_PROCESS_CPUCLOCK: the complement of the number, then the clock:
    // 0 user and system as sampled, 1 user as sampled, 2 the scheduler's.
    let read = |clock: i32| {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: time is live and writable for the length of the call.
        let got = unsafe { libc::clock_gettime((!pid << 3) | clock, &mut time) };
        (got == 0).then(|| time.tv_sec.max(0) as u64 * 1_000_000_000 + time.tv_nsec.max(0) as u64)
    };
    let (sampled, user, all) = (read(0)?, read(1)?, read(2)?);
    let kernel = u128::from(sampled.saturating_sub(user)) * u128::from(all);
    let system = kernel.checked_div(u128::from(sampled)).map_or(0, |ns| ns as u64);
    Some((all.saturating_sub(system), system))
}

/// Clock ticks of /proc in nanoseconds.
pub(crate) fn tick_ns() -> u64 {
    // SAFETY: sysconf takes an integer.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    1_000_000_000 / u64::try_from(ticks).unwrap_or(100).max(1)
}
