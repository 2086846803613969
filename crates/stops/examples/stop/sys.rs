//! Starting a program that waits before its exec until it is traced.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread::JoinHandle;

/// A forked child that waits.
pub struct Waiting {
    /// Its number.
    pub pid: i32,
    go: PipeWriter,
    spawning: JoinHandle<io::Result<Child>>,
}

/// Forks; the child tells its number and waits.
pub fn start(mut command: Command) -> io::Result<Waiting> {
    let (mut told, tell): (PipeReader, PipeWriter) = io::pipe()?;
    let (wait, go): (PipeReader, PipeWriter) = io::pipe()?;
    let (tell_fd, wait_fd, go_fd) = (tell.as_raw_fd(), wait.as_raw_fd(), go.as_raw_fd());
    // SAFETY: the closure only makes system calls on descriptors that the fork copied and on its
    // own variables.
    unsafe {
        command.pre_exec(move || {
            libc::close(go_fd);
            let pid = libc::getpid().to_ne_bytes();
            libc::write(tell_fd, pid.as_ptr().cast(), pid.len());
            let mut byte = 0u8;
            if libc::read(wait_fd, (&raw mut byte).cast(), 1) != 1 {
                libc::_exit(127);
            }
            Ok(())
        });
    }
    let spawning = std::thread::spawn(move || {
        let child = command.spawn();
        drop((tell, wait));
        child
    });
    let mut pid = [0u8; 4];
    told.read_exact(&mut pid)?;
    Ok(Waiting { pid: i32::from_ne_bytes(pid), go, spawning })
}

impl Waiting {
    /// Lets it become the program.
    pub fn go(mut self) -> io::Result<Child> {
        self.go.write_all(&[1])?;
        self.spawning.join().unwrap_or_else(|_| Err(io::Error::other("the starting thread failed")))
    }
}
