//! Running the recorded program: what it is, how its end and our own interruption are handled.

use crate::sys::ForwardSignals;
use crate::{Ending, Error};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// A program to run and record.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Where it runs; the caller's directory when none.
    pub dir: Option<PathBuf>,
    /// Variables set in addition to the caller's.
    pub env: Vec<(OsString, OsString)>,
    /// Where its standard output goes.
    pub stdout: Stdout,
    /// Where both its standard output and its standard error go instead.
    pub output: Option<Arc<OwnedFd>>,
}

/// Where a recorded program's standard output goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stdout {
    /// Where the recorder's own goes.
    #[default]
    Inherit,
    /// To the recorder's standard error, since the recorder prints its result on standard output.
    ToStderr,
    /// Nowhere.
    Discard,
}

impl Workload {
    /// A workload of a command line.
    pub fn new<Word: Into<OsString>>(argv: impl IntoIterator<Item = Word>) -> Workload {
        Workload { argv: argv.into_iter().map(Into::into).collect(), ..Workload::default() }
    }

    /// A command that runs `program` in this workload's surroundings.
    pub(crate) fn command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new(program);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        match self.stdout {
            Stdout::Inherit => {}
            Stdout::Discard => {
                command.stdout(Stdio::null());
            }
            Stdout::ToStderr => {
                command.stdout(std::io::stderr());
            }
        }
        // Without another descriptor the program's output stays where it would go.
        if let Some([one, other]) =
            self.output.as_deref().and_then(|fd| Some([fd.try_clone().ok()?, fd.try_clone().ok()?]))
        {
            command.stdout(one).stderr(other);
        }
        command
    }
}

/// Waits for the child; signals that would end the recorder end the child instead, so that the file
/// gets finished.
pub(crate) fn wait(
    child: &mut Child,
    name: &str,
    forward: &ForwardSignals,
) -> Result<Ending, Error> {
    forward.child(child.id());
    let status = child.wait();
    forward.ended();
    let status = status.map_err(|source| Error::Start { program: name.to_owned(), source })?;
    Ok(Ending::from(status))
}
