//! Whatever becomes of planish, the program runs on to its right result; whatever becomes of the
//! program, the recording is complete.

use super::{kinds, planish, record, said, works};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Planish is killed, so many times.
const KILLS: u64 = 20;

/// What the program prints when nobody looks.
fn alone(dir: &Path, rounds: &str) -> Vec<u8> {
    Command::new("./kinds").args(["signals", rounds]).current_dir(dir).output().unwrap().stdout
}

/// Kills one recording after a while, and waits for the program's result.
fn kill_one(dir: &Path, number: u64, rounds: &str, expected: &[u8]) {
    let file = |kind: &str| dir.join(format!("{kind}.{number}"));
    let script = format!(
        "echo $$ >pid.{number}; exec ./kinds signals {rounds} >result.{number} 2>errors.{number}"
    );
    let data = format!("{number}.data");
    let words =
        ["record", "--branches=software", "-c", "200000", "-o", &data, "--", "sh", "-c", &script];
    let mut recorder =
        planish(dir, &words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let patient = |what: &str| {
        assert!(begun.elapsed() < Duration::from_secs(120), "{number}: {what}");
        std::thread::sleep(Duration::from_millis(3));
    };
    let pid = loop {
        match std::fs::read_to_string(file("pid")) {
            Ok(text) if text.ends_with('\n') => break text.trim().to_owned(),
            _ => patient("the program does not start"),
        }
    };
    std::thread::sleep(Duration::from_micros(number.wrapping_mul(7_919_003) % 250_000));
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    // It may have ended by now, and be nobody's any more.
    while let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) {
        if status.contains("State:\tZ") {
            break;
        }
        let traced = !status.contains("TracerPid:\t0\n");
        let stopped = status.contains("State:\tt") || status.contains("State:\tT");
        assert!(!traced && !stopped, "{number}: {status}");
        patient("the program does not end");
    }
    assert_eq!(std::fs::read(file("result")).unwrap(), expected, "{number}");
    assert_eq!(std::fs::read_to_string(file("errors")).unwrap(), "");
}

#[test]
fn a_killed_planish_leaves_the_program_running_to_its_right_result() {
    if !works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    if kinds(dir.path()).is_none() {
        return;
    }
    let rounds = "1200000";
    let expected = alone(dir.path(), rounds);
    let (dir, expected) = (dir.path(), &expected[..]);
    std::thread::scope(|scope| {
        for first in 0..2 {
            scope.spawn(move || {
                for number in (first..KILLS).step_by(2) {
                    kill_one(dir, number, rounds, expected);
                }
            });
        }
    });
}

#[test]
fn a_killed_program_leaves_a_complete_recording() {
    if !works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    if kinds(dir.path()).is_none() {
        return;
    }
    for kind in ["jumps", "threads"] {
        let script = format!("echo $$ >pid; exec ./kinds {kind} 1000000000");
        let words =
            ["record", "--branches=software", "--format=json", "-c", "500000", "--depth", "32"];
        let words = [&words[..], &["--", "sh", "-c", &script]].concat();
        let recorder = planish(dir.path(), &words).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap();
        // The shell's own kill: a bare Debian has no program of that name.
        let killed =
            Command::new("sh").args(["-c", &format!("kill -KILL {pid}")]).status().unwrap();
        assert!(killed.success());
        let done = recorder.wait_with_output().unwrap();
        assert_eq!(done.status.code(), Some(1), "{}", said(&done));
        let json: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!(json["signal"], 9, "{json}");
        assert!(json["samples"].as_u64() > Some(0), "{json}");
        let words =
            ["aggregate", "perf.data", "--binary", "./kinds", "-o", "counts", "--format", "json"];
        let done = planish(dir.path(), &words).output().unwrap();
        assert!(done.status.success(), "{}", said(&done));
    }
}

#[test]
fn a_recorded_program_prints_what_it_prints_alone() {
    if !works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    if kinds(dir.path()).is_none() {
        return;
    }
    for (kind, rounds) in
        [("floats", "1000000"), ("strings", "20000"), ("signals", "300000"), ("jit", "300000")]
    {
        let alone =
            Command::new("./kinds").args([kind, rounds]).current_dir(dir.path()).output().unwrap();
        let recorded = record(dir.path(), &["-c", "100000"], &["./kinds", kind, rounds]);
        assert!(
            said(&recorded.done).starts_with(&String::from_utf8(alone.stdout).unwrap()),
            "{kind}"
        );
    }
}
