//! What is read from real recordings equals what perf itself prints of them.

use perfdata::{Input, Record, kind, raw_records};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")).join(name)
}

fn kinds(input: &Input) -> BTreeMap<u32, u64> {
    let mut counts = BTreeMap::new();
    let mut chunks = input.chunks().unwrap();
    while let Some(chunk) = chunks.next() {
        let chunk = chunk.unwrap();
        for raw in raw_records(&chunk.bytes, chunk.offset, input.endian()) {
            *counts.entry(raw.kind).or_insert(0) += 1;
        }
        chunks.recycle(chunk.bytes);
    }
    counts
}

#[test]
fn the_recording_of_an_old_perf_has_the_known_number_of_stacks_of_16() {
    let input = Input::open(&fixture("autofdo/test.lbr")).unwrap();
    let counts = kinds(&input);
    // `perf report -D` counts the same.
    let expected = [(kind::SAMPLE, 9232), (kind::MMAP, 33), (kind::COMM, 2), (kind::EXIT, 2)];
    assert!(expected.iter().all(|(kind, count)| counts.get(kind) == Some(count)), "{counts:?}");
    let mut depths = BTreeMap::new();
    for chunk in input.chunks().unwrap() {
        let chunk = chunk.unwrap();
        for raw in raw_records(&chunk.bytes, chunk.offset, input.endian()) {
            let (record, id) = Record::parse(&raw, input.layouts()).unwrap();
            if let Record::Sample(sample) = record {
                let fast = input.layouts().for_sample(raw.body).unwrap().fast(&raw).unwrap();
                assert_eq!(Some(fast.ip), sample.ip);
                assert_eq!((Some(fast.pid), Some(fast.time)), (id.pid, id.time));
                assert_eq!(Some(fast.branches), sample.branches);
                assert!(fast.branches.raw_entries().is_some(), "records of a file lie aligned");
                *depths.entry(fast.branches.len()).or_insert(0) += 1;
            }
        }
    }
    assert_eq!(depths, BTreeMap::from([(16, 9232)]));
}
