//! Why the kernel refused to let a thread be traced.

use crate::sys;
use crate::{Error, proc};
use std::io;

/// Turns the kernel's answer to PTRACE_SEIZE into what the user can do about it.
pub(crate) fn explain(pid: i32, source: io::Error) -> Error {
    if source.raw_os_error() == Some(libc::ESRCH) {
        return Error::Gone { pid };
    }
    let Ok(status) = proc::status(pid) else { return Error::Gone { pid } };
    let by = status.tracer;
    if matches!(status.state, b'Z' | b'X') {
        return Error::Gone { pid };
    }
    if by != 0 {
        return Error::Traced { pid, by, name: proc::name(by) };
    }
    if status.kernel {
        return Error::Kernel { pid, name: proc::name(pid) };
    }
    let user = sys::user();
    if user != 0 && (status.users.0 != user || status.users.1 != user) {
        let user = if status.users.1 == user { status.users.0 } else { status.users.1 };
        return Error::NotOurs { pid, user };
    }
    match proc::yama_scope() {
        0 => Error::Refused { pid, source },
        scope => Error::Yama { pid, scope },
    }
}
