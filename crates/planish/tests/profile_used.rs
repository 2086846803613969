//! Is a profile called used only where the compiler used it? Programs of clang, gcc and rustc, and
//! builds that lose the profile on the way.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The hot loop lies behind code that never runs, so that a profile changes its layout.
const C: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static int rare(unsigned x) { printf("rare %u\n", x); return 1; }
__attribute__((noinline)) static unsigned step(unsigned x) {
  if (x == 4000000001u) { rare(x); return 1; }
  switch (x % 7) {
    case 3: return x / 3;
    case 5: return x % 2 ? x - 1 : x / 2 + 1;
    default: return x % 2 ? 3 * x + 1 : x / 2;
  }
}
__attribute__((noinline)) static unsigned walk(unsigned x) {
  unsigned n = 0;
  while (x > 4 && n < 1000) { x = step(x); n++; if (x == 4000000001u) n += rare(x); }
  return n;
}
int main(int argc, char **argv) {
  unsigned limit = atoi(argv[1]), sum = 0;
  for (unsigned i = 1; i < limit; i++) sum += walk(i * 3);
  printf("%u\n", sum);
  return 0;
}
"#;

const RUST: &str = r#"
mod inner {
    #[inline(never)]
    pub fn step(x: u32) -> u32 {
        if x == 4_000_000_001 { return rare(x); }
        match x % 7 {
            3 => x / 3,
            5 => if x % 2 == 1 { x - 1 } else { x / 2 + 1 },
            _ => if x % 2 == 1 { x.wrapping_mul(3) + 1 } else { x / 2 },
        }
    }
    fn rare(x: u32) -> u32 { println!("rare {x}"); 1 }
}
struct From<T>(T);
impl<T: Into<u64> + Copy> From<T> {
    #[inline(never)]
    fn walk(&self, mut x: u32) -> u32 {
        let mut n = self.0.into() as u32;
        while x > 4 && n < 1000 { x = inner::step(x); n += 1; }
        n
    }
}
fn main() {
    let limit: u32 = std::env::args().nth(1).unwrap().parse().unwrap();
    let mut sum = 0_u32;
    for i in 1..limit { sum = sum.wrapping_add(From(std::hint::black_box(0_u8)).walk(i * 3)); }
    println!("{sum}");
}
"#;

const CC: &str = "$PLANISH_CC $PLANISH_CFLAGS -c app.c -o \"$PLANISH_OUT/app.o\" && $PLANISH_CC $PLANISH_LDFLAGS \"$PLANISH_OUT/app.o\" -o \"$PLANISH_OUT/app\"";
const RUSTC: &str = "rustc $PLANISH_RUSTFLAGS --emit=link=\"$PLANISH_OUT/app\",llvm-ir=\"$PLANISH_OUT/app.ll\" app.rs";

struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new(compiler: &str, command: &str, more: &str) -> Project {
        let folder = tempfile::tempdir().unwrap();
        let project = Project { folder };
        std::fs::write(project.at("app.c"), C).unwrap();
        std::fs::write(project.at("app.rs"), RUST).unwrap();
        project.build_by(compiler, command, more);
        project
    }

    fn build_by(&self, compiler: &str, command: &str, more: &str) {
        let config = format!(
            "[build]\ncommand = '''{command}'''\nbinary = 'app'\ncompiler = '{compiler}'\n[workload]\ntrain = '{{bin}} 9000'\n\
             [evaluate]\ncommand = '{{bin}} 8000'\nrounds = 6\n[record]\nbranches = 'emulated'\ncount_branches = false\n\
             [optimize]\n{more}\n"
        );
        std::fs::write(self.at("planish.toml"), config).unwrap();
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(words)
            .current_dir(self.folder.path())
            .env("NO_COLOR", "1")
            .env("RUSTC_BOOTSTRAP", "1");
        command
    }

    fn planish(&self, words: &[&str]) -> Output {
        self.command(env!("CARGO_BIN_EXE_planish"), words).output().unwrap()
    }

    #[track_caller]
    fn fine(&self, words: &[&str]) -> String {
        let done = self.planish(words);
        assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
        text(&done.stdout) + &text(&done.stderr)
    }

    /// Builds the baseline and records it; what was said of the profile `app.prof`.
    #[track_caller]
    fn profile(&self, format: &str) -> String {
        self.fine(&["build", "-o", "base"]);
        self.fine(&[
            "record",
            "-q",
            "--branches=emulated",
            "-c",
            "200",
            "-o",
            "p.data",
            "--",
            "./base",
            "9000",
        ]);
        self.fine(&["profile", "p.data", "--binary", "base", "--emit", format, "-o", "app.prof"])
    }

    fn rebuild(&self) -> Output {
        let built = self.planish(&["build", "--profile", "app.prof", "-o", "opt"]);
        assert!(built.status.success(), "{}", text(&built.stderr));
        self.verify("app.prof")
    }

    fn verify(&self, profile: &str) -> Output {
        self.planish(&[
            "build",
            "verify",
            "--binary",
            "opt",
            "--baseline",
            "base",
            "--profile",
            profile,
        ])
    }

    fn read(&self, name: &str) -> String {
        text(&std::fs::read(self.at(name)).unwrap())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The message of a check that must find fault.
#[track_caller]
fn refused(output: &Output) -> String {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{}{said}", text(&output.stdout));
    said
}

fn has(tool: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let found = path.split(':').any(|d| Path::new(d).join(tool).is_file());
    if !found {
        eprintln!("skipped: {tool} is not installed");
    }
    found
}

fn can(compiler: &[&str]) -> bool {
    let beside =
        Path::new(env!("CARGO_BIN_EXE_planish")).with_file_name("libplanish_qemu_branches.so");
    if !beside.is_file() && std::env::var_os("PLANISH_QEMU_PLUGIN").is_none() {
        eprintln!("skipped: the emulation plugin is not built");
        return false;
    }
    compiler.iter().all(|tool| has(tool)) && has("qemu-x86_64")
}

const CLANG: &[&str] = &["clang-22", "ld.lld-22"];

/// rustc, with the clang whose variables the build gets beside rustc's.
fn can_rust() -> bool {
    can(&["rustc", "clang-22"])
}

#[test]
fn rustc_finds_the_functions_of_a_profile_by_their_linkage_names() {
    if !can_rust() {
        return;
    }
    let project = Project::new("clang", RUSTC, "");
    let said = project.profile("text");
    assert!(
        said.contains("next: rustc -Zdebug-info-for-profiling -Zprofile-sample-use=app.prof"),
        "{said}"
    );
    assert!(!said.contains("warning"), "{said}");
    let profile = project.read("app.prof");
    let own: Vec<&str> =
        profile.lines().filter(|line| line.contains("step") || line.contains("walk")).collect();
    assert!(own.iter().any(|line| !line.starts_with(' ')), "{profile}");
    let mangled = |line: &str| line.contains("_RN") || line.contains("_ZN") || line.contains("_RI");
    assert!(own.iter().all(|line| mangled(line)), "{own:?}");
    let entries = |project: &Project| {
        project.read(".planish/build/app.ll").matches("function_entry_count").count()
    };
    assert_eq!(entries(&project), 0);
    let verified = project.rebuild();
    let said = text(&verified.stdout);
    assert!(
        verified.status.success() && said.contains("100.0 % of the samples match names"),
        "{said}{}",
        text(&verified.stderr)
    );
    assert!(
        said.contains("hot functions changed, rustc gave counts to the branches of "),
        "{said}"
    );
    assert!(entries(&project) > 0, "the profile is in the compiler's intermediate code");
    let code = project.read(".planish/build/app.ll");
    let weights = code.lines().filter(|line| line.contains("\"branch_weights\"")).count();
    assert!(weights > 0, "{weights}");
}

/// Everything of the profile fits, hot functions have other code, and yet rustc never saw the
/// profile.
#[test]
fn a_rust_build_that_changed_for_another_reason_used_no_profile() {
    if !can_rust() {
        return;
    }
    let project = Project::new("clang", RUSTC, "");
    project.profile("text");
    let without = "$(echo $PLANISH_RUSTFLAGS | sed 's/-Zprofile-sample-use=[^ ]*/-Ctarget-cpu=x86-64-v2 -Cllvm-args=-align-all-blocks=4/')";
    for (flags, told) in [
        (without, "name no function that got counts"),
        ("-Copt-level=2 -Cdebuginfo=1", "left no remarks"),
    ] {
        project.build_by("clang", &RUSTC.replace("$PLANISH_RUSTFLAGS", flags), "");
        let said = refused(&project.rebuild());
        assert!(said.contains(told) && said.contains("PLANISH_RUSTFLAGS"), "{said}");
    }
}

#[test]
fn a_rust_profile_of_plain_names_is_found_out() {
    if !can_rust() {
        return;
    }
    let lines_only = RUSTC.replace(
        "$PLANISH_RUSTFLAGS",
        "$(echo $PLANISH_RUSTFLAGS | sed s/debuginfo=1/debuginfo=line-tables-only/)",
    );
    let project = Project::new("clang", &lines_only, "");
    let said = project.profile("text");
    assert!(said.contains("warning:") && said.contains("no linkage names"), "{said}");
    let said = refused(&project.rebuild());
    assert!(said.contains("only ") && said.contains("-Cdebuginfo=1 -Cstrip=none"), "{said}");
}

#[test]
fn a_stable_rustc_is_refused_before_anything_is_built() {
    if !has("rustc") || !has("clang-22") {
        return;
    }
    let takes = Command::new("rustc").arg("-Zhelp").env_remove("RUSTC_BOOTSTRAP").output().unwrap();
    if takes.status.success() {
        return eprintln!("skipped: this rustc takes -Z flags");
    }
    let project = Project::new("clang", RUSTC, "");
    for words in [
        &["optimize"][..],
        &["optimize", "--dry-run"],
        &["build"],
        &["build", "--profile", "app.c"],
    ] {
        let mut command = project.command(env!("CARGO_BIN_EXE_planish"), words);
        let done = command.env_remove("RUSTC_BOOTSTRAP").output().unwrap();
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(3), "{said}");
        assert!(said.contains("takes no -Z flags") && said.contains("RUSTC_BOOTSTRAP=1"), "{said}");
        assert!(!project.at(".planish").exists());
    }
}

