//! `planish report lines`: weights that add up to those of `hot`, executions and loops as the
//! program has them, sources that are hostile or gone, files without symbols.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
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
    let done = planish(dir, &[words, &["--format", "json"]].concat());
    assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

fn lines(dir: &Path, recording: &str) -> Value {
    let found = json(dir, &["report", "lines", "work", recording, "--all"]);
    assert_eq!((&found["schema"], &found["version"]), (&"planish-report-lines".into(), &1.into()));
    found
}

fn number(object: &Value, key: &str) -> u64 {
    object[key].as_u64().unwrap_or_else(|| panic!("no {key} in {object}"))
}

fn all<'v>(found: &'v Value, key: &str) -> &'v Vec<Value> {
    found[key].as_array().unwrap()
}

fn built(dir: &Path, flags: &[&str]) {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    std::fs::copy(programs.join("loops.c"), dir.join("loops.c")).unwrap();
    let built = Command::new("cc")
        .current_dir(dir)
        .args(flags)
        .args(["-Wl,--build-id", "-o", "loops", "loops.c"])
        .status();
    assert!(built.unwrap().success());
}

/// Records; false, and says so, where the machine cannot.
fn recorded(dir: &Path, options: &[&str], command: &[&str]) -> bool {
    let done = planish(dir, &[&["record", "-q"], options, &["--"], command].concat());
    if done.status.code() == Some(3) {
        eprintln!("skipped: {}", text(&done.stderr));
        return false;
    }
    assert!(done.status.success(), "{}", text(&done.stderr));
    true
}

/// The line of the source in which a text stands.
fn source_line(dir: &Path, part: &str) -> u64 {
    let source = std::fs::read_to_string(dir.join("loops.c")).unwrap();
    source.lines().position(|line| line.contains(part)).unwrap() as u64 + 1
}

/// Instructions and lines hold all of the function's samples, which are those of `hot`.
fn check_weights(dir: &Path, recording: &str, found: &Value) {
    let hot = json(dir, &["report", "hot", recording, "--limit", "0", "--percent", "0"]);
    let row = all(&hot, "rows").iter().find(|row| row["linkage_name"] == "work").unwrap();
    for (own, of) in [("self_weight", "weight"), ("self_samples", "samples")] {
        let unplaced = number(&found["ledger"], &format!("unplaced_{of}"));
        let sum = |key: &str| all(found, key).iter().map(|one| number(one, of)).sum::<u64>();
        assert_eq!(number(found, own), number(row, own));
        assert_eq!(sum("instructions") + unplaced, number(row, own));
        assert_eq!(sum("lines") + unplaced, number(row, own));
    }
    assert!(number(found, "self_samples") > 0);
}

/// What branch stacks say fits together.
fn check_counts(found: &Value) {
    for branch in all(found, "branches") {
        let at = &branch["address"];
        let one = all(found, "instructions").iter().find(|one| one["address"] == *at).unwrap();
        assert_eq!(one["kind"], branch["kind"]);
        if branch["kind"] == "conditional-branch" {
            let ways = number(branch, "taken") + number(branch, "not_taken");
            assert_eq!(ways, number(one, "count"), "{branch}");
        }
        let targets: u64 = all(branch, "targets").iter().map(|to| number(to, "count")).sum();
        assert_eq!(targets, number(branch, "entries"), "{branch}");
        assert!(number(branch, "mispredicted") <= number(branch, "entries"), "{branch}");
    }
    for book in ["entries", "stretches"] {
        let book = &found["ledger"]["branch_stacks"][book];
        assert_eq!(number(book, "read"), number(book, "used") + number(book, "unused"), "{book}");
    }
}

