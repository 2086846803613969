//! Why a recording failed, with the next step.

use std::io;
use std::path::{Path, PathBuf};

/// What can go wrong while recording.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No command was given.
    #[error("no command to record; give one after `--`")]
    NoCommand,
    /// The command is not in the path, or is no file that can be run.
    #[error(
        "cannot find the program {program:?}: no executable file of that name (in PATH, or at \
         that place)"
    )]
    NoProgram {
        /// As given.
        program: String,
    },
    /// The program is there and cannot be run.
    #[error("{}: not executable here ({reason})", path.display())]
    NotHere {
        /// The program.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// The program is not one that can be emulated.
    #[error(
        "{}: cannot be emulated: {found}; emulated branch stacks need an x86-64 or AArch64 ELF program",
        path.display()
    )]
    NotEmulatable {
        /// The program.
        path: PathBuf,
        /// What it is instead.
        found: String,
    },
    /// The emulator is not installed.
    #[error(
        "cannot find {name} (or {name}-static) in PATH; emulated branch stacks need it: install \
         the Debian package qemu-user"
    )]
    NoEmulator {
        /// Program name.
        name: String,
    },
    /// The machine emulator is not installed.
    #[error(
        "cannot find {name} in PATH, which emulates machines; install the Debian package \
         {package}"
    )]
    NoMachine {
        /// Program name.
        name: String,
        /// Where Debian has it.
        package: &'static str,
    },
    /// A machine's run is no good.
    #[error("{}: {failure}{}", emulator.display(), console(tail))]
    Machine {
        /// The emulator.
        emulator: PathBuf,
        /// Why.
        failure: crate::machine::Failure,
        /// The last lines of its console.
        tail: Vec<String>,
    },
    /// The plugin is not where it is looked for.
    #[error(
        "cannot find the qemu plugin {name}; looked at {}. Build it with \
         `cargo build --release -p qemu-plugin`, or name it in PLANISH_QEMU_PLUGIN",
        looked.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    NoPlugin {
        /// File name.
        name: &'static str,
        /// Where it was looked for.
        looked: Vec<PathBuf>,
    },
    /// qemu ended before it loaded the plugin.
    #[error(
        "{} ended ({status}) before it loaded the plugin {}; its own message stands above. The plugin needs a \
         qemu with plugins enabled, version 6.0 to 8.2",
        emulator.display(), plugin.display()
    )]
    PluginNotLoaded {
        /// The emulator.
        emulator: PathBuf,
        /// The plugin.
        plugin: PathBuf,
        /// How it ended.
        status: String,
    },
    /// The program could not be started.
    #[error("cannot start {program}: {}", start_reason(source))]
    Start {
        /// What was started.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// The recording holds no sample.
    #[error("the recording is empty: {reason}")]
    Empty {
        /// Why, and what to do.
        reason: String,
    },
    /// The output belongs to somebody else, or is not a plain file.
    #[error("{}: will not be replaced: {reason}; choose another file with -o", path.display())]
    Output {
        /// The output.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The output's directory cannot take it.
    #[error("{}: {reason}", path.display())]
    Place {
        /// The output.
        path: PathBuf,
        /// What is wrong with its directory.
        reason: String,
    },
    /// The records could not be compressed.
    #[error("cannot compress the recording: {reason}; record without -z")]
    Compression {
        /// What zstd says.
        reason: String,
    },
    /// The recording could not be written to its end.
    #[error("{source}; the recording ends there: {}", kept.as_deref().unwrap_or("nothing of it could be kept"))]
    Cut {
        /// Why.
        source: Box<Error>,
        /// What is kept, and how far it goes.
        kept: Option<String>,
        /// What is left under a name of its own, since it could not be completed.
        left: Option<PathBuf>,
    },
    /// Options that do not go together, or lack one.
    #[error("{0}")]
    Options(String),
    /// Two options that exclude each other.
    #[error("{0} and {1} exclude each other; leave one of them out")]
    Together(&'static str, &'static str),
    /// The spool does not hold what the plugin writes.
    #[error("{}: spool chunk at offset {offset:#x} is damaged: {found}", path.display())]
    Spool {
        /// The spool.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What stands there.
        found: String,
    },
    /// The kernel refused to count an event.
    #[error("cannot record {event}: {reason}")]
    Refused {
        /// The event.
        event: String,
        /// Why, and what to do.
        reason: String,
    },
    /// What was asked of an event does not go together with it.
    #[error("cannot record {event}: {reason}")]
    Unfit {
        /// The event.
        event: String,
        /// Why, and what to do.
        reason: String,
    },
    /// An event cannot be counted.
    #[error("cannot count {event}: {reason}")]
    Uncountable {
        /// The event.
        event: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The text of an event names none that can be asked for.
    #[error(transparent)]
    Event(#[from] crate::event::Error),
    /// All events together take more descriptors than the process may have.
    #[error(
        "{what}: needs {needed} file descriptors, and the hard limit allows {allowed}; raise it \
         with `ulimit -n {needed}` (as root, or in /etc/security/limits.conf), or {instead}"
    )]
    Descriptors {
        /// Events, threads and CPUs.
        what: String,
        /// How many it takes, with those that are open already.
        needed: u64,
        /// How many there may be.
        allowed: u64,
        /// What takes fewer.
        instead: &'static str,
    },
    /// A control group that events cannot be opened for.
    #[error("control group {name}: {reason}")]
    Cgroup {
        /// As given.
        name: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A process to record does not exist.
    #[error("there is no process {pid}")]
    NoProcess {
        /// Its number.
        pid: i32,
    },
    /// A thread to record does not exist.
    #[error("there is no thread {tid}")]
    NoThread {
        /// Its number.
        tid: i32,
    },
    /// Threads could not be stopped.
    #[error("cannot look ahead: {0}; --branches=none takes clock samples, which stop no thread")]
    Stops(#[from] stops::Error),
    /// A file could not be read or written.
    #[error("{}: {doing}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// The last lines of a console, one below the other.
fn console(tail: &[String]) -> String {
    if tail.is_empty() {
        return "; nothing was printed on its console".to_owned();
    }
    tail.iter().fold("; the end of its console:".to_owned(), |text, line| text + "\n  " + line)
}

/// The kernel says "no such file" of a program whose interpreter is missing.
fn start_reason(source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::NotFound => {
            "its interpreter or dynamic loader, which the file names, does not exist".into()
        }
        io::ErrorKind::PermissionDenied => {
            "permission denied; a file system mounted noexec forbids it too".into()
        }
        _ => source.to_string(),
    }
}

impl Error {
    /// The records could not be compressed.
    pub(crate) fn compression(error: perfdata::Error) -> Error {
        Error::Compression { reason: error.to_string() }
    }

    /// Removes what an unfinished recording kept in `output`, so that nobody takes it for a whole
    /// one.
    pub fn without_part(self, output: &Path) -> Error {
        let Error::Cut { source, left, .. } = self else { return self };
        let part = left.as_deref().unwrap_or(output);
        let removed =
            if part.is_dir() { std::fs::remove_dir_all(part) } else { std::fs::remove_file(part) };
        let removed = match removed {
            Ok(()) => "the part that was recorded has been removed".to_owned(),
            Err(reason) if reason.kind() == io::ErrorKind::NotFound => {
                "nothing of it is kept".to_owned()
            }
            Err(reason) => {
                format!("{} is a part of it and cannot be removed: {reason}", part.display())
            }
        };
        Error::Cut { source, kept: Some(removed), left: None }
    }

    /// For `map_err` on a file's operations.
    pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Error + use<> {
        let path = path.to_owned();
        move |source| Error::Io { path, doing, source }
    }
}
