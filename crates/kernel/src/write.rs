//! How do several files of a tree change all at once, or not at all?
//!
//! Every new text is written beside its file first; only when all are there, with their old
//! permissions, they are renamed into place. A failure before that leaves no trace. One in the
//! middle is put back. Between two renames the tree is half edited, which the next run recognises,
//! since each file is either old or new.

use crate::error::Error;
use crate::prepare::FileChange;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// One file that waits to be renamed, or removed.
struct Staged<'a> {
    path: PathBuf,
    change: &'a FileChange,
    new: Option<NamedTempFile>,
}

/// Makes all changes, below the tree.
pub fn write(tree: &Path, changes: &[FileChange]) -> Result<(), Error> {
    let staged = changes.iter().map(|change| stage(tree, change)).collect::<Result<Vec<_>, _>>()?;
    let mut done: Vec<(PathBuf, &FileChange)> = Vec::new();
    for file in staged {
        let placed = match file.new {
            Some(new) => new.persist(&file.path).map(drop).map_err(|failed| failed.error),
            None => std::fs::remove_file(&file.path),
        };
        if let Err(source) = placed {
            return Err(put_back(&done, file.path, source));
        }
        done.push((file.path, file.change));
    }
    Ok(())
}

fn stage<'a>(tree: &Path, change: &'a FileChange) -> Result<Staged<'a>, Error> {
    let path = tree.join(change.path);
    let read_only = |source| Error::ReadOnly { path: path.clone(), source };
    let new = match &change.after {
        Some(text) => Some(beside(&path, text).map_err(read_only)?),
        // Whether a file may be removed shows where one can be made beside it.
        None => beside(&path, "").map(|_| None).map_err(read_only)?,
    };
    Ok(Staged { path, change, new })
}

/// The text in a file beside `path`, with the permissions of `path` or those of a new file.
fn beside(path: &Path, text: &str) -> std::io::Result<NamedTempFile> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".planish-");
    let permissions = match std::fs::metadata(path) {
        Ok(metadata) => metadata.permissions(),
        Err(_) => std::os::unix::fs::PermissionsExt::from_mode(0o644),
    };
    let mut file = builder.tempfile_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(permissions)?;
    file.as_file().sync_data()?;
    Ok(file)
}

/// Undoes the renames so far; the error says what happened.
fn put_back(done: &[(PathBuf, &FileChange)], path: PathBuf, source: std::io::Error) -> Error {
    let back = done.iter().all(|(path, change)| match &change.before {
        Some(text) => beside(path, text).is_ok_and(|old| old.persist(path).is_ok()),
        None => std::fs::remove_file(path).is_ok(),
    });
    if back { Error::ReadOnly { path, source } } else { Error::Torn { path, source } }
}
