//! Which files of a machine have much text?

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::elf::Headers;

/// What a walk found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// ELF programs and libraries with at least so much text, sorted by path, each once.
    pub files: Vec<PathBuf>,
    /// Folders, entries of folders and files that could not be read.
    pub unreadable: usize,
    /// ELF files that are no programs and libraries for superpages (objects, other machines,
    /// damaged ones).
    pub other_elf: usize,
}

/// Walks folders, without following links or leaving their file system, for files with at least
/// `least` bytes of text.
pub fn find(folders: &[PathBuf], least: u64) -> Found {
    let mut found = Found::default();
    let mut seen = BTreeSet::new();
    for folder in folders {
        let Ok(about) = fs::metadata(folder) else {
            found.unreadable += 1;
            continue;
        };
        // A folder that is given twice, or lies in another given one, is walked once.
        if !seen.insert((about.dev(), about.ino())) {
            continue;
        }
        let mut left = vec![folder.clone()];
        while let Some(next) = left.pop() {
            let Ok(listing) = fs::read_dir(&next) else {
                found.unreadable += 1;
                continue;
            };
            for entry in listing {
                let Ok((entry, here)) =
                    entry.and_then(|entry| entry.metadata().map(|about| (entry, about)))
                else {
                    found.unreadable += 1;
                    continue;
                };
                if here.dev() != about.dev() {
                    continue;
                }
                if here.is_dir() {
                    if seen.insert((here.dev(), here.ino())) {
                        left.push(entry.path());
                    }
                } else if here.is_file()
                    && here.len() >= least
                    && seen.insert((here.dev(), here.ino()))
                {
                    look(&entry.path(), least, &mut found);
                }
            }
        }
    }
    found.files.sort();
    found
}

fn look(path: &Path, least: u64, found: &mut Found) {
    let Ok(file) = File::open(path) else {
        found.unreadable += 1;
        return;
    };
    let mut magic = [0; 4];
    if file.read_exact_at(&mut magic, 0).is_err() || magic != *b"\x7fELF" {
        return;
    }
    match Headers::read(path, &file) {
        Ok(headers) if headers.text_bytes() >= least => found.files.push(path.to_owned()),
        Ok(_) => {}
        Err(_) => found.other_elf += 1,
    }
}
