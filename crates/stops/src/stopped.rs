//! A stopped thread, as the visitor sees it: registers, memory, single steps.

use crate::proc;
use crate::sys::event::Moment;
use crate::sys::{self, Change, EVENT_STOP, WaitFor, memory};
use crate::thread::Thread;
use perfdata::RuntimeAddr;
use std::io;

/// General registers, as the kernel's `struct user_regs_struct`.
pub type Registers = libc::user_regs_struct;

/// `si_code` of a single step's trap: TRAP_BRKPT and TRAP_TRACE
/// (include/uapi/asm-generic/siginfo.h).
const STEP_CODES: [i32; 2] = [1, 2];

/// What became of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The thread executed one instruction (of a repeated string instruction: one round).
    Done,
    /// The next instruction is a system call. It was not executed: a thread that sleeps would hold
    /// up all others.
    SystemCall,
    /// A signal came before the instruction was executed. It is delivered when the thread goes on,
    /// and until then there are no further steps.
    Signal(i32),
    /// The whole process was stopped by job control; no further steps.
    Stopped,
    /// The thread has ended.
    Ended,
}

/// How the thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resume {
    /// It runs, with this signal delivered (0: none).
    Run(i32),
    /// It stays in its job-control stop.
    Listen,
    /// It is gone.
    Gone,
}

/// A thread that stands still between two instructions of its program.
#[derive(Debug)]
pub struct Stopped<'a> {
    pub(crate) tid: i32,
    pub(crate) thread: &'a Thread,
    pub(crate) registers: Option<Registers>,
    pub(crate) moment: Option<Moment>,
    pub(crate) arrived_ns: u64,
    pub(crate) resume: Resume,
}

impl Stopped<'_> {
    /// Its process.
    pub fn pid(&self) -> i32 {
        self.thread.pid
    }

    /// Its own number.
    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// The CPU that it ran on; none if that cannot be learnt.
    pub fn cpu(&self) -> Option<u32> {
        self.moment.map(|moment| moment.cpu).or_else(|| proc::last_cpu(self.thread.pid, self.tid))
    }

    /// When it stopped, in nanoseconds of CLOCK_MONOTONIC.
    pub fn time_ns(&self) -> u64 {
        self.moment.map_or(self.arrived_ns, |moment| moment.time_ns)
    }

    /// CPU time of its process, of all threads together, in nanoseconds.
    pub fn cpu_time_ns(&self) -> Option<u64> {
        sys::process_time_ns(self.thread.pid)
    }

    /// The period that ended with this stop, in the trigger's unit.
    pub fn period(&self) -> u64 {
        self.thread.period
    }

    /// Its general registers.
    ///
    /// # Errors
    ///
    /// The thread was killed meanwhile (ESRCH).
    pub fn registers(&self) -> io::Result<Registers> {
        self.registers.map_or_else(|| sys::registers(self.tid), Ok)
    }

    /// Its whole XSAVE area (NT_X86_XSTATE): x87, SSE, AVX and further state, in the standard
    /// format. What the vector held before is lost.
    ///
    /// # Errors
    ///
    /// The thread was killed meanwhile (ESRCH).
    pub fn xstate(&self, area: &mut Vec<u8>) -> io::Result<()> {
        sys::xstate(self.tid, area)
    }

    /// Reads its memory as far as something is mapped; how many bytes that were.
    ///
    /// # Errors
    ///
    /// Nothing is mapped there (EFAULT), the process may not be read (EPERM) or is gone (ESRCH).
    pub fn read(&self, address: RuntimeAddr, bytes: &mut [u8]) -> io::Result<usize> {
        memory::read(self.tid, address, bytes)
    }

    /// Reads whole pages, addresses and pages in pairs, with one system call. It ends at the first
    /// page that cannot be read; how many were read. Addresses must be multiples of 4096.
    pub fn read_many(&self, addresses: &[RuntimeAddr], pages: &mut [[u8; 4096]]) -> usize {
        memory::read_pages(self.tid, addresses, pages)
    }

    /// Executes one instruction of the thread. Meant for checking predictions, not for production:
    /// should this process be killed (SIGKILL) in the middle of a step, the trap of that step
    /// may kill the program.
    ///
    /// # Errors
    ///
    /// The kernel refuses to step; a thread that is gone is no error but [`Step::Ended`].
    pub fn step(&mut self) -> io::Result<Step> {
        match self.resume {
            Resume::Run(0) => {}
            Resume::Run(signal) => return Ok(Step::Signal(signal)),
            Resume::Listen => return Ok(Step::Stopped),
            Resume::Gone => return Ok(Step::Ended),
        }
        let Ok(registers) = self.registers() else { return Ok(self.gone()) };
        let mut code = [0u8; 2];
        let read = memory::read(self.tid, RuntimeAddr(registers.rip), &mut code);
        // syscall, sysenter, int 0x80
        if matches!(read, Ok(2)) && matches!(code, [0x0f, 0x05] | [0x0f, 0x34] | [0xcd, 0x80]) {
            return Ok(Step::SystemCall);
        }
        self.registers = None;
        loop {
            match sys::single_step(self.tid) {
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(self.gone()),
                result => result?,
            }
            match self.wait()? {
                Change::Stopped(code) if code >> 8 == EVENT_STOP => {
                    if let libc::SIGTRAP = code & 0xff {
                        continue;
                    }
                    self.resume = Resume::Listen;
                    return Ok(Step::Stopped);
                }
                Change::Stopped(code) if code >> 8 == 0 => {
                    let Ok(info) = sys::signal_info(self.tid) else { return Ok(self.gone()) };
                    if info.signal == libc::SIGTRAP && STEP_CODES.contains(&info.code) {
                        return Ok(Step::Done);
                    }
                    if !self.thread.sent_by_clock(&info) {
                        self.resume = Resume::Run(info.signal);
                        return Ok(Step::Signal(info.signal));
                    }
                }
                // Events of ptrace come from system calls, which are not stepped.
                Change::Stopped(_) => {}
                _ => return Ok(self.gone()),
            }
        }
    }

    fn gone(&mut self) -> Step {
        self.resume = Resume::Gone;
        Step::Ended
    }

    fn wait(&self) -> io::Result<Change> {
        loop {
            match sys::wait(WaitFor { tid: Some(self.tid), peek: true, no_hang: false }) {
                Ok(Some((_, change))) => return Ok(change),
                Ok(None) => {}
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
                    return Ok(Change::Exited(0));
                }
                Err(error) => return Err(error),
            }
        }
    }
}
