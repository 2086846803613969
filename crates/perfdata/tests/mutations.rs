//! Every truncation and every single-byte change of small recordings ends in a result or an error,
//! soon and within bounded memory.
//!
//! The ordinary run tries two values of every byte, so that over the bytes all 255 differences
//! occur. All 255 values of every byte, 13.8 million inputs, take 10 minutes of CPU time and less
//! than 20 MiB: `PLANISH_DAMAGE=all cargo test --release -p perfdata --test mutations --
//! --nocapture` (with `TMPDIR` on a memory file system; under `ulimit -v 2000000` allocations that
//! are never touched count, too).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use perfdata::{Input, OrderOptions, ReadStats, Record, raw_records};
use std::fs::{File, copy, create_dir_all};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// No recording of a few kilobytes may take longer, even on a busy machine and unoptimised.
const LONGEST: Duration = Duration::from_secs(5);
/// Nor may all that were tried have taken more memory; a thread's buffers are some MiB.
const MOST_MEMORY_KIB: u64 = 128 << 10;

fn path(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/perfdata")).join(name)
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap()
}

fn read_all(bytes: &[u8]) -> Result<(u64, ReadStats), perfdata::Error> {
    read_input(Input::from_pipe(bytes)?)
}

/// Reads everything there is; gives the number of records and what the pass met.
fn read_input(input: Input) -> Result<(u64, ReadStats), perfdata::Error> {
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

/// Recordings, each with the file of it that is damaged.
const RECORDINGS: [(&str, &str); 11] = [
    ("events.data", ""),
    ("zstd.data", ""),
    ("zstd2.data", ""),
    ("rich.data", ""),
    ("pipe.data", ""),
    ("threads.data", "data"),
    ("threads.data", "data.0"),
    ("threads.data", "data.1"),
    ("zstd2-threads.data", "data"),
    ("zstd2-threads.data", "data.0"),
    ("zstd2-threads.data", "data.1"),
];

/// A copy of a recording that can be damaged and mended.
struct Copy {
    recording: PathBuf,
    damaged: File,
    bytes: Vec<u8>,
    _folder: tempfile::TempDir,
}

impl Copy {
    fn of(recording: &str, file: &str) -> Copy {
        let folder = tempfile::tempdir().unwrap();
        let copied = folder.path().join(recording);
        let damaged = if file.is_empty() { copied.clone() } else { copied.join(file) };
        if file.is_empty() {
            copy(path(recording), &copied).unwrap();
        } else {
            create_dir_all(&copied).unwrap();
            for entry in std::fs::read_dir(path(recording)).unwrap() {
                let entry = entry.unwrap();
                copy(entry.path(), copied.join(entry.file_name())).unwrap();
            }
        }
        let bytes = std::fs::read(&damaged).unwrap();
        std::fs::remove_file(&damaged).unwrap();
        std::fs::write(&damaged, &bytes).unwrap();
        let damaged = File::options().write(true).open(&damaged).unwrap();
        Copy { recording: copied, damaged, bytes, _folder: folder }
    }

    fn read(&self) -> Result<(u64, ReadStats), perfdata::Error> {
        read_input(Input::open(&self.recording)?)
    }

    /// Reads the recording with another value of one byte.
    fn change(&self, at: usize, value: u8) {
        let name = self.recording.display();
        self.damaged.write_all_at(&[value], at as u64).unwrap();
        let start = Instant::now();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = self.read();
        }));
        assert!(ended.is_ok(), "{name}: panic with byte {at:#x} set to {value:#x}");
        let took = start.elapsed();
        assert!(took < LONGEST, "{name}: {took:?} with byte {at:#x} set to {value:#x}");
        self.damaged.write_all_at(&self.bytes[at..=at], at as u64).unwrap();
    }
}

/// The values that byte `at` gets instead of `old`.
fn values(at: usize, old: u8, all: bool) -> Vec<u8> {
    if all {
        return (1..=255).map(|difference| old ^ difference).collect();
    }
    let difference = (at % 255 + 1) as u8;
    vec![old ^ difference, if old == 0 { 0xff } else { 0 }]
}

/// The most memory that this process has had, where the system tells.
fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.map_or(0, |peak| peak.trim().trim_end_matches(" kB").parse().unwrap())
}

#[test]
fn every_truncation_gives_the_records_before_it_and_says_what_is_missing() {
    for (name, file) in RECORDINGS {
        let copy = Copy::of(name, file);
        let (whole, _) = copy.read().unwrap();
        let (mut most, mut errors) = (0, 0);
        for len in 0..copy.bytes.len() {
            copy.damaged.set_len(len as u64).unwrap();
            if len > 0 {
                // What the shorter length took away comes back.
                copy.damaged.write_all_at(&copy.bytes[len - 1..len], len as u64 - 1).unwrap();
            }
            match copy.read() {
                Ok((records, stats)) => {
                    assert!(
                        records >= most && records <= whole,
                        "{name} cut to {len}: {records} records"
                    );
                    // In pipe form, and in the files behind a directory's first one, nothing tells
                    // that whole records are missing at the end.
                    assert!(
                        records == whole
                            || stats.truncated()
                            || name == "pipe.data"
                            || file.contains('.'),
                        "{name} {file} cut to {len}"
                    );
                    most = records;
                }
                Err(error) => {
                    errors += 1;
                    assert!(most == 0, "{name} {file} cut to {len}: {error}")
                }
            }
        }
        assert!(most > 0 || errors < copy.bytes.len() || copy.bytes.is_empty());
    }
}

