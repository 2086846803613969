//! What is an input that counts are made from? As far as its first bytes tell.

use crate::{Error, artefact, preaggregated, script};
use std::path::Path;

/// So many first bytes tell.
pub const HEAD_BYTES: u64 = 1 << 16;

/// Kinds of inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// perf.data, in its file or pipe form.
    Recording,
    /// What perf script prints.
    Script,
    /// Pre-aggregated text.
    Preaggregated,
    /// A counts artefact.
    Artefact,
}

impl Kind {
    /// The kind of the input `path`, which begins with `head`: [`HEAD_BYTES`], or all it has.
    ///
    /// # Errors
    /// Where it is empty, or text that counts nothing.
    pub fn of(path: &Path, head: &[u8]) -> Result<Kind, Error> {
        if head.is_empty() {
            return Err(Error::EmptyInput { path: path.to_owned() });
        }
        if head.starts_with(artefact::MAGIC) {
            return Ok(Kind::Artefact);
        }
        match of_text(head) {
            Some(kind) => Ok(kind),
            None if is_text(head) => Err(Error::NoCountsInText { path: path.to_owned() }),
            None => Ok(Kind::Recording),
        }
    }
}

/// Recordings hold NUL bytes from their header on; text does not.
fn of_text(head: &[u8]) -> Option<Kind> {
    if head.contains(&0) {
        return None;
    }
    let text = String::from_utf8_lossy(head);
    let mut lines = text.lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#')).take(1000);
    lines.find_map(|line| match line {
        l if script::looks_like(l) => Some(Kind::Script),
        l if preaggregated::looks_like(l) => Some(Kind::Preaggregated),
        _ => None,
    })
}

/// Recordings and artefacts hold control characters within their first bytes, text does not.
fn is_text(head: &[u8]) -> bool {
    // The first bytes of a recording's magic alone are a cut recording.
    let cut = b"PERFILE2".starts_with(head) || b"2ELIFREP".starts_with(head);
    !cut && !head.iter().take(1 << 10).any(|&b| b < 0x20 && !b.is_ascii_whitespace() && b != 0x1b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell_the_kind() {
        let kind = |head: &[u8]| Kind::of(Path::new("input"), head);
        assert_eq!(kind(b"PAR1\x15\x04").unwrap(), Kind::Artefact);
        assert_eq!(kind(b"PERFILE2\x68\0\0\0").unwrap(), Kind::Recording);
        assert_eq!(kind(b"PERF").unwrap(), Kind::Recording, "cut off");
        assert_eq!(kind(b"# comment\nB 401000 401010 3 0\n").unwrap(), Kind::Preaggregated);
        assert_eq!(kind(b"app 12 0x401000/0x401010/P/-/-/0\n").unwrap(), Kind::Script);
        assert!(matches!(kind(b"int main() {}\n"), Err(Error::NoCountsInText { .. })));
        assert!(matches!(kind(b""), Err(Error::EmptyInput { .. })));
    }
}
