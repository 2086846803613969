//! A recording on its way into a file, a pipe, or the files of a directory.
//!
//! Until it is complete the header states no size, which readers take to mean "up to the end of the
//! file", so that what a killed recorder leaves is readable.

use crate::Error;
use crate::backlog::{Backlog, USUAL_BYTES};
use crate::gathered::Gathered;
use crate::place::Place;
use perfdata::write::{AuxPiece, FileWriter, PipeWriter, event_name};
use perfdata::{Endian, EventAttr, Features};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// So many ends of rounds are remembered, to which a file is cut back when its disk is full.
const MARKS: usize = 64;
pub(crate) const FINISHED_ROUND: [u8; 8] = 0x0008_0000_0000_0044u64.to_ne_bytes();

/// The empty file at an output's place, made before the program starts: a place that cannot be
/// written to is noticed before there is anything to lose.
pub(crate) struct Reserved {
    file: Option<File>,
    place: Place,
    /// Bytes that may wait for the disk.
    backlog: u64,
}

impl Reserved {
    /// A file.
    pub(crate) fn at(path: &Path) -> Result<Reserved, Error> {
        Reserved::with(path, false, false)
    }

    /// A file, or a directory; `force` replaces a foreign one.
    pub(crate) fn with(path: &Path, directory: bool, force: bool) -> Result<Reserved, Error> {
        let (place, file) = Place::reserve(path, directory, force)?;
        Ok(Reserved { file: Some(file), place, backlog: USUAL_BYTES })
    }

    /// Chooses how many bytes may wait for the disk.
    pub(crate) fn with_backlog(mut self, bytes: u64) -> Reserved {
        self.backlog = bytes;
        self
    }

    /// Writes the header.
    pub(crate) fn begin(mut self, attrs: &[EventAttr]) -> Result<Output, Error> {
        let place = self.place.clone();
        let Some(file) = self.file.take() else {
            return Ok(Output {
                form: Form::None,
                place,
                marks: VecDeque::new(),
                piped_bytes: 0,
                aux_index: Vec::new(),
            });
        };
        let mut output = Output {
            form: Form::None,
            place,
            marks: VecDeque::new(),
            piped_bytes: 0,
            aux_index: Vec::new(),
        };
        let begun = Gathered::new(file, self.backlog).map_err(io_failed);
        let begun = begun.and_then(|out| FileWriter::new(out, attrs));
        let begun = begun.and_then(|mut writer| {
            names(attrs).try_for_each(|name| writer.append(&name?)).map(|()| writer)
        });
        output.form = Form::File(begun.map_err(|error| {
            output.place.remove();
            failed(&output.place.partial, error)
        })?);
        Ok(output)
    }
}

/// Records of the names that readers cannot tell from an event's numbers: without them a recording
/// that was killed has no names, which it gets when it ends.
fn names(attrs: &[EventAttr]) -> impl Iterator<Item = Result<Vec<u8>, perfdata::Error>> {
    /// `PERF_TYPE_TRACEPOINT`.
    const TRACEPOINT: u32 = 2;
    let traced = attrs.iter().filter(|attr| attr.kind == TRACEPOINT);
    traced.filter_map(|attr| event_name(attr, Endian::NATIVE).transpose())
}

impl Drop for Reserved {
    /// A recording that never began leaves nothing behind.
    fn drop(&mut self) {
        if self.file.is_some() {
            self.place.remove();
        }
    }
}

enum Form {
    File(FileWriter<Gathered>),
    Pipe(PipeWriter<Gathered>),
    None,
}

/// A perf.data being written.
pub(crate) struct Output {
    form: Form,
    place: Place,
    /// Bytes of records at the ends of the last rounds.
    marks: VecDeque<u64>,
    /// Bytes of records handed on, for where there is no file that tells.
    piped_bytes: u64,
    /// Where AUXTRACE records lie in the file, and their sizes.
    aux_index: Vec<(u64, u64)>,
}

