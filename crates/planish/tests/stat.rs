//! `planish stat`: the counts are the kernel's, intervals add up, what cannot be counted is said,
//! endings are told.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

fn planish(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
    command
        .arg("stat")
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs; `None`, with a note, where the kernel does not let us count.
fn counted(words: &[&str]) -> Option<Output> {
    let done = planish(words).output().unwrap();
    if text(&done.stderr).contains("perf_event_paranoid") && done.status.code() == Some(2) {
        eprintln!("skipped: {}", text(&done.stderr));
        return None;
    }
    Some(done)
}

/// The objects on standard output, one a line or only one.
fn objects(done: &Output) -> Vec<Value> {
    let found: Result<Vec<Value>, _> =
        serde_json::Deserializer::from_slice(&done.stdout).into_iter::<Value>().collect();
    let found = found
        .unwrap_or_else(|error| panic!("{error}: {} {}", text(&done.stdout), text(&done.stderr)));
    for object in &found {
        assert_eq!((&object["schema"], &object["version"]), (&"planish-stat".into(), &1.into()));
    }
    found
}

fn event<'v>(object: &'v Value, name: &str) -> &'v Value {
    let events = object["events"].as_array().unwrap();
    let found = events
        .iter()
        .find(|event| event["event"].as_str().unwrap().split(':').next() == Some(name));
    found.unwrap_or_else(|| panic!("no {name} in {object}"))
}

fn compile(dir: &Path, source: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let output = dir.join(source.file_stem().unwrap());
    let flags = ["-O1", "-fno-omit-frame-pointer", "-pthread", "-o"];
    match Command::new("cc").args(flags).arg(&output).arg(source).output() {
        Ok(done) if done.status.success() => Some(output),
        other => {
            eprintln!("skipped: cc cannot compile: {other:?}");
            None
        }
    }
}

/// Ended when the test ends, however it ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn on_one_process_planish_and_perf_count_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "faults.c") else { return };
    let mut target = Running(
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap(),
    );
    let pid = target.0.id().to_string();
    let events = "page-faults,context-switches,task-clock";
    // Both say by their first interval that they count.
    let mut ours = Running(
        planish(&["-I", "50", "--format", "json", "-e", events, "-p", &pid]).spawn().unwrap(),
    );
    let perf = Command::new("perf")
        .args(["stat", "-I", "50", "-x", ";", "-e", events, "-p", &pid])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(perf) = perf else { return eprintln!("skipped: perf is not installed") };
    let mut perf = Running(perf);
    let mut our_lines = BufReader::new(ours.0.stdout.take().unwrap());
    let mut perf_lines = BufReader::new(perf.0.stderr.take().unwrap());
    let (mut our_text, mut perf_text) = (String::new(), String::new());
    if our_lines.read_line(&mut our_text).unwrap() == 0 {
        return eprintln!("skipped: planish cannot count here");
    }
    while !perf_text.contains("task-clock") {
        if perf_lines.read_line(&mut perf_text).unwrap() == 0 {
            return eprintln!("skipped: perf cannot count here: {perf_text}");
        }
    }
    target.0.stdin.take().unwrap().write_all(b"x").unwrap();
    let mut own = String::new();
    target.0.stdout.take().unwrap().read_to_string(&mut own).unwrap();
    target.0.wait().unwrap();
    our_lines.read_to_string(&mut our_text).unwrap();
    perf_lines.read_to_string(&mut perf_text).unwrap();

    let last: Value = serde_json::from_str(our_text.lines().last().unwrap()).unwrap();
    assert_eq!(last["kind"], "total");
    // time;count;unit;event;…
    let perf_sum = |name: &str| -> f64 {
        let rows = perf_text.lines().map(|row| row.split(';').collect::<Vec<_>>());
        let rows = rows
            .filter(|row| row.get(3).is_some_and(|event| event.split(':').next() == Some(name)));
        rows.filter_map(|row| row[1].parse::<f64>().ok()).sum()
    };
    let (faults, switches) = (event(&last, "page-faults"), event(&last, "context-switches"));
    assert_eq!(
        faults["value"].as_f64().unwrap(),
        perf_sum("page-faults"),
        "{perf_text}\n{our_text}"
    );
    let mut numbers = own.split_whitespace().map(|number| number.parse::<u64>().unwrap());
    let (own_faults, own_switches) = (numbers.next().unwrap(), numbers.next().unwrap());
    // What the program does before and after its own readings is a handful.
    let of_faults = faults["value"].as_u64().unwrap();
    assert!((own_faults..own_faults + 60).contains(&of_faults), "{of_faults} {own_faults}");
    if let Some(switches) = switches["value"].as_u64() {
        assert_eq!(switches as f64, perf_sum("context-switches"), "{perf_text}\n{our_text}");
        assert!(switches >= own_switches, "{switches} {own_switches}");
    }
    // The same clock of the same kernel, begun and ended by two programs; perf says milliseconds.
    let ratio =
        event(&last, "task-clock")["value"].as_f64().unwrap() / 1e6 / perf_sum("task-clock");
    assert!((0.5..2.0).contains(&ratio), "{ratio}");
}