#[test]
fn hints_name_the_flags_of_the_compiler_that_made_the_program() {
    if !can(&["rustc"]) {
        return;
    }
    let project = Project::new("clang", RUSTC, "");
    let built =
        project.command("rustc", &["-Copt-level=1", "-Cstrip=debuginfo", "-o", "base", "app.rs"]);
    let mut built = built;
    assert!(built.status().unwrap().success());
    project.fine(&[
        "record",
        "-q",
        "--branches=emulated",
        "-c",
        "2000",
        "-o",
        "p.data",
        "--",
        "./base",
        "900",
    ]);
    let said =
        refused(&project.planish(&["profile", "p.data", "--binary", "base", "-o", "app.prof"]));
    assert!(said.contains("-Cdebuginfo=1 -Cstrip=none") && !said.contains("-g1"), "{said}");
    let doctor = project.planish(&["doctor", "base"]);
    let said = text(&doctor.stdout);
    assert!(said.contains("-Cdebuginfo=1 -Cstrip=none") && !said.contains("-gmlt"), "{said}");
}

#[test]
fn clang_builds_that_lose_the_profile_are_found_out() {
    if !can(CLANG) {
        return;
    }
    let project = Project::new("clang", CC, "");
    project.profile("extbinary");
    let verified = project.rebuild();
    let said = text(&verified.stdout);
    assert!(verified.status.success(), "{}", text(&verified.stderr));
    assert!(
        said.contains("100.0 % of their samples in files whose flags name the profile"),
        "{said}"
    );

    // All flags but the profile's own: code changes by Ext-TSP, and the compiler says what it was
    // given.
    let without = CC.replace(
        "$PLANISH_CFLAGS",
        "$(echo $PLANISH_CFLAGS | sed 's/-fprofile-sample-use=[^ ]*//')",
    );
    project.build_by("clang", &without, "");
    let said = refused(&project.rebuild());
    assert!(said.contains("app.c was compiled without it"), "{said}");

    // All flags, and a debug build's own behind them.
    project.build_by("clang", &CC.replace("$PLANISH_CFLAGS", "$PLANISH_CFLAGS -O0"), "");
    let said = refused(&project.rebuild());
    assert!(said.contains("app.c was compiled with -O0"), "{said}");

    // No flags at all; the link alone differs, and moves code.
    let none = CC.replace(
        "$PLANISH_CFLAGS",
        "-O2 -gmlt -fdebug-info-for-profiling -funique-internal-linkage-names",
    );
    let moved =
        none.replace("$PLANISH_LDFLAGS", "$PLANISH_LDFLAGS -Wl,-z,separate-loadable-segments");
    for (command, what) in [(&none, "the same code"), (&moved, "")] {
        project.build_by("clang", command, "group_text = true");
        let said = refused(&project.rebuild());
        assert!(said.contains("was not used") && said.contains(what), "{said}");
    }
}

