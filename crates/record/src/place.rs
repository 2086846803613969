//! Where a recording goes: beside its final name first, renamed when complete, what was there
//! before kept as `NAME.old`.

use crate::{Error, leftovers};
use beside::directory_of;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
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
    /// Refuses what must not be replaced, removes what killed recorders left, and creates an empty
    /// file, in a directory of its own where one is asked for. With `force` a foreign output is
    /// no reason to refuse.
    pub(crate) fn reserve(
        path: &Path,
        directory: bool,
        force: bool,
    ) -> Result<(Place, File), Error> {
        check(path, directory, force)?;
        let dir = directory_of(path);
        leftovers::remove(dir);
        let (partial, file) = make(path, dir, directory).map_err(|error| no_place(path, &error))?;
        // The lock tells the parts of killed recorders from those in use. Where files cannot be
        // locked, the number of the process in the name has to do.
        crate::sys::lock(&file);
        Ok((Place { path: path.to_owned(), partial, directory }, file))
    }

    /// One of the files beside it, which hold records alone.
    pub(crate) fn part(&self, number: usize) -> Result<(PathBuf, File), Error> {
        let path = self.partial.join(format!("data.{number}"));
        let file = beside::exclusive(&path, beside::PRIVATE).map_err(Error::io(&path, "create"))?;
        Ok((path, file))
    }

    /// Moves what lies at the final name to `NAME.old`, and gives the recording its name.
    pub(crate) fn rename(&self) -> Result<(), Error> {
        if std::fs::symlink_metadata(&self.path).is_ok() {
            let mut old = self.path.clone().into_os_string();
            old.push(".old");
            let old = PathBuf::from(old);
            // A directory takes the place of nothing but an empty one, and a file never that of a
            // directory.
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

/// Makes the file beside the final name, or the directory with the file: `NAME.PID.` and something
/// that nobody can guess.
fn make(path: &Path, dir: &Path, directory: bool) -> std::io::Result<(PathBuf, File)> {
    let mut prefix = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    prefix.push_str(&format!(".{}.", std::process::id()));
    if !directory {
        return beside::file_named(dir, &prefix, ".part");
    }
    let partial = beside::directory_named(dir, &prefix, ".part")?;
    let file = beside::exclusive(&partial.join("data"), beside::PRIVATE);
    if file.is_err() {
        let _ = std::fs::remove_dir(&partial);
    }
    file.map(|file| (partial, file))
}

/// Says what is wrong with the output's directory; the name of the file beside it would only
/// confuse.
fn no_place(path: &Path, error: &std::io::Error) -> Error {
    let dir = directory_of(path);
    let shown = dir.display();
    let reason = match error.kind() {
        // File systems that make no files, such as /proc, answer the same.
        std::io::ErrorKind::NotFound if dir.is_dir() => format!("no file can be made in {shown}"),
        std::io::ErrorKind::NotFound => format!("there is no directory {shown}"),
        std::io::ErrorKind::NotADirectory => format!("{shown} is not a directory"),
        _ => format!("cannot write to directory {shown}: {error}"),
    };
    Error::Place { path: path.to_owned(), reason }
}

/// An existing output must be a regular file of the caller's, or a recording's directory where
/// there is to be one again.
fn check(path: &Path, directory: bool, force: bool) -> Result<(), Error> {
    let refuse = |reason: &str| Error::Output { path: path.to_owned(), reason: reason.to_owned() };
    if path.file_name().is_none() {
        return Err(refuse("it is not the name of a file"));
    }
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let recording = found.is_dir() && leftovers::is_recording(path);
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
