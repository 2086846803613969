//! `planish livepatch` on programs that gcc and clang compile here.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn planish(dir: &Path, words: &[&str]) -> Output {
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    let verb = words.first().filter(|first| ["diff", "flags"].contains(*first));
    planish.current_dir(dir).arg("livepatch").args(verb.is_none().then_some("closure"));
    planish.args(words).stdin(Stdio::null()).output().unwrap()
}

fn json(dir: &Path, words: &[&str]) -> Value {
    let done = planish(dir, &[words, &["--format", "json"]].concat());
    assert_eq!(text(&done.stderr), "", "{words:?}");
    serde_json::from_slice(&done.stdout).unwrap()
}

const GCC: [&str; 4] = ["-O2", "-g", "-fdump-ipa-clones", "-fdump-ipa-icf-details"];

/// Compiles files of the corpus into `build`; false, with a sentence, where there is no gcc.
fn compile(dir: &Path, files: &[&str], flags: &[&str]) -> bool {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../livepatch/tests/corpus");
    std::fs::create_dir_all(dir.join("build")).unwrap();
    for file in files {
        std::fs::copy(corpus.join(file), dir.join(file)).unwrap();
        let object = format!("build/{}.o", file.split('.').next().unwrap());
        let mut gcc = Command::new("gcc");
        gcc.current_dir(dir).args(GCC).args(flags).args(["-c", file, "-o", &object]);
        match gcc.output() {
            Ok(done) => assert!(done.status.success(), "{}", text(&done.stderr)),
            Err(error) => {
                eprintln!("skipped: gcc: {error}");
                return false;
            }
        }
    }
    true
}

#[test]
fn a_closure_names_reasons_and_evidence_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    if !compile(dir, &["inline.c", "copies.c", "folded.c"], &[]) {
        return;
    }
    assert_eq!(json(dir, &["build"])["schema"], "planish-livepatch-summary");
    let told = json(dir, &["build", "--function", "tiny"]);
    assert_eq!(told["schema"], "planish-livepatch");
    let names: Vec<&str> = told["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|member| member["name"].as_str().unwrap())
        .collect();
    assert_eq!(names[0], "tiny");
    for name in ["left", "right", "middle"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(!names.contains(&"apart"), "{names:?}");
    assert_eq!(told["members"][0]["has_code"], false);
    assert_eq!(told["members"][0]["place"], "inline.c:3");
    let done = planish(dir, &["build", "--function", "one"]);
    assert!(
        text(&done.stdout)
            .contains("folded (ICF): two (folded.c:4) [folded.o]  <icf dump, symbols>"),
        "{}",
        text(&done.stdout)
    );
    let flat = text(&planish(dir, &["build", "--function", "tiny", "--emit", "flat"]).stdout);
    assert!(flat.lines().any(|line| line.starts_with("inline.o\tleft\tinline.c:")), "{flat}");
    let dot = text(&planish(dir, &["build", "--function", "tiny", "--emit", "dot"]).stdout);
    assert!(dot.starts_with("digraph") && dot.contains("label=\"inlined into\""), "{dot}");
    let possible = json(dir, &["build", "--function", "apart", "--possible"]);
    let caller = &possible["possible"][0];
    assert_eq!(
        (&caller["name"], &caller["relation"]),
        (&"main".into(), &"caller".into()),
        "{possible}"
    );
    assert!(caller["may_rely_on"].to_string().contains("-fno-ipa-ra"));
}

#[test]
fn a_patch_stands_for_the_functions_it_touches() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    if !compile(dir, &["inline.c"], &[]) {
        return;
    }
    let source = std::fs::read_to_string(dir.join("inline.c")).unwrap();
    let line = |number: usize| source.lines().nth(number - 1).unwrap();
    let hunk = |number: usize| format!("@@ -{number} +{number} @@\n-{}\n+new\n", line(number));
    let diff = format!("--- a/inline.c\n+++ b/inline.c\n{}{}", hunk(1), hunk(3));
    std::fs::write(dir.join("fix.diff"), &diff).unwrap();
    // The sources are looked for below the directory that is given.
    let done = planish(dir, &[".", "--patch", "fix.diff", "--format", "json"]);
    assert_eq!(done.status.code(), Some(1));
    let told: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(told["members"][0]["name"], "tiny", "{told}");
    assert_eq!(told["patch_outside_functions"][0]["line"], 1);
    assert!(
        text(&done.stderr).contains("inline.c:1 lies in no function"),
        "{}",
        text(&done.stderr)
    );
    std::fs::write(dir.join("fix.diff"), diff.replace("static int", "static long")).unwrap();
    let done = planish(dir, &[".", "--patch", "fix.diff"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done.stderr).contains("does not fit inline.c, line 3"), "{}", text(&done.stderr));
    std::fs::write(dir.join("fix.diff"), "no diff").unwrap();
    let done = planish(dir, &["build", "--patch", "fix.diff"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(
        text(&done.stderr).contains("fix.diff: expected a unified diff"),
        "{}",
        text(&done.stderr)
    );
}

#[test]
fn unclear_names_are_refused_with_what_to_choose() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    if !compile(dir, &["inline.c", "folded.c"], &[]) {
        return;
    }
    let refused = |words: &[&str]| {
        let done = planish(dir, words);
        assert_eq!(done.status.code(), Some(2), "{words:?}");
        text(&done.stderr)
    };
    assert!(refused(&["build", "--function", "tinny"]).contains("did you mean tiny?"));
    let several = refused(&["build", "--function", "main"]);
    assert!(several.contains("folded.c:main, inline.c:main"), "{several}");
    let told = json(dir, &["build", "--function", "folded.c:main"]);
    assert_eq!(told["members"].as_array().unwrap().len(), 1, "{told}");
    std::fs::create_dir(dir.join("empty")).unwrap();
    assert!(refused(&["empty"]).contains("-fdump-ipa-clones -fdump-ipa-icf-details"));
    assert!(refused(&["nowhere"]).contains("nowhere"));
}

#[test]
fn other_flags_make_other_closures() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    if !compile(old.path(), &["folded.c"], &[])
        || !compile(new.path(), &["folded.c"], &["-fno-ipa-icf"])
    {
        return;
    }
    let paths = [old.path().join("build"), new.path().join("build")];
    let words = ["diff", paths[0].to_str().unwrap(), paths[1].to_str().unwrap()];
    let done = planish(old.path(), &[&words[..], &["--format", "json"]].concat());
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    let told: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(told["schema"], "planish-livepatch-diff");
    let one = told["functions"].as_array().unwrap().iter().find(|it| it["name"] == "one").unwrap();
    assert_eq!(one["lost"][0]["name"], "two", "{told}");
    let same = planish(old.path(), &["diff", words[1], words[1]]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stderr));
}

