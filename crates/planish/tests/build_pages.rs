//! `pages` in planish.toml as a user sees it: `planish build` makes programs whose text can lie on
//! superpages and does, with clang and with gcc, without larger files unless they are wanted.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Text of 5.25 MiB.
const PROGRAM: &str = r#"
#include <stdio.h>
#define PAD(name) __attribute__((noinline)) int name(int x) { __asm__ volatile(".fill 0x150000, 1, 0x90"); return x + 1; }
PAD(f1) PAD(f2) PAD(f3) PAD(f4)
int main(void) { printf("%d\n", f1(f2(f3(f4(0))))); return 0; }
"#;

struct Made {
    bytes: u64,
    /// As the linker made it.
    linked: u64,
    pct: f64,
    /// What the build and the step said.
    log: String,
}

fn planish(folder: &Path, words: &[&str]) -> (Value, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
    let done = command.args(words).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    // Everything eligible in small pages is 1, which the callers look at.
    assert!(matches!(done.status.code(), Some(0 | 1)), "{words:?}: {said}");
    (serde_json::from_slice(&done.stdout).unwrap_or_default(), said)
}

fn made(folder: &Path, compiler: &str, pages: &str) -> Made {
    let config = format!(
        "[build]\ncommand = '$PLANISH_CC $PLANISH_CFLAGS app.c $PLANISH_LDFLAGS -o $PLANISH_OUT/app'\nbinary = 'app'\n\
         compiler = '{compiler}'\n{pages}\n[workload]\ntrain = '{{bin}} a'\n[evaluate]\ncommand = '{{bin}} b'\n"
    );
    std::fs::write(folder.join("app.c"), PROGRAM).unwrap();
    std::fs::write(folder.join("planish.toml"), config).unwrap();
    let (_, said) = planish(folder, &["build", "-o", "app"]);
    let run = Command::new(folder.join("app")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&run.stdout), "4\n", "{said}");
    let (found, _) = planish(folder, &["pages", "check", "--format", "json", "app"]);
    let length = |name: &str| std::fs::metadata(folder.join(name)).unwrap().len();
    Made {
        bytes: length("app"),
        linked: length(".planish/build/app"),
        pct: found["eligible_pct"].as_f64().unwrap(),
        log: std::fs::read_to_string(folder.join(".planish/log/build.log")).unwrap(),
    }
}

fn there(tools: &[&str]) -> bool {
    let missing = tools.iter().find(|tool| Command::new(tool).arg("--version").output().is_err());
    if let Some(tool) = missing {
        eprintln!("skipped: {tool} is not installed");
    }
    missing.is_none()
}

#[test]
fn clang_and_lld_align_the_text_for_no_byte() {
    if !there(&["clang-22", "ld.lld-22"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [off, auto, always] =
        ["pages = 'off'", "", "pages = 'always'"].map(|pages| made(folder.path(), "clang", pages));
    assert_eq!(off.pct, 0.0);
    assert!(auto.pct >= 38.0 && auto.bytes == off.bytes, "{} % in {} bytes", auto.pct, auto.bytes);
    assert_eq!(auto.bytes, auto.linked);
    assert!(
        always.pct == 100.0 && always.bytes <= off.bytes + (8 << 20),
        "{} % in {}",
        always.pct,
        always.bytes
    );
}

#[test]
fn what_gnu_ld_makes_is_rewritten_where_it_has_a_superpage() {
    if !there(&["gcc"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [off, auto] =
        ["pages = 'off'", "pages = 'auto'"].map(|pages| made(folder.path(), "gcc", pages));
    assert_eq!((off.pct, off.bytes), (0.0, off.linked));
    assert!(
        auto.pct >= 38.0 && auto.bytes <= off.bytes + (16 << 10),
        "{} % in {} bytes",
        auto.pct,
        auto.bytes
    );
    assert!(
        auto.log.contains("of its text can lie on superpages (as linked: 0.0 %)"),
        "{}",
        auto.log
    );
    // Written 2 MiB at a time it lies so at once, where the file system can.
    let (probe, _) =
        planish(folder.path(), &["pages", "probe", "--superpages", "1", "--format", "json"]);
    let (warmed, said) =
        planish(folder.path(), &["pages", "warm", "--alone", "--format", "json", "app"]);
    let large = probe["tried"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["mechanism"] == "written in 2 MiB writes");
    if large.unwrap()["works"] == false || warmed["whole"] == false {
        return eprintln!("skipped: no file-backed superpages from large writes here: {said}");
    }
    // The first program of this name was written in small pages and is another file.
    let before = warmed["before_bytes"].as_u64().unwrap();
    assert!(before >= 2 << 20 && before == warmed["eligible_bytes"], "{warmed}");
}
