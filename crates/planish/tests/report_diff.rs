//! `planish report diff`: a function that does more is named, a program against itself is not, and
//! what cannot be compared is refused.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const SOURCE: &str = r"
#include <stdlib.h>
#define WORK(name, rounds) __attribute__((noinline)) void name(void) \
	{ volatile long sum = 0; for (long i = 0; i < (rounds); i++) sum += i; }
WORK(first, 40000)
WORK(second, 30000)
WORK(third, 20000)
WORK(grown, GROWN)
int main(void)
{
	for (int i = 0; i < 3000; i++) { first(); second(); third(); grown(); }
	return 0;
}
";

fn planish(dir: &Path, words: &[&str]) -> Output {
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(dir).args(words).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn built(dir: &Path, program: &str, grown: u32) {
    std::fs::write(dir.join("grown.c"), SOURCE).unwrap();
    let define = format!("-DGROWN={grown}");
    let built = Command::new("cc")
        .current_dir(dir)
        .args(["-O1", &define, "-o", program, "grown.c"])
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
    assert_eq!((&moved["schema"], &moved["version"]), (&"planish-report-diff".into(), &1.into()));
    assert_eq!(verdicts(&moved, "more"), ["grown"], "{moved}");
    let still = diff("one.data", "two.data", 0);
    assert!(verdicts(&still, "more").is_empty() && verdicts(&still, "less").is_empty(), "{still}");
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
    refused(&["app.data", "app.data", "--event", "cycles"], "no sampled event is called cycles");
}
