//! `planish kernel build`, `record`, `measure` and `optimize` as a user meets them, without a whole
//! kernel: what they call, keep and refuse. A makefile of a few lines stands in for the kernel's;
//! make is the real one.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

mod kernel_command;
#[path = "../../kernel/tests/trees/mod.rs"]
mod trees;

use image::Image;
use image::code::instructions;
use kernel_command::{fine, planish, refuses, text};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What stands in for the kernel's makefile: it says which variables it got.
const MAKEFILE: &str = "\
all:
\t@echo '  CC      kernel/fork.o'
\t@echo 'kernel/fork.c:1: warning: made up'
\t@echo 'profile $(CLANG_AUTOFDO_PROFILE) for $(CLANG_AUTOFDO_OBJECTS) round $(CLANG_AUTOFDO_ROUND)'
broken:
\t@echo 'kernel/fork.c:7: error: made up'
\t@false
";

/// A prepared tree, a configured build with one object that has a function `do_fork`, and a
/// makefile.
fn build() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    trees::make(&dir.path().join("linux"), 12);
    let out = dir.path().join("out");
    std::fs::create_dir_all(out.join("kernel")).unwrap();
    std::fs::write(dir.path().join("stand-in.mk"), MAKEFILE).unwrap();
    std::fs::write(out.join("fork.c"), "int do_fork(int n) { return n + 1; }\n").unwrap();
    let compiled = Command::new("cc")
        .current_dir(&out)
        .args(["-c", "-o", "kernel/fork.o", "fork.c"])
        .status()
        .unwrap();
    assert!(compiled.success());
    let command =
        "savedcmd_kernel/fork.o := clang-22 -D__KERNEL__ -c -o kernel/fork.o kernel/fork.c\n";
    std::fs::write(out.join("kernel/.fork.o.cmd"), command).unwrap();
    dir
}

/// Prepares the tree and writes a configuration that profiles work with.
fn configure(dir: &Path) {
    fine(&planish(dir, &["prepare", "linux"]));
    let tools =
        "CONFIG_X86_64=y\nCONFIG_CC_IS_CLANG=y\nCONFIG_CLANG_VERSION=220108\nCONFIG_LD_IS_LLD=y\n";
    let config = tools.to_owned() + &fine(&planish(dir, &["config", "linux"]));
    std::fs::write(dir.join("out/.config"), config).unwrap();
}

const BUILD: [&str; 5] = ["build", "linux", "--build", "out", "--llvm=-22"];

fn make(dir: &Path, options: &[&str], targets: &[&str]) -> Output {
    // make is in the tree by then.
    planish(dir, &[&BUILD[..], options, &["--", "-f", "../stand-in.mk"], targets].concat())
}

#[test]
fn make_runs_in_a_prepared_and_configured_build_only() {
    let dir = build();
    refuses(
        &make(dir.path(), &[], &["all"]),
        &["no option AUTOFDO_CLANG", "planish kernel prepare linux"],
    );
    fine(&planish(dir.path(), &["prepare", "linux"]));
    refuses(&make(dir.path(), &[], &["all"]), &["out/.config", "configure the build first"]);
    std::fs::write(dir.path().join("out/.config"), "CONFIG_X86_64=y\nCONFIG_CC_IS_GCC=y\n")
        .unwrap();
    refuses(&make(dir.path(), &[], &["all"]), &["CC_IS_CLANG", "gcc has neither", "AUTOFDO_CLANG"]);
    configure(dir.path());
    let said = make(dir.path(), &["--format", "json"], &["all"]);
    let found: Value = serde_json::from_str(&fine(&said)).unwrap();
    assert_eq!(found["schema"], "planish-kernel-build");
    assert_eq!((&found["compiled"], &found["profiled"]), (&1.into(), &Value::Null));
    assert_eq!(found["warnings"].as_array().unwrap().len(), 1);
    let log = std::fs::read_to_string(dir.path().join("out/planish/make.log")).unwrap();
    assert!(log.starts_with("$ make -C ") && log.contains(" LLVM=-22 ARCH=x86_64 -j"), "{log}");
    refuses(
        &make(dir.path(), &[], &["broken"]),
        &["make failed", "error: made up", "out/planish/make.log"],
    );
}

