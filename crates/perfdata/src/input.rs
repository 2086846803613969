//! Opening a recording: one file, the pipe form, or the directory of `perf record --threads`.

use crate::attr::EventAttr;
use crate::bytes::Endian;
use crate::chunks::Chunks;
use crate::error::Error;
use crate::features::Features;
use crate::header::{MAGIC, MAGIC_BIG, Section, Source, Wholeness, read_head};
use crate::ordered::{OrderOptions, Ordered};
use crate::prelude::{read_names, read_prelude};
use crate::table::LayoutTable;
use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file with records.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) file: Arc<File>,
    pub(crate) path: PathBuf,
    /// First byte of the records.
    pub(crate) start: u64,
    /// End of the records, within the file.
    pub(crate) end: u64,
    /// Bytes that the header promises beyond the end of the file.
    pub(crate) missing: u64,
}

/// An opened recording. Its head is read; its records are read by [`Input::chunks`] or
/// [`Input::ordered`], as often as wanted.
#[derive(Debug)]
pub struct Input {
    pub(crate) streams: Vec<Stream>,
    pub(crate) unfinished: bool,
    endian: Endian,
    attrs: Vec<EventAttr>,
    features: Features,
    layouts: LayoutTable,
    wholeness: Wholeness,
}

impl Input {
    /// Opens a recording: a file, a file in pipe form, or a directory.
    pub fn open(path: &Path) -> Result<Input, Error> {
        if path.is_dir() {
            return Input::open_directory(path);
        }
        let input = Input::from_files(vec![(open(path)?, path.to_owned())]);
        match (&input, path.parent()) {
            (Err(Error::NotPerfData { .. }), Some(directory))
                if is_part(path) && directory.join("data").is_file() =>
            {
                let reason =
                    format!("one part of a recording; give its directory {}", directory.display());
                Err(Error::Directory { path: path.to_owned(), reason })
            }
            _ => input,
        }
    }

    /// Reads a recording from a pipe. A recording is read more than once, so its bytes go to a
    /// temporary file without a name first.
    pub fn from_pipe(mut reader: impl Read) -> Result<Input, Error> {
        let path = PathBuf::from("(pipe)");
        let io = |action, source| Error::Io { path: path.clone(), action, source };
        let mut file = tempfile::tempfile().map_err(|e| io("make a temporary file for", e))?;
        let mut buffer = vec![0; 1 << 20];
        // What is no recording is not laid on disk until the pipe ends, which it need not do.
        let mut begin = Vec::new();
        reader.by_ref().take(8).read_to_end(&mut begin).map_err(|e| io("read", e))?;
        let is_recording = begin == MAGIC || begin == MAGIC_BIG;
        file.write_all(&begin).map_err(|e| io("write the temporary file for", e))?;
        let mut rest = reader.take(if is_recording { u64::MAX } else { 0 });
        loop {
            let got = match rest.read(&mut buffer) {
                Ok(0) => break,
                Ok(got) => got,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(io("read", e)),
            };
            let bytes = buffer.get(..got).unwrap_or_default();
            file.write_all(bytes).map_err(|e| io("write the temporary file for", e))?;
        }
        Input::from_files(vec![(file, path)])
    }

    /// Reads a recording in pipe form that lies in memory.
    pub fn from_bytes(bytes: &[u8]) -> Result<Input, Error> {
        let path = PathBuf::from("(memory)");
        let file = crate::sys::memory_file().or_else(|_| tempfile::tempfile());
        let written = file.and_then(|mut file| file.write_all(bytes).map(|()| file));
        let failed =
            |source| Error::Io { path: path.clone(), action: "make a file in memory for", source };
        Input::from_files(vec![(written.map_err(failed)?, path.clone())])
    }

