//! What does `planish kernel compare` refuse before anything is built? (Builds and verdicts are tested in `crates/kernel`; whole
//! kernels by `make study NAME=align`.)

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::process::{Command, Stdio};

fn refused(words: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(folder.path()).args(["kernel", "compare", "linux", "--output-dir", "out"]);
    let done = planish.args(words).stdin(Stdio::null()).output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(2), "{words:?}: {told}");
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "{words:?}: nothing is written"
    );
    told
}

#[test]
fn what_cannot_be_compared_is_refused_by_name() {
    for (words, why) in [
        (&["--variant", "base"][..], "nothing to compare with the base"),
        (&["--variant", "a", "--variant", "a: KCFLAGS=-O3"], "two variants have this name"),
        (&["--variant", "a: -O3"], "`-O3`: expected CONFIG_NAME=value, or a variable of make"),
        (&["--variant", "a: LD=ld.bfd"], "LD is planish's own"),
        (&["--variant", "../a: CC=gcc"], "a name has 1 to 40 letters"),
        (&["--variant", "a: KCFLAGS='-O3"], "--variant 'a: KCFLAGS='-O3'"),
        (&["--variant", "a: CC=gcc", "--margin", "0"], "give a percentage between 0 and 100"),
        (&["--variant", "a: CC=gcc", "--fail-if", "ugly"], "ugly"),
        (&["--variant", "a: CC=gcc"], "linux: No such file or directory"),
        (&["--variant", "a: CC=gcc", "--rounds", "3"], "times have rounds (--native)"),
        (&["--variant", "a: CONFIG_SMP=y", "--native"], "a: CONFIG_SMP: times of a kernel"),
        (&["--variant", "a: KCFLAGS=-mretpoline", "--native"], "counts are compared"),
        (&["--variant", "a: CC=gcc", "--native", "--metric", "instructions"], "cannot be used"),
    ] {
        let told = refused(words);
        assert!(told.contains(why), "{words:?}: {told}");
    }
}

#[test]
fn planish_toml_says_what_the_command_line_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let said = |file: &str, words: &[&str]| {
        std::fs::write(folder.path().join("planish.toml"), file).unwrap();
        let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
        planish.current_dir(folder.path()).args(["kernel", "compare"]).args(words);
        let done = planish.stdin(Stdio::null()).output().unwrap();
        assert_eq!(done.status.code(), Some(2), "{done:?}");
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    let variants = "[kernel.variants]\nbase = ''\na = 'CC=gcc'\n";
    let whole = format!("[kernel]\ntree = 'from-file'\noutput_dir = 'out'\n{variants}");
    for (file, words, why) in [
        (whole.as_str(), &[][..], "from-file: No such file"),
        (&whole, &["other"], "--output-dir DIR"),
        (&whole, &["other", "--project", "planish.toml"], "other: No such file"),
        (variants, &["--output-dir", "out"], "which TREE is built"),
        ("[kernel]\ntree = 'x'\noutput_dir = 'o'\n", &[], "[kernel.variants] in planish.toml"),
        (&whole.replace("tree", "metric = 'ugly'\ntree"), &[], "take one of l1i-misses"),
        (&whole.replace("tree", "orders = 5000\ntree"), &[], "1000 are the most"),
        (&whole.replace("CC=gcc", "-O3"), &[], "`-O3`: expected CONFIG_NAME=value"),
        (&whole.replace("tree", "native = true\nmetric = 'instructions'\ntree"), &[], "no meaning"),
        (&whole.replace("tree", "rounds = 3\ntree"), &[], "--rounds 3: counts are the same"),
        (
            &whole.replace("CC=gcc", "CONFIG_SMP=y").replace("tree", "native = true\ntree"),
            &[],
            "one CPU",
        ),
        ("[build]\n", &[], "it has no [kernel]"),
        (&whole, &["--project", "no.toml"], "no.toml"),
    ] {
        let told = said(file, words);
        assert!(told.contains(why), "{words:?}: {told}\n{file}");
    }
}