#[test]
fn a_profile_is_for_the_objects_that_it_speaks_of_and_named_by_its_content() {
    let dir = build();
    configure(dir.path());
    let profile = dir.path().join("kernel.afdo");
    let printed = |count: u32| {
        std::fs::write(&profile, format!("do_fork:{count}:1\n 0: {count}\n")).unwrap();
        fine(&make(
            dir.path(),
            &["--profile", "kernel.afdo", "--first-round", "--dry-run"],
            &["all"],
        ))
    };
    let (one, two) = (printed(10), printed(20));
    assert!(one.contains("CLANG_AUTOFDO_ROUND=1") && one != two, "{one}{two}");
    assert_eq!(one, printed(10), "the same content has the same name");
    let said = fine(&make(dir.path(), &["--profile", "kernel.afdo", "--format", "json"], &["all"]));
    let found: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&found["profiled"]["objects"], &found["profiled"]["samples_held"]),
        (&1.into(), &10.into())
    );
    let log = std::fs::read_to_string(dir.path().join("out/planish/make.log")).unwrap();
    let list = log.lines().find_map(|line| line.split(" for ").nth(1)?.split(' ').next()).unwrap();
    assert_eq!(std::fs::read_to_string(list).unwrap(), "kernel/fork.o\n");

    std::fs::write(&profile, "main:10:1\n 0: 10\n").unwrap();
    let foreign = make(dir.path(), &["--profile", "kernel.afdo"], &["all"]);
    refuses(&foreign, &["kernel.afdo", "0 % of its samples", "another tree"]);
    std::fs::write(&profile, "hello\n").unwrap();
    refuses(&make(dir.path(), &["--profile", "kernel.afdo"], &["all"]), &["kernel.afdo"]);
    refuses(&make(dir.path(), &["--layout", "nowhere"], &["all"]), &["nowhere_cc_profile.txt"]);
    let whole = make(dir.path(), &["--layout", "kernel_cc_profile.txt"], &["all"]);
    refuses(&whole, &["the start of the names"]);
}

/// Makes `NAME.afdo` of a run of `do_fork`, in a library that the compiler makes; false where it is
/// not installed.
fn profile_of(dir: &Path, compiler: &str, name: &str) -> bool {
    let library = format!("{name}.so");
    let words = [
        "-g",
        "-O1",
        "-fPIC",
        "-shared",
        "-nostdlib",
        "-Wl,--build-id",
        "-o",
        &library,
        "out/fork.c",
    ];
    match Command::new(compiler).current_dir(dir).args(words).status() {
        Ok(status) => assert!(status.success(), "{compiler} {words:?}"),
        Err(error) => {
            eprintln!("skipped: {compiler}: {error}");
            return false;
        }
    }
    let image = Image::open(&dir.join(&library)).unwrap();
    let function = image.functions().iter().find(|function| function.name == "do_fork").unwrap();
    let last = instructions(&image, function.address)
        .find(|instruction| instruction.kind.is_transfer())
        .unwrap();
    std::fs::write(
        dir.join("run.txt"),
        format!("F {:x} {:x} 70\n", function.address.0, last.address.0),
    )
    .unwrap();
    let profile = format!("{name}.afdo");
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.args(["profile", "run.txt", "--binary", &library, "-o", &profile]);
    fine(&planish.current_dir(dir).stdin(Stdio::null()).output().unwrap());
    true
}

