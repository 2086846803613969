//! Why there are no metrics, with the next step.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What can go wrong while measuring.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The emulator, the plugin or the program is missing.
    #[error(transparent)]
    Missing(#[from] crate::Error),
    /// The machine failed, hung, was interrupted, or could not be started.
    #[error(transparent)]
    Machine(crate::Error),
    /// The program is no ELF file, or one for another machine.
    #[error("{}: no layout metrics: {found}; they need an x86-64 or AArch64 ELF program", path.display())]
    NotElf {
        /// The program.
        path: PathBuf,
        /// What it is instead.
        found: String,
    },
    /// The command is a script: the metrics would be its interpreter's.
    #[error(
        "{script}: a script; its layout metrics would be those of {}, and programs that it starts run outside the \
         emulation. Name the program itself",
        interpreter.display()
    )]
    Script {
        /// As given.
        script: String,
        /// What runs it.
        interpreter: PathBuf,
    },
    /// The caches cannot be simulated.
    #[error("cache geometry: {0}")]
    Geometry(String),
    /// The emulator ended before it loaded the plugin.
    #[error(
        "{} ended ({status}) before it loaded the plugin {}; the plugin needs a qemu-user with plugins enabled, \
         version 6.0 to 8.2{}", emulator.display(), plugin.display(), said(stderr)
    )]
    PluginNotLoaded {
        /// The emulator.
        emulator: PathBuf,
        /// The plugin.
        plugin: PathBuf,
        /// How it ended.
        status: String,
        /// The end of what it printed on standard error.
        stderr: String,
    },
    /// The program did not end with code 0.
    #[error(
        "{program} failed under emulation ({status}), so its metrics are not those of a whole \
         run{}",
        said(stderr)
    )]
    Failed {
        /// The program, as given.
        program: String,
        /// How it ended.
        status: String,
        /// The end of what it printed on standard error.
        stderr: String,
    },
    /// The program ran for too long.
    #[error(
        "{program} ran for more than {} s under emulation, and was stopped; emulation takes 10 to 30 times the \
         native time: raise the limit, or measure a smaller input", limit.as_secs_f64()
    )]
    TimedOut {
        /// The program, as given.
        program: String,
        /// The limit.
        limit: Duration,
    },
    /// The plugin's result is not what this version reads.
    #[error(
        "the plugin's result is damaged: line {line}: {found}; is the plugin of the same version \
         as planish?"
    )]
    Result {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        found: String,
    },
    /// The process ended without a result.
    #[error("{program} ended, but its process left no result{}", said(stderr))]
    NoResult {
        /// The program, as given.
        program: String,
        /// The end of what it printed on standard error.
        stderr: String,
    },
    /// A file could not be read or written, or the emulator not started.
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

/// What a program printed, if anything.
fn said(stderr: &str) -> String {
    let text = stderr.trim();
    if text.is_empty() { String::new() } else { format!(". It printed: {text}") }
}

impl Error {
    /// For `map_err` on a file's operations.
    pub(super) fn io(
        path: &std::path::Path,
        doing: &'static str,
    ) -> impl FnOnce(io::Error) -> Error + use<> {
        let path = path.to_owned();
        move |source| Error::Io { path, doing, source }
    }
}
