//! Running the recorded program: what it is, how its end and our own interruption are handled.

use crate::sys::{self, ForwardSignals, launch};
use crate::{Ending, Error, elf};
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
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
    /// Nowhere, nor its standard error, and nothing comes in: the terminal is somebody else's.
    Silent,
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
            Stdout::Silent => {
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
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

/// A workload that is forked, and waits until it may become its program. Dropped, it ends without a
/// word.
pub(crate) struct Waiting {
    paused: launch::Paused,
    name: OsString,
}

impl Workload {
    /// Forks, and lets the child wait.
    pub(crate) fn pause(&self) -> Result<Waiting, Error> {
        let name = self.argv.first().ok_or(Error::NoCommand)?.clone();
        let program = elf::find(&name, self.dir.as_deref())?;
        elf::check_runs_here(&program)?;
        let mut command = self.command(&program);
        command.arg0(&name).args(self.argv.iter().skip(1));
        sys::prepare(&mut command, false);
        let paused = launch::pause(command).map_err(start_failed(&name))?;
        Ok(Waiting { paused, name })
    }
}

impl Waiting {
    /// The child's number.
    pub(crate) fn pid(&self) -> i32 {
        self.paused.pid
    }

    /// Lets it become its program.
    pub(crate) fn go(self) -> Result<Child, Error> {
        self.paused.go().map_err(start_failed(&self.name))
    }
}

fn start_failed(name: &OsStr) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let program = name.to_string_lossy().into_owned();
    move |source| Error::Start { program, source }
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