/// The loops of `work` by the source line in which they begin.
fn check_loops(dir: &Path, found: &Value, outer: Option<f64>) {
    let loops = all(found, "loops");
    assert_eq!(loops.len(), 2, "{loops:?}");
    assert_eq!((&loops[0]["depth"], &loops[1]["depth"]), (&0.into(), &1.into()), "{loops:?}");
    let trips = |at: usize| loops[at]["iterations_per_entry"].as_f64().unwrap();
    assert!((trips(1) - 7.0).abs() < 0.2, "{loops:?}");
    if let Some(outer) = outer {
        assert!((trips(0) / outer - 1.0).abs() < 0.1, "{loops:?}");
    }
    // The branch that goes one way once in four.
    let line = source_line(dir, "i % 4 == 0");
    let of_line = |one: &&Value| {
        let at = one["line"].as_u64().unwrap() as usize;
        all(found, "lines")[at]["line"] == line
    };
    let own: Vec<&Value> = all(found, "instructions").iter().filter(of_line).collect();
    let taken: Vec<f64> = all(found, "branches")
        .iter()
        .filter(|branch| own.iter().any(|one| one["address"] == branch["address"]))
        .filter_map(|branch| branch["taken_percent"].as_f64())
        .collect();
    assert_eq!(taken.len(), 1, "{found}");
    let share = taken[0].min(100.0 - taken[0]);
    assert!((share - 25.0).abs() < 2.0, "{taken:?}");
}

#[test]
fn executions_and_loops_of_an_emulated_program_are_those_of_its_source() {
    for flags in [["-O1", "-g"], ["-O0", "-gdwarf-4"]] {
        let dir = tempfile::tempdir().unwrap();
        built(dir.path(), &flags);
        let options = ["--branches=emulated", "-c", "9", "-o", "perf.data"];
        if !recorded(dir.path(), &options, &["./loops", "300", "52"]) {
            return;
        }
        let found = lines(dir.path(), "perf.data");
        check_weights(dir.path(), "perf.data", &found);
        check_counts(&found);
        check_loops(dir.path(), &found, Some(52.0));
        // Seven of the inner line for one of the outer.
        let count = |part: &str| {
            let line = source_line(dir.path(), part);
            let of = all(&found, "lines").iter().filter(|one| one["line"] == line);
            of.filter_map(|one| one["count"].as_u64()).max().unwrap() as f64
        };
        let ratio = count("sum += square") / count("sum = called");
        assert!((ratio - 7.0).abs() < 0.2, "{ratio}");
        // What was inlined has its function's name.
        let inlined = all(&found, "lines").iter().find(|line| line["inlined"] == "square").unwrap();
        assert_eq!(inlined["line"], source_line(dir.path(), "return x * x"));
        assert!(inlined["source"].as_str().unwrap().contains("return x * x;"));
        assert!(inlined["file"].as_str().unwrap().ends_with("/loops.c"));
        let call = all(&found, "instructions").iter().find(|one| one["kind"] == "call").unwrap();
        assert_eq!(call["target_function"], "called");
        let shown = planish(dir.path(), &["report", "lines", "work", "perf.data"]);
        let shown = text(&shown.stdout);
        assert!(shown.contains("iterations per entry") && shown.contains("(square)"), "{shown}");
        // Of the process alone the same; a thread's are not told.
        let narrow = planish(dir.path(), &["report", "lines", "work", "perf.data", "--time", "0-"]);
        assert!(text(&narrow.stderr).contains("no executions: branch stacks are counted of"));
    }
}

#[test]
fn software_branch_stacks_tell_loops_too() {
    let dir = tempfile::tempdir().unwrap();
    built(dir.path(), &["-O1", "-g", "-gsplit-dwarf"]);
    let options = ["--branches=software", "-o", "perf.data"];
    if !recorded(dir.path(), &options, &["./loops", "60000"]) {
        return;
    }
    let found = lines(dir.path(), "perf.data");
    check_weights(dir.path(), "perf.data", &found);
    check_counts(&found);
    check_loops(dir.path(), &found, None);
}

#[test]
fn branch_stacks_of_a_cpu_fit_the_code_of_its_program() {
    let fixtures: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/autofdo");
    for function in ["pqdownheap", "longest_match", "deflate"] {
        let words = ["report", "lines", function, "test.lbr", "--symbols", ".", "--all"];
        let found = json(&fixtures, &words);
        check_counts(&found);
        assert!(all(&found, "branches").iter().any(|branch| number(branch, "mispredicted") > 0));
        assert!(!all(&found, "loops").is_empty(), "{function}");
        let unread = all(&found, "sources").iter().all(|source| source["read"].is_null());
        assert!(unread && all(&found, "lines").len() > 5, "{function}");
    }
}

