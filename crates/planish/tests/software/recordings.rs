//! What is in the file: as many samples and branches as were told, full stacks, and profiles like
//! those from others.

use super::{compile, has, planish, record, said, text, works};
use std::path::Path;
use std::process::Command;

#[test]
fn nearly_all_stacks_of_programs_that_compute_are_full() {
    if !works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("text"), text(16 << 20)).unwrap();
    for (program, level) in [("gzip", "-6"), ("xz", "-0")] {
        if !has(program) {
            continue;
        }
        let recorded = record(
            dir.path(),
            &["--depth", "1024", "-c", "1000000"],
            &[program, level, "-kf", "text"],
        );
        let (stops, full) = (recorded.number("stops"), recorded.number("full"));
        assert!(stops >= 100, "{program}: {}", recorded.notes());
        assert!(full * 100 >= stops * 98, "{program}: {}", recorded.notes());
    }
}

#[test]
fn a_stack_that_ends_early_has_its_reason() {
    if !works() || !has("dd") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let copy = ["dd", "if=/dev/zero", "of=copy", "bs=1", "count=400000"];
    let recorded = record(dir.path(), &["--depth", "1024", "-c", "100000"], &copy);
    let calls = recorded.json["look_ahead"]["shorter"]["system call"].as_u64();
    assert!(calls.is_some_and(|calls| calls > 0), "{}", recorded.notes());
    assert!(recorded.json["branch_entries"].as_u64() > Some(0));
}

/// Sorts and switches; big enough that profiles have something to differ in.
fn program(dir: &Path) -> Option<&'static str> {
    let flags =
        ["-O2", "-g", "-fdebug-info-for-profiling", "-funique-internal-linkage-names", "-pthread"];
    let wanted = ["perf", "llvm-profgen-22", "llvm-profdata-22", "clang-22"];
    if !wanted.into_iter().all(has) {
        return None;
    }
    compile(dir, "clang-22", "kinds.c", "kinds", &[&flags[..], &["-lm", "-ldl"]].concat())
        .map(|_| "./kinds")
}

/// Runs a tool; its output.
fn tool(dir: &Path, words: &[&str]) -> String {
    let done = Command::new(words[0]).current_dir(dir).args(&words[1..]).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", said(&done));
    String::from_utf8(done.stdout).unwrap()
}

fn profile(dir: &Path, recording: &str, output: &str) {
    let done = planish(
        dir,
        &["profile", recording, "--binary", "./kinds", "--emit", "text", "-o", output],
    );
    let done = { done }.output().unwrap();
    assert!(done.status.success(), "{}", said(&done));
}

/// How alike two profiles are, in per cent, as LLVM says it: by counts, or (`similarity`) by shares
/// of counts.
fn overlap(dir: &Path, what: &str, one: &str, other: &str) -> f64 {
    let text = tool(dir, &["llvm-profdata-22", "overlap", "--sample", one, other]);
    let line = text.lines().find(|line| line.contains(what)).unwrap();
    line.rsplit(':').next().unwrap().trim().trim_end_matches('%').parse().unwrap()
}

#[test]
fn others_read_the_recording_and_make_the_same_profile_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let Some(kinds) = works().then(|| program(dir.path())).flatten() else { return };
    let recorded = record(
        dir.path(),
        &["--depth", "256", "-c", "500000", "-o", "soft.data"],
        &[kinds, "jumps", "2000000"],
    );
    let script = tool(dir.path(), &["perf", "script", "-i", "soft.data", "-F", "ip,brstack"]);
    let samples = script.lines().filter(|line| line.contains('/')).count() as u64;
    let entries =
        script.split_whitespace().filter(|word| word.starts_with("0x") && word.contains('/'));
    assert_eq!(samples, recorded.json["samples"].as_u64().unwrap());
    assert_eq!(entries.count() as u64, recorded.json["branch_entries"].as_u64().unwrap());

    profile(dir.path(), "soft.data", "planish.prof");
    let words = ["llvm-profgen-22", "--binary=./kinds", "--perfdata=soft.data", "--format=text"];
    tool(dir.path(), &[&words[..], &["--output=profgen.prof"]].concat());
    let same = overlap(dir.path(), "Whole program sample overlap", "planish.prof", "profgen.prof");
    assert!(same >= 97.0, "overlap with llvm-profgen's profile {same} %");

    let done = planish(
        dir.path(),
        &["record", "--branches=emulated", "-o", "all.data", "--", kinds, "jumps", "300000"],
    );
    let done = { done }.output().unwrap();
    if !done.status.success() {
        eprintln!("skipped: {}", said(&done));
        return;
    }
    profile(dir.path(), "all.data", "emulated.prof");
    let same =
        overlap(dir.path(), "Whole program profile similarity", "emulated.prof", "planish.prof");
    assert!(same >= 85.0, "overlap with the emulated program's profile {same} %");
}
