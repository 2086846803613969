//! What is read from real recordings equals what perf itself prints of them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use perfdata::{Input, OrderOptions, Record, UserRecord, kind, raw_records};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const RECORDINGS: [&str; 6] = [
    "autofdo/test.lbr",
    "perfdata/events.data",
    "perfdata/zstd.data",
    "perfdata/rich.data",
    "perfdata/pipe.data",
    "perfdata/threads.data",
];

fn fixture(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")).join(name)
}

/// What `perf report -D` prints, or nothing where perf is missing.
fn dump(path: &Path) -> Option<String> {
    let Ok(output) = Command::new("perf").args(["report", "-D", "-i"]).arg(path).output() else {
        eprintln!("skipped: perf is not installed, nothing to compare {} with", path.display());
        return None;
    };
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn counts(input: &Input) -> BTreeMap<u32, u64> {
    let mut counts = BTreeMap::new();
    let mut chunks = input.chunks().unwrap();
    while let Some(chunk) = chunks.next() {
        let chunk = chunk.unwrap();
        for raw in raw_records(&chunk.bytes, chunk.offset, input.endian()) {
            Record::parse(&raw, input.layouts()).unwrap();
            *counts.entry(raw.kind).or_insert(0) += 1;
        }
        chunks.recycle(chunk.bytes);
    }
    assert!(!chunks.stats().truncated() && chunks.stats().unknown_kinds.is_empty());
    counts
}

fn name(kind: u32) -> &'static str {
    match kind {
        kind::MMAP => "MMAP",
        kind::COMM => "COMM",
        kind::EXIT => "EXIT",
        kind::FORK => "FORK",
        kind::SAMPLE => "SAMPLE",
        kind::MMAP2 => "MMAP2",
        kind::LOST_SAMPLES => "LOST_SAMPLES",
        kind::SWITCH => "SWITCH",
        kind::NAMESPACES => "NAMESPACES",
        kind::HEADER_ATTR => "ATTR",
        kind::HEADER_FEATURE => "FEATURE",
        kind::FINISHED_ROUND => "FINISHED_ROUND",
        kind::FINISHED_INIT => "FINISHED_INIT",
        kind::ID_INDEX => "ID_INDEX",
        kind::THREAD_MAP => "THREAD_MAP",
        kind::CPU_MAP => "CPU_MAP",
        kind::EVENT_UPDATE => "EVENT_UPDATE",
        _ => "(other)",
    }
}

#[test]
fn records_are_counted_by_kind_as_perf_counts_them() {
    for recording in RECORDINGS {
        let path = fixture(recording);
        let ours: BTreeMap<String, u64> = counts(&Input::open(&path).unwrap())
            .into_iter()
            .map(|(kind, count)| (name(kind).to_owned(), count))
            .collect();
        let Some(dump) = dump(&path) else { return };
        let mut theirs = BTreeMap::new();
        for line in dump.lines() {
            if let Some((_, rest)) = line.split_once("PERF_RECORD_") {
                let kind: String =
                    rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                // perf prints the context switches' names with an attribute glued on.
                *theirs.entry(kind).or_insert(0) += 1;
            }
        }
        assert_eq!(ours, theirs, "{recording}");
    }
}

/// Number, sum of addresses and sum of periods of the samples.
fn sample_sums(input: &Input) -> (u64, u64, u64) {
    let mut sums = (0, 0u64, 0);
    for chunk in input.chunks().unwrap() {
        let chunk = chunk.unwrap();
        for raw in raw_records(&chunk.bytes, chunk.offset, input.endian()) {
            if let Record::Sample(sample) = Record::parse(&raw, input.layouts()).unwrap().0 {
                let ip = sample.ip.unwrap().0;
                sums = (sums.0 + 1, sums.1.wrapping_add(ip), sums.2 + sample.period.unwrap());
            }
        }
    }
    sums
}

const SUMS: [(&str, (u64, u64, u64)); 2] = [
    ("perfdata/zstd2.data", (112, 0x2a_9ff9_d598_c106, 49_024_672)),
    ("perfdata/zstd2-threads.data", (68, 0x1c_5afa_96a8_b78f, 34_017_000)),
];

