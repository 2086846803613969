//! The system calls around one run: waiting with a time limit, resource use, counters,
//! memory-backed files, pinning.

use crate::Error;
use crate::metric::Counter;
use perf_events::Event;
use perfdata::{EventAttr, attr_flag};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::{Duration, Instant};

/// How a child ended and what it used.
pub(crate) struct Ended {
    /// Exit code, or 128 + the number of the signal that ended it.
    pub(crate) code: i32,
    pub(crate) usage: libc::rusage,
    /// CPU time of its first thread and the time that this thread was queued for a CPU, where the
    /// kernel tells.
    pub(crate) first_thread: Option<(u64, u64)>,
    /// When its end was seen.
    pub(crate) at: Instant,
    /// It was killed since it ran too long.
    pub(crate) timed_out: bool,
    /// It was killed since it printed too much.
    pub(crate) flooded: bool,
}

/// How often a run is looked at for what it printed so far. One look costs some microseconds, and
/// memory is filled by about a gigabyte between two.
const LOOK: Duration = Duration::from_millis(250);

/// Waits for one child, the leader of its own process group. When `interrupted` says yes after a
/// signal, `flooded` says yes at a [`LOOK`], or `limit` has passed, the whole group is killed.
///
/// Between two looks planish sleeps in poll on the child's descriptor. `wait4` rather than
/// `getrusage(RUSAGE_CHILDREN)`: the latter sums over all children so far and has no maximum for
/// the last one.
pub(crate) fn wait(
    pid: u32,
    limit: Option<Duration>,
    interrupted: impl Fn() -> bool,
    flooded: impl Fn() -> bool,
) -> Result<Ended, Error> {
    let pid = pid as libc::pid_t;
    let start = Instant::now();
    let ended = processes::descriptor(pid);
    let (mut timed_out, mut too_much) = (false, false);
    if let Some(ended) = &ended {
        loop {
            let left = limit.map_or(LOOK, |limit| limit.saturating_sub(start.elapsed()).min(LOOK));
            // Rounded up, so that the last sleep does not end before the limit.
            let wait_ms = left.as_millis() as i32 + 1;
            let mut poll = libc::pollfd { fd: ended.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: poll is one live, writable pollfd.
            let got = unsafe { libc::poll(&mut poll, 1, wait_ms) };
            if got > 0 {
                break;
            }
            if got == 0 {
                timed_out = limit.is_some_and(|limit| start.elapsed() >= limit);
                too_much = flooded();
                if !timed_out && !too_much {
                    continue;
                }
            } else if !last_error_is_interrupt() {
                break;
            } else if !interrupted() {
                continue;
            }
            kill_group(pid);
            break;
        }
    }
    let at = Instant::now();
    // Before it is waited for: a process that ended is still listed, without its memory but with
    // its times.
    let first_thread = first_thread(pid);
    let mut status = 0;
    // SAFETY: rusage is plain integers, for which all-zero bytes are a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers lead to live, writable values of the right type for the length of
        // the call.
        let got = unsafe { libc::wait4(pid, &mut status, 0, &mut usage) };
        if got == pid {
            break;
        }
        let source = std::io::Error::last_os_error();
        if source.kind() != std::io::ErrorKind::Interrupted {
            return Err(Error::System { action: "waiting for the program", source });
        }
        if interrupted() {
            kill_group(pid);
        }
    }
    // What the program left running would disturb the next run.
    kill_group(pid);
    let code = if libc::WIFSIGNALED(status) {
        128 + libc::WTERMSIG(status)
    } else {
        libc::WEXITSTATUS(status)
    };
    let at = if ended.is_some() { at } else { Instant::now() };
    Ok(Ended { code, usage, first_thread, at, timed_out, flooded: too_much })
}

