//! Inlining that follows a profile drifts with it: two builds of one source, each with the profile
//! of another workload, need different patches.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

fn run(dir: &Path, words: &[&str]) {
    let done = Command::new(words[0]).current_dir(dir).args(&words[1..]).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Builds the program with the profile of one workload; what was used to record the profile is
/// removed.
fn build(dir: &Path, workload: &str) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../livepatch/tests/corpus");
    std::fs::create_dir(dir).unwrap();
    std::fs::copy(corpus.join("drift.c"), dir.join("drift.c")).unwrap();
    run(dir, &["gcc", "-O2", "-fprofile-generate", "-c", "drift.c", "-o", "drift.o"]);
    run(dir, &["gcc", "-fprofile-generate", "drift.o", "-o", "record"]);
    run(dir, &["./record", workload]);
    std::fs::remove_file(dir.join("record")).unwrap();
    let flags = ["-O2", "-g", "-fprofile-use", "-fdump-ipa-clones", "-fdump-ipa-icf-details"];
    run(dir, &[&["gcc"], &flags[..], &["-c", "drift.c", "-o", "drift.o"]].concat());
}

#[test]
fn profiles_of_two_workloads_need_two_patches() {
    if Command::new("gcc").arg("--version").output().is_err() {
        return eprintln!("skipped: gcc is not installed");
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for workload in ["first", "second"] {
        build(&dir.join(workload), workload);
    }
    let planish = |words: &[&str]| {
        let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
        planish.current_dir(dir).arg("livepatch").args(words).stdin(Stdio::null()).output().unwrap()
    };
    let done = planish(&["diff", "first", "second", "--function", "blend", "--format", "json"]);
    assert_eq!(done.status.code(), Some(1), "{}", String::from_utf8_lossy(&done.stderr));
    let told: Value = serde_json::from_slice(&done.stdout).unwrap();
    let blend = &told["functions"][0];
    assert_eq!((&blend["name"], &blend["object"]), (&"blend".into(), &"drift.o".into()), "{told}");
    let names = |side: &str| -> Vec<&str> {
        blend[side].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect()
    };
    assert!(names("lost").contains(&"first") && names("gained").contains(&"second"), "{told}");
    assert!(!names("lost").contains(&"second") && !names("gained").contains(&"first"), "{told}");
    let same = planish(&["diff", "first", "first"]);
    assert_eq!(same.status.code(), Some(0), "{}", String::from_utf8_lossy(&same.stderr));
}
