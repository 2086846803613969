//! `planish report hot`, `callers`, `callees` and `tree`: the same numbers as `perf report`, for
//! frame pointers and copied stacks, in every form of a recording, and books that add up.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn planish(dir: &Path, words: &[&str]) -> Output {
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(dir).args(words).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(dir: &Path, words: &[&str]) -> Value {
    let words = [words, &["--format", "json", "--limit", "0", "--percent", "0"]].concat();
    let done = planish(dir, &words);
    assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    let schema = if words[1] == "hot" { "planish-report-hot" } else { "planish-report-tree" };
    assert_eq!((&found["schema"], &found["version"]), (&schema.into(), &1.into()), "{words:?}");
    found
}

fn number(object: &Value, key: &str) -> u64 {
    object[key].as_u64().unwrap_or_else(|| panic!("no {key} in {object}"))
}

/// A program recorded with call chains: by frame pointers, or by copies of the stack.
fn recorded(dir: &Path, chains: &[&str], recording: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/calls.c");
    let frame_pointer =
        if chains == ["-g"] { "-fno-omit-frame-pointer" } else { "-fomit-frame-pointer" };
    let built = Command::new("cc")
        .current_dir(dir)
        .args(["-O1", "-g", frame_pointer, "-fno-optimize-sibling-calls", "-o", "calls"])
        .arg(source)
        .status();
    assert!(built.unwrap().success());
    let words = [&["record", "-o", recording], chains, &["--", "./calls"]].concat();
    let done = planish(dir, &words);
    assert!(done.status.success(), "{}", text(&done.stderr));
}

/// Self and total per cent of the functions of one file, from the text of perf.
fn by_perf(dir: &Path, recording: &str, file: &str) -> BTreeMap<String, (f64, f64)> {
    let done = Command::new("perf")
        .current_dir(dir)
        .args(["report", "--stdio", "--children", "-g", "none", "--percent-limit", "0", "-t", ","])
        .args(["--no-inline", "--sort", "dso,symbol", "-i", recording])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = text(&done.stdout);
    let rows = printed.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let row = |line: &str| {
        // Totals, where there are chains; self; file; symbol; and what this perf adds.
        let columns: Vec<&str> = line.split(',').map(str::trim).collect();
        let at = columns.iter().position(|column| *column == file)?;
        let percent = |at: Option<usize>| -> Option<f64> {
            columns.get(at?)?.trim_end_matches('%').parse().ok()
        };
        let own = percent(at.checked_sub(1)).unwrap_or_else(|| panic!("{line}"));
        let total = percent(at.checked_sub(2)).unwrap_or(own);
        let symbol = columns.get(at + 1).unwrap();
        let name = symbol.split("] ").nth(1).unwrap_or(symbol);
        Some((name.to_owned(), (own, total)))
    };
    without_stubs(rows.filter_map(row))
}

/// Stubs of functions in other files (`printf@plt`) as perf 6.1 names them, which knows none and
/// takes the symbol before them.
fn without_stubs(rows: impl Iterator<Item = (String, (f64, f64))>) -> BTreeMap<String, (f64, f64)> {
    let mut all: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for (name, (own, total)) in rows {
        let name = if name.ends_with("@plt") { "_init".to_owned() } else { name };
        let sum = all.entry(name).or_default();
        *sum = (sum.0 + own, sum.1 + total);
    }
    all
}

fn by_planish(dir: &Path, recording: &str, file: &str) -> BTreeMap<String, (f64, f64)> {
    let found = json(dir, &["report", "hot", recording]);
    let rows = found["rows"].as_array().unwrap().iter();
    let own = rows.filter(|row| row["library"].as_str().unwrap().ends_with(&format!("/{file}")));
    let row = |row: &Value| {
        let percent = |key: &str| row[key].as_f64().unwrap();
        let name = row["linkage_name"].as_str().unwrap().to_owned();
        (name, (percent("self_percent"), percent("total_percent")))
    };
    without_stubs(own.map(row))
}

