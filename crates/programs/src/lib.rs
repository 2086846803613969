//! Which program does a name stand for, and how is it asked about itself without the directory
//! having a say?
//!
//! Tools obey files of the directory they are started in: rustup runs the compiler that
//! `rust-toolchain.toml` names, git the hooks and monitors of `.git/config`, a shell what a
//! relative entry of PATH leads to. Who only looks at somebody's directory must not run its
//! programs, so everything that is asked for a version or a feature is found and started by
//! [`Surroundings`]: from `/`, with the entries of PATH that the directory cannot fill.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where programs are asked from.
const NEUTRAL: &str = "/";

/// Where shells look when PATH is not set.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A directory that holds this one is the system, and no project.
const SYSTEM: &str = "/usr/bin";

/// An entry of PATH in which nothing is looked for, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The entry as it stands in PATH.
    pub entry: PathBuf,
    /// Why it is left out.
    pub why: Why,
}

/// Why an entry of PATH is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It leads elsewhere from every directory; an empty one is the directory itself.
    Relative,
    /// It lies in the directory that is looked at.
    Inside,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.why {
            Why::Relative => "relative",
            Why::Inside => "inside of this directory",
        };
        write!(f, "{:?} ({why})", self.entry.to_string_lossy())
    }
}

/// The directories that programs are looked for in, and those that they must not come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    directories: Vec<PathBuf>,
    left_out: Vec<LeftOut>,
    projects: Vec<PathBuf>,
}

impl Surroundings {
    /// For who looks at the directory they stand in.
    #[must_use]
    pub fn here() -> Surroundings {
        let here = std::env::current_dir().ok();
        Surroundings::looking_at(&here.into_iter().collect::<Vec<_>>())
    }

    /// For who looks at a directory, standing in this one or another.
    #[must_use]
    pub fn around(directory: &Path) -> Surroundings {
        let here = std::env::current_dir().ok();
        let all: Vec<PathBuf> = here.into_iter().chain([directory.to_owned()]).collect();
        Surroundings::looking_at(&all)
    }

    /// For who runs what the directory says anyway: only relative entries of PATH are left out.
    #[must_use]
    pub fn running() -> Surroundings {
        Surroundings::looking_at(&[])
    }

    fn looking_at(directories: &[PathBuf]) -> Surroundings {
        let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from(USUAL_PATH));
        let home = std::env::var_os("HOME").map(PathBuf::from);
        Surroundings::of(&path, home.as_deref(), directories)
    }

    /// For a value of PATH, a home directory, and the directories that are looked at. One that
    /// holds the home directory or the system is no project: nobody else fills it.
    #[must_use]
    pub fn of(path: &OsStr, home: Option<&Path>, directories: &[PathBuf]) -> Surroundings {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let home = home.filter(|home| home.is_absolute()).map(real);
        let foreign = |directory: &PathBuf| {
            !Path::new(SYSTEM).starts_with(directory)
                && !home.as_ref().is_some_and(|home| home.starts_with(directory))
        };
        let projects =
            directories.iter().map(|directory| real(directory)).filter(foreign).collect();
        let mut found = Surroundings { projects, ..Surroundings::default() };
        for entry in std::env::split_paths(path) {
            let why = if !entry.is_absolute() {
                Some(Why::Relative)
            } else {
                found.is_inside(&entry).then_some(Why::Inside)
            };
            match why {
                None => found.directories.push(entry),
                Some(why) => found.left_out.push(LeftOut { entry, why }),
            }
        }
        found
    }

    /// The entries of PATH in which nothing is looked for.
    #[must_use]
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// The directories in which programs are looked for.
    #[must_use]
    pub fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// Does a file lie in a directory that is looked at, by its name or by where its directories'
    /// links lead?
    #[must_use]
    pub fn is_inside(&self, file: &Path) -> bool {
        let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        self.projects.iter().any(|project| file.starts_with(project) || real.starts_with(project))
    }

    /// The program that a name stands for; one with `/` must be absolute. None from a directory
    /// that is looked at.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        let allowed = |path: &PathBuf| is_program(path) && !self.is_inside(path);
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|path| path.is_absolute() && allowed(path));
        }
        self.directories.iter().map(|directory| directory.join(name)).find(allowed)
    }

    /// The same for a program that the user named on the command line: a path is taken, wherever it
    /// leads.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<PathBuf> {
        if !name.contains('/') {
            return self.find(name);
        }
        std::path::absolute(name).ok().filter(|path| is_program(path))
    }

    /// A command that asks a program about itself: from `/`, without input, in English, and with a
    /// PATH and a toolchain of rustup that no directory that is looked at can fill. rustup
    /// fetches nothing for it.
    #[must_use]
    pub fn ask(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(NEUTRAL).stdin(Stdio::null()).env("LC_ALL", "C");
        let path = std::env::join_paths(&self.directories).unwrap_or_else(|_| USUAL_PATH.into());
        command.env("PATH", path).env("RUSTUP_AUTO_INSTALL", "0");
        // A path is as good as a name to rustup; a relative one would be looked for from the
        // directory.
        let toolchain = std::env::var_os("RUSTUP_TOOLCHAIN").map(PathBuf::from);
        let is_path = |path: &PathBuf| path.components().count() > 1;
        if toolchain
            .filter(is_path)
            .is_some_and(|path| !path.is_absolute() || self.is_inside(&path))
        {
            command.env_remove("RUSTUP_TOOLCHAIN");
        }
        command
    }
}

/// Is this a file that may be run?
#[must_use]
pub fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

/// What git is told before every command, so that a repository's own settings run nothing: no
/// hooks, no monitor of files, no signatures checked by a program it names, nothing fetched.
const GIT_SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.askPass=true",
    "log.showSignature=false",
    "gpg.program=false",
    "diff.external=",
    "submodule.recurse=false",
];

/// A command of git in a directory that runs nothing that the repository names. `fetches` lets a
/// partial clone get what it lacks, which runs the transport that its settings name.
#[must_use]
pub fn git(directory: &Path, fetches: bool) -> Command {
    let found = Surroundings::around(directory).find("git");
    let mut command = Command::new(found.unwrap_or_else(|| "/usr/bin/git".into()));
    for setting in GIT_SETTINGS {
        command.args(["-c", setting]);
    }
    if !fetches {
        command.args(["-c", "protocol.allow=never"]).env("GIT_NO_LAZY_FETCH", "1");
    }
    command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_OPTIONAL_LOCKS", "0").stdin(Stdio::null());
    command.arg("-C").arg(directory);
    command
}

#[cfg(test)]
mod tests;
