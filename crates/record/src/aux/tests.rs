//! AUX data written here is what planish's own reader and perf find in the file, and what plans say
//! of it is what the kernel needs.

use super::*;
use crate::event::parse;
use crate::file::Output;
use crate::options::{Rate, Sampling, Scope};
use crate::plan::plan;
use crate::settings::RingPages;
use perfdata::spe::Decoder;
use perfdata::write::Encoder;
use perfdata::{Features, Input, Record, SampleId, UserRecord, kind, raw_records, tracer};
use proptest::prelude::*;
use std::path::Path;

const PMU_TYPE: u32 = 8;

#[test]
fn the_events_of_an_area_that_was_full_are_enabled_until_data_comes_again() {
    let mut resuming = Resuming::default();
    let mut round = |taken, full| (resuming.round(taken, full), resuming.soon_ms());
    assert_eq!(round(0, false), (false, None));
    // Whoever took data enables, once.
    assert_eq!([round(64, false), round(0, false)], [(true, None), (false, None)]);
    assert_eq!(round(4096, true), (true, Some(2)));
    assert_eq!([round(0, false), round(0, false)], [(true, Some(4)), (true, Some(8))]);
    for _ in 0..100 {
        let (enable, soon) = round(0, false);
        assert!(enable && soon.is_some_and(|soon| soon > 8));
    }
    assert_eq!([round(64, false), round(0, false)], [(true, None), (false, None)]);
    // The kernel's word may come after the data.
    assert_eq!(round(0, true), (true, Some(2)));
}

#[test]
fn losses_are_counted_by_kind() {
    let mut seen = AuxSeen::default();
    let flags =
        [0, aux_flag::TRUNCATED, aux_flag::COLLISION | aux_flag::PARTIAL, aux_flag::COLLISION];
    flags.into_iter().for_each(|flags| seen.note(flags));
    assert_eq!((seen.truncated, seen.partial, seen.collided), (1, 1, 2));
    let mut sum = seen;
    sum.add(AuxSeen { bytes: 5, pieces: 1, ..seen });
    assert_eq!(sum, AuxSeen { bytes: 5, pieces: 1, truncated: 2, partial: 2, collided: 4 });
}

fn attr() -> EventAttr {
    EventAttr {
        kind: PMU_TYPE,
        size_bytes: EventAttr::WRITTEN_BYTES,
        period_or_freq: 1024,
        sample_type: crate::attr::SAMPLE_FIELDS | sample_type::CPU | sample_type::DATA_SRC,
        flags: attr_flag::SAMPLE_ID_ALL | attr_flag::EXCLUDE_KERNEL,
        ids: vec![7],
        name: Some("arm_spe_0/ts_enable=1/u".to_owned()),
        ..EventAttr::default()
    }
}

/// The kernel's record of AUX data.
fn kernels(offset: u64, size: u64, flags: u64, cpu: u32) -> Vec<u8> {
    let id = SampleId {
        pid: Some(1),
        tid: Some(1),
        time: Some(9),
        id: Some(7),
        stream_id: None,
        cpu: Some(cpu),
    };
    let body = [offset, size, flags].map(u64::to_ne_bytes).concat();
    let mut out = Vec::new();
    Encoder::new(&attr()).other(&mut out, kind::AUX, 0, &body, &id).unwrap();
    out
}

/// Writes pieces of the streams of some CPUs, each in two parts, with a record of the kernel's
/// before it.
fn write(path: &Path, pieces: &[(i32, Vec<u8>, usize)], conversion: Option<TimeConversion>) {
    let attrs = [attr()];
    let mut output = Output::create(path, &attrs).unwrap();
    output.records(&written(&attrs[0], tracer::ARM_SPE, conversion).unwrap()).unwrap();
    let mut offsets = std::collections::BTreeMap::new();
    for (number, (cpu, data, cut)) in pieces.iter().enumerate() {
        let offset: &mut u64 = offsets.entry(*cpu).or_default();
        output.records(&kernels(*offset, data.len() as u64, 0, *cpu as u32)).unwrap();
        let piece = AuxPiece {
            size_bytes: data.len() as u64,
            aux_offset: *offset,
            reference: number as u64,
            index: *cpu as u32,
            tid: -1,
            cpu: *cpu,
        };
        let (one, two) = data.split_at(*cut % (data.len() + 1));
        output.aux(&piece, [one, two]).unwrap();
        *offset += data.len() as u64;
        output.finish_round().unwrap();
    }
    let features = Features {
        arch: Some("aarch64".into()),
        cpu_id: Some("0x410fd0c0".into()),
        ..Features::default()
    };
    output.finish(&features).unwrap();
}

