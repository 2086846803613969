//! What reading rings asks of the system: waiting, priority, CPUs, signals that mean "now".

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// SIGUSR2 came.
static NOW: AtomicBool = AtomicBool::new(false);

extern "C" fn note_now(_signal: i32) {
    NOW.store(true, Ordering::Relaxed);
}

/// While this lives, SIGUSR2 asks for a file now.
pub(crate) struct NowSignal(libc::sigaction);

impl NowSignal {
    /// Begins to take notice.
    pub(crate) fn install() -> Option<NowSignal> {
        NOW.store(false, Ordering::Relaxed);
        // SAFETY: both structures are valid for the call; the handler stores a flag.
        unsafe {
            let mut new: libc::sigaction = std::mem::zeroed();
            let mut old: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = note_now as *const () as usize;
            new.sa_flags = libc::SA_RESTART;
            (libc::sigaction(libc::SIGUSR2, &new, &mut old) == 0).then_some(NowSignal(old))
        }
    }

    /// Whether it came since the last question.
    pub(crate) fn taken(&self) -> bool {
        NOW.swap(false, Ordering::Relaxed)
    }
}

impl Drop for NowSignal {
    fn drop(&mut self) {
        // SAFETY: `0` is what the kernel returned for this signal.
        unsafe { libc::sigaction(libc::SIGUSR2, &self.0, std::ptr::null_mut()) };
    }
}

/// Lets a write beyond the limit of file sizes (`ulimit -f`) fail, where a signal would end the
/// recorder. Unlike an ignored signal, a handler is not inherited by the program.
pub(crate) fn survive_file_limit() {
    extern "C" fn nothing(_signal: i32) {}
    // SAFETY: the structure is a local, and the handler does nothing.
    unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = nothing as *const () as usize;
        new.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGXFSZ, &new, std::ptr::null_mut());
    }
}

/// Keeps signals away from the calling thread, so that the one that answers them is woken by them.
pub(crate) fn block_signals() {
    // SAFETY: the set is a local that the first call fills.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}

/// Gives the calling thread a real-time priority (SCHED_FIFO).
pub(crate) fn realtime(priority: i32) -> io::Result<()> {
    // SAFETY: the parameter is a local structure.
    let done = unsafe {
        let mut parameter: libc::sched_param = std::mem::zeroed();
        parameter.sched_priority = priority;
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Lets the calling thread run on these CPUs only.
pub(crate) fn bind(cpus: &[i32]) -> io::Result<()> {
    /// CPUs that a word has bits for.
    const WORD: usize = 64;
    let numbers = || cpus.iter().filter_map(|cpu| usize::try_from(*cpu).ok());
    let mut mask = vec![0u64; numbers().max().unwrap_or(0) / WORD + 1];
    for cpu in numbers() {
        if let Some(word) = mask.get_mut(cpu / WORD) {
            *word |= 1 << (cpu % WORD);
        }
    }
    // SAFETY: the kernel reads as many bytes of the mask as are said.
    let done = unsafe { libc::sched_setaffinity(0, mask.len() * 8, mask.as_ptr().cast()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The NUMA node that the calling thread runs on; 0 on a kernel without NUMA.
pub(crate) fn node() -> Option<u32> {
    let (mut cpu, mut node): (u32, u32) = (0, 0);
    // SAFETY: the kernel writes two numbers through pointers to locals; the third argument is unused.
    let done = unsafe {
        libc::syscall(libc::SYS_getcpu, &mut cpu, &mut node, std::ptr::null_mut::<libc::c_void>())
    };
    (done == 0).then_some(node)
}

/// The NUMA node of each page of a buffer, also of its spare room, as far as there is memory behind
/// them (`man 2 move_pages`: without nodes it only tells).
pub(crate) fn nodes_of(buffer: &Vec<u8>) -> Vec<u32> {
    let page = crate::sys::page_bytes();
    let begin = buffer.as_ptr() as usize;
    let pages: Vec<usize> =
        (begin / page * page..begin + buffer.capacity()).step_by(page.max(1)).collect();
    let mut nodes = vec![-1_i32; pages.len()];
    // SAFETY: as many addresses are read and numbers written as the lists have; nothing is moved.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            pages.len(),
            pages.as_ptr(),
            std::ptr::null::<i32>(),
            nodes.as_mut_ptr(),
            0,
        )
    };
    if done < 0 {
        return Vec::new();
    }
    nodes.into_iter().filter_map(|node| u32::try_from(node).ok()).collect()
}

/// Waits until one of these can be read, the time is over, or a signal came. The results say which
/// are ready, and which will never be more than that (their other end is gone).
pub(crate) fn wait(what: &[BorrowedFd<'_>], milliseconds: i32) -> Vec<(bool, bool)> {
    let entry =
        |fd: &BorrowedFd<'_>| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut list: Vec<libc::pollfd> = what.iter().map(entry).collect();
    // SAFETY: a list of open descriptors and its length.
    unsafe { libc::poll(list.as_mut_ptr(), list.len() as libc::nfds_t, milliseconds) };
    let gone = libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
    list.iter().map(|entry| (entry.revents != 0, entry.revents & gone != 0)).collect()
}

/// Opens a fifo for reading or writing, without waiting for its other end, which may come and go.
pub(crate) fn open_fifo(path: &std::path::Path) -> io::Result<File> {
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
    if !std::fs::metadata(path)?.file_type().is_fifo() {
        return Err(io::Error::other("it is not a fifo; make one with mkfifo"));
    }
    std::fs::OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Local time as `2026112209303155`: year to second, and hundredths.
pub(crate) fn timestamp() -> String {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls write through pointers to locals.
    let local = unsafe {
        let mut local: libc::tm = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_REALTIME, &mut now);
        libc::localtime_r(&now.tv_sec, &mut local);
        local
    };
    let date = format!("{:04}{:02}{:02}", local.tm_year + 1900, local.tm_mon + 1, local.tm_mday);
    let time = format!("{:02}{:02}{:02}", local.tm_hour, local.tm_min, local.tm_sec);
    format!("{date}{time}{:02}", now.tv_nsec / 10_000_000)
}

/// Standard output as a file, for what is no text.
pub(crate) fn standard_output() -> Result<File, crate::Error> {
    let copy = io::stdout().as_fd().try_clone_to_owned();
    copy.map(File::from).map_err(crate::Error::io("standard output".as_ref(), "write to"))
}

/// Asks a process to end.
pub(crate) fn terminate(pid: u32) {
    if let Ok(pid) = i32::try_from(pid) {
        processes::signal(pid, libc::SIGTERM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_thread_stays_and_a_cpu_that_is_not_there_is_refused() {
        std::thread::spawn(|| {
            bind(&[0]).unwrap();
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            assert!(status.contains("Cpus_allowed_list:\t0\n"), "{status}");
            assert!(bind(&[4000]).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_is_ready_and_what_is_gone_is_told() {
        let (reader, writer) = io::pipe().unwrap();
        assert_eq!(wait(&[reader.as_fd()], 0), [(false, false)]);
        drop(writer);
        assert_eq!(wait(&[reader.as_fd()], 0), [(true, true)]);
        assert_eq!(timestamp().len(), 16);
    }
}
