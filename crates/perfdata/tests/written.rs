//! What is written is what is read again, by this crate and by perf.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use perfdata::write::{
    CompressedKind, Compressor, Encoder, FileWriter, PipeWriter, SampleValues, StackValues,
};
use perfdata::{
    BranchEntry, BranchFlags, BuildIdEntry, CpuMode, Endian, EventAttr, Features, Input, MmapEvent,
    OrderOptions, Record, RuntimeAddr, SampleId, SampleTime, TaskEvent, UserRecord, attr_flag,
    branch_sample, kind, raw_records, sample_type,
};
use std::io::Cursor;
use std::process::Command;

const PLAIN: u64 = sample_type::IP | sample_type::TID | sample_type::TIME | sample_type::PERIOD;

fn attr(sample_type: u64) -> EventAttr {
    EventAttr {
        kind: 1,
        size_bytes: EventAttr::WRITTEN_BYTES,
        period_or_freq: 1000,
        sample_type,
        flags: attr_flag::SAMPLE_ID_ALL | attr_flag::MMAP2 | attr_flag::COMM | attr_flag::TASK,
        branch_sample_type: branch_sample::USER | branch_sample::ANY,
        ids: vec![71, 72],
        name: Some("cpu-clock".to_owned()),
        ..EventAttr::default()
    }
}

fn id(time: u64) -> SampleId {
    SampleId {
        pid: Some(40),
        tid: Some(41),
        time: Some(time),
        id: Some(72),
        stream_id: Some(71),
        cpu: Some(1),
    }
}

fn features() -> Features {
    Features {
        build_ids: vec![BuildIdEntry {
            pid: -1,
            misc: 2 | 1 << 15,
            build_id: (1..=20).collect(),
            path: "/usr/bin/example".to_owned(),
        }],
        hostname: Some("fixture".to_owned()),
        os_release: Some("6.18.0".to_owned()),
        perf_version: Some("planish".to_owned()),
        arch: Some("x86_64".to_owned()),
        cpus: Some((2, 2)),
        cmdline: vec!["planish".to_owned(), "record".to_owned()],
        sample_time: Some(SampleTime { first_ns: 1_000_000, last_ns: 9_000_000 }),
        branch_stack: true,
        clockid: Some(1),
        ..Features::default()
    }
}

const BRANCHES: [BranchEntry; 2] = [
    BranchEntry {
        from: RuntimeAddr(0x401010),
        to: RuntimeAddr(0x401000),
        flags: BranchFlags(1 | 5 << 4 | 1 << 20),
    },
    BranchEntry {
        from: RuntimeAddr(0x401020),
        to: RuntimeAddr(0x401008),
        flags: BranchFlags(2 | 3 << 24),
    },
];

/// Side-band records and `samples` samples with two branches each.
fn records(encoder: &Encoder, samples: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let task = TaskEvent { pid: 40, parent_pid: 1, tid: 41, parent_tid: 1, time: 900_000 };
    let map = MmapEvent {
        pid: 40,
        tid: 41,
        start: RuntimeAddr(0x400000),
        len: 0x2000,
        executable: true,
        inode: Some((8, 1, 1234, 0)),
        prot: 5,
        flags: 2,
        path: b"/usr/bin/example",
        cpumode: CpuMode::User,
        ..MmapEvent::default()
    };
    encoder.fork(&mut out, &task, &id(900_000)).unwrap();
    encoder.comm(&mut out, 40, 41, b"example", true, &id(910_000)).unwrap();
    encoder.mmap2(&mut out, &map, &id(920_000)).unwrap();
    encoder.finished_init(&mut out).unwrap();
    for number in 0..samples {
        let values = SampleValues {
            cpumode: CpuMode::User,
            id: id(1_000_000 + number),
            ip: 0x401000 + number % 64,
            period: 1000,
            stacks: StackValues { branches: &BRANCHES, ..StackValues::default() },
            ..SampleValues::default()
        };
        encoder.sample(&mut out, &values).unwrap();
    }
    encoder.lost_samples(&mut out, 3, &id(8_000_000)).unwrap();
    encoder.exit(&mut out, &task, &id(9_000_000)).unwrap();
    encoder.finished_round(&mut out).unwrap();
    out
}

fn perf(arguments: &[&str], bytes: &[u8]) -> Option<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let Ok(output) =
        Command::new("perf").args(arguments).arg("-f").arg("-i").arg(file.path()).output()
    else {
        eprintln!("skipped: perf is not installed");
        return None;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "perf {arguments:?}: {errors}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &errors)
}

