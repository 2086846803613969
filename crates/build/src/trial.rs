//! Does an evaluation command work, and does it run the program? Tried with the baseline, before
//! anything is recorded: what fails in the comparison fails an hour later.
//!
//! Whether the program is run is seen by inotify: running a file opens it. Source: inotify(7),
//! IN_OPEN; Linux `fs/exec.c`, `do_open_execat`.

use crate::Error;
use crate::training::{self, Timed};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Runs an evaluation's command line once, which must end well and run `program`; what it prints goes
/// to `log`.
///
/// # Errors
/// Where it does neither, with what to do, or cannot be started.
pub fn try_once(
    line: &str,
    program: &Path,
    log: Option<&Path>,
    stop: &AtomicBool,
) -> Result<Timed, Error> {
    running(program, line, "[evaluate] command", || training::time(line, 1, log, stop))
}

/// Times a training command, as [`training::time`] does; it must run `program`.
///
/// # Errors
/// Where it does not, with what to do, does not end well, or cannot be started.
pub fn time(
    line: &str,
    program: &Path,
    times: u32,
    log: Option<&Path>,
    stop: &AtomicBool,
) -> Result<Timed, Error> {
    running(program, line, "[workload] train", || training::time(line, times, log, stop))
}

/// What `run` gives, while which `program` must be opened.
fn running(
    program: &Path,
    line: &str,
    key: &str,
    run: impl FnOnce() -> Result<Timed, Error>,
) -> Result<Timed, Error> {
    let watch = Watch::of(program);
    let timed = run()?;
    if watch.is_some_and(|watch| !watch.was_opened()) {
        return Err(Error::Training(format!(
            "{line}: ended well and never ran {}; name the program by {{bin}} in {key}, or let the \
             script take it from $PLANISH_BIN",
            program.display()
        )));
    }
    Ok(timed)
}

/// Hears whether a file is opened.
struct Watch(OwnedFd);

impl Watch {
    /// None where the system gives no watch: then nothing is claimed.
    fn of(file: &Path) -> Option<Watch> {
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        inotify::add_watch(&watch, file, WatchFlags::OPEN).ok()?;
        Some(Watch(watch))
    }

    fn was_opened(&self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); 512];
        let mut events = inotify::Reader::new(&self.0, &mut buffer);
        // WOULDBLOCK alone says that there was none.
        !matches!(events.next(), Err(Errno::WOULDBLOCK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_command_that_runs_the_program_is_told_from_one_that_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("app");
        std::fs::write(&program, "#!/bin/sh\nexit \"$1\"\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let tried = |line: &str| {
            let line = line.replace("APP", &program.to_string_lossy());
            try_once(&line, &program, None, &AtomicBool::new(false)).map_err(|e| e.to_string())
        };
        assert!(tried("APP 0").is_ok());
        assert!(tried("sh -c 'APP 0; true'").is_ok(), "a script may start it");
        assert!(tried("true APP").unwrap_err().contains("never ran"));
        assert!(tried("APP 3").unwrap_err().contains("ended with exit code 3"));
        let line = format!("true {}", program.display());
        let said = time(&line, &program, 3, None, &AtomicBool::new(false)).unwrap_err().to_string();
        assert!(said.contains("never ran") && said.contains("[workload] train"), "{said}");
    }
}
