//! Does `planish kernel record --native` record a kernel that is a process, and refuse what is none? The kernel here is a program
//! that says what the workload says; real ones are recorded by `make study NAME=profile`.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::path::Path;
use std::process::{Command, Output};

const KERNEL: &str = r#"
#include <stdio.h>
#include <string.h>
static volatile int sink;
__attribute__((noinline)) static int step(int n) { return n & 3 ? n * 3 + 1 : n / 2; }
int main(int count, char **words)
{
    int trains = 0;
    for (int word = 1; word < count; word++)
        trains |= !strcmp(words[word], "PLANISH_SECTIONS=train");
    puts("planish: begin 1");
    for (int turn = 0; turn < 60000000; turn++)
        sink = step(turn);
#ifdef FAILS
    puts("planish: failed 3 runner.c, line 1: not so: 1");
#endif
    if (trains)
        puts("planish: end");
}
"#;

fn kernel(folder: &Path, name: &str, flags: &[&str]) -> bool {
    let source = folder.join("kernel.c");
    std::fs::write(&source, KERNEL).unwrap();
    let mut clang = Command::new("clang-22");
    clang
        .args(["-O1", "-g", "-fdebug-info-for-profiling", "-Wl,--build-id"])
        .args(flags)
        .arg("-o")
        .arg(folder.join(name))
        .arg(&source);
    clang.status().is_ok_and(|status| status.success())
}

fn record(folder: &Path, words: &[&str]) -> Output {
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(folder).args(["kernel", "record", "--native"]).args(words);
    planish.output().unwrap()
}

#[test]
fn a_kernel_that_is_a_process_is_recorded_with_its_training() {
    let folder = tempfile::tempdir().unwrap();
    let (here, build) = (folder.path(), folder.path().join("base/planish"));
    std::fs::create_dir_all(&build).unwrap();
    if !kernel(&build, "0.linux", &[]) {
        println!("skipped: clang-22 is not installed");
        return;
    }
    let done = record(here, &["base", "-o", "kernel.data", "-c", "2000000"]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert!(done.stdout.is_empty(), "what the workload says is read, not shown");
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(here).args(["profile", "kernel.data", "--allow-few", "--binary"]);
    let done = planish.args(["base/planish/0.linux", "-o", "kernel.afdo"]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let profile = std::fs::read(here.join("kernel.afdo")).unwrap();
    assert!(profile.windows(4).any(|name| name == b"step"), "{}", profile.len());
}

#[test]
fn what_is_no_such_kernel_and_a_workload_that_fails_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    if !kernel(here, "fails", &["-DFAILS"]) || !kernel(here, "other", &[]) {
        println!("skipped: clang-22 is not installed");
        return;
    }
    std::fs::create_dir(here.join("empty")).unwrap();
    for (words, why) in [
        (
            &["fails", "-o", "a.data"][..],
            "fails: the workload failed in section 3: runner.c, line 1",
        ),
        (&["fails", "-o", "fails"], "fails"),
        (&["empty", "-o", "a.data"], "planish/0.linux is missing"),
        (&["other", "-o", "a.data", "--sections", "held"], "it ended before its workload did"),
        (&["missing", "-o", "a.data"], "missing: No such file"),
        (&["fails", "-o", "a.data", "--counts"], "--counts"),
    ] {
        let done = record(here, words);
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(why), "{words:?}: {said}");
    }
}
