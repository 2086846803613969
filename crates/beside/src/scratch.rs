//! Where do files lie that are needed for a while only? In a directory of the caller's alone, which
//! goes away with the value that stands for it.

use crate::directory_named;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Directories that an interrupt must remove.
static SCRATCH: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn list() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    SCRATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
fn in_use() -> Vec<PathBuf> {
    list().iter().cloned().collect()
}

/// Removes all of them, for whoever ends the process now: from here on none can be made, and those
/// who try wait for the end.
pub fn remove_in_use() {
    let all = list();
    /// Whoever still writes there makes files while others are removed; without the directory
    /// nobody can.
    const TRIES: u32 = 100;
    for path in &*all {
        for _ in 0..TRIES {
            let _ = std::fs::remove_dir_all(path);
            if !path.exists() {
                break;
            }
        }
    }
    std::mem::forget(all);
}

/// A directory for a while, in the one for temporary files (`TMPDIR`, else `/tmp`).
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes one.
    ///
    /// # Errors
    /// When none can be made there.
    pub fn new() -> io::Result<Scratch> {
        Scratch::within(&std::env::temp_dir())
    }

    /// Makes one in this directory, for what is too large for the one of temporary files.
    ///
    /// # Errors
    /// When none can be made there.
    pub fn within(directory: &Path) -> io::Result<Scratch> {
        let mut all = list();
        let path = directory_named(directory, "planish-", "")?;
        all.insert(path.clone());
        Ok(Scratch(path))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
        list().remove(&self.0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics fails")]

    use super::*;

    #[test]
    fn it_is_private_and_goes_away_with_what_lies_in_it() {
        use std::os::unix::fs::MetadataExt as _;
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().to_owned();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        assert!(in_use().contains(&path));
        std::fs::create_dir_all(path.join("a/b")).unwrap();
        drop(scratch);
        assert!(!path.exists() && !in_use().contains(&path));
    }
}
