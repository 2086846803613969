//! Static functions of one name in two files are both laid out, told apart by their files.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// One of two units. What stands behind `rare` never runs, and so is no part of what is laid out.
fn unit(number: u32, rare: &str) -> String {
    format!(
        "extern int sink;\nint report(int);\n__attribute__((noinline)) static int step(int x) {{\n  if ({rare}) {{\n    \
         sink += report(x);\n    x ^= sink;\n    sink -= report(x + {number});\n  }}\n  if (x & 1)\n    sink += x;\n  else\n    \
         sink ^= x;\n  return x + {number};\n}}\nint run{number}(int n) {{\n  int r = 0;\n  for (int i = 0; i < n; i++)\n    r += \
         step(i);\n  return r;\n}}\n"
    )
}

const MAIN: &str = "int sink;\n__attribute__((noinline)) int report(int x) { return x * 3 + sink; }\nint run1(int), run2(int);\n\
     int main(void) {\n  int s = 0;\n  for (int i = 0; i < 300; i++)\n    s += run1(i) ^ run2(i);\n  return s == 42;\n}\n";

const FLAGS: &[&str] = &[
    "-O2",
    "-fbasic-block-address-map",
    "-ffunction-sections",
    "-fuse-ld=lld",
    "-Wl,--build-id",
    "main.c",
    "src/one.c",
    "./two.c",
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(dir: &Path, program: &str, words: &[&str]) -> Option<Output> {
    Command::new(program).current_dir(dir).args(words).stdin(Stdio::null()).output().ok()
}

fn planish(dir: &Path, words: &[&str]) -> Output {
    run(dir, env!("CARGO_BIN_EXE_planish"), words).unwrap()
}

#[track_caller]
fn compile(dir: &Path, words: &[&str]) -> bool {
    let Some(done) = run(dir, "clang-22", &[FLAGS, words].concat()) else {
        eprintln!("skipped: clang-22 is not installed");
        return false;
    };
    assert!(done.status.success(), "{}", text(&done.stderr));
    true
}

/// The summary of a layout of `app`, as JSON.
#[track_caller]
fn layout(dir: &Path, app: &str, prefix: &str) -> Value {
    let words = ["layout", "perf.data", "--binary", app, "--prefix", prefix, "--format", "json"];
    let done = planish(dir, &words);
    assert!(done.status.success(), "{}", text(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

fn record(dir: &Path, app: &str) -> bool {
    let program = format!("./{app}");
    let words = ["record", "--branches=emulated", "-c", "97", "-o", "perf.data", "--", &program];
    let done = planish(dir, &words);
    if !done.status.success() {
        eprintln!("skipped: no emulated recording: {}", text(&done.stderr));
    }
    done.status.success()
}

#[test]
fn a_prefix_that_is_a_directory_is_refused_before_anything_is_read() {
    let scratch = tempfile::tempdir().unwrap();
    for prefix in ["files/", "files/.", ".", ".."] {
        let done = planish(
            scratch.path(),
            &["layout", "perf.data", "--binary", "app", "--prefix", prefix],
        );
        assert_eq!(done.status.code(), Some(2));
        assert!(text(&done.stderr).contains("a prefix is needed"), "{}", text(&done.stderr));
    }
}

#[test]
fn static_functions_of_one_name_are_told_apart_by_their_files() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    std::fs::create_dir(dir.join("src")).unwrap();
    std::fs::write(dir.join("main.c"), MAIN).unwrap();
    std::fs::write(dir.join("src/one.c"), unit(1, "x == 12345")).unwrap();
    std::fs::write(dir.join("two.c"), unit(2, "x > 54321")).unwrap();
    if !compile(dir, &["-g1", "-o", "app"]) || !record(dir, "app") {
        return;
    }
    let summary = layout(dir, "app", "out");
    let cc = std::fs::read_to_string(dir.join("out_cc_profile.txt")).unwrap();
    for (module, others) in [("src/one.c", "two.c"), ("two.c", "src/one.c")] {
        let (_, after) =
            cc.split_once(&format!("m {module}\n")).unwrap_or_else(|| panic!("{module}: {cc}"));
        assert!(after.starts_with("f step\nc0"), "{cc}");
        assert!(cc.contains(&format!("m {others}\n")));
    }
    assert_eq!(cc.matches("\nm ").count(), 2, "only these need a file: {cc}");
    let ld = std::fs::read_to_string(dir.join("out_ld_profile.txt")).unwrap();
    assert_eq!(
        ld.lines().filter(|line| *line == "step").count(),
        1,
        "lld wants each symbol once: {ld}"
    );
    let told = summary["warnings"].as_array().unwrap().iter();
    let told: Vec<_> = told
        .filter_map(Value::as_str)
        .filter(|line| line.starts_with("2 functions share"))
        .collect();
    assert_eq!(told.len(), 1, "{summary:#}");

    // Both are laid out in the relinked program: clang gives each the sections that the list asks
    // for.
    let list = "-fbasic-block-sections=list=out_cc_profile.txt";
    compile(
        dir,
        &[
            "-g1",
            list,
            "-Wl,--symbol-ordering-file=out_ld_profile.txt,--no-warn-symbol-ordering",
            "-o",
            "new",
        ],
    );
    let symbols = text(&run(dir, "llvm-nm-22", &["new"]).unwrap().stdout);
    let cold = symbols.lines().filter(|line| line.ends_with(" step.cold")).count();
    assert_eq!(cold, 2, "{cc}\n{symbols}");
    // Symbols cannot tell whose section is whose, so these are not looked for, and the others are
    // where they should be.
    let verified =
        planish(dir, &["layout", "verify", "perf.data", "--binary", "app", "--new", "new"]);
    assert_eq!(
        verified.status.code(),
        Some(0),
        "{}{}",
        text(&verified.stdout),
        text(&verified.stderr)
    );
    let said = text(&verified.stdout);
    assert!(said.contains("applied, as far as it was checked"), "{said}");
    let line = said
        .lines()
        .find(|line| line.contains("not checked: 2 functions, "))
        .unwrap_or_else(|| panic!("{said}"));
    assert!(line.ends_with(" % of executions: their names are shared"), "{line}");
    let words =
        ["layout", "verify", "perf.data", "--binary", "app", "--new", "new", "--format", "json"];
    let verified: Value = serde_json::from_slice(&planish(dir, &words).stdout).unwrap();
    assert_eq!(verified["schema"], "planish-layout-verify");
    let [functions, executions, of] =
        [0, 1, 2].map(|at| verified["not_checked"][at].as_u64().unwrap());
    assert!(functions == 2 && 0 < executions && executions < of, "{verified:#}");

    // Both are shown, each with its file.
    let shown =
        planish(dir, &["layout", "show", "perf.data", "--binary", "app", "--function", "step"]);
    let shown = text(&shown.stdout);
    let heads: Vec<&str> = shown.lines().filter(|line| line.starts_with("step  at 0x")).collect();
    assert_eq!(heads.len(), 2, "{shown}");
    for module in ["  of src/one.c", "  of two.c"] {
        assert!(heads.iter().any(|head| head.ends_with(module)), "{shown}");
    }
    let ran = run(dir, "./new", &[]).unwrap().status.code();
    assert_eq!(ran, run(dir, "./app", &[]).unwrap().status.code());

    // Without debug information nothing tells them apart, and that is told.
    assert!(compile(dir, &["-g0", "-o", "bare"]) && record(dir, "bare"));
    let summary = layout(dir, "bare", "bare");
    let cc = std::fs::read_to_string(dir.join("bare_cc_profile.txt")).unwrap();
    assert!(!cc.contains("f step\n") && !cc.contains("\nm "), "{cc}");
    let words = [
        "layout",
        "perf.data",
        "--binary",
        "bare",
        "--prefix",
        "twice",
        "--emit",
        "fdata,fdata",
        "--format",
        "json",
    ];
    let twice: Value = serde_json::from_slice(&planish(dir, &words).stdout).unwrap();
    assert_eq!(twice["files"].as_array().unwrap().len(), 1, "{twice:#}");
    let left_out = format!("{}", summary["left_out"]);
    assert!(left_out.contains("name shared"), "{summary:#}");
    let shown =
        planish(dir, &["layout", "show", "perf.data", "--binary", "bare", "--function", "step"]);
    let shown = text(&shown.stdout);
    assert_eq!(shown.matches("not laid out: 2 functions have this name").count(), 2, "{shown}");

    // In another build they are not recognised, and count so.
    let words = [
        "layout",
        "perf.data",
        "--recorded",
        "bare",
        "--binary",
        "app",
        "--prefix",
        "other",
        "--format",
        "json",
    ];
    let done = planish(dir, &words);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let told = text(&done.stdout);
    assert!(
        told.contains("2 functions were not (") && !told.contains("100.0 % of its executions"),
        "{told}"
    );
}