/// Kinds of the records, and the payloads in their order. The index of the file has to name the
/// places of their records.
fn read(path: &Path) -> (Vec<u32>, Vec<Vec<u8>>) {
    let input = Input::open(path).unwrap();
    let (mut kinds, mut places) = (Vec::new(), Vec::new());
    let mut chunks = input.chunks().unwrap();
    for chunk in chunks.by_ref() {
        let chunk = chunk.unwrap();
        for raw in raw_records(&chunk.bytes, chunk.offset, Endian::NATIVE) {
            kinds.push(raw.kind);
            match Record::parse(&raw, input.layouts()).unwrap().0 {
                Record::User(UserRecord::Auxtrace { .. }) => places.push((raw.offset, 48)),
                Record::User(UserRecord::AuxtraceInfo { tracer, private }) => {
                    assert_eq!(
                        (tracer, private),
                        (tracer::ARM_SPE, &[8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..])
                    );
                }
                _ => {}
            }
        }
    }
    let payload = |span: &perfdata::AuxSpan| {
        let (mut data, mut bytes) = (input.aux_data(*span), Vec::new());
        while data.next_block(&mut bytes).unwrap() {}
        bytes
    };
    let payloads = chunks.stats().aux_spans.iter().map(payload).collect();
    assert_eq!(input.features().aux_index, places);
    assert_eq!(input.features().damaged, 0);
    (kinds, payloads)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back_padded_with_zeros(
        pieces in prop::collection::vec(
            (0i32..4, prop::collection::vec(any::<u8>(), 1..3000), any::<usize>()), 1..9,
        ),
        short in any::<Option<(u64, u64)>>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("perf.data");
        write(&path, &pieces, short.map(|short| TimeConversion { shift: 4, mult: 3, zero: 5, short: Some(short) }));
        let (kinds, payloads) = read(&path);
        let mut expected: Vec<u32> = short.iter().map(|_| kind::TIME_CONV).collect();
        expected.push(kind::AUXTRACE_INFO);
        pieces.iter().for_each(|_| expected.extend([kind::AUX, kind::AUXTRACE, kind::FINISHED_ROUND]));
        prop_assert_eq!(kinds, expected);
        prop_assert_eq!(payloads.len(), pieces.len());
        for ((_, data, _), payload) in pieces.iter().zip(&payloads) {
            let mut padded = data.clone();
            padded.resize(data.len().next_multiple_of(8), 0);
            prop_assert_eq!(&padded, payload);
        }
    }
}

/// SPE records of taken branches, one behind the other, each with a time.
fn branches(addresses: std::ops::Range<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    for number in addresses {
        let address = 0x40_0000 + number * 4;
        out.push(0xb0);
        out.extend((address | 1 << 63).to_le_bytes());
        out.extend([0x4a, 1, 0x52, 2, 0, 0xb1]);
        out.extend((0x50_0000u64 | 1 << 63).to_le_bytes());
        out.push(0x71);
        out.extend((1000 + number).to_le_bytes());
    }
    out
}

#[test]
fn perf_and_planish_decode_the_same_branches_out_of_the_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("perf.data");
    // A size that needs padding, two CPUs, and data that lay over the end of its area.
    let pieces = [(0, branches(0..5), 3), (1, branches(5..7), 0), (0, branches(7..30), 700)];
    write(&path, &pieces, Some(TimeConversion { shift: 0, mult: 1, zero: 0, short: None }));
    let (_, payloads) = read(&path);
    let mut seen = Vec::new();
    for payload in &payloads {
        let mut decoder = Decoder::new(0);
        decoder
            .decode(payload, true, |record| seen.push(record.branch().unwrap().from.runtime().0));
        assert_eq!((decoder.decoded().damaged, decoder.decoded().incomplete), (0, 0));
    }
    let expected: Vec<u64> = (0..30).map(|number| 0x40_0000 + number * 4).collect();
    assert_eq!(seen, expected);

    let perf = |words: &[&str]| {
        let done =
            std::process::Command::new("perf").args(words).arg("-i").arg(&path).output().ok()?;
        let (said, failed) =
            (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{words:?}: {failed}");
        Some(said.into_owned())
    };
    let Some(dump) = perf(&["report", "-D"]) else {
        return eprintln!("skipped: perf is not installed");
    };
    if !dump.contains("ARM SPE data") {
        return eprintln!("skipped: this perf shows no Arm SPE data");
    }
    assert_eq!(dump.matches("PERF_RECORD_AUXTRACE size").count(), 3, "{dump}");
    assert_eq!(dump.matches("PERF_RECORD_AUXTRACE_INFO type: 4").count(), 1, "{dump}");
    assert!(dump.contains("PMU Type           8"), "{dump}");
    assert_eq!(dump.matches("PERF_RECORD_TIME_CONV").count(), 1, "{dump}");
    assert_eq!(dump.matches("RETIRED").count(), 30, "{dump}");
    for address in &expected {
        assert!(dump.contains(&format!("PC 0x{address:x} el0 ns=1")), "{address:x} in {dump}");
    }
    assert!(!dump.contains(" BAD"), "{dump}");
    // Decoded in earnest: perf's own samples of branches, found by the index of the file.
    let script = perf(&["script", "--itrace=i1i", "-F", "cpu,time,event,ip"]).unwrap_or_default();
    assert!(script.contains("400000") && script.contains("400074"), "{script}");
}

