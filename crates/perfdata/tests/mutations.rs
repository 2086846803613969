//! Every truncation and every single-byte change of small recordings ends in a result or an error, soon and within
//! bounded memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use perfdata::{Input, OrderOptions, ReadStats, Record, raw_records};
use std::path::Path;
use std::time::{Duration, Instant};

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/perfdata")).join(name))
        .unwrap()
}

/// Reads everything there is; gives the number of records and what the pass met.
fn read_all(bytes: &[u8]) -> Result<(u64, ReadStats), perfdata::Error> {
    let input = Input::from_pipe(bytes)?;
    let mut records = 0;
    let mut chunks = input.chunks()?;
    while let Some(chunk) = chunks.next() {
        let chunk = chunk?;
        for raw in raw_records(&chunk.bytes, chunk.offset, input.endian()) {
            records += 1;
            if let Ok((Record::Sample(sample), _)) = Record::parse(&raw, input.layouts()) {
                let branches = sample.branches.map_or(0, |branches| branches.iter().count());
                assert!(branches * 24 <= raw.body.len());
            }
            if let Ok(layout) = input.layouts().for_sample(raw.body) {
                let _ = layout.fast(&raw);
            }
        }
        chunks.recycle(chunk.bytes);
    }
    let stats = chunks.stats().clone();
    let mut ordered = input.ordered(OrderOptions { window_bytes: 1 << 20 })?;
    let mut in_order = 0;
    while let Some(record) = ordered.next() {
        record?;
        in_order += 1;
    }
    assert!(in_order <= records);
    Ok((records, stats))
}

const RECORDINGS: [&str; 4] = ["events.data", "zstd.data", "rich.data", "pipe.data"];

#[test]
fn every_truncation_gives_the_records_before_it_and_says_what_is_missing() {
    for name in RECORDINGS {
        let bytes = fixture(name);
        let (whole, _) = read_all(&bytes).unwrap();
        let mut most = 0;
        for len in 0..bytes.len() {
            match read_all(&bytes[..len]) {
                Ok((records, stats)) => {
                    assert!(records >= most && records <= whole, "{name} cut to {len}: {records} records");
                    // In pipe form nothing tells that whole records are missing at the end.
                    assert!(
                        records == whole || stats.truncated() || name == "pipe.data",
                        "{name} cut to {len}"
                    );
                    most = records;
                }
                Err(error) => assert!(most == 0, "{name} cut to {len}: {error}"),
            }
        }
        assert!(most > 0);
    }
}

#[test]
fn every_single_byte_change_ends_in_a_result_or_an_error_soon() {
    for name in RECORDINGS {
        let bytes = fixture(name);
        let mut changed = bytes.clone();
        let mut slowest = Duration::ZERO;
        for at in 0..bytes.len() {
            for value in [0, bytes[at] ^ 0x81] {
                changed[at] = value;
                let start = Instant::now();
                let _ = read_all(&changed);
                slowest = slowest.max(start.elapsed());
            }
            changed[at] = bytes[at];
        }
        assert!(slowest < Duration::from_secs(5), "{name}: {slowest:?}");
    }
}

fn error_of(change: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut bytes = fixture("events.data");
    change(&mut bytes);
    read_all(&bytes).err().map_or_else(|| "no error".to_owned(), |error| error.to_string())
}

#[test]
fn damaged_headers_are_named_with_offset_expectation_finding_and_next_step() {
    let zeroed = error_of(|bytes| bytes[..104].fill(0));
    assert!(zeroed.contains("offset 0: expected the magic PERFILE2, found 8 zero bytes"), "{zeroed}");
    let text = error_of(|bytes| bytes[..8].copy_from_slice(b"# perf s"));
    assert!(text.contains("# perf s") && text.contains("is this the output of `perf record`?"), "{text}");
    for size in [0u64, 1 << 40] {
        let attr = error_of(|bytes| bytes[16..24].copy_from_slice(&size.to_le_bytes()));
        assert!(attr.contains("offset 0x10: expected an attribute size of 80 to 4096 bytes"), "{attr}");
        assert!(attr.contains(&format!("found {size}")) && attr.contains("record again"), "{attr}");
    }
    let past = error_of(|bytes| bytes[40..48].copy_from_slice(&u64::MAX.to_le_bytes()));
    assert!(past.contains("offset 0x28: expected data within the file's"), "{past}");
    let small = error_of(|bytes| {
        let data = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
        bytes[data + 6..data + 8].copy_from_slice(&7u16.to_le_bytes());
    });
    assert!(small.contains("expected a record of at least 8 bytes, found a record size of 7"), "{small}");
}

#[test]
fn a_recording_whose_recorder_was_killed_is_read_to_the_end_of_the_file() {
    let mut bytes = fixture("events.data");
    let (whole, _) = read_all(&bytes).unwrap();
    let at = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let end = at(&bytes, 40) + at(&bytes, 48);
    bytes.truncate(end as usize);
    bytes[48..56].fill(0);
    let (records, stats) = read_all(&bytes).unwrap();
    assert_eq!((records, stats.unfinished, stats.truncated_bytes), (whole, true, 0));
    bytes.extend([0; 100]);
    let (records, stats) = read_all(&bytes).unwrap();
    assert_eq!((records, stats.truncated_bytes), (whole, 100));
}
