//! How do the tests of `planish fleet` run the command, and read what it made?

#![allow(dead_code, reason = "not each test needs all of it")]

use counts::{Counts, artefact};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A fixture of AutoFDO's: a program and recordings of it.
pub fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/autofdo").join(name);
    path.display().to_string()
}

/// Runs planish in a directory; `@binary` is the fixture's program.
pub fn run(folder: &Path, line: &str) -> Output {
    let line = line.replace("@binary", &fixture("test.binary"));
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(folder).args(line.split_whitespace()).stdin(Stdio::null()).output().unwrap()
}

/// What it prints and says as it ends with an exit code.
#[track_caller]
pub fn done(folder: &Path, line: &str, code: i32) -> (String, String) {
    let output = run(folder, line);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{line}: {told}");
    (String::from_utf8_lossy(&output.stdout).into_owned(), told)
}

/// Reads counts.
pub fn read(path: &Path) -> Counts {
    artefact::read(path, std::fs::File::open(path).unwrap()).unwrap()
}
