//! Starting a program that waits, before it runs, until its events are open.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread::JoinHandle;

/// Exit code of a child whose recorder ended before it let the child go; nobody sees it.
const ABANDONED: i32 = 127;

/// A process that is forked and has not yet become the program.
pub(crate) struct Paused {
    /// Its number.
    pub pid: i32,
    go: PipeWriter,
    /// None once it has been waited for.
    spawning: Option<JoinHandle<io::Result<Child>>>,
}

/// Forks; the child reports its number and waits.
pub(crate) fn pause(mut command: Command) -> io::Result<Paused> {
    let (mut report_reader, report): (PipeReader, PipeWriter) = io::pipe()?;
    let (wait, go): (PipeReader, PipeWriter) = io::pipe()?;
    let (report_fd, wait_fd, go_fd) = (report.as_raw_fd(), wait.as_raw_fd(), go.as_raw_fd());
    // SAFETY: the closure runs in the forked child and only makes system calls on descriptors that
    // the fork copied.
    unsafe {
        command.pre_exec(move || {
            // The child's own copy of the write end would keep it waiting after the recorder gave
            // up.
            libc::close(go_fd);
            let pid = libc::getpid().to_ne_bytes();
            if libc::write(report_fd, pid.as_ptr().cast(), pid.len()) != pid.len() as isize {
                return Err(io::Error::last_os_error());
            }
            let mut byte = 0u8;
            loop {
                match libc::read(wait_fd, (&raw mut byte).cast(), 1) {
                    1 => return Ok(()),
                    // The recorder is gone, and with it whoever an error could be told.
                    0 => libc::_exit(ABANDONED),
                    _ if *libc::__errno_location() == libc::EINTR => {}
                    _ => return Err(io::Error::last_os_error()),
                }
            }
        });
    }
    // `spawn` returns only after the exec, which waits for us: it needs a thread of its own.
    let spawning = std::thread::spawn(move || {
        let child = command.spawn();
        drop((report, wait));
        child
    });
    let mut pid = [0u8; 4];
    match report_reader.read_exact(&mut pid) {
        Ok(()) => Ok(Paused { pid: i32::from_ne_bytes(pid), go, spawning: Some(spawning) }),
        Err(error) => Err(joined(spawning).err().unwrap_or(error)),
    }
}

fn joined(spawning: JoinHandle<io::Result<Child>>) -> io::Result<Child> {
    spawning.join().unwrap_or_else(|_| Err(io::Error::other("the starting thread failed")))
}

impl Paused {
    /// Lets the child become the program.
    pub(crate) fn go(mut self) -> io::Result<Child> {
        self.go.write_all(&[1])?;
        let spawning = self.spawning.take();
        spawning.map_or_else(|| Err(io::Error::other("the child was let go before")), joined)
    }
}

impl Drop for Paused {
    /// A child that was not let go ends without a word, and is waited for: whatever it did later
    /// would be seen by nobody.
    fn drop(&mut self) {
        let Some(spawning) = self.spawning.take() else { return };
        // SAFETY: a call without pointers; the number is the child's until it is waited for, which
        // is below.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        if let Ok(mut child) = joined(spawning) {
            // It cannot fail for a child of ours, and nothing depends on how it ended.
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_is_not_let_go_is_gone_and_says_nothing() {
        for _ in 0..20 {
            let dir = tempfile::tempdir().unwrap();
            let said = dir.path().join("said");
            let mut command = Command::new("true");
            command.stderr(std::fs::File::create(&said).unwrap());
            let paused = pause(command).unwrap();
            let place = std::path::Path::new("/proc").join(paused.pid.to_string());
            assert!(place.exists());
            drop(paused);
            assert!(!place.exists());
            assert_eq!(std::fs::read_to_string(&said).unwrap(), "");
        }
    }
}
