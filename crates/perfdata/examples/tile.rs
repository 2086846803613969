//! Makes a large recording of a small one: its records again and again, each time later than before.
//!
//! `tile IN OUT BYTES`: the records of IN until OUT has at least so many bytes of them. IN is one
//! uncompressed file of one byte order. For measurements; the features of IN are kept.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a tool for measurements")]

use perfdata::{Input, attr_flag, raw_records, sample_type as st};
use std::io::{BufWriter, Write as _};
use std::path::Path;

/// Records of a kind from here on are written by the recorder and have no time.
const FIRST_OF_THE_RECORDER: u32 = 64;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, from, to, bytes] = words.as_slice() else { panic!("tile IN OUT BYTES") };
    let wanted: u64 = bytes.parse().unwrap();
    let input = Input::open(Path::new(from)).unwrap();
    let whole = std::fs::read(from).unwrap();
    let word = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().unwrap());
    // struct perf_file_header: the data section is at 40, its size at 48.
    let (begin, size) = (word(40) as usize, word(48) as usize);
    let attr = &input.attrs()[0];
    assert!(attr.flags & attr_flag::SAMPLE_ID_ALL != 0 && attr.sample_type & st::TIME != 0);
    let count = |bits: u64| 8 * (attr.sample_type & bits).count_ones() as usize;
    let in_sample = 8 + count(st::IDENTIFIER | st::IP | st::TID);
    let from_end = count(st::TIME | st::ID | st::STREAM_ID | st::CPU | st::IDENTIFIER);
    let mut tile = whole[begin..begin + size].to_vec();
    let mut times = Vec::new();
    for raw in raw_records(&tile, 0, input.endian()) {
        let at = raw.offset as usize;
        let length = 8 + raw.body.len();
        match raw.kind {
            perfdata::kind::SAMPLE => times.push(at + in_sample),
            kind if kind < FIRST_OF_THE_RECORDER => times.push(at + length - from_end),
            _ => {}
        }
    }
    let time = |tile: &[u8], at: usize| u64::from_le_bytes(tile[at..at + 8].try_into().unwrap());
    let known = times.iter().map(|&at| time(&tile, at)).filter(|time| *time > 0);
    let (first, last) = known.fold((u64::MAX, 0), |(a, b), t| (a.min(t), b.max(t)));
    let span = last - first + 1;
    let tiles = wanted.div_ceil(size as u64).max(1);
    let grown = (tiles - 1) * size as u64;
    let mut out = BufWriter::new(std::fs::File::create(to).unwrap());
    let mut head = whole[..begin].to_vec();
    head[48..56].copy_from_slice(&(size as u64 + grown).to_le_bytes());
    out.write_all(&head).unwrap();
    for _ in 0..tiles {
        out.write_all(&tile).unwrap();
        for &at in &times {
            let now = time(&tile, at);
            if now > 0 {
                tile[at..at + 8].copy_from_slice(&(now + span).to_le_bytes());
            }
        }
    }
    // A table of sections, one for each bit of the header's features, then what they hold.
    let mut rest = whole[begin + size..].to_vec();
    let features: u32 = (72..104).step_by(8).map(|at| word(at).count_ones()).sum();
    for section in 0..features as usize {
        let at = 16 * section;
        let offset = u64::from_le_bytes(rest[at..at + 8].try_into().unwrap());
        rest[at..at + 8].copy_from_slice(&(offset + grown).to_le_bytes());
    }
    out.write_all(&rest).unwrap();
    out.flush().unwrap();
}
