//! `planish kernel` as a user meets it, on made-up trees: what it does to them, says about them,
//! and refuses.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

mod kernel_command;
#[path = "../../kernel/tests/trees/mod.rs"]
mod trees;

use kernel_command::{fine, planish, refuses, text};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use trees::{contents, edit, make};

/// A directory with a made-up tree `linux` of version 6.`minor`.
fn tree(minor: u32) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    make(&dir.path().join("linux"), minor);
    dir
}

#[test]
fn a_tree_is_prepared_once_and_taken_back_to_the_byte() {
    for minor in [1, 12] {
        let dir = tree(minor);
        let root = dir.path().join("linux");
        std::fs::set_permissions(root.join("Makefile"), PermissionsExt::from_mode(0o640)).unwrap();
        let before = contents(&root);
        let said = fine(&planish(dir.path(), &["prepare", "linux"]));
        assert!(said.contains(&format!("Linux 6.{minor}.9: prepared")), "{said}");
        assert!(said.contains("added    scripts/Makefile.propeller"), "{said}");
        assert!(said.contains("edited   Documentation/dev-tools/index.rst"), "{said}");
        let prepared = contents(&root);
        assert_eq!(prepared.len(), before.len() + 4);
        let again = fine(&planish(dir.path(), &["prepare", "linux"]));
        assert!(again.contains("is prepared already"), "{again}");
        assert!(contents(&root) == prepared, "the second run does nothing");
        let mode = std::fs::metadata(root.join("Makefile")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o640);
        fine(&planish(dir.path(), &["prepare", "linux", "--revert"]));
        assert!(contents(&root) == before, "taken back");
        let again = fine(&planish(dir.path(), &["prepare", "linux", "--revert"]));
        assert!(again.contains("not prepared; nothing to take back"), "{again}");
    }
}

#[test]
fn a_tree_without_its_documents_is_prepared_without_ours() {
    let dir = tree(12);
    let root = dir.path().join("linux");
    std::fs::remove_dir_all(root.join("Documentation")).unwrap();
    let before = contents(&root);
    let said = fine(&planish(dir.path(), &["prepare", "linux"]));
    assert!(said.contains("Linux 6.12.9: prepared") && !said.contains("Documentation"), "{said}");
    assert!(fine(&planish(dir.path(), &["prepare", "linux"])).contains("is prepared already"));
    fine(&planish(dir.path(), &["prepare", "linux", "--revert"]));
    assert!(contents(&root) == before, "taken back");
}

#[test]
fn a_dry_run_prints_a_patch_that_does_the_same_and_writes_nothing() {
    let dir = tree(12);
    let root = dir.path().join("linux");
    let before = contents(&root);
    let patch = planish(dir.path(), &["prepare", "linux", "--dry-run"]);
    let diff = fine(&patch);
    assert!(contents(&root) == before);
    for part in
        ["--- /dev/null\n+++ b/scripts/Makefile.autofdo\n", "+++ b/tools/objtool/elf.c\n", "\n@@ "]
    {
        assert!(diff.contains(part), "no {part:?} in {diff}");
    }
    std::fs::write(root.join("x.diff"), &patch.stdout).unwrap();
    let applied = Command::new("git").current_dir(&root).args(["apply", "x.diff"]).output();
    let Ok(applied) = applied else { return eprintln!("skipped: git is not installed") };
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    std::fs::remove_file(root.join("x.diff")).unwrap();
    assert!(fine(&planish(dir.path(), &["prepare", "linux"])).contains("is prepared already"));
    let back = fine(&planish(dir.path(), &["prepare", "linux", "--revert", "--dry-run"]));
    assert!(back.contains("+++ /dev/null\n"), "{back}");
}