/// The installed perf may be too old to read COMPRESSED2, so the answers are those of the perf that
/// recorded.
#[test]
fn recordings_with_compressed2_hold_what_the_perf_that_wrote_them_prints() {
    let counted = |recording: &str| counts(&Input::open(&fixture(recording)).unwrap());
    let expected = |counts: &[(u32, u64)]| counts.iter().copied().collect::<BTreeMap<u32, u64>>();
    let (maps, cpus) = (kind::THREAD_MAP, kind::CPU_MAP);
    let common =
        [(kind::COMM, 3), (kind::EXIT, 2), (kind::FORK, 1), (kind::MMAP2, 9), (maps, 1), (cpus, 1)];
    let common = [&common[..], &[(kind::FINISHED_INIT, 1), (kind::ID_INDEX, 1)]].concat();
    let of_file = [(kind::SAMPLE, 112), (kind::EVENT_UPDATE, 4), (kind::FINISHED_ROUND, 1)];
    assert_eq!(counted("perfdata/zstd2.data"), expected(&[&common[..], &of_file].concat()));
    let of_directory = [(kind::SAMPLE, 68), (kind::EVENT_UPDATE, 3)];
    assert_eq!(
        counted("perfdata/zstd2-threads.data"),
        expected(&[&common[..], &of_directory].concat())
    );
    for (recording, sums) in SUMS {
        let input = Input::open(&fixture(recording)).unwrap();
        assert_eq!(sample_sums(&input), sums, "{recording}");
        let mut chunks = input.chunks().unwrap();
        while chunks.next().is_some() {}
        let stats = chunks.stats();
        assert_eq!((stats.compressed_records, stats.repaired_sizes), (2, 0), "{recording}");
        assert_eq!(input.features().perf_version.as_deref(), Some("7.3.4"), "{recording}");
        assert_eq!(input.features().compressed.map(|c| c.algorithm), Some(1), "{recording}");
    }
}

/// Process, thread, address and period of a sample.
type Fields = (i32, i32, u64, u64);

fn perf_samples(dump: &str) -> Vec<Fields> {
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let samples =
        dump.lines().filter_map(|line| line.split_once("PERF_RECORD_SAMPLE(")?.1.split_once("): "));
    samples
        .map(|(_, fields)| {
            let words: Vec<&str> = fields.split_whitespace().collect();
            let (pid, tid) = words[0].trim_end_matches(':').split_once('/').unwrap();
            (pid.parse().unwrap(), tid.parse().unwrap(), hex(words[1]), words[3].parse().unwrap())
        })
        .collect()
}

#[test]
fn sample_fields_equal_those_of_perf() {
    for recording in RECORDINGS {
        let path = fixture(recording);
        let input = Input::open(&path).unwrap();
        let (mut ours, mut times) = (Vec::new(), Vec::new());
        let mut ordered = input.ordered(OrderOptions::default()).unwrap();
        while let Some(record) = ordered.next() {
            let record = record.unwrap();
            times.push(record.time);
            if let (Record::Sample(sample), id) = record.parse().unwrap() {
                let period = sample.period.unwrap_or(input.attrs()[0].period_or_freq);
                ours.push((id.pid.unwrap(), id.tid.unwrap(), sample.ip.unwrap().0, period));
                let raw = record.raw;
                let fast = input.layouts().for_sample(raw.body).unwrap().fast(&raw).unwrap();
                assert_eq!(
                    (fast.ip, fast.pid, fast.time),
                    (sample.ip.unwrap(), ours.last().unwrap().0, record.time)
                );
                assert_eq!(fast.branches, sample.branches.unwrap_or_default());
                assert!(
                    sample.rest.is_empty(),
                    "{recording}: every byte of the sample is understood"
                );
            }
        }
        assert!(times.is_sorted(), "{recording}: records come in time order");
        assert_eq!(
            (ordered.stats().out_of_order, ordered.stats().bad_records),
            (0, 0),
            "{recording}"
        );
        let Some(dump) = dump(&path) else { return };
        let mut theirs = perf_samples(&dump);
        theirs.sort_unstable();
        ours.sort_unstable();
        assert!(
            !ours.is_empty() && ours == theirs,
            "{recording}: {} and {}",
            ours.len(),
            theirs.len()
        );
    }
}

#[test]
fn the_recording_of_an_old_perf_has_stacks_of_16_that_lie_aligned() {
    let input = Input::open(&fixture("autofdo/test.lbr")).unwrap();
    let mut stacks = 0;
    for chunk in input.chunks().unwrap() {
        let chunk = chunk.unwrap();
        for raw in raw_records(&chunk.bytes, chunk.offset, input.endian()) {
            if raw.kind == kind::SAMPLE {
                let fast = input.layouts().for_sample(raw.body).unwrap().fast(&raw).unwrap();
                assert_eq!(fast.branches.raw_entries().map(<[_]>::len), Some(16));
                stacks += 1;
            }
        }
    }
    assert_eq!(stacks, 9232);
}

