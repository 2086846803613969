//! How are files written that somebody named as an output? Whole or not at all, together where
//! they belong together, and never in the place of what planish only reads.

use crate::{Unfinished, directory_of, replaceable, sink};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Writes `path` through `fill`: beside it first, renamed when whole. Devices and pipes are written
/// to.
///
/// # Errors
/// Those of `fill`, and of files, with their names.
pub fn write<E: From<io::Error>>(
    path: &Path,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), E>,
) -> Result<(), E> {
    if is_sink(path) {
        let mut out = BufWriter::new(sink(path).map_err(named(path))?);
        fill(&mut out)?;
        return Ok(out.flush().map_err(named(path))?);
    }
    Ok(renamed(write_beside(path, fill)?, path)?)
}

/// As [`write`], with another mode than that of any new file: for what tells of something that not
/// everybody may read.
///
/// # Errors
/// As [`write`].
pub fn write_with_mode<E: From<io::Error>>(
    path: &Path,
    mode: u32,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), E>,
) -> Result<(), E> {
    if is_sink(path) {
        return write(path, fill);
    }
    Ok(renamed(write_beside(path, fill)?.with_mode(mode), path)?)
}

/// Writes text files that belong together: all beside their places first, then all renamed. Where
/// one cannot be renamed, those before it are put back as they were.
///
/// # Errors
/// At the first file that cannot be written; the message says what became of the others.
pub fn write_together(files: &[(PathBuf, &str)]) -> io::Result<()> {
    let mut whole = Vec::with_capacity(files.len());
    for (path, text) in files {
        // A pipe or a device takes the text at the end and has no name to change.
        if is_sink(path) && !path.is_dir() {
            continue;
        }
        whole.push((path, write_beside(path, |out| out.write_all(text.as_bytes()))?));
    }
    let mut replaced: Vec<Replaced<'_>> = Vec::with_capacity(whole.len());
    for (path, beside) in whole {
        let done = Replaced::keep(path).and_then(|before| renamed(beside, path).map(|()| before));
        match done {
            Ok(before) => replaced.push(before),
            Err(error) => {
                let others: Vec<String> =
                    replaced.into_iter().rev().map(|before| before.put_back()).collect();
                let told = if others.is_empty() {
                    String::new()
                } else {
                    format!("; {}", others.join("; "))
                };
                return Err(io::Error::new(error.kind(), format!("{error}{told}")));
            }
        }
    }
    for (path, text) in files {
        if is_sink(path) && !path.is_dir() {
            write(path, |out| out.write_all(text.as_bytes()))?;
        }
    }
    Ok(())
}

/// Is this a device, a pipe, or `/dev/stdout`, which cannot be replaced by renaming?
fn is_sink(path: &Path) -> bool {
    path.exists() && (!path.is_file() || replaceable(path).is_err())
}

/// A file that another one took the place of, and what it held before.
struct Replaced<'p> {
    path: &'p Path,
    /// A second name of the file that was there; removed in the end.
    before: Option<tempfile::TempPath>,
}

