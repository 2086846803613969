//! The recorder is killed in the middle of its work: no target ends or stands still because of it.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test that panics fails, which is what it is for")]

mod support;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::{alone, compile, eventually, goes_on, recorder, status_line, threads_of, turn};

/// Kills at moments spread over the first milliseconds, by a fixed sequence.
struct Moments(u64);

impl Moments {
    fn next(&mut self) -> Duration {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_micros((self.0 >> 33) % 30_000)
    }
}

/// Starts the recorder and waits until it traces.
fn start(words: &[&str], stdout: Stdio) -> Child {
    let mut command = Command::new(recorder());
    command
        .args(["--follow", "--period", "100000"])
        .args(words)
        .stdin(Stdio::null())
        .stdout(stdout);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

fn kill_recorder(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Attaches to a running program and dies, many times.
fn attached(source: &str, words: &[&str], threads: usize, rounds: u32) {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), source, &[]) else { return };
    let mut target = Command::new(program).args(words).stdout(Stdio::null()).spawn().unwrap();
    let pid = i32::try_from(target.id()).unwrap();
    eventually("all threads run", || threads_of(pid).len() == threads);
    let mut moments = Moments(u64::from(rounds));
    for round in 0..rounds {
        let recorder = start(&["-p", &pid.to_string()], Stdio::null());
        std::thread::sleep(moments.next());
        kill_recorder(recorder);
        eventually("the target goes on", || goes_on(pid));
        assert_eq!(target.try_wait().unwrap(), None, "round {round}");
        assert_eq!(threads_of(pid).len(), threads, "round {round}");
    }
    target.kill().unwrap();
    target.wait().unwrap();
}

#[test]
fn programs_that_were_attached_to_outlive_the_recorder() {
    attached("threads.c", &["4", "1000000000"], 5, 70);
    attached("busy.c", &["100000000"], 1, 30);
}

/// Starts a program under the recorder, which dies; the program finishes all the same.
fn started(source: &str, words: &[&str], rounds: u32) {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), source, &[]) else { return };
    let (expected, _) = alone(&program, words);
    let mut moments = Moments(u64::from(rounds) + 1);
    for round in 0..rounds {
        let said = dir.path().join(format!("said{round}"));
        let command = [&["--", program.to_str().unwrap()], words].concat();
        let recorder = start(&command, File::create(&said).unwrap().into());
        std::thread::sleep(moments.next());
        kill_recorder(recorder);
        finished(&program, &said, &expected);
    }
}

fn finished(program: &Path, said: &Path, expected: &str) {
    eventually(&format!("{} has printed its result", program.display()), || {
        let running = processes_of(program);
        assert!(
            std::fs::read_to_string(said).is_ok_and(|text| text == expected || !running.is_empty())
        );
        running.is_empty()
    });
}

/// The processes that run a program and are no zombies.
fn processes_of(program: &Path) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").unwrap();
    let numbers = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let mut found: Vec<i32> = numbers
        .filter(|pid| {
            std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program)
        })
        .collect();
    found.retain(|pid| status_line(*pid, "State").is_some_and(|state| !state.starts_with('Z')));
    found
}

#[test]
fn programs_that_were_started_outlive_the_recorder() {
    started("busy.c", &["60"], 40);
    started("processes.c", &["1", "1"], 30);
    started("alarms.c", &[], 30);
}
