//! Which files below a directory may be of use: their names say of most files of a source tree that
//! they are not.

use crate::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// No tree of a build is deeper.
const MAX_DEPTH: usize = 64;

/// What was found.
#[derive(Default)]
pub(crate) struct Files {
    pub(crate) files: Vec<PathBuf>,
    /// Links to files that are not below the directory; a file below it is found by its own name.
    pub(crate) links: Vec<PathBuf>,
}

/// All files below a directory but sources.
pub(crate) fn files(root: &Path) -> Result<Files, Error> {
    let mut found = Files::default();
    walk(root, 0, &mut found)?;
    let top = root.canonicalize().map_err(|source| Error::Io { path: root.to_owned(), source })?;
    let is_outside = |link: &PathBuf| {
        link.canonicalize().is_ok_and(|file| file.is_file() && !file.starts_with(&top))
    };
    found.links.retain(is_outside);
    Ok(found)
}

fn walk(directory: &Path, depth: usize, found: &mut Files) -> Result<(), Error> {
    let io = |source| Error::Io { path: directory.to_owned(), source };
    for entry in std::fs::read_dir(directory).map_err(io)? {
        let entry = entry.map_err(io)?;
        // Links to directories are not followed: kernel trees have loops of them.
        let kind = entry.file_type().map_err(io)?;
        if kind.is_dir() {
            if depth < MAX_DEPTH && entry.file_name() != ".git" {
                walk(&entry.path(), depth + 1, found)?;
            }
        } else if is_source(&entry.file_name()) {
            continue;
        } else if kind.is_file() {
            found.files.push(entry.path());
        } else if kind.is_symlink() {
            found.links.push(entry.path());
        }
    }
    Ok(())
}

/// Endings of files that are never objects, programs or dumps.
const SOURCES: [&str; 27] = [
    "S",
    "a",
    "c",
    "cc",
    "cmd",
    "cpp",
    "css",
    "cxx",
    "d",
    "dts",
    "dtsi",
    "gitignore",
    "h",
    "hh",
    "hpp",
    "html",
    "inc",
    "js",
    "json",
    "md",
    "pl",
    "py",
    "rs",
    "rst",
    "sh",
    "svg",
    "txt",
];

fn is_source(name: &OsStr) -> bool {
    let end = name.as_encoded_bytes().rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    // A file that is called `c` has no ending.
    end.len() < name.len() && SOURCES.iter().any(|source| source.as_bytes() == end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_known_by_their_endings() {
        let is_source = |name: &str| is_source(OsStr::new(name));
        assert!(is_source("a.c") && is_source("entry_64.S") && is_source(".a.o.cmd"));
        for name in [
            "c",
            "h",
            "a.o",
            "vmlinux",
            "a.c.000i.ipa-clones",
            "a.opt.yaml",
            "lib.so.1",
            "prog.c.o",
        ] {
            assert!(!is_source(name), "{name}");
        }
    }
}
