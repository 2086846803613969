//! The index beside a recording: the same numbers with it and without, for every part of the time,
//! and none but its own recording's is used.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use perfdata::write::{CompressedKind, Compressor, Encoder, FileWriter, SampleValues};
use perfdata::{EventAttr, Features, SampleId, attr_flag, kind, sample_type};
use serde_json::Value;
use std::io::Cursor;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Samples of a recording that is large enough for an index.
const SAMPLES: u64 = 450_000;
const STEP_NS: u64 = 10_000;

fn planish(dir: &Path, words: &[&str]) -> Output {
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(dir).args(words).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The whole JSON, byte by byte, and what was noted.
fn hot(dir: &Path, words: &[&str]) -> (String, String) {
    let more = ["--format", "json", "--limit", "0", "--percent", "0"];
    let done = planish(dir, &[&["report", "hot", "big"], words, &more].concat());
    assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
    (text(&done.stdout), text(&done.stderr))
}

fn attr() -> EventAttr {
    EventAttr {
        kind: 1,
        sample_type: sample_type::IP | sample_type::TID | sample_type::TIME | sample_type::PERIOD,
        flags: attr_flag::SAMPLE_ID_ALL,
        ..EventAttr::default()
    }
}

/// Records of some samples by number: of three threads in turns, whose names change, and one of a
/// thousand damaged.
fn records(samples: std::ops::Range<u64>) -> Vec<u8> {
    let encoder = Encoder::new(&attr());
    let mut bytes = Vec::new();
    for number in samples {
        let tid = 100 + (number % 3) as i32;
        let time = 1_000_000_000 + number * STEP_NS;
        let id =
            SampleId { pid: Some(100), tid: Some(tid), time: Some(time), ..SampleId::default() };
        if number % 50_000 == 0 {
            let name = format!("part{}\0\0", number / 50_000);
            let body = [&100i32.to_ne_bytes(), &tid.to_ne_bytes(), name.as_bytes()].concat();
            encoder.other(&mut bytes, kind::COMM, 0, &body, &id).unwrap();
            encoder.lost_samples(&mut bytes, 2, &id).unwrap();
        }
        if number % 1000 == 999 {
            // Shorter than its fields.
            bytes.extend([9, 0, 0, 0, 2, 0, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
            continue;
        }
        let values = SampleValues {
            id,
            ip: 0x1000 + 16 * (number * number % 7),
            period: 1000,
            ..SampleValues::default()
        };
        encoder.sample(&mut bytes, &values).unwrap();
    }
    bytes
}

fn file(records: &[u8]) -> Vec<u8> {
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), &[attr()]).unwrap();
    writer.append(records).unwrap();
    writer.finish(&Features::default()).unwrap().into_inner()
}

const PARTS: [&[&str]; 7] = [
    &[],
    &["--time", "0-0.03"],
    &["--time", "1.5-1.6"],
    &["--time", "3.19-"],
    &["--time", "1-1.000011", "--tid", "101"],
    &["--time", "0.5-2.5", "--comm", "part3"],
    &["--time", "1-2", "--by", "thread"],
];

/// Whatever is asked, and with whatever threads, the index changes nothing.
fn check_equal(dir: &Path, index: &Path) {
    let without: Vec<String> =
        PARTS.iter().map(|part| hot(dir, &[part, &["--no-index"][..]].concat()).0).collect();
    assert!(!index.exists());
    for round in 0..2 {
        for threads in ["1", "2"] {
            for (part, wanted) in PARTS.iter().zip(&without) {
                let (found, notes) = hot(dir, &[part, &["--threads", threads][..]].concat());
                assert!(found == *wanted, "{round} {threads} {part:?}: {found} {wanted}");
                assert!(!notes.contains("index"), "{notes}");
            }
        }
        assert!(index.exists());
    }
}

#[test]
fn a_file_has_the_same_numbers_with_an_index() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("big"), file(&records(0..SAMPLES))).unwrap();
    let index = dir.path().join("big.planish-index");
    check_equal(dir.path(), &index);
    let found: Value = serde_json::from_str(&hot(dir.path(), &["--time", "1-2"]).0).unwrap();
    let number = |key: &str| found["ledger"][key].as_u64().unwrap();
    assert_eq!(number("samples"), SAMPLES);
    assert_eq!(number("malformed"), SAMPLES / 1000);
    assert_eq!(number("used"), 100_000 - 100);
    assert_eq!(number("used") + number("filtered") + number("malformed"), SAMPLES);
    // One for whom the recording is readable reads the index, too.
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&index), mode(&dir.path().join("big")));
}

#[test]
fn a_directory_has_one_index_for_all_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let recording = dir.path().join("big");
    std::fs::create_dir(&recording).unwrap();
    std::fs::write(recording.join("data"), file(&records(0..10_000))).unwrap();
    std::fs::write(recording.join("data.0"), records(10_000..200_000)).unwrap();
    std::fs::write(recording.join("data.1"), records(200_000..SAMPLES)).unwrap();
    check_equal(dir.path(), &recording.join("planish-index"));
}

