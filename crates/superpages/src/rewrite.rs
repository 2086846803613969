//! Writes a file whose text lies at superpage-congruent offsets, in writes that give the page cache
//! superpages.
//!
//! The output is put together in memory two mebibytes at a time and written so, at offsets that are
//! multiples of it: file systems with large folios then cache each write as one superpage, while
//! smaller writes, `cp` and linkers leave small pages. It is written beside its place, synced (only
//! clean pages can be dropped and read again) and renamed, so that a program that runs from the old
//! file keeps it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::align::{self, Plan};
use crate::check::SUPERPAGE;
use crate::elf::{Headers, PROGRAM_BYTES, SECTION_BYTES};
use crate::{Error, check, read_elf, sys};

/// How the bytes of a new file go to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// 2 MiB at a time: superpages in the page cache at once, where the file system can.
    #[default]
    Large,
    /// 64 KiB at a time, as `cp` and linkers write: small pages. For comparisons.
    Small,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Aligned {
    /// The file written.
    pub path: PathBuf,
    /// Bytes of text.
    pub text_bytes: u64,
    /// Bytes of text that could lie on superpages before.
    pub eligible_before: u64,
    /// Bytes of text that can now.
    pub eligible_bytes: u64,
    /// The same in per cent of the text.
    pub eligible_pct: f64,
    /// Bytes of filler that executable segments cover now.
    pub filled_bytes: u64,
    /// How many bytes longer the file is; negative where filler went.
    pub growth_bytes: i64,
}

/// Rewrites the offsets of a file; addresses, build ID and the bytes of every section stay.
///
/// `fill` extends executable segments over the linker's filler where that completes a superpage.
///
/// # Errors
/// When the input is no program or library, cannot be rewritten safely, or the output cannot be
/// written.
pub fn align(input: &Path, output: &Path, fill: bool, writes: Writes) -> Result<Aligned, Error> {
    Rewrite::planned(input, fill)?.write(input, output, writes)
}

/// What [`align_or_copy()`] wrote.
#[derive(Debug)]
pub enum Written {
    /// The file with other offsets.
    Aligned(Aligned),
    /// A copy: no more text would be eligible, or there is no text of 2 MiB.
    Copied,
    /// A copy: there is text of 2 MiB, but rewriting it is refused.
    Refused(Error),
}

/// Rewrites a file as [`align()`] does where that makes more text eligible, and copies it as
/// [`copy()`] does elsewhere.
///
/// # Errors
/// When the input cannot be read or the output cannot be written.
pub fn align_or_copy(
    input: &Path,
    output: &Path,
    fill: bool,
    writes: Writes,
) -> Result<Written, Error> {
    let written = match Rewrite::planned(input, fill) {
        Ok(rewrite) if rewrite.plan.eligible_bytes > rewrite.eligible_before => {
            return rewrite.write(input, output, writes).map(Written::Aligned);
        }
        Err(refused @ Error::Refused { .. }) if check::text_bytes(input)? >= SUPERPAGE => {
            Written::Refused(refused)
        }
        Ok(_) | Err(Error::NotAProgram { .. } | Error::Damaged { .. } | Error::Refused { .. }) => {
            Written::Copied
        }
        Err(error) => return Err(error),
    };
    copy(input, output, writes).map(|()| written)
}

/// A rewrite that is planned and not refused.
struct Rewrite {
    file: File,
    headers: Headers,
    plan: Plan,
    eligible_before: u64,
}

impl Rewrite {
    fn planned(input: &Path, fill: bool) -> Result<Rewrite, Error> {
        let file = read_elf::open(input)?;
        let headers = Headers::read(input, &file)?;
        if let Some(reason) = privileges(input, &file)? {
            return Err(Error::Refused { path: input.to_owned(), reason: reason.to_owned() });
        }
        let plan = align::plan(input, &file, &headers, fill)?;
        let eligible_before = check::total(&headers, &file).eligible_bytes;
        Ok(Rewrite { file, headers, plan, eligible_before })
    }

