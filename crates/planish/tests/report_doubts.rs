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
    // So has a directory that is given, by build ID or by name, and its lines.
    std::fs::remove_dir_all(dir.join(".debug")).unwrap();
    std::fs::create_dir(dir.join("symbols")).unwrap();
    assert!(!names_leaf(&told(dir, &[]).1));
    for name in ["calls", "calls.debug"] {
        let place = dir.join("symbols").join(name);
        std::fs::copy(dir.join("whole"), &place).unwrap();
        assert!(names_leaf(&told(dir, &["--symbols", "symbols"]).1), "{name}");
        let lines = ["report", "lines", "leaf", "perf.data", "--symbols", "symbols"];
        let shown = done(dir, &[&[PLANISH], &lines[..]].concat());
        assert!(shown.contains("calls.c"), "{shown}");
        std::fs::remove_file(place).unwrap();
    }
}

#[test]
fn a_directory_that_lacks_a_file_and_samples_without_mappings_are_said() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    build(dir, &[]);
    done(dir, &[PLANISH, "record", "--threads", "-o", "perf.data", "--", "./calls"]);
    let (_, found, notes) = told(dir, &[]);
    assert!(names_leaf(&found) && !notes.contains("lacks"), "{notes}");
    // Each file is missed, also the last one and one that is empty now.
    let copy = |change: &dyn Fn(&Path)| {
        let _ = std::fs::remove_dir_all(dir.join("copy"));
        done(dir, &["cp", "-r", "perf.data", "copy"]);
        change(&dir.join("copy"));
        let shown = run(dir, &[PLANISH, "report", "hot", "copy"]);
        let counted = run(dir, &[PLANISH, "aggregate", "copy", "-o", "counts", "--allow-few"]);
        (text(&shown.stderr), text(&counted.stderr))
    };
    let files: Vec<_> = (0..)
        .map(|n| format!("data.{n}"))
        .take_while(|name| dir.join("perf.data").join(name).exists())
        .collect();
    assert!(!files.is_empty());
    for name in &files {
        let place = |copy: &Path| copy.join(name);
        let notes = copy(&|copy| std::fs::remove_file(place(copy)).unwrap());
        let lacks = format!("the recording lacks {name}");
        assert!(notes.0.contains(&lacks) && notes.1.contains(&lacks), "{notes:?}");
        let bytes = std::fs::metadata(dir.join("perf.data").join(name)).unwrap().len();
        if bytes > 0 {
            let (notes, _) = copy(&|copy| std::fs::write(place(copy), []).unwrap());
            assert!(notes.contains(&format!("{name} lacks {bytes} bytes")), "{notes}");
        }
    }
    // perf's own directories do not say how many files there are.
    let (notes, _) = copy(&|copy| {
        let last = format!("data.{}", files.len() + 3);
        std::fs::write(copy.join(last), []).unwrap();
    });
    assert!(notes.contains(&format!("the recording lacks data.{}", files.len())), "{notes}");
}

#[test]
fn a_recording_that_lost_its_end_says_so_and_keeps_the_names_of_its_events() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    build(dir, &[]);
    let record = [PLANISH, "record", "--switch-events", "-o", "perf.data", "--", "./calls"];
    done(dir, &record);
    let whole = std::fs::read(dir.join("perf.data")).unwrap();
    let word = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().unwrap());
    let end = (word(40) + word(48)) as usize;
    std::fs::write(dir.join("perf.data"), &whole[..end]).unwrap();
    let (_, found, notes) = told(dir, &[]);
    assert!(names_leaf(&found) && notes.contains("the end of the recording is cut off"), "{notes}");
    let waits = run(dir, &[PLANISH, "report", "waits", "perf.data"]);
    let notes = text(&waits.stderr);
    assert!(!notes.contains("event 2:"), "{notes}");
    // As a recorder leaves it that is killed.
    let mut killed = whole[..end].to_vec();
    killed[48..56].fill(0);
    std::fs::write(dir.join("perf.data"), killed).unwrap();
    let (_, found, notes) = told(dir, &[]);
    assert!(names_leaf(&found) && notes.contains("its recorder did not finish"), "{notes}");
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
