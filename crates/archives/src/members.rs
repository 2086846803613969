//! Which files does an archive hold? Only regular ones, under paths that stay inside.
//!
//! Links are not followed and need not be: what a file is, its own bytes and its path tell. Long
//! names (GNU's and pax's) are read here and not by the tar library, which takes as much memory for
//! them as an archive asks for.

use crate::Packing;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// Most files, links and directories of an archive.
pub const MOST_MEMBERS: u64 = 1 << 18;
/// An archive may unpack to so many times its size, and some more. Recordings with copies of stacks
/// reach 30; this is where a bomb begins.
const MAX_RATIO: u64 = 256;
const RATIO_FREE_BYTES: u64 = 64 << 20;
/// Most bytes of a path, and of what stands before a file with a long one.
const PATH_BYTES: usize = 4096;
const EXTENSION_BYTES: u64 = 64 << 10;

/// What is wrong with an archive.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its bytes are damaged, or the visitor failed.
    #[error("after {members} members the archive is cut off or damaged: {source}")]
    Damaged {
        /// Members read before.
        members: u64,
        /// What happened.
        source: io::Error,
    },
    /// It unpacks to too much.
    #[error(
        "it unpacks from {packed} to more than {most} bytes, which no recording does; unpack it \
         yourself if you trust it"
    )]
    TooLarge {
        /// Its own bytes.
        packed: u64,
        /// What it may unpack to.
        most: u64,
    },
    /// It has too many members.
    #[error("it has more than {MOST_MEMBERS} members, more than any recording needs")]
    TooMany,
    /// A member's path leads out of it.
    #[error("member {number} is called {path:?}, which leads out of the archive; it is not read")]
    Outside {
        /// Its number, from 1.
        number: u64,
        /// What it is called.
        path: String,
    },
    /// A member's name is longer than any file's.
    #[error(
        "the name of member {number} has more than {PATH_BYTES} bytes; no file has such a name"
    )]
    LongName {
        /// Its number, from 1.
        number: u64,
    },
}

/// A file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its path, of plain components only.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Members that are no regular files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Symbolic and hard links.
    pub links: u64,
    /// Devices, pipes, files with holes.
    pub special: u64,
}

/// Fails, and does not just end, at its limit.
struct Meter<R> {
    stream: R,
    left: u64,
    over: bool,
}

impl<R: Read> Read for &mut Meter<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => {
                self.over = true;
                return Err(io::Error::other("too large"));
            }
        }
        Ok(read)
    }
}

/// Shows each regular file of an archive to `visit`, which reads as much of it as it likes;
/// `packed_bytes` is the size of the whole, which bounds what it may unpack to.
///
/// # Errors
/// Where it is damaged, unpacks to too much, or names a place outside of it; and where `visit`
/// fails.
pub fn read(
    packed: impl Read,
    packing: Packing,
    packed_bytes: u64,
    visit: &mut dyn FnMut(&Member, &mut dyn Read) -> io::Result<()>,
) -> Result<Skipped, Error> {
    let most = packed_bytes.saturating_mul(MAX_RATIO).saturating_add(RATIO_FREE_BYTES);
    let damaged = |members| move |source| Error::Damaged { members, source };
    let stream = packing.unpack(packed).map_err(damaged(0))?;
    let mut meter = Meter { stream, left: most, over: false };
    let done = members(&mut meter, visit);
    if meter.over { Err(Error::TooLarge { packed: packed_bytes, most }) } else { done }
}

fn members(
    stream: impl Read,
    visit: &mut dyn FnMut(&Member, &mut dyn Read) -> io::Result<()>,
) -> Result<Skipped, Error> {
    let mut skipped = Skipped::default();
    let mut archive = tar::Archive::new(stream);
    let damaged = |members| move |source| Error::Damaged { members, source };
    let mut long_name = None;
    let mut number = 0u64;
    for entry in archive.entries().map_err(damaged(0))?.raw(true) {
        let mut entry = entry.map_err(damaged(number))?;
        number += 1;
        if number > MOST_MEMBERS {
            return Err(Error::TooMany);
        }
        let kind = entry.header().entry_type();
        if kind.is_gnu_longname() || kind.is_pax_local_extensions() {
            let mut bytes = Vec::new();
            let mut extension = entry.by_ref().take(EXTENSION_BYTES + 1);
            extension.read_to_end(&mut bytes).map_err(damaged(number))?;
            if bytes.len() as u64 > EXTENSION_BYTES {
                return Err(Error::LongName { number });
            }
            let name = if kind.is_gnu_longname() {
                bytes.split(|&byte| byte == 0).next().map(<[u8]>::to_vec)
            } else {
                pax_path(&bytes, number)?
            };
            long_name = name.or(long_name);
            continue;
        }
        if kind.is_gnu_longlink() || kind.is_pax_global_extensions() {
            continue;
        }
        let name = long_name.take().unwrap_or_else(|| entry.path_bytes().into_owned());
        let path = inside(&name, number)?;
        match () {
            () if kind.is_file() || kind.is_contiguous() => {
                let member = Member { path, bytes: entry.size() };
                visit(&member, &mut entry).map_err(damaged(number))?;
            }
            () if kind.is_symlink() || kind.is_hard_link() => skipped.links += 1,
            () if kind.is_dir() => {}
            () => skipped.special += 1,
        }
    }
    // No archive is that empty, and what is compressed may be anything.
    if number == 0 {
        let empty = io::Error::new(io::ErrorKind::InvalidData, "it holds no tar archive");
        return Err(damaged(0)(empty));
    }
    Ok(skipped)
}

/// The path that a pax header states.
fn pax_path(bytes: &[u8], number: u64) -> Result<Option<Vec<u8>>, Error> {
    let mut path = None;
    for extension in tar::PaxExtensions::new(bytes) {
        let extension = extension.map_err(|source| Error::Damaged { members: number, source })?;
        match extension.key_bytes() {
            b"path" => path = Some(extension.value_bytes().to_vec()),
            // The header's own size is then another, and what follows would be misread.
            b"size" => {
                let source = io::Error::other("files of 8 GiB and more need GNU's format of tar");
                return Err(Error::Damaged { members: number, source });
            }
            _ => {}
        }
    }
    Ok(path)
}

/// The path of a member, which must stay inside.
fn inside(name: &[u8], number: u64) -> Result<PathBuf, Error> {
    if name.len() > PATH_BYTES {
        return Err(Error::LongName { number });
    }
    let mut path = PathBuf::new();
    for part in Path::new(OsStr::from_bytes(name)).components() {
        match part {
            Component::Normal(part) if !part.as_bytes().contains(&0) => path.push(part),
            Component::CurDir => {}
            _ => {
                let path = String::from_utf8_lossy(name).into_owned();
                return Err(Error::Outside { number, path });
            }
        }
    }
    Ok(path)
}
