//! `make install`: what it installs works from there, is whole, and goes without a trace.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::path::Path;
use std::process::{Command, Output};

fn install(prefix: &Path, more: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install.sh");
    let mut command = Command::new("bash");
    command.arg(script).args(more).env("PREFIX", prefix).env_remove("DESTDIR");
    command.output().unwrap()
}

#[test]
fn what_is_installed_runs_from_there_and_goes_without_a_trace() {
    let built = Path::new(env!("CARGO_BIN_EXE_planish")).parent().unwrap();
    if !built.join("libplanish_hugetext.so").is_file() {
        return eprintln!("skipped: the libraries are not built (scripts/test.sh builds them)");
    }
    let dir = tempfile::tempdir().unwrap();
    let prefix = dir.path().join("usr");
    let done = install(&prefix, &["--from", built.to_str().unwrap()]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    for file in [
        "lib/planish/libplanish_qemu_branches.so",
        "share/man/man1/planish.1",
        "share/man/man1/planish-record.1",
        "share/bash-completion/completions/planish",
        "share/zsh/site-functions/_planish",
        "share/fish/vendor_completions.d/planish.fish",
    ] {
        assert!(prefix.join(file).metadata().unwrap().len() > 100, "{file}");
    }
    // The libraries are found from the program's own place.
    let found = Command::new(prefix.join("bin/planish")).arg("doctor").output().unwrap();
    let said = String::from_utf8_lossy(&found.stdout);
    assert!(!said.contains("the plugin libplanish_qemu_branches.so is not"), "{said}");
    std::fs::write(prefix.join("share/man/man1/other.1"), "not ours").unwrap();
    assert!(install(&prefix, &["--uninstall"]).status.success());
    let left = Command::new("find").arg(&prefix).args(["-type", "f"]).output().unwrap();
    let left = String::from_utf8(left.stdout).unwrap();
    assert_eq!(left.trim(), prefix.join("share/man/man1/other.1").to_str().unwrap());
    assert!(!prefix.join("lib/planish").exists());
}

#[test]
fn a_build_that_is_not_there_is_told_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let done = install(&dir.path().join("usr"), &["--from", dir.path().to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("make build"));
    assert!(!dir.path().join("usr").exists());
}
