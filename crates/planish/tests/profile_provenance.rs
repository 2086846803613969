//! Profiles say of which program they are and which compilers made it, and keep that through the
//! tools.

#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on shall fail its test")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use image::Image;
use image::code::instructions;
use serde_json::Value;

fn run(directory: &Path, program: &str, words: &[&str]) -> Option<Output> {
    let output =
        Command::new(program).args(words).current_dir(directory).stdin(Stdio::null()).output();
    output.map_err(|error| eprintln!("skipped: {program}: {error}")).ok()
}

#[track_caller]
fn planish(directory: &Path, words: &[&str]) -> String {
    let output = run(directory, env!("CARGO_BIN_EXE_planish"), words).unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {message}");
    String::from_utf8(output.stdout).unwrap()
}

/// Builds `NAME` with the compiler and writes `NAME.txt`, a run of its only function; false where
/// it is not installed.
fn prepare(directory: &Path, compiler: &str, name: &str) -> bool {
    build(directory, compiler, name, "", &[])
}

/// The same with more source and more flags.
fn build(directory: &Path, compiler: &str, name: &str, source: &str, flags: &[&str]) -> bool {
    let text = format!(
        "int work(int n)\n{{\n\tstatic volatile int many;\n\tif (n > 3)\n\t\tmany = n;\n\treturn n * 3;\n}}\n{source}"
    );
    std::fs::write(directory.join("c.c"), text).unwrap();
    let words = ["-O1", "-g", "-fPIC", "-shared", "-nostdlib", "-Wl,--build-id", "-o", name, "c.c"];
    let words = [&words[..], flags].concat();
    let Some(built) = run(directory, compiler, &words) else { return false };
    assert!(built.status.success(), "{compiler}: {}", String::from_utf8_lossy(&built.stderr));
    let image = Image::open(&directory.join(name)).unwrap();
    let first = image.functions().iter().find(|function| function.name == "work").unwrap().address;
    // From its jump on to its return: nothing is laid out where only one block ran.
    let mut transfers =
        instructions(&image, first).filter(|instruction| instruction.kind.is_transfer());
    let last = transfers.nth(1).unwrap();
    let line = format!("F {:x} {:x} 500\n", first.0, last.address.0);
    std::fs::write(directory.join(format!("{name}.txt")), line).unwrap();
    true
}

fn profile(directory: &Path, name: &str, output: &str, more: &[&str]) -> String {
    let counts = format!("{name}.txt");
    planish(directory, &[&["profile", &counts, "--binary", name, "-o", output][..], more].concat())
}