fn check_with_perf(bytes: &[u8], samples: usize) {
    let fields = ["script", "-F", "comm,pid,tid,time,ip,period,brstack"];
    let Some(script) = perf(&fields, bytes) else { return };
    assert_eq!(
        script.lines().filter(|line| line.contains("example")).count(),
        samples,
        "{script:.900}"
    );
    let first = script.lines().next().unwrap();
    assert!(first.contains("40/41") && first.contains("0x401010/0x401000/M"), "{first}");
    let header = perf(&["report", "--header-only"], bytes).unwrap();
    for expected in
        ["hostname : fixture", "os release : 6.18.0", "arch : x86_64", "name = cpu-clock"]
    {
        assert!(header.contains(expected), "{expected}: {header}");
    }
}

#[test]
fn perf_reads_the_file_form() {
    let attr = attr(PLAIN | sample_type::BRANCH_STACK);
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), std::slice::from_ref(&attr)).unwrap();
    writer.append(&records(&Encoder::new(&attr), 100)).unwrap();
    let bytes = writer.finish(&features()).unwrap().into_inner();
    check_with_perf(&bytes, 100);
    let Some(list) = perf(&["buildid-list"], &bytes) else { return };
    assert!(list.contains("0102030405060708090a0b0c0d0e0f1011121314 /usr/bin/example"), "{list}");
}

#[test]
fn perf_reads_the_pipe_form() {
    let attr = attr(PLAIN | sample_type::BRANCH_STACK);
    let mut writer = PipeWriter::new(Vec::new(), std::slice::from_ref(&attr), &features()).unwrap();
    writer.append(&records(&Encoder::new(&attr), 100)).unwrap();
    check_with_perf(&writer.finish().unwrap(), 100);
}

#[test]
fn perf_reads_the_compressed_form() {
    let attr = attr(PLAIN | sample_type::BRANCH_STACK);
    let plain = records(&Encoder::new(&attr), 20_000);
    let mut compressor = Compressor::new(CompressedKind::Unaligned, 1).unwrap();
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), std::slice::from_ref(&attr)).unwrap();
    // Pieces that end within records: perf must join them.
    for piece in plain.chunks(100_001) {
        let mut out = Vec::new();
        compressor.compress(piece, &mut out).unwrap();
        writer.append(&out).unwrap();
    }
    let features = Features { compressed: Some(compressor.describe()), ..features() };
    check_with_perf(&writer.finish(&features).unwrap().into_inner(), 20_000);
}

#[test]
fn every_form_gives_the_same_records_again() {
    for endian in [Endian::Little, Endian::Big] {
        let attr = attr(PLAIN | sample_type::BRANCH_STACK | sample_type::IDENTIFIER);
        let attrs = std::slice::from_ref(&attr);
        let plain = records(&Encoder::with_endian(&attr, endian), 30_000);
        let mut files = Vec::new();
        let mut writer = FileWriter::with_endian(Cursor::new(Vec::new()), attrs, endian).unwrap();
        writer.append(&plain).unwrap();
        files.push(writer.finish(&features()).unwrap().into_inner());
        let mut writer = PipeWriter::with_endian(Vec::new(), attrs, &features(), endian).unwrap();
        writer.append(&plain).unwrap();
        files.push(writer.finish().unwrap());
        for kind in [CompressedKind::Unaligned, CompressedKind::Aligned] {
            let mut compressor = Compressor::with_endian(kind, 3, endian).unwrap();
            let mut writer =
                FileWriter::with_endian(Cursor::new(Vec::new()), attrs, endian).unwrap();
            for piece in plain.chunks(777_777) {
                let mut out = Vec::new();
                compressor.compress(piece, &mut out).unwrap();
                writer.append(&out).unwrap();
            }
            files.push(writer.finish(&features()).unwrap().into_inner());
        }
        for (form, file) in files.iter().enumerate() {
            let input = Input::from_pipe(file.as_slice()).unwrap();
            assert_eq!(input.endian(), endian);
            let mut read = Vec::new();
            let mut chunks = input.chunks().unwrap();
            while let Some(chunk) = chunks.next() {
                let chunk = chunk.unwrap();
                for raw in raw_records(&chunk.bytes, chunk.offset, endian) {
                    if raw.kind < kind::HEADER_ATTR
                        || raw.kind == kind::FINISHED_ROUND
                        || raw.kind == kind::FINISHED_INIT
                    {
                        let size = endian.put_u16(raw.body.len() as u16 + 8);
                        read.extend(endian.put_u32(raw.kind));
                        read.extend(endian.put_u16(raw.misc));
                        read.extend(size);
                        read.extend(raw.body);
                    }
                }
                chunks.recycle(chunk.bytes);
            }
            assert!(
                read == plain,
                "{endian:?}, form {form}: {} of {} bytes",
                read.len(),
                plain.len()
            );
            assert_eq!(input.attrs()[0], attr);
            let got = input.features();
            assert_eq!((got.damaged, got.unknown.len()), (0, 0));
            assert_eq!(
                (&got.hostname, &got.cmdline, &got.build_ids),
                (&features().hostname, &features().cmdline, &features().build_ids)
            );
        }
    }
}

