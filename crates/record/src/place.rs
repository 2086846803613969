//! Where a recording goes: beside its final name first, renamed when complete, what was there before kept as `NAME.old`.

use crate::{Error, leftovers};
use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Names of a recording on its way.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The final name.
    pub path: PathBuf,
    /// The name until then.
    pub partial: PathBuf,
    /// Whether it is a directory with the recording as its file `data`.
    pub directory: bool,
}

impl Place {
    /// Refuses what must not be replaced, removes what killed recorders left, and creates an empty file, in a directory
    /// of its own where one is asked for. With `force` a foreign output is no reason to refuse.
    pub(crate) fn reserve(path: &Path, directory: bool, force: bool) -> Result<(Place, File), Error> {
        check(path, directory, force)?;
        leftovers::remove(parent(path));
        let mut numbers = 0..MOST_AT_ONCE;
        loop {
            let number = numbers.next();
            let place =
                Place { path: path.to_owned(), partial: partial(path, number.unwrap_or(0)), directory };
            if directory && !place.partial.is_dir() {
                let made = DirBuilder::new().mode(0o700).create(&place.partial);
                made.map_err(|error| no_place(path, &error))?;
            }
            let file = create(&place.data()).map_err(|error| no_place(path, &error))?;
            // The lock tells the parts of killed recorders from those in use. Where files cannot be locked, the number
            // of the process has to do.
            if crate::sys::lock(&file) || number.is_none() {
                file.set_len(0).map_err(|error| no_place(path, &error))?;
                return Ok((place, file));
            }
        }
    }

    /// The file with the header.
    pub(crate) fn data(&self) -> PathBuf {
        if self.directory { self.partial.join("data") } else { self.partial.clone() }
    }

    /// One of the files beside it, which hold records alone.
    pub(crate) fn part(&self, number: usize) -> Result<(PathBuf, File), Error> {
        let path = self.partial.join(format!("data.{number}"));
        let file = create(&path).and_then(|file| file.set_len(0).map(|()| file));
        let file = file.map_err(Error::io(&path, "create"))?;
        Ok((path, file))
    }

    /// Moves what lies at the final name to `NAME.old`, and gives the recording its name.
    pub(crate) fn rename(&self) -> Result<(), Error> {
        if std::fs::symlink_metadata(&self.path).is_ok() {
            let mut old = self.path.clone().into_os_string();
            old.push(".old");
            let old = PathBuf::from(old);
            // A directory takes the place of nothing but an empty one, and a file never that of a directory.
            if old.is_dir() && check(&old, true, true).is_ok() {
                let _ = std::fs::remove_dir_all(&old);
            } else if self.path.is_dir() {
                let _ = std::fs::remove_file(&old);
            }
            std::fs::rename(&self.path, &old).map_err(Error::io(&self.path, "rename to .old"))?;
        }
        std::fs::rename(&self.partial, &self.path).map_err(Error::io(&self.partial, "rename"))
    }

    /// Removes what there is so far.
    pub(crate) fn remove(&self) {
        // Nothing can be done about a failure, and the next recording tries again.
        let _ = if self.directory {
            std::fs::remove_dir_all(&self.partial)
        } else {
            std::fs::remove_file(&self.partial)
        };
    }
}

/// Recordings of one name that a process makes at the same time, at most.
const MOST_AT_ONCE: u32 = 8;

/// The name beside the final one. A process that makes several numbers them.
fn partial(path: &Path, number: u32) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    let number = if number == 0 { String::new() } else { format!(".{number}") };
    name.push(format!("{number}.{}.part", std::process::id()));
    path.with_file_name(name)
}

fn create(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// The directory that a file lies in.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Says what is wrong with the output's directory; the name of the file beside it would only confuse.
fn no_place(path: &Path, error: &std::io::Error) -> Error {
    let dir = parent(path);
    let shown = dir.display();
    let reason = match error.kind() {
        std::io::ErrorKind::NotFound => format!("there is no directory {shown}"),
        std::io::ErrorKind::NotADirectory => format!("{shown} is not a directory"),
        _ => format!("cannot write to directory {shown}: {error}"),
    };
    Error::Place { path: path.to_owned(), reason }
}

/// An existing output must be a regular file of the caller's, or a recording's directory where there is to be one again.
fn check(path: &Path, directory: bool, force: bool) -> Result<(), Error> {
    let refuse = |reason: &str| Error::Output { path: path.to_owned(), reason: reason.to_owned() };
    if path.file_name().is_none() {
        return Err(refuse("it is not the name of a file"));
    }
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let recording = found.is_dir() && is_recording(path);
    match () {
        () if !found.is_file() && !recording => Err(refuse("it is not a regular file")),
        () if recording && !directory => {
            Err(refuse("it is the directory of another recording, made with --threads"))
        }
        () if found.uid() != crate::sys::effective_user() && !force => {
            Err(refuse("it belongs to another user (--force replaces it all the same)"))
        }
        () => Ok(()),
    }
}

/// Whether a directory holds the files of a recording and nothing else.
pub(crate) fn is_recording(dir: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(dir) else { return false };
    let mut names = entries.flatten().map(|entry| entry.file_name());
    let known = |name: &std::ffi::OsStr| {
        name.to_str().is_some_and(|name| name == "data" || name.starts_with("data."))
    };
    dir.join("data").is_file() && names.all(|name| known(&name))
}
