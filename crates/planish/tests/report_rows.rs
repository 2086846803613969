//! Whether rows by source line are those of perf, and rows by control group those that were
//! written into a recording.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use perfdata::write::{Encoder, FileWriter, SampleValues};
use perfdata::{EventAttr, Features, SampleId, attr_flag, kind, sample_type};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn planish(dir: &Path, words: &[&str]) -> Output {
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(dir).args(words).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn rows(dir: &Path, words: &[&str]) -> Vec<Value> {
    let more = ["--format", "json", "--limit", "0", "--percent", "0"];
    let done = planish(dir, &[&["report", "hot"], words, &more].concat());
    assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    found["rows"].as_array().unwrap().clone()
}

/// Time in a function of a header that is inlined into one that `main` calls.
const PROGRAM: &str = "\
#include <stdio.h>
#include \"part.h\"
__attribute__((noinline)) long sum(long n)
{
	volatile long s = 0;
	for (long i = 0; i < n; i++)
		s += square(i);
	return s;
}
int main(void)
{
	long t = 0;
	for (int i = 0; i < 20; i++)
		t += sum(500000);
	printf(\"%ld\\n\", t);
	return 0;
}
";
/// Several divisions, each waiting for the one before. One alone is not enough: some CPUs let an
/// interrupt in only when it is done, and the sample falls on the caller's next instruction.
const HEADER: &str = "static inline __attribute__((always_inline)) long square(long x)
{
	for (int i = 0; i < 8; i++) x = x * x % (x | 1023) + i;
	return x;
}
";

/// Self per cent of the lines of C files, as perf finds them with addr2line.
fn by_perf(dir: &Path) -> Option<BTreeMap<String, f64>> {
    let done = Command::new("perf")
        .current_dir(dir)
        .args(["report", "--stdio", "--no-children", "-g", "none", "--percent-limit", "0"])
        .args(["--sort", "srcline", "-t", ",", "-i", "perf.data"])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let printed = text(&done.stdout);
    let row = |line: &str| {
        let (percent, place) = line.split_once("%,")?;
        let own = place.starts_with("lines.c:") || place.starts_with("part.h:");
        own.then(|| (place.trim().to_owned(), percent.trim().parse().unwrap()))
    };
    Some(printed.lines().filter_map(row).collect())
}

#[test]
fn lines_have_what_perf_finds_and_their_callers_the_total() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("lines.c"), PROGRAM).unwrap();
    std::fs::write(dir.path().join("part.h"), HEADER).unwrap();
    let flags = ["-O1", "-g", "-fno-omit-frame-pointer", "-o", "lines", "lines.c"];
    assert!(Command::new("cc").current_dir(dir.path()).args(flags).status().unwrap().success());
    let done = planish(dir.path(), &["record", "-g", "-o", "perf.data", "--", "./lines"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let found = rows(dir.path(), &["--by", "line"]);
    let mut ours: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for row in &found {
        let percent = |key: &str| row[key].as_f64().unwrap();
        let Some(file) = row["file"].as_str() else {
            assert!(row["function"].is_string(), "a function stands for what has no line: {row}");
            continue;
        };
        let path = Path::new(file);
        assert!(path.is_absolute() || !path.ends_with("lines.c"), "{file}");
        let line = format!("{}:{}", path.file_name().unwrap().to_str().unwrap(), row["line"]);
        ours.insert(line, (percent("self_percent"), percent("total_percent")));
    }
    // The call in main, the one in `sum` that was inlined, and what was inlined.
    assert!(ours["lines.c:14"].1 > 90.0 && ours["lines.c:14"].0 < 5.0, "{ours:?}");
    assert!(ours["lines.c:7"].1 > ours["part.h:3"].0 && ours["part.h:3"].0 > 20.0, "{ours:?}");
    let sum: f64 = found.iter().map(|row| row["self_percent"].as_f64().unwrap()).sum();
    assert!((sum - 100.0).abs() < 0.01, "{sum}");
    // Functions are told as without lines.
    let function = |name: &str| {
        let rows = rows(dir.path(), &["--by", "function"]);
        let row = rows.iter().find(|row| row["function"] == name).unwrap().clone();
        row["total_percent"].as_f64().unwrap()
    };
    assert!((function("main") - ours["lines.c:14"].1).abs() < 5.0, "{ours:?}");
    let shown = text(&planish(dir.path(), &["report", "hot", "--by", "line"]).stdout);
    assert!(shown.contains("  part.h:3\n"), "{shown}");
    let Some(theirs) = by_perf(dir.path()).filter(|theirs| !theirs.is_empty()) else {
        println!("skipped: perf finds no source lines here");
        return;
    };
    for (line, own) in &theirs {
        let found = ours.get(line).unwrap_or_else(|| panic!("{line}: {ours:?} {theirs:?}"));
        assert!((found.0 - own).abs() < 0.0051, "{line}: {found:?} {own}");
    }
}

/// Samples in control groups of these numbers, with the paths of some.
fn grouped(groups: &[(u64, u64)], paths: &[(u64, &str)]) -> Vec<u8> {
    let attr = EventAttr {
        kind: 1,
        period_or_freq: 1000,
        sample_type: sample_type::IP
            | sample_type::TID
            | sample_type::TIME
            | sample_type::CALLCHAIN
            | sample_type::CGROUP,
        flags: attr_flag::SAMPLE_ID_ALL,
        ..EventAttr::default()
    };
    let encoder = Encoder::new(&attr);
    let mut bytes = Vec::new();
    let id = |time| SampleId { pid: Some(7), tid: Some(7), time: Some(time), ..Default::default() };
    for (number, path) in paths {
        let body = [&number.to_ne_bytes(), path.as_bytes(), &[0]].concat();
        encoder.other(&mut bytes, kind::CGROUP, 0, &body, &id(0)).unwrap();
    }
    for ((cgroup, samples), time) in groups.iter().zip(10..) {
        for _ in 0..*samples {
            let values = SampleValues {
                id: id(time),
                ip: 0x1234,
                cgroup: *cgroup,
                ..SampleValues::default()
            };
            encoder.sample(&mut bytes, &values).unwrap();
        }
    }
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), std::slice::from_ref(&attr)).unwrap();
    writer.append(&bytes).unwrap();
    writer.finish(&Features::default()).unwrap().into_inner()
}

