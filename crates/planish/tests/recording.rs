//! How recordings end: by signals to planish alone, by insisting, by a killed planish; and where
//! they go.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Counts for some seconds.
const BUSY: &str = "i=0; while [ $i -lt 3000000 ]; do i=$((i+1)); done";

fn planish(dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
    command
        .current_dir(dir)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

fn said(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

/// Whether a short recording of this kind works here.
fn works(branches: &str) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let flag = format!("--branches={branches}");
    let words =
        ["record", &flag, "--", "sh", "-c", "i=0; while [ $i -lt 9000 ]; do i=$((i+1)); done"];
    let done = planish(dir.path(), &words).output().unwrap();
    if !done.status.success() {
        eprintln!("skipped: {}", said(&done));
    }
    done.status.success()
}

fn kill(signal: &str, pid: u32) {
    // The shell's own kill: a bare Debian has no program of that name.
    let kill = format!("kill {signal} {pid}");
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

fn start(dir: &Path, branches: &str, script: &str) -> Child {
    let flag = format!("--branches={branches}");
    let child = planish(dir, &["record", &flag, "--", "sh", "-c", script]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    child
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_signal_to_planish_alone_ends_the_program_and_finishes_the_file() {
    for branches in ["emulated", "software", "none"] {
        if !works(branches) {
            continue;
        }
        for signal in ["-INT", "-TERM"] {
            let dir = tempfile::tempdir().unwrap();
            let child = start(dir.path(), branches, BUSY);
            kill(signal, child.id());
            let done = child.wait_with_output().unwrap();
            assert_eq!(done.status.code(), Some(0), "{branches} {signal}: {}", said(&done));
            assert_eq!(names(dir.path()), ["perf.data"], "{branches} {signal}");
        }
    }
}

#[test]
fn an_illegal_instruction_under_emulation_is_explained() {
    if !works("emulated") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let script = "i=0; while [ $i -lt 9000 ]; do i=$((i+1)); done; kill -s ILL $$";
    let words = ["record", "--branches=emulated", "--", "sh", "-c", script];
    let done = planish(dir.path(), &words).output().unwrap();
    let told = said(&done);
    assert!(told.contains("signal 4") && told.contains("-march=native"), "{told}");
}

#[test]
fn a_second_signal_ends_a_program_that_ignores_the_first() {
    for branches in ["emulated", "software", "none"] {
        if !works(branches) {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let child =
            start(dir.path(), branches, &format!("trap '' INT TERM; while :; do {BUSY}; done"));
        let begun = Instant::now();
        kill("-INT", child.id());
        std::thread::sleep(Duration::from_millis(300));
        kill("-INT", child.id());
        let done = child.wait_with_output().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(60));
        assert_eq!(done.status.code(), Some(1), "{branches}: {}", said(&done));
        assert_eq!(names(dir.path()), ["perf.data"], "{branches}");
    }
}

/// Processes that were told of a spool in this directory.
fn emulators(dir: &Path) -> usize {
    let spool = format!("spool={}", dir.display());
    let told = |entry: &std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&spool)
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter(told).count()
}

#[test]
fn a_killed_planish_leaves_no_emulator_and_the_next_recording_no_spool() {
    if !works("emulated") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut child = start(dir.path(), "emulated", BUSY);
    assert_eq!(emulators(dir.path()), 1);
    kill("-KILL", child.id());
    child.wait().unwrap();
    let begun = Instant::now();
    while emulators(dir.path()) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "the emulator goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(names(dir.path()).len(), 2, "the spool and the part");
    let words = [
        "record",
        "--branches=emulated",
        "--",
        "sh",
        "-c",
        "i=0; while [ $i -lt 9000 ]; do i=$((i+1)); done",
    ];
    let done = planish(dir.path(), &words).output().unwrap();
    assert!(done.status.success(), "{}", said(&done));
    assert_eq!(names(dir.path()), ["perf.data"]);
}

#[test]
fn a_killed_recording_by_the_kernel_leaves_nothing_to_the_next() {
    if !works("none") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut child = start(dir.path(), "none", BUSY);
    kill("-KILL", child.id());
    child.wait().unwrap();
    assert_eq!(names(dir.path()).len(), 1, "the part");
    let script = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";
    let words = ["record", "--branches=none", "-o", "other.data", "--", "sh", "-c", script];
    let done = planish(dir.path(), &words).output().unwrap();
    assert!(done.status.success(), "{}", said(&done));
    assert_eq!(names(dir.path()), ["other.data"]);
}

#[test]
fn an_output_without_a_place_is_noticed_before_the_program_starts() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..20 {
        let words =
            ["record", "--branches=none", "-o", "nodir/x.data", "--", "sh", "-c", "echo ran >ran"];
        let done = planish(dir.path(), &words).output().unwrap();
        assert_eq!(done.status.code(), Some(2));
        assert_eq!(said(&done).lines().count(), 1, "{}", said(&done));
        assert!(names(dir.path()).is_empty());
    }
}

#[test]
fn a_recording_to_standard_output_is_read_from_a_pipe() {
    if !works("emulated") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let script = "echo program; i=0; while [ $i -lt 9000 ]; do i=$((i+1)); done";
    let words = ["record", "--branches=emulated", "-o", "-", "--", "sh", "-c", script];
    let mut recorder = planish(dir.path(), &words).stdout(Stdio::piped()).spawn().unwrap();
    let pipe = recorder.stdout.take().unwrap();
    let done = planish(dir.path(), &["aggregate", "-", "--binary", "/bin/sh", "-o", "counts"])
        .stdin(pipe)
        .output();
    let done = done.unwrap();
    let recorded = recorder.wait_with_output().unwrap();
    assert!(recorded.status.success(), "{}", said(&recorded));
    assert!(said(&recorded).contains("program\n"), "{}", said(&recorded));
    assert!(done.status.success(), "{}", said(&done));
    assert!(names(dir.path()).contains(&"counts".to_owned()));
    assert!(!names(dir.path()).contains(&"-".to_owned()));
}

#[test]
fn what_keeps_a_recording_from_starting_is_one_clear_line() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plain"), "x").unwrap();
    let cases: [(&[&str], &str); 4] = [
        (&["record", "--branches=none", "--", "./absent"], "./absent"),
        (&["record", "--branches=none", "--", "./plain"], "chmod +x"),
        (
            &["record", "--branches=emulated", "-o", "nodir/perf.data", "--", "true"],
            "there is no directory nodir",
        ),
        (
            &["record", "--branches=none", "-o", "nodir/perf.data", "--", "true"],
            "there is no directory nodir",
        ),
    ];
    for (words, expected) in cases {
        let done = planish(dir.path(), words).output().unwrap();
        assert_eq!(done.status.code(), Some(2));
        let said = said(&done);
        assert!(said.lines().count() == 1, "{said}");
        assert!(said.contains(expected) || said.contains("perf_event_paranoid"), "{said}");
    }
}