/// A COMPRESSED2 push as perf 6.16 and newer writes it: several records, the first with the sizes
/// of all together.
#[test]
fn a_push_with_a_wrong_size_is_read_by_its_data_size() {
    let attr = attr(PLAIN | sample_type::BRANCH_STACK);
    let plain = noisy_records(&attr, 4_000);
    let mut stream = zstd::stream::raw::Encoder::new(1).unwrap();
    let mut whole = Vec::with_capacity(plain.len() + 1024);
    {
        use zstd::stream::raw::{InBuffer, Operation, OutBuffer};
        let mut input = InBuffer::around(&plain);
        let mut out = OutBuffer::around(&mut whole);
        while input.pos() < plain.len() {
            stream.run(&mut input, &mut out).unwrap();
        }
        while stream.flush(&mut out).unwrap() > 0 {}
    }
    assert!(
        whole.len() > 2 * 65_519,
        "the push must need three records, it has {} bytes",
        whole.len()
    );
    let mut push = Vec::new();
    for payload in whole.chunks(65_519) {
        push.extend(kind::COMPRESSED2.to_le_bytes());
        push.extend([0, 0]);
        push.extend((16 + payload.len() as u16).to_le_bytes());
        push.extend(0xdead_beef_u64.to_le_bytes());
        push.extend(payload);
    }
    let size = push.len().next_multiple_of(8) as u16;
    let data_size = push.len() as u64 - 16;
    push[6..8].copy_from_slice(&size.to_le_bytes());
    push[8..16].copy_from_slice(&data_size.to_le_bytes());
    for padded in [true, false] {
        let mut writer = FileWriter::with_endian(
            Cursor::new(Vec::new()),
            std::slice::from_ref(&attr),
            Endian::Little,
        )
        .unwrap();
        let mut bytes = push.clone();
        bytes.resize(if padded { bytes.len().next_multiple_of(8) } else { bytes.len() }, 0);
        Encoder::with_endian(&attr, Endian::Little).finished_round(&mut bytes).unwrap();
        writer.append(&bytes).unwrap();
        let file = writer.finish(&features()).unwrap().into_inner();
        let input = Input::from_pipe(file.as_slice()).unwrap();
        let mut chunks = input.chunks().unwrap();
        let mut read = Vec::new();
        for chunk in chunks.by_ref() {
            read.extend(chunk.unwrap().bytes);
        }
        assert_eq!(read.len(), plain.len() + 8);
        assert_eq!(&read[..plain.len()], plain);
        assert_eq!((chunks.stats().repaired_sizes, chunks.stats().truncated_bytes), (1, 0));
    }
}

/// Samples that zstd cannot shrink much.
fn noisy_records(attr: &EventAttr, samples: u64) -> Vec<u8> {
    let encoder = Encoder::with_endian(attr, Endian::Little);
    let (mut out, mut state) = (Vec::new(), 1u64);
    for _ in 0..samples {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = state ^ state >> 29;
        let entry = BranchEntry {
            from: RuntimeAddr(mixed),
            to: RuntimeAddr(mixed.rotate_left(17)),
            flags: BranchFlags(mixed.rotate_left(41)),
        };
        let stacks = StackValues { branches: &[entry, entry], ..StackValues::default() };
        let values = SampleValues {
            id: id(mixed),
            ip: mixed.swap_bytes(),
            stacks,
            ..SampleValues::default()
        };
        encoder.sample(&mut out, &values).unwrap();
    }
    out
}