#[test]
fn a_profile_of_another_program_and_an_empty_one_are_found_out() {
    if !can(CLANG) {
        return;
    }
    let project = Project::new("clang", CC, "");
    project.profile("extbinary");
    assert!(project.rebuild().status.success());
    std::fs::write(project.at("other.prof"), "hash_of:2000:1\n 1: 1000\nmain:10:1\n 1: 10\n")
        .unwrap();
    let said = refused(&project.verify("other.prof"));
    assert!(said.contains("only 1.0 %") && said.contains("hash_of (1000 samples)"), "{said}");
    std::fs::write(project.at("empty.prof"), "main:0:0\n 1: 0\n").unwrap();
    let said = refused(&project.verify("empty.prof"));
    assert!(said.contains("no samples"), "{said}");
}

#[test]
fn gcc_builds_that_lose_the_profile_are_found_out() {
    if !can(&["gcc"]) {
        return;
    }
    let project = Project::new("gcc", CC, "");
    project.profile("gcov");
    let verified = project.rebuild();
    let said = text(&verified.stdout);
    assert!(verified.status.success(), "{}", text(&verified.stderr));
    assert!(said.contains("flags name the profile"), "{said}");

    // A profile of another version, made for a compiler that is not here.
    let words = [
        "profile",
        "p.data",
        "--binary",
        "base",
        "--emit",
        "gcov",
        "--gcc-version",
        "5",
        "-o",
        "old",
    ];
    project.fine(&words);
    let said = refused(&project.verify("old"));
    assert!(said.contains("version 1") && said.contains("--gcc-version"), "{said}");

    // Only debug flags differ.
    project.build_by("gcc", &CC.replace("$PLANISH_CFLAGS", "-O2 -g3"), "");
    let said = refused(&project.rebuild());
    assert!(said.contains("was not used") && said.contains("app.c"), "{said}");
}

#[test]
fn gcc_makes_instrumented_programs_without_llvm() {
    if !can(&["gcc"]) {
        return;
    }
    let project = Project::new("gcc", CC, "also = ['pgo']");
    let done = project.planish(&["optimize"]);
    // Six rounds decide nothing for certain; slower (1) is no failure of the machinery.
    assert!(matches!(done.status.code(), Some(0 | 1)), "{}", text(&done.stderr));
    let report: serde_json::Value =
        serde_json::from_str(&project.read(".planish/report.json")).unwrap();
    let variants: Vec<_> =
        report["variants"].as_array().unwrap().iter().map(|v| &v["name"]).collect();
    assert_eq!(variants, ["pgo"], "{}", text(&done.stderr));
    assert!(
        report["matched"]["evidence"].as_str().unwrap().contains("changed"),
        "{}",
        report["matched"]
    );
    let log = project.read(".planish/log/pgo-rebuild.log");
    assert!(!log.contains("warning"), "{log}");
    let code = |name: &str| std::fs::read(project.at(".planish").join(name)).unwrap();
    assert!(code("app.pgo") != code("app.base"));
    let again = text(&project.planish(&["optimize"]).stderr);
    assert_eq!(again.matches("up to date").count(), again.matches('[').count(), "{again}");
}

#[test]
fn what_is_left_out_is_said_in_the_plan_too() {
    if !has("clang-22") {
        return;
    }
    let project = Project::new("clang", RUSTC, "align_loops = 32");
    let plan = text(&project.planish(&["optimize", "--dry-run"]).stdout);
    assert!(plan.starts_with("# note: ") && plan.contains("align_loops"), "{plan}");
}
