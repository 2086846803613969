//! `planish optimize` with commands as people have them: scripts and runners that start the
//! program, and a server that a client drives.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// `train N`, `eval N`: works and prints a sum. `serve PORT`: answers connections with a sum. `ask
/// PORT TIMES`: asks the server so often and works much more than it.
const PROGRAM: &str = r#"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
static unsigned step(unsigned x) { return x % 7 == 3 ? x / 3 : x % 2 ? 3 * x + 1 : x / 2; }
static unsigned walk(unsigned x) { unsigned n = 0; while (x > 4 && n < 1000) { x = step(x); n++; } return n; }
static unsigned work(unsigned limit, unsigned by) {
  unsigned sum = 0;
  for (unsigned i = 1; i < limit; i++) sum += walk(i * by);
  return sum;
}
int main(int argc, char **argv) {
  unsigned number = atoi(argv[2]);
  struct sockaddr_in a = {0};
  a.sin_family = AF_INET; a.sin_port = htons(number); a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (argv[1][0] == 's') {
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(s, (void *)&a, sizeof a) || listen(s, 9)) { perror("bind"); return 3; }
    printf("ready\n"); fflush(stdout);
    for (;;) {
      int c = accept(s, 0, 0); unsigned limit;
      if (read(c, &limit, sizeof limit) == sizeof limit) {
        unsigned sum = work(limit, 3);
        if (write(c, &sum, sizeof sum) < 0) return 4;
      }
      close(c);
    }
  }
  if (argv[1][0] == 'a') {
    unsigned sum = 0;
    for (int i = atoi(argv[3]); i > 0; i--) {
      int s = socket(AF_INET, SOCK_STREAM, 0); unsigned limit = 20000, one = 0;
      if (connect(s, (void *)&a, sizeof a)) { perror("connect"); return 5; }
      if (write(s, &limit, sizeof limit) < 0 || read(s, &one, sizeof one) < 0) return 6;
      close(s); sum += one;
    }
    printf("%u %u\n", sum, work(20000 * atoi(argv[4]), 5));
    return 0;
  }
  printf("%u\n", work(number, argv[1][0] == 't' ? 3 : 5));
  return 0;
}
"#;

const BUILD: &str = r#"
[build]
command = 'cp app.c "$PLANISH_OUT" && cd "$PLANISH_OUT" && $PLANISH_CC $PLANISH_CFLAGS -c app.c -o app.o && $PLANISH_CC $PLANISH_LDFLAGS app.o -o app'
binary = "app"
sources = ["app.c"]
"#;

struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new(rest: &str) -> Project {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        write("app.c", PROGRAM);
        write("run.sh", "cd /\nexec \"$@\"\n");
        write(
            "runner.py",
            "import os, subprocess, sys\n\
             subprocess.run([os.environ['PLANISH_BIN'], *sys.argv[1:]], check=True)\n",
        );
        write("planish.toml", &format!("{BUILD}{rest}"));
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
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn found(tool: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let fine = path.split(':').any(|folder| Path::new(folder).join(tool).is_file());
    if !fine {
        eprintln!("skipped: {tool} is not installed");
    }
    fine
}

/// Whether the program can be built and, without a CPU that records branches, stopped.
fn can_train(project: &Project) -> bool {
    if !["clang-22", "ld.lld-22", "python3"].into_iter().all(found) {
        return false;
    }
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

#[test]
fn scripts_and_runners_start_the_program_and_each_part_is_told() {
    let project = Project::new(
        "[workload]\ntrain = ['sh run.sh {bin} train 300000', 'python3 runner.py train 600000']\n\
         inputs = ['run.sh', 'runner.py']\nenvironment = { LANG = 'C' }\n[evaluate]\ncommand = 'sh \
         run.sh {bin} eval 20000'\nrounds = 6\n[record]\nseconds = 2\n",
    );
    if !can_train(&project) {
        return;
    }
    let dry = text(&project.planish(&["optimize", "--dry-run"]).stdout);
    for expected in [
        "planish workload --program ./.planish/app.base --environment=LANG=C -- sh run.sh",
        "-- planish workload --program {bin} -- sh run.sh {PLANISH_BIN} eval 20000",
        "# note: taken branches are counted only of commands that are the program",
    ] {
        assert!(dry.contains(expected), "{expected}: {dry}");
    }
    assert!(!dry.contains("branches-base") && !dry.contains("{planish}"), "{dry}");
    let done = project.planish(&["optimize"]);
    let said = text(&done.stderr);
    assert!(matches!(done.status.code(), Some(0 | 1)), "{said}");
    let report = project.json(".planish/report.json");
    let recordings = report["recordings"].as_array().unwrap();
    assert_eq!(recordings.len(), 2);
    let share = |n: usize| recordings[n]["share"].as_f64().unwrap();
    assert!((share(0) + share(1) - 1.0).abs() < 1e-9, "{recordings:?}");
    for (n, recording) in recordings.iter().enumerate() {
        assert!(recording["samples"].as_u64().unwrap() > 10, "{recordings:?}");
        // The longer command gives more.
        assert!(share(n) > 0.05, "{recordings:?}");
    }
    assert!(said.contains("samples of .planish/train-2.data"), "{said}");
    let name = report["measurements"][0]["benchmarks"][0]["name"].as_str().unwrap();
    assert_eq!(name, "sh run.sh eval 20000");
    let markdown = std::fs::read_to_string(project.at(".planish/report.md")).unwrap();
    assert!(markdown.contains("| `python3 runner.py train 600000` |"), "{markdown}");
    assert!(markdown.contains("only the program itself can be emulated"), "{markdown}");
    // Where the CPU records branches, nothing is timed or decided.
    if let Ok(decided) = std::fs::read_to_string(project.at(".planish/training.json")) {
        assert!(decided.contains("where the emulator cannot follow"), "{decided}");
        assert!(recordings[1]["seconds"].as_f64().unwrap() > 0.0, "{recordings:?}");
    }
}

#[test]
fn a_server_is_recorded_and_only_its_time_is_compared() {
    let around = "start = '{bin} serve {port}'\nready = 'line:ready'\n";
    let project = Project::new(&format!(
        "[workload]\n{around}drive = '{{bin}} ask {{port}} 20 0'\n[evaluate]\n{around}drive = \
         '{{bin}} ask {{port}} 2 60'\nrounds = 6\n[record]\nseconds = 2\n"
    ));
    if !can_train(&project) {
        return;
    }
    let done = project.planish(&["optimize"]);
    let said = text(&done.stderr);
    assert!(matches!(done.status.code(), Some(0 | 1)), "{said}");
    let profile = project.json(".planish/report.json")["recordings"][0].clone();
    assert!(profile["samples"].as_u64().unwrap() > 10, "{profile}");
    // The client works thirty times as much as the server, all of it within its wall time.
    let runs = std::fs::read_to_string(project.at(".planish/runs-1.jsonl")).unwrap();
    let runs: Vec<Value> =
        runs.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(runs.len() >= 14, "{runs:?}");
    for run in runs {
        let number = |key: &str| run[key].as_f64().unwrap();
        let cpu = number("user_ns") + number("system_ns");
        assert!(cpu > 0.0 && cpu < number("wall_ns") / 4.0, "{run}");
    }
}

/// A project whose training is this line of Python.
fn trained_by(python: &str) -> Project {
    Project::new(&format!(
        "[workload]\ntrain = \"python3 -c '{python}'\"\n[evaluate]\ncommand = '{{bin}} eval \
         20000'\nrounds = 6\n[record]\nseconds = 0\n"
    ))
}

#[test]
fn training_that_never_runs_the_program_is_refused_before_it_is_recorded() {
    let project = trained_by("print(3)");
    if !can_train(&project) {
        return;
    }
    let done = project.planish(&["optimize"]);
    let said = text(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("never ran .planish/app.base; name the program by {bin}"), "{said}");
    assert!(!project.at(".planish/train-1.data").exists());
}

#[test]
fn training_of_which_nothing_is_in_the_program_is_an_error_that_says_what_ran() {
    // It opens the program, as running it does.
    let project = trained_by(
        "import os; open(os.environ[\\\"PLANISH_BIN\\\"]); print(sum(i % 7 for i in range(20000000)))",
    );
    if !can_train(&project) {
        return;
    }
    let done = project.planish(&["optimize"]);
    let said = text(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    for expected in ["train-1.data", "none of them in", "python3", " %)", "was it started at all?"]
    {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

#[test]
fn emulation_that_a_script_stands_before_is_refused() {
    let project = Project::new(
        "[workload]\ntrain = 'sh run.sh {bin} train 20000'\n[evaluate]\ncommand = '{bin} eval \
         20000'\n[record]\nbranches = 'emulated'\n",
    );
    let refused = project.planish(&["optimize", "--dry-run"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        said.contains("only the program itself is emulated") && said.contains("run.sh"),
        "{said}"
    );
}
