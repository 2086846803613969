//! Whether callers come from branch stacks: those of the call stack mode as `perf report` finds
//! them, and those of all branches as the program calls.
//!
//! No machine of ours has the call stack mode, so that its recording is written here.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use perfdata::write::{Encoder, FileWriter, SampleValues, StackValues};
use perfdata::{
    BranchEntry, CpuMode, EventAttr, Features, MmapEvent, RuntimeAddr, SampleId, attr_flag,
    branch_sample, sample_type,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const KERNEL: u64 = -128i64 as u64;
const USER: u64 = -512i64 as u64;

fn planish(dir: &Path, words: &[&str]) -> Output {
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(dir).args(words).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(dir: &Path, words: &[&str]) -> Value {
    let more = ["--format", "json", "--limit", "0", "--percent", "0"];
    let done = planish(dir, &[words, &more].concat());
    assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

fn built(dir: &Path, program: &str, flags: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{program}.c"));
    let mut cc = Command::new("cc");
    cc.current_dir(dir).args(["-O1", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"]);
    assert!(cc.args(flags).args(["-o", program]).arg(source).status().unwrap().success());
}

/// Self and total per cent by function.
fn shares(dir: &Path, words: &[&str]) -> BTreeMap<String, (f64, f64)> {
    let found = json(dir, &[&["report", "hot"], words].concat());
    let row = |row: &Value| {
        let percent = |key: &str| row[key].as_f64().unwrap();
        let name = row["function"].as_str().unwrap().to_owned();
        (name, (percent("self_percent"), percent("total_percent")))
    };
    found["rows"].as_array().unwrap().iter().map(row).collect()
}

/// A recording of `calls` in the call stack mode.
fn call_stacks(dir: &Path) -> Vec<u8> {
    let attr = EventAttr {
        kind: 1,
        period_or_freq: 1000,
        sample_type: sample_type::IP
            | sample_type::TID
            | sample_type::TIME
            | sample_type::CALLCHAIN
            | sample_type::BRANCH_STACK,
        branch_sample_type: branch_sample::USER
            | branch_sample::CALL_STACK
            | branch_sample::NO_FLAGS
            | branch_sample::NO_CYCLES,
        flags: attr_flag::SAMPLE_ID_ALL,
        ..EventAttr::default()
    };
    let program = dir.join("calls");
    let image = image::Image::open(&program).unwrap();
    let at = |name: &str| {
        let found = image.functions().iter().find(|function| function.name == name);
        found.unwrap_or_else(|| panic!("no {name}")).address
    };
    let offset = image.offset_of(at("leaf")).unwrap().0;
    let start = at("leaf").0 & !0xfff;
    let encoder = Encoder::new(&attr);
    let mut bytes = Vec::new();
    let id = |time| SampleId { pid: Some(7), tid: Some(7), time: Some(time), ..Default::default() };
    encoder.comm(&mut bytes, 7, 7, b"calls", true, &id(1)).unwrap();
    let map = MmapEvent {
        pid: 7,
        tid: 7,
        start: RuntimeAddr(start),
        len: 0x2000,
        pgoff: offset & !0xfff,
        path: program.to_str().unwrap().as_bytes(),
        prot: 5,
        flags: 2,
        executable: true,
        cpumode: CpuMode::User,
        build_id: None,
        inode: None,
    };
    encoder.mmap2(&mut bytes, &map, &id(2)).unwrap();
    // Newest first: from inside of a function to the start of the next.
    let stack = |names: &[&str]| -> Vec<BranchEntry> {
        let call = |pair: &[&str]| BranchEntry {
            from: RuntimeAddr(at(pair[1]).0 + 2),
            to: RuntimeAddr(at(pair[0]).0),
            ..BranchEntry::default()
        };
        names.windows(2).map(call).collect()
    };
    let leaf = at("leaf").0 + 4;
    // What frame pointers give where there are none.
    let user = [USER, leaf, at("main").0 + 3];
    let kernel = [KERNEL, 0xffff_ffff_8000_1000, USER, leaf];
    let sampled: [(u32, &[u64], &[&str]); 3] = [
        (3, &user, &["leaf", "middle", "again", "again", "main"]),
        (2, &user, &["leaf", "main"]),
        (1, &kernel, &["leaf", "middle", "main"]),
    ];
    for ((times, callchain, names), time) in sampled.into_iter().zip(10..) {
        for _ in 0..times {
            let branches = stack(names);
            let stacks = StackValues { callchain, branches: &branches, ..Default::default() };
            let is_user = callchain[0] == USER;
            let values = SampleValues {
                cpumode: if is_user { CpuMode::User } else { CpuMode::Kernel },
                id: id(time),
                ip: callchain[1],
                stacks,
                ..SampleValues::default()
            };
            encoder.sample(&mut bytes, &values).unwrap();
        }
    }
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), std::slice::from_ref(&attr)).unwrap();
    writer.append(&bytes).unwrap();
    writer.finish(&Features::default()).unwrap().into_inner()
}

/// Total per cent of functions, as perf finds them.
fn by_perf(dir: &Path) -> BTreeMap<String, f64> {
    let done = Command::new("perf")
        .current_dir(dir)
        .args(["report", "--stdio", "--children", "-g", "none", "--percent-limit", "0", "-t", ","])
        .args(["--no-inline", "--sort", "symbol", "-i", "perf.data"])
        .stdin(Stdio::null())
        .output();
    let printed = done.map(|done| text(&done.stdout)).unwrap_or_default();
    let row = |line: &str| {
        let mut columns = line.split(',').map(str::trim);
        let total = columns.next()?.strip_suffix('%')?.trim().parse().ok()?;
        Some((columns.nth(1)?.strip_prefix("[.] ")?.to_owned(), total))
    };
    printed.lines().filter_map(row).collect()
}

#[test]
fn unreturned_calls_of_the_hardware_are_the_callers_that_perf_finds() {
    let dir = tempfile::tempdir().unwrap();
    built(dir.path(), "calls", &["-no-pie"]);
    std::fs::write(dir.path().join("perf.data"), call_stacks(dir.path())).unwrap();
    let ours = shares(dir.path(), &[]);
    let share = |samples: f64| 100.0 * samples / 6.0;
    let near = |one: f64, other: f64| (one - other).abs() < 0.0051;
    for (name, own, total) in
        [("leaf", 5.0, 6.0), ("middle", 0.0, 4.0), ("again", 0.0, 3.0), ("main", 0.0, 6.0)]
    {
        let found = ours[name];
        assert!(near(found.0, share(own)) && near(found.1, share(total)), "{name}: {ours:?}");
    }
    // main is not where a program begins.
    let tree = json(dir.path(), &["report", "tree"]);
    assert_eq!(tree["ledger"]["stacks_beyond_branches"], 6, "{tree}");
    let roots = tree["nodes"].as_array().unwrap().iter().filter(|node| node["parent"].is_null());
    let roots: Vec<&str> = roots.map(|node| node["function"].as_str().unwrap()).collect();
    assert_eq!(roots, ["[a caller is missing]"]);
    let theirs = by_perf(dir.path());
    if theirs.is_empty() {
        println!("skipped: perf is not installed");
        return;
    }
    for name in ["leaf", "middle", "again", "main"] {
        let total = theirs.get(name).unwrap_or_else(|| panic!("{name}: {theirs:?}"));
        assert!(near(ours[name].1, *total), "{name}: {ours:?} {theirs:?}");
    }
}

#[test]
fn unreturned_calls_of_all_branches_are_the_callers_if_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    built(dir.path(), "window", &["-g"]);
    let words = ["record", "--branches=software", "-o", "perf.data", "--", "./window"];
    let done = planish(dir.path(), &words);
    if !done.status.success() {
        println!("skipped: no software branch stacks here: {}", text(&done.stderr));
        return;
    }
    assert!(shares(dir.path(), &[]).get("main").is_none_or(|found| found.1 < 40.0));
    let found = shares(dir.path(), &["--call-graph", "branch-stack"]);
    for name in ["first", "second", "main"] {
        assert!(found[name].1 > 70.0, "{name}: {found:?}");
    }
    let folded = planish(
        dir.path(),
        &["report", "tree", "--emit", "folded", "--call-graph", "branch-stack"],
    );
    let folded = text(&folded.stdout);
    let chain = "[a caller is missing];main;first;second;third ";
    assert!(folded.lines().any(|line| line.contains(chain)), "{folded}");
    assert!(
        text(&planish(dir.path(), &["report", "hot", "--call-graph", "branch-stack"]).stderr)
            .contains("their branch stacks end before them")
    );
}
