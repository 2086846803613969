//! Running the installed peers; a test whose tool is missing says so and passes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The path of a file under `fixtures/`.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")).join(name)
}

/// The bytes of a file under `fixtures/`.
pub fn fixture_bytes(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).expect(name)
}

/// Runs a tool in `directory`; `None`, and a line on stderr, when it is not installed.
pub fn run(program: &str, directory: &Path, args: &[&str]) -> Option<Output> {
    match Command::new(program).args(args).current_dir(directory).output() {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("skipped: {program} does not run here: {error}");
            None
        }
    }
}

/// Runs a tool that must succeed and gives its output; `None` when it is not installed.
pub fn stdout(program: &str, directory: &Path, args: &[&str]) -> Option<String> {
    let output = run(program, directory, args)?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {args:?} failed: {errors}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The sample profile tool of LLVM.
pub const PROFDATA: &str = "llvm-profdata-22";