#[test]
fn one_construct_that_is_missing_or_double_leaves_the_tree_alone() {
    let cases: [(&str, &str, &str, &[&str]); 5] = [
        ("arch/Kconfig", "config LTO\n", "config LTO2\n", &["`config LTO`", "found it 0 times"]),
        (
            "Makefile",
            "include-$(CONFIG_KCOV)\t\t+= scripts/Makefile.kcov",
            "include-$(CONFIG_RANDSTRUCT) += scripts/Makefile.randstruct",
            &["found it 2 times"],
        ),
        (
            "include/asm-generic/vmlinux.lds.h",
            "*(.text.unknown .text.unknown.*)",
            "*(.text.unheard)",
            &["TEXT_TEXT", ".text.unknown"],
        ),
        (
            "arch/x86/lib/retpoline.S",
            ".text..__x86",
            ".text.__x86",
            &["the sections of thunks", "swallow"],
        ),
        (
            "scripts/mod/modpost.c",
            "\".text.*\"",
            "\".text.unlikely\"",
            &["the names of text sections"],
        ),
    ];
    for (file, old, new, parts) in cases {
        let dir = tree(12);
        let root = dir.path().join("linux");
        edit(&root, file, |text| text.replacen(old, new, 1));
        let before = contents(&root);
        let refused = planish(dir.path(), &["prepare", "linux"]);
        refuses(&refused, &[&[file, "nothing was written"], parts].concat());
        assert!(contents(&root) == before, "{file}");
    }
}

#[test]
fn half_edited_and_dirty_trees_are_refused_with_what_to_do() {
    let dir = tree(12);
    let root = dir.path().join("linux");
    let plain = contents(&root);
    let original = std::fs::read(root.join("Makefile")).unwrap();
    fine(&planish(dir.path(), &["prepare", "linux"]));
    std::fs::write(root.join("Makefile"), &original).unwrap();
    let refused = planish(dir.path(), &["prepare", "linux"]);
    refuses(
        &refused,
        &["half prepared", "tools/objtool/elf.c", "Makefile do not", "--revert linux"],
    );
    fine(&planish(dir.path(), &["prepare", "linux", "--revert"]));
    assert!(contents(&root) == plain, "what was there is taken back");

    fine(&planish(dir.path(), &["prepare", "linux"]));
    edit(&root, "tools/objtool/elf.c", |text| {
        text.replace("size_t length = strlen", "size_t size = strlen")
    });
    for words in [&["prepare", "linux"][..], &["prepare", "linux", "--revert"]] {
        let parts = [
            "tools/objtool/elf.c",
            "in part, changed or more than once",
            "the type of cold parts",
            "Restore the file",
        ];
        refuses(&planish(dir.path(), words), &parts);
    }

    let dir = tree(12);
    let root = dir.path().join("linux");
    std::fs::write(root.join("arch/Kconfig.rej"), "").unwrap();
    refuses(&planish(dir.path(), &["prepare", "linux"]), &["arch/Kconfig:", ".rej"]);
    std::fs::remove_file(root.join("arch/Kconfig.rej")).unwrap();
    edit(&root, "Makefile", |text| text + "<<<<<<< ours\n");
    refuses(&planish(dir.path(), &["prepare", "linux"]), &["Makefile:", "merge conflict"]);

    let dir = tree(12);
    std::fs::write(dir.path().join("linux/scripts/Makefile.autofdo"), "mine\n").unwrap();
    refuses(
        &planish(dir.path(), &["prepare", "linux"]),
        &["scripts/Makefile.autofdo", "Move it away"],
    );
}

#[test]
fn what_is_no_tree_or_one_of_another_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    refuses(&planish(dir.path(), &["prepare", "."]), &["not a kernel tree", "Makefile is missing"]);
    refuses(&planish(dir.path(), &["prepare", "nowhere"]), &["nowhere", "not a kernel tree"]);
    let dir = tree(9);
    refuses(
        &planish(dir.path(), &["prepare", "linux"]),
        &["Linux 6.9.9 is not known", "6.1, 6.6 and 6.12"],
    );
    edit(&dir.path().join("linux"), "Makefile", |text| text.replace("VERSION = 6", "RELEASE = 6"));
    refuses(&planish(dir.path(), &["prepare", "linux"]), &["expected `VERSION = …`", "# made up"]);
    let untried = tree(6);
    let said = planish(untried.path(), &["prepare", "linux"]);
    fine(&said);
    assert!(
        text(&said.stderr).contains("were not tried on any tree of 6.6"),
        "{}",
        text(&said.stderr)
    );
}

