//! What of the host a measured program must not notice: its address randomisation, and signals
//! ignored by a shell.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Lets the program begin without address randomisation and with the usual answers to Ctrl-C, and
/// end (SIGTERM) when the thread that starts it dies.
pub(crate) fn prepare(command: &mut Command) {
    // SAFETY: the closure runs in the forked child, and only makes system calls on values of its
    // own.
    unsafe {
        command.pre_exec(|| {
            // A container may forbid it. The guest's addresses are then still qemu's own choice.
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            libc::signal(libc::SIGQUIT, libc::SIG_DFL);
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        });
    }
}
