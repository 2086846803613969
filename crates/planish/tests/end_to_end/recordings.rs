//! Recordings of every shape that perf makes of one program: are they read, and do the forms of one
//! recording agree?

use crate::bench::{Bench, CLANG_FLAGS, has, has_emulation, has_perf, refuses, succeeds, text};
use serde_json::Value;
use std::process::Stdio;

/// How long the program spins; 0.1 s or so.
const TURNS: &str = "1500000";

/// A bench with the program `spin`.
fn spinner() -> Option<Bench> {
    has("clang-22").then(|| {
        let bench = Bench::new();
        bench.source("spin.c");
        let words = [CLANG_FLAGS, &["-fno-omit-frame-pointer", "-o", "spin", "spin.c"]].concat();
        bench.tool("clang-22", &words);
        bench
    })
}

/// Records `spin` with perf.
#[track_caller]
fn record(bench: &Bench, output: &str, more: &[&str]) {
    let words = [&["record", "-q", "-F", "2000", "-o", output][..], more, &["--", "./spin", TURNS]]
        .concat();
    bench.tool("perf", &words);
}

/// The counts of `input` as text.
#[track_caller]
fn counts(bench: &Bench, input: &str) -> String {
    let made = bench.planish(&["aggregate", "-q", input, "--binary", "spin", "--emit", "text"]);
    succeeds(&made);
    text(&made.stdout)
}

/// Asserts that the ledger balances and that nothing is lost without a reason; gives back the
/// ledger.
#[track_caller]
fn ledger(bench: &Bench, input: &str, least_share: f64) -> Value {
    let made = bench.planish(&["aggregate", "-q", input, "--binary", "spin", "--format", "json"]);
    succeeds(&made);
    let value: Value = serde_json::from_slice(&made.stdout).unwrap();
    let ledger = value["ledger"].clone();
    for book in ["samples", "branches", "fall_throughs"] {
        let number = |v: &Value| v.as_u64().unwrap();
        let unused: u64 = ledger[book]["unused"].as_object().unwrap().values().map(number).sum();
        assert_eq!(
            number(&ledger[book]["entered"]),
            number(&ledger[book]["used"]) + unused,
            "{ledger}"
        );
    }
    let (entered, used) = (
        ledger["samples"]["entered"].as_f64().unwrap(),
        ledger["samples"]["used"].as_f64().unwrap(),
    );
    assert!(used > 20.0 && used >= entered * least_share, "{input}: {ledger}");
    assert_eq!(ledger["unknown_records"], 0, "{input}: {ledger}");
    ledger
}

#[test]
fn every_form_of_a_clock_recording_is_read() {
    let Some(bench) = spinner().filter(|_| has_perf()) else { return };
    let shapes: &[(&str, &[&str])] = &[
        ("plain", &["-e", "cpu-clock"]),
        ("chains", &["-e", "cpu-clock", "-g"]),
        ("zstd", &["-e", "cpu-clock", "-z"]),
        ("dwarf", &["-e", "cpu-clock", "--call-graph", "dwarf,512"]),
        ("events", &["-e", "cpu-clock,task-clock"]),
        ("ids", &["-e", "cpu-clock", "--buildid-mmap"]),
        ("threads", &["-e", "cpu-clock", "--threads"]),
        ("switches", &["-e", "cpu-clock", "--switch-events", "--namespaces", "-B"]),
    ];
    for (name, options) in shapes {
        record(&bench, name, options);
        ledger(&bench, name, 0.8);
    }
    let said = succeeds(&bench.planish(&[
        "aggregate",
        "events",
        "--binary",
        "spin",
        "-o",
        "events.counts",
    ]));
    assert!(said.contains("samples of 2 events are added up: cpu-clock, task-clock"), "{said}");
    let profiles = shapes.iter().map(|(name, _)| {
        let words = ["profile", "-q", name, "--binary", "spin", "--emit", "text", "-o", "-"];
        let made = bench.planish(&words);
        succeeds(&made);
        text(&made.stdout)
    });
    assert!(profiles.into_iter().all(|profile| profile.contains("leaf:")));
}