#[test]
fn plain_samples_give_weights_and_filters_hold() {
    let dir = tempfile::tempdir().unwrap();
    built(dir.path(), &["-O1", "-g"]);
    if !recorded(dir.path(), &["--branches=none", "-g", "-o", "p.data"], &["./loops", "100000"]) {
        return;
    }
    let found = lines(dir.path(), "p.data");
    check_weights(dir.path(), "p.data", &found);
    assert!(all(&found, "instructions").iter().all(|one| one["count"].is_null()));
    assert!(found["ledger"]["branch_stacks"].is_null());
    let samples = |words: &[&str]| {
        let words = [&["report", "lines", "work", "p.data"], words].concat();
        let found = json(dir.path(), &words);
        number(&found, "self_samples")
    };
    assert_eq!(samples(&["--time", "-0.1"]) + samples(&["--time", "0.1-"]), samples(&[]));
    assert_eq!(samples(&["--through", "work"]), samples(&[]));
    // Limits leave out lines and say how many.
    let one = json(dir.path(), &["report", "lines", "work", "p.data", "--limit", "1"]);
    assert_eq!(all(&one, "lines").len(), 1);
    assert_eq!(number(&one, "left_out") as usize + 1, all(&found, "lines").len());
    let none = planish(dir.path(), &["report", "lines", "wrk", "p.data"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("no sample has a function called wrk"));
    let inlined = planish(dir.path(), &["report", "lines", "square", "p.data", "--inlined"]);
    assert_eq!(inlined.status.code(), Some(2));
    assert!(text(&inlined.stderr).contains("was inlined wherever it was sampled"));
}

#[test]
fn sources_that_are_hostile_moved_or_gone_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    built(dir.path(), &["-O1", "-g"]);
    if !recorded(dir.path(), &["--branches=none", "-o", "p.data"], &["./loops", "20000"]) {
        return;
    }
    let source = dir.path().join("loops.c");
    let tell = |words: &[&str]| {
        let words = [&["report", "lines", "work", "p.data", "--all"], words].concat();
        let done = planish(dir.path(), &words);
        assert!(done.status.success(), "{}", text(&done.stderr));
        done
    };
    let whole = tell(&[]);
    assert!(text(&whole.stdout).contains("sum += square(j);"), "{}", text(&whole.stdout));
    std::fs::create_dir(dir.path().join("moved")).unwrap();
    let moved = dir.path().join("moved/loops.c");
    std::fs::rename(&source, &moved).unwrap();
    // Gone: said once, and the numbers stay.
    let gone = tell(&[]);
    let said = text(&gone.stderr);
    assert_eq!(said.matches("loops.c: lines not shown: the file is not there").count(), 1);
    assert!(text(&gone.stdout).contains("loops.c:"), "{}", text(&gone.stdout));
    assert!(!text(&gone.stdout).contains("sum += square(j);"));
    assert_eq!(text(&tell(&["--source", "moved"]).stdout), text(&whole.stdout));
    // Hostile.
    let line = b"\x1b[2J\x1b]0;x\x07 <script> \xff\xfe \xe2\x80\xae\r \x00 end\n".repeat(40);
    std::fs::write(&source, &line).unwrap();
    let hostile = tell(&[]);
    let shown = text(&hostile.stdout);
    assert!(shown.contains("<script>") && shown.contains("end"), "{shown}");
    let harmful = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!shown.contains(harmful), "{shown:?}");
    assert!(!text(&tell(&["--format", "json"]).stdout).contains(harmful));
    // A line without end, a file that is shorter than it was, and what is no file.
    std::fs::write(&source, "x".repeat(1 << 20) + "\n").unwrap();
    let long = tell(&[]);
    assert!(long.stdout.len() < 1 << 16, "{}", long.stdout.len());
    assert!(text(&long.stderr).contains("it has 1 lines"), "{}", text(&long.stderr));
    std::fs::remove_file(&source).unwrap();
    std::fs::create_dir(&source).unwrap();
    assert!(text(&tell(&[]).stderr).contains("not a regular file but a directory"));
}

