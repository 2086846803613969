//! How recordings end: by whom, with what message, and under limits.

use super::{has, planish, said, works};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const BUSY: &str = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";

fn signal(child: &Child, name: &str) {
    let done = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(done.success());
}

/// Waits for the line `here` in what the recorded program says.
fn wait_for(path: &std::path::Path) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !path.exists() {
        assert!(Instant::now() < patience, "the program never came so far");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_interrupt_ends_a_recording_whose_command_left_something_running() {
    if !works() || !has("sleep") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let script =
        format!("{BUSY}; sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >left; {BUSY}; : >here");
    let words =
        ["record", "--branches=software", "-c", "1000000", "-o", "data", "--", "sh", "-c", &script];
    let mut recorder = planish(dir.path(), &words).spawn().unwrap();
    wait_for(&dir.path().join("here"));
    // The shell ends a moment after its last word; until then the interrupt goes to it, and ends
    // it.
    let patience = Instant::now() + Duration::from_secs(60);
    let ended = loop {
        signal(&recorder, "INT");
        if let Some(ended) = recorder.try_wait().unwrap() {
            break ended;
        }
        assert!(Instant::now() < patience, "the interrupts changed nothing");
        std::thread::sleep(Duration::from_millis(1500));
    };
    let left = std::fs::read_to_string(dir.path().join("left")).unwrap();
    let done = recorder.wait_with_output().unwrap();
    assert!(matches!(ended.code(), Some(0 | 1)), "{ended}: {}", said(&done));
    assert!(dir.path().join("data").exists());
    // What it left runs on, untraced, until this test ends it.
    let status = std::fs::read_to_string(format!("/proc/{}/status", left.trim())).unwrap();
    assert!(status.contains("TracerPid:\t0\n"), "{status}");
    assert!(Command::new("kill").args(["-9", left.trim()]).status().unwrap().success());
}

#[test]
fn a_signal_that_asks_for_a_file_does_not_end_other_recordings() {
    if !works() {
        return;
    }
    for branches in ["software", "none"] {
        let dir = tempfile::tempdir().unwrap();
        let script = format!("{BUSY}; : >here; while [ ! -e go ]; do {BUSY}; done");
        let way = format!("--branches={branches}");
        let words = ["record", &way, "-o", "data", "-c", "1000000", "--", "sh", "-c", &script];
        let recorder = planish(dir.path(), &words).spawn().unwrap();
        wait_for(&dir.path().join("here"));
        signal(&recorder, "USR2");
        std::fs::write(dir.path().join("go"), "").unwrap();
        let done = recorder.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(0), "{branches}: {}", said(&done));
    }
}

#[test]
fn an_empty_recording_says_how_the_program_ended() {
    if !works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for branches in ["--branches=software", "--branches=none"] {
        let words = ["record", branches, "-c", "1000000000", "--", "sh", "-c", "kill -s SEGV $$"];
        let done = planish(dir.path(), &words).output().unwrap();
        assert_eq!(done.status.code(), Some(2));
        assert!(said(&done).contains("ended by signal 11"), "{}", said(&done));
    }
}

#[test]
fn a_limit_on_file_sizes_takes_no_instructions_away() {
    if !works() || !has("bash") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // 1 MB: room for a short recording, not for the memory of the stubs.
    let script = format!(
        "ulimit -f 1000; exec {} record --branches=software --format json -c 20000000 -o data -- sh -c '{BUSY}'",
        env!("CARGO_BIN_EXE_planish")
    );
    let mut limited = Command::new("bash");
    limited.current_dir(dir.path()).args(["-c", &script]).stdin(Stdio::null());
    let done = limited.output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    let json = String::from_utf8(done.stdout).unwrap();
    assert!(
        json.contains("\"stops\"")
            && !json.contains("instruction v")
            && !json.contains("instruction p"),
        "{json}"
    );
}

#[test]
fn results_that_cannot_be_printed_are_an_error() {
    if !works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let full = || Stdio::from(std::fs::File::create("/dev/full").unwrap());
    let words =
        ["record", "--branches=none", "--format", "json", "-o", "data", "--", "sh", "-c", BUSY];
    let done =
        planish(dir.path(), &words).stdout(full()).spawn().unwrap().wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(2), "{}", said(&done));
    assert!(said(&done).contains("standard output"), "{}", said(&done));
    let done = planish(dir.path(), &["report", "waits", "data"])
        .stdout(full())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    assert_eq!(done.status.code(), Some(2), "{}", said(&done));
}
