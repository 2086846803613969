//! Real compilers and linkers, where this machine has them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that was found.
pub struct Tool(PathBuf);

impl Tool {
    pub fn command(&self) -> Command {
        Command::new(&self.0)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// The first of these programs that the search path has; says so where it has none.
pub fn tool(names: &[&str]) -> Option<Tool> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = names.iter().find_map(|name| {
        std::env::split_paths(&path).map(|dir| dir.join(name)).find(|p| p.is_file())
    });
    if found.is_none() {
        eprintln!("skipped: none of {} is installed", names.join(", "));
    }
    found.map(Tool)
}

pub fn clang() -> Option<Tool> {
    tool(&["clang-22"])
}

pub fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Runs a command that must succeed; its standard output.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