fn planned(
    dir: &Path,
    texts: &[&str],
    sampling: &Sampling,
    rate: Option<Rate>,
    scope: Scope,
) -> Vec<Planned> {
    let machine =
        crate::arm_spe::tests::machine(dir, &[("arm_spe_0", "0-3"), ("arm_spe_1", "4-7")]);
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    plan(&parse(&texts, &machine).unwrap(), sampling, rate, scope)
}

const BRANCHES: &str = "arm_spe_0/branch_filter=1,ts_enable=1,min_latency=0/u";

#[test]
fn a_plan_has_the_attributes_that_perf_asks_for_and_an_event_that_tracks() {
    let dir = tempfile::tempdir().unwrap();
    let events = planned(dir.path(), &[BRANCHES], &Sampling::default(), None, Scope::Command);
    let [spe, tracker] = &events[..] else { panic!("{events:?}") };
    assert_eq!((spe.attr.kind, spe.attr.config, spe.attr.period_or_freq), (8, 1 << 32 | 1, 1024));
    let flags = spe.attr.flags;
    assert_eq!(
        flags
            & (attr_flag::FREQ
                | attr_flag::USE_CLOCKID
                | attr_flag::MMAP2
                | attr_flag::EXCLUDE_USER),
        0
    );
    let on = attr_flag::DISABLED
        | attr_flag::ENABLE_ON_EXEC
        | attr_flag::INHERIT
        | attr_flag::EXCLUDE_KERNEL;
    assert_eq!(flags & on, on);
    let fields =
        sample_type::CPU | sample_type::TIME | sample_type::DATA_SRC | sample_type::IDENTIFIER;
    assert_eq!(spe.attr.sample_type & fields, fields);
    // Switches say whose data it is, and all share a ring, so that they have one clock.
    assert!(tracker.is_tracker());
    assert_eq!(tracker.name, "dummy:u");
    let tracks = attr_flag::CONTEXT_SWITCH | attr_flag::MMAP2 | attr_flag::COMM | attr_flag::TASK;
    assert_eq!(tracker.attr.flags & (tracks | attr_flag::USE_CLOCKID), tracks);
    assert_eq!(tracker.attr.sample_type & sample_type::CPU, sample_type::CPU);
    assert_eq!(clock(&events, None), None);
    assert_eq!(clock(&events[1..], None), Some(libc::CLOCK_MONOTONIC));
}

#[test]
fn a_period_is_taken_from_the_event_then_the_option_then_the_driver() {
    let dir = tempfile::tempdir().unwrap();
    let of = |text: &str, rate| {
        planned(dir.path(), &[text], &Sampling::default(), rate, Scope::Command)[0]
            .attr
            .period_or_freq
    };
    assert_eq!(of("arm_spe_0//", None), 1024);
    assert_eq!(of("arm_spe_0//", Some(Rate::Period(5000))), 5000);
    assert_eq!(of("arm_spe_0/period=7000/", Some(Rate::Period(5000))), 7000);
}

#[test]
fn a_clock_that_was_chosen_is_kept_and_its_price_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let sampling = Sampling { clock: Some(Clock(libc::CLOCK_BOOTTIME)), ..Sampling::default() };
    let events = planned(dir.path(), &[BRANCHES], &sampling, None, Scope::Cpus);
    let has =
        |event: &Planned| event.attr.flags & attr_flag::USE_CLOCKID != 0 && event.attr.clockid == 7;
    assert!(events.iter().all(has), "{events:?}");
    assert!(clock_note(&events).unwrap().contains("-k"));
    assert_eq!(
        clock_note(&planned(dir.path(), &[BRANCHES], &Sampling::default(), None, Scope::Cpus)),
        None
    );
}

#[test]
fn what_does_not_go_with_aux_data_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |texts: &[&str], how: Streaming| {
        let events = planned(dir.path(), texts, &Sampling::default(), None, Scope::Command);
        check(&events, &how).map_err(|error| error.to_string()).err().unwrap_or_default()
    };
    let usual = Streaming::default;
    assert_eq!(refused(&[BRANCHES, "arm_spe_1//u", "cpu-clock:u"], usual()), "");
    assert!(refused(&[BRANCHES], Streaming { overwrite: true, ..usual() }).contains("--overwrite"));
    let threads = Some(crate::streaming::Spread::Cpu);
    assert!(refused(&[BRANCHES], Streaming { threads, ..usual() }).contains("--threads"));
    assert!(
        refused(&["arm_spe_0//u", "arm_spe_0/jitter/u"], usual()).contains("one event at a time")
    );
    assert!(refused(&["{cpu-clock:u,arm_spe_0//u}"], usual()).contains("braces"));
    assert!(refused(&["{arm_spe_0//u,cpu-clock:u}"], usual()).contains("braces"));
    assert!(
        refused(&["cpu-clock:u"], Streaming { aux: Some(RingPages(2)), ..usual() })
            .contains("-m ,SIZE")
    );
}