#[test]
fn files_without_debug_information_or_symbols_are_told_by_instruction() {
    let dir = tempfile::tempdir().unwrap();
    built(dir.path(), &["-O1", "-g"]);
    if !recorded(dir.path(), &["--branches=none", "-o", "p.data"], &["./loops", "20000"]) {
        return;
    }
    let strip = |option: &str| {
        let done = Command::new("strip").current_dir(dir.path()).args([option, "loops"]).status();
        assert!(done.unwrap().success());
    };
    let whole = lines(dir.path(), "p.data");
    strip("-g");
    let found = lines(dir.path(), "p.data");
    check_weights(dir.path(), "p.data", &found);
    assert!(all(&found, "lines").iter().all(|line| line["line"].is_null()), "{found}");
    let told = planish(dir.path(), &["report", "lines", "work", "p.data"]);
    assert!(text(&told.stderr).contains("no source lines"), "{}", text(&told.stderr));
    assert!(text(&told.stdout).contains("imul"), "{}", text(&told.stdout));
    strip("-s");
    // Without a name, a function is where it begins, as .eh_frame has it.
    let address = format!("{:#x}", number(&whole, "address"));
    let rows = json(dir.path(), &["report", "hot", "p.data"]);
    let row = all(&rows, "rows").iter().find(|row| row["function"] == address.as_str());
    assert_eq!(row.map(|row| &row["self_samples"]), Some(&whole["self_samples"]), "{rows}");
    let bare = json(dir.path(), &["report", "lines", &address, "p.data", "--all"]);
    for key in ["address", "size", "self_weight", "self_samples"] {
        assert_eq!(bare[key], whole[key], "{key}");
    }
}

#[test]
fn of_several_functions_of_a_name_the_one_with_most_samples_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    built(dir.path(), &["-O1", "-g"]);
    std::fs::copy(dir.path().join("loops"), dir.path().join("other")).unwrap();
    let script = ["sh", "-c", "./loops 30000; ./other 8000"];
    if !recorded(dir.path(), &["--branches=none", "-o", "p.data"], &script) {
        return;
    }
    let told = planish(dir.path(), &["report", "lines", "work", "p.data"]);
    assert!(text(&told.stdout).contains("work  [loops]"), "{}", text(&told.stdout));
    let said = text(&told.stderr);
    assert!(said.contains("not shown: work in ") && said.contains("/other, "), "{said}");
}

#[test]
fn blocks_that_the_layout_moved_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    std::fs::copy(programs.join("loops.c"), dir.join("loops.c")).unwrap();
    std::fs::write(dir.join("order.txt"), "v1\nf work\nc0 2 1 7 5 4 6 3\n").unwrap();
    let built = |output: &str, more: &[&str]| {
        let flags = ["-O1", "-g", "-fbasic-block-address-map", "loops.c", "-o", output];
        let mut clang = Command::new("clang-22");
        clang.current_dir(dir).args(flags).args(more).status().is_ok_and(|status| status.success())
    };
    if !built("base", &[]) || !built("opt", &["-fbasic-block-sections=list=order.txt"]) {
        println!("skipped: clang-22 is not here");
        return;
    }
    if !recorded(dir, &["-e", "cpu-clock", "-o", "perf.data"], &["./opt", "30000"]) {
        return;
    }
    let words = ["report", "lines", "work", "--all", "--before", "base"];
    let found = json(dir, &words);
    let moved: Vec<(u64, u64, u64)> = all(&found, "moved_blocks")
        .iter()
        .filter_map(|one| {
            let of = |key: &str| one[key].as_u64();
            Some((of("block")?, of("behind_before")?, of("behind_now")?))
        })
        .collect();
    let second = moved.iter().any(|one| one.0 == 2 && one.2 == 0);
    assert!(second && moved.contains(&(1, 0, 2)), "{}", found["moved_blocks"]);
    let shown = text(&planish(dir, &words).stdout);
    assert!(shown.contains("bb1 (moved, was behind bb0)"), "{shown}");
    // Of the file itself nothing moved, and a file without a map tells nothing.
    let same = json(dir, &["report", "lines", "work", "--before", "opt"]);
    assert_eq!(same["moved_blocks"], Value::Array(Vec::new()));
    let other = planish(dir, &["report", "lines", "work", "--before", "/bin/true"]);
    assert!(other.status.success() && text(&other.stderr).contains("not known"), "{other:?}");
}
