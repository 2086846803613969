//! Whether code without a file has names in reports: what a program made while it ran, and the
//! vdso.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn planish(dir: &Path, words: &[&str]) -> Output {
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(dir).args(words).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn recorded(dir: &Path, words: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/jit.c");
    let built = Command::new("cc").current_dir(dir).args(["-O1", "-o", "jit"]).arg(source).status();
    assert!(built.unwrap().success());
    let words = [&["record", "-o", "perf.data", "--", "./jit"], words].concat();
    let done = planish(dir, &words);
    assert!(done.status.success(), "{}", text(&done.stderr));
}

/// The rows of functions, and the notes.
fn hot(dir: &Path, words: &[&str]) -> (Vec<Value>, String) {
    let words = [&["report", "hot", "--format", "json", "--limit", "0"], words].concat();
    let done = planish(dir, &words);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    (found["rows"].as_array().unwrap().clone(), text(&done.stderr))
}

fn weight(rows: &[Value], function: &str) -> u64 {
    let own = rows.iter().filter(|row| row["function"] == function);
    own.map(|row| row["self_weight"].as_u64().unwrap()).sum()
}

/// Removes the map that the program left in `/tmp`.
struct Left(PathBuf);

impl Drop for Left {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn code_made_at_run_time_has_the_names_that_the_program_gave_it() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path(), &[]);
    let (threads, _) = hot(dir.path(), &["--by", "thread"]);
    let pid = threads.iter().find(|row| row["thread"] == "jit").unwrap()["pid"].as_u64().unwrap();
    let map = Left(PathBuf::from(format!("/tmp/perf-{pid}.map")));
    let (rows, notes) = hot(dir.path(), &[]);
    let warm = "warm <b>loop</b> \u{1b}[31m";
    assert!(weight(&rows, "hot loop") > weight(&rows, warm), "{rows:?}");
    assert!(weight(&rows, warm) > 0, "{rows:?}");
    assert_eq!(weight(&rows, "replaced"), 0, "later lines hold");
    let row = rows.iter().find(|row| row["function"] == "hot loop").unwrap();
    assert_eq!(row["library"], format!("[JIT {pid}]"));
    assert!(notes.contains(&format!("perf-{pid}.map: not of the form START SIZE NAME: lines: 1")));
    // Nothing of a name reaches the terminal as a command.
    let shown = planish(dir.path(), &["report", "hot"]);
    assert!(!shown.stdout.contains(&0x1b), "{}", text(&shown.stdout));
    // Elsewhere, as after copying.
    let kept = dir.path().join("kept");
    std::fs::create_dir(&kept).unwrap();
    let moved = kept.join(map.0.file_name().unwrap());
    std::fs::copy(&map.0, &moved).unwrap();
    std::fs::remove_file(&map.0).unwrap();
    let (rows, notes) = hot(dir.path(), &[]);
    assert_eq!(weight(&rows, "hot loop"), 0);
    assert!(notes.contains("made this code while it ran, and no perf-PID.map"), "{notes}");
    let (rows, _) = hot(dir.path(), &["--symbols", "kept"]);
    assert!(weight(&rows, "hot loop") > 0, "{rows:?}");
    // A link may lead anywhere.
    std::os::unix::fs::symlink(&moved, &map.0).unwrap();
    let (rows, notes) = hot(dir.path(), &[]);
    assert_eq!(weight(&rows, "hot loop"), 0);
    assert!(notes.contains("a symbolic link, which is not followed here"), "{notes}");
}

#[test]
fn functions_of_the_vdso_have_names_while_its_kernel_runs() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path(), &["clock"]);
    let (rows, notes) = hot(dir.path(), &[]);
    let own = rows.iter().filter(|row| row["library"] == "[vdso]");
    let own: Vec<&str> = own.map(|row| row["function"].as_str().unwrap()).collect();
    if own.is_empty() {
        println!("skipped: this machine's clock is not read in the vdso");
        return;
    }
    assert!(own.iter().any(|name| name.contains("clock_gettime")), "{own:?} {notes}");
}