#[test]
fn build_ids_that_perf_inject_adds_change_no_count() {
    let Some(bench) = spinner().filter(|_| has_perf()) else { return };
    for (name, more) in [("plain", &[][..]), ("zstd", &["-z"])] {
        record(&bench, name, &[&["-e", "cpu-clock", "-B"], more].concat());
        let injected = format!("{name}.injected");
        bench.tool("perf", &["inject", "-b", "-i", name, "-o", &injected]);
        assert_eq!(counts(&bench, &injected), counts(&bench, name), "{name}");
    }
}

#[test]
fn a_pipe_is_read_from_a_file_and_from_standard_input_alike() {
    let Some(bench) = spinner().filter(|_| has_perf()) else { return };
    let piped = std::fs::File::create(bench.at("piped")).unwrap();
    let words = [
        "record",
        "-q",
        "-e",
        "cpu-clock",
        "-F",
        "2000",
        "-o",
        "-",
        "--",
        "sh",
        "-c",
        "./spin 1500000 >&2",
    ];
    let ended =
        bench.command("perf").args(words).stdout(piped).stderr(Stdio::null()).status().unwrap();
    assert!(ended.success());
    ledger(&bench, "piped", 0.5);
    let words = ["aggregate", "-q", "-", "--binary", "spin", "--emit", "text"];
    let read = bench.planish_reading(&words, &bench.at("piped"));
    succeeds(&read);
    assert_eq!(text(&read.stdout), counts(&bench, "piped"));
    // A named pipe, as the shell's `<(perf record …)` makes one.
    bench.tool("mkfifo", &["fifo"]);
    let mut writer = bench.command("cp").args(["piped", "fifo"]).spawn().unwrap();
    assert_eq!(counts(&bench, "fifo"), counts(&bench, "piped"));
    assert!(writer.wait().unwrap().success());
    // A pipe on both sides, as in `perf record -o - | perf inject -b | planish aggregate -`.
    let injected = std::fs::File::create(bench.at("injected")).unwrap();
    let source = std::fs::File::open(bench.at("piped")).unwrap();
    let ended = bench
        .command("perf")
        .args(["inject", "-b"])
        .stdin(source)
        .stdout(injected)
        .stderr(Stdio::null())
        .status();
    assert!(ended.unwrap().success());
    assert_eq!(counts(&bench, "injected"), counts(&bench, "piped"));
}

#[test]
fn a_system_wide_recording_tells_where_the_other_samples_are() {
    let Some(bench) = spinner().filter(|_| has_perf()) else { return };
    let words =
        ["record", "-q", "-a", "-e", "cpu-clock", "-F", "2000", "-o", "all", "--", "./spin", TURNS];
    if !bench.command("perf").args(words).output().unwrap().status.success() {
        eprintln!("skipped: perf record -a is not allowed here");
        return;
    }
    let ledger = ledger(&bench, "all", 0.0);
    let unused = &ledger["samples"]["unused"];
    assert!(
        unused["other-image"].as_u64().is_some_and(|n| n > 0),
        "the idle task at least is elsewhere: {ledger}"
    );
    let said = succeeds(&bench.planish(&[
        "aggregate",
        "-v",
        "all",
        "--binary",
        "spin",
        "-o",
        "all.counts",
    ]));
    assert!(said.contains("elsewhere:") && said.contains("samples in"), "{said}");
}

