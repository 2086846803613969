//! What the linked program adds to what its objects say, and what it must not add.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use livepatch::{Analysis, analyse, closure, scan, select};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const HEADER: &str = "int puts(const char *);\n\
    __attribute__((noinline)) static int lock(int *p) { puts(\"lock\"); return *p + 1; }\n";
const TWIN: &str =
    "__attribute__((noinline)) static int write_lock(int *p) { puts(\"lock\"); return *p + 1; }\n";

/// Compiles two files with a header and links them; `None`, with a sentence, where there is no such
/// compiler.
fn build(
    header: &str,
    body: &str,
    compiler: &str,
    flags: &[&str],
    link: &[&str],
) -> Option<tempfile::TempDir> {
    if Command::new(compiler).arg("--version").output().is_err() {
        eprintln!("skipped: {compiler} is not installed");
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    std::fs::write(path.join("lock.h"), header).unwrap();
    for (name, function) in [("x.c", "ex"), ("y.c", "ey")] {
        let text = format!("#include \"lock.h\"\nint {function}(int *p) {{ return {body}; }}\n");
        std::fs::write(path.join(name), text).unwrap();
        run(path, &[&[compiler], flags, &["-c", name]].concat());
    }
    let main = "int ex(int *), ey(int *);\nint main(int c, char **v) { (void)v; return ex(&c) + ey(&c) == 99; }\n";
    std::fs::write(path.join("main.c"), main).unwrap();
    run(path, &[&[compiler], flags, &["-c", "main.c"]].concat());
    run(path, &[&[compiler], link, &["x.o", "y.o", "main.o", "-o", "program"]].concat());
    Some(directory)
}

fn run(directory: &Path, words: &[&str]) {
    let done = Command::new(words[0]).current_dir(directory).args(&words[1..]).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn members(analysis: &Analysis, name: &str) -> BTreeSet<(String, String)> {
    let found = closure(&analysis.graph, &analysis.graph.named(name)[..1]);
    found.members.iter().filter_map(|member| analysis.full_name(member.node)).collect()
}

fn pair(unit: &str, name: &str) -> (String, String) {
    (unit.to_owned(), name.to_owned())
}

#[test]
fn what_the_compiler_folded_in_each_object_ties_no_other_object() {
    let header = format!("{HEADER}{TWIN}");
    let body = "lock(p) * write_lock(p)";
    let Some(directory) = build(&header, body, "gcc", &["-O2", "-g"], &[]) else { return };
    let analysis = analyse(&scan(directory.path(), 2).unwrap(), 1, &|_| ()).unwrap();
    let found = members(&analysis, "lock");
    assert!(found.contains(&pair("x.o", "write_lock")), "gcc folded nothing: {found:?}");
    assert!(found.iter().all(|(unit, _)| unit == "x.o"), "{found:?}");
    assert_eq!(select(&analysis, "lock").unwrap().len(), 2);
}

#[test]
fn what_the_linker_folded_ties_functions_of_one_name() {
    let flags = ["-O2", "-g", "-ffunction-sections"];
    let link = ["-fuse-ld=lld-22", "-Wl,--icf=all"];
    let Some(directory) = build(HEADER, "lock(p)", "clang-22", &flags, &link) else { return };
    let analysis = analyse(&scan(directory.path(), 2).unwrap(), 1, &|_| ()).unwrap();
    let found = members(&analysis, "lock");
    assert!(found.contains(&pair("y.o", "lock")), "{found:?}");
}