fn check_books(found: &Value) {
    let ledger = &found["ledger"];
    let parts = ["used", "filtered", "malformed", "without_address", "refused"];
    let sum: u64 = parts.iter().map(|key| number(ledger, key)).sum();
    assert_eq!(number(ledger, "samples"), sum, "{ledger}");
}

#[test]
fn self_and_total_of_functions_are_those_of_perf_report() {
    let dir = tempfile::tempdir().unwrap();
    for (chains, recording) in [
        (&["-g"][..], "pointers.data"),
        (&["--call-graph", "dwarf"], "copies.data"),
        (&[], "plain.data"),
    ] {
        recorded(dir.path(), chains, recording);
        let (ours, theirs) =
            (by_planish(dir.path(), recording, "calls"), by_perf(dir.path(), recording, "calls"));
        assert!(theirs.contains_key("leaf"), "{theirs:?}");
        for (name, (own, total)) in &theirs {
            let found = ours.get(name).unwrap_or_else(|| panic!("{recording}: {name}: {ours:?}"));
            let near = |one: f64, other: f64| (one - other).abs() < 0.0051;
            assert!(near(found.0, *own), "{recording}: {name}: {found:?}, {own}");
            assert!(near(found.1, *total), "{recording}: {name}: {found:?}, {total}");
        }
        let found = json(dir.path(), &["report", "hot", recording]);
        check_books(&found);
        // From the loader's first instruction on, stacks reach where the program began.
        let incomplete = number(&found["ledger"], "stacks_incomplete");
        assert!(incomplete * 100 <= number(&found, "samples"), "{recording}: {found}");
    }
}

#[test]
fn callers_callees_and_the_tree_tell_one_story() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path(), &["-g"], "perf.data");
    let hot = json(dir.path(), &["report", "hot"]);
    let of = |found: &Value, name: &str, key: &str| {
        let rows = found["rows"].as_array().or(found["nodes"].as_array()).unwrap();
        rows.iter()
            .filter(|row| row["function"] == name)
            .map(|row| number(row, key))
            .collect::<Vec<_>>()
    };
    // Whatever calls the function, its weights add up to the function's own.
    for name in ["leaf", "middle", "again", "main"] {
        let total = of(&hot, name, "total_weight");
        for verb in ["callers", "callees"] {
            let found = json(dir.path(), &["report", verb, name]);
            let nodes = found["nodes"].as_array().unwrap();
            let roots = nodes.iter().filter(|node| node["parent"].is_null());
            let sum: u64 = roots.map(|node| number(node, "total_weight")).sum();
            assert_eq!(vec![sum], total, "{verb} {name}");
            assert_eq!(nodes[0]["function"], name);
            let ends: u64 = nodes.iter().map(|node| number(node, "self_weight")).sum();
            assert_eq!(ends, sum, "{verb} {name}");
        }
    }
    let callers = json(dir.path(), &["report", "callers", "leaf"]);
    let direct = callers["nodes"].as_array().unwrap().iter().filter(|node| node["depth"] == 1);
    let direct: Vec<&str> = direct.map(|node| node["function"].as_str().unwrap()).collect();
    assert_eq!(direct, ["middle", "main"]);
    // The recursion is one path of six frames.
    let tree = json(dir.path(), &["report", "tree"]);
    let again = of(&tree, "again", "depth");
    assert_eq!(again.len(), 6, "{again:?}");
    assert_eq!(of(&tree, "leaf", "self_weight").len(), 3);
    let sum: u64 = tree["nodes"].as_array().unwrap().iter().map(|n| number(n, "self_weight")).sum();
    assert_eq!(sum, number(&tree, "weight"));
    // Folded stacks have the same weights.
    let folded = planish(dir.path(), &["report", "tree", "--emit", "folded"]);
    let lines = text(&folded.stdout);
    let weight = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    assert_eq!(lines.lines().map(weight).sum::<u64>(), sum);
    assert!(lines.contains("main;middle;leaf "), "{lines}");
    // What nobody called is an error with a way out.
    let none = planish(dir.path(), &["report", "callers", "midle"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("no sample has a function called midle"));
    let near = planish(dir.path(), &["report", "callers", "midd"]);
    assert!(text(&near.stderr).contains("do you mean middle?"), "{}", text(&near.stderr));
}

