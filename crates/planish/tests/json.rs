//! Does every JSON object say what it is? `json/commands.txt` lists the commands that print JSON,
//! and `cli.rs` sees that it names all of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

const LIST: &str = include_str!("json/commands.txt");

/// The lines of a class: schema, and words or file.
fn listed(class: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let cells = LIST.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let cells: Vec<&str> = line.splitn(4, '|').map(str::trim).collect();
        <[&str; 4]>::try_from(cells).unwrap_or_else(|_| panic!("four cells: {line}"))
    });
    cells.filter(move |cells| cells[0] == class).map(|[_, _, schema, rest]| (schema, rest))
}

#[test]
fn every_object_has_its_schema_and_its_version() {
    let folder = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    for (schema, words) in listed("runs") {
        let words = words.split(' ').map(|word| match word.strip_prefix('@') {
            Some(name) => fixtures.join(name).display().to_string(),
            None => word.to_owned(),
        });
        let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
        planish.args(words).current_dir(&folder).stdin(Stdio::null());
        let done = planish.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        // A finding may be negative or undecided, on this machine or in a fixture.
        assert!(matches!(done.status.code(), Some(0 | 1 | 4)), "{planish:?}: {said}");
        let object: Value = serde_json::from_slice(&done.stdout)
            .unwrap_or_else(|error| panic!("{planish:?}: {error}: {said}"));
        assert_eq!(object["schema"], schema, "{planish:?}");
        assert!(object["version"].as_u64().is_some_and(|version| version > 0), "{planish:?}");
        std::fs::write(folder.path().join(format!("{schema}.json")), &done.stdout).unwrap();
    }
}

#[test]
fn objects_that_are_not_tried_here_are_tried_elsewhere() {
    let mut count = 0;
    for (schema, file) in listed("held") {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file));
        let text = text.unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(text.contains(&format!("\"{schema}\"")), "{file} does not ask for {schema}");
        count += 1;
    }
    assert!(count + listed("runs").count() > 40);
}
