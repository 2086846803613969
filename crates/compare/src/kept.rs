//! Where are runs kept while they are measured? A file of runs on disk: what it may be written
//! over, whether it can be gone on with, how it begins.

use crate::runs::{self, Recorded};
use crate::{Design, Error};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Where the runs of a measurement are kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep<'a> {
    /// The file; absent where they are forgotten.
    pub raw: Option<&'a Path>,
    /// Whether to go on with the runs that are in it.
    pub resume: Resume,
}

/// Is a measurement gone on with?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resume {
    /// It begins anew.
    #[default]
    No,
    /// With what the file holds, which must be of this measurement.
    Yes,
    /// Where the file holds this measurement; else it begins anew.
    IfSame,
}

impl From<bool> for Resume {
    fn from(wanted: bool) -> Resume {
        if wanted { Resume::Yes } else { Resume::No }
    }
}

impl<'a> Keep<'a> {
    /// The file to go on with, where that is wanted and there is one.
    pub fn resumable(&self) -> Option<&'a Path> {
        self.raw.filter(|path| self.resume != Resume::No && path.exists())
    }

    /// What an earlier call measured of this design; nothing where it begins anew.
    ///
    /// # Errors
    /// Where the runs must be of this design and are not.
    pub(crate) fn before(&self, design: &Design) -> Result<Recorded, Error> {
        match (self.resumable(), self.resume) {
            (None, _) => Ok(Recorded::default()),
            (Some(path), Resume::IfSame) => Ok(resumed(path, design).unwrap_or_default()),
            (Some(path), _) => resumed(path, design),
        }
    }
}

/// The SHA-256 of a file. Folders, which stand for the libraries in them, have none.
///
/// # Errors
/// Where it cannot be read.
pub fn digest(path: &Path) -> Result<String, Error> {
    if path.is_dir() {
        return Ok(String::new());
    }
    let opened = beside::given::open(path).map_err(Error::file(path))?;
    let mut file = BufReader::with_capacity(1 << 18, opened);
    let mut hash = Sha256::new();
    loop {
        let read = match file.fill_buf().map_err(Error::file(path))? {
            [] => break,
            bytes => {
                hash.update(bytes);
                bytes.len()
            }
        };
        file.consume(read);
    }
    Ok(hex::encode(hash.finalize()))
}

/// Do two names lead to one file?
pub fn same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// Refuses to write runs over anything but runs.
///
/// # Errors
/// Where something else is there, or nothing can be put there.
pub fn replaceable(path: &Path, design: &Design) -> Result<(), Error> {
    let refused = |problem: &str| Err(Error::problem(path, problem));
    // Before it is opened: a pipe's other end is not waited for.
    beside::replaceable(path).map_err(Error::file(path))?;
    if path.exists() && !path.is_file() {
        return refused("is no regular file, and runs need one");
    }
    let own = design.variants.iter().flat_map(|v| &v.binaries).any(|b| same_file(b, path));
    let Ok(mut file) = beside::given::open(path) else { return Ok(()) };
    let mut start = [0; 24];
    let got = file.read(&mut start).unwrap_or(0);
    let runs = start.starts_with(b"{\"format\":\"planish-runs\"") || got == 0;
    if own || !runs {
        return refused("is there and holds no runs of planish compare; --raw would destroy it");
    }
    Ok(())
}

/// The runs in a regular file.
///
/// # Errors
/// Where it holds no runs, or is a device or a pipe.
pub fn read(path: &Path) -> Result<Recorded, Error> {
    runs::read(path, BufReader::new(beside::given::open(path).map_err(Error::file(path))?))
}

/// What an earlier call measured. It must have been the same measurement but for the number of
/// rounds.
///
/// # Errors
/// Where it was another one.
pub fn resumed(path: &Path, design: &Design) -> Result<Recorded, Error> {
    let before = read(path)?;
    let mut there = before.design.clone();
    there.rounds = design.rounds;
    there.machine = design.machine.clone();
    there.looked.clone_from(&design.looked);
    // Earlier versions did not note how large the files are.
    for (old, new) in there.variants.iter_mut().zip(&design.variants) {
        if let (Some(old), Some(new)) = (&mut old.sizes, new.sizes) {
            old.file = old.file.or(new.file);
        }
    }
    if there != *design {
        return Err(Error::problem(
            path,
            "holds another measurement (other programs, commands, metrics, layouts, seed, CPU or \
             gauge), so it cannot be gone on with; give the same arguments as then, or another file \
             without --resume",
        ));
    }
    if before.design.machine.name != design.machine.name {
        return Err(Error::problem(
            path,
            format!(
                "was measured on {:?}, this is {:?}; measure into another file and merge with \
                 planish compare show",
                before.design.machine.name, design.machine.name
            ),
        ));
    }
    Ok(before)
}

/// Begins the file of runs, or writes it anew with those that it has. The second result is where what
/// is replaced is kept, if it held runs.
///
/// # Errors
/// Where it cannot be written.
pub fn begin(path: &Path, found: &Recorded) -> Result<(File, Option<PathBuf>), Error> {
    // Written anew also when going on: a torn last line and another number of rounds are then right
    // by construction.
    let mut file = beside::Unfinished::at(path).map_err(Error::file(path))?;
    let write = |file: &mut beside::Unfinished| -> std::io::Result<()> {
        runs::write_head(file, &found.design)?;
        found.runs.iter().try_for_each(|run| runs::write_run(file, run))?;
        found.stopped.iter().try_for_each(|stopped| runs::write_stopped(file, stopped))
    };
    write(&mut file).map_err(Error::file(path))?;
    let holds_runs = || read(path).map_or(true, |old| !old.runs.is_empty());
    let mut kept = None;
    if found.runs.is_empty() && path.is_file() && holds_runs() {
        // As perf keeps perf.data.old.
        let mut old = path.as_os_str().to_owned();
        old.push(".old");
        std::fs::rename(path, &old).map_err(Error::file(path))?;
        kept = Some(old.into());
    }
    Ok((file.finish().map_err(Error::file(path))?, kept))
}