#[test]
fn a_callee_may_rely_on_how_seldom_it_is_called() {
    let source = "extern int sink(int);\n\
        __attribute__((noinline)) static int callee(int x) { int s = 0; for (int i = 0; i < x; i++) s += sink(i); return s; }\n\
        ATTRIBUTE int caller(int x) { return callee(x) + callee(x + 1); }\n";
    // The caller alone differs, and -fipa-profile makes another callee of it.
    let code = |attribute: &str, flags: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("seldom.c"), source.replace("ATTRIBUTE", attribute))
            .unwrap();
        let mut gcc = Command::new("gcc");
        gcc.current_dir(dir.path()).args(GCC).args(flags).args(["-c", "seldom.c"]);
        if !gcc.status().is_ok_and(|status| status.success()) {
            return None;
        }
        let told = json(dir.path(), &[".", "--function", "caller", "--possible"]);
        let named =
            Command::new("nm").args(["-S", "seldom.o"]).current_dir(dir.path()).output().ok()?;
        let size =
            text(&named.stdout).lines().find(|line| line.ends_with(" callee")).map(str::to_owned);
        Some((size?.split(' ').nth(1)?.to_owned(), told))
    };
    let (Some((plain, told)), Some((cold, _)), Some((off, _))) = (
        code("", &[]),
        code("__attribute__((cold))", &[]),
        code("__attribute__((cold))", &["-fno-ipa-profile"]),
    ) else {
        return eprintln!("skipped: gcc or nm is not installed");
    };
    assert!(plain != cold && plain == off, "{plain} {cold} {off}");
    let callee = told["possible"].as_array().unwrap().iter().find(|it| it["name"] == "callee");
    let relies = callee.unwrap_or_else(|| panic!("{told}"))["may_rely_on"].to_string();
    assert!(relies.contains("-fno-ipa-profile"), "{relies}");
}

