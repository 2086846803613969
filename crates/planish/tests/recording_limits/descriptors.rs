//! Many threads and few descriptors: the soft limit is raised, the program does not see it, a hard
//! limit is told in numbers.

use super::{BUSY, Running, planish, possible, text};
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

// Rings of one page, as there is one for each thread: a busy machine loses records in them, and
// that is not asked here.
const THREADS: usize = 500;

/// A program of many threads that sleep, one of which works.
const PROGRAM: &str = "
import threading, time
stop = threading.Event()
for _ in range(499): threading.Thread(target=stop.wait, daemon=True).start()
print('ready', flush=True)
end = time.time() + 120
while time.time() < end: pass
";

/// The program, once all its threads are there; `None` without Python.
fn many_threads() -> Option<Running> {
    let mut python = Command::new("python3");
    let Ok(child) = python.args(["-c", PROGRAM]).stdout(Stdio::piped()).spawn() else {
        eprintln!("skipped: python3 is not installed");
        return None;
    };
    let mut running = Running(child);
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    assert_eq!(
        std::fs::read_dir(format!("/proc/{}/task", running.pid())).unwrap().count(),
        THREADS
    );
    Some(running)
}

/// Runs planish with limits set by `ulimit`.
fn limited(dir: &std::path::Path, limits: &str, words: &[&str]) -> Output {
    let script = format!("{limits} && exec \"$@\"");
    let planish = env!("CARGO_BIN_EXE_planish");
    let mut shell = Command::new("bash");
    shell.current_dir(dir).args(["-c", &script, "bash", planish]).args(words);
    shell.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn the_soft_limit_is_raised_and_the_program_keeps_its_own() {
    if !possible() {
        return;
    }
    let Some(many) = many_threads() else { return };
    let dir = tempfile::tempdir().unwrap();
    let pid = many.pid();
    let tell = ["sh", "-c", "ulimit -n; sleep 0.3"];
    let record = ["record", "-e", "cpu-clock:u", "-m", "1", "--accept-losses", "-p", &pid, "--"];
    let count = ["stat", "-e", "task-clock:u,page-faults:u", "-p", &pid, "--"];
    for words in [&record[..], &count] {
        let done = limited(dir.path(), "ulimit -S -n 64", &[words, &tell].concat());
        let said = text(&done.stderr);
        if said.contains("the hard limit allows") {
            return eprintln!("skipped: {said}");
        }
        assert!(done.status.success(), "{said}");
        assert_eq!(text(&done.stdout), "64\n", "the program's own limit");
    }
    let twice = ["stat", "-e", "page-faults:u", "-r", "2", "--", "sh", "-c", "ulimit -n"];
    assert_eq!(text(&limited(dir.path(), "ulimit -S -n 64", &twice).stdout), "64\n64\n");
}

#[test]
fn a_hard_limit_that_is_too_low_is_told_with_the_one_that_would_do() {
    if !possible() {
        return;
    }
    let Some(many) = many_threads() else { return };
    let dir = tempfile::tempdir().unwrap();
    let pid = many.pid();
    let record = ["record", "-e", "cpu-clock:u", "-m", "1", "--accept-losses", "-p", &pid];
    let count = ["stat", "-e", "task-clock:u,page-faults:u", "-p", &pid];
    for words in [&record[..], &count] {
        let words = [words, &["--", "sh", "-c", "echo ran; sleep 0.3"]].concat();
        let done = limited(dir.path(), "ulimit -n 64", &words);
        let said = text(&done.stderr);
        assert_eq!((done.status.code(), text(&done.stdout)), (Some(2), String::new()), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("500 threads") && said.contains("allows 64"), "{said}");
        assert!(said.contains("-a"), "{said}");
        // The number that it names is enough, which root may try.
        let needed: u64 =
            said.split("`ulimit -n ").nth(1).unwrap().split('`').next().unwrap().parse().unwrap();
        assert!(needed > THREADS as u64, "{said}");
        let limit = format!("ulimit -n {needed}");
        if !Command::new("bash").args(["-c", &limit]).output().unwrap().status.success() {
            return eprintln!("skipped: {limit} is not allowed here");
        }
        let done = limited(dir.path(), &limit, &words);
        assert!(done.status.success(), "{}", text(&done.stderr));
    }
    drop(many);
    let done = planish(dir.path(), &[&["record", "-e", "cpu-clock:u"], &BUSY]);
    assert!(done.status.success(), "{}", text(&done.stderr));
}
