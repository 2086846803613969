//! Records as they lie in a ring: in two pieces where they reach over its end.
//!
//! Records and their fields of 8 bytes are aligned to 8 bytes, and so is the end of a ring: a field
//! never lies in both pieces, a record may.

use std::borrow::Cow;

/// Bytes in order, in one piece or two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'r> {
    pub one: &'r [u8],
    pub two: &'r [u8],
}

/// A record: its place in the span, and its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub at: usize,
    pub kind: u32,
    pub misc: u16,
    pub bytes: usize,
}

impl<'r> Span<'r> {
    /// Bytes that lie together.
    #[cfg(test)]
    pub(crate) fn of(bytes: &'r [u8]) -> Span<'r> {
        Span { one: bytes, two: &[] }
    }

    pub(crate) fn len(&self) -> usize {
        self.one.len() + self.two.len()
    }

    /// Eight bytes as a number; 0 where there are none.
    pub(crate) fn word(&self, at: usize) -> u64 {
        let end = at.saturating_add(8);
        let found = match at.checked_sub(self.one.len()) {
            None => self.one.get(at..end),
            Some(at) => self.two.get(at..at.saturating_add(8)),
        };
        found.and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes)
    }

    /// The part from `at` on, as far as it is there.
    pub(crate) fn part(&self, at: usize, bytes: usize) -> Span<'r> {
        let end = at.saturating_add(bytes).min(self.len());
        let at = at.min(end);
        let middle = self.one.len();
        Span {
            one: self.one.get(at.min(middle)..end.min(middle)).unwrap_or_default(),
            two: self
                .two
                .get(at.max(middle) - middle..end.max(middle) - middle)
                .unwrap_or_default(),
        }
    }

    /// The record at a place, as its header states its size; none where no whole one lies.
    pub(crate) fn header(&self, at: usize) -> Option<Header> {
        const LEAST: usize = 8;
        if at.saturating_add(LEAST) > self.len() {
            return None;
        }
        let word = self.word(at);
        let bytes = (word >> 48) as usize;
        let whole = bytes >= LEAST && at + bytes <= self.len();
        whole.then_some(Header { at, kind: word as u32, misc: (word >> 32) as u16, bytes })
    }

    /// The bytes, copied where they are in two pieces.
    pub(crate) fn bytes(&self) -> Cow<'r, [u8]> {
        if self.two.is_empty() {
            Cow::Borrowed(self.one)
        } else {
            Cow::Owned([self.one, self.two].concat())
        }
    }

    /// Appends the bytes to others.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.one);
        out.extend_from_slice(self.two);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_over_the_end_of_a_ring_read_as_one() {
        let words: Vec<u8> =
            [9u64 | 24 << 48, 7, 8, 1 | 8 << 48].iter().flat_map(|w| w.to_ne_bytes()).collect();
        for cut in [0, 8, 16, 24, 32] {
            let span = Span { one: &words[..cut], two: &words[cut..] };
            assert_eq!(span.header(0), Some(Header { at: 0, kind: 9, misc: 0, bytes: 24 }));
            assert_eq!((span.word(8), span.word(16), span.word(32)), (7, 8, 0));
            assert_eq!(span.header(24).map(|header| header.kind), Some(1));
            assert_eq!((span.header(32), span.header(8)), (None, None));
            assert_eq!(*span.part(8, 16).bytes(), words[8..24]);
            assert_eq!(*span.part(24, 99).bytes(), words[24..]);
        }
    }
}
