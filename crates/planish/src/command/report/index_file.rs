//! The index of a recording, beside it: read where it is there and of this recording, made and
//! written where it is not.
//!
//! It lies at `FILE.planish-index`, or as `planish-index` in a directory recording. It is bound to
//! sizes, times of change, begins and ends of the recording's files. One that is damaged, of another
//! recording or somebody else's is not used, and what is written is written whole.

use super::recording::Part;
use crate::cli::Global;
use crate::progress;
use anyhow::Context as _;
use beside::{Unfinished, given};
use calltrees::{BINDING_BYTES, Index};
use perfdata::Input;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Smaller recordings are read as fast without.
const LEAST_BYTES: u64 = 16 << 20;
/// Most bytes of an index: that of a recording of some TB.
const MOST_BYTES: u64 = 1 << 30;
/// Of each file of a recording so many bytes at the start and at the end count for what it is.
const EDGE_BYTES: u64 = 64 << 10;

/// The index of a recording that is already open, if a question about it needs one.
///
/// # Errors
/// Where the recording cannot be read.
pub fn of(
    path: &Path,
    input: &Input,
    part: &Part,
    global: &Global,
) -> anyhow::Result<Option<Index>> {
    let is_large = input.data_bytes() >= LEAST_BYTES;
    if part.no_index || !(is_large || part.filter.time.is_some()) {
        return Ok(None);
    }
    let place = place(path, input).filter(|_| is_large);
    let bound = place.as_ref().and_then(|_| binding(input).ok());
    if let Some((place, bound)) = place.as_ref().zip(bound.as_ref()) {
        match stored(place, bound, input) {
            Ok(Some(index)) => return Ok(Some(index)),
            Ok(None) => {}
            Err(why) => note(global, place, &format!("{why}; it is not used")),
        }
    }
    let bar = progress::Bytes::new("index", input.data_bytes(), global.quiet);
    let index = Index::read(input, global.threads(), &|bytes| bar.add(bytes))
        .with_context(|| path.display().to_string())?;
    drop(bar);
    if let Some((place, bound)) = place.zip(bound) {
        keep(&place, &bound, &index, input, global);
    }
    Ok(Some(index))
}

/// Where the index lies; none for what is no file or directory of its own.
fn place(path: &Path, input: &Input) -> Option<PathBuf> {
    let data = input.stream_path(0)?;
    if path.is_dir() {
        return (data == path.join("data")).then(|| path.join("planish-index"));
    }
    let mut name = path.file_name()?.to_owned();
    name.push(".planish-index");
    (data == path).then(|| path.with_file_name(name))
}

/// What a recording's files are.
fn binding(input: &Input) -> io::Result<[u8; BINDING_BYTES]> {
    let mut digest = Sha256::new();
    digest.update((input.stream_count() as u64).to_le_bytes());
    for stream in 0..input.stream_count() {
        let Some(file) = input.stream_file(stream) else { continue };
        let about = file.metadata()?;
        let times = [about.mtime().to_le_bytes(), about.mtime_nsec().to_le_bytes()];
        digest.update(about.len().to_le_bytes());
        times.iter().for_each(|time| digest.update(time));
        let extent = input.stream_extent(stream);
        digest.update(extent.start.to_le_bytes());
        digest.update(extent.end.to_le_bytes());
        let first = about.len().min(EDGE_BYTES);
        edge(file, 0, first, &mut digest)?;
        edge(file, about.len().saturating_sub(first), first, &mut digest)?;
    }
    Ok(digest.finalize().into())
}

fn edge(file: &File, at: u64, bytes: u64, digest: &mut Sha256) -> io::Result<()> {
    // At most EDGE_BYTES.
    let mut buffer = vec![0; bytes as usize];
    file.read_exact_at(&mut buffer, at)?;
    digest.update(&buffer);
    Ok(())
}

/// The index that is there; none where there is none.
fn stored(
    place: &Path,
    bound: &[u8; BINDING_BYTES],
    input: &Input,
) -> Result<Option<Index>, String> {
    let owner = input.stream_file(0).and_then(|file| file.metadata().ok()).map(|about| about.uid());
    let bytes = match given::read_trusted(place, MOST_BYTES, owner) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let (index, binding) = Index::parse(&bytes).map_err(|error| error.to_string())?;
    if binding != *bound {
        return Err("it is of another recording, or of this one before it changed".to_owned());
    }
    if !index.fits(input) {
        return Err("it names other places than the recording has".to_owned());
    }
    // Its records are read once more for the answer, where it would be too late to make another.
    if index.record_count(input.endian()).is_none() {
        return Err("one of its records is damaged".to_owned());
    }
    Ok(Some(index))
}

/// Writes an index to its place, if files may be made there and the recording has not changed.
fn keep(place: &Path, bound: &[u8; BINDING_BYTES], index: &Index, input: &Input, global: &Global) {
    if binding(input).ok().as_ref() != Some(bound) {
        return;
    }
    let written = || -> io::Result<()> {
        let about = input.stream_file(0).map(File::metadata).transpose()?;
        // Who may not read the recording need not read what it is about.
        let mode = about.map_or(beside::PRIVATE, |about| about.mode() & 0o666);
        let mut file = Unfinished::at(place)?.with_mode(mode);
        file.write_all(&index.to_bytes(bound))?;
        file.finish().map(|_| ())
    };
    if let Err(error) = written() {
        let expected = [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem];
        if !expected.contains(&error.kind()) {
            note(global, place, &format!("the index cannot be written: {error}"));
        }
    }
}

fn note(global: &Global, place: &Path, what: &str) {
    if !global.quiet {
        eprintln!("note: {}: {}", place.display(), report::visible(what));
    }
}