#[test]
fn a_filter_leaves_out_samples_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path(), &[], "perf.data");
    let threads = json(dir.path(), &["report", "hot", "--by", "thread"]);
    let row = &threads["rows"][0];
    assert_eq!(row["thread"], "calls");
    let pid = number(row, "pid").to_string();
    let own = json(dir.path(), &["report", "hot", "--pid", &pid]);
    assert_eq!(number(&own, "samples"), number(row, "self_samples"));
    check_books(&own);
    let none = planish(dir.path(), &["report", "hot", "--tid", "1"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("the filters leave out all of them"));
    let event = planish(dir.path(), &["report", "hot", "--event", "cycles"]);
    assert!(text(&event.stderr).contains("no sampled event is called cycles; there is cpu-clock"));
    // Names of threads, as they were then.
    let named = json(dir.path(), &["report", "hot", "--comm", "calls"]);
    assert_eq!(number(&named, "samples"), number(&own, "samples"));
    let none = planish(dir.path(), &["report", "hot", "--comm", "cals"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("no sampled thread is called cals; there is calls"));
}

#[test]
fn parts_of_the_time_add_up_to_the_whole() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path(), &[], "perf.data");
    let part = |time: &str| {
        let found = json(dir.path(), &["report", "hot", "--time", time]);
        check_books(&found);
        number(&found, "samples")
    };
    let all = number(&json(dir.path(), &["report", "hot"]), "samples");
    let (early, late) = (part("-0.05"), part("0.05-"));
    assert!(early > 0 && late > 0, "{early} {late}");
    assert_eq!(early + late, all);
    assert_eq!(part("0-0.02") + part("0.02-0.05"), early);
    let none = planish(dir.path(), &["report", "hot", "--time", "1000-"]);
    assert!(text(&none.stderr).contains("the filters leave out all of them"));
    for wrong in ["2", "3-2", "x-y"] {
        let refused = planish(dir.path(), &["report", "hot", "--time", wrong]);
        assert_eq!(refused.status.code(), Some(2), "{wrong}");
    }
}

#[test]
fn stacks_through_a_function_weigh_what_it_weighs() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path(), &["-g"], "perf.data");
    let all = json(dir.path(), &["report", "hot"]);
    let row = |found: &Value, name: &str| {
        let rows = found["rows"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["linkage_name"] == name)
    };
    let through = json(dir.path(), &["report", "hot", "--through", "again"]);
    check_books(&through);
    let again = row(&all, "again").unwrap();
    assert_eq!(number(&through, "weight"), number(&again, "total_weight"));
    let leaf = |found: &Value| number(&row(found, "leaf").unwrap(), "self_weight");
    assert!(leaf(&through) > 0 && leaf(&through) < leaf(&all));
    let none = planish(dir.path(), &["report", "hot", "--through", "agan"]);
    assert!(text(&none.stderr).contains("no sample has a function called agan"));
}

/// Fixtures of perf itself: one file, pipe, directory, compressed.
#[test]
fn every_form_of_a_recording_is_read_and_its_books_add_up() {
    let fixtures: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/perfdata");
    let mut read = 0;
    for entry in std::fs::read_dir(&fixtures).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "data") {
            continue;
        }
        read += 1;
        let name = path.to_str().unwrap();
        let found = json(&fixtures, &["report", "hot", name]);
        check_books(&found);
        let rows = found["rows"].as_array().unwrap();
        let own: u64 = rows.iter().map(|row| number(row, "self_weight")).sum();
        assert_eq!(own, number(&found, "weight"), "{name}");
        // However many threads work, the answer is the same.
        let one = planish(&fixtures, &["report", "tree", name, "--threads", "1"]);
        let five = planish(&fixtures, &["report", "tree", name, "--threads", "5"]);
        assert_eq!(text(&one.stdout), text(&five.stdout), "{name}");
        for by in ["library", "thread", "process"] {
            let rows = json(&fixtures, &["report", "hot", name, "--by", by]);
            let own: u64 =
                rows["rows"].as_array().unwrap().iter().map(|row| number(row, "self_weight")).sum();
            assert_eq!(own, number(&rows, "weight"), "{name} {by}");
        }
    }
    assert!(read >= 6, "{read} fixtures in {}", fixtures.display());
}

