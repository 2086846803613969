//! Do other engines add up the counts of a fleet as planish does? The tests of `fleet/spark` run Spark on
//! a cluster of two executors, DuckDB and ClickHouse, and compare them with this planish.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]

use counts::Reason;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The oldest Java that runs Spark.
const OLDEST_JAVA: u32 = 17;

fn at_root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn text(path: &str) -> String {
    std::fs::read_to_string(at_root(path)).unwrap()
}

/// Python with Spark and the other engines, if this machine can run it; else the reason why not.
fn python() -> Result<PathBuf, String> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| at_root("target"), PathBuf::from);
    let python = std::path::absolute(target.join("engines/bin/python")).unwrap();
    if !python.is_file() {
        return Err(format!("not in {} (make test installs them)", python.display()));
    }
    let said = Command::new("java").arg("-version").stdin(Stdio::null()).output();
    let said = said.map_err(|_| "java is not installed".to_owned())?;
    // As `openjdk version "17.0.15" 2025-04-15`, on standard error.
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let version = said.split('"').nth(1).unwrap_or_default();
    let major = version.split(['.', '-']).next().and_then(|major| major.parse().ok());
    match major.unwrap_or(0u32) {
        OLDEST_JAVA.. => Ok(python),
        _ => Err(format!("Java {version} is older than {OLDEST_JAVA}")),
    }
}

#[test]
fn other_engines_give_the_result_of_planish() {
    let python = match python() {
        Ok(python) => python,
        Err(why) => {
            eprintln!("skipped: Spark, DuckDB and ClickHouse: {why}");
            return;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let mut tests = Command::new(python);
    tests.current_dir(at_root("fleet/spark")).stdin(Stdio::null());
    tests.args(["-m", "pytest", "-q", "-rs", "--durations=5", "--basetemp"]);
    tests.arg(folder.path().join("pytest"));
    tests.env("PLANISH", env!("CARGO_BIN_EXE_planish")).env("PYTHONDONTWRITEBYTECODE", "1");
    let done = tests.output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    let out = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && out.contains(" passed"), "{out}\n{told}");
    for line in out.lines() {
        match line.strip_prefix("SKIPPED ") {
            Some(why) => eprintln!("skipped: engines: {why}"),
            None => println!("{line}"),
        }
    }
}

#[test]
fn the_sql_text_of_the_rules_is_the_one_that_engines_read() {
    let page = text("docs/reference/counts-format.md");
    let (_, behind) = page.split_once("\n```sql\n").unwrap();
    let (sql, _) = behind.split_once("```").unwrap();
    let file = text("fleet/sql/merge.sql");
    assert!(file.starts_with("-- planish fleet merge, rules version 1\n"), "{file}");
    let statement = file.lines().skip_while(|line| line.starts_with("--"));
    assert_eq!(statement.collect::<Vec<_>>(), sql.lines().collect::<Vec<_>>());
    // The package brings it along.
    assert_eq!(text("fleet/spark/src/planish_spark/merge.sql"), file);
}

#[test]
fn the_rules_in_python_know_all_reasons_of_a_ledger() {
    let python = text("fleet/spark/src/planish_spark/ledger.py");
    let (_, behind) = python.split_once("REASONS = frozenset(").unwrap();
    let (listed, _) = behind.split_once(')').unwrap();
    let mut known: Vec<String> = listed.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    let mut reasons: Vec<String> = all().iter().map(named).collect();
    known.sort();
    reasons.sort();
    assert_eq!(known, reasons);
}

fn named(reason: &Reason) -> String {
    serde_json::to_value(reason).unwrap().as_str().unwrap().to_owned()
}

/// Each reason once: whoever adds one adds it here, since this does not compile without it.
fn all() -> Vec<Reason> {
    let mut all = vec![Reason::Unmapped];
    loop {
        let next = match all[all.len() - 1] {
            Reason::Unmapped => Reason::NoFile,
            Reason::NoFile => Reason::OtherImage,
            Reason::OtherImage => Reason::OtherProcess,
            Reason::OtherProcess => Reason::ImageUnavailable,
            Reason::ImageUnavailable => Reason::BuildIdMismatch,
            Reason::BuildIdMismatch => Reason::NotExecutable,
            Reason::NotExecutable => Reason::WrongPath,
            Reason::WrongPath => Reason::DuplicateEntry,
            Reason::DuplicateEntry => Reason::CrossesImages,
            Reason::CrossesImages => Reason::Backwards,
            Reason::Backwards => Reason::TooLong,
            Reason::TooLong => Reason::CrossesTransfer,
            Reason::CrossesTransfer => Reason::NotOnInstruction,
            Reason::NotOnInstruction => Reason::NoProcess,
            Reason::NoProcess => Reason::Malformed,
            Reason::Malformed => return all,
        };
        all.push(next);
    }
}