#[test]
fn features_and_event_names_are_those_of_the_recorder() {
    for recording in RECORDINGS.iter().skip(1) {
        let input = Input::open(&fixture(recording)).unwrap();
        let features = input.features();
        assert_eq!(features.damaged, 0, "{recording}");
        assert_eq!(features.hostname.as_deref(), Some("fixture"));
        assert_eq!(features.arch.as_deref(), Some("x86_64"));
        assert_eq!(features.perf_version.as_deref(), Some("6.1.192"));
        assert_eq!(features.cmdline[1..4], ["record", "-q", "-B"]);
        assert_eq!(input.attrs()[0].name.as_deref(), Some("cpu-clock"), "{recording}");
    }
    let events = Input::open(&fixture("perfdata/events.data")).unwrap();
    let names: Vec<_> = events.attrs().iter().map(|attr| attr.name.as_deref()).collect();
    assert_eq!(names, [Some("cpu-clock"), Some("page-faults")]);
    let zstd = Input::open(&fixture("perfdata/zstd.data")).unwrap();
    assert_eq!(
        zstd.features().compressed.map(|c| (c.version, c.algorithm, c.level)),
        Some((0, 1, 1))
    );
}

#[test]
fn registers_stacks_and_build_ids_of_the_rich_recording_are_read() {
    let input = Input::open(&fixture("perfdata/rich.data")).unwrap();
    let (mut samples, mut build_ids) = (0, 0);
    for chunk in input.chunks().unwrap() {
        let chunk = chunk.unwrap();
        for raw in raw_records(&chunk.bytes, chunk.offset, input.endian()) {
            match Record::parse(&raw, input.layouts()).unwrap().0 {
                Record::Sample(sample) => {
                    let registers = sample.regs_user.unwrap();
                    assert_eq!((registers.abi, registers.mask), (2, 0x180));
                    // Register 8 is IP, register 7 is SP (arch/x86/include/uapi/asm/perf_regs.h).
                    assert_eq!(registers.get(8), sample.ip.map(|ip| ip.0));
                    assert_eq!(registers.get(9), None);
                    assert_eq!(sample.stack_user.unwrap().bytes.len(), 64);
                    samples += 1;
                }
                Record::Mmap(event) => {
                    build_ids += u32::from(event.build_id.is_some_and(|id| id.len() == 20))
                }
                _ => {}
            }
        }
    }
    assert!(samples == 5 && build_ids > 3, "{samples} samples, {build_ids} build ids");
}

#[test]
fn a_recording_read_through_a_pipe_is_the_recording_read_from_the_file() {
    for recording in ["perfdata/pipe.data", "perfdata/zstd.data"] {
        let bytes = std::fs::read(fixture(recording)).unwrap();
        let piped = Input::from_pipe(bytes.as_slice()).unwrap();
        let opened = Input::open(&fixture(recording)).unwrap();
        assert_eq!(counts(&piped), counts(&opened));
        assert_eq!((piped.attrs(), piped.features()), (opened.attrs(), opened.features()));
    }
}

#[test]
fn streams_of_a_directory_can_be_read_one_by_one() {
    let input = Input::open(&fixture("perfdata/threads.data")).unwrap();
    assert_eq!(input.stream_count(), 3);
    let mut bytes = 0;
    for stream in 0..input.stream_count() {
        bytes += input
            .stream_chunks(stream)
            .unwrap()
            .map(|chunk| chunk.unwrap().bytes.len())
            .sum::<usize>();
    }
    let all: usize = input.chunks().unwrap().map(|chunk| chunk.unwrap().bytes.len()).sum();
    assert!(bytes > 0 && bytes == all && all as u64 == input.data_bytes());
    assert!(matches!(Input::open(&fixture("perfdata")), Err(perfdata::Error::Directory { .. })));
}

#[test]
fn user_records_have_types() {
    let input = Input::open(&fixture("perfdata/pipe.data")).unwrap();
    let mut ids = 0;
    for chunk in input.chunks().unwrap() {
        let chunk = chunk.unwrap();
        for raw in raw_records(&chunk.bytes, chunk.offset, input.endian()) {
            if let Record::User(UserRecord::IdIndex { words, entries }) =
                Record::parse(&raw, input.layouts()).unwrap().0
            {
                assert_eq!(words.len() as u64, 4 * entries);
                ids +=
                    words.iter().step_by(4).filter(|id| input.attrs()[0].ids.contains(id)).count();
            }
        }
    }
    assert_eq!(ids, input.attrs()[0].ids.len());
}
