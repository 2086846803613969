//! Does a program of a thousand functions match when its driver changes?

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Compiler, output_of, said, tools};
use relink::{Inputs, Layout, MatchPlan, relink_in, share_at_equal_address};

/// The amalgamation in the package that the demo uses too.
fn sqlite() -> Option<PathBuf> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/sqlite/Cargo.toml");
    let cargo = std::env::var("CARGO").unwrap_or("cargo".to_owned());
    let arguments =
        ["metadata", "--locked", "--offline", "--format-version", "1", "--manifest-path", manifest];
    let said = output_of(&cargo, &arguments)?;
    let at = said.match_indices("\"manifest_path\":\"").map(|(at, _)| at);
    at.filter_map(|at| said[at..].split('"').nth(3))
        .find(|path| path.contains("/libsqlite3-sys-"))
        .map(|path| Path::new(path).with_file_name("sqlite3"))
        .filter(|directory| directory.join("sqlite3.c").is_file())
}

const DRIVER: &str = "#include \"sqlite3.h\"\n#include <stdio.h>\n\
    static int row(void *n, int count, char **values, char **names) { (void)n; (void)names;\n\
      for (int i = 0; i < count; i++) puts(values[i]); return 0; }\n\
    int main(void) { sqlite3 *db; char *error = 0; if (sqlite3_open(\":memory:\", &db)) return 1;\n\
      EDIT\n\
      if (sqlite3_exec(db, \"create table t(a); insert into t values(1),(2),(40);\"\n\
        \"select sum(a), sqlite_version() from t\", row, 0, &error)) { puts(error); return 1; }\n\
      return sqlite3_close(db); }\n";

#[test]
fn sqlite_matches_when_its_driver_changes() {
    let Some(source) = sqlite() else {
        eprintln!("skipped: SQLite's source is not there (cargo fetch in demo/sqlite)");
        return;
    };
    if !tools().contains(&Compiler::Clang) {
        eprintln!("skipped: clang or lld is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let include = format!("-I{}", source.display());
    let clang = if output_of("clang-22", &["--version"]).is_some() { "clang-22" } else { "clang" };
    let compile = |file: &Path, object: &str| {
        let flags =
            ["-O1", "-w", "-ffunction-sections", "-fdata-sections", "-DSQLITE_THREADSAFE=0"];
        let command = [&flags[..], &["-DSQLITE_OMIT_LOAD_EXTENSION", &include, "-c"]].concat();
        let mut run = Command::new(clang);
        assert!(
            run.args(command).arg(file).arg("-o").arg(path(object)).status().unwrap().success()
        );
    };
    compile(&source.join("sqlite3.c"), "sqlite3.o");
    let variant = |name: &str, edit: &str| {
        // The same file in another directory, as in two build trees.
        std::fs::create_dir(path(name)).unwrap();
        let file = path(&format!("{name}/driver.c"));
        std::fs::write(&file, DRIVER.replace("EDIT", edit)).unwrap();
        compile(&file, &format!("{name}.o"));
        let object = format!("{name}.o");
        let command =
            [clang, "-static", "sqlite3.o", &object, "-lm", "-o", "shop"].map(str::to_owned);
        Inputs::from_command(&command, directory.path(), &path("state")).unwrap()
    };
    let base = variant("base", "");
    let other = variant("other", "for (int i = 0; i < 3; i++) puts(sqlite3_sourceid() + i);");
    let plan = MatchPlan::new(&[&base, &other]).unwrap();
    assert_eq!(plan.changed(), ["main"]);
    let mut expected = String::new();
    for seed in 1..=2 {
        let link = |inputs, variant| {
            relink_in(inputs, &Layout::Matched { seed, plan: &plan, variant }, &path("links"))
                .unwrap()
                .path
        };
        let (a, b) = (link(&base, 0), link(&other, 1));
        let found = said(&a);
        assert!(found.starts_with("43\n") && (expected.is_empty() || expected == found), "{found}");
        expected = found;
        said(&b);
        let matched = share_at_equal_address(&a, &b).unwrap();
        assert!(matched.share() > 0.99, "{matched:?}");
        let free = relink_in(&base, &Layout::Independent { seed }, &path("links")).unwrap().path;
        assert_eq!(said(&free), expected);
        assert!(share_at_equal_address(&a, &free).unwrap().share() < 0.1);
    }
}