#[test]
fn files_that_moved_are_found_by_build_id_and_others_are_not_taken_for_them() {
    let dir = tempfile::tempdir().unwrap();
    recorded(dir.path(), &[], "perf.data");
    let program = dir.path().join("calls");
    let described = Command::new("readelf").args(["-n"]).arg(&program).output().unwrap();
    let described = text(&described.stdout);
    let id = described.split("Build ID: ").nth(1).unwrap().split_whitespace().next().unwrap();
    let (first, rest) = id.split_at(2);
    let own = |words: &[&str]| {
        let done = planish(dir.path(), &[&["report", "hot", "--limit", "1"], words].concat());
        assert!(done.status.success(), "{}", text(&done.stderr));
        (text(&done.stdout).contains("leaf"), text(&done.stderr))
    };
    assert!(own(&[]).0);
    // Gone.
    let kept = dir.path().join(format!("cache/.build-id/{first}/{rest}"));
    std::fs::create_dir_all(&kept).unwrap();
    std::fs::rename(&program, kept.join("elf")).unwrap();
    let (named, notes) = own(&[]);
    assert!(!named && notes.contains("calls: ") && notes.contains("it is gone"), "{notes}");
    assert!(own(&["--symbols", "cache"]).0);
    // Another program under its name.
    std::fs::copy("/bin/true", &program).unwrap();
    let (named, notes) = own(&[]);
    assert!(!named && notes.contains("another build than the recorded one"), "{notes}");
    assert!(own(&["--symbols", "cache"]).0);
    // Below another root.
    let inside = dir.path().strip_prefix("/").unwrap();
    let below = dir.path().join("root").join(inside);
    std::fs::create_dir_all(&below).unwrap();
    std::fs::copy(kept.join("elf"), below.join("calls")).unwrap();
    assert!(own(&["--sysroot", "root"]).0);
}

/// A recording cut anywhere ends in a result with its ledger or in one error.
#[test]
fn damaged_recordings_end_in_a_result_or_one_error() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/perfdata/rich.data");
    let bytes = std::fs::read(fixture).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let cut = dir.path().join("cut.data");
    for part in [1, 8, 60, 104, 200, bytes.len() / 2, bytes.len() - 7] {
        std::fs::write(&cut, &bytes[..part]).unwrap();
        let done = planish(dir.path(), &["report", "hot", "cut.data"]);
        let code = done.status.code();
        assert!(matches!(code, Some(0 | 2)), "{part}: {code:?}: {}", text(&done.stderr));
        assert!(!text(&done.stderr).contains("panicked"), "{part}: {}", text(&done.stderr));
        assert!(code == Some(0) || text(&done.stderr).contains("cut.data"), "{part}");
    }
}

#[test]
fn every_verb_reads_a_recording_that_comes_through_a_pipe() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/perfdata/pipe.data");
    for verb in [&["hot"][..], &["hot", "--by", "thread"], &["tree"]] {
        let shown = |input: &Path| {
            let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
            planish.args(["report"]).args(verb).arg("-");
            let mut cat = Command::new("cat").arg(input).stdout(Stdio::piped()).spawn().unwrap();
            let done = planish.stdin(cat.stdout.take().unwrap()).output().unwrap();
            cat.wait().unwrap();
            done
        };
        let done = shown(&fixture);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success() && !done.stdout.is_empty(), "{verb:?}: {said}");
    }
}
