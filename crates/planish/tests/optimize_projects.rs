//! `planish init` and `planish optimize` on projects as people have them: cargo, CMake, make,
//! without a planish.toml.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use object::{Object, ObjectSection};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static unsigned step(unsigned x) { return x % 7 == 3 ? x / 3 : x % 2 ? 3 * x + 1 : x / 2; }
static unsigned walk(unsigned x) {
  unsigned n = 0;
  while (x > 4 && n < 1000) { x = step(x); n++; if (x == 4000000001u) n += printf("rare\n"); }
  return n;
}
int main(int argc, char **argv) {
  unsigned limit = argc > 2 ? atoi(argv[2]) : 1000, sum = 0;
  for (unsigned i = 1; i < limit; i++) sum += walk(i * (argv[1][0] == 't' ? 3 : 5));
  printf("%u\n", sum);
  return 0;
}
"#;

const RUST: &str = r#"
fn step(x: u32) -> u32 {
    if x % 7 == 3 { x / 3 } else if x % 2 == 1 { x.wrapping_mul(3) + 1 } else { x / 2 }
}
#[inline(never)]
fn walk(mut x: u32) -> u32 {
    let mut n = 0;
    while x > 4 && n < 1000 { x = step(x); n += 1; if x == 4_000_000_001 { println!("rare"); } }
    n
}
fn main() {
    let limit: u32 = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(1000);
    println!("{}", (1..limit).map(walk).fold(0u32, u32::wrapping_add));
}
"#;

struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new(files: &[(&str, &str)]) -> Project {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Project { folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn planish(&self, arguments: &[&str]) -> Output {
        self.planish_with(arguments, &[])
    }

    fn planish_with(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
        // Settings of a cargo that runs the tests are not those of the project.
        for (name, _) in std::env::vars_os() {
            let own = name.to_string_lossy().starts_with("CARGO_") && name != "CARGO_HOME";
            if own || ["RUSTFLAGS", "CFLAGS", "CXXFLAGS", "LDFLAGS"].iter().any(|one| name == *one)
            {
                command.env_remove(name);
            }
        }
        command.args(arguments).current_dir(self.folder.path()).env("NO_COLOR", "1");
        command.envs(environment.iter().copied()).output().unwrap()
    }

    /// Optimises with emulated recordings, few rounds and what is given.
    fn optimize(&self, more: &[&str]) -> (Output, serde_json::Value) {
        let common = ["--set", "record.branches=emulated", "--set", "evaluate.rounds=6"];
        let work = ["--train", "{bin} train 20000", "--evaluate", "{bin} eval 20000"];
        let done = self.planish(&[&["optimize"], more, &work[..], &common[..]].concat());
        assert!(matches!(done.status.code(), Some(0 | 1)), "{}", text(&done.stderr));
        let report = std::fs::read(self.at(".planish/report.json")).unwrap();
        (done, serde_json::from_slice(&report).unwrap())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn has(tool: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let found = path.split(':').any(|d| Path::new(d).join(tool).is_file());
    if !found {
        eprintln!("skipped: {tool} is not installed");
    }
    found
}

/// The plugin lies beside the tests' executable once `cargo build -p qemu-plugin` has run.
fn can_optimize() -> bool {
    let beside =
        Path::new(env!("CARGO_BIN_EXE_planish")).with_file_name("libplanish_qemu_branches.so");
    let found = beside.is_file() || std::env::var_os("PLANISH_QEMU_PLUGIN").is_some();
    if !found {
        eprintln!("skipped: the emulation plugin is not built");
    }
    found && has("qemu-x86_64") && has("clang-22") && has("ld.lld-22")
}

/// All samples lie in functions that the compiler found, and the rebuilt program is another one.
fn has_gained(report: &serde_json::Value) {
    assert_eq!(report["matched"]["samples"], report["matched"]["samples_matched"], "{report:#}");
    let branches = &report["branches"][0];
    assert!(branches["opt"].as_u64().unwrap() < branches["base"].as_u64().unwrap(), "{branches}");
}

const MAKEFILE: &str = "CFLAGS = -O2 -DNEEDED\nall: app\napp: app.o\n\t$(CC) $(CFLAGS) -o $@ \
                        app.o\nclean:\n\trm -f app app.o\n";

#[test]
fn a_makefile_needs_no_planish_toml() {
    if !can_optimize() || !has("make") {
        return;
    }
    // An object of an earlier build must not come into ours.
    let project = Project::new(&[("Makefile", MAKEFILE), ("app.c", PROGRAM), ("app.o", "old")]);
    let arguments = ["--make", "--program", "app"];
    let dry = project
        .planish(&[&["optimize", "--dry-run", "--train", "{bin} t"], &arguments[..]].concat());
    assert!(text(&dry.stdout).contains("make -C"), "{}", text(&dry.stderr));
    assert!(!project.at(".planish").exists(), "a dry run leaves nothing behind");
    let flags = [("CFLAGS", "-march=x86-64-v3"), ("LDFLAGS", " ")];
    let words = ["optimize", "--make", "--program", "app", "--dry-run", "--train", "{bin} t"];
    let said = text(&project.planish_with(&words, &flags).stderr);
    assert!(said.contains("note: CFLAGS of your environment may not reach the builds"), "{said}");
    // A makefile that makes several programs is about one of them.
    let two = Project::new(&[("Makefile", "PROGS = one two\n"), ("a.c", "")]);
    let words = ["optimize", "--make", "--dry-run", "--train", "{bin} t"];
    let said = text(&two.planish_with(&words, &[]).stderr);
    assert!(said.contains("this is about one. --program NAME takes another: two"), "{said}");
    assert!(!said.contains("of your environment"), "{said}");
    let (done, report) = project.optimize(&arguments);
    has_gained(&report);
    // The makefile's own flags and compiler, and nothing of planish's.
    let own = &report["beside_release"][0];
    assert_eq!(
        (own["base"].as_str(), own["variant"].as_str()),
        (Some("app.release"), Some("app.layout"))
    );
    // What the makefile hands to every call, and is for the linker alone, keeps no object from being
    // reused.
    let objects = &report["layout"]["objects"];
    assert_eq!(
        (objects["laid_out"].as_u64(), objects["compiled"].as_u64()),
        (Some(1), Some(0)),
        "{objects}"
    );
    let said = text(&done.stdout);
    assert!(said.contains("beside the project's own release build"), "{said}");
    let sections = std::fs::read(project.at(".planish/app.release")).unwrap();
    assert!(
        !sections.windows(15).any(|bytes| bytes == b".llvm_bb_addr_m"),
        "built with planish's flags"
    );
    assert!(!project.at("app").exists() && !project.at("planish.toml").exists());
    // The same again repeats nothing.
    let (again, _) = project.optimize(&arguments);
    assert!(text(&again.stderr).contains("build: up to date"), "{}", text(&again.stderr));
}

#[test]
fn a_cmake_project_is_initialised_and_optimised() {
    if !can_optimize() || !has("cmake") {
        return;
    }
    let lists = "cmake_minimum_required(VERSION 3.13)\nproject(app C)\nadd_subdirectory(src)\n";
    let below = "add_executable(${PROJECT_NAME} app.c)\n";
    let files = [("CMakeLists.txt", lists), ("src/CMakeLists.txt", below), ("src/app.c", PROGRAM)];
    let project = Project::new(&files);
    let written =
        project.planish(&["init", "--train", "{bin} t 20000", "--set", "build.flags=-g0"]);
    assert!(text(&written.stderr).contains("builds app with CMake"), "{}", text(&written.stderr));
    let file = std::fs::read_to_string(project.at("planish.toml")).unwrap();
    assert!(file.contains("-g0") && file.contains("{bin} t 20000"), "{file}");
    let commented = text(&project.planish(&["init", "-", "--train", "{bin} t"]).stdout);
    for around in ["#   start = ", "#   ready = ", "#   drive = ", "#   stop = ", "set_up"] {
        assert!(commented.contains(around), "{around}: {commented}");
    }
    let (_, report) = project.optimize(&["--set", "build.flags="]);
    has_gained(&report);
}

/// Of two files, so that there is something to inline at the link.
const WALKER: &str = r#"
static unsigned step(unsigned x) { return x % 7 == 3 ? x / 3 : x % 2 ? 3 * x + 1 : x / 2; }
unsigned walk(unsigned x) {
  unsigned n = 0;
  while (x > 4 && n < 1000) { x = step(x); n++; if (x == 4000000001u) n += 7; }
  return n;
}
"#;

const CALLER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
unsigned walk(unsigned x);
int main(int argc, char **argv) {
  unsigned limit = argc > 2 ? atoi(argv[2]) : 1000, sum = 0;
  for (unsigned i = 1; i < limit; i++) sum += walk(i * (argv[1][0] == 't' ? 3 : 5));
  printf("%u\n", sum);
  return 0;
}
"#;

const LAYOUT: [&str; 4] =
    ["--set", "optimize.steps=['autofdo','propeller']", "--set", "record.count_branches=false"];

/// Neither compiler nor linker were asked for LTO by planish.
fn is_laid_out(report: &serde_json::Value) {
    assert_eq!(report["matched"]["samples"], report["matched"]["samples_matched"], "{report:#}");
    let verified = &report["layout"]["verified"];
    assert_eq!(verified["applied"], true, "{verified:#}");
    assert_eq!(verified["asked"], verified["in_order"], "{verified:#}");
    assert!(verified["blocks"][0].as_u64().unwrap() > 1, "{verified:#}");
}

#[test]
fn a_project_that_turns_lto_on_by_itself_is_laid_out() {
    if !can_optimize() || !has("cmake") || !has("llvm-ar-22") {
        return;
    }
    let lists = "cmake_minimum_required(VERSION 3.13)\nproject(app C)\n\
                 set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)\nadd_executable(app app.c walk.c)\n";
    let files = [("CMakeLists.txt", lists), ("app.c", CALLER), ("walk.c", WALKER)];
    let project = Project::new(&files);
    let (_, report) = project.optimize(&[&["--cmake"], &LAYOUT[..]].concat());
    is_laid_out(&report);
    let compiled = std::fs::read_to_string(project.at(".planish/log/rebuild.log")).unwrap();
    assert!(!compiled.contains("lld: warning"), "{compiled}");
}

#[test]
fn full_lto_is_laid_out_and_a_build_that_loses_the_linkers_flags_is_refused_before_recording() {
    if !can_optimize() || !has("make") {
        return;
    }
    let makefile = "CFLAGS = -O2\nall: app\n%.o: %.c\n\t$(CC) $(CFLAGS) -flto -c -o $@ $<\n\
                    app: app.o walk.o\n\t$(CC) -flto -o $@ app.o walk.o\n";
    let project = Project::new(&[("Makefile", makefile), ("app.c", CALLER), ("walk.c", WALKER)]);
    let (_, report) = project.optimize(&[&["--make", "--program", "app"], &LAYOUT[..]].concat());
    is_laid_out(&report);
    let line = "cp *.c \"$PLANISH_OUT\" && cd \"$PLANISH_OUT\" && \"$PLANISH_CC\" $PLANISH_CFLAGS \
                -flto -c app.c walk.c && \"$PLANISH_CC\" -flto -fuse-ld=lld app.o walk.o -o app";
    let lost = Project::new(&[("app.c", CALLER), ("walk.c", WALKER)]);
    let words = ["optimize", "--train", "{bin} t 9", "--build", line, "--program", "app"];
    let refused = lost.planish(&[&words[..], &LAYOUT[..]].concat());
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        said.contains("no map of its basic blocks") && said.contains("PLANISH_LDFLAGS"),
        "{said}"
    );
    assert!(!said.contains("record-1"), "{said}");
}

#[test]
fn a_build_that_strips_its_program_is_refused_before_recording() {
    if !can_optimize() {
        return;
    }
    let line = "\"$PLANISH_CC\" $PLANISH_CFLAGS -s app.c -o \"$PLANISH_OUT/app\"";
    let words = ["optimize", "--train", "{bin} t 9", "--build", line, "--program", "app"];
    for more in ["build.compiler=\"gcc\"", "optimize.steps=[\"autofdo\"]"] {
        let project = Project::new(&[("app.c", PROGRAM)]);
        let refused = project.planish(&[&words[..], &["--set", more]].concat());
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{more}: {said}");
        assert!(said.contains("has no debug information") && said.contains("`-s`"), "{said}");
        assert!(!said.contains("record-1"), "{said}");
    }
}

#[test]
fn what_the_evaluation_lacks_is_said_before_anything_is_recorded() {
    if !can_optimize() || !has("make") {
        return;
    }
    let project = Project::new(&[("Makefile", MAKEFILE), ("app.c", PROGRAM)]);
    let tried = |evaluate: &str| {
        let words = ["optimize", "--make", "--program", "app", "--train", "{bin} train 2000"];
        project.planish(&[&words[..], &["--evaluate", evaluate]].concat())
    };
    for (evaluate, says) in [
        ("true {bin}", "never ran"),
        ("sh -c '{bin} e 9; exit 3'", "ended with exit code 3"),
        ("sh -c '{bin} e 9; echo $$'", "--set evaluate.ignore_output=true of planish optimize"),
    ] {
        let refused = tried(evaluate);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(says) && said.contains("step try-1 failed"), "{said}");
        assert!(!said.contains("record-1"), "{said}");
    }
}

#[test]
fn a_compiler_that_is_missing_is_what_the_machine_lacks() {
    let project = Project::new(&[("Makefile", MAKEFILE), ("app.c", PROGRAM)]);
    for key in ["cc", "cxx"] {
        let setting = format!("build.{key}=no-such-compiler-99");
        let words = ["optimize", "--make", "--program", "app", "--train", "{bin}", "--set"];
        let missing = project.planish(&[&words[..], &[&setting]].concat());
        let said = text(&missing.stderr);
        assert_eq!(missing.status.code(), Some(3), "{said}");
        assert!(said.contains("no-such-compiler-99 is not installed"), "{said}");
        let setting = format!("build.{key}=/no-such-directory/clang");
        let missing = project.planish(&[&words[..], &[&setting]].concat());
        assert_eq!(missing.status.code(), Some(3), "{}", text(&missing.stderr));
    }
}

#[test]
fn a_cargo_project_is_optimised_by_one_command() {
    if !can_optimize() || !has("cargo") {
        return;
    }
    let manifest = "[package]\nname = 'app'\nversion = '0.1.0'\nedition = '2021'\n[workspace]\n";
    let project = Project::new(&[("Cargo.toml", manifest), ("src/main.rs", RUST)]);
    let (_, report) = project.optimize(&["--cargo"]);
    assert_eq!(report["layout"]["verified"]["applied"], true, "{report:#}");
    let relink = std::fs::read_to_string(project.at(".planish/log/relink.log")).unwrap();
    assert!(relink.starts_with("$ planish layout link "), "{relink}");
    assert!(relink.contains("by its link alone") && !relink.contains("Compiling"), "{relink}");
    let (_, report) = project.optimize(&["--cargo", "--set", "evaluate.layouts=4"]);
    let variants = report["measurements"][0]["variants"].as_array().unwrap();
    // The project's own release build is the last.
    let layouts: Vec<&serde_json::Value> = variants.iter().map(|v| &v["layouts"]).collect();
    assert_eq!(layouts, [4, 4, 4, 0], "{variants:?}");
    assert!(report["matched"]["samples_matched"].as_u64().unwrap() > 0, "{report:#}");
    // rustc places no blocks: the linker did, which compiled its bitcode.
    let verified = &report["layout"]["verified"];
    assert_eq!(
        (&verified["applied"], &report["layout"]["objects"]),
        (&true.into(), &serde_json::Value::Null)
    );
    assert!(verified["blocks"][0].as_u64().unwrap() > 1, "{verified:#}");
    let names = project.planish(&["optimize", "--cargo", "--program", "no", "--train", "{bin}"]);
    assert_eq!(names.status.code(), Some(2));
    assert!(text(&names.stderr).contains("there: app"), "{}", text(&names.stderr));
}

/// What a build script compiles is machine code when the linker gets it.
#[test]
fn code_in_c_of_a_cargo_project_gets_its_layout_from_its_compiler() {
    if !can_optimize() || !has("cargo") || !has("ar") {
        return;
    }
    let manifest = "[package]\nname = 'app'\nversion = '0.1.0'\nedition = '2021'\n[workspace]\n";
    let script = r#"use std::process::Command;
        fn main() {
            let of = |name: &str| std::env::var(name).unwrap();
            let (out, flags) = (of("OUT_DIR"), of("CFLAGS"));
            let object = format!("{out}/walk.o");
            let mut cc = Command::new(of("CC"));
            cc.args(flags.split_whitespace()).args(["-c", "walk.c", "-o", &object]);
            assert!(cc.status().unwrap().success());
            let library = format!("{out}/libwalk.a");
            assert!(Command::new("ar").args(["crs", &library, &object]).status().unwrap().success());
            println!("cargo::rustc-link-search=native={out}\ncargo::rustc-link-lib=static=walk");
        }"#;
    let walk = "unsigned long walk(unsigned long n) {\n  unsigned long steps = 0;\n  while (n != 1) {\n    \
                n = n % 2 ? 3 * n + 1 : n / 2;\n    steps++;\n  }\n  return steps;\n}\n";
    let main = "extern \"C\" { fn walk(n: u64) -> u64; }\nfn main() {\n    let n: u64 = \
                std::env::args().nth(2).unwrap().parse().unwrap();\n    \
                println!(\"{}\", (1..n).map(|n| unsafe\n{ walk(n) }).sum::<u64>());\n}\n";
    let project = Project::new(&[
        ("Cargo.toml", manifest),
        ("build.rs", script),
        ("walk.c", walk),
        ("src/main.rs", main),
    ]);
    let (_, report) = project.optimize(&["--cargo"]);
    assert_eq!(report["layout"]["verified"]["applied"], true, "{report:#}");
    let relink = std::fs::read_to_string(project.at(".planish/log/relink.log")).unwrap();
    assert!(relink.contains("the linker cannot place the blocks of walk"), "{relink}");
    assert!(relink.contains("Compiling app"), "{relink}");
}

/// rustc hands the linker one module, with the standard library in it.
#[test]
fn full_link_time_optimisation_of_cargo_is_kept_and_reaches_the_standard_library() {
    if !can_optimize() || !has("cargo") {
        return;
    }
    let manifest = "[package]\nname = 'app'\nversion = '0.1.0'\nedition = '2021'\n[workspace]\n\
                    [profile.release]\nlto = true\n";
    let project = Project::new(&[("Cargo.toml", manifest), ("src/main.rs", RUST)]);
    let (_, report) = project.optimize(&["--cargo", "--set", "evaluate.layouts=4"]);
    let verified = &report["layout"]["verified"];
    assert_eq!(verified["applied"], true, "{verified:#}");
    assert_eq!(report["matched"]["samples"], report["matched"]["samples_matched"], "{report:#}");
    let variants = report["measurements"][0]["variants"].as_array().unwrap();
    let layouts: Vec<&serde_json::Value> = variants.iter().map(|v| &v["layouts"]).collect();
    assert_eq!(layouts, [4, 4, 4, 0], "{variants:?}");
    let mapped = std::fs::read(project.at(".planish/app.base")).unwrap();
    let image = object::File::parse(&*mapped).unwrap();
    let map = image.section_by_name(".llvm_bb_addr_map").unwrap();
    // Only the program's own functions would be some hundred bytes.
    assert!(map.size() > 10_000, "{}", map.size());
}

#[test]
fn a_linker_too_old_for_the_code_of_rustc_is_what_the_machine_lacks() {
    use std::os::unix::fs::PermissionsExt as _;
    if !has("rustc") {
        return;
    }
    let manifest = "[package]\nname = 'app'\nversion = '0.1.0'\nedition = '2021'\n[workspace]\n";
    let old = "#!/bin/sh\necho 'clang version 11.0.0'\n";
    let project =
        Project::new(&[("Cargo.toml", manifest), ("src/main.rs", RUST), ("clang-11", old)]);
    let clang = project.at("clang-11");
    std::fs::set_permissions(&clang, std::fs::Permissions::from_mode(0o755)).unwrap();
    let setting = format!("build.cc={}", clang.display());
    let words = ["optimize", "--cargo", "--train", "{bin}", "--set", &setting];
    let refused = project.planish(&words);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(3), "{said}");
    assert!(said.contains("of LLVM 11") && said.contains("nothing was built"), "{said}");
    assert!(!project.at(".planish/log").exists(), "{said}");
    let profile_alone = ["--set", "optimize.steps=['autofdo']", "--dry-run"];
    let planned = project.planish(&[&words[..], &profile_alone].concat());
    assert_eq!(planned.status.code(), Some(0), "{}", text(&planned.stderr));
}

#[test]
fn what_is_not_said_is_asked_for() {
    let project = Project::new(&[("Makefile", MAKEFILE)]);
    let refused = |arguments: &[&str], says: &str| {
        let said = project.planish(arguments);
        assert_eq!(said.status.code(), Some(2), "{}", text(&said.stderr));
        assert!(text(&said.stderr).contains(says), "{}", text(&said.stderr));
    };
    refused(&["optimize", "--make"], "--train");
    refused(&["optimize", "--cargo", "--train", "{bin}"], "Cargo.toml");
    refused(&["optimize", "--build", "make", "--train", "{bin}"], "--program");
    refused(&["optimize", "--set", "evaluate.rounds=9"], "`planish init` writes one");
    refused(&["optimize", "--make", "--train", "{bin}", "--set", "a=b"], "TABLE.KEY=VALUE");
    assert!(project.planish(&["init", "-"]).stdout.starts_with(b"# How planish builds"));
    let example = project.planish(&["init", "--example", "-"]);
    assert!(text(&example.stdout).contains("emulate_below"), "{}", text(&example.stdout));
}
