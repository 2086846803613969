//! A program's files three times over, to measure what superpages gain: as they are, aligned, and
//! aligned and on superpages.
//!
//! The first two are written in small writes, so that they lie in small pages.

use crate::libraries::{Loading, files_of};
use crate::{Error, Warmed, Writes, align, check, copy, warm};
use std::path::{Path, PathBuf};

/// Folders of copies, one of each kind.
#[derive(Clone, Copy, Debug)]
pub struct Copies<'a> {
    /// Where the folders are.
    pub root: &'a Path,
    /// The files that are copied; [`Copies::worth_it`] says which.
    pub files: &'a [PathBuf],
}

impl Copies<'_> {
    /// Names of the folders: the base, aligned in small pages, aligned and on superpages.
    pub const KINDS: [&'static str; 3] = ["as-built", "aligned", "aligned-and-warm"];

    /// The files with text for a superpage that can be aligned.
    pub fn worth_it(files: &[PathBuf]) -> Vec<PathBuf> {
        let eligible = |path: &&PathBuf| {
            check(path).is_ok_and(|found| found.aligned_pct.is_some_and(|pct| pct > 0.0))
        };
        files.iter().filter(eligible).cloned().collect()
    }

    /// The folder of a kind.
    pub fn folder(&self, kind: &str) -> PathBuf {
        self.root.join(kind)
    }

    fn place(&self, kind: &str, file: &Path) -> PathBuf {
        self.folder(kind).join(file.file_name().unwrap_or_default())
    }

    /// Makes the folders with the copies.
    ///
    /// # Errors
    /// Where a file cannot be read, aligned or written.
    pub fn make(&self) -> Result<(), Error> {
        for kind in Copies::KINDS {
            let folder = self.folder(kind);
            std::fs::create_dir(&folder).map_err(|source| {
                let action = folder.display().to_string();
                Error::System { action, source }
            })?;
            for file in self.files {
                let place = self.place(kind, file);
                match kind {
                    "as-built" => copy(file, &place, Writes::Small)?,
                    "aligned" => drop(align(file, &place, false, Writes::Small)?),
                    _ => drop(align(file, &place, false, Writes::Large)?),
                }
            }
        }
        Ok(())
    }

    /// Says whether the dynamic linker takes the copies: of a program with an old-style RPATH it
    /// does not.
    ///
    /// # Errors
    /// Naming the first file that it takes from elsewhere.
    pub fn check_used(&self, program: &Path) -> Result<(), Error> {
        for kind in Copies::KINDS {
            let used = files_of(program, Some(&self.folder(kind)), Loading::Runs)?;
            let mut own = self.files.iter().filter(|file| *file != program);
            if let Some(file) = own.find(|file| !used.contains(&self.place(kind, file))) {
                let (file, program) = (file.clone(), program.to_owned());
                return Err(Error::OwnPlace { file, program });
            }
        }
        Ok(())
    }

    /// Brings the files of the third folder to superpages; bytes that lay there before, and that
    /// can, are in what it says of each.
    ///
    /// # Errors
    /// Where a file cannot be read.
    pub fn warm(&self) -> Result<Vec<Warmed>, Error> {
        self.files.iter().map(|file| warm(&self.place("aligned-and-warm", file))).collect()
    }
}
