//! Profiles of a program with pseudo probes: chosen by themselves, said, read back, and not mixed
//! with those of lines.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on shall fail its test")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use image::Image;
use image::code::instructions;

fn planish(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
    command.current_dir(directory).args(words).stdin(Stdio::null()).output().expect("planish runs")
}

#[track_caller]
fn says(directory: &Path, words: &[&str], code: i32, parts: &[&str]) {
    let output = planish(directory, words);
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
    for part in parts {
        assert!(said.contains(part), "{words:?}: no `{part}` in: {said}");
    }
}

/// Builds `other.so` with probes, and `run.txt`: every straight line of every function ran 5 times.
/// False without clang.
fn prepare(directory: &Path) -> bool {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../image/tests/programs/other.cc");
    let flags = [
        "-O2",
        "-gmlt",
        "-fdebug-info-for-profiling",
        "-fpseudo-probe-for-profiling",
        "-Wl,--build-id",
    ];
    let built = Command::new("clang++-22")
        .args(flags)
        .args(["-shared", "-fPIC", "-nostdlib", source, "-o", "other.so"])
        .current_dir(directory)
        .status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("skipped: clang++-22 is not installed");
        return false;
    }
    let image = Image::open(&directory.join("other.so")).unwrap();
    let mut text = String::new();
    for function in image.functions().iter() {
        let mut first = None;
        for instruction in instructions(&image, function.address) {
            if instruction.address >= function.end() {
                break;
            }
            let begin = *first.get_or_insert(instruction.address);
            if instruction.kind.is_transfer() {
                writeln!(text, "F {:x} {:x} 5", begin.0, instruction.address.0).unwrap();
                first = None;
            }
        }
    }
    std::fs::write(directory.join("run.txt"), text).unwrap();
    true
}

const MAKE: [&str; 4] = ["profile", "run.txt", "--binary", "other.so"];

#[test]
fn probes_are_chosen_where_the_binary_has_them_and_the_format_a_place() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    if !prepare(here) {
        return;
    }
    let make = |more: &[&'static str]| [&MAKE[..], more].concat();
    says(
        here,
        &make(&["-o", "p.text", "--emit", "text"]),
        0,
        &["by pseudo probes", "-fpseudo-probe-for-profiling"],
    );
    let text = std::fs::read_to_string(here.join("p.text")).unwrap();
    assert!(text.contains("!CFGChecksum: ") && text.contains(" 1: 5\n"), "{text}");
    says(here, &make(&["-o", "p.afdo"]), 0, &["by pseudo probes"]);
    says(here, &["profile", "merge", "p.afdo", "-o", "again.text", "--emit", "text"], 0, &[]);
    assert_eq!(std::fs::read_to_string(here.join("again.text")).unwrap(), text);
    says(here, &["profile", "show", "p.afdo"], 0, &["counted by           pseudo probes"]);
    says(here, &["profile", "show", "p.afdo", "--format", "json"], 0, &["\"pseudo_probes\": true"]);

    says(here, &make(&["-o", "l.text", "--emit", "text", "--probes", "ignore"]), 0, &["by lines"]);
    assert!(!std::fs::read_to_string(here.join("l.text")).unwrap().contains("!CFGChecksum"));
    says(
        here,
        &make(&["-o", "l.gcov", "--emit", "gcov"]),
        0,
        &["by lines", "the format has no place for them"],
    );
    let refused = make(&["-o", "x", "--emit", "gcov", "--probes", "use"]);
    says(here, &refused, 2, &["extbinary and text"]);
    says(
        here,
        &["profile", "merge", "p.afdo", "-o", "x", "--emit", "binary"],
        2,
        &["taken for lines"],
    );
    for tool in [&["merge", "p.afdo", "l.text", "-o", "x"][..], &["diff", "l.text", "p.afdo"]] {
        let words = [&["profile"][..], tool].concat();
        says(here, &words, 2, &["p.afdo counts pseudo probes and l.text lines"]);
    }
    assert!(!here.join("x").exists());
}

#[test]
fn a_stripped_binary_takes_symbols_and_probes_from_its_debug_file() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    if !prepare(here) {
        return;
    }
    says(here, &[&MAKE[..], &["-o", "whole.text", "--emit", "text"]].concat(), 0, &[]);
    let objcopy = |words: &[&str]| {
        let status = Command::new("llvm-objcopy-22").args(words).current_dir(here).status();
        status.is_ok_and(|status| status.success())
    };
    if !objcopy(&["--only-keep-debug", "other.so", "other.debug"]) {
        eprintln!("skipped: llvm-objcopy-22 is not installed");
        return;
    }
    let kept = ["--keep-section=.pseudo_probe", "--keep-section=.pseudo_probe_desc"];
    for (keep, name) in [(&kept[..], "bare.so"), (&["-R", ".pseudo_probe"], "less.so")] {
        assert!(objcopy(&[&["--strip-all"], keep, &["other.so", name]].concat()));
        let words = ["profile", "run.txt", "--binary", name, "-o", "p.text", "--emit", "text"];
        let with_file = [&words[..], &["--debug-file", "other.debug"]].concat();
        says(here, &with_file, 0, &["by pseudo probes"]);
        let read = |name: &str| std::fs::read_to_string(here.join(name)).unwrap();
        assert_eq!(read("p.text"), read("whole.text"), "{name}");
    }
    // Without it only the exported functions have a symbol that says where they begin.
    let words = ["profile", "run.txt", "--binary", "bare.so", "-o", "x", "--probes", "use"];
    says(here, &words, 0, &["functions with probes that no symbol says the place of"]);
}

#[test]
fn a_binary_without_probes_is_counted_by_line_and_said_so_where_probes_are_wanted() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/autofdo");
    let (input, binary) = (format!("{fixtures}/test.lbr"), format!("{fixtures}/test.binary"));
    says(here, &["profile", &input, "--binary", &binary, "-o", "l.afdo"], 0, &["by lines"]);
    let wanted = ["profile", &input, "--binary", &binary, "-o", "x", "--probes", "use"];
    says(here, &wanted, 2, &["no pseudo probes in it", "--probes ignore"]);
}
