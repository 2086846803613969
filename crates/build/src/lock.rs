//! Does another planish work in this directory?

use crate::plan::STATE_DIRECTORY;
use crate::{Error, sys};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// The right to run steps in a directory, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    // The lock belongs to the open file. The file itself stays: were it removed, two processes
    // could hold locks on two files of one name.
    file: File,
}

/// The directory for all that planish makes beside a planish.toml, or in the directory where it runs; created
/// if missing.
///
/// # Errors
/// Where it cannot be made.
pub fn state_directory(directory: &Path) -> std::io::Result<PathBuf> {
    let folder = directory.join(STATE_DIRECTORY);
    if folder.symlink_metadata().is_ok() && !folder.is_dir() {
        // The name must be free: what the user keeps there is nothing to remove.
        return Err(std::io::Error::other(format!(
            "{} is no directory, and planish keeps its own files in one of that name; move it away",
            folder.display()
        )));
    }
    std::fs::create_dir_all(&folder)?;
    // Nothing in it is for a repository. That git is told is a courtesy.
    let ignored = folder.join(".gitignore");
    if !ignored.exists() {
        let _ = beside::write(&ignored, "*\n");
    }
    Ok(folder)
}

impl Lock {
    /// Takes the lock of the directory of a planish.toml, or says who has it.
    pub fn take(directory: &Path) -> Result<Lock, Error> {
        let folder = state_directory(directory).map_err(|source| Error::File {
            path: directory.to_owned(),
            action: "cannot work",
            source,
        })?;
        let path = folder.join("lock");
        let fail = |source| Error::File { path: path.clone(), action: "cannot lock", source };
        let mut file = beside::read_write(&path).map_err(fail)?;
        if !sys::try_lock(&file).map_err(fail)? {
            let mut owner = String::new();
            // The owner's number is a courtesy; the message stands without it.
            let _ = (&mut file).take(32).read_to_string(&mut owner);
            let pid =
                owner.trim().parse::<u32>().map_or(String::new(), |pid| format!(" (pid {pid})"));
            return Err(Error::Locked { directory: directory.to_owned(), pid });
        }
        // What an earlier planish that was killed had not finished is nobody's.
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.as_encoded_bytes().starts_with(beside::PREFIX.as_bytes()) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(fail)?;
        Ok(Lock { file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Where this fails, closing the file lifts the lock.
        let _ = sys::unlock(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_process_runs_in_a_directory() {
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::take(folder.path()).unwrap();
        // Locks belong to the open file, so a second one within the process is refused as another
        // process' is.
        let message = Lock::take(folder.path()).unwrap_err().to_string();
        let expected = format!("another planish (pid {}) works in", std::process::id());
        assert!(message.starts_with(&expected), "{message}");
        drop(lock);
        let left = folder.path().join(STATE_DIRECTORY).join(".planish-ABCDEFGH");
        std::fs::write(&left, "").unwrap();
        assert!(Lock::take(folder.path()).is_ok());
        assert!(!left.exists(), "what a killed planish left");
    }

    #[test]
    fn a_file_in_the_place_of_the_directory_is_named_and_left() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join(STATE_DIRECTORY);
        std::fs::write(&place, "mine").unwrap();
        let message = Lock::take(folder.path()).unwrap_err().to_string();
        assert!(message.contains(".planish is no directory"), "{message}");
        assert_eq!(std::fs::read(&place).unwrap(), b"mine");
    }

    #[test]
    fn a_lock_is_lifted_though_another_descriptor_of_its_file_lives() {
        // As in a child that another thread has forked and that does not run its program yet.
        let folder = tempfile::tempdir().unwrap();
        let lock = Lock::take(folder.path()).unwrap();
        let kept = lock.file.try_clone().unwrap();
        drop(lock);
        assert!(Lock::take(folder.path()).is_ok());
        drop(kept);
    }
}
