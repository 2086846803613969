//! Closures hold at least what kgraft-analysis-tool answers from the same dumps, and what it is
//! silent on: see `dumps/README.md`. Dumps alone are read here; neither a compiler nor an object
//! file is needed.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use livepatch::{Analysis, Build, Dump, DumpKind, Unit, analyse, closure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn dumps() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dumps")
}

/// Reads dumps as those of one object, which is not there.
fn read(names: &[&str]) -> Analysis {
    let dump = |name: &&str| {
        let kind = if name.ends_with(".icf") { DumpKind::Icf } else { DumpKind::IpaClones };
        Dump { path: dumps().join(name), kind }
    };
    let unit = Unit {
        name: "unit.o".into(),
        object: dumps().join("unit.o"),
        bytes: 0,
        is_bitcode: false,
        dumps: names.iter().map(dump).collect(),
        is_link: false,
    };
    let build = Build { root: dumps(), units: vec![unit], ..Build::default() };
    analyse(&build, 1, &|_| ()).unwrap()
}

fn closure_of(analysis: &Analysis, name: &str) -> BTreeSet<String> {
    let asked = analysis.graph.named(name);
    assert!(!asked.is_empty(), "{name}");
    let members = closure(&analysis.graph, asked).members;
    members.iter().map(|member| analysis.graph.get(member.node).unwrap().name.to_string()).collect()
}

#[test]
fn closures_hold_every_affected_function_of_the_peer() {
    let answers = std::fs::read_to_string(dumps().join("answers.txt")).unwrap();
    let mut affected = 0;
    for line in answers.lines() {
        let (asked, names) = line.split_once(": ").unwrap();
        let (dump, function) = asked.split_once(' ').unwrap();
        let own = closure_of(&read(&[dump]), function);
        for name in names.split(' ') {
            assert!(own.contains(name), "{asked}: {name} is missing in {own:?}");
            affected += 1;
        }
        // Nothing else than the dump is read, so nothing else can be known.
        assert_eq!(
            own.len(),
            names.split(' ').filter(|name| *name != function).count() + 1,
            "{asked}"
        );
    }
    assert!(affected > 60, "{affected}");
}

#[test]
fn both_grammars_of_one_build_give_the_same() {
    let (new, older) = (read(&["sample.c.000i.ipa-clones"]), read(&["older.c.000i.ipa-clones"]));
    assert_eq!(new.graph.edges(), older.graph.edges());
    assert!(new.graph.edges().len() > 10);
}

#[test]
fn a_fold_that_the_peer_is_silent_on_is_found() {
    assert!(read(&["folded.c.000i.ipa-clones"]).graph.named("one").is_empty());
    let analysis = read(&["folded.c.000i.ipa-clones", "folded.c.079i.icf"]);
    for (asked, other) in [("one", "two"), ("two", "one")] {
        assert!(closure_of(&analysis, asked).contains(other), "{asked}");
    }
}
