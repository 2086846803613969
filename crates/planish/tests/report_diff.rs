//! `planish report diff`: a function that does more is named, a program against itself is not, and
//! what cannot be compared is refused.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const SOURCE: &str = r#"
#include <stdlib.h>
/* In a register: some CPUs forward what was stored in one cycle or in five, depending on where the stack lies. */
#define SPIN(rounds) \
	long sum = 1; \
	for (long i = 0; i < (rounds); i++) { sum = sum * 1103515245 + i; __asm__ volatile("" : "+r"(sum)); }
#define WORK(name, rounds) __attribute__((noinline)) void name(void) { SPIN(rounds) }
#ifndef ROUNDS
#define ROUNDS 3000
#endif
#ifndef SECOND
#define SECOND __attribute__((noinline))
#endif
WORK(first, 40000)
SECOND static void second(void)
	{ SPIN(30000) }
WORK(third, 20000)
WORK(grown, GROWN)
__attribute__((noinline)) static void between(unsigned rounds)
	{ SPIN(rounds) }
int main(void)
{
	unsigned seed = 1;
	for (int i = 0; i < ROUNDS; i++) {
		first(); second(); third(); grown();
		/* No two rounds are of the same length, so that no clock runs in step with them. */
		seed = seed * 1103515245 + 12345;
		between((seed >> 16) % 30000);
	}
	return 0;
}
"#;

