//! `planish livepatch` on builds that are damaged: one error that names the file, or a sentence on
//! what was left out.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

const DUMP: &str = "Callgraph clone;tiny;1;a.c;1;2;big;2;a.c;3;4;inlining to\n";

fn planish(dir: &Path, words: &[&str]) -> Output {
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    let verb = words.first().filter(|first| ["diff", "flags"].contains(*first));
    planish.current_dir(dir).arg("livepatch").args(verb.is_none().then_some("closure"));
    planish.args(words).stdin(Stdio::null()).output().unwrap()
}

fn refused(dir: &Path, words: &[&str]) -> String {
    let done = planish(dir, words);
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(2), "{words:?}: {told}");
    assert!(done.stdout.is_empty(), "{words:?}");
    told
}

/// A build of one object and a dump; false, with a sentence, where there is no gcc.
fn build(dir: &Path) -> bool {
    std::fs::write(
        dir.join("a.c"),
        "int big(int a) { return a * 3; }\nint other(int a) { return a ^ 5; }\n",
    )
    .unwrap();
    let Ok(done) = Command::new("gcc").current_dir(dir).args(["-O2", "-c", "a.c"]).output() else {
        eprintln!("skipped: gcc is not installed");
        return false;
    };
    assert!(done.status.success());
    std::fs::write(dir.join("a.c.000i.ipa-clones"), DUMP).unwrap();
    true
}

#[test]
fn damaged_dumps_are_named_with_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    if !build(dir) {
        return;
    }
    let path = dir.join("a.c.000i.ipa-clones");
    assert_eq!(planish(dir, &[".", "-f", "tiny"]).status.code(), Some(0));
    for (text, expected) in [
        (DUMP.trim_end().to_owned(), "line 1: expected a line end"),
        (DUMP[..40].to_owned(), "line 1: expected `Callgraph clone` with"),
        (format!("{DUMP}--- !Passed\n"), "line 2: expected `Callgraph clone;"),
        (
            format!("{DUMP}Callgraph clone;{}\n", "x".repeat(3 << 20)),
            "line 2: expected `Callgraph clone` with",
        ),
        (format!("{DUMP}{}", "\0".repeat(5000)), "line 2: expected text without NUL bytes"),
        (format!("Callgraph\u{1b}[31m{}\n", ";".repeat(9999)), "found `Callgraph\u{fffd}[31m;"),
    ] {
        std::fs::write(&path, text).unwrap();
        let told = refused(dir, &[".", "-f", "tiny"]);
        assert!(told.contains(expected) && told.contains("a.c.000i.ipa-clones, "), "{told}");
        assert!(told.len() < 600, "{told}");
    }
}

#[test]
fn a_file_of_holes_fills_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    if !build(dir) {
        return;
    }
    for name in ["a.c.000i.ipa-clones", "a.c.079i.icf", "a.opt.yaml"] {
        let file = std::fs::File::create(dir.join(name)).unwrap();
        file.set_len(1 << 30).unwrap();
        let mut limited = Command::new("sh");
        // 512 MiB of address space, half of the file.
        let line = format!(
            "ulimit -v 524288; exec {} livepatch closure . -f big --threads 1",
            env!("CARGO_BIN_EXE_planish")
        );
        let done = limited.current_dir(dir).args(["-c", &line]).output().unwrap();
        let told = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{told}");
        assert!(
            told.contains(name) && told.contains("line 1: expected text without NUL bytes"),
            "{told}"
        );
        drop(file);
        std::fs::remove_file(dir.join(name)).unwrap();
    }
}

#[test]
fn names_and_directories_that_are_not_there_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    if !build(dir) {
        return;
    }
    assert!(refused(dir, &[".", "-f", "otter"]).contains("did you mean other?"));
    assert!(refused(dir, &[".", "-f", &"x".repeat(100_000)]).contains("no function"));
    assert!(refused(dir, &["a.o", "-f", "big"]).contains("a.o"));
    // Loops of links end, and files without objects are told with the flags that are missing.
    std::fs::create_dir(dir.join("none")).unwrap();
    std::os::unix::fs::symlink("..", dir.join("none/up")).unwrap();
    std::fs::write(dir.join("none/b.c.000i.ipa-clones"), DUMP).unwrap();
    let told = refused(dir, &["none"]);
    assert!(told.contains("-fdump-ipa-clones") && told.contains("none"), "{told}");
    // A link to an object outside is told too; one to a file below the directory says nothing new.
    std::fs::create_dir(dir.join("linked")).unwrap();
    std::fs::copy(dir.join("a.o"), dir.join("linked/own.o")).unwrap();
    std::os::unix::fs::symlink("own.o", dir.join("linked/same.o")).unwrap();
    std::os::unix::fs::symlink("../a.o", dir.join("linked/far.o")).unwrap();
    let done = planish(dir, &["linked", "-f", "big"]);
    let told = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{told}");
    assert!(
        told.contains("far.o left out: a link to a file outside") && !told.contains("same.o"),
        "{told}"
    );
    std::fs::remove_dir_all(dir.join("linked")).unwrap();
    // A dump whose object is gone is told and not used.
    std::fs::write(dir.join("gone.c.000i.ipa-clones"), DUMP.replace("tiny", "stale")).unwrap();
    let done = planish(dir, &[".", "-f", "tiny"]);
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(told.contains("gone.c.000i.ipa-clones left out: stale"), "{told}");
    assert!(refused(dir, &[".", "-f", "stale"]).contains("no function stale"));
}

#[test]
fn a_directory_that_may_not_be_read_is_an_error() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    if !build(dir) {
        return;
    }
    let closed = dir.join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).unwrap();
    let may_read_all = std::fs::read_dir(&closed).is_ok();
    if may_read_all {
        eprintln!("skipped: this user may read every directory");
    } else {
        let told = refused(dir, &[".", "-f", "big"]);
        assert!(told.contains("closed") && told.contains("ermission denied"), "{told}");
    }
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o755)).unwrap();
}