impl<'p> Replaced<'p> {
    /// Keeps what is at `path` under another name beside it.
    fn keep(path: &'p Path) -> io::Result<Replaced<'p>> {
        if !path.is_file() {
            return Ok(Replaced { path, before: None });
        }
        let before = tempfile::Builder::new()
            .prefix(".planish-")
            .make_in(directory_of(path), |name| std::fs::hard_link(path, name))
            .or_else(|_| {
                // A file system without hard links.
                let copy =
                    tempfile::Builder::new().prefix(".planish-").tempfile_in(directory_of(path))?;
                std::fs::copy(path, copy.path())?;
                let (_, name) = copy.into_parts();
                Ok::<_, io::Error>(tempfile::NamedTempFile::from_parts((), name))
            })
            .map_err(named(path))?;
        let (_, before) = before.into_parts();
        Ok(Replaced { path, before: Some(before) })
    }

    /// Puts back what was there, and says so.
    fn put_back(self) -> String {
        let path = self.path.display();
        let (done, was) = match self.before {
            Some(before) => {
                (before.persist(self.path).map_err(|error| error.error), "was put back as it was")
            }
            None => (std::fs::remove_file(self.path), "was removed again"),
        };
        match done {
            Ok(()) => format!("{path} {was}, since it belongs with the former"),
            Err(error) => {
                format!("{path} is of this run and does not belong with the former: {error}")
            }
        }
    }
}

/// Writes a file beside its place.
fn write_beside<E: From<io::Error>>(
    path: &Path,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> Result<(), E>,
) -> Result<Unfinished, E> {
    refuse_input(path)?;
    let beside = Unfinished::at(path).map_err(|error| {
        let place = directory_of(path);
        let directory = place.display();
        let why = match error.kind() {
            // File systems that make no files, such as /proc, answer the same.
            io::ErrorKind::NotFound if place.is_dir() => {
                format!("no file can be made in {directory}")
            }
            io::ErrorKind::NotFound => {
                format!("there is no directory {directory}; create it first")
            }
            kind => format!("cannot be written in {directory}: {kind}"),
        };
        io::Error::new(error.kind(), format!("{}: {why}", path.display()))
    })?;
    let mut out = BufWriter::with_capacity(1 << 16, beside);
    fill(&mut out)?;
    Ok(out.into_inner().map_err(|error| named(path)(error.into_error()))?)
}

/// What a file is by its first bytes: `a program` (ELF), `a recording` (perf.data in either byte
/// order), else none, also where it cannot be read.
pub fn begins_like(path: &Path) -> Option<&'static str> {
    let mut start = [0; 8];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).ok()?;
    match &start {
        [0x7f, b'E', b'L', b'F', ..] => Some("a program"),
        b"PERFILE2" | b"2ELIFREP" => Some("a recording"),
        _ => None,
    }
}

/// Programs and recordings are what planish reads, never what is written here: one that has the
/// output's name was named by mistake.
fn refuse_input(path: &Path) -> io::Result<()> {
    let Some(what) = begins_like(path) else { return Ok(()) };
    Err(io::Error::other(format!(
        "{}: it is {what}, which would be replaced; name another output, or remove it first",
        path.display()
    )))
}

fn renamed(beside: Unfinished, path: &Path) -> io::Result<()> {
    beside.finish().map(drop).map_err(named(path))
}

/// For `map_err`: the error with the file's name.
fn named(path: &Path) -> impl FnOnce(io::Error) -> io::Error + use<'_> {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_or_a_recording_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let write = || super::write(&path, |out| out.write_all(b"text"));
        for (content, what) in
            [(&b"\x7fELF\x02\x01\x01\0"[..], "a program"), (b"PERFILE2rest", "a recording")]
        {
            std::fs::write(&path, content).unwrap();
            let refused = write().unwrap_err().to_string();
            assert!(refused.contains(what) && refused.contains("another output"), "{refused}");
            assert_eq!(std::fs::read(&path).unwrap(), content);
        }
        for content in [&b""[..], b"short", b"an older text"] {
            std::fs::write(&path, content).unwrap();
            write().unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"text");
        }
    }

    #[test]
    fn files_that_belong_together_are_all_written_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let names = || {
            let mut names: Vec<_> = std::fs::read_dir(folder.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            names.sort();
            names
        };
        write_together(&[(at("a"), "1"), (at("b"), "2")]).unwrap();
        assert_eq!(std::fs::read(at("b")).unwrap(), b"2");
        write_together(&[(at("a"), "3"), (at("b"), "4")]).unwrap();
        assert_eq!(
            (std::fs::read(at("a")).unwrap(), names().len()),
            (b"3".to_vec(), 2),
            "{:?}",
            names()
        );

        // A directory with a file in it cannot be replaced.
        std::fs::create_dir_all(at("full/inside")).unwrap();
        let refused =
            write_together(&[(at("a"), "5"), (at("new"), "6"), (at("full"), "7")]).unwrap_err();
        let refused = format!("{refused:#}");
        assert!(
            refused.contains("full")
                && refused.contains("put back")
                && refused.contains("removed again"),
            "{refused}"
        );
        assert_eq!(std::fs::read(at("a")).unwrap(), b"3");
        assert_eq!(names(), ["a", "b", "full"]);
    }
}
