//! `planish kernel`, run in a directory, and how it ended.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What a program printed.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs `planish kernel` in a directory.
pub fn planish(dir: &Path, words: &[&str]) -> Output {
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(dir).arg("kernel").args(words).stdin(Stdio::null()).output().unwrap()
}

/// Exit code 0; what it printed.
#[track_caller]
pub fn fine(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Exit code 2, one message with all of `parts`, no panic.
#[track_caller]
pub fn refuses(output: &Output, parts: &[&str]) {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(!message.contains("panicked"), "{message}");
    // `error:` begins what clap says of wrong words.
    let begins = |line: &&str| line.starts_with("planish:") || line.starts_with("error:");
    assert_eq!(message.lines().filter(begins).count(), 1, "{message}");
    for part in parts {
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
}
