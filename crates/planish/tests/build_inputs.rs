//! What a build is made from and where its program lies: sources outside the directory of planish.toml
//! repeat their build and are not mixed, a log among the sources is none, and a program put elsewhere is
//! named.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::path::{Path, PathBuf};
use std::process::Command;

const CONFIG: &str = r#"
[build]
command = '$PLANISH_CC $PLANISH_CFLAGS app.c ../common/more.c $PLANISH_LDFLAGS -o "$PLANISH_OUT/app"'
compiler = "gcc"
binary = "app"
[workload]
train = '{bin}'
[evaluate]
command = '{bin}'
"#;

/// Works long enough to be recorded.
const APP: &str = "int more(void); int main(void) { int sum = 0;
for (volatile int i = 0; i < 300000; i++) sum += i % 3 ? more() : 1;
return sum == 7; }";

struct Project(tempfile::TempDir);

impl Project {
    fn new() -> Project {
        let folder = tempfile::tempdir().unwrap();
        let project = Project(folder);
        std::fs::create_dir(project.at("app")).unwrap();
        std::fs::create_dir(project.at("common")).unwrap();
        project.write("app/planish.toml", CONFIG);
        project.write("app/app.c", APP);
        project.write("common/more.h", "static int less(int n) { return n - 1; }");
        project.write("common/more.c", "#include \"more.h\"\nint more(void) { return less(1); }");
        project
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.at(name), text).unwrap();
    }

    /// Runs planish in the project; what it says.
    fn planish(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
        command.args(arguments).current_dir(self.at("app")).env("NO_COLOR", "1");
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn has(tool: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let there = path.split(':').any(|folder| Path::new(folder).join(tool).is_file());
    if !there {
        eprintln!("skipped: {tool} is not installed");
    }
    there
}

#[test]
fn a_source_outside_the_project_repeats_its_build() {
    if !has("gcc") {
        return;
    }
    let project = Project::new();
    let repeated = || {
        let (code, said) = project.planish(&["build"]);
        assert_eq!(code, Some(0), "{said}");
        (!said.contains("up to date"), said)
    };
    assert!(repeated().0 && !repeated().0);
    project.write("common/more.c", "#include \"more.h\"\nint more(void) { return less(2) - 1; }");
    let (again, said) = repeated();
    assert!(again && said.contains("common/more.c changed"), "{said}");
    assert!(!repeated().0);
    project.write("common/more.h", "static int less(int n) { return n - 2 + 1; }");
    assert!(repeated().0, "a header with code in it");
    // What no build reads may change.
    project.write("common/notes.txt", "no source");
    assert!(!repeated().0);
}

#[test]
fn a_source_outside_the_project_that_changes_between_two_builds_stops_the_run() {
    if !has("gcc") {
        return;
    }
    let project = Project::new();
    let edit = "set_up = 'echo // >>../common/more.c'\n[evaluate]";
    project.write("app/planish.toml", &CONFIG.replace("[evaluate]", edit));
    let (code, said) = project.planish(&["optimize"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("common/more.c changed after step build"), "{said}");
}

#[test]
fn a_log_of_planish_among_the_sources_repeats_nothing() {
    if !has("gcc") {
        return;
    }
    let project = Project::new();
    let (code, said) = project.planish(&["build"]);
    assert!(code == Some(0) && said.contains("[1/1] build: "), "{said}");
    project.write("app/log", &said);
    let (_, said) = project.planish(&["build"]);
    assert!(said.contains("up to date"), "{said}");
    // Nor one that it is being written to.
    let redirected = || {
        let log = std::fs::File::create(project.at("app/err")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
        command.arg("build").current_dir(project.at("app")).stderr(log);
        assert!(command.status().unwrap().success());
        std::fs::read_to_string(project.at("app/err")).unwrap()
    };
    assert!(redirected().contains("up to date") && redirected().contains("up to date"));
    project.write("app/log", "of something else");
    let (_, said) = project.planish(&["build"]);
    assert!(!said.contains("up to date"), "{said}");
}

#[test]
fn a_program_that_was_put_elsewhere_is_named() {
    if !has("gcc") {
        return;
    }
    let project = Project::new();
    let elsewhere = CONFIG.replace("binary = \"app\"", "binary = \"planish-bin/app\"");
    project.write("app/planish.toml", &elsewhere);
    let (code, said) = project.planish(&["build"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("one of that name lies at ./app there: say --program ./app"), "{said}");
}

#[test]
fn what_the_program_loads_from_the_builds_directory_is_the_same_for_all_and_told() {
    if !has("gcc") {
        return;
    }
    let project = Project::new();
    let config = CONFIG
        .replace(" app.c ../common/more.c $PLANISH_LDFLAGS", " app.c $PLANISH_LDFLAGS")
        .replace(
            "/app\"'",
            "/app\" -DFROM=\"\\\"$PLANISH_OUT\\\"\" && \
            $PLANISH_CC $PLANISH_CFLAGS -shared -fPIC work.c -o \"$PLANISH_OUT/work.so\"'",
        );
    assert_ne!(config, CONFIG);
    project.write("app/planish.toml", &config);
    project.write(
        "app/app.c",
        "#include <dlfcn.h>
int main(void) { void *work = dlopen(FROM \"/work.so\", RTLD_NOW);
int (*more)(int) = (int (*)(int))dlsym(work, \"more\"); int sum = 0;
for (volatile int i = 0; i < 300000; i++) sum += i % 3 ? more(i) : 1;
return sum == 7; }",
    );
    let work = "int more(int n) { int sum = 0; for (volatile int i = 0; i < n % 9; i++) sum += i; return sum; }";
    project.write("app/work.c", work);
    let (code, told) = project.planish(&["optimize", "--set", "evaluate.rounds=6"]);
    assert!(matches!(code, Some(0 | 4)), "{code:?}: {told}");
    let report = std::fs::read_to_string(project.at("app/.planish/report.md")).unwrap();
    let line = report.lines().find(|line| line.contains("training ran code that the build makes"));
    assert!(line.is_some_and(|line| line.contains(".planish/build/work.so (")), "{report}");
}
