//! `planish report tree --format html`: a recorded program as one page that loads nothing, written
//! whole or not at all and never over what it reads.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn planish(dir: &Path, words: &[&str]) -> Output {
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(dir).args(words).stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn fine(dir: &Path, words: &[&str]) -> Output {
    let done = planish(dir, words);
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    done
}

fn built(dir: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/calls.c");
    let flags = ["-O1", "-g", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"];
    let built =
        Command::new("cc").current_dir(dir).args(flags).args(["-o", "calls"]).arg(source).status();
    assert!(built.unwrap().success());
}

fn recorded(dir: &Path) {
    built(dir);
    fine(dir, &["record", "-g", "-o", "perf.data", "--", "./calls"]);
}

/// What the page's script reads.
fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn a_page_holds_the_recorded_functions_with_the_weights_of_the_tables() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    recorded(here);
    fine(here, &["report", "tree", "--format", "html", "-o", "page.html"]);
    let page = std::fs::read_to_string(here.join("page.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>\n") && page.ends_with("</html>\n"));
    assert!(page.contains("default-src &#39;none&#39;"));
    assert!(!page.contains("http://") && !page.contains("https://"), "it names an address");
    assert!(page.contains("./calls</dd>"), "the command line is missing");
    let found = data(&page);
    let hot = fine(here, &["report", "hot", "--format", "json", "--limit", "0", "--percent", "0"]);
    let hot: Value = serde_json::from_slice(&hot.stdout).unwrap();
    let shown = &found["views"][0];
    assert_eq!(shown["weight"], hot["weight"]);
    for row in hot["rows"].as_array().unwrap() {
        let name = found["names"].as_array().unwrap().iter().position(|n| *n == row["function"]);
        let table = &shown["table"];
        let functions = table["f"].as_array().unwrap().iter().enumerate();
        let is_it = |of: &Value| {
            let of = of.as_u64().map(|of| of as usize).unwrap();
            found["functions"]["name"][of].as_u64() == name.map(|name| name as u64)
        };
        let own = functions.filter(|(_, of)| is_it(of)).any(|(at, _)| {
            table["o"][at] == row["self_weight"] && table["t"][at] == row["total_weight"]
        });
        assert!(own, "{row}");
    }
    let sum = |key: &str| -> u64 {
        shown["calls"][key].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum()
    };
    assert_eq!(Some(sum("w")), hot["weight"].as_u64());
    assert_eq!(Some(sum("s")), hot["samples"].as_u64());
    // Without -o it goes to standard output, the same.
    let printed = fine(here, &["report", "tree", "--format", "html"]);
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), page);
}

#[test]
fn a_page_is_renamed_over_an_older_one_and_never_over_the_recording() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    recorded(here);
    let inode = |name: &str| std::fs::metadata(here.join(name)).unwrap().ino();
    let words = ["report", "tree", "perf.data", "--format", "html", "-o"];
    std::fs::write(here.join("page.html"), "old").unwrap();
    // A name of the old file still has what was in it.
    std::fs::hard_link(here.join("page.html"), here.join("kept.html")).unwrap();
    fine(here, &[&words[..], &["page.html"]].concat());
    assert_ne!(inode("page.html"), inode("kept.html"));
    assert_eq!(std::fs::read(here.join("kept.html")).unwrap(), b"old");
    // The other forms are written as they are printed.
    for form in [&["--format", "text"][..], &["--format", "json"], &["--emit", "folded"]] {
        let words = [&["report", "tree"][..], form].concat();
        let printed = fine(here, &words).stdout;
        fine(here, &[&words[..], &["-o", "out"]].concat());
        assert_eq!(std::fs::read(here.join("out")).unwrap(), printed, "{form:?}");
    }
    let before = std::fs::read(here.join("perf.data")).unwrap();
    std::os::unix::fs::symlink("perf.data", here.join("soft.data")).unwrap();
    for output in ["perf.data", "./perf.data", "soft.data"] {
        let done = planish(here, &[&words[..], &[output]].concat());
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{output}: {said}");
        assert!(said.contains("is the input perf.data"), "{output}: {said}");
    }
    assert!(std::fs::read(here.join("perf.data")).unwrap() == before);
    // A failure leaves the page as it was.
    let page = std::fs::read(here.join("page.html")).unwrap();
    let failed = [&words[..], &["page.html", "--event", "none"]].concat();
    assert_eq!(planish(here, &failed).status.code(), Some(2));
    assert!(std::fs::read(here.join("page.html")).unwrap() == page);
}

