//! How is a program run that needs more than a command: an environment, set-up and tear-down, or a
//! server that a client drives?
//!
//! [`run()`] sets up, starts the server, waits until it is ready, runs the command (with a server
//! it is the client that drives it), stops the server and tears down. The order is kept whatever
//! fails: what was set up is torn down, and at the end no process is left that was started for the
//! run.
//!
//! What is told of the run ([`Used`]) is what the program used: the command's own processes, or
//! with a server the server's processes while the command ran. Set-up, the server's start and end
//! and the client are left out.

mod error;
mod family;
mod pattern;
mod ready;
mod run;
mod said;
mod scene;
mod server;
mod sys;
mod used;

pub use error::Error;
pub use pattern::pattern;
pub use ready::Ready;
pub use run::{Ran, run};
pub use used::Used;

use std::path::PathBuf;
use std::time::Duration;

/// Stands in the words and lines of a workload for the absolute path of [`Workload::program`].
///
/// Commands of users say `{bin}`, which whoever starts the workload may have replaced before.
pub const PROGRAM: &str = "{PLANISH_BIN}";

/// Stands for a port of 127.0.0.1 that was free when the run began.
pub const PORT: &str = "{port}";

/// Names the file that [`Used`] is written to, in the environment of whoever runs a workload.
pub const USED_VARIABLE: &str = "PLANISH_USED";

/// How long a server may take until it is ready.
pub const READY_WITHIN: Duration = Duration::from_secs(60);

/// A command with what stands around it.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// The program that it is about; `$PLANISH_BIN` in the environment of all commands.
    pub program: Option<PathBuf>,
    /// Variables that all commands get.
    pub environment: Vec<(String, String)>,
    /// Where all commands run; the caller's directory when none.
    pub directory: Option<PathBuf>,
    /// Exit codes of the command that are as good as 0.
    pub exit_codes: Vec<i32>,
    /// A line for `sh -c` before the run.
    pub set_up: Option<String>,
    /// A line for `sh -c` after it, also where it failed.
    pub tear_down: Option<String>,
    /// The server that the command drives.
    pub server: Option<Server>,
    /// Program and arguments.
    pub command: Vec<String>,
}

/// A server.
#[derive(Clone, Debug)]
pub struct Server {
    /// Program and arguments.
    pub start: Vec<String>,
    /// By what one sees that it can be driven.
    pub ready: Ready,
    /// How long that may take.
    pub within: Duration,
    /// A line for `sh -c` that ends it; SIGTERM where there is none. What runs 10 seconds later is
    /// killed.
    pub stop: Option<String>,
}