#[test]
fn a_profile_of_another_compiler_is_refused_by_the_names_of_both() {
    let dir = build();
    configure(dir.path());
    let run = |profile: &str, more: &[&str]| {
        make(
            dir.path(),
            &[&["--profile", profile, "--format", "json"][..], more].concat(),
            &["all"],
        )
    };
    let fit = |output: &Output| {
        let found: Value = serde_json::from_str(&fine(output)).unwrap();
        (found["compiler"]["fit"].as_str().unwrap().to_owned(), text(&output.stderr))
    };
    let version = Command::new("clang-22").arg("--version").output().unwrap();
    let own = text(&version.stdout).lines().next().unwrap().to_owned();

    assert!(profile_of(dir.path(), "clang-22", "clang"));
    let (word, said) = fit(&run("clang.afdo", &[]));
    assert!(word == "same" && !said.contains("clang.afdo"), "{word}: {said}");
    if profile_of(dir.path(), "gcc", "gcc") {
        refuses(
            &run("gcc.afdo", &[]),
            &["gcc.afdo", "GCC: (", &own, "--any-compiler", "make the profile anew"],
        );
        refuses(&run("gcc.afdo", &["--dry-run"]), &["GCC: ("]);
        let (word, said) = fit(&run("gcc.afdo", &["--any-compiler"]));
        assert!(
            word == "other" && said.contains("warning") && said.contains("GCC: ("),
            "{word}: {said}"
        );
    }

    let of = |release: &str| {
        let lines = format!("# compiler: {release}\ndo_fork:10:1\n 0: 10\n");
        std::fs::write(dir.path().join("t.afdo"), lines).unwrap();
    };
    of("clang version 21.1.8");
    refuses(&run("t.afdo", &[]), &["clang version 21.1.8", &own, "--llvm=-21"]);
    of("clang version 22.0.99");
    let (word, said) = fit(&run("t.afdo", &[]));
    assert!(
        word == "minor" && said.contains("22.0.99") && said.contains("minor release"),
        "{word}: {said}"
    );
    assert!(!text(&run("t.afdo", &["--quiet"]).stderr).contains("22.0.99"));
    of(&own);
    assert_eq!(fit(&run("t.afdo", &[])).0, "same");
    std::fs::write(dir.path().join("t.afdo"), "do_fork:10:1\n 0: 10\n").unwrap();
    let (word, said) = fit(&run("t.afdo", &[]));
    assert!(
        word == "unknown" && said.contains("is not known") && said.contains(&own),
        "{word}: {said}"
    );
    refuses(&make(dir.path(), &["--any-compiler"], &["all"]), &["--profile"]);
}

#[test]
fn what_is_no_kernel_is_not_booted() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("vmlinux"), vec![0; 4096]).unwrap();
    let record = |kernel: &str| planish(dir.path(), &["record", kernel, "-o", "k.data"]);
    refuses(&record("vmlinux"), &["vmlinux", "HdrS", "arch/x86/boot/bzImage"]);
    refuses(&record("nowhere"), &["nowhere", "planish kernel build"]);
    refuses(&planish(dir.path(), &["measure", "a=vmlinux"]), &["HdrS"]);
    assert!(!dir.path().join("k.data").exists());
    let mut image = vec![0; 4096];
    image[0x202..0x206].copy_from_slice(b"HdrS");
    std::fs::write(dir.path().join("bzImage"), &image).unwrap();
    refuses(
        &planish(dir.path(), &["record", "bzImage", "-o", "bzImage"]),
        &["is the input", "another output"],
    );
    assert_eq!(std::fs::read(dir.path().join("bzImage")).unwrap(), image);
    let nowhere = planish(dir.path(), &["record", "bzImage", "-o", "nowhere/k.data"]);
    refuses(&nowhere, &["there is no directory nowhere"]);
    refuses(
        &planish(dir.path(), &["record", "bzImage", "-o", "k.data", "--", "true"]),
        &["--hardware"],
    );
    refuses(
        &planish(dir.path(), &["measure", "a=bzImage", "a=bzImage"]),
        &["two kernels have this name"],
    );
    let mut arm64 = vec![0; 4096];
    arm64[0x38..0x3c].copy_from_slice(b"ARM\x64");
    std::fs::write(dir.path().join("Image"), &arm64).unwrap();
    refuses(
        &planish(dir.path(), &["measure", "a=bzImage", "b=Image"]),
        &["b: a kernel for arm64, and the first is for x86-64"],
    );
    refuses(&planish(dir.path(), &["record", "--hardware", "-o", "k.data"]), &["COMMAND"]);
    let with = |words: &[&str]| {
        planish(dir.path(), &[&["record", "vmlinux", "-o", "k.data"], words].concat())
    };
    refuses(
        &with(&["--cpus", "2", "--deterministic"]),
        &["--cpus 2", "--deterministic", "one CPU only"],
    );
    refuses(&with(&["--cpus", "2"]), &["HdrS"]);
    refuses(&with(&["--counts"]), &["HdrS"]);
    refuses(&with(&["--counts", "-c", "100"]), &["--counts", "--period"]);
    refuses(&with(&["--binary", "vmlinux"]), &["--counts"]);
    let counts = |words: &[&str]| {
        planish(dir.path(), &[&["record", "bzImage", "--counts", "-o", "k.counts"], words].concat())
    };
    refuses(&counts(&[]), &["vmlinux", "--binary"]);
    refuses(&counts(&["--binary", "nowhere"]), &["nowhere"]);
    assert!(!dir.path().join("k.counts").exists());
    let over = ["record", "bzImage", "--counts", "--binary", "vmlinux", "-o", "vmlinux"];
    refuses(&planish(dir.path(), &over), &["vmlinux", "is the input"]);
    refuses(&with(&["--cpus", "9"]), &["1..=8"]);
    refuses(&with(&["--cpus", "0"]), &["1..=8"]);
    refuses(&planish(dir.path(), &["measure", "a=vmlinux", "--cpus", "2"]), &["--cpus"]);
}

