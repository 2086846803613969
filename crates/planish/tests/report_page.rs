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

fn recorded(dir: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/calls.c");
    let flags = ["-O1", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-o", "calls"];
    let built = Command::new("cc").current_dir(dir).args(flags).arg(source).status();
    assert!(built.unwrap().success());
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
    assert_eq!(found["weight"], hot["weight"]);
    for row in hot["rows"].as_array().unwrap() {
        let name = found["names"].as_array().unwrap().iter().position(|n| *n == row["function"]);
        let functions = &found["functions"];
        let names = functions["name"].as_array().unwrap().iter().enumerate();
        let own =
            names.filter(|(_, of)| of.as_u64() == name.map(|name| name as u64)).any(|(at, _)| {
                functions["own"][at] == row["self_weight"]
                    && functions["total"][at] == row["total_weight"]
            });
        assert!(own, "{row}");
    }
    let sum = |key: &str| -> u64 {
        found["calls"][key].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum()
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
