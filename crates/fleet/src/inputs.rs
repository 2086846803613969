//! Which files does an input name? A file, all counts files in and below a directory, or those that
//! a pattern fits.

use crate::Error;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// How counts files are called in a directory.
pub const ENDING: &str = "counts";
/// Most directories that lie in one another.
const MOST_DEEP: usize = 32;
/// Most files of one input.
const MOST_FILES: usize = 1 << 20;

/// How the file of a recording with this ID is called: bytes that mean something to a file system, and a dot
/// that would hide it, stand as `%` and two hex digits.
pub fn file_name(id: &str) -> String {
    let mut name = String::new();
    for byte in id.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if plain && !(byte == b'.' && name.is_empty()) {
            name.push(char::from(byte));
        } else {
            name += &format!("%{byte:02X}");
        }
    }
    format!("{name}.{ENDING}")
}

/// The files that an input names, sorted. What is there under that very name is that; `*` and `?`
/// stand for any characters and for one of a name otherwise.
///
/// # Errors
/// Where there are none, or a directory cannot be read.
pub fn expand(input: &Path) -> Result<Vec<PathBuf>, Error> {
    let none = |why: &str| Error::NoFiles { path: input.to_owned(), why: why.to_owned() };
    let mut found = Vec::new();
    if input.is_dir() {
        found = in_directory(input)?;
        if found.is_empty() {
            return Err(none("a directory without a file *.counts in or below it"));
        }
    } else if !input.exists() && is_pattern(input) {
        for fitting in fitting(input)? {
            if fitting.is_dir() {
                below(&fitting, 0, &mut found)?;
            } else {
                found.push(fitting);
            }
        }
        if found.is_empty() {
            return Err(none("no file fits this pattern"));
        }
    } else {
        found.push(input.to_owned());
    }
    found.sort();
    Ok(found)
}

/// The counts files in and below a directory, sorted; there may be none.
///
/// # Errors
/// Where a directory cannot be read.
pub fn in_directory(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    below(directory, 0, &mut found)?;
    found.sort();
    Ok(found)
}

/// Whether a name that nothing has is a pattern.
pub fn is_pattern(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().iter().any(|byte| matches!(byte, b'*' | b'?'))
}

/// The names in a directory, sorted.
fn listed(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |error: std::io::Error| Error::NoFiles {
        path: directory.to_owned(),
        why: error.to_string(),
    };
    let entries = std::fs::read_dir(directory).map_err(failed)?;
    let mut names = Vec::new();
    for entry in entries.take(MOST_FILES) {
        names.push(entry.map_err(failed)?.path());
    }
    names.sort();
    Ok(names)
}

/// Adds the counts files of a directory and those below it. Links to directories are not followed, and
/// directories whose names begin with a point are whoever's that works there.
fn below(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), Error> {
    for path in listed(directory)? {
        let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        if path.is_dir() {
            if depth < MOST_DEEP && !is_link && !is_hidden(&path) {
                below(&path, depth + 1, found)?;
            }
        } else if is_counts(&path) {
            found.push(path);
        }
        if found.len() > MOST_FILES {
            let why = format!("more than {MOST_FILES} files; merge them in parts");
            return Err(Error::NoFiles { path: directory.to_owned(), why });
        }
    }
    Ok(())
}

/// Whether a file in a directory is one of counts. One whose name begins with a point is not whole yet.
pub fn is_counts(path: &Path) -> bool {
    !is_hidden(path) && path.extension().is_some_and(|ending| ending == ENDING)
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// The paths that a pattern fits.
fn fitting(pattern: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let name = match component {
            Component::Normal(name) if is_pattern(Path::new(name)) => name,
            other => {
                found.iter_mut().for_each(|path| path.push(other));
                continue;
            }
        };
        let mut next = Vec::new();
        for directory in found {
            let place = if directory.as_os_str().is_empty() { Path::new(".") } else { &directory };
            if !place.is_dir() {
                continue;
            }
            for path in listed(place)? {
                let Some(own) = path.file_name() else { continue };
                if fits(name, own) {
                    next.push(directory.join(own));
                }
            }
        }
        found = next;
    }
    found.retain(|path| path.exists());
    Ok(found)
}

/// Whether a name fits a pattern, as in a shell: one that begins with a point is hidden.
pub fn fits(pattern: impl AsRef<OsStr>, name: impl AsRef<OsStr>) -> bool {
    let bytes = |text: &OsStr| text.as_encoded_bytes().to_vec();
    let (pattern, name) = (bytes(pattern.as_ref()), bytes(name.as_ref()));
    let hidden = name.starts_with(b".") && !pattern.starts_with(b".");
    !hidden && fits_bytes(&pattern, &name)
}

/// The same of any bytes. Cost: at most the product of their lengths.
fn fits_bytes(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    // Where the last star stands, and what of the name it takes up to.
    let mut star: Option<(usize, usize)> = None;
    while in_name < name.len() {
        match (pattern.get(at), name.get(in_name)) {
            (Some(b'*'), _) => {
                star = Some((at, in_name));
                at += 1;
            }
            (Some(own), Some(byte)) if *own == b'?' || own == byte => {
                at += 1;
                in_name += 1;
            }
            _ => match star {
                Some((place, taken)) => {
                    star = Some((place, taken + 1));
                    (at, in_name) = (place + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics fails")]

    use super::*;

    #[test]
    fn patterns_fit_as_in_a_shell() {
        for (pattern, name) in
            [("*", ""), ("*", "a"), ("a*c", "abbc"), ("?b*", "ab"), ("*.counts", "x.counts")]
        {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("?", ""), ("a*c", "ab"), ("*.counts", "x.count"), ("", "a"), ("*", ".a")]
        {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn files_directories_and_patterns_name_files_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("b/deep")).unwrap();
        std::fs::create_dir(at("empty")).unwrap();
        for name in ["b/2.counts", "b/1.counts", "b/deep/0.counts", "b/notes.txt", "b/.new.counts"]
        {
            std::fs::write(at(name), "").unwrap();
        }
        let named = |input: &str| {
            let found = expand(&at(input)).unwrap();
            let names =
                found.iter().map(|path| path.strip_prefix(folder.path()).unwrap().to_owned());
            names.map(|name| name.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(named("b"), ["b/1.counts", "b/2.counts", "b/deep/0.counts"]);
        assert_eq!(named("b/*.counts"), ["b/1.counts", "b/2.counts"]);
        assert_eq!(named("?/n*"), ["b/notes.txt"]);
        assert_eq!(named("absent"), ["absent"]);
        for (input, why) in [("empty", "a directory without"), ("b/x*", "no file fits")] {
            assert!(expand(&at(input)).unwrap_err().to_string().contains(why), "{input}");
        }
    }
}
