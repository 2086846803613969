//! A recording on its way: written beside its place, renamed when complete, the one before kept as `NAME.old`.
//!
//! Until it is complete the header states no size, which readers take to mean "up to the end of the file", so that
//! what a killed recorder leaves is readable.

use crate::Error;
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

impl Output {
    /// Refuses what must not be replaced, creates the file beside it, and writes the header.
    pub(crate) fn create(path: &Path, attrs: &[EventAttr]) -> Result<Output, Error> {
        check(path)?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let partial = path.with_file_name(name);
        remove_empty_parts(path);
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&partial)
            .map_err(|error| no_place(path, &error))?;
        let mut output = Output { writer: None, path: path.to_owned(), partial };
        let buffered = BufWriter::with_capacity(BUFFER_BYTES, file);
        let begun = FileWriter::new(buffered, attrs);
        output.writer = Some(begun.map_err(|error| failed(&output.partial, error))?);
        Ok(output)
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
        std::io::ErrorKind::NotFound => format!("directory {shown} does not exist"),
        std::io::ErrorKind::NotADirectory => format!("{shown} is not a directory"),
        _ => format!("cannot write to directory {shown}: {error}"),
    };
    Error::Place { path: path.to_owned(), reason }
}

/// Removes the parts that killed recorders of this output left without having written anything.
fn remove_empty_parts(path: &Path) {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return };
    for entry in std::fs::read_dir(directory(path)).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let pid =
            file.to_str().and_then(|file| file.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".part"));
        let Some(pid) = pid.and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        let gone = !Path::new("/proc").join(pid.to_string()).exists();
        if gone && entry.metadata().is_ok_and(|found| found.is_file() && found.len() == 0) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
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
        let attr = crate::attr::emulated(1, "x");
        let error = Output::create(Path::new("nodir/perf.data"), &[attr]).err().unwrap().to_string();
        assert_eq!(error, "nodir/perf.data: directory nodir does not exist");
    }

    #[test]
    fn empty_parts_of_dead_recorders_go_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [("a.999999999.part", ""), ("a.999999998.part", "x"), ("b.999999999.part", "")] {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        remove_empty_parts(&dir.path().join("a"));
        assert!(!dir.path().join("a.999999999.part").exists());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
