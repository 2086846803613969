//! What `/proc` says about processes and threads (Documentation/filesystems/proc.rst).

use std::fs::{self, File};
use std::io::{self, Read};

/// The lines of a thread's `status` that matter here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Status {
    /// Its process.
    pub tgid: i32,
    /// The parent process.
    pub ppid: i32,
    /// The thread that traces it; 0 when none does.
    pub tracer: i32,
    /// Real and effective user, which differ while a set-user-id program runs.
    pub users: (u32, u32),
    /// R, S, D, T, t, Z and so on.
    pub state: u8,
    /// Blocked signals, bit 0 being signal 1.
    pub blocked: u64,
    /// Signals with a handler.
    pub caught: u64,
    /// A thread of the kernel's own (known since Linux 6.8).
    pub kernel: bool,
}

/// Reads a thread's status; any thread's number will do.
pub(crate) fn status(tid: i32) -> io::Result<Status> {
    Ok(parse_status(&fs::read_to_string(format!("/proc/{tid}/status"))?))
}

fn parse_status(text: &str) -> Status {
    let mut status = Status::default();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        let number = || value.parse().unwrap_or(0);
        let mask = || u64::from_str_radix(value, 16).unwrap_or(0);
        match name {
            "Tgid" => status.tgid = number(),
            "PPid" => status.ppid = number(),
            "TracerPid" => status.tracer = number(),
            "Uid" => {
                let mut users = value.split_whitespace().map(|user| user.parse().unwrap_or(0));
                status.users = (users.next().unwrap_or(0), users.next().unwrap_or(0));
            }
            "State" => status.state = value.bytes().next().unwrap_or(0),
            "SigBlk" => status.blocked = mask(),
            "SigCgt" => status.caught = mask(),
            "Kthread" => status.kernel = value == "1",
            _ => {}
        }
    }
    status
}

/// The name of a thread, for messages.
pub(crate) fn name(tid: i32) -> String {
    fs::read_to_string(format!("/proc/{tid}/comm"))
        .map_or_else(|_| "?".to_owned(), |name| name.trim().to_owned())
}

/// The threads of a process, as many as can be listed.
pub(crate) fn threads(pid: i32) -> io::Result<Vec<i32>> {
    let listing = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(listing.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// Whether a process runs a program of 32-bit code (`EI_CLASS` of its ELF header; x32 programs
/// count as such). A program that cannot be read counts as 64-bit; its stops tell.
pub(crate) fn runs_32_bit(pid: i32) -> bool {
    let mut header = [0u8; 5];
    let read =
        File::open(format!("/proc/{pid}/exe")).and_then(|mut file| file.read_exact(&mut header));
    read.is_ok() && header == [0x7f, b'E', b'L', b'F', 1]
}

/// CPU time that a thread has used, in nanoseconds.
pub(crate) fn cpu_time_ns(pid: i32, tid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Whether a thread is on a CPU or waits for one, and is in no system call that sleeps.
pub(crate) fn is_running(pid: i32, tid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall"))
        .is_ok_and(|text| text.starts_with("running"))
}

/// The CPU that a thread last ran on: field 39 of `stat`.
pub(crate) fn last_cpu(pid: i32, tid: i32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    // The name, field 2, may hold anything; what follows its last bracket is field 3.
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(39 - 3)?.parse().ok()
}

/// What Yama allows: 0 everything of one's own, 1 descendants, 2 root alone, 3 nothing. 0 where
/// there is no Yama.
pub(crate) fn yama_scope() -> u32 {
    let text = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_whatever_stands_in_it() {
        let text = "Name:\tA: b\nState:\tt (tracing \
                    stop)\nTgid:\t12\nPPid:\t3\nTracerPid:\t7\nUid:\t1\t2\t3\t4\nSigBlk:\t\
                    0000000000400000\nSigCgt:\tzz\nnothing\n";
        let status = parse_status(text);
        assert_eq!((status.tgid, status.ppid, status.tracer, status.users), (12, 3, 7, (1, 2)));
        assert_eq!((status.state, status.blocked, status.caught), (b't', 1 << 22, 0));
    }

    #[test]
    fn this_process_is_found() {
        let pid = i32::try_from(std::process::id()).unwrap();
        assert_eq!(status(pid).unwrap().tgid, pid);
        assert!(threads(pid).unwrap().contains(&pid));
        assert!(!runs_32_bit(pid));
        assert!(cpu_time_ns(pid, pid).is_some());
        assert!(last_cpu(pid, pid).is_some());
    }
}
