//! `planish profile match` on a real program: after an edit, the matched old profile says of the
//! new source nearly what a fresh recording says.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const OLD: &str = include_str!("programs/stale.c");

/// What the newer source has in place of what. The program computes the same.
const EDITS: &[(&str, &str)] = &[
    // Above the hot functions: lines, a new function, one less.
    ("static int sink;\n", "static int sink;\n/* Some\n * lines\n * more. */\n"),
    (
        "__attribute__((noinline)) int unused(int x) {\n  int r = x;\n  for (int i = 0; i < 3; i++)\n    r += helper(i);\n  \
         return r;\n}\n",
        "__attribute__((noinline)) int check(int x) {\n  return x ^ (x >> 3);\n}\n",
    ),
    // In the hottest function: lines above the loop, a new call in it, lines between two cases,
    // lines away.
    (
        "  int r = 0;\n  for (int i",
        "  int r = 0;\n\n  /* A comment,\n   * above the loop. */\n  for (int i",
    ),
    (
        "    r += twice(r);\n",
        "    r += twice(r);\n\n    /* Never so large. */\n    if (i == 1000)\n      r += check(r);\n",
    ),
    ("    case 1:\n", "    case 1:\n      /* two */\n"),
    ("  /* This comment goes\n   * in the newer source. */\n", ""),
    // In another one: a call at its begin.
    ("  int h = 7;\n", "  int h = 7;\n  if (n < 0)\n    return check(n);\n"),
    ("    s += work(i & 63);\n", "    /* work */\n    s += work(i & 63);\n"),
];

const FLAGS: &[&str] = &[
    "-O2",
    "-gmlt",
    "-fdebug-info-for-profiling",
    "-funique-internal-linkage-names",
    "-Wl,--build-id",
];

struct Shop {
    dir: tempfile::TempDir,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Shop {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn planish(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
        command.current_dir(self.dir.path()).args(words).stdin(Stdio::null()).output().unwrap()
    }

    #[track_caller]
    fn ends(&self, words: &[&str], code: i32) -> String {
        let output = self.planish(words);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}{said}", text(&output.stdout));
        text(&output.stdout)
    }

    /// Compiles a source as `NAME/app` and profiles it as `NAME.afdo`; false without the tools. The
    /// source is always called `app.c`, in another directory each time, so that names of local
    /// functions differ in their hash.
    fn build(&self, name: &str, source: &str) -> bool {
        std::fs::create_dir(self.path(name)).unwrap();
        std::fs::write(self.path(&format!("{name}/app.c")), source).unwrap();
        let (source, app) = (format!("{name}/app.c"), format!("{name}/app"));
        let mut clang = Command::new("clang-22");
        let built =
            clang.args(FLAGS).args([&source, "-o", &app]).current_dir(self.dir.path()).status();
        if !built.is_ok_and(|status| status.success()) {
            eprintln!("skipped: clang-22 is not installed");
            return false;
        }
        let data = format!("{name}.data");
        let recorded = self.planish(&[
            "record",
            "--branches=emulated",
            "-c",
            "100",
            "-o",
            &data,
            "--",
            &format!("./{app}"),
        ]);
        if !recorded.status.success() {
            eprintln!("skipped: no emulated recording: {}", text(&recorded.stderr));
            return false;
        }
        self.ends(&["profile", &data, "--binary", &app, "-o", &format!("{name}.afdo")], 0);
        true
    }

    fn overlap(&self, base: &str, test: &str) -> f64 {
        let said = self.ends(&["profile", "diff", base, test, "--format", "json"], 0);
        let value: Value = serde_json::from_str(&said).unwrap();
        value["overlap"]["overlap_pct"].as_f64().unwrap()
    }
}

fn edited() -> String {
    EDITS.iter().fold(OLD.to_owned(), |source, (old, new)| {
        assert_eq!(source.matches(old).count(), 1, "an edit finds its place once: {old}");
        source.replace(old, new)
    })
}

