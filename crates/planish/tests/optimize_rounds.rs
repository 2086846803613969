//! What training commands weigh in a profile, how long they are recorded, and what an interrupted
//! recording leaves.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// `dense` takes a branch every few instructions, `sparse` one in hundreds of slow ones. Counts its
/// runs in the file `runs`, and fails in the one that the file `fails` names.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static unsigned step(unsigned x) { return x % 7 == 3 ? x / 3 : x % 2 ? 3 * x + 1 : x / 2; }
static unsigned walk(unsigned x) { unsigned n = 0; while (x > 4 && n < 1000) { x = step(x); n++; } return n; }
static double dense(unsigned limit) { unsigned sum = 0; for (unsigned i = 1; i < limit; i++) sum += walk(i * 3); return sum; }
#define T x = x * 1.0000001 / 1.00000011 + 0.5;
#define T8 T T T T T T T T
static double __attribute__((noinline)) slow(double x) { T8 T8 T8 T8 return x; }
static double sparse(unsigned limit) { double x = 1; for (unsigned i = 0; i < limit; i++) x = slow(x); return x; }
static int number(const char *name) {
  int n = 0;
  FILE *file = fopen(name, "r");
  if (file) { if (fscanf(file, "%d", &n) != 1) n = 0; fclose(file); }
  return n;
}
int main(int argc, char **argv) {
  int run = number("runs") + 1;
  FILE *file = fopen("runs", "w");
  if (file) { fprintf(file, "%d\n", run); fclose(file); }
  if (run == number("fails")) { printf("no luck\n"); return 3; }
  printf("%f\n", argv[1][0] == 'd' ? dense(atoi(argv[2])) : sparse(atoi(argv[2])));
  return 0;
}
"#;

