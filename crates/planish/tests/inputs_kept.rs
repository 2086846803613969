//! No command writes over a file that it reads, whatever name the output has; and both files of a
//! layout are written or none.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

const PROFILE: &str = "work:1000:10\n 1: 10\n 2: 20 f:20\nf:200:20\n 1: 20\n";
const SOURCE: &str = "static volatile int sink;\n__attribute__((noinline)) int f(int x) { if (x % 7 == 3) sink += x; return x + 1; }\n\
     __attribute__((noinline)) int work(int n) {\n  int s = 0;\n  for (int i = 0; i < n; i++)\n    s += f(i);\n  return s;\n}\n\
     int main(void) { int s = 0; for (int i = 0; i < 200; i++) s += work(i); return s & 1; }\n";

fn planish(here: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
    command.current_dir(here).args(words).stdin(Stdio::null()).output().unwrap()
}

/// The command ends with 2, names the input, and leaves every file as it was.
#[track_caller]
fn refused(here: &Path, words: &[&str]) {
    let files = || {
        let mut files: Vec<_> = std::fs::read_dir(here)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file())
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect();
        files.sort();
        files
    };
    let before = files();
    let done = planish(here, words);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{words:?}: {said}");
    assert!(
        said.contains("is the input") && said.contains("name another output"),
        "{words:?}: {said}"
    );
    assert!(before == files(), "{words:?} changed a file");
}

#[test]
fn a_command_on_profiles_does_not_write_over_what_it_reads() {
    let scratch = tempfile::tempdir().unwrap();
    let here = scratch.path();
    std::fs::write(here.join("old.text"), PROFILE).unwrap();
    std::fs::write(here.join("more.text"), PROFILE).unwrap();
    std::fs::hard_link(here.join("old.text"), here.join("hard.text")).unwrap();
    std::os::unix::fs::symlink("old.text", here.join("soft.text")).unwrap();
    for output in ["old.text", "hard.text", "soft.text", "./old.text"] {
        refused(here, &["profile", "match", "old.text", "--binary", "none", "-o", output]);
        refused(here, &["profile", "merge", "more.text", "old.text", "-o", output]);
        refused(here, &["profile", "merge", "--weighted-input", "3,old.text", "-o", output]);
        refused(here, &["profile", "trim", "old.text", "--cold", "-o", output]);
        refused(here, &["profile", "show", "old.text", "-o", output]);
        refused(here, &["profile", "diff", "more.text", "old.text", "-o", output]);
    }
    // A new name, or one of a file that is no input, is fine.
    let done = planish(here, &["profile", "merge", "old.text", "-o", "more.text"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_report_does_not_write_over_the_file_it_tells() {
    let scratch = tempfile::tempdir().unwrap();
    let here = scratch.path();
    std::fs::create_dir(here.join(".planish")).unwrap();
    std::fs::write(here.join(".planish/report.json"), "{\"schema\": \"planish-optimize\"}")
        .unwrap();
    for path in [".planish/report.json", "."] {
        let done =
            planish(here, &["report", path, "--format", "markdown", "-o", ".planish/report.json"]);
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(2) && said.contains("is the input"), "{path}: {said}");
    }
    assert!(std::fs::read(here.join(".planish/report.json")).unwrap().starts_with(b"{\"schema\""));
}

#[test]
fn counts_and_layouts_do_not_replace_inputs_and_come_whole_or_not_at_all() {
    let scratch = tempfile::tempdir().unwrap();
    let here = scratch.path();
    std::fs::write(here.join("app.c"), SOURCE).unwrap();
    let flags = ["-O2", "-g1", "-fbasic-block-address-map", "-Wl,--build-id", "app.c", "-o", "app"];
    if !Command::new("clang-22")
        .args(flags)
        .current_dir(here)
        .status()
        .is_ok_and(|status| status.success())
    {
        eprintln!("skipped: clang-22 is not installed");
        return;
    }
    let done = planish(here, &["record", "--branches=emulated", "-o", "perf.data", "--", "./app"]);
    if !done.status.success() {
        eprintln!("skipped: no emulated recording: {}", String::from_utf8_lossy(&done.stderr));
        return;
    }
    refused(here, &["aggregate", "perf.data", "--binary", "app", "-o", "perf.data"]);
    refused(here, &["aggregate", "perf.data", "--binary", "app", "-o", "app"]);
    refused(here, &["profile", "perf.data", "--binary", "app", "-o", "app"]);
    let fine = |words: &[&str]| {
        let done = planish(here, words);
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    fine(&["aggregate", "perf.data", "--binary", "app", "-o", "x_ld_profile.txt"]);
    refused(here, &["aggregate", "x_ld_profile.txt", "-o", "x_ld_profile.txt"]);
    refused(here, &["aggregate", "x_ld_profile.txt", "--binary", "app", "-o", "x_ld_profile.txt"]);
    refused(here, &["layout", "x_ld_profile.txt", "--binary", "app", "--prefix", "x"]);
    refused(
        here,
        &["layout", "show", "x_ld_profile.txt", "--binary", "app", "--svg", "x_ld_profile.txt"],
    );

    // The second file cannot get its name: the first one is what it was.
    fine(&["layout", "perf.data", "--binary", "app", "--prefix", "out"]);
    let cc = std::fs::read(here.join("out_cc_profile.txt")).unwrap();
    std::fs::remove_file(here.join("out_ld_profile.txt")).unwrap();
    std::fs::create_dir_all(here.join("out_ld_profile.txt/full")).unwrap();
    let layout =
        ["layout", "perf.data", "--binary", "app", "--prefix", "out", "--verbose-comments"];
    for before in [Some(&cc), None] {
        let done = planish(here, &layout);
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{said}");
        let told = if before.is_some() { "was put back as it was" } else { "was removed again" };
        assert!(said.contains("out_ld_profile.txt") && said.contains(told), "{said}");
        assert_eq!(std::fs::read(here.join("out_cc_profile.txt")).ok().as_ref(), before);
        let _ = std::fs::remove_file(here.join("out_cc_profile.txt"));
    }
    let left: Vec<_> =
        std::fs::read_dir(here).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".planish-")), "{left:?}");
}

/// For root a file could take the place of `/dev/stdout` or `/dev/null`.
#[test]
fn what_the_shell_joined_is_written_to_and_never_replaced() {
    let scratch = tempfile::tempdir().unwrap();
    let here = scratch.path();
    std::fs::write(here.join("a.text"), PROFILE).unwrap();
    let link = || std::fs::symlink_metadata("/dev/stdout").is_ok_and(|found| found.is_symlink());
    assert!(link());
    let out = std::fs::File::create(here.join("out")).unwrap();
    let mut merge = Command::new(env!("CARGO_BIN_EXE_planish"));
    merge.current_dir(here).args([
        "profile",
        "merge",
        "a.text",
        "-o",
        "/dev/stdout",
        "--emit",
        "text",
    ]);
    let done = merge.stdin(Stdio::null()).stdout(out).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(std::fs::read_to_string(here.join("out")).unwrap().contains("work:1000:10"));
    assert!(link(), "/dev/stdout was replaced");
    for place in ["/dev/stdout", "/dev/full", "/dev/null"] {
        let words =
            ["compare", "--raw", place, "--rounds", "6", "/bin/true", "/bin/true", "--", "{bin}"];
        let done = planish(here, &words);
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(said.contains(place) && said.contains("a device or pipe"), "{said}");
        assert!(link() && !Path::new("/dev/null").is_file() && !Path::new("/dev/full").is_file());
    }
}