#[test]
fn after_an_edit_the_matched_profile_is_that_of_a_fresh_recording() {
    let shop = Shop { dir: tempfile::tempdir().unwrap() };
    if !shop.build("old", OLD) || !shop.build("new", &edited()) {
        return;
    }
    // Names of local functions tell the directory, so of these the old profile says nothing yet.
    let before = shop.overlap("old.afdo", "new.afdo");
    let words = [
        "profile",
        "match",
        "old.afdo",
        "--binary",
        "new/app",
        "-o",
        "matched.afdo",
        "--format",
        "json",
    ];
    let said = shop.ends(&words, 0);
    let after = shop.overlap("matched.afdo", "new.afdo");
    eprintln!("overlap with a fresh recording: {before:.1} % before, {after:.1} % after");
    assert!(before < 60.0, "{before}");
    assert!(after >= 90.0, "{after}: {said}");

    let value: Value = serde_json::from_str(&said).unwrap();
    let report = &value["report"];
    assert!(report["functions"]["renamed"].as_u64().unwrap() >= 3, "{said}");
    let samples = |name: &str| report["samples"][name].as_u64().unwrap();
    let reasons = [
        "stayed",
        "moved",
        "of_gone",
        "of_ambiguous",
        "of_lost",
        "of_removed_lines",
        "of_collisions",
    ];
    assert_eq!(samples("all"), reasons.iter().map(|reason| samples(reason)).sum::<u64>(), "{said}");
    assert!(value["carried_pct"].as_f64().unwrap() > 97.0, "{said}");
    assert!(
        value["with_code_after_pct"].as_f64() > value["with_code_before_pct"].as_f64(),
        "{said}"
    );

    // What was matched once fits.
    shop.ends(&["profile", "match", "matched.afdo", "--binary", "new/app", "-o", "again.afdo"], 0);
    assert!(shop.overlap("again.afdo", "matched.afdo") > 99.9);
}

#[test]
fn a_profile_of_the_same_program_stays_byte_for_byte() {
    let shop = Shop { dir: tempfile::tempdir().unwrap() };
    if !shop.build("old", OLD) {
        return;
    }
    let words = [
        "profile",
        "match",
        "old.afdo",
        "--binary",
        "old/app",
        "-o",
        "out.afdo",
        "--min-match",
        "100",
    ];
    let said = shop.ends(&words, 0);
    assert!(said.contains("fits already") && said.contains("100.0 %"), "{said}");
    assert_eq!(
        std::fs::read(shop.path("old.afdo")).unwrap(),
        std::fs::read(shop.path("out.afdo")).unwrap()
    );
    // Other formats, also to standard output, where the measure makes room.
    shop.ends(&["profile", "merge", "old.afdo", "-o", "old.text", "--emit", "text"], 0);
    let said = shop.ends(&["profile", "match", "old.text", "--binary", "old/app", "-o", "-"], 0);
    assert_eq!(said, std::fs::read_to_string(shop.path("old.text")).unwrap());
}

#[test]
fn a_profile_of_another_program_is_a_negative_finding() {
    let shop = Shop { dir: tempfile::tempdir().unwrap() };
    let other = "int a(int x) { return x + 1; }\nint main(int argc, char **argv) {\n  return a(argc) > 99;\n}\n";
    if !shop.build("old", OLD) {
        return;
    }
    std::fs::write(shop.path("other.c"), other).unwrap();
    let mut clang = Command::new("clang-22");
    clang
        .args(FLAGS)
        .args(["other.c", "-o", "other"])
        .current_dir(shop.dir.path())
        .status()
        .unwrap();
    let said = shop.ends(&["profile", "match", "old.afdo", "--binary", "other"], 1);
    assert!(said.contains("less than 50 %") && said.contains("gone"), "{said}");
    shop.ends(&["profile", "match", "old.afdo", "--binary", "other", "--min-match", "0"], 0);
    clang = Command::new("clang-22");
    clang.args(["other.c", "-o", "bare"]).current_dir(shop.dir.path()).status().unwrap();
    let output = shop.planish(&["profile", "match", "old.afdo", "--binary", "bare"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("-gmlt"), "{}", text(&output.stderr));
}
