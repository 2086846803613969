//! System calls: ptrace, waiting for tracees, clocks and CPU affinity. The crate's only unsafe code
//! is here.

pub(crate) mod event;
pub(crate) mod memory;
pub(crate) mod tick;

use std::io;

/// `PTRACE_EVENT_STOP`: a seized thread stopped without a signal to deliver
/// (include/uapi/linux/ptrace.h).
pub(crate) const EVENT_STOP: i32 = 128;
/// What a stop at the start or end of a system call is told by in place of a signal
/// (`PTRACE_O_TRACESYSGOOD`).
pub(crate) const AT_CALL: i32 = libc::SIGTRAP | 0x80;
/// `PTRACE_PEEKSIGINFO`, which reads queued signals and leaves them.
const PEEKSIGINFO: libc::c_uint = 0x4209;
const GETSIGMASK: libc::c_uint = 0x420a;
const SETSIGMASK: libc::c_uint = 0x420b;
const NT_X86_XSTATE: usize = 0x202;
/// An XSAVE area with every known component, tiles included, is about 11 KiB; more than this is an
/// error.
const XSTATE_MOST_BYTES: usize = 1 << 20;

/// What `waitid` reports of a child or tracee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is in a ptrace stop: the low byte is the signal, the next the event.
    Stopped(i32),
    /// It exited with a code.
    Exited(i32),
    /// A signal ended it.
    Killed(i32),
    /// An untraced child was stopped by job control.
    ChildStopped,
}

/// How to wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitFor {
    /// One thread; any when none.
    pub tid: Option<i32>,
    /// Report exits too, and only look: nothing is consumed.
    pub peek: bool,
    /// Do not wait.
    pub no_hang: bool,
}

/// ESRCH is the normal answer about a thread that was killed; everything else a tracer can do
/// nothing about either, and the thread reports again by exiting.
pub(crate) fn fine<T>(result: io::Result<T>) -> Option<T> {
    result.ok()
}

fn done(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits for children and tracees of this thread alone. `Ok(None)`: nothing yet; an interrupted
/// wait is an error.
pub(crate) fn wait(what: WaitFor) -> io::Result<Option<(i32, Change)>> {
    let mut options = libc::WSTOPPED | libc::__WALL | libc::__WNOTHREAD;
    if what.peek {
        options |= libc::WEXITED | libc::WNOWAIT;
    }
    if what.no_hang {
        options |= libc::WNOHANG;
    }
    let (kind, id) = what.tid.map_or((libc::P_ALL, 0), |tid| (libc::P_PID, tid as libc::id_t));
    // SAFETY: the call fills a local structure, whose fields are then those of a SIGCHLD
    // description.
    let (tid, code, status) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        done(libc::waitid(kind, id, &mut info, options).into())?;
        (info.si_pid(), info.si_code, info.si_status())
    };
    if tid == 0 {
        return Ok(None);
    }
    Ok(Some((
        tid,
        match code {
            libc::CLD_EXITED => Change::Exited(status),
            libc::CLD_KILLED | libc::CLD_DUMPED => Change::Killed(status),
            libc::CLD_TRAPPED => Change::Stopped(status),
            _ => Change::ChildStopped,
        },
    )))
}

/// Takes what [`wait`] has shown of one thread off the list.
pub(crate) fn consume(tid: i32) {
    // SAFETY: no pointers to memory are passed.
    unsafe {
        libc::waitpid(tid, std::ptr::null_mut(), libc::__WALL | libc::WUNTRACED | libc::WNOHANG)
    };
}

fn ptrace(request: libc::c_uint, tid: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: the callers below pass numbers, or addresses of locals of the size that the request
    // writes or reads.
    done(unsafe { libc::ptrace(request, tid, address, data) })
}

/// What is traced of what a thread makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Follow {
    /// New threads.
    pub threads: bool,
    /// New processes.
    pub processes: bool,
}

impl Follow {
    fn options(self) -> usize {
        let mut options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACEEXEC;
        if self.threads {
            options |= libc::PTRACE_O_TRACECLONE;
        }
        if self.processes {
            options |= libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK;
        }
        options as usize
    }
}

