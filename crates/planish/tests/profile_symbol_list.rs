//! With a list of the binary's functions, the compiler takes those without samples for cold.

#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on shall fail its test")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use image::Image;

fn run(directory: &Path, program: &str, words: &[&str]) -> Option<Output> {
    let output =
        Command::new(program).args(words).current_dir(directory).stdin(Stdio::null()).output();
    output.map_err(|error| eprintln!("skipped: {program}: {error}")).ok()
}

#[test]
fn functions_that_were_never_sampled_are_cold_to_the_compiler() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let source =
        "int seen(int n)\n{\n\treturn n * 3;\n}\nint unseen(int n)\n{\n\treturn n * 5;\n}\n";
    std::fs::write(directory.join("c.c"), source).unwrap();
    let flags =
        ["-O2", "-g", "-shared", "-fPIC", "-nostdlib", "-Wl,--build-id", "-o", "lib.so", "c.c"];
    let Some(built) = run(directory, "clang-22", &flags) else { return };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let image = Image::open(&directory.join("lib.so")).unwrap();
    let seen = image.functions().iter().find(|function| function.name == "seen").unwrap();
    let line = format!("F {:x} {:x} 500\n", seen.address.0, seen.address.0 + 3);
    std::fs::write(directory.join("counts.txt"), line).unwrap();

    let planish = env!("CARGO_BIN_EXE_planish");
    let make = ["profile", "counts.txt", "--binary", "lib.so", "-o"];
    // The entry counts of both functions in the compiler's own words: a call by itself has none, so
    // -1 is unknown.
    let counts = |profile: &str, more: &[&str]| {
        let made = run(directory, planish, &[&make[..], &[profile], more].concat()).unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let with = format!("-fprofile-sample-use={profile}");
        let words = ["-O2", "-g", "-fPIC", "-S", "-emit-llvm", "-o", "-", &with, "c.c"];
        let compiled = run(directory, "clang-22", &words).unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let text = String::from_utf8(compiled.stdout).unwrap();
        ["seen", "unseen"].map(|name| entry_count(&text, name))
    };
    let [seen, unseen] = counts("plain.afdo", &[]);
    assert!(seen.is_some_and(|count| count > 0), "{seen:?}");
    assert_eq!(unseen, Some(-1));
    let [with_list, unseen] = counts("listed.afdo", &["--symbol-list"]);
    assert_eq!((with_list, unseen), (seen, Some(0)));

    let refused = [&make[..], &["x.prof", "--symbol-list", "--emit", "text"]].concat();
    let refused = run(directory, planish, &refused).unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("--symbol-list is for --emit extbinary")
    );
}

/// The number of `!prof` on the definition of a function.
fn entry_count(text: &str, function: &str) -> Option<i64> {
    let definition = text
        .lines()
        .find(|line| line.starts_with("define") && line.contains(&format!("@{function}(")))?;
    let node = definition.split("!prof ").nth(1)?.split_whitespace().next()?;
    let line = text.lines().find(|line| line.starts_with(&format!("{node} = ")))?;
    line.rsplit("i64 ").next()?.trim_end_matches('}').parse().ok()
}
