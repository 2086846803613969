//! Why a workload could not be run, with the next step.

use std::path::PathBuf;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused something.
    #[error("workload: cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The system's word.
        source: std::io::Error,
    },
    /// There is no command.
    #[error("workload: there is no command; write it behind --")]
    NoCommand,
    /// The directory is not there.
    #[error("workload: there is no directory {path} to run in; make it, or correct `directory`")]
    NoDirectory {
        /// As given.
        path: PathBuf,
    },
    /// A command cannot be started.
    #[error("workload: cannot start {command}: {source}")]
    Start {
        /// What was to be started.
        command: String,
        /// The system's word.
        source: std::io::Error,
    },
    /// `set_up` or `tear_down` failed.
    #[error("workload: {key} ended with {ended}: {line}")]
    Line {
        /// `set_up`, `tear_down` or `stop`.
        key: &'static str,
        /// How.
        ended: String,
        /// The line.
        line: String,
    },
    /// What says that the server is ready cannot be understood.
    #[error(
        "ready = {given:?}: expected \"tcp:HOST:PORT\", \"line:PATTERN\" (a regular expression on \
         what the server prints) or \"file:PATH\"{problem}"
    )]
    Ready {
        /// As given.
        given: String,
        /// What is wrong with it, begun with a colon.
        problem: String,
    },
    /// Somebody else answers where the server is waited for.
    #[error(
        "workload: before {server} was started, {what}: what was left by another run would be \
         taken for it; end or remove it in set_up, or let planish choose a free port ({{port}})"
    )]
    AlreadyThere {
        /// The server's command.
        server: String,
        /// What is there.
        what: String,
    },
    /// The server did not get ready in time.
    #[error("workload: {server} was not ready within {seconds} s: waited for {what}{said}")]
    NotReady {
        /// The server's command.
        server: String,
        /// How long it was waited for.
        seconds: u64,
        /// What for.
        what: String,
        /// Its last lines, begun with a line end.
        said: String,
    },
    /// The server ended before it was ready, or while it was driven.
    #[error("workload: {server} ended with {ended} {when}{said}")]
    ServerEnded {
        /// The server's command.
        server: String,
        /// How.
        ended: String,
        /// At which point.
        when: String,
        /// Its last lines, begun with a line end.
        said: String,
    },
    /// The caller wished the run to end.
    #[error("workload: interrupted")]
    Interrupted,
}

/// An exit code in words; above 128 it stands for a signal, as shells tell it.
pub(crate) fn ended(code: i32) -> String {
    if code > 128 { format!("signal {}", code - 128) } else { format!("exit code {code}") }
}

/// A system call that failed.
pub(crate) fn system(action: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::System { action, source }
}