const BUILD: &str = r#"
[build]
command = 'cp app.c "$PLANISH_OUT" && cd "$PLANISH_OUT" && $PLANISH_CC $PLANISH_CFLAGS -c app.c -o app.o && $PLANISH_CC $PLANISH_LDFLAGS app.o -static -o app'
binary = "app"
sources = ["app.c"]
[evaluate]
command = "{bin} dense 2000"
rounds = 6
ignore_output = true
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
        command.args(arguments).current_dir(self.folder.path()).env("NO_COLOR", "1");
        command.output().unwrap()
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&std::fs::read(self.at(name)).unwrap()).unwrap()
    }

    /// What the training gave, after a call that ended well; and what was said.
    fn trained(&self) -> (Value, String) {
        let done = self.planish(&["optimize"]);
        let said = text(&done.stderr);
        assert!(matches!(done.status.code(), Some(0 | 1)), "{said}");
        (self.json(".planish/report.json")["profile"]["training"].clone(), said)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn there(tool: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').any(|folder| Path::new(folder).join(tool).is_file())
}

fn can_build() -> bool {
    let fine = there("clang-22") && there("ld.lld-22");
    if !fine {
        eprintln!("skipped: clang-22 or ld.lld-22 is not installed");
    }
    fine
}

fn can_emulate() -> bool {
    let beside =
        Path::new(env!("CARGO_BIN_EXE_planish")).with_file_name("libplanish_qemu_branches.so");
    let plugin = beside.is_file() || std::env::var_os("PLANISH_QEMU_PLUGIN").is_some();
    let fine = plugin && there("qemu-x86_64");
    if !fine {
        eprintln!("skipped: qemu-x86_64 or the emulation plugin is not there");
    }
    fine
}

/// Whether this machine lets threads be stopped.
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

/// Holds the shares of the commands against their CPU time and weights; gives the shares of the
/// samples.
fn weigh(project: &Project, trained: &Value) -> Vec<f64> {
    let timed = project.json(".planish/training.json");
    let number = |value: &Value| value.as_f64().unwrap();
    let timed = timed["commands"].as_array().unwrap();
    let wanted = |timed: &Value| number(&timed["cpu_seconds"]) * number(&timed["weight"]);
    let all: f64 = timed.iter().map(wanted).sum();
    let commands = trained["commands"].as_array().unwrap();
    assert_eq!(commands.len(), timed.len());
    for (command, timed) in commands.iter().zip(timed) {
        let (share, wanted) = (number(&command["share"]), wanted(timed) / all);
        // A factor is within 1 %, and some branches lie in the kernel's pages or end elsewhere.
        assert!((share / wanted - 1.0).abs() < 0.04, "{share} for {wanted}: {trained}");
    }
    let samples: f64 = commands.iter().map(|command| number(&command["samples"])).sum();
    commands.iter().map(|command| number(&command["samples"]) / samples).collect()
}

const BOTH: &str = "train = ['{bin} dense 40000', '{bin} sparse 150000']\n";

#[test]
fn commands_weigh_what_their_time_and_the_user_say_however_many_branches_they_take() {
    if !can_build() || !can_emulate() {
        return;
    }
    let settings = "[record]\nbranches = 'emulated'\ncount_branches = false\n";
    let project = Project::new(&format!("[workload]\n{BOTH}{settings}"));
    let (trained, said) = project.trained();
    let samples = weigh(&project, &trained);
    let share = trained["commands"][0]["share"].as_f64().unwrap();
    assert!(samples[0] > share + 0.2, "{samples:?}: {trained}");
    assert_eq!(said.matches("% of the profile for ").count(), 2, "{said}");
    let recordings = project.json(".planish/report.json")["recordings"].clone();
    assert_eq!(recordings[0]["share"], trained["commands"][0]["share"], "{recordings}");

    let file = project.at("planish.toml");
    let weighed = std::fs::read_to_string(&file)
        .unwrap()
        .replace("[workload]", "[workload]\nweights = [30, 1]");
    std::fs::write(&file, weighed).unwrap();
    let (trained, said) = project.trained();
    weigh(&project, &trained);
    assert!(trained["commands"][0]["share"].as_f64().unwrap() > 1.5 * share, "{trained}");
    assert!(said.contains(", times 30 (counts times "), "{said}");
    let counted = project.json(".planish/counted.json");
    assert_eq!(counted["schema"], "planish-aggregate");
}

#[test]
fn software_stacks_weigh_what_their_time_says_too_and_end_once_they_are_stable() {
    let project = Project::new(&format!(
        "[workload]\n{BOTH}[record]\nbranches = 'software'\nseconds = 600\ncount_branches = false\n"
    ));
    if !can_build() || !can_stop(&project) {
        return;
    }
    let (trained, said) = project.trained();
    weigh(&project, &trained);
    assert_eq!(trained["stable"], true, "{trained}");
    let runs = trained["runs"].as_u64().unwrap();
    let most = project.json(".planish/training.json")["runs"].as_u64().unwrap();
    assert!(runs >= 1 && runs * 2 < most, "{runs} of {most} runs: {said}");
    let line = trained["line"].as_str().unwrap();
    assert!(line.starts_with("profile: enough (halves overlap 9"), "{line}");
    assert!(line.contains("expected loss under ") && said.contains(line), "{said}");
    let report = std::fs::read_to_string(project.at(".planish/report.md")).unwrap();
    assert!(report.contains(line), "{report}");
}

#[test]
fn a_program_that_is_too_short_is_emulated_anew_with_closer_samples() {
    if !can_build() || !can_emulate() {
        return;
    }
    let project = Project::new(
        "[workload]\ntrain = '{bin} dense 3000'\n[record]\nbranches = 'emulated'\ncount_branches = false\n",
    );
    let (trained, said) = project.trained();
    assert_eq!(
        (&trained["stable"], &trained["runs"]),
        (&Value::Bool(true), &Value::from(1)),
        "{trained}"
    );
    let (rounds, period) =
        (trained["rounds"].as_u64().unwrap(), trained["period"].as_u64().unwrap());
    assert!(rounds > 1 && period < 500, "{trained}");
    assert!(trained["commands"][0]["samples"].as_u64().unwrap() >= 1000, "{trained}");
    assert!(said.contains("so far: ") && said.contains("; going on"), "{said}");
    // Only what counts is kept.
    let kept = project.at(&format!(".planish/train-1-{rounds}.data"));
    assert!(kept.is_file() && !project.at(".planish/train-1.data").exists(), "{said}");
    // What the user wants between two samples is kept, and the line says that it is too far.
    let file = project.at("planish.toml");
    let fixed = std::fs::read_to_string(&file).unwrap() + "period = 1000\n";
    std::fs::write(&file, fixed).unwrap();
    let (trained, _) = project.trained();
    assert_eq!((trained["rounds"].as_u64(), trained["stable"].as_bool()), (Some(1), Some(false)));
    let line = trained["line"].as_str().unwrap();
    assert!(line.contains("not enough") && line.contains("[record] period = "), "{line}");
}

#[test]
fn an_interrupted_recording_goes_on_behind_its_last_whole_round() {
    if !can_build() || !can_emulate() {
        return;
    }
    let project = Project::new(
        "[workload]\ntrain = '{bin} dense 3000'\n[record]\nbranches = 'emulated'\ncount_branches = false\n",
    );
    let runs =
        || std::fs::read_to_string(project.at("runs")).unwrap().trim().parse::<u32>().unwrap();
    // Its evaluation is tried in its first run; it is timed in its second, recorded in its third, and
    // shall be again in its fourth.
    std::fs::write(project.at("fails"), "4\n").unwrap();
    let failed = project.planish(&["optimize"]);
    let said = text(&failed.stderr);
    assert_eq!((failed.status.code(), runs()), (Some(2), 4), "{said}");
    assert!(said.contains("no luck") && said.contains("./.planish/app.base dense 3000"), "{said}");
    assert!(project.at(".planish/train.rounds.json").is_file());
    std::fs::remove_file(project.at("fails")).unwrap();
    let (trained, said) = project.trained();
    assert!(said.contains("1 round is recorded already; going on"), "{said}");
    assert_eq!(trained["stable"], true, "{trained}");
    assert!(!project.at(".planish/train.rounds.json").exists());
    // Neither timed nor recorded once more; then the comparison of two programs.
    let recorded = u32::try_from(trained["rounds"].as_u64().unwrap()).unwrap() - 1;
    assert!(runs() >= 4 + recorded + 12, "{}", runs());
    let again = project.planish(&["optimize"]);
    assert!(!text(&again.stderr).contains("going on"), "{}", text(&again.stderr));
}

#[test]
fn a_recording_of_other_input_does_not_go_on_with_what_is_there() {
    if !can_build() || !can_emulate() {
        return;
    }
    let project = Project::new(
        "[workload]\ntrain = '{bin} dense 3000 input.txt'\n[record]\nbranches = 'emulated'\ncount_branches = false\n",
    );
    std::fs::write(project.at("input.txt"), "one").unwrap();
    let sources = ["optimize", "--set", "build.sources=['app.c']"];
    std::fs::write(project.at("fails"), "4\n").unwrap();
    let failed = project.planish(&sources);
    assert_eq!(failed.status.code(), Some(2), "{}", text(&failed.stderr));
    assert!(project.at(".planish/train.rounds.json").is_file());
    std::fs::remove_file(project.at("fails")).unwrap();
    std::fs::write(project.at("input.txt"), "another").unwrap();
    let said = text(&project.planish(&sources).stderr);
    assert!(said.contains("build: up to date"), "{said}");
    assert!(!said.contains("recorded already"), "{said}");
}

#[test]
fn an_interrupted_comparison_goes_on_unless_its_input_changed() {
    if !can_build() {
        return;
    }
    let project = Project::new("[workload]\ntrain = '{bin} dense 3000'\n");
    std::fs::write(project.at("input.txt"), "one").unwrap();
    let planish = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
        command.args(["optimize", "--evaluate", "{bin} dense 2000 input.txt"]);
        command.args(["--set", "evaluate.rounds=300", "--set", "record.count_branches=false"]);
        command.args(["--set", "build.sources=['app.c']"]);
        command.current_dir(project.folder.path()).env("NO_COLOR", "1").stderr(Stdio::piped());
        command
    };
    let kept = || std::fs::read_to_string(project.at(".planish/runs-1.jsonl")).unwrap_or_default();
    let interrupted = |lines: usize| {
        let mut running = planish().spawn().unwrap();
        for _ in 0..6000 {
            if kept().lines().count() > lines || running.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let asked =
            Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
        let running = running.wait_with_output().unwrap();
        let said = text(&running.stderr);
        assert!(asked.success() && running.status.code() == Some(130), "{said}");
        assert!(kept().lines().count() > lines, "{said}");
        said
    };
    interrupted(40);
    std::fs::write(project.at("input.txt"), "another").unwrap();
    let said = interrupted(kept().lines().count() + 20);
    assert!(!said.contains("going on with"), "runs of other input: {said}");
    let whole = || text(&planish().output().unwrap().stderr);
    let said = whole();
    assert!(said.contains("going on with ") && said.contains("build: up to date"), "{said}");
    assert!(!said.contains("told after"), "nobody has seen a result: {said}");
    let is_last = |line: &&str| line.contains("\"round\":300,");
    assert_eq!(kept().lines().filter(is_last).count(), 2, "{said}");
    // A measurement that came to its end is not gone on with.
    std::fs::remove_file(project.at(".planish/compare-1.json")).unwrap();
    let said = whole();
    assert!(!said.contains("going on with "), "{said}");
}

#[test]
fn other_input_of_the_evaluation_is_measured_anew_and_nothing_else_is_done_again() {
    if !can_build() {
        return;
    }
    let project = Project::new("[workload]\ntrain = '{bin} dense 3000'\n");
    let given = project.folder.path().with_extension("input");
    let arguments = ["optimize", "--set", "record.count_branches=false", "--evaluate"];
    let line = format!("{{bin}} dense 2000 {}", given.display());
    let optimize = || {
        let done = project.planish(&[&arguments[..], &[&line]].concat());
        assert!(matches!(done.status.code(), Some(0 | 1)), "{}", text(&done.stderr));
        text(&done.stderr)
    };
    std::fs::write(&given, "one").unwrap();
    optimize();
    let said = optimize();
    assert!(said.contains("compare-1: up to date"), "{said}");
    std::fs::write(&given, "another").unwrap();
    let said = optimize();
    std::fs::remove_file(&given).unwrap();
    let again = |step: &str| !said.contains(&format!("{step}: up to date"));
    assert!(again("try-1") && again("compare-1") && again("report"), "{said}");
    assert!(!again("build") && !again("record") && !again("rebuild"), "{said}");
    // Settings beside a planish.toml are no change of a source.
    let said = text(&project.planish(&["optimize", "--set", "evaluate.rounds=7"]).stderr);
    assert!(said.contains("rebuild: up to date"), "{said}");
    // The report of a run that ended does not pass for one of a later run that failed.
    let reported = || text(&project.planish(&["report"]).stderr);
    assert_eq!(reported(), "");
    let failed = project.planish(&["optimize", "--set", "build.command='exit 7'"]);
    assert_eq!(failed.status.code(), Some(2), "{}", text(&failed.stderr));
    let said = reported();
    assert!(said.contains("a later one stopped in step build,"), "{said}");
}

#[test]
fn weights_that_fit_no_commands_are_refused() {
    for (weights, expected) in [
        ("[1, 2, 3]", "weights has 3 numbers and train 2 commands"),
        ("[1, 0]", "0 cannot be a weight; expected numbers from 0.001 to 1000"),
        ("[1, nan]", "NaN cannot be a weight"),
    ] {
        let project = Project::new(&format!("[workload]\n{BOTH}weights = {weights}\n"));
        let refused = project.planish(&["optimize", "--dry-run"]);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn recordings_are_added_up_with_the_weights_given() {
    let project = Project::new("");
    let fixture =
        |name: &str| format!("{}/../../fixtures/autofdo/{name}", env!("CARGO_MANIFEST_DIR"));
    let (recording, binary) = (fixture("test.lbr"), fixture("test.binary"));
    let branches = |words: &[&str]| {
        let words = [&["aggregate"], words, &["--binary", &binary, "-o", "c", "--format", "json"]];
        let done = project.planish(&words.concat());
        assert!(done.status.success(), "{}", text(&done.stderr));
        let json: Value = serde_json::from_slice(&done.stdout).unwrap();
        let image = json["images"][0].clone();
        (image["branches"].as_u64().unwrap(), image["samples"].as_u64().unwrap())
    };
    let (once, samples) = branches(&[&recording]);
    let weighed = branches(&[&recording, &recording, "--weight", "0.5", "--weight", "1.5"]);
    // 1 and 3 are the smallest whole numbers; samples say how much is known.
    assert_eq!(weighed, (4 * once, 2 * samples));
    let refused = project.planish(&["aggregate", &recording, "--weight", "1", "--weight", "2"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("give one weight for each"),
        "{}",
        text(&refused.stderr)
    );
}