impl Output {
    /// Reserves the place and begins at once.
    pub(crate) fn create(path: &Path, attrs: &[EventAttr]) -> Result<Output, Error> {
        Reserved::at(path)?.begin(attrs)
    }

    /// The pipe form, with what is known at the beginning.
    pub(crate) fn pipe(
        pipe: File,
        attrs: &[EventAttr],
        features: &Features,
        backlog: u64,
    ) -> Result<Output, Error> {
        let path = PathBuf::from("standard output");
        let out = Gathered::new(pipe, backlog).map_err(Error::io(&path, "write to"))?;
        let begun = PipeWriter::new(out, attrs, features);
        let form = Form::Pipe(begun.map_err(|error| failed(&path, error))?);
        let place = Place { partial: path.clone(), path, directory: false };
        Ok(Output { form, place, marks: VecDeque::new(), piped_bytes: 0, aux_index: Vec::new() })
    }

    /// Adds records.
    pub(crate) fn records(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let done = match &mut self.form {
            Form::File(writer) => writer.append(bytes),
            Form::Pipe(writer) => writer.append(bytes),
            Form::None => Ok(()),
        };
        self.piped_bytes += bytes.len() as u64;
        done.map_err(|error| failed(&self.place.partial, error))
    }

    /// Adds AUX data: its record, the bytes in two parts, and padding.
    pub(crate) fn aux(&mut self, piece: &AuxPiece, data: [&[u8]; 2]) -> Result<(), Error> {
        let record = aux_record(piece).map_err(|error| failed(&self.place.partial, error))?;
        if let Form::File(writer) = &self.form {
            self.aux_index.push((writer.data_offset() + writer.data_bytes(), record.len() as u64));
        }
        self.records(&record)?;
        data.iter().filter(|part| !part.is_empty()).try_for_each(|part| self.records(part))?;
        self.records([0; 8].get(..piece.padding()).unwrap_or_default())
    }

    /// The features with what only the file knows.
    fn with_index(&self, features: &Features) -> Features {
        Features { aux_index: self.aux_index.clone(), ..features.clone() }
    }

    /// Promises that nothing older than what was written before the last round follows.
    pub(crate) fn finish_round(&mut self) -> Result<(), Error> {
        self.records(&FINISHED_ROUND)
    }

    /// The queue before its file.
    pub(crate) fn backlog(&mut self) -> Option<&Backlog> {
        match &mut self.form {
            Form::File(writer) => Some(writer.get_mut().backlog()),
            Form::Pipe(writer) => Some(writer.get_mut().backlog()),
            Form::None => None,
        }
    }

    /// Bytes of records so far.
    pub(crate) fn data_bytes(&self) -> u64 {
        match &self.form {
            Form::File(writer) => writer.data_bytes(),
            Form::Pipe(_) | Form::None => self.piped_bytes,
        }
    }