    fn write(self, input: &Path, output: &Path, writes: Writes) -> Result<Aligned, Error> {
        let Rewrite { file, headers, plan, eligible_before } = self;
        let text_bytes = headers.text_bytes();
        let source = Source {
            path: input,
            file: &file,
            patches: patches(input, &file, &headers, &plan)?,
            plan,
        };
        write(&file, output, source.plan.headers.file_bytes, writes, |buffer, at| {
            source.window(buffer, at)
        })?;
        let plan = &source.plan;
        Ok(Aligned {
            path: output.to_owned(),
            text_bytes,
            eligible_before,
            eligible_bytes: plan.eligible_bytes,
            eligible_pct: check::percent(plan.eligible_bytes, text_bytes),
            filled_bytes: plan.filled_bytes,
            growth_bytes: (plan.headers.file_bytes as i64).wrapping_sub(headers.file_bytes as i64),
        })
    }
}

/// Copies the bytes of a file as they are, and its owner and mode as [`align()`] does: set-user-id
/// bits go.
///
/// # Errors
/// When it is no regular file, cannot be read or cannot be written.
pub fn copy(input: &Path, output: &Path, writes: Writes) -> Result<(), Error> {
    let file = read_elf::open(input)?;
    let about = file.metadata().map_err(|source| Error::Read { path: input.to_owned(), source })?;
    write(&file, output, about.len(), writes, |buffer, at| {
        file.read_exact_at(buffer, at)
            .map_err(|source| Error::Read { path: input.to_owned(), source })
    })
}

/// What a file's programs may more than those who start them, and what to do before it is
/// rewritten.
pub(crate) fn privileges(path: &Path, file: &File) -> Result<Option<&'static str>, Error> {
    let about = file.metadata().map_err(|source| Error::Read { path: path.to_owned(), source })?;
    if about.mode() & 0o6000 != 0 {
        return Ok(Some(
            "it is set-user-id or set-group-id; take the bits away and set them again on the \
             output",
        ));
    }
    if sys::has_capabilities(file) {
        return Ok(Some(
            "it has file capabilities, which a copy loses; rewrite a copy and use setcap on the \
             output",
        ));
    }
    Ok(None)
}

/// Bytes that replace others at an offset of the output.
struct Patch {
    at: u64,
    bytes: Vec<u8>,
}

struct Source<'a> {
    path: &'a Path,
    file: &'a File,
    plan: Plan,
    patches: Vec<Patch>,
}

impl Source<'_> {
    /// The bytes of the output from offset `at` on.
    fn window(&self, buffer: &mut [u8], at: u64) -> Result<(), Error> {
        let end = at + buffer.len() as u64;
        buffer.fill(0);
        let moves = &self.plan.moves;
        for (index, part) in moves.iter().enumerate() {
            let size = part.from.end - part.from.start;
            let next = moves.get(index + 1);
            let gap = part.to + size..next.map_or(part.to + size, |next| next.to);
            if gap.start < end && at < gap.end {
                // Filler of the kind that was there, so that --fill finds it.
                let had = next.is_some_and(|next| next.from.start > part.from.end);
                let mut filler = [0];
                if had {
                    self.read(&mut filler, part.from.end)?;
                }
                let range = gap.start.max(at) - at..gap.end.min(end) - at;
                slice(buffer, range).fill(filler[0]);
            }
            if part.to < end && at < part.to + size {
                let (start, stop) = (part.to.max(at), (part.to + size).min(end));
                self.read(
                    slice(buffer, start - at..stop - at),
                    part.from.start + (start - part.to),
                )?;
            }
        }
        for patch in &self.patches {
            let (start, stop) = (patch.at.max(at), (patch.at + patch.bytes.len() as u64).min(end));
            if start < stop {
                let from = (start - patch.at) as usize..(stop - patch.at) as usize;
                slice(buffer, start - at..stop - at)
                    .copy_from_slice(patch.bytes.get(from).unwrap_or_default());
            }
        }
        Ok(())
    }

    fn read(&self, buffer: &mut [u8], at: u64) -> Result<(), Error> {
        self.file
            .read_exact_at(buffer, at)
            .map_err(|source| Error::Read { path: self.path.to_owned(), source })
    }
}