#[test]
fn every_single_byte_change_ends_in_a_result_or_an_error_soon() {
    let all = std::env::var("PLANISH_DAMAGE").is_ok_and(|effort| effort == "all");
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let began = Instant::now();
    let tried = AtomicUsize::new(0);
    for (name, file) in RECORDINGS {
        let next = AtomicUsize::new(0);
        let work = || {
            let copy = Copy::of(name, file);
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(&old) = copy.bytes.get(at) else { return };
                let values = values(at, old, all);
                values.iter().for_each(|&value| copy.change(at, value));
                tried.fetch_add(values.len(), Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
        println!(
            "{name} {file}: {} inputs, {:?}, {} KiB",
            tried.load(Ordering::Relaxed),
            began.elapsed(),
            peak_memory_kib()
        );
        let peak = peak_memory_kib();
        assert!(peak < MOST_MEMORY_KIB, "{name} {file}: {peak} KiB");
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
    assert!(
        zeroed.contains("offset 0: expected the magic PERFILE2, found 8 zero bytes"),
        "{zeroed}"
    );
    let text = error_of(|bytes| bytes[..8].copy_from_slice(b"# perf s"));
    assert!(
        text.contains("# perf s") && text.contains("is this the output of `perf record`?"),
        "{text}"
    );
    for size in [0u64, 1 << 40] {
        let attr = error_of(|bytes| bytes[16..24].copy_from_slice(&size.to_le_bytes()));
        assert!(
            attr.contains("offset 0x10: expected an attribute size of 80 to 4096 bytes"),
            "{attr}"
        );
        assert!(attr.contains(&format!("found {size}")) && attr.contains("record again"), "{attr}");
    }
    let past = error_of(|bytes| bytes[40..48].copy_from_slice(&u64::MAX.to_le_bytes()));
    assert!(past.contains("offset 0x28: expected data within the file's"), "{past}");
    let small = error_of(|bytes| {
        let data = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
        bytes[data + 6..data + 8].copy_from_slice(&7u16.to_le_bytes());
    });
    assert!(
        small.contains("expected a record of at least 8 bytes, found a record size of 7"),
        "{small}"
    );
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

#[test]
fn a_cut_behind_the_data_or_bytes_behind_the_end_are_noticed() {
    let bytes = fixture("events.data");
    let open = |bytes: &[u8]| perfdata::Input::from_pipe(bytes);
    let whole = open(&bytes).unwrap().wholeness().clone();
    assert!(whole.announced_features > 5 && whole.missing_features.is_empty(), "{whole:?}");
    assert_eq!(whole.surplus_bytes, 0);
    let at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let end = (at(40) + at(48)) as usize;
    let cut = open(&bytes[..end]).unwrap();
    assert_eq!(cut.wholeness().missing_features.len() as u64, whole.announced_features);
    let cut = open(&bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(cut.wholeness().missing_features.len(), 1);
    let cut = open(&bytes[..end - 10]).unwrap().wholeness().clone();
    assert_eq!(cut.promised_data_bytes - cut.present_data_bytes, 10);
    assert_eq!(cut.missing_features.len() as u64, whole.announced_features);
    let doubled = open(&[&bytes[..], &bytes[..]].concat()).unwrap();
    assert_eq!(doubled.wholeness().surplus_bytes, bytes.len() as u64);
    for length in [4, 8, 12, 50] {
        let error = open(&bytes[..length]).unwrap_err().to_string();
        assert!(
            error.contains("the file is cut") && error.contains(&format!("{length} are there")),
            "{error}"
        );
    }
}

#[test]
fn a_name_that_stands_among_the_records_is_an_events_where_the_recorder_was_killed() {
    use perfdata::write::{Encoder, FileWriter, event_name};
    let named = |id: u64, name: &str| perfdata::EventAttr {
        kind: 2,
        config: 375,
        ids: vec![id],
        name: Some(name.to_owned()),
        ..perfdata::EventAttr::default()
    };
    let attrs = [named(7, "sched:sched_waking"), named(8, "12345678")];
    let mut file = std::io::Cursor::new(Vec::new());
    let mut writer = FileWriter::new(&mut file, &attrs).unwrap();
    for attr in &attrs {
        let record = event_name(attr, perfdata::Endian::NATIVE).unwrap().unwrap();
        assert_eq!(record.len() % 8, 0);
        writer.append(&record).unwrap();
    }
    let mut end = Vec::new();
    Encoder::new(&attrs[0]).finished_round(&mut end).unwrap();
    writer.append(&end).unwrap();
    drop(writer);
    let input = perfdata::Input::from_bytes(file.get_ref()).unwrap();
    let losses = input.wholeness().losses();
    assert!(losses.iter().any(|loss| loss.contains("its recorder did not finish")), "{losses:?}");
    let names: Vec<_> = input.attrs().iter().map(|attr| attr.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["sched:sched_waking", "12345678"]);
}

#[test]
fn files_that_a_directory_lacks_are_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("data"), fixture("events.data")).unwrap();
    let lacks = |numbers: &[u32]| {
        for number in numbers {
            std::fs::write(dir.path().join(format!("data.{number}")), []).unwrap();
        }
        perfdata::Input::open(dir.path()).unwrap().wholeness().losses().pop()
    };
    assert_eq!(lacks(&[]), None);
    assert_eq!(lacks(&[0, 1]), None);
    let said = lacks(&[4]).unwrap();
    assert!(said.contains("lacks data.2, data.3:"), "{said}");
    let said = lacks(&[u32::MAX]).unwrap();
    assert!(said.contains("data.7 and 4294967287 more"), "{said}");
}
