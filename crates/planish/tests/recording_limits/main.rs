//! What recordings and counts do at the edges: too few descriptors, control groups, pipes, CPUs
//! that go, full disks, users without rights. Each says what it lacks in one sentence, before a
//! program runs where that can be known.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

mod cgroups;
mod cpus;
mod descriptors;
mod pipe;
mod refusals;
mod rotation;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Busy for some hundredths of a second.
const BUSY: [&str; 4] = ["--", "sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `planish` with these words, in a directory.
fn planish(dir: &Path, words: &[&[&str]]) -> Output {
    let words = words.concat();
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(dir).args(words).stdin(Stdio::null()).output().unwrap()
}

/// A program that runs until the test ends, however it ends.
struct Running(Child);

impl Running {
    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether the kernel lets us record ourselves at all.
fn possible() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let done = planish(dir.path(), &[&["record", "-e", "cpu-clock:u"], &BUSY]);
    let said = text(&done.stderr);
    assert!(done.status.success() || said.contains("perf_event_paranoid"), "{said}");
    if !done.status.success() {
        eprintln!("skipped: {said}");
    }
    done.status.success()
}