/// `/proc/PID/schedstat`: time on the CPU, time in the queue (both ns), number of turns. All zero
/// where the kernel does not count.
fn first_thread(pid: libc::pid_t) -> Option<(u64, u64)> {
    let mut bytes = [0u8; 128];
    let got = File::open(format!("/proc/{pid}/schedstat"))
        .and_then(|mut file| file.read(&mut bytes))
        .ok()?;
    let text = String::from_utf8_lossy(bytes.get(..got)?);
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let (ran, queued) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    (ran > 0).then_some((ran, queued))
}

fn last_error_is_interrupt() -> bool {
    std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
}

fn kill_group(pid: libc::pid_t) {
    // SAFETY: kill has no memory effects; the group is that of our own child, whose number no other
    // group can take while a member lives, and which is gone (ESRCH) otherwise.
    unsafe { libc::kill(-pid, libc::SIGKILL) };
}

/// A file that lives in memory only.
///
/// The program's output goes there rather than into a pipe: a pipe's reader would wake up beside
/// the program and disturb what is measured.
pub(crate) fn memory_file() -> Result<File, Error> {
    // SAFETY: the name is a NUL-terminated literal; the call returns a new descriptor or -1.
    let fd = unsafe { libc::memfd_create(c"planish-output".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        let source = std::io::Error::last_os_error();
        return Err(Error::System {
            action: "creating a file in memory for the program's output",
            source,
        });
    }
    // SAFETY: fd is valid, open and owned by nobody else.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// A name under which programs of the same user can open a file of this process, as long as it
/// lives.
pub(crate) fn path_of(file: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

pub(crate) fn nanoseconds(time: libc::timeval) -> u64 {
    (time.tv_sec.max(0) as u64) * 1_000_000_000 + (time.tv_usec.max(0) as u64) * 1000
}

/// CPUs as sched_getaffinity tells them: 8192, the most that Linux can be built for.
type Cpus = [libc::cpu_set_t; 8];
/// CPUs of one of these.
const CPUS_OF_SET: usize = libc::CPU_SETSIZE as usize;
/// What fails where there is no such CPU.
const PINNING: &str = "pinning the programs to the CPU of --cpu (/sys/devices/system/cpu/online lists \
                       those there are)";

/// Settings of this thread that the programs it starts inherit. When dropped, the thread has its
/// own back.
///
/// Set in the thread and not between fork and exec: with code of ours to run there, the child would
/// begin as a copy of planish, whose page faults would count as the program's.
#[derive(Default)]
pub(crate) struct Settings {
    /// The thread's own personality, where it was changed.
    personality: Option<libc::c_ulong>,
    /// The thread's own CPUs, where they were changed.
    cpus: Option<Cpus>,
}

impl Settings {
    /// Programs started by this thread get fixed addresses, run on one CPU, or both.
    pub(crate) fn of_programs(fixed_addresses: bool, cpu: Option<u32>) -> Result<Settings, Error> {
        let mut settings = Settings::default();
        if fixed_addresses {
            settings.fix_addresses()?;
        }
        if let Some(cpu) = cpu {
            settings.pin(cpu)?;
        }
        Ok(settings)
    }

    fn fix_addresses(&mut self) -> Result<(), Error> {
        let failed = || Error::System {
            action: "switching address-space randomisation off (--aslr off)",
            source: std::io::Error::last_os_error(),
        };
        // SAFETY: personality takes an integer; 0xffffffff only asks.
        let own = unsafe { libc::personality(0xffff_ffff) };
        let own = libc::c_ulong::try_from(own).map_err(|_| failed())?;
        // SAFETY: personality takes an integer.
        if unsafe { libc::personality(own | libc::ADDR_NO_RANDOMIZE as libc::c_ulong) } < 0 {
            return Err(failed());
        }
        self.personality = Some(own);
        Ok(())
    }

    fn pin(&mut self, cpu: u32) -> Result<(), Error> {
        let absent = || Error::System {
            action: PINNING,
            source: std::io::Error::other(format!(
                "planish may not use CPU {cpu}, or there is none"
            )),
        };
        let failed = || Error::System { action: PINNING, source: std::io::Error::last_os_error() };
        // SAFETY: cpu_set_t is plain bits, for which zero is a valid value.
        let (mut own, mut wanted): (Cpus, Cpus) = unsafe { std::mem::zeroed() };
        let size = std::mem::size_of::<Cpus>();
        // SAFETY: own is live, writable and as long as stated.
        if unsafe { libc::sched_getaffinity(0, size, own.as_mut_ptr()) } != 0 {
            return Err(failed());
        }
        let (set, bit) = (cpu as usize / CPUS_OF_SET, cpu as usize % CPUS_OF_SET);
        let Some(set) = wanted.get_mut(set) else { return Err(absent()) };
        // SAFETY: bit lies in set, which is live; wanted is as long as stated.
        let done = unsafe {
            libc::CPU_SET(bit, set);
            libc::sched_setaffinity(0, size, wanted.as_ptr())
        };
        if done != 0 {
            let no_cpu = std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
            return Err(if no_cpu { absent() } else { failed() });
        }
        self.cpus = Some(own);
        Ok(())
    }
}

/// Lets this thread run before all that are not real-time (SCHED_FIFO) whenever it wakes, where the
/// user may ask for that. A thread that mostly sleeps rarely waits long even without it.
pub(crate) fn go_first() {
    let least = libc::sched_param { sched_priority: 1 };
    // SAFETY: least is live and of the right type; 0 is this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &least) };
}

impl Drop for Settings {
    fn drop(&mut self) {
        if let Some(own) = self.personality {
            // SAFETY: personality takes an integer, here one that the kernel gave.
            unsafe { libc::personality(own) };
        }
        if let Some(own) = &self.cpus {
            // SAFETY: own is live and as long as stated; it is what the kernel gave.
            unsafe { libc::sched_setaffinity(0, std::mem::size_of::<Cpus>(), own.as_ptr()) };
        }
    }
}

/// Counters that follow the one program that this thread starts next: they begin at its exec and
/// count its children.
///
/// They serve once. Parent and child have equal sets of events, which the kernel may exchange
/// between the two when it switches from one to the other, so that a counter kept for the next
/// child may have been used up.
pub(crate) struct Counters(Vec<(Counter, Event)>);

impl Counters {
    /// Opens what the machine has of `wanted`; the first that it lacks is the second result.
    pub(crate) fn open(wanted: &[Counter]) -> (Counters, Option<Counter>) {
        let mut open = Vec::new();
        let mut missing = None;
        for &counter in wanted {
            match open_counter(counter) {
                Some(event) => open.push((counter, event)),
                None => missing = missing.or(Some(counter)),
            }
        }
        (Counters(open), missing)
    }

    /// The counts, when the program and its children have ended.
    pub(crate) fn read(&self) -> Vec<(Counter, u64)> {
        let value = |event: &Event| event.count().ok();
        self.0.iter().filter_map(|(counter, event)| Some((*counter, value(event)?))).collect()
    }
}

fn open_counter(counter: Counter) -> Option<Event> {
    // Types and numbers of linux/perf_event.h.
    let cache = |cache: u64| cache | (1 << 16);
    let (kind, config): (u32, u64) = match counter {
        Counter::TaskClock => (1, 1),
        Counter::Cycles => (0, 0),
        Counter::Instructions => (0, 1),
        Counter::CacheMisses => (0, 3),
        Counter::Branches => (0, 4),
        Counter::BranchMisses => (0, 5),
        Counter::L1iMisses => (3, cache(1)),
        Counter::ItlbMisses => (3, cache(4)),
    };
    let with_kernel = attr_flag::DISABLED
        | attr_flag::INHERIT
        | attr_flag::EXCLUDE_HV
        | attr_flag::ENABLE_ON_EXEC;
    [with_kernel, with_kernel | attr_flag::EXCLUDE_KERNEL].into_iter().find_map(|flags| {
        let attr = EventAttr { kind, config, flags, ..EventAttr::default() };
        Event::open(&attr, 0, -1, None).ok()
    })
}
