//! How `planish optimize` trains where the CPU records no branches, what it does with what programs
//! print, and whether it says that samples are too few.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Prints two floods, one with what a terminal would obey, and ends as its last argument says.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static unsigned step(unsigned x) { return x % 7 == 3 ? x / 3 : x % 2 ? 3 * x + 1 : x / 2; }
static unsigned walk(unsigned x) { unsigned n = 0; while (x > 4 && n < 1000) { x = step(x); n++; } return n; }
int main(int argc, char **argv) {
  setvbuf(stdout, 0, _IOLBF, 0);
  unsigned limit = atoi(argv[2]), noise = atoi(argv[3]), sum = 0;
  for (unsigned i = 1; i < limit; i++) sum += walk(i * (argv[1][0] == 't' ? 3 : 5));
  for (unsigned i = 0; i < noise; i++) {
    printf("noise %u on standard output, a hundred thousand times over\n", i);
    fprintf(stderr, "noise %u on standard error \033[2J\n", i);
  }
  printf("%u\n", sum);
  return atoi(argv[4]);
}
"#;

const BUILD: &str = r#"
[build]
command = 'cp app.c "$PLANISH_OUT" && cd "$PLANISH_OUT" && $PLANISH_CC $PLANISH_CFLAGS -c app.c -o app.o && $PLANISH_CC $PLANISH_LDFLAGS app.o -static -o app'
binary = "app"
"#;

struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new(rest: &str) -> Project {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("app.c"), PROGRAM).unwrap();
        std::fs::write(folder.path().join("planish.toml"), format!("{BUILD}{rest}")).unwrap();
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

    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&std::fs::read(self.at(name)).unwrap()).unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn can_build() -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let found = |tool: &str| path.split(':').any(|folder| Path::new(folder).join(tool).is_file());
    let fine = found("clang-22") && found("ld.lld-22");
    if !fine {
        eprintln!("skipped: clang-22 or ld.lld-22 is not installed");
    }
    fine
}

fn can_emulate() -> bool {
    let beside =
        Path::new(env!("CARGO_BIN_EXE_planish")).with_file_name("libplanish_qemu_branches.so");
    let plugin = beside.is_file() || std::env::var_os("PLANISH_QEMU_PLUGIN").is_some();
    let path = std::env::var("PATH").unwrap_or_default();
    let fine =
        plugin && path.split(':').any(|folder| Path::new(folder).join("qemu-x86_64").is_file());
    if !fine {
        eprintln!("skipped: qemu-x86_64 or the emulation plugin is not there");
    }
    fine
}

/// Whether this machine lets threads be stopped; where the CPU records branches nothing is stopped.
fn can_stop(project: &Project) -> bool {
    let tried =
        project.planish(&["record", "--branches=software", "-o", "tried.data", "--", "true"]);
    let said = text(&tried.stderr);
    let refused = ["perf_event_paranoid", "cannot be had", "x86-64 alone", "not permitted"];
    let fine = !refused.iter().any(|reason| said.contains(reason));
    if !fine {
        eprintln!("skipped: {said}");
    }
    fine
}

/// Below each of these lie the words for what a CPU's own branch stacks can do.
fn cpu_records_branches() -> bool {
    ["cpu", "cpu_core", "armv8_pmuv3_0"].iter().any(|pmu| {
        Path::new("/sys/bus/event_source/devices").join(pmu).join("caps/branches").is_file()
    })
}