    fn open_directory(directory: &Path) -> Result<Input, Error> {
        let wrong = |reason: String| Error::Directory { path: directory.to_owned(), reason };
        let io = |source| Error::Io { path: directory.to_owned(), action: "list", source };
        let mut numbered = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            let number =
                name.to_str().and_then(|name| name.strip_prefix("data.")).map(str::parse::<u32>);
            if let Some(Ok(number)) = number {
                numbered.push((number, directory.join(name)));
            }
        }
        numbered.sort();
        let numbers: Vec<u32> = numbered.iter().map(|(number, _)| *number).collect();
        let data = directory.join("data");
        if !data.exists() {
            return Err(wrong("there is no file `data` in it".to_owned()));
        }
        let paths = std::iter::once(data).chain(numbered.into_iter().map(|(_, path)| path));
        let opened = |path: PathBuf| {
            // A pipe would never end.
            if !path.is_file() {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                return Err(wrong(format!("{name} is not a regular file")));
            }
            Ok((open(&path)?, path))
        };
        let files = paths.map(opened).collect::<Result<_, Error>>()?;
        let mut input = Input::from_files(files)?;
        let stated = &input.features.file_bytes;
        let mut known = numbers.clone();
        // The number behind the last file that there was.
        let end = u32::try_from(stated.len()).ok();
        known.extend(end.filter(|end| numbers.last().is_none_or(|last| last < end)));
        let (names, count) = absent(&known);
        let shortened =
            numbers.iter().zip(input.streams.iter().skip(1)).filter_map(|(n, stream)| {
                let bytes = stated.get(usize::try_from(*n).ok()?)?.checked_sub(stream.end)?;
                (bytes > 0).then(|| (format!("data.{n}"), bytes))
            });
        let whole = &mut input.wholeness;
        (whole.shortened, whole.absent_files, whole.absent) = (shortened.collect(), names, count);
        Ok(input)
    }

    /// The first file has the header; the others are records alone.
    fn from_files(files: Vec<(File, PathBuf)>) -> Result<Input, Error> {
        let mut streams = Vec::new();
        let mut head = None;
        for (file, path) in files {
            let len = file
                .metadata()
                .map_err(|source| Error::Io { path: path.clone(), action: "look at", source })?
                .len();
            let data = match &mut head {
                None => {
                    let read = read_head(&Source { file: &file, path: &path, len })?;
                    let data = read.data;
                    head = Some(read);
                    data
                }
                Some(_) => Section { offset: 0, size: len },
            };
            let end = data.offset.saturating_add(data.size);
            streams.push(Stream {
                file: Arc::new(file),
                path,
                start: data.offset,
                end: end.min(len),
                missing: end.saturating_sub(len),
            });
        }
        let Some(head) = head else {
            return Err(Error::Directory {
                path: PathBuf::new(),
                reason: "there is no file".to_owned(),
            });
        };
        let (mut attrs, mut features) = (head.attrs, head.features);
        if head.pipe {
            (attrs, features) = read_prelude(&streams, head.endian)?;
        } else if attrs.iter().any(|attr| attr.name.is_none()) {
            read_names(&streams, head.endian, &mut attrs);
        }
        let layouts = LayoutTable::new(&attrs, head.endian);
        let wholeness = Wholeness { unfinished: head.unfinished, ..head.wholeness };
        Ok(Input {
            streams,
            unfinished: head.unfinished,
            endian: head.endian,
            attrs,
            features,
            layouts,
            wholeness,
        })
    }

    /// The events; in pipe form those announced before the first sample.
    pub fn attrs(&self) -> &[EventAttr] {
        &self.attrs
    }

    /// What the header promises against what the file holds; nothing is promised in pipe form.
    pub fn wholeness(&self) -> &Wholeness {
        &self.wholeness
    }

    /// What the recording says about its machine, events and files.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// The recording's byte order.
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Bytes of records in all files, as they are stored (compressed).
    pub fn data_bytes(&self) -> u64 {
        self.streams.iter().map(|stream| stream.end.saturating_sub(stream.start)).sum()
    }

    /// Number of files with records.
    pub fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// The path of a stream's file, for messages.
    pub fn stream_path(&self, stream: u32) -> Option<&Path> {
        self.streams.get(stream as usize).map(|stream| stream.path.as_path())
    }

    /// A stream's open file.
    pub fn stream_file(&self, stream: usize) -> Option<&File> {
        self.streams.get(stream).map(|stream| &*stream.file)
    }

    /// Where the records of a stream lie in its file, in bytes.
    pub fn stream_extent(&self, stream: usize) -> Range<u64> {
        self.streams.get(stream).map_or(0..0, |stream| stream.start..stream.end)
    }

    /// The same recording with nothing but these parts of its streams, each of them a stream of its
    /// own: number of the stream, and which bytes of its file. A part begins and ends where records
    /// do, and no compressed record lies in its stream before it.
    pub fn parts(&self, parts: &[(usize, Range<u64>)]) -> Input {
        let part = |(stream, bytes): &(usize, Range<u64>)| {
            let whole = self.streams.get(*stream)?;
            let start = bytes.start.clamp(whole.start, whole.end);
            let end = bytes.end.clamp(start, whole.end);
            let (file, path) = (Arc::clone(&whole.file), whole.path.clone());
            Some(Stream { file, path, start, end, missing: 0 })
        };
        Input {
            streams: parts.iter().filter_map(part).collect(),
            unfinished: false,
            endian: self.endian,
            attrs: self.attrs.clone(),
            features: self.features.clone(),
            layouts: self.layouts.clone(),
            wholeness: self.wholeness.clone(),
        }
    }

    /// The layouts of the events' samples.
    pub fn layouts(&self) -> &LayoutTable {
        &self.layouts
    }

    /// Begins a pass over all records, in the order of the files.
    pub fn chunks(&self) -> Result<Chunks<'_>, Error> {
        Ok(Chunks::new(self, 0..self.streams.len()))
    }

    /// Begins a pass over the records of one stream (see [`Input::stream_count`]); several can run
    /// at once on different threads.
    pub fn stream_chunks(&self, stream: usize) -> Result<Chunks<'_>, Error> {
        let end = stream.saturating_add(1).min(self.streams.len());
        Ok(Chunks::new(self, stream.min(end)..end))
    }

    /// Begins a pass over all records in time order.
    pub fn ordered(&self, options: OrderOptions) -> Result<Ordered<'_>, Error> {
        Ok(Ordered::new(self, options))
    }
}

/// The names of the first files that a directory lacks, of those below the highest number, and how
/// many there are; `numbers` are sorted.
fn absent(numbers: &[u32]) -> (Vec<String>, u64) {
    const MOST: usize = 5;
    let (mut names, mut count, mut next) = (Vec::new(), 0u64, 0u32);
    for &number in numbers {
        count += u64::from(number.saturating_sub(next));
        let left = MOST - names.len();
        names.extend((next..number).take(left).map(|absent| format!("data.{absent}")));
        next = number.saturating_add(1);
    }
    (names, count)
}

/// Whether the name is that of a part of the directory form, `data.N`.
fn is_part(path: &Path) -> bool {
    let number =
        path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix("data."));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

fn open(path: &Path) -> Result<File, Error> {
    use std::os::unix::fs::FileTypeExt as _;
    let failed = |source| Error::Io { path: path.to_owned(), action: "open", source };
    // A device gives bytes for ever, and to open one may set it off.
    let kind = std::fs::metadata(path).map_err(failed)?.file_type();
    if kind.is_char_device() || kind.is_block_device() {
        return Err(failed(std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            "not a regular file",
        )));
    }
    File::open(path).map_err(failed)
}