#[test]
fn a_tree_that_has_the_options_by_itself_is_left_alone() {
    let dir = tree(14);
    let root = dir.path().join("linux");
    edit(&root, "arch/Kconfig", |text| text + "config AUTOFDO_CLANG\n\tbool \"x\"\n");
    refuses(
        &planish(dir.path(), &["prepare", "linux"]),
        &["AUTOFDO_CLANG but not PROPELLER_CLANG"],
    );
    edit(&root, "arch/Kconfig", |text| text + "config PROPELLER_CLANG\n\tbool \"x\"\n");
    let before = contents(&root);
    assert!(fine(&planish(dir.path(), &["prepare", "linux"])).contains("by itself; nothing to do"));
    refuses(&planish(dir.path(), &["prepare", "linux", "--revert"]), &["not from planish"]);
    assert!(contents(&root) == before);
}

#[test]
fn a_tree_that_cannot_be_written_is_not_changed() {
    let dir = tree(12);
    let root = dir.path().join("linux");
    // The last directory that is written to: everything else is prepared by then.
    let closed = root.join("tools/objtool");
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o555)).unwrap();
    if std::fs::write(closed.join("probe"), "").is_ok() {
        return eprintln!("skipped: a read-only tree, as this user may write everywhere");
    }
    let before = contents(&root);
    refuses(&planish(dir.path(), &["prepare", "linux"]), &["tools/objtool", "nothing was changed"]);
    assert!(contents(&root) == before);
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn results_are_told_as_json_too() {
    let dir = tree(1);
    let json = |words: &[&str]| -> Value {
        serde_json::from_str(&fine(&planish(dir.path(), words))).unwrap()
    };
    let prepared = json(&["prepare", "linux", "--format", "json"]);
    assert_eq!(prepared["schema"], "planish-kernel-prepare");
    assert_eq!(prepared["result"], "prepared");
    assert_eq!(prepared["linux"], "6.1.9");
    assert_eq!(prepared["files"][0]["change"], "added");
    assert_eq!(json(&["prepare", "linux", "--format", "json"])["result"], "was-prepared");
    let settings = json(&["config", "linux", "--format", "json"]);
    assert_eq!(settings["schema"], "planish-kernel-config");
    assert_eq!(settings["settings"][0]["wanted"], "CONFIG_AUTOFDO_CLANG=y");
    std::fs::write(dir.path().join("linux/.config"), "CONFIG_X86_64=y\n").unwrap();
    let checked = planish(dir.path(), &["config", "check", "linux", "--format", "json"]);
    assert_eq!(checked.status.code(), Some(1), "{}", text(&checked.stderr));
    let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(checked["schema"], "planish-kernel-config-check");
    assert_eq!(checked["fine"], false, "{checked}");
}

#[test]
fn a_configuration_is_held_against_what_profiles_need() {
    let dir = tree(12);
    refuses(
        &planish(dir.path(), &["config", "linux"]),
        &["no option AUTOFDO_CLANG", "planish kernel prepare linux"],
    );
    fine(&planish(dir.path(), &["prepare", "linux"]));
    refuses(
        &planish(dir.path(), &["config", "check", "linux"]),
        &["linux/.config", "make LLVM=-22 defconfig"],
    );
    refuses(&planish(dir.path(), &["config", "linux", "--arch", "riscv"]), &["riscv", "arm64"]);
    let tools =
        "CONFIG_X86_64=y\nCONFIG_CC_IS_CLANG=y\nCONFIG_CLANG_VERSION=220108\nCONFIG_LD_IS_LLD=y\n";
    let config = dir.path().join("linux/.config");
    std::fs::write(&config, tools.to_owned() + &fine(&planish(dir.path(), &["config", "linux"])))
        .unwrap();
    assert!(
        fine(&planish(dir.path(), &["config", "check", "linux"]))
            .contains("has all that profiles need")
    );

    let gcc = "CONFIG_X86_64=y\nCONFIG_CC_IS_GCC=y\nCONFIG_KASAN=y\nCONFIG_PERF_EVENTS=y\n";
    std::fs::write(dir.path().join("gcc.config"), gcc).unwrap();
    let found = planish(dir.path(), &["config", "check", "linux", "gcc.config"]);
    assert_eq!(found.status.code(), Some(1));
    let said = text(&found.stdout);
    for line in [
        "must    CONFIG_CC_IS_CLANG is not set, should be y: gcc has neither",
        "must    CONFIG_KASAN=y, should be off",
    ] {
        assert!(said.contains(line), "no `{line}` in: {said}");
    }
    let good = std::fs::read_to_string(&config).unwrap();
    for worse in ["# CONFIG_AUTOFDO_CLANG is not set\n", "CONFIG_AUTOFDO_CLANG=m\n"] {
        std::fs::write(dir.path().join("worse.config"), good.clone() + worse).unwrap();
        let found = planish(dir.path(), &["config", "check", "linux", "worse.config"]);
        assert_eq!(found.status.code(), Some(1), "{worse}{}", text(&found.stdout));
    }
    std::fs::write(dir.path().join("bad.config"), "CONFIG_X86_64=y\nhello\n").unwrap();
    refuses(
        &planish(dir.path(), &["config", "check", "linux", "bad.config"]),
        &["bad.config, line 2", "`hello`"],
    );
    // arm64 says what it is, and goes without what AMD's processors need.
    let fragment = fine(&planish(dir.path(), &["config", "linux", "--arch", "arm64"]));
    assert!(fragment.contains("CONFIG_PROPELLER_CLANG=y") && !fragment.contains("AMD"));
    let arm = tools.replace("X86_64", "ARM64") + &fragment;
    std::fs::write(dir.path().join("arm.config"), &arm).unwrap();
    fine(&planish(dir.path(), &["config", "check", "linux", "arm.config"]));
    std::fs::write(dir.path().join("riscv.config"), arm.replace("ARM64", "RISCV")).unwrap();
    let found = planish(dir.path(), &["config", "check", "linux", "riscv.config"]);
    assert_eq!(found.status.code(), Some(1));
    assert!(text(&found.stdout).contains("CONFIG_X86_64 is not set"), "{}", text(&found.stdout));
}