/// What `show` says: the compilers and the build IDs.
fn shown(directory: &Path, file: &str) -> (Vec<String>, Vec<String>) {
    let found: Value =
        serde_json::from_str(&planish(directory, &["profile", "show", file, "--format", "json"]))
            .unwrap();
    let list = |key: &str| {
        found[key]
            .as_array()
            .unwrap()
            .iter()
            .map(|text| text.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let (compilers, ids) = (list("compilers"), list("build_ids"));
    let text = planish(directory, &["profile", "show", file]);
    for line in compilers.iter().map(|release| format!("compiler             {release}\n")) {
        assert!(text.contains(&line), "{text}");
    }
    for line in ids.iter().map(|id| format!("build ID             {id}\n")) {
        assert!(text.contains(&line), "{text}");
    }
    (compilers, ids)
}

fn none() -> (Vec<String>, Vec<String>) {
    (Vec::new(), Vec::new())
}

#[test]
fn a_profile_names_the_compiler_and_the_build_of_its_program_in_every_form_that_has_a_place() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let mut all = none();
    for (compiler, states) in [("gcc", "GCC: ("), ("clang-22", "clang version 22.")] {
        if !prepare(dir, compiler, compiler) {
            return;
        }
        let id = Image::open(&dir.join(compiler)).unwrap().build_id().unwrap().to_string();
        for options in [
            &["--emit", "extbinary"][..],
            &["--emit", "extbinary", "--compress"],
            &["--emit", "extbinary", "--md5"],
            &["--emit", "text"],
        ] {
            profile(dir, compiler, "p", options);
            let (compilers, ids) = shown(dir, "p");
            assert!(
                compilers.len() == 1 && compilers[0].contains(states),
                "{options:?}: {compilers:?}"
            );
            assert_eq!(ids, [id.as_str()], "{options:?}");
            let before = std::fs::read(dir.join("p")).unwrap();
            profile(dir, compiler, "again", options);
            assert!(
                std::fs::read(dir.join("again")).unwrap() == before,
                "{options:?}: other bytes for the same input"
            );
            // The peer reads on without a word.
            if let Some(peer) = run(dir, "llvm-profdata-22", &["show", "--sample", "p"]) {
                assert!(peer.status.success() && peer.stderr.is_empty(), "{options:?}: {peer:?}");
            }
        }
        for format in ["binary", "gcov", "pprof"] {
            profile(dir, compiler, "p", &["--emit", format]);
            assert_eq!(shown(dir, "p"), none(), "{format}");
        }
        profile(dir, compiler, &format!("{compiler}.afdo"), &[]);
        let own = shown(dir, &format!("{compiler}.afdo"));
        all.0.extend(own.0);
        all.1.extend(own.1);
    }
    all.0.sort_unstable();
    all.1.sort_unstable();
    for more in [&[][..], &["--emit", "text"]] {
        planish(
            dir,
            &[&["profile", "merge", "gcc.afdo", "clang-22.afdo", "-o", "both"][..], more].concat(),
        );
        planish(dir, &["profile", "trim", "both", "--keep", "work", "-o", "kept"]);
        assert_eq!(
            (shown(dir, "both"), shown(dir, "kept")),
            (all.clone(), all.clone()),
            "{more:?}"
        );
    }
}

#[test]
fn a_stripped_comment_is_taken_from_the_debug_file_and_otherwise_missing() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    if !prepare(dir, "clang-22", "whole") {
        return;
    }
    profile(dir, "whole", "p", &[]);
    let whole = shown(dir, "p");
    std::fs::copy(dir.join("whole.txt"), dir.join("bare.txt")).unwrap();
    let words = ["--remove-section=.comment", "whole", "bare"];
    if run(dir, "llvm-objcopy-22", &words).is_none_or(|done| !done.status.success()) {
        return;
    }
    profile(dir, "bare", "p", &[]);
    assert_eq!(shown(dir, "p"), (Vec::new(), whole.1.clone()));
    profile(dir, "bare", "p", &["--debug-file", "whole"]);
    assert_eq!(shown(dir, "p"), whole);
}

#[test]
fn after_the_profile_and_the_layout_of_a_kernel_comes_the_build_of_a_kernel() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    // What tells a kernel is the table of what it exports to modules.
    let table = "__attribute__((section(\"__ksymtab\"), used)) int exported = 1;\n";
    let blocks = "-fbasic-block-address-map";
    if !build(dir, "clang-22", "kernel", table, &[blocks])
        || !build(dir, "clang-22", "program", "", &[blocks])
    {
        return;
    }
    for (name, profiled, laid_out) in [
        (
            "kernel",
            "next: planish kernel build TREE --profile 'a p'",
            "next: planish kernel build TREE --profile FILE --layout 'a l'",
        ),
        (
            "program",
            "next: clang -fprofile-sample-use='a p'",
            "next: clang -fbasic-block-address-map -fbasic-block-sections=list='a l_cc_profile.txt'",
        ),
    ] {
        let counts = format!("{name}.txt");
        let ways = [("profile", "-o", "a p", profiled), ("layout", "--prefix", "a l", laid_out)];
        for (command, option, output, next) in ways {
            let words = [command, &counts, "--binary", name, option, output];
            let said = run(dir, env!("CARGO_BIN_EXE_planish"), &words).unwrap();
            let text = String::from_utf8_lossy(&said.stderr).into_owned();
            assert!(said.status.success() && text.contains(next), "{words:?}: {text}");
        }
    }
}
