//! Names of code that a program made while it ran, from the text of its `perf-PID.map`.
//!
//! Input: lines `START SIZE NAME`, the numbers in hex; a line holds for its addresses until a later
//! line names them anew, since programs put new code where old code was. Output: a sorted list of
//! places where another line begins to hold, so that a look-up is one binary search. Cost:
//! O(n log n) of n lines, however they overlap; at most two places a line. Source: `jit-interface`
//! in Linux's `tools/perf/Documentation`.

use perfdata::RuntimeAddr;
use std::borrow::Cow;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Lines that are used at most; each takes about 80 bytes.
const MOST_LINES: usize = 1 << 22;

/// Makes, of a process, the map that it wrote; none where it wrote none, else why it is not used.
pub type MapOpener<'o> = dyn Fn(i32) -> Option<Result<PerfMap, String>> + 'o;

/// The functions that a process made, by address.
#[derive(Clone, Debug, Default)]
pub struct PerfMap {
    text: Vec<u8>,
    /// Where in the text the name of each line stands.
    names: Vec<Range<u32>>,
    /// From each address on, the number of the line that holds, if any.
    places: Vec<(u64, Option<u32>)>,
    damaged: u64,
    left_out: u64,
}

impl PerfMap {
    /// Reads the text of a map.
    pub fn parse(text: Vec<u8>) -> PerfMap {
        PerfMap::with_at_most(text, MOST_LINES)
    }

    fn with_at_most(text: Vec<u8>, most: usize) -> PerfMap {
        let mut map = PerfMap::default();
        let mut pieces = Vec::new();
        let mut begin = 0usize;
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            let at = begin;
            begin += line.len();
            let line = line.trim_ascii_end();
            if line.is_empty() {
                continue;
            }
            match parsed(line) {
                Some(_) if map.names.len() >= most => map.left_out += 1,
                Some((start, end, name)) => match (u32::try_from(at), u32::try_from(line.len())) {
                    (Ok(at), Ok(length)) if at.checked_add(length).is_some() => {
                        pieces.push(Piece { start, end, line: map.names.len() as u32 });
                        map.names.push(at + name..at + length);
                    }
                    _ => map.left_out += 1,
                },
                None => map.damaged += 1,
            }
        }
        map.places = places(pieces);
        map.text = text;
        map
    }

    /// The function at an address.
    pub fn find(&self, address: RuntimeAddr) -> Option<Cow<'_, str>> {
        let after = self.places.partition_point(|(start, _)| *start <= address.0);
        let (_, line) = self.places.get(after.checked_sub(1)?)?;
        let name = self.names.get((*line)? as usize)?;
        let name = self.text.get(name.start as usize..name.end as usize)?;
        Some(String::from_utf8_lossy(name))
    }

    /// Lines that are not of the form `START SIZE NAME`.
    pub fn damaged_lines(&self) -> u64 {
        self.damaged
    }

    /// Lines for which there was no room.
    pub fn lines_left_out(&self) -> u64 {
        self.left_out
    }
}

/// What a line names: first address, the one behind the last, and where in the line the name is.
fn parsed(line: &[u8]) -> Option<(u64, u64, u32)> {
    let (start, rest) = number(line.trim_ascii_start())?;
    let (size, rest) = number(rest)?;
    let end = start.checked_add(size).filter(|end| *end > start)?;
    let name = u32::try_from(line.len().checked_sub(rest.len())?).ok()?;
    (!rest.is_empty()).then_some((start, end, name))
}

/// A hexadecimal number, and what follows it and its blanks.
fn number(line: &[u8]) -> Option<(u64, &[u8])> {
    let blank = line.iter().position(|byte| matches!(byte, b' ' | b'\t'))?;
    let (digits, rest) = line.split_at_checked(blank)?;
    let bare = digits.strip_prefix(b"0x").or(digits.strip_prefix(b"0X")).unwrap_or(digits);
    let plain = bare.iter().all(u8::is_ascii_hexdigit);
    let value = u64::from_str_radix(std::str::from_utf8(bare).ok().filter(|_| plain)?, 16).ok()?;
    Some((value, rest.trim_ascii_start()))
}