/// Begins to trace a thread without stopping it.
pub(crate) fn seize(tid: i32, follow: Follow) -> io::Result<()> {
    ptrace(libc::PTRACE_SEIZE, tid, 0, follow.options())
}

/// Changes what is traced of what a stopped thread makes.
pub(crate) fn set_follow(tid: i32, follow: Follow) -> io::Result<()> {
    ptrace(libc::PTRACE_SETOPTIONS, tid, 0, follow.options())
}

/// Lets a stopped thread go on to where it begins or ends a system call, with a signal delivered
/// (0: none).
pub(crate) fn resume_to_call(tid: i32, signal: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_SYSCALL, tid, 0, signal as usize)
}

/// Lets a stopped thread go on, with a signal delivered (0: none).
pub(crate) fn resume(tid: i32, signal: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_CONT, tid, 0, signal as usize)
}

/// Lets a thread in a job-control stop stay there, and tells when that ends.
pub(crate) fn listen(tid: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_LISTEN, tid, 0, 0)
}

/// Stops a running thread soon.
pub(crate) fn interrupt(tid: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// Lets a stopped thread go on untraced, with a signal delivered (0: none).
pub(crate) fn detach(tid: i32, signal: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_DETACH, tid, 0, signal as usize)
}

/// Lets a stopped thread execute one instruction.
pub(crate) fn single_step(tid: i32) -> io::Result<()> {
    ptrace(libc::PTRACE_SINGLESTEP, tid, 0, 0)
}

/// What a ptrace event is about: the number of a new thread, or the former one at an exec.
pub(crate) fn event_message(tid: i32) -> io::Result<i32> {
    let mut message: libc::c_ulong = 0;
    ptrace(libc::PTRACE_GETEVENTMSG, tid, 0, (&raw mut message) as usize)?;
    Ok(message as i32)
}

/// The general registers of a stopped thread.
pub(crate) fn registers(tid: i32) -> io::Result<libc::user_regs_struct> {
    // SAFETY: the structure consists of numbers; all zeros are a valid value.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    ptrace(libc::PTRACE_GETREGS, tid, 0, (&raw mut registers) as usize)?;
    Ok(registers)
}

/// Writes the general registers of a stopped thread.
pub(crate) fn set_registers(tid: i32, registers: &libc::user_regs_struct) -> io::Result<()> {
    ptrace(libc::PTRACE_SETREGS, tid, 0, std::ptr::from_ref(registers) as usize)
}

/// The whole XSAVE area of a stopped thread.
pub(crate) fn xstate(tid: i32, area: &mut Vec<u8>) -> io::Result<()> {
    let mut room = area.capacity().max(4096);
    loop {
        area.resize(room, 0);
        let mut vector = libc::iovec { iov_base: area.as_mut_ptr().cast(), iov_len: area.len() };
        ptrace(libc::PTRACE_GETREGSET, tid, NT_X86_XSTATE, (&raw mut vector) as usize)?;
        if vector.iov_len < room || room >= XSTATE_MOST_BYTES {
            area.truncate(vector.iov_len);
            return Ok(());
        }
        room *= 4;
    }
}

/// What a signal says about its origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignalInfo {
    /// The signal.
    pub signal: i32,
    /// `si_code`: above 0 when the kernel made it.
    pub code: i32,
    /// `si_fd` of a signal that a descriptor made (`struct siginfo`, field `_sigpoll`); other
    /// signals have other numbers there.
    pub fd: i32,
}

impl SignalInfo {
    /// The stop that it belongs to, as [`Change::Stopped`] says it.
    pub(crate) fn stop(&self) -> i32 {
        let at_call = (self.signal, self.code) == (libc::SIGTRAP, AT_CALL);
        if at_call { AT_CALL } else { self.signal | self.code & 0xff00 }
    }
}

/// Byte offset of `si_fd` on x86-64: three numbers, padding, `si_band`.
const SI_FD_AT: usize = 24;

fn signal_info_of(info: &libc::siginfo_t) -> SignalInfo {
    // SAFETY: the structure is 128 bytes long and consists of numbers, so four bytes at 24 are a
    // number.
    let fd = unsafe { std::ptr::from_ref(info).byte_add(SI_FD_AT).cast::<i32>().read() };
    SignalInfo { signal: info.si_signo, code: info.si_code, fd }
}