#[test]
fn the_compiler_is_asked_for_its_switches() {
    if Command::new("gcc").arg("--version").output().is_err() {
        return eprintln!("skipped: gcc is not installed");
    }
    let dir = tempfile::tempdir().unwrap();
    let told = json(dir.path(), &["flags"]);
    assert_eq!(told["schema"], "planish-livepatch-flags");
    let silent: Vec<&str> =
        told["without_trace"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert!(silent.contains(&"-fipa-ra") && silent.contains(&"-fipa-pure-const"), "{silent:?}");
    assert!(silent.contains(&"-fipa-profile"), "{silent:?}");
    let off = told["live_patching_turns_off"]["inline-clone"].to_string();
    assert!(off.contains("\"-fipa-icf\"") && !off.contains("-fpartial-inlining"), "{off}");
    let table = text(&planish(dir.path(), &["flags", "--matrix"]).stdout);
    let table: toml::Table = table.parse().unwrap();
    let flags = table["matrix"]["flags"].as_array().unwrap();
    assert!(
        flags.iter().any(|flag| flag.as_str() == Some("-flive-patching=inline-clone")),
        "{flags:?}"
    );
    let done = planish(dir.path(), &["flags", "--compiler", "no-such-compiler"]);
    assert_eq!(done.status.code(), Some(2));
}

/// Functions of which gcc inlines most, in two files.
const CALC: &str = "int helper(int x);\nint other(int x);\n\
    static int one(int x) { return x * 3 + 1; }\nstatic int two(int x) { return one(x) ^ 5; }\n\
    static int three(int x) { return two(x) + helper(x); }\nint four(int x) { return three(x) - 1; }\n\
    int five(int x) { return other(four(x)); }\nint main(int argc, char **argv) { (void)argv; return five(argc); }\n";
const HELPER: &str = "int other(int x) { return x + 2; }\nint helper(int x) { return other(x) * 7; }\n\
    int unused_one(int x) { return helper(x); }\nint unused_two(int x) { return other(x); }\n";

/// A program of gcc's link-time optimisation that has the name of one of its objects; false where
/// there is no gcc.
fn link_time(dir: &Path, program: &str, link: &[&str]) -> bool {
    std::fs::write(dir.join("calc.c"), CALC).unwrap();
    std::fs::write(dir.join("helper.c"), HELPER).unwrap();
    let lines = [
        [&["-flto", "-c", "calc.c"], &GCC[..]].concat(),
        [&["-flto", "-c", "helper.c"], &GCC[..]].concat(),
        [&["-flto", "-O2", "-g", "calc.o", "helper.o", "-o", program], link].concat(),
    ];
    for line in lines {
        match Command::new("gcc").current_dir(dir).args(&line).output() {
            Ok(done) => assert!(done.status.success(), "{line:?}: {}", text(&done.stderr)),
            Err(error) => {
                eprintln!("skipped: gcc: {error}");
                return false;
            }
        }
    }
    true
}

#[test]
fn a_program_that_shares_its_name_with_an_object_has_its_closures() {
    let found = ["calc", "elsewhere"].map(|program| {
        let dir = tempfile::tempdir().unwrap();
        if !link_time(dir.path(), program, &GCC) {
            return None;
        }
        let told = json(dir.path(), &[".", "--function", "one"]);
        let members = told["members"].as_array().unwrap();
        Some(members.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>())
    });
    let [Some(mut same), Some(mut other)] = found else { return };
    same.sort();
    same.dedup();
    other.sort();
    other.dedup();
    assert_eq!(same, other);
    assert!(same.len() > 2 && same.iter().any(|name| name == "main"), "{same:?}");
}

#[test]
fn a_build_whose_closures_are_implausibly_empty_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    if !link_time(dir.path(), "calc", &[]) {
        return;
    }
    for words in [&["."][..], &[".", "--function", "one"], &["diff", ".", "."]] {
        let done = planish(dir.path(), words);
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{words:?}: {said}");
        assert!(
            said.contains("link-time optimisation") && said.contains("-fdump-ipa-clones"),
            "{said}"
        );
        assert_eq!(text(&done.stdout), "");
    }
}

#[test]
fn flat_and_dot_list_the_possible_ones_too() {
    let dir = tempfile::tempdir().unwrap();
    if !compile(dir.path(), &["inline.c"], &["-fno-inline"]) {
        return;
    }
    let asked = ["build", "--function", "tiny", "--possible", "--emit"];
    let told = json(dir.path(), &asked[..4]);
    let possible = told["possible"].as_array().unwrap().len();
    assert!(possible > 0, "{told:#}");
    let flat = text(&planish(dir.path(), &[&asked[..], &["flat"]].concat()).stdout);
    let rows = flat
        .lines()
        .filter(|line| line.split('\t').nth(3).is_some_and(|it| it.starts_with("possible ")));
    assert_eq!(rows.count(), possible, "{flat}");
    assert_eq!(flat.lines().count(), told["members"].as_array().unwrap().len() + possible);
    let dot = text(&planish(dir.path(), &[&asked[..], &["dot"]].concat()).stdout);
    assert_eq!(dot.matches("label=\"possible\"").count(), possible, "{dot}");
}