/// Writes what kbuild keeps of a compilation.
fn compiled(build: &Path, object: &str, flags: &str) {
    let (directory, name) = object.rsplit_once('/').unwrap();
    std::fs::create_dir_all(build.join(directory)).unwrap();
    let source = object.replace(".o", ".c");
    let command = format!(
        "savedcmd_{object} := clang-22 -D__KERNEL__ {flags} -O2 -c -o {object} ../{source}\n"
    );
    std::fs::write(build.join(directory).join(format!(".{name}.cmd")), command).unwrap();
}

#[test]
fn a_build_shows_where_the_flags_went() {
    const FLAGS: &str = "-fdebug-info-for-profiling -mllvm -enable-fs-discriminator=true";
    let dir = tempfile::tempdir().unwrap();
    let build = dir.path().join("build");
    std::fs::create_dir(&build).unwrap();
    refuses(&planish(dir.path(), &["check", "build"]), &["build", "no commands of a kernel build"]);
    std::fs::write(build.join(".config"), "CONFIG_AUTOFDO_CLANG=y\n").unwrap();
    compiled(&build, "kernel/sched/core.o", FLAGS);
    compiled(&build, "arch/x86/kernel/head64.o", "");
    compiled(&build, "arch/x86/entry/vdso/vclock_gettime.o", "-DBUILD_VDSO");
    let said = fine(&planish(dir.path(), &["check", "build"]));
    assert!(
        said.contains(
            "kernel/sched/core.o: -fdebug-info-for-profiling -enable-fs-discriminator=true"
        ),
        "{said}"
    );
    assert!(said.contains("(opted out?): arch/x86/kernel/head64.o"), "{said}");
    assert!(said.contains("vclock_gettime.o: no flags"), "{said}");

    compiled(&build, "arch/x86/entry/vdso/vgetcpu.o", &format!("-DBUILD_VDSO {FLAGS}"));
    let wrong = planish(dir.path(), &["check", "build", "--format", "json"]);
    assert_eq!(wrong.status.code(), Some(1));
    let found: Value = serde_json::from_slice(&wrong.stdout).unwrap();
    assert_eq!(found["schema"], "planish-kernel-check");
    assert_eq!(found["wrong"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["areas"][1]["with_autofdo"], 1, "{found}");

    std::fs::remove_file(build.join("arch/x86/entry/vdso/.vgetcpu.o.cmd")).unwrap();
    std::fs::write(build.join(".config"), "CONFIG_AUTOFDO_CLANG=y\nCONFIG_PROPELLER_CLANG=y\n")
        .unwrap();
    let lacking = planish(dir.path(), &["check", "build"]);
    assert_eq!(lacking.status.code(), Some(1));
    assert!(
        text(&lacking.stdout)
            .contains("wrong: PROPELLER_CLANG is on, but no object of vmlinux has its flags")
    );
}
