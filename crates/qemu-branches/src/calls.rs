//! The system calls of guests that matter.

use crate::block::Guest;

/// Numbers of the system calls that matter, by guest.
pub struct Numbers {
    pub mmap: i64,
    pub munmap: i64,
    pub mprotect: i64,
    pub rt_sigaction: i64,
    pub execve: i64,
    pub execveat: i64,
}

const X86_64: Numbers =
    Numbers { mmap: 9, munmap: 11, mprotect: 10, rt_sigaction: 13, execve: 59, execveat: 322 };
const AARCH64: Numbers = Numbers {
    mmap: 222,
    munmap: 215,
    mprotect: 226,
    rt_sigaction: 134,
    execve: 221,
    execveat: 281,
};

/// The numbers of a guest's system calls.
pub fn numbers(guest: Guest) -> &'static Numbers {
    match guest {
        Guest::X86_64 => &X86_64,
        Guest::Aarch64 => &AARCH64,
    }
}