#[test]
fn short_training_is_emulated_and_what_it_prints_floods_neither_terminal_nor_disk() {
    if !can_build() || !can_emulate() || cpu_records_branches() {
        return;
    }
    let project = Project::new(
        "[workload]\ntrain = '{bin} train 20000 100000 0'\n[evaluate]\ncommand = '{bin} eval 20000 5 0'\nrounds = 6\n",
    );
    let dry = text(&project.planish(&["optimize", "--dry-run"]).stdout);
    assert!(
        dry.contains("planish train time --branches auto --seconds 60 --emulate-below 5"),
        "{dry}"
    );
    assert!(dry.contains("planish train record --by .planish/training.json"), "{dry}");
    let done = project.planish(&["optimize"]);
    let said = text(&done.stderr);
    assert!(matches!(done.status.code(), Some(0 | 1)), "{said}");
    assert!(said.contains("less than 5 s: emulated"), "{said}");
    assert!(!said.contains("noise 9") && !said.contains('\u{1b}') && said.len() < 20_000, "{said}");
    for name in ["time-training.output", "record-1.output"] {
        let log = std::fs::read(project.at(".planish/log").join(name)).unwrap();
        assert!((1 << 20..(1 << 20) + 200).contains(&log.len()), "{name}: {}", log.len());
        let log = text(&log);
        let kept = log.contains("noise 0 on standard output")
            && log.contains("noise 99999 on standard error");
        assert!(kept && log.contains("bytes of output are left out here"), "{name}");
    }
    // What became of the samples is told by the step that counted them, and by it alone.
    assert_eq!(said.matches("branch entries: ").count(), 1, "{said}");
    let evidence = project.json(".planish/report.json")["profile"]["evidence"].clone();
    assert_eq!(evidence["enough"], true, "{evidence}");
    assert!(said.contains(evidence["line"].as_str().unwrap()), "{said}");
    let training = project.json(".planish/report.json")["profile"]["training"].clone();
    assert_eq!(training["stable"], true, "{training}");
    assert!(said.contains(training["line"].as_str().unwrap()), "{said}");
    let raw = &project.json(".planish/compare-1.json")["raw"];
    assert_eq!(raw, &serde_json::json!([".planish/runs-1.jsonl"]));
    let again = text(&project.planish(&["optimize"]).stderr);
    assert_eq!(again.matches("up to date").count(), again.matches('[').count(), "{again}");
}

#[test]
fn exit_codes_and_what_stands_around_a_program_stand_around_its_emulation() {
    if !can_build() || !can_emulate() || cpu_records_branches() {
        return;
    }
    // The set-up leaves a file, which every run must find and takes away.
    let around = "exit_codes = [3]\nset_up = 'echo prepared && touch made'\ntear_down = 'rm made'\n\
                  environment = { HERE = '1' }\n";
    let project = Project::new(&format!(
        "[workload]\ntrain = '{{bin}} train 20000 1 3'\n{around}[evaluate]\n\
         command = '{{bin}} eval 20000 1 3'\nrounds = 6\n{around}"
    ));
    let done = project.planish(&["optimize"]);
    let said = text(&done.stderr);
    assert!(matches!(done.status.code(), Some(0 | 1)), "{said}");
    assert!(said.contains("less than 5 s: emulated"), "{said}");
    let report = project.json(".planish/report.json");
    let taken = |program: &str| report["branches"][0][program].as_u64().unwrap();
    assert!(taken("opt") > 0 && taken("base") > taken("opt"), "{}", report["branches"]);
    assert_eq!(report["profile"]["training"]["stable"], true, "{}", report["profile"]);
    assert!(!project.at("made").exists());
    // The recorder's own failure is not the program's good end.
    let wrong = project.planish(&[
        "record",
        "--branches=emulated",
        "--exit-code=2",
        "-o",
        "x.data",
        "--",
        "./no-such-program",
    ]);
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong.stderr));
    for (code, end) in [("3", 0), ("4", 1)] {
        let words = ["record", "--branches=emulated", "-c", "1000", "-o", "x.data", "--exit-code"];
        let program = [code, "--", ".planish/app.base", "train", "20000", "1", "3"];
        let ran = project.planish(&[&words[..], &program].concat());
        assert_eq!(ran.status.code(), Some(end), "{}", text(&ran.stderr));
    }
}