/// A part of a buffer; the callers have cut the range to it.
fn slice(buffer: &mut [u8], range: std::ops::Range<u64>) -> &mut [u8] {
    buffer.get_mut(range.start as usize..range.end as usize).unwrap_or_default()
}

/// The tables of the output: as in the input but for offsets, sizes of filled segments, and
/// alignments.
fn patches(path: &Path, file: &File, old: &Headers, plan: &Plan) -> Result<Vec<Patch>, Error> {
    let new = &plan.headers;
    let read = |at: u64, count: usize| {
        let mut bytes = vec![0; count];
        let done = file.read_exact_at(&mut bytes, at);
        done.map(|()| bytes).map_err(|source| Error::Read { path: path.to_owned(), source })
    };
    let mut header = read(0, 64)?;
    put(&mut header, 32, new.program_table);
    put(&mut header, 40, new.section_table);
    let mut programs = read(old.program_table, old.programs.len() * PROGRAM_BYTES as usize)?;
    for (entry, program) in programs.chunks_exact_mut(PROGRAM_BYTES as usize).zip(&new.programs) {
        put(entry, 8, program.offset);
        put(entry, 32, program.file_bytes);
        put(entry, 40, program.memory_bytes);
        put(entry, 48, program.align);
    }
    let mut patches =
        vec![Patch { at: 0, bytes: header }, Patch { at: new.program_table, bytes: programs }];
    if old.section_table != 0 {
        let mut sections = read(old.section_table, old.sections.len() * SECTION_BYTES as usize)?;
        for (entry, section) in sections.chunks_exact_mut(SECTION_BYTES as usize).zip(&new.sections)
        {
            put(entry, 24, section.offset);
        }
        patches.push(Patch { at: new.section_table, bytes: sections });
    }
    Ok(patches)
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    if let Some(field) = bytes.get_mut(at..at + 8) {
        field.copy_from_slice(&value.to_le_bytes());
    }
}

/// Writes `bytes` bytes beside `output`, syncs and renames.
fn write(
    input: &File,
    output: &Path,
    bytes: u64,
    writes: Writes,
    mut fill: impl FnMut(&mut [u8], u64) -> Result<(), Error>,
) -> Result<(), Error> {
    let fail =
        |what| move |source: io::Error| Error::Write { path: output.to_owned(), what, source };
    if fs::symlink_metadata(output).is_ok_and(|about| !about.is_file() && !about.is_symlink()) {
        let source = io::Error::from(io::ErrorKind::AlreadyExists);
        return Err(fail("something that is no file has this name")(source));
    }
    // A link stays a link; the file it leads to is replaced. /dev/stdout leads to no file that has
    // a name.
    let place = fs::canonicalize(output).unwrap_or_else(|_| output.to_owned());
    if fs::symlink_metadata(output).is_ok_and(|about| about.is_symlink())
        && !fs::metadata(&place).is_ok_and(|about| about.is_file())
    {
        let source = io::Error::from(io::ErrorKind::NotFound);
        return Err(fail("it is a link that leads to no file; name the file itself")(source));
    }
    let unfinished =
        beside::Unfinished::at(&place).map_err(fail("no file can be made in its folder"))?;
    let file = unfinished.file().map_err(fail("no file can be made in its folder"))?;
    let size = match writes {
        Writes::Large => SUPERPAGE,
        Writes::Small => 64 << 10,
    };
    let mut buffer = vec![0; SUPERPAGE as usize];
    let mut at = 0;
    while at < bytes {
        let count = SUPERPAGE.min(bytes - at);
        let window = slice(&mut buffer, 0..count);
        fill(window, at)?;
        for (index, piece) in window.chunks(size as usize).enumerate() {
            let to = at + index as u64 * size;
            file.write_all_at(piece, to).map_err(fail("writing failed"))?;
        }
        at += count;
    }
    let about = input.metadata().map_err(fail("the input's mode cannot be read"))?;
    // Only the superuser can give a file away; for others it is theirs.
    let _ = std::os::unix::fs::fchown(file, Some(about.uid()), Some(about.gid()));
    file.sync_all().map_err(fail("syncing failed"))?;
    unfinished
        .with_mode(about.mode() & 0o777)
        .finish()
        .map_err(fail("renaming into place failed"))?;
    Ok(())
}
