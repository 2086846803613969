//! Compiling test programs, and measuring them where an emulator is installed.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use record::code_metrics::{CodeMetrics, Error, MetricsOptions, measure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Notes that a test could not run.
pub fn skipped<T>(why: &str) -> Option<T> {
    eprintln!("skipped: {why}");
    None
}

/// True when a tool is installed.
pub fn has(tool: &str) -> bool {
    let found =
        Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        eprintln!("skipped: {tool} is not installed");
    }
    found.is_ok()
}

/// Compiles a program of `tests/programs`; `None`, with a note, where the compiler cannot.
pub fn compile(dir: &Path, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    compile_file(dir, &source, flags)
}

/// Compiles any file.
pub fn compile_file(dir: &Path, source: &Path, flags: &[&str]) -> Option<PathBuf> {
    let output = dir.join(source.file_stem().unwrap());
    let done =
        Command::new("clang-22").args(["-O1", "-o"]).arg(&output).arg(source).args(flags).output();
    match done {
        Ok(done) if done.status.success() => Some(output),
        Ok(done) => skipped(&String::from_utf8_lossy(&done.stderr)),
        Err(error) => skipped(&format!("clang-22: {error}")),
    }
}

/// A command line.
pub fn command(program: &Path, arguments: &[&str]) -> Vec<String> {
    let words = [program.to_str().unwrap()].into_iter().chain(arguments.iter().copied());
    words.map(str::to_owned).collect()
}

/// The metrics of a program that must succeed; `None`, with a note, without an emulator.
pub fn metrics(program: &Path, options: &MetricsOptions) -> Option<CodeMetrics> {
    match measure(&command(program, &[]), options) {
        Ok(metrics) => Some(metrics),
        Err(Error::Missing(record::Error::NoEmulator { name })) => {
            skipped(&format!("{name} is not installed"))
        }
        Err(error) => panic!("{error}"),
    }
}