#[test]
fn optimize_prints_its_steps_and_touches_nothing() {
    let dir = tempfile::tempdir().unwrap();
    trees::make(&dir.path().join("linux"), 12);
    let before = trees::contents(&dir.path().join("linux"));
    let printed = fine(&planish(
        dir.path(),
        &[
            "optimize",
            "linux",
            "--output-dir",
            "out",
            "--llvm=-22",
            "--dry-run",
            "--align",
            "64",
            "--cpus",
            "2",
            "--memory=700",
        ],
    ));
    for part in [
        "planish kernel prepare ",
        "allnoconfig",
        "--first-round",
        "record-layout",
        "FUNCTION_ALIGN_64B=y",
    ] {
        assert!(printed.contains(part), "no `{part}` in: {printed}");
    }
    let with = |word: &str| printed.lines().filter(|line| line.contains(word)).collect::<Vec<_>>();
    let (recorded, measured) = (with("planish kernel record "), with("planish kernel measure "));
    assert_eq!((recorded.len(), measured.len()), (3, 1), "{printed}");
    assert!(
        recorded.iter().all(|line| line.contains("--cpus=2") && line.contains("--memory=700")),
        "{printed}"
    );
    assert!(
        measured.iter().all(|line| !line.contains("cpus") && line.contains("--memory=700")),
        "{printed}"
    );
    assert!(
        trees::contents(&dir.path().join("linux")) == before && !dir.path().join("out").exists()
    );
    refuses(
        &planish(dir.path(), &["optimize", "linux", "--output-dir", "linux", "--llvm=-22"]),
        &["another directory"],
    );
    assert!(trees::contents(&dir.path().join("linux")) == before);
    refuses(&planish(dir.path(), &["optimize", "nowhere", "--output-dir", "out"]), &["nowhere"]);
    for dry in [&[][..], &["--dry-run"]] {
        let refused = |words: &[&str], parts: &[&str]| {
            refuses(&planish(dir.path(), &[&["optimize", "linux"], words, dry].concat()), parts);
        };
        refused(&["--output-dir", "out", "--config", "none.config"], &["none.config"]);
        refused(&["--output-dir", "a b"], &["a b", "blanks"]);
        refused(&["--output-dir", "linux/out"], &["outside of it"]);
        refused(&["--output-dir", "out", "--llvm", "3"], &["--llvm '3'", "clang-3"]);
        refused(&["--output-dir", "out", "--cc", "gcc"], &["--cc 'gcc'", "clang"]);
        assert!(
            trees::contents(&dir.path().join("linux")) == before
                && !dir.path().join("out").exists()
        );
    }
}
