//! How is what programs print kept without filling a disk?
//!
//! A log holds the first and the last bytes of what was written to it; what came between is
//! dropped, and its size is told where it was. The first bytes go to the file as they come, the
//! last ones wait in memory until the log is finished.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Bytes kept of the start, and as many of the end.
pub const PART_BYTES: usize = 512 << 10;

/// A file that takes any number of bytes and grows to two parts at most.
#[derive(Debug)]
pub struct BoundedLog {
    file: File,
    /// What the start can still take.
    room: usize,
    part: usize,
    end: VecDeque<u8>,
    dropped: u64,
}

impl BoundedLog {
    /// Creates the file, or empties it.
    ///
    /// # Errors
    /// Where it cannot be created.
    pub fn create(path: &Path) -> io::Result<BoundedLog> {
        Ok(BoundedLog::new(beside::fresh(path)?, PART_BYTES))
    }

    fn new(file: File, part: usize) -> BoundedLog {
        BoundedLog { file, room: part, part, end: VecDeque::new(), dropped: 0 }
    }

    /// Writes the end, and how much is missing before it.
    ///
    /// # Errors
    /// Where the file does not take it.
    pub fn finish(mut self) -> io::Result<()> {
        self.complete()
    }

    fn complete(&mut self) -> io::Result<()> {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            writeln!(self.file, "\n[… {dropped} bytes of output are left out here …]")?;
        }
        let end = std::mem::take(&mut self.end);
        let (first, second) = end.as_slices();
        self.file.write_all(first)?;
        self.file.write_all(second)
    }
}

impl Write for BoundedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (begin, rest) = bytes.split_at(bytes.len().min(self.room));
        self.file.write_all(begin)?;
        self.room -= begin.len();
        // Of more than a part only the end can stay.
        let (lost, rest) = rest.split_at(rest.len().saturating_sub(self.part));
        let over = (self.end.len() + rest.len()).saturating_sub(self.part);
        self.end.drain(..over.min(self.end.len()));
        self.end.extend(rest);
        self.dropped += (lost.len() + over) as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for BoundedLog {
    /// A log nobody finished still has its end; there is nobody to tell of a failure.
    fn drop(&mut self) {
        let _ = self.complete();
    }
}

/// The last lines of a log, each cut to a sensible length and fit to be shown; `skip` lines at its
/// begin are not looked at.
pub fn last_lines(path: &Path, skip: usize, most: usize) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().skip(skip).filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(most)..].iter().map(|line| shown(line)).collect()
}

/// A line as a terminal may show it: no control characters, none that turn the direction of
/// writing, not too long.
pub fn shown(line: &str) -> String {
    shown_to(line, 300)
}

/// As [`shown`], with up to 4000 characters: the end of a message matters, too.
pub(crate) fn shown_message(line: &str) -> String {
    shown_to(line, 4000)
}

fn shown_to(line: &str, most_chars: usize) -> String {
    let mut text = String::new();
    let mut characters = line.trim_end().chars();
    for c in characters.by_ref().take(most_chars) {
        match c {
            '\t' => text.push(c),
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                text.extend(c.escape_unicode());
            }
            c if c.is_control() => text.extend(c.escape_default()),
            c => text.push(c),
        }
    }
    if characters.next().is_some() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(part: usize, writes: &[&[u8]]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = BoundedLog::new(beside::fresh(&path).unwrap(), part);
        writes.iter().for_each(|bytes| log.write_all(bytes).unwrap());
        log.finish().unwrap();
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_log_keeps_begin_and_end_and_says_what_is_missing() {
        assert_eq!(logged(4, &[b"ab", b"cdef"]), "abcdef");
        assert_eq!(logged(4, &[b"abcd", b"efgh"]), "abcdefgh");
        let expected = "abcd\n[… 3 bytes of output are left out here …]\nhijk";
        assert_eq!(logged(4, &[b"abcdefghijk"]), expected);
        assert_eq!(logged(4, &[b"ab", b"cdefg", b"h", b"ijk"]), expected);
    }

    #[test]
    fn what_is_shown_cannot_steer_a_terminal() {
        assert_eq!(shown("a\u{1b}[2Jb\u{202e}c\r\n"), "a\\u{1b}[2Jb\\u{202e}c");
        assert_eq!(shown(&"x".repeat(1000)).chars().count(), 301);
    }
}
