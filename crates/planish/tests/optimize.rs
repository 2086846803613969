//! `planish init`, `build`, `compare`, `optimize` and `report` as a user runs them, on a program of
//! thirty lines.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static unsigned step(unsigned x) { return x % 7 == 3 ? x / 3 : x % 2 ? 3 * x + 1 : x / 2; }
static int rare(unsigned x) { printf("rare %u\n", x); return 1; }
static unsigned walk(unsigned x) {
  unsigned n = 0;
  while (x > 4 && n < 1000) { x = step(x); n++; if (x == 4000000001u) n += rare(x); }
  return n;
}
int main(int argc, char **argv) {
  unsigned limit = argc > 2 ? atoi(argv[2]) : 1000, sum = 0;
  for (unsigned i = 1; i < limit; i++) sum += walk(i * (argv[1][0] == 't' ? 3 : 5));
  printf("%u\n", sum);
  return 0;
}
"#;

const CONFIG: &str = r#"
[build]
command = 'cp app.c "$PLANISH_OUT" && cd "$PLANISH_OUT" && $PLANISH_CC $PLANISH_CFLAGS -c app.c -o app.o && $PLANISH_CC $PLANISH_LDFLAGS app.o -o app'
binary = "app"
compiler = "clang"
[workload]
train = "{bin} train 20000"
[evaluate]
command = "{bin} eval 20000"
rounds = 6
[record]
branches = "emulated"
"#;

struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new(config: &str) -> Project {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("app.c"), PROGRAM).unwrap();
        std::fs::write(folder.path().join("planish.toml"), config).unwrap();
        Project { folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn planish(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("NO_COLOR", "1")
            .output()
            .unwrap()
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

fn has_clang() -> bool {
    has("clang-22") && has("ld.lld-22")
}

/// The plugin lies beside the tests' executable once `cargo build -p qemu-plugin` has run.
fn has_emulation() -> bool {
    let beside =
        Path::new(env!("CARGO_BIN_EXE_planish")).with_file_name("libplanish_qemu_branches.so");
    let found = beside.is_file() || std::env::var_os("PLANISH_QEMU_PLUGIN").is_some();
    if !found {
        eprintln!("skipped: the emulation plugin is not built");
    }
    found && has("qemu-x86_64")
}

#[test]
fn init_writes_a_file_once_and_the_next_command_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
        command.args(arguments).current_dir(folder.path()).output().unwrap()
    };
    let missing = run(&["optimize"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(
        text(&missing.stderr).contains("`planish init` writes one"),
        "{}",
        text(&missing.stderr)
    );
    assert!(run(&["init"]).status.success());
    let again = run(&["init"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("--force"));
    if has_clang() {
        let dry = run(&["optimize", "--dry-run"]);
        assert!(text(&dry.stdout).contains("# step 1 of"), "{}", text(&dry.stderr));
    }
}

#[test]
fn a_whole_optimisation_ends_in_a_report_and_the_second_run_repeats_nothing() {
    if !has_clang() || !has_emulation() {
        return;
    }
    let project = Project::new(CONFIG);
    let dry = project.planish(&["optimize", "--dry-run"]);
    assert!(
        dry.status.success() && !project.at(".planish").exists(),
        "a dry run leaves nothing behind"
    );
    let done = project.planish(&["optimize"]);
    // Six rounds of 20 ms decide nothing for certain; slower (1) is no failure of the machinery.
    assert!(matches!(done.status.code(), Some(0 | 1)), "{}", text(&done.stderr));
    let report = std::fs::read_to_string(project.at(".planish/report.md")).unwrap();
    let title = report.lines().next().unwrap();
    assert!(
        title.starts_with("# app, rebuilt with its profile: ") && title.contains("CPU time"),
        "{report}"
    );
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(project.at(".planish/report.json")).unwrap())
            .unwrap();
    assert_eq!(json["schema"], "planish-optimize");
    assert_eq!(json["matched"]["samples"], json["matched"]["samples_matched"], "{json:#}");
    let branches = &json["branches"][0];
    assert!(branches["opt"].as_u64().unwrap() < branches["base"].as_u64().unwrap(), "{branches}");
    assert_ne!(json["build"]["base"]["build_id"], json["build"]["opt"]["build_id"]);

    let (which, path) = (json["take"]["which"].as_str(), json["take"]["path"].as_str().unwrap());
    assert!(project.at(path).is_file() && which.is_some() && json["take"]["faster"].is_boolean());

    let again = project.planish(&["optimize"]);
    let line = format!("program: {}", project.at(path).display());
    assert!(text(&again.stdout).contains(&line), "{}", text(&again.stdout));
    let said = text(&again.stderr);
    assert_eq!(said.matches("up to date").count(), said.matches('[').count(), "{said}");
    let told = project.planish(&["report"]);
    assert!(text(&told.stdout).contains("taken branches: 0."), "{}", text(&told.stdout));

    // Counts that are lost are recorded again; as it is the same, nothing after the counts is.
    std::fs::remove_file(project.at(".planish/run.counts")).unwrap();
    let dry = text(&project.planish(&["optimize", "--dry-run"]).stdout);
    assert!(dry.contains(": build (up to date)") && dry.contains(": record\n"), "{dry}");

    // The trap: the rebuild names its source file by another path, so the names of static functions
    // differ.
    let other = CONFIG.replace(
        "$PLANISH_CC $PLANISH_CFLAGS -c app.c",
        "$PLANISH_CC $PLANISH_CFLAGS -c \"$PWD/app.c\"",
    );
    std::fs::write(project.at("other.toml"), other).unwrap();
    let profile = project.at(".planish/app.afdo");
    let built = project.planish(&[
        "build",
        "other.toml",
        "--profile",
        profile.to_str().unwrap(),
        "-o",
        "absolute",
    ]);
    assert!(built.status.success(), "{}", text(&built.stderr));
    let verify = |binary: &str| {
        let files = ["--baseline", ".planish/app.base", "--profile", ".planish/app.afdo"];
        project.planish(&[&["build", "verify", "--binary", binary][..], &files[..]].concat())
    };
    let refused = verify("absolute");
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stdout));
    assert!(
        text(&refused.stderr).contains("the path the source file was compiled by"),
        "{}",
        text(&refused.stderr)
    );
    // And a rebuild that ignored the flags has the baseline's code.
    let refused = verify(".planish/app.base");
    assert!(
        text(&refused.stderr).contains("the profile was not used"),
        "{}",
        text(&refused.stderr)
    );
}

