//! Where do files of a build ID lie below a directory, in perf's cache and others?

use image::BuildId;
use std::path::{Path, PathBuf};

/// `.build-id/xx/yyyy` below a directory.
pub fn by_id(directory: &Path, id: &BuildId) -> PathBuf {
    let digits = id.to_string();
    let (first, rest) = digits.split_at_checked(2).unwrap_or((&digits, ""));
    directory.join(".build-id").join(first).join(rest)
}

/// The files that may be the program of a build ID below a directory.
pub fn by_id_all(directory: &Path, id: &BuildId) -> [PathBuf; 2] {
    let below = by_id(directory, id);
    [below.join("elf"), below]
}

/// A path with something behind its last name.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