fn planish(dir: &Path, words: &[&str]) -> Output {
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(dir).args(words).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn built(dir: &Path, program: &str, grown: u32) {
    built_with(dir, program, &[&format!("-DGROWN={grown}")]);
}

fn built_with(dir: &Path, program: &str, flags: &[&str]) {
    std::fs::write(dir.join("grown.c"), SOURCE).unwrap();
    let built = Command::new("cc")
        .current_dir(dir)
        .args(["-O1", "-g", "-fno-omit-frame-pointer", "-o", program, "grown.c"])
        .args(flags)
        .status();
    assert!(built.unwrap().success());
}

fn recorded(dir: &Path, program: &str, recording: &str) {
    let program = format!("./{program}");
    let done = planish(dir, &["record", "-e", "cpu-clock:u", "-o", recording, "--", &program]);
    assert!(done.status.success(), "{}", text(&done.stderr));
}

fn verdicts(found: &Value, word: &str) -> Vec<String> {
    let rows = found["rows"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["verdict"] == word);
    rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_function_that_does_more_is_named_and_a_program_against_itself_names_none() {
    let dir = tempfile::tempdir().unwrap();
    built(dir.path(), "before", 10_000);
    built(dir.path(), "after", 40_000);
    recorded(dir.path(), "before", "one.data");
    recorded(dir.path(), "before", "two.data");
    recorded(dir.path(), "after", "three.data");
    let diff = |old: &str, new: &str, code: i32| -> Value {
        let done = planish(dir.path(), &["report", "diff", old, new, "--format", "json"]);
        assert_eq!(done.status.code(), Some(code), "{} {}", text(&done.stdout), text(&done.stderr));
        serde_json::from_slice(&done.stdout).unwrap()
    };
    let moved = diff("one.data", "three.data", 1);
    assert_eq!((&moved["schema"], &moved["version"]), (&"planish-report-diff".into(), &2.into()));
    assert_eq!(verdicts(&moved, "more"), ["grown"], "{moved}");
    let words = ["one.data", "three.data", "--by", "line"];
    let lines = verdicts(&compared(dir.path(), &words, 1), "more");
    assert!(lines.iter().all(|line| line.contains("grown.c:")) && !lines.is_empty(), "{lines:?}");
    let still = diff("one.data", "two.data", 0);
    assert!(verdicts(&still, "more").is_empty() && verdicts(&still, "less").is_empty(), "{still}");
}

/// The verdicts of `report diff`, with the exit code that they have.
fn compared(dir: &Path, words: &[&str], code: i32) -> Value {
    let done = planish(dir, &[&["report", "diff", "--format", "json"], words].concat());
    assert_eq!(done.status.code(), Some(code), "{} {}", text(&done.stdout), text(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

#[test]
fn what_only_moved_into_its_caller_did_not_move() {
    let dir = tempfile::tempdir().unwrap();
    built(dir.path(), "called", 10_000);
    let inlined = "-DSECOND=__attribute__((always_inline)) inline";
    built_with(dir.path(), "inlined", &["-DGROWN=10000", inlined]);
    recorded(dir.path(), "called", "old.data");
    recorded(dir.path(), "inlined", "new.data");
    // The code is another, so that its speed may be, too.
    let words = ["report", "diff", "old.data", "new.data", "--format", "json", "--percent", "0"];
    let found: Value = serde_json::from_slice(&planish(dir.path(), &words).stdout).unwrap();
    let of = |name: &str, side: &str| {
        let mut rows = found["rows"].as_array().unwrap().iter();
        let row = rows.find(|row| row["name"] == name);
        row.map_or(0.0, |row| row[side].as_f64().unwrap())
    };
    for side in ["old_percent", "new_percent"] {
        assert!(of("second", side) > 15.0 && of("main", side) < 5.0, "{side}: {found}");
    }
    // Where each recording is read for itself, it belongs to its caller.
    let hot = text(&planish(dir.path(), &["report", "hot", "new.data"]).stdout);
    assert!(!hot.contains("second"), "{hot}");
}

#[test]
fn a_call_path_is_named_and_a_recording_within_itself_names_none() {
    let dir = tempfile::tempdir().unwrap();
    built_with(dir.path(), "before", &["-DGROWN=10000", "-DROUNDS=9000"]);
    built_with(dir.path(), "after", &["-DGROWN=40000", "-DROUNDS=9000"]);
    for (program, recording) in [("before", "one.data"), ("after", "two.data")] {
        let words = ["record", "-g", "-e", "cpu-clock:u", "-o", recording, "--"];
        let program = format!("./{program}");
        let done = planish(dir.path(), &[&words[..], &[&program]].concat());
        assert!(done.status.success(), "{}", text(&done.stderr));
    }
    let found = compared(dir.path(), &["one.data", "two.data", "--by", "stack"], 1);
    let more = verdicts(&found, "more");
    assert!(more.iter().any(|name| name.ends_with("grown")), "{found}");
    assert!(more.iter().all(|name| name.ends_with("grown")), "{found}");
    let frames = found["rows"][0]["frames"].as_array().unwrap();
    assert_eq!(frames.first().unwrap(), "grown", "{found}");
    for by in ["function", "stack"] {
        let still = compared(dir.path(), &["--within", "one.data", "--by", by], 0);
        assert!(verdicts(&still, "less").is_empty(), "{still}");
        assert!(still["old_samples"].as_u64().unwrap() > 100, "{still}");
    }
    // Long enough for many samples even if others want the CPU too.
    let parts = ["--within", "one.data", "--old-time", "0-0.5", "--new-time", "0.5-1.0"];
    let still = compared(dir.path(), &parts, 0);
    assert!(
        still["new_samples"].as_u64()
            < compared(dir.path(), &["one.data", "two.data"], 1)["new_samples"].as_u64()
    );
}

const WAITS: &str = r"
#include <time.h>
int main(void)
{
	for (int i = 0; i < 600; i++) {
		volatile long sum = 0;
		for (long j = 0; j < 300000; j++) sum += j;
		struct timespec t = { 0, WAIT };
		nanosleep(&t, 0);
	}
	return 0;
}
";

#[test]
fn longer_waits_are_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("waits.c"), WAITS).unwrap();
    for (program, wait, recording) in [
        ("short", 50_000, "short.data"),
        ("short", 50_000, "again.data"),
        ("long", 2_000_000, "long.data"),
    ] {
        let flags = ["-O1", "-g", &format!("-DWAIT={wait}"), "-o", program, "waits.c"];
        assert!(Command::new("cc").current_dir(dir.path()).args(flags).status().unwrap().success());
        let words = ["record", "--switch-events", "-g", "-e", "cpu-clock", "-o", recording, "--"];
        let program = format!("./{program}");
        let done = planish(dir.path(), &[&words[..], &[&program]].concat());
        if !done.status.success() {
            return eprintln!("skipped: {}", text(&done.stderr));
        }
    }
    let found = compared(dir.path(), &["short.data", "long.data", "--by", "wait"], 1);
    assert!(verdicts(&found, "more").contains(&"wait".to_owned()), "{found}");
    assert!(verdicts(&found, "less").contains(&"on CPU".to_owned()), "{found}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    built(dir.path(), "app", 10);
    recorded(dir.path(), "app", "app.data");
    let refused = |words: &[&str], expected: &str| {
        let done = planish(dir.path(), &[&["report", "diff"], words].concat());
        assert_eq!(done.status.code(), Some(2), "{words:?}");
        assert!(text(&done.stderr).contains(expected), "{words:?}: {}", text(&done.stderr));
    };
    refused(&["app.data"], "NEW");
    refused(&["app.data", "gone.data"], "gone.data");
    refused(&["app.data", "app.data", "--time", "-0.001"], "too little was recorded");
    refused(&["app.data", "app.data", "--by", "wait"], "--switch-events");
    refused(&["--within", "app.data", "app.data"], "cannot be used with");
    refused(&["--within", "-"], "once");
    refused(&["--within", "app.data", "--old-time", "0-1"], "--new-time");
    let old = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/autofdo/test.lbr");
    refused(&["app.data", old], "samples of");
    let words = ["record", "-q", "--no-timestamp", "-e", "cpu-clock:u", "-o", "timeless.data"];
    let made = Command::new("perf").current_dir(dir.path()).args(words).arg("./app").output();
    if made.is_ok_and(|made| made.status.success()) {
        refused(&["--within", "timeless.data"], "no times");
        refused(&["timeless.data", "app.data"], "no times");
    } else {
        eprintln!("skipped: perf is not installed");
    }
    std::fs::write(dir.path().join("empty.data"), "").unwrap();
    refused(&["app.data", "empty.data"], "empty.data");
    refused(&["app.data", "app.data", "--event", "cycles"], "no sampled event is called cycles");
}