#[test]
fn a_page_has_all_events_the_threads_over_time_and_source_lines() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    built(here);
    let events = ["--switch-events", "-g", "-e", "cpu-clock"];
    fine(here, &[&["record"][..], &events, &["-o", "perf.data", "--", "./calls"]].concat());
    fine(here, &["report", "tree", "--format", "html", "-o", "page.html"]);
    let found = data(&std::fs::read_to_string(here.join("page.html")).unwrap());
    let views = found["views"].as_array().unwrap();
    let weight = |kind: &str| views.iter().find(|v| v["kind"] == kind).map(|v| &v["weight"]);
    assert!(weight("cpu").is_some(), "{views:?}");
    assert_eq!(found["time"]["source"], "switches");
    assert_eq!(found["time"]["threads"][0]["parts"][0].as_str().unwrap().len(), 1024);
    // Each event weighs what it does elsewhere, and all kinds of time together their sum.
    for view in views.iter().filter(|view| view["kind"] != "all") {
        let event = view["name"].as_str().unwrap();
        let hot = fine(here, &["report", "hot", "--format", "json", "--event", event]);
        let hot: Value = serde_json::from_slice(&hot.stdout).unwrap();
        assert_eq!(view["weight"], hot["weight"], "{event}");
        // The weights by time are those of the whole.
        let sum = |list: &Value| -> u64 {
            list.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum()
        };
        assert_eq!(Some(sum(&view["times"]["w"])), view["weight"].as_u64(), "{event}");
    }
    if let Some(all) = weight("all") {
        let timed = |view: &&Value| view["kind"] == "cpu" || view["waits"] == true;
        let sum: u64 = views.iter().filter(timed).map(|v| v["weight"].as_u64().unwrap()).sum();
        assert_eq!(all.as_u64(), Some(sum));
    }
    // The heaviest function with its source, as `lines` has it.
    let first = &found["lines"][0];
    let name = &found["names"][found["functions"]["name"][first["f"].as_u64().unwrap() as usize]
        .as_u64()
        .unwrap() as usize];
    let lines =
        fine(here, &["report", "lines", name.as_str().unwrap(), "--all", "--format", "json"]);
    let lines: Value = serde_json::from_slice(&lines.stdout).unwrap();
    assert_eq!(first["own"], lines["self_weight"]);
    let hottest = |lines: &Value, weight: &str, text: &str| {
        let all = lines["lines"].as_array().unwrap().iter();
        let most = all.max_by_key(|line| line[weight].as_u64().unwrap_or(0)).unwrap();
        // A page has no tab stops.
        let told = most[text].as_str().unwrap_or_default().replace('\t', "    ");
        (most[weight].clone(), told)
    };
    assert_eq!(hottest(first, "w", "t"), hottest(&lines, "weight", "source"));
    assert!(!hottest(first, "w", "t").1.is_empty());
    // They can be left out.
    fine(here, &["report", "tree", "--format", "html", "--lines", "0", "-o", "page.html"]);
    let found = data(&std::fs::read_to_string(here.join("page.html")).unwrap());
    assert_eq!(found["lines"], serde_json::json!([]));
}

#[test]
fn a_difference_is_a_page_with_the_rows_of_its_json() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    recorded(here);
    std::fs::rename(here.join("perf.data"), here.join("old.data")).unwrap();
    fine(here, &["record", "-g", "-o", "new.data", "--", "./calls"]);
    let words = ["report", "diff", "old.data", "new.data", "--limit", "0", "--format"];
    let run = |more: &[&str]| {
        let done = planish(here, &[&words[..], more].concat());
        // 1: something moved, as it may on a busy machine.
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(matches!(done.status.code(), Some(0 | 1)), "{said}");
        done.stdout
    };
    run(&["html", "-o", "diff.html"]);
    let page = std::fs::read_to_string(here.join("diff.html")).unwrap();
    assert!(page.contains("default-src &#39;none&#39;"));
    let found = data(&page);
    let told: Value = serde_json::from_slice(&run(&["json"])).unwrap();
    let rows = told["rows"].as_array().unwrap();
    assert_eq!(found["difference"]["name"].as_array().unwrap().len(), rows.len());
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(found["difference"]["name"][at], row["name"]);
        assert_eq!(found["difference"]["verdict"][at], row["verdict"]);
    }
    let names: Vec<&Value> =
        found["views"].as_array().unwrap().iter().map(|v| &v["name"]).collect();
    assert_eq!(names, ["new", "old"]);
    let refused = planish(here, &[&words[..], &["html", "-o", "new.data"]].concat());
    assert_eq!(refused.status.code(), Some(2));
}
