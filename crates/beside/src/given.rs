//! How is a file read that somebody named? Only where it is a regular file, and no more of it than
//! is sensible.
//!
//! A device gives bytes for ever, a pipe that nobody writes to makes its reader wait for ever, and
//! a file of holes is as large as it says. So what a name leads to is asked before it is opened,
//! and a file is read to a limit.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Most bytes of a file of settings or of results that people also read: 64 MiB.
pub const TEXT: u64 = 64 << 20;
/// Most bytes of a profile, a layout, an object or a program that is held in memory: 4 GiB.
pub const DATA: u64 = 4 << 30;

/// Opens a regular file.
///
/// # Errors
/// Where there is none, or it is something else; the message says what.
pub fn open(path: &Path) -> io::Result<File> {
    check(path)?;
    File::open(path)
}

/// Opens a regular file that is there, to write into it; makes none.
///
/// # Errors
/// As [`open`].
pub fn fill(path: &Path) -> io::Result<File> {
    check(path)?;
    File::options().write(true).open(path)
}

/// Says of what is no regular file what it is.
///
/// # Errors
/// Where there is nothing, or something else.
pub fn check(path: &Path) -> io::Result<()> {
    let kind = std::fs::metadata(path)?.file_type();
    let what = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("not a regular file but {what}")))
}

/// The content of a regular file of at most `most` bytes.
///
/// # Errors
/// Where it is none, cannot be read, or is larger.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    content(&open(path)?, most)
}

fn content(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let stated = file.metadata()?.len();
    let too_large = || {
        let found = format!(
            "{} MiB, more than the {} MiB that are read of such a file",
            stated >> 20,
            most >> 20
        );
        io::Error::new(ErrorKind::FileTooLarge, found)
    };
    if stated > most {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // What somebody appends meanwhile, and what files of /proc hold, is not in the stated size.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes) }
}

/// The content of a regular file of at most `most` bytes that lies where others may write too: no
/// link, and our own, root's, or that of the user `other`.
///
/// # Errors
/// As [`read`], and where it is a link or somebody else's.
pub fn read_trusted(path: &Path, most: u64, other: Option<u32>) -> io::Result<Vec<u8>> {
    content(&open_trusted(path, other)?, most)
}

/// Opens a file as [`read_trusted`] does.
///
/// # Errors
/// As [`open`], and where it is a link or somebody else's.
pub fn open_trusted(path: &Path, other: Option<u32>) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    // What the name leads to may change before it is opened, so that the opened file is asked.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    if std::fs::symlink_metadata(path)?.file_type().is_symlink() {
        let link = "a symbolic link, which is not followed here";
        return Err(io::Error::new(ErrorKind::InvalidInput, link));
    }
    check(path)?;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let found = file.metadata()?;
    let refused = |why: String| io::Error::new(ErrorKind::PermissionDenied, why);
    if !found.is_file() {
        return Err(refused("not a regular file".to_owned()));
    }
    let uid = found.uid();
    let trusted = [Some(0), Some(rustix::process::geteuid().as_raw()), other];
    if !trusted.contains(&Some(uid)) {
        return Err(refused(format!("of user {uid}, not of yours, root's or the recording's")));
    }
    Ok(file)
}

/// The text of a regular file of at most `most` bytes.
///
/// # Errors
/// As [`read`], and where the bytes are no text.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let not_text = |error: std::string::FromUtf8Error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(
            ErrorKind::InvalidData,
            format!("no text: the byte at offset {at} is not UTF-8"),
        )
    };
    String::from_utf8(read(path, most)?).map_err(not_text)
}

/// A stream that fails, and does not just end, at its limit.
#[derive(Debug)]
pub struct Bounded<R> {
    stream: R,
    limit: u64,
    left: u64,
}

impl<R: Read> Bounded<R> {
    /// A stream that gives at most `limit` bytes.
    pub fn new(stream: R, limit: u64) -> Bounded<R> {
        Bounded { stream, limit, left: limit }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // At the limit one byte more tells the end from more.
        let most = usize::try_from(self.left.max(1)).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.stream.read(buffer.get_mut(..most).unwrap_or_default())?;
        match self.left.checked_sub(read as u64) {
            Some(left) => {
                self.left = left;
                Ok(read)
            }
            None => Err(io::Error::new(
                ErrorKind::FileTooLarge,
                format!(
                    "it gives more than {} MiB, the most that is read of a pipe; give a file",
                    self.limit >> 20
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics fails")]

    use super::*;

    #[test]
    fn only_regular_files_are_read_and_only_to_the_limit() {
        let refused = |path: &Path| read(path, 10).unwrap_err().to_string();
        assert_eq!(refused(Path::new("/dev/zero")), "not a regular file but a device");
        assert_eq!(refused(Path::new("/")), "not a regular file but a directory");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, b"0123456789").unwrap();
        assert_eq!(read_text(&path, 10).unwrap(), "0123456789");
        assert_eq!(read(&path, 9).unwrap_err().kind(), ErrorKind::FileTooLarge);
        std::fs::write(&path, b"01\xff").unwrap();
        assert!(read_text(&path, 10).unwrap_err().to_string().contains("offset 2"));
        let holes = File::create(&path).unwrap();
        holes.set_len(1 << 40).unwrap();
        assert!(read(&path, DATA).unwrap_err().to_string().contains("4096 MiB"), "not read at all");
        // Files of /proc say that they are empty.
        assert!(!read(Path::new("/proc/self/status"), TEXT).unwrap().is_empty());
    }

    #[test]
    fn a_stream_ends_with_an_error_at_its_limit() {
        let mut bytes = Vec::new();
        let endless = Bounded::new(io::repeat(7), 3 << 20).read_to_end(&mut bytes).unwrap_err();
        assert!(endless.to_string().contains("more than 3 MiB"), "{endless}");
        assert_eq!(bytes.len(), 3 << 20);
        bytes.clear();
        Bounded::new(&b"whole"[..], 5).read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"whole");
    }
}