#[test]
fn a_release_build_that_is_faster_than_the_result_is_a_finding_and_one_that_fails_is_told() {
    if !can_build() || !can_emulate() || cpu_records_branches() {
        return;
    }
    let of = |release: &str| {
        format!(
            "flags = '-DREPEAT=2'\nrelease = '{release}'\n[workload]\ntrain = '{{bin}} train 20000 0 0'\n\
             [evaluate]\ncommand = '{{bin}} eval 60000 0 0'\nrounds = 12\n[record]\ncount_branches = false\n"
        )
    };
    let own = "cd \"$PLANISH_OUT\" && cp \"$OLDPWD\"/app.c . && clang-22 -O2 -DREPEAT=1 -static app.c -o app";
    let project = Project::new(&of(own));
    let slow = "for (volatile int r = 0; r < REPEAT; r++) w = walk(i * (argv[1][0] == 't' ? 3 : 5) + (r > 9)); sum += w;";
    let source = PROGRAM
        .replace("sum = 0;\n  for", "sum = 0, w = 0;\n  for")
        .replace("sum += walk(i * (argv[1][0] == 't' ? 3 : 5));", &format!("{{ {slow} }}"));
    assert!(source.contains("REPEAT") && source.contains("w = 0"));
    std::fs::write(project.at("app.c"), source).unwrap();
    let done = project.planish(&["optimize"]);
    let (out, said) = (text(&done.stdout), text(&done.stderr));
    assert!(out.contains("app.opt beside the project's own release build: slower"), "{out}{said}");
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(out.contains("release build beside the baseline: "), "{out}");
    std::fs::write(project.at("planish.toml"), format!("{BUILD}{}", of("false"))).unwrap();
    let done = project.planish(&["optimize"]);
    assert!(matches!(done.status.code(), Some(0)), "{}", text(&done.stderr));
    let report = project.json(".planish/report.json");
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("own release build ([build] release) failed"), "{warnings}");
    assert!(report["beside_release"].is_null(), "{report:#}");
    // One that prints something else is left out, and the rest is worth its report.
    let other = own.replace("REPEAT=1", "REPEAT=12");
    std::fs::write(project.at("planish.toml"), format!("{BUILD}{}", of(&other))).unwrap();
    let done = project.planish(&["optimize"]);
    assert!(matches!(done.status.code(), Some(0)), "{}", text(&done.stderr));
    let report = project.json(".planish/report.json");
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("app.release is not compared on {bin} eval"), "{warnings}");
    assert!(warnings.contains("printed something else"), "{warnings}");
    let out = text(&done.stdout);
    let told = "app.opt is not compared with the project's own release build: app.release printed something";
    assert!(out.contains(told), "{out}");
    assert!(report["beside_release"].is_null(), "{report:#}");
}

#[test]
fn long_training_is_stopped_and_repeated_to_the_time_asked_for() {
    let project = Project::new(
        "[workload]\ntrain = ['{bin} train 20000 0 0', '{bin} t 10000 0 0']\n[evaluate]\ncommand = '{bin} eval 2000 5 0'\n\
         rounds = 6\n[record]\nbranches = 'software'\nseconds = 2\nsymbol_list = true\ncount_branches = false\n",
    );
    if !can_build() || !can_stop(&project) {
        return;
    }
    let done = project.planish(&["optimize"]);
    let said = text(&done.stderr);
    assert!(matches!(done.status.code(), Some(0 | 1)), "{said}");
    let training = project.json(".planish/training.json");
    assert_eq!(training["schema"], "planish-training");
    assert_eq!(training["branches"], "software");
    let runs = training["runs"].as_u64().unwrap();
    assert!(
        runs >= 1
            && (runs == 1 || said.contains(&format!("up to {runs} times over for 2 s at most"))),
        "{said}"
    );
    assert_eq!(training["commands"].as_array().unwrap().len(), 2);
    assert!(said.contains("gave all 1024 branches"), "{said}");
    // The program ran as often as was said, each run printing one line.
    let printed = std::fs::read_to_string(project.at(".planish/log/record-2.output")).unwrap();
    assert_eq!(printed.lines().count() as u64, runs);
    assert!(said.contains("--symbol-list"), "{said}");
}

#[test]
fn a_failing_program_shows_its_last_lines_once_and_as_text() {
    if !can_build() || !can_emulate() {
        return;
    }
    for branches in ["emulated", "software"] {
        let project = Project::new(&format!(
            "[workload]\ntrain = '{{bin}} train 200 500 3'\n[evaluate]\ncommand = '{{bin}} eval 2000 5 0'\n\
             [record]\nbranches = '{branches}'\n"
        ));
        let done = project.planish(&["optimize"]);
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(
            said.contains("noise 499 on standard error \\u{1b}[2J") && !said.contains('\u{1b}'),
            "{said}"
        );
        assert!(!said.contains("noise 400 "), "{said}");
        if branches == "emulated" {
            assert_eq!(said.matches("ended with exit code 3").count(), 1, "{said}");
        }
    }
}