struct Piece {
    start: u64,
    end: u64,
    line: u32,
}

/// Sweeps over the addresses; of the lines that hold, the last one is at the top of the heap.
fn places(mut pieces: Vec<Piece>) -> Vec<(u64, Option<u32>)> {
    pieces.sort_unstable_by_key(|piece| (piece.start, piece.line));
    let mut places: Vec<(u64, Option<u32>)> = Vec::new();
    let mut note = |at: u64, line: Option<u32>| match places.last_mut() {
        Some(last) if last.0 == at => last.1 = line,
        Some(last) if last.1 == line => {}
        _ => places.push((at, line)),
    };
    let mut open: BinaryHeap<(u32, u64)> = BinaryHeap::new();
    let close_until =
        |open: &mut BinaryHeap<(u32, u64)>, until: u64, note: &mut dyn FnMut(u64, Option<u32>)| {
            while let Some(&(_, end)) = open.peek() {
                if end > until {
                    return;
                }
                // Lines below the top may have ended before it did.
                while open.peek().is_some_and(|&(_, below)| below <= end) {
                    open.pop();
                }
                note(end, open.peek().map(|(line, _)| *line));
            }
        };
    for piece in &pieces {
        close_until(&mut open, piece.start, &mut note);
        open.push((piece.line, piece.end));
        note(piece.start, open.peek().map(|(line, _)| *line));
    }
    close_until(&mut open, u64::MAX, &mut note);
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(map: &PerfMap, address: u64) -> Option<String> {
        map.find(RuntimeAddr(address)).map(Cow::into_owned)
    }

    #[test]
    fn names_may_hold_blanks_and_anything_else() {
        let text = b"10 10 LazyCompile:~f file.js:1\n0x30 0x8 \xff<b>\n 40\t8 a\r\n\n";
        let map = PerfMap::parse(text.to_vec());
        assert_eq!(name(&map, 0x10).as_deref(), Some("LazyCompile:~f file.js:1"));
        assert_eq!(name(&map, 0x1f).as_deref(), Some("LazyCompile:~f file.js:1"));
        assert_eq!([name(&map, 0xf), name(&map, 0x20)], [None, None]);
        assert_eq!(name(&map, 0x30).as_deref(), Some("\u{fffd}<b>"));
        assert_eq!(name(&map, 0x40).as_deref(), Some("a"));
        assert_eq!((map.damaged_lines(), map.lines_left_out()), (0, 0));
    }

    #[test]
    fn damaged_lines_are_counted_and_harm_no_other() {
        let wrong = ["10", "10 10", "10 10 ", "x 10 f", "10 -1 f", "+1 1 f", "10 0 f", "1  "];
        let wrong = [&wrong[..], &["ffffffffffffffff 2 f", "11111111111111111 1 f"]].concat();
        let text = format!("{}\n10 1 good", wrong.join("\n"));
        let map = PerfMap::parse(text.into_bytes());
        assert_eq!(map.damaged_lines(), wrong.len() as u64);
        assert_eq!(name(&map, 0x10).as_deref(), Some("good"));
        let two = PerfMap::with_at_most(b"1 1 a\n2 1 b\n3 1 c\n".to_vec(), 2);
        assert_eq!((name(&two, 2).is_some(), name(&two, 3)), (true, None));
        assert_eq!(two.lines_left_out(), 1);
    }

    proptest! {
        #[test]
        fn the_last_line_that_holds_an_address_names_it(
            lines in prop::collection::vec((0u64..60, 1u64..30), 0..40),
        ) {
            let text: String = (0..)
                .zip(&lines)
                .map(|(number, (start, size))| format!("{start:x} {size:x} f{number}\n"))
                .collect();
            let map = PerfMap::parse(text.into_bytes());
            for address in 0..100u64 {
                let holds = |(start, size): &(u64, u64)| (*start..start + size).contains(&address);
                let last = lines.iter().rposition(holds).map(|number| format!("f{number}"));
                prop_assert_eq!(name(&map, address), last, "{}", address);
            }
            prop_assert!(map.places.len() <= 2 * lines.len());
        }
    }
}