#[test]
fn rounds_bound_the_order_and_late_records_are_counted() {
    let attr = attr(PLAIN);
    let encoder = Encoder::new(&attr);
    let round = |out: &mut Vec<u8>, times: &[u64]| {
        for &time in times {
            encoder.sample(out, &SampleValues { id: id(time), ..SampleValues::default() }).unwrap();
        }
        encoder.finished_round(out).unwrap();
    };
    let order = |bytes: &[u8]| {
        let mut writer =
            FileWriter::new(Cursor::new(Vec::new()), std::slice::from_ref(&attr)).unwrap();
        writer.append(bytes).unwrap();
        let file = writer.finish(&features()).unwrap().into_inner();
        let input = Input::from_pipe(file.as_slice()).unwrap();
        let mut ordered = input.ordered(OrderOptions::default()).unwrap();
        let mut times = Vec::new();
        while let Some(record) = ordered.next() {
            times.push(record.unwrap().time);
        }
        (times, ordered.stats().out_of_order)
    };
    // Two rings drained in turn; round 2 reaches behind the newest of round 1, never behind that of
    // round 0.
    let mut bytes = Vec::new();
    round(&mut bytes, &[1, 4, 2, 3]);
    round(&mut bytes, &[5, 9, 3, 6]);
    round(&mut bytes, &[10, 7, 8]);
    assert_eq!(order(&bytes), (vec![1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10], 0));
    // A promise broken: 1 comes two rounds after 5.
    let mut bytes = Vec::new();
    round(&mut bytes, &[4, 5]);
    round(&mut bytes, &[6]);
    round(&mut bytes, &[7]);
    round(&mut bytes, &[1]);
    assert_eq!(order(&bytes), (vec![4, 5, 6, 1, 7], 1));
}

#[test]
fn a_full_window_gives_out_its_older_half_and_says_so() {
    let attr = attr(PLAIN);
    let encoder = Encoder::new(&attr);
    let mut bytes = Vec::new();
    // No rounds at all, three MiB, and the oldest record at the very end.
    for time in 1..60_000u64 {
        encoder
            .sample(&mut bytes, &SampleValues { id: id(time + 10), ..SampleValues::default() })
            .unwrap();
    }
    encoder.sample(&mut bytes, &SampleValues { id: id(5), ..SampleValues::default() }).unwrap();
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), std::slice::from_ref(&attr)).unwrap();
    writer.append(&bytes).unwrap();
    let file = writer.finish(&features()).unwrap().into_inner();
    let input = Input::from_pipe(file.as_slice()).unwrap();
    for (window_bytes, expected_late) in [(1 << 20, 1), (256 << 20, 0)] {
        let mut ordered = input.ordered(OrderOptions { window_bytes }).unwrap();
        let mut count = 0;
        while let Some(record) = ordered.next() {
            record.unwrap();
            count += 1;
        }
        let stats = ordered.stats();
        assert_eq!((count, stats.out_of_order), (60_000, expected_late));
        assert_eq!(stats.window_overflows > 0, expected_late > 0);
    }
}

#[test]
fn aux_payloads_are_kept_as_spans_and_the_records_behind_them_are_read() {
    let attr = attr(PLAIN);
    let encoder = Encoder::new(&attr);
    let mut bytes = Vec::new();
    encoder.sample(&mut bytes, &SampleValues { id: id(1), ..SampleValues::default() }).unwrap();
    bytes.extend(kind::AUXTRACE.to_le_bytes());
    bytes.extend([0, 0, 48, 0]);
    let size = 3u64 << 20;
    for word in [size, 0, 0, 0xffff_ffff_0000_0000, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.resize(bytes.len() + size as usize, 0xff);
    encoder.sample(&mut bytes, &SampleValues { id: id(2), ..SampleValues::default() }).unwrap();
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), std::slice::from_ref(&attr)).unwrap();
    writer.append(&bytes).unwrap();
    let file = writer.finish(&features()).unwrap().into_inner();
    let input = Input::from_pipe(file.as_slice()).unwrap();
    let mut chunks = input.chunks().unwrap();
    let mut kinds = Vec::new();
    for chunk in chunks.by_ref() {
        let chunk = chunk.unwrap();
        for raw in raw_records(&chunk.bytes, chunk.offset, Endian::Little) {
            kinds.push(raw.kind);
            if let Record::User(UserRecord::Auxtrace { size_bytes, tid, .. }) =
                Record::parse(&raw, input.layouts()).unwrap().0
            {
                assert_eq!((size_bytes, tid), (size, -1));
            }
        }
    }
    assert_eq!(kinds, [kind::SAMPLE, kind::AUXTRACE, kind::SAMPLE]);
    assert_eq!(
        chunks.stats().aux_spans.iter().map(|span| span.size_bytes).collect::<Vec<_>>(),
        [size]
    );
}