#[test]
fn the_counts_of_intervals_add_up_to_those_of_the_run() {
    let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 0.05; true";
    let words =
        ["-I", "1", "--format", "json", "-e", "{task-clock,page-faults}", "--", "sh", "-c", script];
    let Some(done) = counted(&words) else { return };
    let lines = objects(&done);
    let (total, intervals) = lines.split_last().unwrap();
    assert_eq!(total["intervals"].as_u64(), Some(intervals.len() as u64));
    assert!(intervals.len() > 1);
    for name in ["page-faults", "task-clock"] {
        let sum: u64 = intervals
            .iter()
            .map(|interval| event(interval, name)["counted"].as_u64().unwrap())
            .sum();
        assert_eq!(Some(sum), event(total, name)["counted"].as_u64(), "{name}");
    }
    // All but the last one end at a whole millisecond or later, and none before the one before it.
    let ends: Vec<f64> =
        intervals.iter().map(|interval| interval["time_s"].as_f64().unwrap()).collect();
    assert!(ends.windows(2).all(|pair| pair[0] < pair[1]), "{ends:?}");
    let lengths: f64 =
        intervals.iter().map(|interval| interval["length_s"].as_f64().unwrap()).sum();
    assert!((lengths - total["elapsed_s"].as_f64().unwrap()).abs() < 1e-6);
    let whole: u64 = intervals.len() as u64 + total["skipped_intervals"].as_u64().unwrap();
    assert!(ends.last().unwrap() * 1000.0 >= (whole - 1) as f64, "intervals do not drift");
}

#[test]
fn what_cannot_be_counted_is_said_and_the_rest_is_counted() {
    // Few CPUs, and no virtual machine without a PMU, count these.
    const RARE: &str = "L1-icache-prefetches";
    let both = format!("{RARE},page-faults");
    let words = ["--format", "json", "-e", &both, "--", "true"];
    let Some(done) = counted(&words) else { return };
    assert!(done.status.success(), "{}", text(&done.stderr));
    let total = &objects(&done)[0];
    assert_eq!((total["version"].as_u64(), total["exit_code"].as_i64()), (Some(1), Some(0)));
    let refused = event(total, RARE);
    if !refused["value"].is_null() {
        return eprintln!("skipped: this CPU counts {RARE}");
    }
    assert!(refused["value"].is_null() && refused["reason"].is_string(), "{refused}");
    let faults = event(total, "page-faults");
    assert!(faults["value"].as_u64() > Some(0) && faults["reason"].is_null(), "{faults}");
    let shown = text(&counted(&["-e", &both, "--", "true"]).unwrap().stderr);
    assert!(shown.contains("<not supported>") && shown.contains("not counted:"), "{shown}");

    let nothing = planish(&["-e", RARE, "--", "sh", "-c", "echo ran"]).output().unwrap();
    assert_eq!((nothing.status.code(), text(&nothing.stdout)), (Some(2), String::new()));
    assert!(
        text(&nothing.stderr).contains(&format!("cannot count {RARE}")),
        "{}",
        text(&nothing.stderr)
    );
}