    /// Writes what is buffered, so that a recorder killed now leaves it behind. All records must be
    /// whole here.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        let done = match &mut self.form {
            Form::File(writer) => writer.flush(),
            Form::Pipe(writer) => writer.flush(),
            Form::None => Ok(()),
        };
        done.map_err(|error| failed(&self.place.partial, error))?;
        let bytes = self.data_bytes();
        self.marks.push_back(bytes);
        let written = match &mut self.form {
            Form::File(writer) => {
                let begin = writer.data_offset();
                writer.get_mut().backlog().end().saturating_sub(begin)
            }
            Form::Pipe(_) | Form::None => bytes,
        };
        forget(&mut self.marks, written);
        Ok(())
    }

    /// Waits until all is written.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        let done = match &mut self.form {
            Form::File(writer) => synced(writer.get_mut()),
            Form::Pipe(writer) => synced(writer.get_mut()),
            Form::None => Ok(()),
        };
        done.map_err(|error| failed(&self.place.partial, error))
    }

    /// One of the files beside it, in its directory.
    pub(crate) fn part(&self, number: usize, most: u64) -> Result<Part, Error> {
        let (path, file) = self.place.part(number)?;
        let out = Gathered::new(file, most).map_err(Error::io(&path, "write"))?;
        Ok(Part { out, path, bytes: 0, marks: VecDeque::from([0]) })
    }

    /// Chooses another name for when it is complete.
    pub(crate) fn rename_to(&mut self, path: PathBuf) {
        self.place.path = path;
    }

    /// The name that it gets.
    pub(crate) fn path(&self) -> &Path {
        &self.place.path
    }

    /// Writes the feature sections, moves an existing file to `NAME.old`, and gives the file its
    /// name. The result is the recording's size in bytes.
    pub(crate) fn finish(mut self, features: &Features) -> Result<u64, Error> {
        let features = &self.with_index(features);
        let finished = match &mut self.form {
            Form::None => return Ok(0),
            Form::Pipe(writer) => {
                let done = writer.build_ids(features).and_then(|()| writer.flush());
                let done = done.and_then(|()| synced(writer.get_mut()));
                self.form = Form::None;
                return done
                    .map(|()| self.piped_bytes)
                    .map_err(|error| failed(&self.place.partial, error));
            }
            Form::File(writer) => writer.complete(features).and_then(|()| synced(writer.get_mut())),
        };
        match finished {
            Ok(()) => self.named(),
            Err(error) => {
                let error = failed(&self.place.partial, error);
                Err(self.keep(error, features, &mut []))
            }
        }
    }

    fn named(&mut self) -> Result<u64, Error> {
        let bytes = size(&self.place)?;
        self.place.rename()?;
        self.form = Form::None;
        Ok(bytes)
    }

    /// Ends a recording that could not be written on: keeps what it holds, and the result says what
    /// that is.
    pub(crate) fn keep(self, source: Error, features: &Features, parts: &mut [Part]) -> Error {
        if !matches!(self.form, Form::File(_)) {
            // What went into a pipe is its reader's.
            return source;
        }
        let path = self.path().to_owned();
        let partial = self.place.partial.clone();
        let (kept, left) = match self.salvage(features, parts) {
            Ok(bytes) => (
                format!(
                    "{} ({bytes} bytes) holds what was recorded up to there and is readable",
                    path.display()
                ),
                None,
            ),
            Err(error) => (error.to_string(), Some(partial)),
        };
        Error::Cut { source: Box::new(source), kept: Some(kept), left }
    }

    /// Keeps what it holds although its disk takes no more: cut back to the end of a round, as far
    /// as the feature sections need; in a directory first the files beside it. The result says
    /// whether the recording is complete up to there.
    fn salvage(mut self, features: &Features, parts: &mut [Part]) -> Result<u64, Error> {
        let places = std::mem::take(&mut self.aux_index);
        let Form::File(writer) = &mut self.form else { return Ok(0) };
        let begin = writer.data_offset();
        let reached =
            writer.get_mut().discard().map_err(Error::io(&self.place.partial, "write"))?;
        self.marks.retain(|mark| begin + mark <= reached);
        let mut complete = |mark: u64, features: &Features| {
            let end = writer.data_offset() + mark;
            let aux_index = places.iter().copied().filter(|(at, _)| *at < end).collect();
            let features = &Features { aux_index, ..features.clone() };
            let out = writer.get_mut();
            let cut = out.discard().is_ok() && out.backlog().file.set_len(end).is_ok();
            let done = cut && writer.rewind(mark).is_ok() && writer.complete(features).is_ok();
            done && writer.get_mut().sync().is_ok()
        };
        // A header alone is no recording, unless files beside it hold one.
        let beside = !parts.is_empty();
        let worth = |mark: u64| mark > 0 || beside;
        let newest = self.marks.back().copied().unwrap_or_default();
        let mut done = worth(newest) && complete(newest, features);
        while !done && cut_largest(parts) {
            done = complete(newest, features);
        }
        let bare = Features::default();
        done = done
            || self.marks.iter().rev().any(|mark| worth(*mark) && complete(*mark, features))
            || self.marks.front().is_some_and(|mark| worth(*mark) && complete(*mark, &bare));
        if done {
            return self.named();
        }
        // Without a whole header readers take all that is there.
        self.form = Form::None;
        Err(Error::Place {
            path: self.place.partial.clone(),
            reason: "what was recorded is left under this name; it could not be completed"
                .to_owned(),
        })
    }
}

