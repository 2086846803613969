//! What a wait was for, by the kernel's functions on the stack that went off its CPU.
//!
//! The kernel records no such thing; but which function puts a thread to sleep is the same on all
//! kernels for years. The functions are those of Linux 5.10 to 6.18.

use crate::names::{FunctionId, Names};

/// What a thread waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A page that was not there.
    PageFault,
    /// A disk, or a file system's work on it.
    Io,
    /// A lock of the program (futex), or of the kernel.
    Lock,
    /// The network, or a local socket.
    Socket,
    /// A pipe.
    Pipe,
    /// One of several files or sockets (poll, select, epoll).
    Poll,
    /// A time.
    Sleep,
    /// The end of a child.
    Child,
    /// A terminal.
    Terminal,
    /// Something else, in the kernel.
    Other,
    /// The stack has no functions of the kernel, or no names for them.
    Unknown,
}

/// Functions that tell a cause, by the beginning of their names. The first cause in this order
/// counts: a fault may wait for a disk, and a disk's work for a lock.
const TELLING: [(Cause, &[&str]); 9] = [
    (
        Cause::PageFault,
        &[
            "asm_exc_page_fault",
            "exc_page_fault",
            "do_user_addr_fault",
            "do_page_fault",
            "handle_mm_fault",
            "do_mem_abort",
            "el0_da",
        ],
    ),
    (
        Cause::Io,
        &[
            "io_schedule",
            "submit_bio_wait",
            "folio_wait_bit",
            "wait_on_page_bit",
            "__wait_on_buffer",
            "blk_mq_get_tag",
            "rq_qos_wait",
            "jbd2_log_wait_commit",
            "balance_dirty_pages",
            "bit_wait_io",
            "read_events",
            "io_cqring_wait",
            "dio_await",
            "xfs_log_force",
            "__folio_lock",
            "wbt_wait",
            "filemap_get_pages",
        ],
    ),
    (
        Cause::Lock,
        &[
            "futex_wait",
            "__futex_wait",
            "do_futex",
            "futex_lock_pi",
            "futex_wait_queue",
            "__mutex_lock",
            "rwsem_down",
            "__down",
            "down_read",
            "down_write",
            "rt_mutex",
            "percpu_rwsem_wait",
            "do_semtimedop",
        ],
    ),
    (
        Cause::Socket,
        &[
            "sk_wait_data",
            "inet_csk_accept",
            "inet_csk_wait_for_connect",
            "__skb_wait_for_more",
            "unix_stream_read",
            "unix_wait_for_peer",
            "sk_stream_wait",
            "sock_alloc_send",
            "__inet_stream_connect",
            "inet_wait_for_connect",
            "unix_stream_data_wait",
            "unix_accept",
        ],
    ),
    (
        Cause::Pipe,
        &[
            "pipe_read",
            "pipe_write",
            "pipe_wait",
            "anon_pipe_read",
            "anon_pipe_write",
            "wait_for_partner",
        ],
    ),
    (
        Cause::Poll,
        &[
            "ep_poll",
            "do_epoll_wait",
            "do_poll",
            "do_sys_poll",
            "do_select",
            "poll_schedule_timeout",
        ],
    ),
    (
        Cause::Sleep,
        &[
            "do_nanosleep",
            "hrtimer_nanosleep",
            "common_nsleep",
            "do_sigtimedwait",
            "sigsuspend",
            "do_pause",
            "__se_sys_pause",
        ],
    ),
    (Cause::Child, &["do_wait", "kernel_wait4", "kernel_waitid", "wait_for_vfork_done"]),
    (Cause::Terminal, &["n_tty_read", "n_tty_write", "tty_wait"]),
];

impl Cause {
    /// Its name in output.
    pub fn name(self) -> &'static str {
        match self {
            Cause::PageFault => "page fault",
            Cause::Io => "i/o",
            Cause::Lock => "lock",
            Cause::Socket => "socket",
            Cause::Pipe => "pipe",
            Cause::Poll => "poll",
            Cause::Sleep => "sleep",
            Cause::Child => "child",
            Cause::Terminal => "terminal",
            Cause::Other => "other",
            Cause::Unknown => "unknown",
        }
    }

    /// What its waits are for, in a few words.
    pub fn meaning(self) -> &'static str {
        match self {
            Cause::PageFault => "for a page of memory",
            Cause::Io => "for a disk or its file system",
            Cause::Lock => "for a lock or condition",
            Cause::Socket => "for a socket",
            Cause::Pipe => "for a pipe",
            Cause::Poll => "for one of several files (poll, epoll, select)",
            Cause::Sleep => "for a time or signal",
            Cause::Child => "for a child to end",
            Cause::Terminal => "for a terminal",
            Cause::Other => "for something else in the kernel",
            Cause::Unknown => "no names of kernel functions on the stack",
        }
    }
}

/// What a stack that went off its CPU waited for; innermost first.
pub fn cause(functions: &[FunctionId], names: &Names) -> Cause {
    // The kernel's part comes first.
    let is_kernel = |id: &&FunctionId| {
        names.library(**id).is_some_and(|library| library.path.starts_with("[kernel"))
            || names.library(**id).is_some_and(|library| library.path.ends_with(".ko"))
    };
    let kernel = functions.iter().take_while(is_kernel).filter_map(|id| names.function(*id));
    of_names(kernel.map(|function| function.name.as_str()))
}

fn of_names<'n>(kernel: impl Iterator<Item = &'n str>) -> Cause {
    let mut found: Option<usize> = None;
    let mut any = false;
    for name in kernel {
        any |= !name.is_empty() && !name.starts_with("0x") && !name.starts_with('[');
        let tells = |of: &(Cause, &[&str])| of.1.iter().any(|begin| name.starts_with(begin));
        if let Some(rank) = TELLING.iter().position(tells) {
            found = Some(found.map_or(rank, |before| before.min(rank)));
        }
    }
    match found.and_then(|rank| TELLING.get(rank)) {
        Some((cause, _)) => *cause,
        None if any => Cause::Other,
        None => Cause::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_functions_tell_what_was_waited_for() {
        let of = |names: &[&str]| of_names(names.iter().copied());
        let lock = ["schedule", "futex_do_wait", "__futex_wait", "futex_wait", "do_futex"];
        assert_eq!(of(&lock), Cause::Lock);
        // The page came from a disk: it is the fault that the program can do something about.
        let fault = [
            "__schedule",
            "io_schedule",
            "folio_wait_bit_common",
            "filemap_fault",
            "handle_mm_fault",
            "exc_page_fault",
            "asm_exc_page_fault",
        ];
        assert_eq!(of(&fault), Cause::PageFault);
        assert_eq!(of(&fault[..3]), Cause::Io);
        assert_eq!(of(&["schedule", "pipe_read", "vfs_read"]), Cause::Pipe);
        assert_eq!(of(&["schedule", "do_nanosleep", "hrtimer_nanosleep"]), Cause::Sleep);
        assert_eq!(of(&["schedule", "worker_thread", "kthread"]), Cause::Other);
        assert_eq!(of(&[]), Cause::Unknown);
        assert_eq!(of(&["0xffffffff81000000"]), Cause::Unknown);
        let causes = TELLING.iter().map(|(cause, _)| *cause).chain([Cause::Other, Cause::Unknown]);
        let mut all: Vec<&str> = causes.map(Cause::name).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), TELLING.len() + 2);
    }
}