#[test]
fn compressed_records_are_read_from_their_begin() {
    let dir = tempfile::tempdir().unwrap();
    let mut compressor = Compressor::new(CompressedKind::Unaligned, 1).unwrap();
    let mut bytes = Vec::new();
    // Enough that what is stored is worth an index.
    let all = records(0..6_400_000);
    all.chunks(1 << 16).for_each(|part| compressor.compress(part, &mut bytes).unwrap());
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), &[attr()]).unwrap();
    writer.append(&bytes).unwrap();
    let features = Features { compressed: Some(compressor.describe()), ..Features::default() };
    let whole = writer.finish(&features).unwrap().into_inner();
    std::fs::write(dir.path().join("big"), &whole).unwrap();
    assert!(whole.len() > 16 << 20, "{}", whole.len());
    let part = ["--time", "40-41"];
    let (without, _) = hot(dir.path(), &["--time", "40-41", "--no-index"]);
    for _ in 0..2 {
        assert_eq!(hot(dir.path(), &part).0, without);
    }
    assert!(dir.path().join("big.planish-index").exists());
}

#[test]
fn an_index_that_is_not_the_recordings_is_noted_and_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let big = dir.path().join("big");
    std::fs::write(&big, file(&records(0..SAMPLES))).unwrap();
    let index: PathBuf = dir.path().join("big.planish-index");
    let part = ["--time", "1-2"];
    let (wanted, _) = hot(dir.path(), &part);
    let good = std::fs::read(&index).unwrap();
    let mut damaged = good.clone();
    damaged[good.len() / 2] ^= 1;
    let mut newer = good.clone();
    newer[8] += 1;
    for (bytes, note) in [
        (b"what is this".to_vec(), "it is no index of a recording"),
        (damaged, "its checksum is not that of the rest"),
        (newer, "it has version 3, expected 2"),
        (good[..good.len() - 1].to_vec(), "its checksum"),
        (Vec::new(), "it is no index"),
    ] {
        std::fs::write(&index, &bytes).unwrap();
        let (found, notes) = hot(dir.path(), &part);
        assert_eq!(found, wanted);
        assert!(notes.contains("big.planish-index: ") && notes.contains(note), "{notes}");
        assert!(notes.contains("it is not used"), "{notes}");
        assert_eq!(std::fs::read(&index).unwrap(), good, "{note}");
    }
    // The recording changes below it.
    std::fs::write(&big, file(&records(1..SAMPLES))).unwrap();
    let (without, _) = hot(dir.path(), &["--time", "1-2", "--no-index"]);
    let (found, notes) = hot(dir.path(), &part);
    assert_eq!(found, without);
    assert!(notes.contains("of this one before it changed"), "{notes}");
    // A link is not followed.
    std::fs::remove_file(&index).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &index).unwrap();
    let (found, notes) = hot(dir.path(), &part);
    assert_eq!(found, without);
    assert!(notes.contains("a symbolic link"), "{notes}");
    // It leads to a device, which nothing is put in the place of.
    assert!(index.symlink_metadata().unwrap().file_type().is_symlink());
    std::fs::remove_file(&index).unwrap();
    std::fs::create_dir(&index).unwrap();
    let (found, notes) = hot(dir.path(), &part);
    assert_eq!(found, without);
    assert!(notes.contains("a directory"), "{notes}");
}

/// Whoever can change the index can change the recording; what shows is said all the same.
#[test]
fn an_index_that_tells_of_other_samples_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("big"), file(&records(0..SAMPLES))).unwrap();
    let path = dir.path().join("big.planish-index");
    hot(dir.path(), &[]);
    let bytes = std::fs::read(&path).unwrap();
    let (index, binding) = calltrees::Index::parse(&bytes).unwrap();
    assert_eq!(index.to_bytes(&binding), bytes);
    // Behind the head (52 bytes) and the stream's (37): bytes of the first block, then its samples.
    let mut other = bytes;
    other[52 + 37 + 4] ^= 1;
    let sum = crc32(&other[16..]);
    other[12..16].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(&path, other).unwrap();
    let done = planish(dir.path(), &["report", "hot", "big", "--time", "-0.1"]);
    let said = text(&done.stderr);
    assert!(!done.status.success() && said.contains("its index does not fit"), "{said}");
    assert!(said.contains("--no-index"), "{said}");
}

/// CRC-32 (IEEE 802.3), bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32| (sum >> 1) ^ (0xedb8_8320 * (sum & 1));
    let byte = |sum: u32, byte: &u8| (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum));
    !bytes.iter().fold(!0, byte)
}

#[test]
fn where_nothing_may_be_written_nothing_is() {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    // A small recording is read as fast without.
    std::fs::write(inner.join("big"), file(&records(0..1000))).unwrap();
    hot(&inner, &["--time", "0-0.001"]);
    assert_eq!(std::fs::read_dir(&inner).unwrap().count(), 1);
    std::fs::write(inner.join("big"), file(&records(0..SAMPLES))).unwrap();
    hot(&inner, &["--no-index"]);
    assert_eq!(std::fs::read_dir(&inner).unwrap().count(), 1);
    std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o500)).unwrap();
    let (_, notes) = hot(&inner, &["--time", "0-0.001"]);
    assert!(!notes.contains("index"), "{notes}");
    std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o700)).unwrap();
}
