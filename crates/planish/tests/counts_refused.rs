//! Inputs of counts on the command line: too few are refused unless asked for, and peers' spellings
//! are understood.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/autofdo").join(name)
}

fn planish(dir: &Path, words: &[&str]) -> Output {
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(dir).args(words).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn two_branches_of_thousands_make_no_counts_unless_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut script = String::from(
        "app 10/10 PERF_RECORD_MMAP2 10/10: [0x400000(0x100000) @ 0 08:01 7 0]: r-xp /opt/test.binary\n\
         app 10/10 PERF_RECORD_MMAP2 10/10: [0x7f0000000000(0x1000) @ 0 08:01 7 0]: r-xp /opt/other\n",
    );
    for _ in 0..3000 {
        writeln!(script, "10 7f0000000010 0x7f0000000080/0x7f0000000010/P/-/-/0").unwrap();
    }
    writeln!(script, "10 401680 0x401690/0x401680/P/-/-/0").unwrap();
    std::fs::write(dir.path().join("run.txt"), script).unwrap();
    let binary = fixture("test.binary");
    let words = ["aggregate", "run.txt", "--binary", binary.to_str().unwrap(), "-o", "run.counts"];
    let done = planish(dir.path(), &words);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    for part in ["run.txt: only 1 of 3001 branches", "--binary", "--allow-few"] {
        assert!(said.contains(part), "no `{part}` in {said}");
    }
    assert!(!dir.path().join("run.counts").exists());
    let done = planish(dir.path(), &[&words[..], &["--allow-few"]].concat());
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("matched by its name only"), "{said}");
}

#[test]
fn the_spellings_of_create_llvm_prof_and_llvm_profgen_make_the_same_profile() {
    let dir = tempfile::tempdir().unwrap();
    let (binary, recording) = (fixture("test.binary"), fixture("test.lbr"));
    let (binary, recording) =
        (format!("--binary={}", binary.display()), recording.display().to_string());
    let made = |words: &[&str], name: &str| {
        let done = planish(dir.path(), words);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        std::fs::read(dir.path().join(name)).unwrap()
    };
    let own = made(&["profile", &recording, &binary, "-o", "own.afdo"], "own.afdo");
    let profile = format!("--profile={recording}");
    assert_eq!(own, made(&["profile", &profile, &binary, "--out=autofdo.afdo"], "autofdo.afdo"));
    let profile = format!("--perfdata={recording}");
    assert_eq!(own, made(&["profile", &profile, &binary, "--output=profgen.afdo"], "profgen.afdo"));
    // Without any input the message names the word that is ours.
    let done = planish(dir.path(), &["profile", &binary, "-o", "none.afdo"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("INPUT"));
}
