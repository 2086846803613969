//! Why threads could not be traced, with the next step.

use std::io;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine is not x86-64 Linux.
    #[error(
        "stopping running programs needs x86-64 Linux; on other machines record with emulation or \
         the kernel's events"
    )]
    Unsupported,
    /// There is no such process.
    #[error("process {pid} does not exist, or has ended")]
    Gone {
        /// Its number.
        pid: i32,
    },
    /// Somebody else traces it; the kernel allows one tracer.
    #[error("process {pid} is already traced by {name} (process {by}); end that first")]
    Traced {
        /// Its number.
        pid: i32,
        /// Who traces it.
        by: i32,
        /// That program's name.
        name: String,
    },
    /// It belongs to another user, or runs with rights of another.
    #[error("process {pid} belongs to user {user}: only that user or root may trace it")]
    NotOurs {
        /// Its number.
        pid: i32,
        /// Its user.
        user: u32,
    },
    /// The security module Yama forbids it.
    #[error(
        "process {pid} may not be traced: /proc/sys/kernel/yama/ptrace_scope is {scope}; start \
         the program with the recorder, record as root, or set it to 0: `sudo sysctl \
         kernel.yama.ptrace_scope=0`"
    )]
    Yama {
        /// Its number.
        pid: i32,
        /// The setting.
        scope: u32,
    },
    /// It is a thread of the kernel.
    #[error(
        "process {pid} ({name}) is part of the kernel, which cannot be stopped; name a program's \
         process"
    )]
    Kernel {
        /// Its number.
        pid: i32,
        /// Its name.
        name: String,
    },
    /// It runs 32-bit code.
    #[error("process {pid} runs a 32-bit program; only 64-bit ones can be stopped and shown")]
    ThirtyTwoBit {
        /// Its number.
        pid: i32,
    },
    /// The kernel refused for a reason not known here.
    #[error(
        "process {pid} may not be traced ({source}): it may be protected (prctl PR_SET_DUMPABLE, \
         a container's seccomp filter, a security module); start it with the recorder or record \
         as root"
    )]
    Refused {
        /// Its number.
        pid: i32,
        /// What the kernel said.
        source: io::Error,
    },
    /// No process was named.
    #[error("no process to attach to; name at least one")]
    Nothing,
    /// A call failed that should not.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}