#[test]
fn few_stacks_are_called_too_few_and_many_are_not() {
    if !can_build() || !can_emulate() {
        return;
    }
    let project = Project::new("[workload]\ntrain = '{bin}'\n[evaluate]\ncommand = '{bin}'\n");
    assert!(project.planish(&["build"]).status.success());
    let program = "./.planish/app.base";
    let judged = |period: &str, layout: bool| {
        let words = ["record", "--branches=emulated", "-c", period, "-o", "r.data", "--", program];
        let done = project.planish(&[&words[..], &["train", "20000", "0", "0"]].concat());
        assert!(done.status.success(), "{}", text(&done.stderr));
        let make: &[&str] = if layout {
            &[
                "layout",
                "r.data",
                "--binary",
                program,
                "--prefix",
                "x",
                "--emit",
                "symbol-order",
                "--format",
                "json",
            ]
        } else {
            &["profile", "r.data", "--binary", program, "-o", "x.afdo", "--format", "json"]
        };
        let done = project.planish(make);
        assert!(done.status.success(), "{}", text(&done.stderr));
        let json: Value = serde_json::from_slice(&done.stdout).unwrap();
        (json["evidence"].clone(), text(&done.stderr))
    };
    let (few, said) = judged("20000", false);
    assert!((34..=224).contains(&few["samples"].as_u64().unwrap()), "{few}");
    assert_eq!(few["enough"], false, "{few}");
    assert!(few["times_more"].as_u64().unwrap() >= 5, "{few}");
    assert!(said.contains("warning: too few samples") && said.contains("--budget"), "{said}");
    assert_eq!(said.matches("evidence: ").count(), 1, "{said}");
    let (many, said) = judged("1000", false);
    assert_eq!((&many["enough"], &many["warning"]), (&Value::Bool(true), &Value::Null), "{many}");
    assert!(many["split_half_overlap"].as_f64().unwrap() > 0.95, "{many}");
    assert!(!said.contains("too few"), "{said}");
    let (few, _) = judged("20000", true);
    assert_eq!(few["enough"], false, "{few}");
}

#[test]
fn a_recording_that_no_disk_takes_whole_is_removed_and_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    shell.current_dir(folder.path()).args(["-c", "ulimit -f 4000; exec \"$@\"", "sh"]);
    shell.arg(env!("CARGO_BIN_EXE_planish"));
    shell.args([
        "record",
        "--whole",
        "--no-compress",
        "-o",
        "r.data",
        "-e",
        "cpu-clock",
        "-c",
        "200000",
        "--call-graph",
        "dwarf",
    ]);
    shell.args(["--", "sh", "-c", "i=0; while [ $i -lt 1500000 ]; do i=$((i+1)); done"]);
    let done = shell.output().unwrap();
    let said = text(&done.stderr);
    if said.contains("perf_event_paranoid") {
        return eprintln!("skipped: {said}");
    }
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("the part that was recorded has been removed"), "{said}");
    assert!(!said.contains("is readable") && !folder.path().join("r.data").exists(), "{said}");
}

#[test]
fn what_a_step_finds_lacking_is_lacking_for_the_whole_run() {
    if !can_build() || !can_emulate() {
        return;
    }
    let rest = "compiler = 'clang'\n[workload]\ntrain = '{bin} train 20000 0 0'\n[evaluate]\ncommand = '{bin} \
                eval 20000 0 0'\n[record]\nbranches = 'emulated'\n";
    let project = Project::new(rest);
    let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
    // A program is no plugin.
    command.arg("optimize").env("PLANISH_QEMU_PLUGIN", env!("CARGO_BIN_EXE_planish"));
    let ended = command.current_dir(project.folder.path()).output().unwrap();
    assert_eq!(ended.status.code(), Some(3), "{}", text(&ended.stderr));
}
