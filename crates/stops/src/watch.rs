//! Children that ask to be traced by the process that made them, as those of debuggers do: let go
//! before the kernel could refuse them.
//!
//! A new process whose maker may ask for that is stopped at its system calls until it becomes
//! another program, or has made enough of them. At the start of the one that asks it is let go, so
//! that the call finds it untraced.

use crate::counts::LeftAlone;
use crate::sys::{self, fine};
use crate::tracer::Tracer;
use crate::visit::Visitor;

/// So many system calls of a new process are watched: debuggers set up terminal, signals and
/// descriptors first.
const WATCHED_CALLS: u32 = 256;

impl Tracer {
    /// Watches a new process where its maker may be about to trace it.
    pub(crate) fn watch(&mut self, pid: i32, maker: i32, visitor: &mut dyn Visitor) {
        if visitor.may_trace(maker)
            && let Some(thread) = self.threads.get_mut(&pid)
        {
            thread.watched = WATCHED_CALLS;
        }
    }

    /// A watched process begins or ends a system call.
    pub(crate) fn at_call(&mut self, tid: i32, visitor: &mut dyn Visitor) {
        let Some(registers) = fine(sys::registers(tid)) else { return };
        // Until it has run, a call has this result.
        let begins = registers.rax as i64 == -i64::from(libc::ENOSYS);
        let asks = registers.orig_rax as i64 == libc::SYS_ptrace
            && registers.rdi == u64::from(libc::PTRACE_TRACEME);
        if begins && asks {
            self.leave_alone(tid, LeftAlone::TracedByParent, visitor);
            return;
        }
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.watched = thread.watched.saturating_sub(u32::from(begins));
        }
        self.go_on(tid, 0);
    }
}
