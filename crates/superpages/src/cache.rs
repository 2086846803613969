//! Puts the text of a file into superpages of the page cache, and keeps it there.
//!
//! The kernel caches a file in pages of the size in which it was first read or written. So cached
//! small pages are dropped and read again through a mapping that asks for superpages. What cannot
//! be dropped (pages mapped by running processes) stays small; then only a new file helps. Cached
//! superpages can be split when memory is short; locked ones cannot be reclaimed.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::check::{SUPERPAGE, Size, down, eligible, up};
use crate::elf::Headers;
use crate::process::{User, users};
use crate::sys::{self, Advice, From, Map};
use crate::{Error, verify};

/// What became of a file's text in the page cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Warmed {
    /// The file.
    pub path: PathBuf,
    /// Bytes of text.
    pub text_bytes: u64,
    /// Bytes of text at superpage-congruent offsets, in whole superpages.
    pub eligible_bytes: u64,
    /// Bytes that lay on superpages before.
    pub before_bytes: u64,
    /// Bytes that lie on superpages now.
    pub after_bytes: u64,
    /// Who has the file mapped, when not all went well: their pages cannot be dropped.
    pub busy: Vec<User>,
}

impl Warmed {
    /// Whether everything eligible lies on superpages.
    pub fn is_whole(&self) -> bool {
        self.after_bytes >= self.eligible_bytes
    }
}

/// Warms each file once; names that lead to one file are one file.
///
/// # Errors
/// Where there is no file, or one cannot be read.
pub fn warm_all(mut files: Vec<PathBuf>) -> Result<Vec<Warmed>, Error> {
    for file in &mut files {
        *file = file.canonicalize().unwrap_or_else(|_| file.clone());
    }
    files.sort();
    files.dedup();
    if files.is_empty() {
        return Err(Error::NoFiles);
    }
    files.iter().map(|file| warm(file)).collect()
}

/// A run of whole superpages in a file.
#[derive(Clone, Copy, Debug)]
struct Span {
    offset: u64,
    bytes: u64,
}

struct Text {
    file: File,
    file_bytes: u64,
    text_bytes: u64,
    spans: Vec<Span>,
}

fn text(path: &Path) -> Result<Text, Error> {
    let file = crate::read_elf::open(path)?;
    let headers = Headers::read(path, &file)?;
    let size = Size::of(headers.arch).first().copied();
    let span = |text: &crate::elf::Program| {
        let range = eligible(&headers, text, size?)?;
        // The superpages that hold it; its offsets agree with its addresses.
        let (start, end) = (down(range.start, SUPERPAGE), up(range.end, SUPERPAGE));
        Some(Span {
            offset: text.offset.wrapping_add(start.wrapping_sub(text.address)),
            bytes: end - start,
        })
    };
    let spans = headers.texts().filter_map(span).collect();
    Ok(Text { file_bytes: headers.file_bytes, text_bytes: headers.text_bytes(), spans, file })
}

/// Maps a span, asks for superpages, touches it, and says how many bytes lie on superpages.
fn map(text: &Text, span: Span) -> Result<(Map, u64), Error> {
    let system = |action: &str| {
        let action = action.to_owned();
        move |source| Error::System { action, source }
    };
    let bytes = usize::try_from(span.bytes).unwrap_or(usize::MAX);
    let map = Map::new(From::File(&text.file, span.offset), bytes, SUPERPAGE as usize, false)
        .map_err(system("the file cannot be mapped"))?;
    map.advise(Advice::Huge).map_err(system(
        "the kernel refuses MADV_HUGEPAGE (it was built without transparent superpages, or they \
         are off)",
    ))?;
    let limit = usize::try_from(text.file_bytes.saturating_sub(span.offset)).unwrap_or(usize::MAX);
    map.touch(SUPERPAGE as usize, limit);
    let huge = verify::own_superpage_bytes(map.address(), span.bytes)?;
    Ok((map, huge))
}

