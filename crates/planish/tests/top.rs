//! `planish top` on a busy program: it names the hot function, in text, JSON and on the terminal, and
//! ends the program and gives the terminal back when told.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

#[path = "terminal/mod.rs"]
mod terminal;

use serde_json::Value;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use terminal::Terminal;

fn build(dir: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/calls.c");
    let built = Command::new("cc")
        .current_dir(dir)
        .args([
            "-O1",
            "-g",
            "-fno-omit-frame-pointer",
            "-fno-optimize-sibling-calls",
            "-o",
            "calls",
        ])
        .arg(source)
        .status();
    assert!(built.unwrap().success());
}

fn top(dir: &Path, words: &[&str]) -> Output {
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(dir).arg("top").args(words).stdin(Stdio::null());
    planish.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const BUSY: &str = "while :; do ./calls; done";

#[test]
fn the_hot_function_of_a_command_is_named_in_text_and_json() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path());
    let done = top(dir.path(), &["--once", "-g", "--", "./calls"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let printed = text(&done.stdout);
    let first = printed.lines().nth(3).unwrap_or_default();
    assert!(first.contains("leaf") && first.contains("[calls]"), "{printed}");
    // Several looks, of a command that ends before the last one.
    let words = ["--batch", "50", "--format", "json", "-g", "--by", "function", "--", "./calls"];
    let done = top(dir.path(), &words);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let printed = text(&done.stdout);
    let looks: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!((1..50).contains(&looks.len()), "it ends with the command: {printed}");
    let last = looks.last().unwrap();
    assert_eq!((&last["schema"], &last["version"]), (&"planish-top".into(), &1.into()));
    let rows = last["rows"].as_array().unwrap();
    assert_eq!(rows[0]["function"], "leaf", "{last}");
    assert!(rows.iter().any(|row| row["function"] == "main"), "callers have totals: {last}");
    assert_eq!((&last["lost"], &last["dropped"]), (&0.into(), &0.into()));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no file is written");
}

#[test]
fn programs_that_run_already_and_begin_meanwhile_are_seen() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path());
    let mut busy = Command::new("sh")
        .current_dir(dir.path())
        .args(["-c", BUSY])
        .process_group(0)
        .spawn()
        .unwrap();
    let pid = busy.id().to_string();
    let done = top(dir.path(), &["--once", "-d", "2", "-p", &pid, "--by", "process"]);
    let hot = top(dir.path(), &["--once", "-d", "2", "-p", &pid]);
    let _ = Command::new("kill").args(["--", &format!("-{pid}")]).status();
    busy.wait().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(text(&done.stdout).contains("calls"), "{}", text(&done.stdout));
    assert!(text(&hot.stdout).contains("leaf"), "{}", text(&hot.stdout));
    // Nothing is left to look at.
    let gone = top(dir.path(), &["--once", "-p", &pid]);
    assert_eq!(gone.status.code(), Some(2), "{}", text(&gone.stderr));
}

#[test]
fn the_terminal_shows_what_runs_and_is_given_back() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path());
    let Some(terminal) = Terminal::open(dir.path(), 80, 24) else { return };
    terminal.command("echo before");
    for end in ["q", "TERM"] {
        terminal.command(&format!("{} top -g -- sh -c '{BUSY}'", env!("CARGO_BIN_EXE_planish")));
        let screen = terminal.until(|screen| screen.contains("leaf  [calls]"));
        assert!(screen.starts_with("top: sh -c"), "{screen}");
        assert!(screen.contains("samples since the last look, 10 s in all"), "{screen}");
        let child = terminal.child();
        if end == "q" {
            terminal.keys(&["Enter"]);
            terminal.shows("who called");
            terminal.keys(&["1", "Space"]);
            terminal.shows("standing still");
            terminal.keys(&["s"]);
            terminal.shows("lines are told of recordings");
            terminal.keys(&["q"]);
        } else {
            assert!(Command::new("kill").args(["-s", end, &child]).status().unwrap().success());
        }
        terminal.prompt_below("before");
        let word = format!("after-{end}");
        terminal.command(&format!("echo {word}"));
        terminal.until(|screen| screen.lines().any(|line| line == word));
        assert!(!Path::new(&format!("/proc/{child}")).exists(), "it has ended");
    }
}

#[test]
fn without_rights_it_says_what_would_help() {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let strict = paranoid.is_ok_and(|text| text.trim().parse().is_ok_and(|level: i32| level > 0));
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let planish = env!("CARGO_BIN_EXE_planish");
    let run = |word: &str| {
        let words = [&nobody[..], &[planish, word]].concat();
        Command::new("setpriv").args(words).stdin(Stdio::null()).output().ok()
    };
    let can = run("--version").is_some_and(|done| done.status.success());
    if !(strict && can) {
        println!("skipped: no user here lacks the right to look at the system");
        return;
    }
    let words = [&nobody[..], &[planish, "top", "--once"]].concat();
    let done = Command::new("setpriv").args(words).stdin(Stdio::null()).output().unwrap();
    let told = text(&done.stderr);
    assert_eq!(done.status.code(), Some(3), "{told}");
    assert!(told.contains("CAP_PERFMON"), "{told}");
}
