//! Is it said where names may be wrong or lack: without build IDs, without symbols, with a part of the
//! recording gone?

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const PLANISH: &str = env!("CARGO_BIN_EXE_planish");

fn run(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(words[0]);
    // perf's cache, too, lies in the home directory.
    command.env("HOME", dir).current_dir(dir).args(&words[1..]).stdin(Stdio::null());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn done(dir: &Path, words: &[&str]) -> String {
    let done = run(dir, words);
    assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
    text(&done.stdout)
}

fn build(dir: &Path, more: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/calls.c");
    let flags = ["cc", "-O1", "-fno-optimize-sibling-calls", "-o", "calls"];
    done(dir, &[&flags[..], more, &[source.to_str().unwrap()]].concat());
}

const HOT: [&str; 6] = [PLANISH, "report", "hot", "--format", "json", "perf.data"];

/// What `report hot` says of the program, and the notes.
fn told(dir: &Path, more: &[&str]) -> (Value, Value, String) {
    let shown = run(dir, &[&HOT[..], more].concat());
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let found: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let libraries = found["libraries"].as_array().unwrap();
    let ours = |library: &&Value| library["library"].as_str().unwrap().ends_with("/calls");
    let library = libraries.iter().find(ours).unwrap().clone();
    (library, found, text(&shown.stderr))
}

fn names_leaf(found: &Value) -> bool {
    found["rows"].as_array().unwrap().iter().any(|row| row["function"] == "leaf")
}

#[test]
fn a_program_that_is_known_by_its_path_alone_is_doubted() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    if !run(dir, &["perf", "--version"]).status.success() {
        println!("skipped: perf is not here");
        return;
    }
    build(dir, &[]);
    let record = ["perf", "record", "-q", "-e", "cpu-clock", "-o", "perf.data"];
    // perf lists the ID behind the samples, which is as good.
    done(dir, &[&record[..], &["./calls"]].concat());
    let (library, found, notes) = told(dir, &[]);
    assert!(names_leaf(&found) && library["doubt"].is_null(), "{library}");
    assert_eq!(library["build_id"].as_str().map(str::len), Some(40), "{library}");
    assert!(!notes.contains("wrong names"), "{notes}");
    // Without it nothing tells whether the program is the one that ran.
    done(dir, &[&record[..], &["-B", "-N", "./calls"]].concat());
    let (library, found, notes) = told(dir, &[]);
    let (doubt, share) = (library["doubt"].as_str().unwrap(), library["percent"].as_f64().unwrap());
    assert!(names_leaf(&found) && library["build_id"].is_null(), "{library}");
    assert!(doubt.contains("no build ID of it") && !doubt.contains("newer"), "{doubt}");
    let note = format!("/calls: {share:.1} % of the samples may have wrong names: {doubt}");
    assert!(notes.contains(&note), "{notes}");
    // It is certain that this is another one.
    std::thread::sleep(std::time::Duration::from_millis(20));
    build(dir, &["-Dleaf=other", "-Wl,--build-id=none"]);
    let (library, _, _) = told(dir, &[]);
    let doubt = library["doubt"].as_str().unwrap();
    assert!(doubt.contains("newer than the recording") && doubt.contains("--build-id"), "{doubt}");
}

#[test]
fn a_stripped_program_is_said_to_be_one_and_its_whole_copy_names_its_functions() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    build(dir, &["-g", "-Wl,--build-id=0x0123456789"]);
    let copies = dir.join(".debug/.build-id/01/23456789");
    std::fs::create_dir_all(&copies).unwrap();
    std::fs::copy(dir.join("calls"), dir.join("whole")).unwrap();
    done(dir, &["strip", "calls"]);
    done(dir, &[PLANISH, "record", "-o", "perf.data", "--", "./calls"]);
    let (library, found, notes) = told(dir, &[]);
    let lacks = library["lacks"].as_str().unwrap();
    assert!(!names_leaf(&found) && lacks.contains("is stripped"), "{library}");
    assert!(library["doubt"].is_null() && library["problem"].is_null(), "{library}");
    let share = library["nameless_percent"].as_f64().unwrap();
    let note = format!("/calls: {share:.1} % of the samples has no function names: {lacks}");
    assert!(share > 50.0 && notes.contains(&note), "{notes}");
    // A link to a debug file that is another build's by now.
    std::fs::copy(dir.join("whole"), dir.join("calls.debug")).unwrap();
    done(dir, &["objcopy", "--add-gnu-debuglink=calls.debug", "calls"]);
    std::fs::rename(dir.join("calls"), dir.join("linked")).unwrap();
    build(dir, &["-g", "-O2", "-Wl,--build-id=0xabcdef"]);
    std::fs::rename(dir.join("calls"), dir.join("calls.debug")).unwrap();
    std::fs::rename(dir.join("linked"), dir.join("calls")).unwrap();
    let (library, _, _) = told(dir, &[]);
    let lacks = library["lacks"].as_str().unwrap();
    assert!(lacks.contains("calls.debug is not its debug file"), "{lacks}");
    // perf's cache has what ran before it was stripped.
    std::fs::copy(dir.join("whole"), copies.join("elf")).unwrap();
    let (library, found, _) = told(dir, &[]);
    assert!(names_leaf(&found) && library["lacks"].is_null(), "{library}");
}

#[test]
fn a_directory_that_lacks_a_file_and_samples_without_mappings_are_said() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    build(dir, &[]);
    done(dir, &[PLANISH, "record", "--threads", "-o", "perf.data", "--", "./calls"]);
    let (_, found, notes) = told(dir, &[]);
    assert!(names_leaf(&found) && !notes.contains("lacks"), "{notes}");
    // What the first file holds is now in one of a much higher number.
    let files = || dir.join("perf.data");
    std::fs::rename(files().join("data.0"), files().join("data.9")).unwrap();
    let (_, _, notes) = told(dir, &[]);
    assert!(notes.contains("the recording lacks data.0"), "{notes}");
    let counted = run(dir, &[PLANISH, "aggregate", "perf.data", "-o", "counts"]);
    assert!(text(&counted.stderr).contains("the recording lacks data.0"));
    // All that is mapped is told in one of them.
    let mut mapped = 0;
    for name in ["data", "data.1", "data.9"] {
        let Ok(bytes) = std::fs::read(files().join(name)) else { continue };
        if bytes.windows(6).any(|window| window == b"/calls") && name != "data" {
            std::fs::write(files().join(name), []).unwrap();
            mapped += 1;
        }
    }
    let shown = run(dir, &HOT);
    let (printed, notes) = (text(&shown.stdout), text(&shown.stderr));
    if mapped > 0 && printed.contains("[unknown]") {
        assert!(notes.contains("does not tell what was mapped there"), "{notes}");
    }
}

#[test]
fn switches_alone_are_a_recording() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let words = ["record", "--switch-events", "-F", "10", "-o", "perf.data", "--", "sleep", "0.3"];
    done(dir, &[&[PLANISH], &words[..]].concat());
    let waits = done(dir, &[PLANISH, "report", "waits", "--format", "json", "perf.data"]);
    let found: Value = serde_json::from_str(&waits).unwrap();
    let threads = found["threads"].as_array().unwrap();
    let waited = threads.iter().filter_map(|thread| thread["synchronization"]["total_ns"].as_u64());
    assert!(waited.sum::<u64>() > 250_000_000, "{waits}");
}