/// Puts the eligible text of a file into superpages of the page cache.
///
/// # Errors
/// When the file cannot be read or is no program or library, or the kernel knows no superpages.
/// That some text stays in small pages is no error; [`Warmed::is_whole`] says it.
pub fn warm(path: &Path) -> Result<Warmed, Error> {
    let text = text(path)?;
    let (mut eligible, mut before, mut after) = (0, 0, 0);
    for &span in &text.spans {
        eligible += span.bytes;
        // Page by page, so that superpages that are there stay, and what is mapped elsewhere costs
        // only itself.
        let (whole, huge) = map(&text, span)?;
        drop(whole);
        before += huge;
        after += if huge == span.bytes { huge } else { refault(&text, span)? };
    }
    let whole = after >= eligible;
    Ok(Warmed {
        path: path.to_owned(),
        text_bytes: text.text_bytes,
        eligible_bytes: eligible,
        before_bytes: before,
        after_bytes: after,
        busy: if whole { Vec::new() } else { users(path) },
    })
}

/// Drops what is cached in small pages and reads it again. Returns the bytes on superpages
/// afterwards.
fn refault(text: &Text, span: Span) -> Result<u64, Error> {
    // Dirty pages cannot be dropped. That a sync fails (read-only file systems have nothing to
    // sync) shows in the result.
    let _ = text.file.sync_all();
    let mut huge = 0;
    let mut at = 0;
    while at < span.bytes {
        let one = Span { offset: span.offset + at, bytes: SUPERPAGE };
        let (map_of_one, mut got) = map(text, one)?;
        drop(map_of_one);
        // Freshly read pages may sit in a CPU's list for a moment and then stay; a second try finds
        // them dropped.
        for _ in 0..3 {
            if got == one.bytes {
                break;
            }
            sys::drop_cached(&text.file, one.offset, one.bytes).map_err(|source| {
                Error::System {
                    action: "the kernel refuses to drop cached pages (POSIX_FADV_DONTNEED)".into(),
                    source,
                }
            })?;
            got = map(text, one)?.1;
        }
        huge += got;
        at += SUPERPAGE;
    }
    Ok(huge)
}

/// Text that stays in memory, on its superpages, as long as this value lives.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    /// Device and inode of the file that is held.
    identity: (u64, u64),
    /// Bytes that are locked.
    pub locked_bytes: u64,
    /// Bytes of them on superpages when they were locked.
    pub superpage_bytes: u64,
    _maps: Vec<Map>,
}

impl Kept {
    /// Whether another file has the path now, or none.
    pub fn is_replaced(&self) -> bool {
        std::fs::metadata(&self.path)
            .map_or(true, |about| (about.dev(), about.ino()) != self.identity)
    }
}

/// Locks the eligible text of a file, which should be warm, into memory.
///
/// # Errors
/// As [`warm`], and when the kernel does not allow to lock that much.
pub fn keep(path: &Path) -> Result<Kept, Error> {
    let text = text(path)?;
    let about =
        text.file.metadata().map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let wanted: u64 = text.spans.iter().map(|span| span.bytes).sum();
    let mut kept = Kept {
        path: path.to_owned(),
        identity: (about.dev(), about.ino()),
        locked_bytes: 0,
        superpage_bytes: 0,
        _maps: Vec::new(),
    };
    for &span in &text.spans {
        let (map, huge) = map(&text, span)?;
        map.lock().map_err(|source| {
            let limit = sys::lock_limit()
                .map_or_else(|| "unlimited".to_owned(), |limit| format!("{} KiB", limit >> 10));
            let action = format!(
                "{}: {wanted} bytes cannot be locked (mlock; RLIMIT_MEMLOCK is {limit}); raise \
                 LimitMEMLOCK= of the unit or ulimit -l, or give CAP_IPC_LOCK",
                path.display()
            );
            Error::System { action, source }
        })?;
        kept.locked_bytes += map.bytes() as u64;
        kept.superpage_bytes += huge;
        kept._maps.push(map);
    }
    Ok(kept)
}