#[test]
fn control_groups_are_told_by_path_and_hold_those_below_them() {
    let dir = tempfile::tempdir().unwrap();
    let groups = [(11, 4), (12, 3), (13, 2), (14, 1)];
    let paths = [(11, "/web"), (12, "/web/\u{1b}[31m<b>"), (13, "/webber")];
    std::fs::write(dir.path().join("perf.data"), grouped(&groups, &paths)).unwrap();
    let found = rows(dir.path(), &["--by", "cgroup"]);
    let told = |row: &Value| {
        let samples = row["self_samples"].as_u64().unwrap();
        (row["cgroup"].as_str().map(str::to_owned), row["cgroup_id"].as_u64().unwrap(), samples)
    };
    let told: Vec<_> = found.iter().map(told).collect();
    let path = |number: u64| paths.iter().find(|one| one.0 == number).map(|one| one.1.to_owned());
    let wanted: Vec<_> =
        groups.iter().map(|(number, samples)| (path(*number), *number, *samples)).collect();
    assert_eq!(told, wanted);
    let shown = planish(dir.path(), &["report", "hot", "--by", "cgroup"]).stdout;
    assert!(!shown.contains(&0x1b) && text(&shown).contains("group 14, of no recorded path"));
    for (name, samples) in [("web", 7), ("/web/", 7), ("/webber", 2), ("/", 9)] {
        let within = rows(dir.path(), &["--cgroup", name]);
        assert_eq!(within[0]["self_samples"], samples, "{name}");
    }
    let refused = planish(dir.path(), &["report", "hot", "--cgroup", "we"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("no sample was taken in a control group we; there is"));
}

#[test]
fn a_recording_without_control_groups_says_how_to_record_them() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("perf.data"), grouped(&[(0, 2)], &[])).unwrap();
    for words in [["--by", "cgroup"], ["--cgroup", "web"]] {
        let refused = planish(dir.path(), &[&["report", "hot"], &words[..]].concat());
        assert_eq!(refused.status.code(), Some(2), "{words:?}");
        assert!(text(&refused.stderr).contains("--all-cgroups"), "{}", text(&refused.stderr));
    }
}