#[test]
fn a_failing_build_shows_what_it_said() {
    if !has_clang() {
        return;
    }
    let project =
        Project::new(&CONFIG.replace("cp app.c", "echo no such luck >&2; exit 7; cp app.c"));
    let failed = project.planish(&["optimize"]);
    let said = text(&failed.stderr);
    assert_eq!(failed.status.code(), Some(2));
    assert!(
        said.contains("step build failed: exit status: 7") && said.contains("| no such luck"),
        "{said}"
    );
    assert!(!project.at(".planish/app.base").exists());
}

#[test]
fn compare_gives_json_raw_runs_and_the_same_verdict_from_them() {
    let project = Project::new(CONFIG);
    let script = |name: &str, body: &str| {
        std::fs::write(project.at(name), format!("#!/bin/sh\n{body}\n")).unwrap();
        Command::new("chmod")
            .args(["+x", name])
            .current_dir(project.folder.path())
            .status()
            .unwrap();
    };
    script("a", "echo x");
    script("b", "sleep 0.05; echo x");
    script("c", "echo y");
    let measured = project.planish(&[
        "compare", "--rounds", "8", "--metric", "wall", "--raw", "r.jsonl", "--format", "json",
        "a", "b", "--", "{bin}",
    ]);
    assert_eq!(
        measured.status.code(),
        Some(1),
        "slower is a negative finding: {}",
        text(&measured.stderr)
    );
    let json: serde_json::Value = serde_json::from_slice(&measured.stdout).unwrap();
    assert_eq!(json["comparisons"][0]["verdict"], "slower");
    assert_eq!(json["comparisons"][0]["n"], 8);
    let again = project.planish(&["compare", "show", "r.jsonl", "--format", "json"]);
    let from: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(from["comparisons"], json["comparisons"]);

    assert_eq!(json["benchmarks"], from["benchmarks"]);
    let other =
        project.planish(&["compare", "show", "r.jsonl", "--format", "json", "--metric", "maxrss"]);
    let from: serde_json::Value = serde_json::from_slice(&other.stdout).unwrap();
    assert_eq!(from["benchmarks"][0]["metrics"][0]["unit"], "bytes", "{}", text(&other.stderr));
    let unknown = project.planish(&["compare", "show", "r.jsonl", "--metric", "output:t=(.*)"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("measure again"), "{}", text(&unknown.stderr));
    let no_report = project.planish(&["report", "r.jsonl"]);
    assert!(
        text(&no_report.stderr).contains("is no report of planish"),
        "{}",
        text(&no_report.stderr)
    );

    let differs = project.planish(&["compare", "--rounds", "6", "a", "c", "--", "{bin}"]);
    assert_eq!(differs.status.code(), Some(2));
    assert!(text(&differs.stderr).contains("printed something else"), "{}", text(&differs.stderr));
    let wrong = project.planish(&["compare", "a", "b", "--", "true"]);
    assert!(text(&wrong.stderr).contains("{bin}"), "{}", text(&wrong.stderr));
}

#[test]
fn functions_inlined_everywhere_count_as_present_without_linkage_names() {
    let flags: [(&str, &[&str]); 2] = [
        ("gcc-12", &["-O2", "-g"]),
        (
            "clang-22",
            &["-O2", "-gmlt", "-fdebug-info-for-profiling", "-fno-unique-internal-linkage-names"],
        ),
    ];
    for (compiler, flags) in flags.into_iter().filter(|(compiler, _)| has(compiler)) {
        let project = Project::new(CONFIG);
        let source = "#include <stdlib.h>\nstatic unsigned mix(unsigned x) { x ^= x << SHIFT; return x ^ x >> 17; }\n\
            static unsigned work(int n) { unsigned a = 0; while (n-- > 0) a += mix(a + 1); return a; }\n\
            int main(int c, char **v) { return work(atoi(v[1])) & 1; }\n";
        std::fs::write(project.at("main.c"), source).unwrap();
        let profile = "main:2010:1\n 0: 10\n 0: work:2000\n  0: 1000\n  0: mix:1000\n   0: 1000\n";
        std::fs::write(project.at("app.prof"), profile).unwrap();
        // gcc says in its debug information what it was given, so it must be given the profile.
        let (profile, given) = match compiler {
            "gcc-12" => ("app.gcov", "-fauto-profile=app.gcov"),
            _ => ("app.prof", "-DGIVEN"),
        };
        let converted =
            project.planish(&["profile", "merge", "app.prof", "--emit", "gcov", "-o", "app.gcov"]);
        assert!(converted.status.success(), "{}", text(&converted.stderr));
        for (name, more) in [("base", ["-DSHIFT=13", "-DGIVEN"]), ("opt", ["-DSHIFT=11", given])] {
            let mut build = Command::new(compiler);
            build.args(flags).args(more).args(["-Wl,--build-id", "main.c", "-o", name]);
            assert!(build.current_dir(project.folder.path()).status().unwrap().success());
        }
        let verify =
            ["build", "verify", "--binary", "opt", "--baseline", "base", "--profile", profile];
        let verified = project.planish(&verify);
        let json = project.planish(&[&verify[..], &["--format", "json"]].concat());
        let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(json["schema"], "planish-build-verify", "{compiler}");
        let said = text(&verified.stdout);
        assert!(said.contains("3 of 3 functions"), "{compiler}: {said}{}", text(&verified.stderr));
    }
}

const SMALL: &str = "[build]\ncommand = 'cp app.c \"$PLANISH_OUT/app\"; echo \"$PLANISH_CFLAGS\"'\nbinary = 'app'\n\
    compiler = 'gcc'\n[workload]\ntrain = '{bin} a'\n[evaluate]\ncommand = '{bin} b'\n";

#[test]
fn what_planish_toml_names_wrongly_is_refused_before_anything_runs() {
    if !has("gcc") {
        return;
    }
    let refused = |from: &str, to: &str| {
        let project = Project::new(&SMALL.replace(from, to));
        let done = project.planish(&["optimize"]);
        assert_eq!(done.status.code(), Some(2));
        assert!(!project.at(".planish").exists());
        text(&done.stderr)
    };
    let said = refused("[workload]", "sources = ['srx']\n[workload]");
    assert!(said.contains("[build] sources: there is no \"srx\""), "{said}");
    let said = refused("[evaluate]", "[evaluate]\nmetric = 'foo'");
    assert!(said.contains("[evaluate] metric \"foo\"") && said.contains("known are cpu"), "{said}");
}

#[test]
fn a_build_is_repeated_for_its_sources_and_settings_alone() {
    if !has("gcc") {
        return;
    }
    let project = Project::new(SMALL);
    let repeated = || {
        let built = project.planish(&["build"]);
        assert!(built.status.success(), "{}", text(&built.stderr));
        !text(&built.stderr).contains("up to date")
    };
    assert!(repeated() && !repeated());
    std::fs::write(project.at("planish.toml"), format!("# A remark.\n{SMALL}rounds = 10\n"))
        .unwrap();
    std::fs::write(project.at("out.json"), "{\n  \"schema\": \"planish-compare\"}").unwrap();
    assert!(!repeated(), "neither measuring differently nor a report changes a build");
    // Named from elsewhere it is the same project.
    std::fs::create_dir(project.at(".sibling")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
    command.args(["build", "../planish.toml"]).current_dir(project.at(".sibling"));
    let said = text(&command.output().unwrap().stderr);
    assert!(said.contains("up to date"), "{said}");
    std::fs::write(project.at("app.c"), "int x;").unwrap();
    assert!(repeated());
    std::fs::write(
        project.at("planish.toml"),
        SMALL.replace("[workload]", "flags = '-g3'\n[workload]"),
    )
    .unwrap();
    assert!(repeated());
}

#[test]
fn a_source_that_is_edited_between_two_builds_stops_the_run() {
    if !has_clang() || !has_emulation() {
        return;
    }
    let edited = |name: &str| {
        let set_up = format!("[workload]\nset_up = 'echo // >>{name}'");
        CONFIG.replace("[workload]", &set_up)
    };
    let project = Project::new(&edited("app.c"));
    let ended = project.planish(&["optimize"]);
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("app.c changed after step build"), "{said}");
    assert!(said.contains("Run the same command again"), "{said}");
    // Files that no compiler reads may change.
    std::fs::write(project.at("planish.toml"), edited("app.log")).unwrap();
    let ended = project.planish(&["optimize"]);
    assert!(matches!(ended.status.code(), Some(0 | 1)), "{}", text(&ended.stderr));
}

#[test]
fn a_second_run_in_the_directory_is_refused_and_an_interrupt_leaves_nothing_half_made() {
    if !has("gcc") {
        return;
    }
    // A build that runs a compiler beside itself.
    let project = Project::new(&SMALL.replace("cp app.c", "sh cc.sh & sleep 3; cp app.c"));
    let compiler = "echo $$ > compiler\necho > begun\nexec sleep 100\n";
    std::fs::write(project.at("cc.sh"), compiler).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
    command.arg("build").current_dir(project.folder.path()).stderr(std::process::Stdio::piped());
    let first = command.spawn().unwrap();
    wait_for(&project.at("begun"));
    let second = project.planish(&["build"]);
    assert_eq!(second.status.code(), Some(2));
    let expected = format!("another planish (pid {}) works in", first.id());
    assert!(text(&second.stderr).contains(&expected), "{}", text(&second.stderr));
    send("INT", first.id());
    let ended = first.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
    assert!(text(&ended.stderr).contains("interrupted in step build"), "{}", text(&ended.stderr));
    let left = std::fs::read_dir(project.at(".planish")).unwrap();
    let left: Vec<String> =
        left.map(|f| f.unwrap().file_name().to_string_lossy().into_owned()).collect();
    let begun = |name: &String| name == "aside" || name.starts_with(".planish-");
    assert!(!left.iter().any(begun), "{left:?}");
    // One that ended and that nobody waited for has no words.
    let compiler = std::fs::read_to_string(project.at("compiler")).unwrap();
    let words = std::fs::read(format!("/proc/{}/cmdline", compiler.trim())).unwrap_or_default();
    assert!(words.is_empty(), "a signal to planish alone ends what the build started too");

    // Ctrl-C goes to the whole group, in which a shell's jobs in the background ignore it: here the
    // shell is what planish started, or is gone while that goes on for a moment.
    command.process_group(0);
    let inner = "trap \"sleep 0.3; exit 1\" INT; sh -c \"sh cc.sh & sleep 9\"; cp app.c";
    for build in ["sh cc.sh & sleep 9; cp app.c", inner] {
        std::fs::write(project.at("planish.toml"), SMALL.replace("cp app.c", build)).unwrap();
        std::fs::remove_file(project.at("begun")).unwrap();
        let next = command.spawn().unwrap();
        wait_for(&project.at("begun"));
        send("INT", format!("-{}", next.id()));
        let ended = next.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(130), "{}", text(&ended.stderr));
        let compiler = std::fs::read_to_string(project.at("compiler")).unwrap();
        let words = std::fs::read(format!("/proc/{}/cmdline", compiler.trim())).unwrap_or_default();
        assert!(words.is_empty(), "Ctrl-C ends what ignores it, too");
    }
}

