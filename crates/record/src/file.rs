//! A recording on its way: written beside its place, renamed when complete, the one before kept as `NAME.old`.
//!
//! Until it is complete the header states no size, which readers take to mean "up to the end of the file", so that
//! what a killed recorder leaves is readable.

use crate::{Error, leftovers};
use perfdata::write::FileWriter;
use perfdata::{EventAttr, Features};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Writes of 256 KiB to 1 MiB cost the least per byte.
const BUFFER_BYTES: usize = 512 * 1024;
const FINISHED_ROUND: [u8; 8] = 0x0008_0000_0000_0044u64.to_ne_bytes();

/// A perf.data being written.
pub(crate) struct Output {
    writer: Option<FileWriter<BufWriter<File>>>,
    path: PathBuf,
    partial: PathBuf,
}

/// The empty file beside an output's place, made before the program starts: a place that cannot be written to is
/// noticed before there is anything to lose.
pub(crate) struct Reserved {
    file: Option<File>,
    path: PathBuf,
    partial: PathBuf,
}

impl Reserved {
    /// Refuses what must not be replaced, removes what killed recorders left, and creates the file.
    pub(crate) fn at(path: &Path) -> Result<Reserved, Error> {
        check(path)?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let partial = path.with_file_name(name);
        leftovers::remove(directory(path));
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&partial)
            .map_err(|error| no_place(path, &error))?;
        // It tells the parts of killed recorders from those in use. Where files cannot be locked, the number has to do.
        crate::sys::lock(&file);
        Ok(Reserved { file: Some(file), path: path.to_owned(), partial })
    }

    /// Writes the header.
    pub(crate) fn begin(mut self, attrs: &[EventAttr]) -> Result<Output, Error> {
        let (path, partial) = (self.path.clone(), self.partial.clone());
        let mut output = Output { writer: None, path, partial };
        if let Some(file) = self.file.take() {
            let begun = FileWriter::new(BufWriter::with_capacity(BUFFER_BYTES, file), attrs);
            output.writer = Some(begun.map_err(|error| {
                let _ = std::fs::remove_file(&output.partial);
                failed(&output.partial, error)
            })?);
        }
        Ok(output)
    }
}

impl Drop for Reserved {
    /// A recording that never began leaves nothing behind.
    fn drop(&mut self) {
        if self.file.is_some() {
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}

impl Output {
    /// Reserves the place and begins at once.
    pub(crate) fn create(path: &Path, attrs: &[EventAttr]) -> Result<Output, Error> {
        Reserved::at(path)?.begin(attrs)
    }

    /// Adds whole records.
    pub(crate) fn records(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.append(bytes).map_err(|error| failed(&self.partial, error))
    }

    /// Promises that nothing older than what was written before the last round follows.
    pub(crate) fn finish_round(&mut self) -> Result<(), Error> {
        self.records(&FINISHED_ROUND)
    }

    /// Bytes of records so far.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, FileWriter::data_bytes)
    }

    /// Writes what is buffered, so that a recorder killed now leaves it behind.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.flush().map_err(|error| failed(&self.partial, error))
    }

    /// Writes the feature sections, moves an existing file to `NAME.old`, and gives the file its name. The result is
    /// the file's size in bytes.
    pub(crate) fn finish(mut self, features: &Features) -> Result<u64, Error> {
        let Some(writer) = self.writer.take() else { return Ok(0) };
        let finished = writer.finish(features).map_err(|error| failed(&self.partial, error));
        let written = finished.and_then(|mut out| {
            out.flush().and_then(|()| out.get_ref().metadata()).map_err(Error::io(&self.partial, "write"))
        });
        let renamed = written.and_then(|metadata| self.rename().map(|()| metadata.len()));
        if renamed.is_err() {
            let _ = std::fs::remove_file(&self.partial);
        }
        renamed
    }

    fn rename(&self) -> Result<(), Error> {
        if self.path.exists() {
            let mut old = self.path.clone().into_os_string();
            old.push(".old");
            std::fs::rename(&self.path, &old).map_err(Error::io(&self.path, "rename to .old"))?;
        }
        std::fs::rename(&self.partial, &self.path).map_err(Error::io(&self.partial, "rename"))
    }
}

impl Drop for Output {
    /// A recording that failed leaves nothing behind; one that was killed leaves its readable part.
    fn drop(&mut self) {
        if self.writer.is_some() {
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}

/// The directory that a file lies in.
fn directory(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Says what is wrong with the output's directory; the name of the file beside it would only confuse.
fn no_place(path: &Path, error: &std::io::Error) -> Error {
    let dir = directory(path);
    let shown = dir.display();
    let reason = match error.kind() {
        std::io::ErrorKind::NotFound => format!("there is no directory {shown}"),
        std::io::ErrorKind::NotADirectory => format!("{shown} is not a directory"),
        _ => format!("cannot write to directory {shown}: {error}"),
    };
    Error::Place { path: path.to_owned(), reason }
}

fn failed(path: &Path, error: perfdata::Error) -> Error {
    let source = match error {
        perfdata::Error::Io { source, .. } => source,
        other => std::io::Error::other(other),
    };
    Error::io(path, "write")(source)
}

/// An existing output must be a regular file of the caller's.
fn check(path: &Path) -> Result<(), Error> {
    let refuse = |reason: &str| Error::Output { path: path.to_owned(), reason: reason.to_owned() };
    if path.file_name().is_none() {
        return Err(refuse("it is not the name of a file"));
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => Err(refuse("it is not a regular file")),
        Ok(found) if found.uid() != crate::sys::effective_user() => Err(refuse("it belongs to another user")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_without_a_directory_is_named_with_it() {
        let error = Reserved::at(Path::new("nodir/perf.data")).err().unwrap().to_string();
        assert_eq!(error, "nodir/perf.data: there is no directory nodir");
    }

    #[test]
    fn a_recording_that_never_began_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let reserved = Reserved::at(&dir.path().join("a")).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        drop(reserved);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
