//! Whether code made at run time has the name and the line that its jitdump gave it at the time of a
//! sample, as with `perf inject --jit`.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn run(dir: &Path, program: &str, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.current_dir(dir).args(words).stdin(Stdio::null()).output().unwrap()
}

fn planish(dir: &Path, words: &[&str]) -> Output {
    run(dir, env!("CARGO_BIN_EXE_planish"), words)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn built(dir: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/jitdump.c");
    let source = source.to_str().unwrap();
    assert!(run(dir, "cc", &["-O1", "-o", "jitdump", source]).status.success());
}

/// The rows, and the notes.
fn hot(dir: &Path, words: &[&str]) -> (Vec<Value>, String) {
    let more = ["--format", "json", "--limit", "0", "--percent", "0"];
    let done = planish(dir, &[&["report", "hot"], words, &more].concat());
    assert!(done.status.success(), "{}", text(&done.stderr));
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    (found["rows"].as_array().unwrap().clone(), text(&done.stderr))
}

fn percent(rows: &[Value], function: &str) -> f64 {
    let own = rows.iter().filter(|row| row["function"] == function);
    own.map(|row| row["self_percent"].as_f64().unwrap()).sum()
}

fn dump_in(dir: &Path) -> PathBuf {
    let is_dump = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "dump");
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.into_iter().find(is_dump).unwrap()
}

#[test]
fn code_has_the_name_and_line_of_its_time() {
    let dir = tempfile::tempdir().unwrap();
    built(dir.path());
    let words = ["record", "-k", "mono", "-o", "perf.data", "--", "./jitdump"];
    let done = planish(dir.path(), &words);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let (rows, notes) = hot(dir.path(), &["perf.data"]);
    let (first, second) = (percent(&rows, "first <b>"), percent(&rows, "second"));
    // 160 ms, and 80 and 40.
    assert!(first > 40.0 && second > 30.0 && first > second && first + second > 90.0, "{rows:?}");
    let row = rows.iter().find(|row| row["function"] == "second").unwrap();
    assert!(row["library"].as_str().unwrap().starts_with("[JIT "), "{row}");
    assert!(notes.contains("tables for unwinding, which are not used: 1"), "{notes}");
    assert!(!notes.contains("another clock"), "{notes}");
    let (lines, _) = hot(dir.path(), &["perf.data", "--by", "line"]);
    let line = |number: u64| -> f64 {
        let own =
            lines.iter().filter(|row| row["file"] == "/no/such/first.js" && row["line"] == number);
        own.map(|row| row["self_percent"].as_f64().unwrap()).sum()
    };
    assert!((line(1) + line(3) - first).abs() < 0.001 && line(3) > 40.0, "{lines:?}");
    // Elsewhere, as after copying; and gone.
    let dump = dump_in(dir.path());
    let kept = dir.path().join("kept");
    std::fs::create_dir(&kept).unwrap();
    let moved = kept.join(dump.file_name().unwrap());
    std::fs::rename(&dump, &moved).unwrap();
    let (rows, notes) = hot(dir.path(), &["perf.data"]);
    assert_eq!(percent(&rows, "second"), 0.0);
    assert!(notes.contains("it is gone (--symbols DIR)"), "{notes}");
    let (rows, _) = hot(dir.path(), &["perf.data", "--symbols", "kept"]);
    assert_eq!(percent(&rows, "second"), second);
    // A link may lead anywhere.
    std::os::unix::fs::symlink(&moved, &dump).unwrap();
    let (rows, notes) = hot(dir.path(), &["perf.data"]);
    assert_eq!(percent(&rows, "second"), 0.0);
    assert!(notes.contains("a symbolic link, which is not followed here"), "{notes}");
}

#[test]
fn without_a_common_clock_the_last_name_stands_and_a_note_says_so() {
    let dir = tempfile::tempdir().unwrap();
    built(dir.path());
    let done = planish(
        dir.path(),
        &["record", "-k", "monotonic_raw", "-o", "perf.data", "--", "./jitdump"],
    );
    assert!(done.status.success(), "{}", text(&done.stderr));
    let (rows, notes) = hot(dir.path(), &["perf.data"]);
    assert_eq!(percent(&rows, "first <b>"), 0.0, "{rows:?}");
    assert!(percent(&rows, "second") > 90.0, "{rows:?}");
    assert!(notes.contains("another clock than the recording's"), "{notes}");
}

#[test]
fn perf_inject_finds_the_same() {
    let dir = tempfile::tempdir().unwrap();
    built(dir.path());
    let record =
        ["record", "-q", "-k", "mono", "-e", "cpu-clock:u", "-o", "perf.data", "./jitdump"];
    let is_there = Command::new("perf").arg("--version").output().is_ok();
    if !is_there || !run(dir.path(), "perf", &record).status.success() {
        println!("skipped: perf is not installed or may not record");
        return;
    }
    let (rows, _) = hot(dir.path(), &["perf.data"]);
    let inject = ["inject", "--jit", "-i", "perf.data", "-o", "jitted.data"];
    let done = run(dir.path(), "perf", &inject);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let report = ["report", "--stdio", "-i", "jitted.data", "--sort", "symbol", "-t", ","];
    let printed = text(&run(dir.path(), "perf", &report).stdout);
    let row = |line: &str| {
        // Percentage, symbol, and what this perf adds.
        let mut columns = line.split(',').map(str::trim);
        let percent = columns.next()?.strip_suffix('%')?.trim().parse().unwrap();
        Some((columns.next()?.strip_prefix("[.] ")?.to_owned(), percent))
    };
    let theirs: BTreeMap<String, f64> = printed.lines().filter_map(row).collect();
    for name in ["first <b>", "second"] {
        let (ours, theirs) = (percent(&rows, name), theirs.get(name).copied().unwrap_or(0.0));
        assert!((ours - theirs).abs() < 0.0051 && ours > 20.0, "{name}: {ours} {theirs} {printed}");
    }
}