/// Sends a signal to one process: by the shell's own kill, since a bare Debian has no program of that
/// name.
fn send(signal: &str, whom: impl std::fmt::Display) {
    let line = format!("kill -s {signal} -- {whom}");
    assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
}

fn wait_for(path: &Path) {
    while !path.exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_signal_to_a_stand_in_of_a_compiler_ends_the_compiler() {
    let project = Project::new(SMALL);
    std::fs::write(project.at("cc.sh"), "echo $$ > compiler\n> begun\nexec sleep 100\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
    let mut stand_in = command
        .args(["compiler", "--", "sh", "cc.sh"])
        .current_dir(project.folder.path())
        .spawn()
        .unwrap();
    wait_for(&project.at("begun"));
    send("TERM", stand_in.id());
    assert!(!stand_in.wait().unwrap().success());
    let compiler = std::fs::read_to_string(project.at("compiler")).unwrap();
    let words = std::fs::read(format!("/proc/{}/cmdline", compiler.trim())).unwrap_or_default();
    assert!(words.is_empty());
}

#[test]
fn a_lost_terminal_is_nothing_to_whoever_was_told_to_ignore_it() {
    if !has("gcc") {
        return;
    }
    let project = Project::new(&SMALL.replace("cp app.c", "echo > begun; sleep 1; cp app.c"));
    let line = format!("trap '' HUP; exec {} build", env!("CARGO_BIN_EXE_planish"));
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).current_dir(project.folder.path());
    let building = shell.stderr(std::process::Stdio::piped()).spawn().unwrap();
    wait_for(&project.at("begun"));
    send("HUP", building.id());
    let done = building.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
}

#[test]
fn rounds_that_are_too_few_for_so_many_programs_are_told_before_anything_is_built() {
    if !has("gcc") {
        return;
    }
    let project = Project::new(&(SMALL.to_owned() + "rounds = 6\n[optimize]\nalso = ['pgo']\n"));
    let dry = text(&project.planish(&["optimize", "--dry-run"]).stdout);
    assert!(dry.contains("# note: 6 rounds cannot show a difference at 5 % among 2 rows"), "{dry}");
    let more = project.planish(&["optimize", "--dry-run", "--set", "evaluate.rounds=30"]);
    assert!(!text(&more.stdout).contains("cannot show"), "{}", text(&more.stdout));
}
