//! Stops the threads of natively running, unmodified programs for an instant, each after so much
//! CPU time or so many events such as taken branches, shows a visitor their registers and memory,
//! and lets them go on unharmed.
//!
//! [`Tracer::seize_child`] takes a program that is about to begin, [`Tracer::attach`] running ones;
//! [`Tracer::run`] shows each stop to a [`Visitor`]. It works for one's own processes without
//! further rights.
//!
//! # How
//!
//! Every thread is seized (ptrace(2), PTRACE_SEIZE) and gets a perf event that counts its CPU time
//! (`cpu-clock`) or events of the CPU ([`Trigger`]) and, in user code, sends the thread SIGURG at
//! the end of each period. The tracer sees a signal before the thread does, and drops this one.
//! What it stops at is therefore the instruction that the event interrupted. Programs that use
//! SIGURG get SIGWINCH instead; where that will not do either, for threads that block signals, and
//! where no event can be opened, the tracer watches the thread's clock and stops it with
//! PTRACE_INTERRUPT.
//!
//! # What stays as it was
//!
//! - Signals arrive with everything they carry. Stops by job control last as long as they would.
//! - A system call that our stop ends with EINTR is begun again; one with a timeout begins its
//!   timeout again, too. This concerns interrupted threads, and letting go of sleeping ones. A call
//!   that has done a part of its work (a write to a pipe) returns that part, which POSIX allows at
//!   any time.
//! - When the recorder dies, whatever way, the kernel lets everything go, and what is left is at
//!   most a signal that does nothing. This is why PTRACE_O_EXITKILL and SIGTRAP events are not
//!   used: the former kills, the latter may.
//! - Until a thread is found to block the signal (at most 0.1 s), one may be queued for it. It is
//!   taken off when found.
//! - 32-bit programs are let go when they begin.
//!
//! # What does not
//!
//! - A set-user-id program that a traced program starts does not get its owner's rights unless the
//!   tracer is root: the kernel withholds them from traced programs, and the exec cannot be seen
//!   before it is done. Record such programs as root, or without following children.
//! - A traced program cannot be traced by another (a debugger), nor say of itself that it is
//!   (PTRACE_TRACEME). The children of programs for which [`Visitor::may_trace`] says so are let go
//!   when they ask.
//! - Of many short threads most are let be, where the options say so, and are never seen.
//! - A process's `TracerPid` shows the tracer.
//!
//! # Elsewhere
//!
//! On other systems than x86-64 Linux everything compiles, and says [`Error::Unsupported`].

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod allowance;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod begin;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod clock;
mod counts;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod crowd;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod elsewhere;
mod error;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod handle;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod leave;
mod options;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod place;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod proc;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod refusal;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod stopped;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod sys;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod thread;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod tracer;
mod visit;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod watch;

pub use counts::{Counts, LeftAlone, Reason, Skip};
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub use elsewhere::{Registers, Step, Stopped, Tracer};
pub use error::Error;
pub use options::{StopOptions, Trigger};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use stopped::{Registers, Step, Stopped};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use tracer::Tracer;
pub use visit::{Ended, Ending, Next, Visitor, Why};
