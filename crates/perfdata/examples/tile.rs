//! Makes a large recording of a small one: its records again and again, each time later than before.
//!
//! `tile IN OUT BYTES [FILES]`: the records of IN until OUT has at least so many bytes of them. IN
//! is one uncompressed file of one byte order. With FILES, OUT is a directory recording, as of
//! `perf record --threads`: the first tile goes to `data`, the others in turns to so many files
//! data.N. What the recorder wrote about the time before the recording stands in the first tile
//! alone. For measurements; the features of IN are kept, and a directory has the one that names its
//! form, without which perf opens none.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a tool for measurements")]

use perfdata::{Input, attr_flag, feature, kind, raw_records, sample_type as st};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::ops::Range;
use std::path::Path;

/// The records of a recording, and where their times are.
struct Tile {
    bytes: Vec<u8>,
    times: Vec<usize>,
    /// From the first to behind the last time.
    span: u64,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn set(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

impl Tile {
    /// `whole` is the file of `input`; `data` says where in it the records are.
    fn of(input: &Input, whole: &[u8], data: Range<usize>) -> Tile {
        let attr = &input.attrs()[0];
        assert!(attr.flags & attr_flag::SAMPLE_ID_ALL != 0 && attr.sample_type & st::TIME != 0);
        let count = |bits: u64| 8 * (attr.sample_type & bits).count_ones() as usize;
        let in_sample = 8 + count(st::IDENTIFIER | st::IP | st::TID);
        let from_end = count(st::TIME | st::ID | st::STREAM_ID | st::CPU | st::IDENTIFIER);
        let mut tile = Tile { bytes: whole[data].to_vec(), times: Vec::new(), span: 0 };
        for raw in raw_records(&tile.bytes, 0, input.endian()) {
            let at = raw.offset as usize;
            match raw.kind {
                kind::SAMPLE => tile.times.push(at + in_sample),
                // Later ones are written by the recorder and have no time.
                other if other < kind::USER => tile.times.push(at + 8 + raw.body.len() - from_end),
                _ => {}
            }
        }
        let known = tile.times.iter().map(|&at| word(&tile.bytes, at)).filter(|time| *time > 0);
        let (first, last) = known.fold((u64::MAX, 0), |(a, b), t| (a.min(t), b.max(t)));
        tile.span = last - first + 1;
        tile
    }

    /// The records of the time of the recording alone.
    fn without_begin(&self, input: &Input) -> Tile {
        let mut rest = Tile { bytes: Vec::new(), times: Vec::new(), span: self.span };
        let mut times = self.times.iter().peekable();
        for raw in raw_records(&self.bytes, 0, input.endian()) {
            let (begin, end) = (raw.offset as usize, raw.offset as usize + 8 + raw.body.len());
            let time = times.next_if(|at| (begin..end).contains(*at)).copied();
            if time.is_some_and(|at| word(&self.bytes, at) == 0) {
                continue;
            }
            rest.times.extend(time.map(|at| rest.bytes.len() + at - begin));
            rest.bytes.extend(&self.bytes[begin..end]);
        }
        rest
    }

    fn later(&mut self, by: u64) {
        for &at in &self.times {
            let now = word(&self.bytes, at);
            if now > 0 {
                set(&mut self.bytes, at, now + by);
            }
        }
    }
}

/// Adds to the features of a header that this is a directory, of perf's version 1. `rest` begins at
/// `from` in the file, with the sections of so many features.
fn name_form(head: &mut [u8], rest: &mut Vec<u8>, from: u64, features: u32) {
    let (known, bit) = (word(head, 72), 1 << feature::DIR_FORMAT);
    if known & bit != 0 {
        return;
    }
    set(head, 72, known | bit);
    for section in 0..features as usize {
        let offset = word(rest, 16 * section);
        set(rest, 16 * section, offset + 16);
    }
    rest.extend(1_u64.to_le_bytes());
    let offset = from + rest.len() as u64 + 16 - 8;
    let before = 16 * (known & (bit - 1)).count_ones() as usize;
    rest.splice(before..before, [offset, 8].into_iter().flat_map(u64::to_le_bytes));
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let (from, to, wanted, files) = match words.as_slice() {
        [_, from, to, bytes] => (from, to, bytes, None),
        [_, from, to, bytes, files] => (from, to, bytes, Some(files.parse::<usize>().unwrap())),
        _ => panic!("tile IN OUT BYTES [FILES]"),
    };
    let wanted: u64 = wanted.parse().unwrap();
    let input = Input::open(Path::new(from)).unwrap();
    let whole = std::fs::read(from).unwrap();
    // struct perf_file_header: the data section is at 40, its size at 48.
    let (begin, size) = (word(&whole, 40) as usize, word(&whole, 48) as usize);
    let first = Tile::of(&input, &whole, begin..begin + size);
    let mut tile = first.without_begin(&input);
    let more = wanted.saturating_sub(size as u64).div_ceil(tile.bytes.len() as u64);
    let create = |path: &Path| BufWriter::new(File::create(path).unwrap());
    let to = Path::new(to);
    let mut others = Vec::new();
    let mut out = match files {
        None => create(to),
        Some(files) => {
            std::fs::create_dir_all(to).unwrap();
            others.extend((0..files).map(|file| create(&to.join(format!("data.{file}")))));
            create(&to.join("data"))
        }
    };
    let grown = if files.is_some() { 0 } else { more * tile.bytes.len() as u64 };
    let mut head = whole[..begin].to_vec();
    set(&mut head, 48, size as u64 + grown);
    // A table of sections, one for each bit of the header's features, then what they hold.
    let mut rest = whole[begin + size..].to_vec();
    let features: u32 = (72..104).step_by(8).map(|at| word(&whole, at).count_ones()).sum();
    for section in 0..features as usize {
        let offset = word(&rest, 16 * section);
        set(&mut rest, 16 * section, offset + grown);
    }
    if files.is_some() {
        name_form(&mut head, &mut rest, (begin + size) as u64, features);
    }
    out.write_all(&head).unwrap();
    out.write_all(&first.bytes).unwrap();
    for number in 0..more as usize {
        tile.later(tile.span);
        let turn = number.checked_rem(others.len());
        let to = turn.and_then(|turn| others.get_mut(turn)).unwrap_or(&mut out);
        to.write_all(&tile.bytes).unwrap();
    }
    out.write_all(&rest).unwrap();
    others.into_iter().chain([out]).for_each(|mut out| out.flush().unwrap());
}