/// The signal that a thread stopped for.
pub(crate) fn signal_info(tid: i32) -> io::Result<SignalInfo> {
    // SAFETY: the structure consists of numbers; all zeros are a valid value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    ptrace(libc::PTRACE_GETSIGINFO, tid, 0, (&raw mut info) as usize)?;
    Ok(signal_info_of(&info))
}

/// `struct ptrace_peeksiginfo_args`.
#[repr(C)]
struct PeekArguments {
    offset: u64,
    flags: u32,
    count: i32,
}

/// The signals queued for a stopped thread alone, oldest first, at most 32.
pub(crate) fn queued(tid: i32) -> Vec<SignalInfo> {
    const MOST: usize = 32;
    let arguments = PeekArguments { offset: 0, flags: 0, count: MOST as i32 };
    // SAFETY: the kernel writes at most `count` structures of numbers into an array of that many.
    unsafe {
        let mut infos: [libc::siginfo_t; MOST] = std::mem::zeroed();
        let found = libc::ptrace(PEEKSIGINFO, tid, &raw const arguments, infos.as_mut_ptr());
        infos.iter().take(usize::try_from(found).unwrap_or(0)).map(signal_info_of).collect()
    }
}

/// The signals that a stopped thread blocks, bit 0 being signal 1.
pub(crate) fn signal_mask(tid: i32) -> io::Result<u64> {
    let mut mask = 0u64;
    ptrace(GETSIGMASK, tid, size_of::<u64>(), (&raw mut mask) as usize)?;
    Ok(mask)
}

/// Sets what a stopped thread blocks.
pub(crate) fn set_signal_mask(tid: i32, mask: u64) -> io::Result<()> {
    ptrace(SETSIGMASK, tid, size_of::<u64>(), (&raw const mask) as usize)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time through a pointer to a local.
    unsafe { libc::clock_gettime(clock, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The monotonic clock, in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread, in nanoseconds.
pub(crate) fn cpu_time_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of a process, in nanoseconds (`CPUCLOCK_SCHED`, include/linux/posix-timers.h). Only
/// processes show it to others, threads do not.
pub(crate) fn process_time_ns(pid: i32) -> Option<u64> {
    const SCHED: i32 = 2;
    match clock_ns(!pid << 3 | SCHED) {
        0 => None,
        time => Some(time),
    }
}

/// The calling thread.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: a call without arguments.
    unsafe { libc::gettid() }
}

/// The calling process.
pub(crate) fn process_id() -> i32 {
    // SAFETY: a call without arguments.
    unsafe { libc::getpid() }
}

/// The effective user.
pub(crate) fn user() -> u32 {
    // SAFETY: a call without arguments.
    unsafe { libc::geteuid() }
}

/// Which CPUs a thread may run on.
#[derive(Clone, Copy)]
pub(crate) struct Affinity(libc::cpu_set_t);

impl Affinity {
    /// Where the calling thread may run.
    pub(crate) fn of_this_thread() -> io::Result<Affinity> {
        // SAFETY: a set is an array of bits; the kernel writes no more than its size.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            done(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set).into())?;
            Ok(Affinity(set))
        }
    }

    /// Whether this CPU is among them.
    pub(crate) fn has(&self, cpu: u32) -> bool {
        let cpu = cpu as usize;
        // SAFETY: the number lies within the set.
        cpu < 8 * size_of::<libc::cpu_set_t>() && unsafe { libc::CPU_ISSET(cpu, &self.0) }
    }

    /// Lets the calling thread run there.
    pub(crate) fn apply(&self) -> io::Result<()> {
        // SAFETY: the kernel reads a set of the size stated.
        done(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &self.0) }.into())
    }

    /// One CPU alone, which must be in a set that exists.
    pub(crate) fn one(cpu: u32) -> Affinity {
        // SAFETY: a set is an array of bits, and the number is taken from one.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            if (cpu as usize) < 8 * size_of::<libc::cpu_set_t>() {
                libc::CPU_SET(cpu as usize, &mut set);
            }
            Affinity(set)
        }
    }
}
