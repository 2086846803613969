//! Whether copied stacks reach the start of their thread: through code without rules, signals,
//! linkage tables, and in threads.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn planish(dir: &Path, words: &[&str]) -> Output {
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(dir).args(words).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn stacks_reach_the_threads_start_through_code_without_rules() {
    let dir = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/gaps.c");
    let mut cc = Command::new("cc");
    cc.current_dir(dir.path()).args(["-O1", "-fomit-frame-pointer", "-pthread", "-o", "gaps"]);
    assert!(cc.arg(source).status().unwrap().success());
    let words = ["record", "--call-graph", "dwarf", "-o", "perf.data", "--", "./gaps"];
    let done = planish(dir.path(), &words);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let done = planish(dir.path(), &["report", "hot", "--format", "json", "--limit", "0"]);
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    let number = |key: &str| found["ledger"][key].as_u64().unwrap();
    assert!(number("samples") > 100 && number("frames_guessed") > 50, "{}", found["ledger"]);
    assert!(number("stacks_incomplete") * 100 <= number("samples"), "{}", found["ledger"]);
    let folded = text(&planish(dir.path(), &["report", "tree", "--emit", "folded"]).stdout);
    let chains = [
        "main;all;bare;work ",
        "main;all;framed;work ",
        "main;all;spin ",
        "start_thread;all;bare;work ",
        "start_thread;all;spin ",
        ";handler;work ",
    ];
    for chain in chains {
        assert!(folded.lines().any(|line| line.contains(chain)), "{chain}: {folded}");
    }
    // A handler's caller is what the signal interrupted.
    let below = folded.lines().filter(|line| line.contains(";handler;work "));
    let wanted = |line: &&str| line.contains("main;all;") || line.contains("start_thread;all;");
    assert!(below.clone().count() > 0 && below.clone().all(|line| wanted(&line)), "{folded}");
}
