//! Software branch stacks of real programs: they are what the program does, all of it is recorded
//! that can be, and the programs run on as if nobody had looked.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test that panics fails, in its helpers too")]

mod endings;
mod foreseen;
mod let_be;
mod programs_left_alone;
mod recordings;
mod refusals;
mod targets;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// `planish` with these words, in a directory.
fn planish(dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
    command
        .current_dir(dir)
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn said(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

/// Notes that something could not be tried.
fn skipped<T>(why: &str) -> Option<T> {
    eprintln!("skipped: {why}");
    None
}

/// Whether threads can be stopped here; says so once if not.
fn works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let busy = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";
        let words = ["record", "--branches=software", "-c", "1000000", "--", "sh", "-c", busy];
        let done = planish(dir.path(), &words).output().unwrap();
        if !done.status.success() {
            eprintln!("skipped: {}", said(&done));
        }
        done.status.success()
    })
}

/// Whether a program is installed; says so if not.
fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// A recording and what was said of it.
struct Recorded {
    json: Value,
    done: Output,
}

impl Recorded {
    /// A number of the part about looking ahead.
    fn number(&self, name: &str) -> u64 {
        self.json["look_ahead"][name].as_u64().unwrap_or_else(|| panic!("{name}: {}", self.json))
    }

    fn notes(&self) -> String {
        format!("{:#}\n{}", self.json, said(&self.done))
    }

    /// Stops are full or short for a reason, and are samples unless they are empty.
    fn adds_up(&self) {
        let shorter = self.json["look_ahead"]["shorter"].as_object().unwrap();
        let short: u64 = shorter.values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(self.number("stops"), self.number("full") + short, "{}", self.notes());
        assert_eq!(
            self.json["samples"].as_u64().unwrap(),
            self.number("stops") - self.number("empty"),
            "{}",
            self.notes()
        );
        let entries = self.json["branch_entries"].as_u64().unwrap();
        let least = self.number("full") * self.number("depth");
        let most = self.number("stops") * self.number("depth");
        assert!((least..=most).contains(&entries), "{}", self.notes());
    }
}

/// Records into `perf.data`; the recording has to succeed, and the program to end as it does alone.
fn record(dir: &Path, options: &[&str], command: &[&str]) -> Recorded {
    let fixed = ["record", "--branches=software", "--format", "json"];
    let done = planish(dir, &[&fixed, options, &["--"], command].concat()).output().unwrap();
    assert!(done.status.success(), "{options:?} {command:?}: {}", said(&done));
    let json = serde_json::from_slice(&done.stdout).unwrap();
    let recorded = Recorded { json, done };
    assert_eq!(recorded.json["schema"], "planish-record");
    recorded.adds_up();
    recorded
}

/// Compiles a program of `programs`; `None`, with a note, where that is not possible.
fn compile(
    dir: &Path,
    compiler: &str,
    source: &str,
    output: &str,
    flags: &[&str],
) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/software/programs").join(source);
    let output = dir.join(output);
    // Flags behind the source, where libraries have to stand.
    let done = Command::new(compiler).arg("-o").arg(&output).arg(source).args(flags).output();
    match done {
        Ok(done) if done.status.success() => Some(output),
        Ok(done) => skipped(&format!("{compiler}: {}", said(&done))),
        Err(error) => skipped(&format!("{compiler}: {error}")),
    }
}

/// The program with many kinds of work, bound lazily.
fn kinds(dir: &Path) -> Option<PathBuf> {
    compile(dir, "cc", "kinds.c", "kinds", &["-O2", "-Wl,-z,lazy", "-pthread", "-lm", "-ldl"])
}

/// Text that compresses like some, always the same.
fn text(bytes: usize) -> Vec<u8> {
    let words = [
        "stack ",
        "of ",
        "taken ",
        "branches, ",
        "newest ",
        "first\n",
        "0x40",
        "ahead ",
        "thread ",
    ];
    let mut state = 88_172_645_463_325_252_u64;
    let mut text = Vec::with_capacity(bytes + 16);
    while text.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.extend_from_slice(words[(state % words.len() as u64) as usize].as_bytes());
        if state >> 32 & 7 == 0 {
            text.extend_from_slice(format!("{:x}", state >> 40).as_bytes());
        }
    }
    text
}
