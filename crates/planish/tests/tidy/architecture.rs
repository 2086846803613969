//! Does the code keep what ARCHITECTURE.md says of crates and invariants? The table of crates is held
//! against the manifests, and each invariant to name what holds it.

use std::collections::{BTreeMap, BTreeSet};

use super::{assert_none, at_root, texts};

fn architecture() -> String {
    std::fs::read_to_string(at_root("ARCHITECTURE.md")).expect("ARCHITECTURE.md is readable")
}

/// Our crates that each one's manifest names, tests and examples left out.
fn manifests() -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in texts(&["Cargo.toml"]) {
        let name = path.strip_prefix("crates/").and_then(|path| path.strip_suffix("/Cargo.toml"));
        let Some(name) = name else { continue };
        let manifest: toml::Table = text.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        let named = |table: &toml::Table| -> Vec<String> {
            let needed = table.get("dependencies").and_then(toml::Value::as_table);
            needed.into_iter().flat_map(|needed| needed.keys().cloned()).collect()
        };
        let machines = manifest.get("target").and_then(toml::Value::as_table);
        let machines = machines.into_iter().flat_map(|table| table.values());
        let more = machines.filter_map(toml::Value::as_table).flat_map(named);
        let all = named(&manifest).into_iter().chain(more).collect();
        found.insert(name.to_owned(), all);
    }
    let ours: BTreeSet<String> = found.keys().cloned().collect();
    found.values_mut().for_each(|needed| needed.retain(|name| ours.contains(name)));
    found
}

/// The rows of the table of crates: folder, and what it may depend on.
fn rows(text: &str) -> BTreeMap<String, String> {
    let cells = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| `crates/")?.split(" | ").collect();
        let [name, _, needs] = cells[..] else { return None };
        Some((name.trim_end_matches('`').to_owned(), needs.trim_end_matches(" |").to_owned()))
    });
    cells.collect()
}

#[test]
fn the_table_of_crates_is_what_the_manifests_say() {
    let (rows, manifests) = (rows(&architecture()), manifests());
    let named = |needs: &str| -> BTreeSet<String> {
        let words = needs.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        words.filter(|word| manifests.contains_key(*word)).map(str::to_owned).collect()
    };
    let mut wrong = Vec::new();
    for (name, needed) in &manifests {
        let Some(row) = rows.get(name) else {
            wrong.push(format!("{name}: has no row"));
            continue;
        };
        let told = if row == "all" { manifests.keys().cloned().collect() } else { named(row) };
        // Any crate that writes files does so through this one, as the text says.
        let missing = needed.iter().filter(|other| *other != "beside" && !told.contains(*other));
        wrong.extend(missing.map(|other| format!("{name}: needs {other}, which its row lacks")));
        let more = told.iter().filter(|other| row != "all" && !needed.contains(*other));
        wrong.extend(more.map(|other| format!("{name}: its row names {other}, not needed")));
    }
    let gone = rows.keys().filter(|name| !manifests.contains_key(*name));
    wrong.extend(gone.map(|name| format!("{name}: is no crate")));
    assert_none("ARCHITECTURE.md and the manifests disagree", wrong);
}

#[test]
fn every_invariant_names_what_holds_it() {
    let text = architecture();
    let part = text.split("\n## Invariants\n").nth(1).and_then(|rest| rest.split("\n## ").next());
    let part = part.expect("ARCHITECTURE.md has invariants");
    let mut items: Vec<String> = Vec::new();
    for line in part.lines() {
        let numbered =
            line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        match items.last_mut() {
            _ if numbered => items.push(line.to_owned()),
            Some(last) if line.starts_with(' ') => *last += line,
            _ => {}
        }
    }
    assert!(items.len() >= 14, "{items:?}");
    // That the files exist is seen to by the test of all documents.
    let holds = |path: &str| {
        let is_test = path.contains("/tests/") || path.ends_with("tests.rs");
        is_test || path.starts_with("fuzz/")
    };
    let silent = items.into_iter().filter(|item| !item.split('`').skip(1).step_by(2).any(holds));
    assert_none("invariants of ARCHITECTURE.md that name no test", silent.collect());
}