#[test]
fn a_running_process_is_recorded_and_read() {
    let Some(bench) = spinner().filter(|_| has_perf()) else { return };
    let mut child = bench.command("./spin").arg("200000000").stdout(Stdio::null()).spawn().unwrap();
    let pid = child.id().to_string();
    let words = [
        "record",
        "-q",
        "-e",
        "cpu-clock",
        "-F",
        "2000",
        "-o",
        "attached",
        "-p",
        &pid,
        "--",
        "sleep",
        "0.4",
    ];
    let recorded = bench.command("perf").args(words).output();
    let made = bench.planish(&[
        "record",
        "-q",
        "--branches=none",
        "-p",
        &pid,
        "-o",
        "ours",
        "--",
        "sleep",
        "0.4",
    ]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(recorded.unwrap().status.success());
    succeeds(&made);
    // Mappings of a process that runs already are written by the recorder, not by the kernel.
    ledger(&bench, "attached", 0.8);
    ledger(&bench, "ours", 0.8);
}

#[test]
fn perf_script_and_perf_inject_give_the_counts_of_the_recording() {
    let Some(bench) = spinner().filter(|_| has("perf") && has_emulation()) else { return };
    bench.emulate(&["./spin", "3000"]);
    let made = bench.planish(&[
        "aggregate",
        "perf.data",
        "--binary",
        "spin",
        "--pid",
        "4000001",
        "-o",
        "none.counts",
    ]);
    refuses(&made, &["none of them is of process 4000001"]);
    let expected = counts(&bench, "perf.data");
    ledger(&bench, "perf.data", 0.9);
    bench.tool("perf", &["inject", "-b", "-i", "perf.data", "-o", "injected"]);
    assert_eq!(counts(&bench, "injected"), expected);
    // With and without pids, symbols that look like numbers, times and event names.
    for fields in [
        "ip,brstack",
        "pid,ip,brstack",
        "pid,ip,sym,brstack",
        "comm,pid,tid,time,event,ip,sym,brstack",
    ] {
        let listing = bench
            .command("perf")
            .args(["script", "-i", "perf.data", "--show-mmap-events", "-F", fields])
            .output();
        bench.write("listing", listing.unwrap().stdout);
        assert_eq!(counts(&bench, "listing"), expected, "{fields}");
    }
    // `perf script … | planish aggregate -`, and counts that were made before.
    succeeds(&bench.planish(&[
        "aggregate",
        "-q",
        "perf.data",
        "--binary",
        "spin",
        "-o",
        "run.counts",
    ]));
    for input in ["listing", "run.counts"] {
        let words = ["aggregate", "-q", "-", "--binary", "spin", "--emit", "text"];
        let read = bench.planish_reading(&words, &bench.at(input));
        succeeds(&read);
        assert_eq!(text(&read.stdout), expected, "{input}");
    }
    // Without mappings a position-independent program cannot be found, and that is said.
    let listing =
        bench.command("perf").args(["script", "-i", "perf.data", "-F", "ip,brstack"]).output();
    bench.write("listing", listing.unwrap().stdout);
    let made = bench.planish(&["aggregate", "listing", "--binary", "spin"]);
    refuses(&made, &["--show-mmap-events"]);
}

/// `aggregate --emit text` in BOLT's words.
fn preaggregated(listing: &str) -> String {
    let mut out = String::new();
    let outside =
        |address: &str| if address == "external" { "X:0".to_owned() } else { address.to_owned() };
    for line in listing.lines() {
        let Some((what, count)) = line.rsplit_once(':').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        if let Some((from, to)) = what.split_once("->") {
            out += &format!("B {} {} {count} 0\n", outside(from), outside(to));
        } else if let Some((first, last)) = what.split_once('-') {
            out += &format!("F {first} {last} {count}\n");
        } else {
            out += &format!("S {what} {count}\n");
        }
    }
    out
}

#[test]
fn preaggregated_text_gives_the_same_counts_and_bolt_reads_it_too() {
    let Some(bench) = spinner().filter(|_| has_emulation()) else { return };
    bench.emulate(&["./spin", "3000"]);
    let expected = counts(&bench, "perf.data");
    bench.write("pre.txt", preaggregated(&expected));
    let body = |listing: &str| listing.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(body(&counts(&bench, "pre.txt")), body(&expected));
    let bytes = |input: &str| {
        let words = ["profile", "-q", input, "--binary", "spin", "--emit", "text", "-o", "-"];
        let made = bench.planish(&words);
        succeeds(&made);
        text(&made.stdout)
    };
    assert_eq!(bytes("pre.txt"), bytes("perf.data"));
    if has("perf2bolt-22") {
        let branches: String = preaggregated(&expected)
            .lines()
            .filter(|l| !l.starts_with('S'))
            .fold(String::new(), |a, l| a + l + "\n");
        bench.write("bolt.txt", branches);
        let said =
            bench.tool("perf2bolt-22", &["--pa", "-p", "bolt.txt", "-o", "bolt.fdata", "spin"]);
        assert!(said.contains("mismatching disassembled function contents: 0 "), "{said}");
    }
}