#[test]
fn without_the_kernels_part_switches_are_not_said_to_be_none() {
    let words = ["--format", "json", "-e", "cs,page-faults", "--", "sleep", "0.01"];
    let Some(done) = counted(&words) else { return };
    let switches = event(&objects(&done)[0], "cs").clone();
    assert!(switches["value"].is_null() != (switches["value"].as_u64() > Some(0)), "{switches}");
}

#[test]
fn exit_codes_are_those_of_record_and_repeats_stop_at_a_signal() {
    let words = ["-e", "page-faults", "--format", "json", "-r", "3", "--", "true"];
    let Some(done) = counted(&words) else { return };
    let total = &objects(&done)[0];
    let faults = event(total, "page-faults");
    let runs: Vec<f64> =
        faults["runs"].as_array().unwrap().iter().map(|run| run.as_f64().unwrap()).collect();
    assert_eq!((total["runs"].as_u64(), runs.len()), (Some(3), 3));
    let mean = runs.iter().sum::<f64>() / 3.0;
    assert!((faults["value"].as_f64().unwrap() - mean).abs() < 1e-9);

    let code = |words: &[&str]| counted(words).unwrap().status.code();
    assert_eq!(code(&["-e", "page-faults", "--", "false"]), Some(1));
    assert_eq!(code(&["-e", "page-faults", "--", "sh", "-c", "kill -9 $$"]), Some(1));
    assert_eq!(code(&["-e", "page-faults", "--", "sh", "-c", "kill -INT $$"]), Some(0));
    assert_eq!(code(&["-e", "page-faults", "--", "/no/such/program"]), Some(2));
    assert_eq!(code(&["-e", "no-such-event", "--", "true"]), Some(2));
    assert_eq!(code(&[]), Some(2));

    // Interrupted once it runs: the program is handed the signal, the counts come, no further run
    // begins.
    let script = "echo begun; exec sleep 100";
    let words = ["-e", "page-faults", "-r", "9", "-o", "-", "--", "sh", "-c", script];
    let mut running = Running(planish(&words).spawn().unwrap());
    // With the result on standard output, the program writes to standard error.
    let mut said = BufReader::new(running.0.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "begun\n");
    let kill = format!("kill -INT {}", running.0.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let mut result = String::new();
    running.0.stdout.take().unwrap().read_to_string(&mut result).unwrap();
    assert_eq!(running.0.wait().unwrap().code(), Some(0));
    assert!(
        result.contains("page-faults") && result.contains("elapsed") && !result.contains("runs)"),
        "{result}"
    );
}

#[test]
fn a_result_file_is_whole_or_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("counts.json");
    let path = file.to_str().unwrap();
    let words = ["-o", path, "--format", "json", "-e", "page-faults", "--", "echo", "heard"];
    let Some(done) = counted(&words) else { return };
    assert_eq!(text(&done.stdout), "heard\n");
    let total: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(total["command"][1], "heard");
    std::fs::remove_file(&file).unwrap();
    let failed =
        planish(&["-o", path, "-e", "page-faults", "--", "/no/such/program"]).output().unwrap();
    assert_eq!(failed.status.code(), Some(2));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let nowhere = planish(&["-o", "/no/such/dir/x", "-e", "page-faults", "--", "echo", "ran"])
        .output()
        .unwrap();
    assert_eq!((nowhere.status.code(), text(&nowhere.stdout)), (Some(2), String::new()));
}

#[test]
fn threads_are_told_apart_and_add_up() {
    let mut target =
        Running(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap());
    let pid = target.0.id().to_string();
    let words =
        ["--format", "json", "--per-thread", "-e", "task-clock", "-p", &pid, "--", "sleep", "0.3"];
    let Some(done) = counted(&words) else { return };
    let total = &objects(&done)[0];
    let threads = total["threads"].as_array().unwrap();
    assert_eq!((threads.len(), &threads[0]["tid"].to_string()), (1, &pid));
    assert_eq!(event(&threads[0], "task-clock")["value"], event(total, "task-clock")["value"]);
    target.0.kill().unwrap();
    target.0.wait().unwrap();
    let gone = planish(&["-p", &pid]).output().unwrap();
    assert_eq!(gone.status.code(), Some(2));
    assert!(text(&gone.stderr).contains("there is no process"), "{}", text(&gone.stderr));
}