impl Drop for Output {
    /// A recording that failed leaves nothing behind; one that was killed leaves its readable part.
    fn drop(&mut self) {
        if matches!(self.form, Form::File(_)) {
            self.place.remove();
        }
    }
}

fn size(place: &Place) -> Result<u64, Error> {
    let one = |path: &Path| {
        std::fs::metadata(path).map(|found| found.len()).map_err(Error::io(path, "look at"))
    };
    if !place.directory {
        return one(&place.partial);
    }
    let entries = std::fs::read_dir(&place.partial).map_err(Error::io(&place.partial, "list"))?;
    entries.flatten().map(|entry| one(&entry.path())).sum()
}

/// A file of records alone, in a recording's directory.
pub(crate) struct Part {
    out: Gathered,
    path: PathBuf,
    bytes: u64,
    /// Bytes up to the ends of the last rounds.
    marks: VecDeque<u64>,
}

/// Gives up the last round of the largest of these files; false when there is none that can be
/// given up.
fn cut_largest(parts: &mut [Part]) -> bool {
    let rounds = parts.iter_mut().filter(|part| part.marks.len() > 1);
    let largest = rounds.max_by_key(|part| part.marks.back().copied());
    largest.is_some_and(|part| {
        part.marks.pop_back();
        part.cut();
        true
    })
}

impl Part {
    pub(crate) fn records(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.out.write_all(bytes).map_err(Error::io(&self.path, "write"))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.out.flush().map_err(Error::io(&self.path, "write"))?;
        self.marks.push_back(self.bytes);
        forget(&mut self.marks, self.out.backlog().end());
        Ok(())
    }

    /// Bytes of records so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The queue before its file.
    pub(crate) fn backlog(&mut self) -> &Backlog {
        self.out.backlog()
    }

    /// Waits until all is written.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        self.out.sync().map_err(Error::io(&self.path, "write"))
    }

    /// Cuts off what was written in part.
    pub(crate) fn cut(&mut self) {
        let reached = self.out.discard().unwrap_or_default();
        self.marks.retain(|mark| *mark <= reached);
        // What cannot be cut is read up to the record that is not whole.
        let _ = self.out.backlog().file.set_len(self.marks.back().copied().unwrap_or_default());
    }
}

/// Forgets the oldest ends of rounds, as long as enough stay of those that were written.
fn forget(marks: &mut VecDeque<u64>, written: u64) {
    while marks.get(MARKS).is_some_and(|mark| *mark <= written) {
        marks.pop_front();
    }
}

fn io_failed(source: io::Error) -> perfdata::Error {
    perfdata::Error::Io { path: PathBuf::new(), action: "write", source }
}

fn synced(out: &mut Gathered) -> Result<(), perfdata::Error> {
    out.sync().map_err(io_failed)
}

fn aux_record(piece: &AuxPiece) -> Result<Vec<u8>, perfdata::Error> {
    let mut record = Vec::new();
    piece.put(&mut record, Endian::NATIVE)?;
    Ok(record)
}

fn failed(path: &Path, error: perfdata::Error) -> Error {
    let source = match error {
        perfdata::Error::Io { source, .. } => source,
        other => io::Error::other(other),
    };
    Error::io(path, "write")(source)
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
        for directory in [false, true] {
            let reserved = Reserved::with(&dir.path().join("a"), directory, false).unwrap();
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
            drop(reserved);
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }
}
