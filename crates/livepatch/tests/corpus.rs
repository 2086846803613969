//! Closures are complete: a constant in a function's body is changed, the program built again with
//! the same flags, and every function whose machine code changed must be in the closure of the one
//! that was edited.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use livepatch::{Analysis, NodeId, analyse, closure, scan};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A compiler with the flags that make it write dumps.
struct Compiler {
    name: &'static str,
    cxx: &'static str,
    flags: &'static [&'static str],
}

const GCC: Compiler = Compiler {
    name: "gcc",
    cxx: "g++",
    flags: &["-O2", "-g", "-fdump-ipa-clones", "-fdump-ipa-icf-details"],
};
const CLANG: Compiler = Compiler {
    name: "clang-22",
    cxx: "clang++-22",
    flags: &["-O2", "-g", "-fsave-optimization-record"],
};

fn corpus(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name))
        .unwrap()
}

fn is_there(compiler: &Compiler) -> bool {
    let found = [compiler.name, compiler.cxx]
        .iter()
        .all(|it| Command::new(it).arg("--version").output().is_ok());
    if !found {
        eprintln!("skipped: {} or {} is not installed", compiler.name, compiler.cxx);
    }
    found
}

/// Compiles sources in a directory of their own; with `link`, one program by link-time
/// optimisation.
fn build(
    compiler: &Compiler,
    sources: &[(&str, String)],
    more: &[&str],
    link: bool,
) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let mut objects = Vec::new();
    for (name, text) in sources {
        std::fs::write(directory.path().join(name), text).unwrap();
        let driver = if name.ends_with(".cc") { compiler.cxx } else { compiler.name };
        let object = format!("{}.o", name.split('.').next().unwrap());
        run(directory.path(), driver, compiler.flags, more, &["-c", name, "-o", &object]);
        objects.push(object);
    }
    if link {
        let objects: Vec<&str> =
            objects.iter().map(String::as_str).chain(["-o", "program"]).collect();
        run(directory.path(), compiler.name, compiler.flags, more, &objects);
    }
    directory
}

fn run(directory: &Path, driver: &str, flags: &[&str], more: &[&str], rest: &[&str]) {
    let done = Command::new(driver)
        .current_dir(directory)
        .args(flags)
        .args(more)
        .args(rest)
        .output()
        .unwrap();
    assert!(done.status.success(), "{driver}: {}", String::from_utf8_lossy(&done.stderr));
}

/// What each function's code is, without addresses: operations and operands, with names where
/// relocations have them.
fn code(object: &Path) -> BTreeMap<String, String> {
    let done = Command::new("objdump")
        .args(["-dr", "--no-show-raw-insn", "--no-addresses"])
        .arg(object)
        .output();
    let text = String::from_utf8(done.expect("objdump is in binutils").stdout).unwrap();
    let mut found = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(label) = line.strip_prefix('<').and_then(|rest| rest.strip_suffix(">:")) {
            name = label.to_owned();
        } else if !name.is_empty()
            && line.starts_with(['\t', ' '])
            && !line.trim_start().starts_with("nop")
        {
            // Where a function lies shifts when another grows: only names of targets count, and no
            // distances.
            let line = line.split('#').next().unwrap().split(".text+").next().unwrap();
            // Distances to data move with the size of the code; edits change constants in
            // instructions.
            let line = line.split_whitespace().map(|word| match word.split_once("(%rip)") {
                Some((_, rest)) => format!("(%rip){rest}"),
                None => word.to_owned(),
            });
            let line = line.collect::<Vec<_>>().join(" ");
            *found.entry(name.clone()).or_insert_with(String::new) +=
                &(line.trim().to_owned() + "\n");
        }
    }
    found
}

/// All aliases of a function that disassembly shows under one name.
fn names_of(analysis: &Analysis, nodes: &[NodeId]) -> BTreeSet<String> {
    nodes
        .iter()
        .filter_map(|node| analysis.graph.get(*node))
        .map(|node| node.name.to_string())
        .collect()
}

fn marks(text: &str) -> Vec<String> {
    text.split("/*@").skip(1).map(|rest| rest.split("*/").next().unwrap().to_owned()).collect()
}

/// Changes the constant behind a mark.
fn changed(text: &str, mark: &str) -> String {
    let (before, after) = text.split_once(&format!("/*@{mark}*/")).unwrap();
    let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u32 = after[..digits].parse().unwrap();
    format!("{before}/*@{mark}*/{}{}", number + 2, &after[digits..])
}

/// Edits every marked function in turn. Answers how many edits changed code, which must not be
/// none.
fn check(compiler: &Compiler, files: &[&str], more: &[&str], link: bool) {
    let sources: Vec<(&str, String)> = files.iter().map(|file| (*file, corpus(file))).collect();
    let before = build(compiler, &sources, more, link);
    let objects = |directory: &Path| -> Vec<PathBuf> {
        let linked = vec![directory.join("program")];
        let each = || files.iter().map(|file| directory.join(file).with_extension("o")).collect();
        if link { linked } else { each() }
    };
    let analysis = analyse(&scan(before.path(), 2).unwrap(), 2, &|_| ()).unwrap();
    let mut edits = 0;
    for (at, (file, text)) in sources.iter().enumerate() {
        for mark in marks(text) {
            let mut edited = sources.clone();
            edited[at].1 = changed(text, &mark);
            let after = build(compiler, &edited, more, link);
            let line = text.lines().position(|line| line.contains(&format!("@{mark}*"))).unwrap()
                as u32
                + 1;
            let hunk = livepatch::Hunk {
                file: (*file).to_owned(),
                removed: vec![line],
                ..livepatch::Hunk::default()
            };
            let touched = livepatch::touched(&analysis.graph, &[hunk], &|_| Some(text.clone()));
            assert!(!touched.functions.is_empty(), "{mark} of {file} was not found");
            let closure = closure(&analysis.graph, &touched.functions);
            let members: Vec<NodeId> = closure.members.iter().map(|member| member.node).collect();
            let allowed = names_of(&analysis, &members);
            for (old, new) in objects(before.path()).iter().zip(objects(after.path())) {
                let (old, new) = (code(old), code(&new));
                for (name, body) in &old {
                    // Stubs of the linker hold distances, which move.
                    if new.get(name) != Some(body) && !name.ends_with("@plt") {
                        assert!(
                            allowed.contains(name),
                            "{}: {mark} of {file} changed {name}, which is not in its closure {allowed:?}",
                            compiler.name
                        );
                        edits += 1;
                    }
                }
            }
        }
    }
    assert!(edits > 0, "{files:?}: no edit changed any code");
}

fn check_both(files: &[&str], more: &[&str]) {
    for compiler in [&GCC, &CLANG] {
        if is_there(compiler) {
            check(compiler, files, more, false);
        }
    }
}

#[test]
fn inlined_through_functions_without_a_body() {
    check_both(&["inline.c"], &[]);
    check_both(&["inline.c"], &["-O3"]);
}

#[test]
fn constprop_isra_part_and_cold() {
    check_both(&["copies.c"], &[]);
    check_both(&["copies.c"], &["-O3"]);
}

#[test]
fn folded_functions() {
    check_both(&["folded.c"], &[]);
}

#[test]
fn copies_for_processors() {
    check_both(&["targets.c"], &[]);
}

#[test]
fn bodies_of_parallel_loops() {
    if is_there(&GCC) {
        check(&GCC, &["parallel.c"], &["-fopenmp"], false);
    }
    // The header of clang's OpenMP is a package of its own; the pragma alone needs none.
    if is_there(&CLANG) {
        check(&CLANG, &["parallel.c"], &["-fopenmp"], false);
    }
}

#[test]
fn classes_and_templates() {
    check_both(&["classes.cc"], &[]);
}

#[test]
fn link_time_optimisation() {
    if is_there(&GCC) {
        check(&GCC, &["lto_main.c", "lto_helper.c"], &["-flto", "-ffat-lto-objects"], true);
        check(&GCC, &["lto_main.c", "lto_helper.c"], &["-flto"], true);
        check(&GCC, &["parallel.c"], &["-flto", "-fopenmp"], true);
    }
    if is_there(&CLANG) {
        check(&CLANG, &["lto_main.c", "lto_helper.c"], &["-flto", "-fuse-ld=lld-22"], true);
        check(&CLANG, &["lto_main.c", "lto_helper.c"], &["-flto=thin", "-fuse-ld=lld-22"], true);
    }
}

#[test]
fn a_function_inside_another_belongs_to_both() {
    if !is_there(&GCC) {
        return;
    }
    let text = "int ext(int);\nint outer(int x)\n{\n  __attribute__((noinline)) int nest(int y) {\n    return ext(x) * y;\n  }\n  \
        int s = nest(3) + nest(x);\n  return s * 17;\n}\nstruct later { int a; };\n#define K 3\nint last(void) { return K; }\n";
    let directory = build(&GCC, &[("nested.c", text.to_owned())], &[], false);
    let analysis = analyse(&scan(directory.path(), 2).unwrap(), 1, &|_| ()).unwrap();
    let of = |line: u32| {
        let hunk =
            livepatch::Hunk { file: "nested.c".into(), removed: vec![line], ..Default::default() };
        let touched = livepatch::touched(&analysis.graph, &[hunk], &|_| Some(text.to_owned()));
        (names_of(&analysis, &touched.functions), touched.elsewhere.len())
    };
    let (inner, _) = of(5);
    assert!(
        inner.contains("outer") && inner.iter().any(|name| name.starts_with("nest")),
        "{inner:?}"
    );
    assert_eq!(of(8), (BTreeSet::from(["outer".to_owned()]), 0));
    for line in [1, 10, 11] {
        assert_eq!(of(line), (BTreeSet::new(), 1), "line {line}");
    }
    assert_eq!(of(12).0, BTreeSet::from(["last".to_owned()]));
}

#[test]
fn files_of_one_name_in_two_directories_are_two() {
    if !is_there(&GCC) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for (name, number) in [("x", 3), ("y", 4)] {
        let inside = directory.path().join(name);
        std::fs::create_dir(&inside).unwrap();
        let text = format!(
            "static int h(int a) {{ return a * {number}; }}\nint f{name}(int a) {{ return h(a); }}\n"
        );
        std::fs::write(inside.join("a.c"), text).unwrap();
        run(&inside, "gcc", GCC.flags, &[], &["-c", "a.c", "-o", "a.o"]);
    }
    let analysis = analyse(&scan(directory.path(), 2).unwrap(), 1, &|_| ()).unwrap();
    let several = livepatch::select(&analysis, "h").unwrap_err().to_string();
    assert!(several.contains("x/a.c:h, y/a.c:h"), "{several}");
    let one = livepatch::select(&analysis, "x/a.c:h").unwrap();
    assert_eq!(one.len(), 1);
    let source = |file: &str| std::fs::read_to_string(directory.path().join(file)).ok();
    for (file, expected) in [("x/a.c", 1), ("z/a.c", 0)] {
        let hunk = livepatch::Hunk { file: file.into(), removed: vec![1], ..Default::default() };
        assert_eq!(
            livepatch::touched(&analysis.graph, &[hunk], &source).functions.len(),
            expected,
            "{file}"
        );
    }
}

#[test]
fn names_of_cxx_are_understood_as_people_write_them() {
    if !is_there(&GCC) {
        return;
    }
    let directory = build(&GCC, &[("classes.cc", corpus("classes.cc"))], &[], false);
    let analysis = analyse(&scan(directory.path(), 2).unwrap(), 1, &|_| ()).unwrap();
    for name in ["Base::Base(int)", "Base::Base", "Base::get() const"] {
        assert!(!livepatch::select(&analysis, name).unwrap_or_default().is_empty(), "{name}");
    }
}

#[test]
fn the_case_that_the_dump_of_clones_is_silent_on() {
    if !is_there(&GCC) {
        return;
    }
    let directory = build(&GCC, &[("folded.c", corpus("folded.c"))], &[], false);
    let dump = std::fs::read_to_string(directory.path().join("folded.c.000i.ipa-clones")).unwrap();
    assert!(!dump.contains("two"), "gcc's dump of clones tells of folding now: {dump}");
    let analysis = analyse(&scan(directory.path(), 2).unwrap(), 1, &|_| ()).unwrap();
    let one = analysis.graph.named("one");
    let members = closure(&analysis.graph, one);
    let two = analysis.graph.named("two")[0];
    assert!(members.holds(two));
    let edge = members
        .members
        .iter()
        .find(|member| member.node == two)
        .unwrap()
        .step
        .clone()
        .unwrap()
        .edge;
    let words: Vec<&str> = edge.evidence().map(|(source, _)| source.word()).collect();
    assert!(words.contains(&"icf dump") || words.contains(&"symbols"), "{edge:?}");
}

#[test]
fn threads_do_not_change_the_result() {
    if !is_there(&GCC) {
        return;
    }
    let files = ["inline.c", "copies.c", "folded.c", "targets.c"];
    let sources: Vec<(&str, String)> = files.iter().map(|file| (*file, corpus(file))).collect();
    let directory = build(&GCC, &sources, &[], false);
    let build = scan(directory.path(), 2).unwrap();
    let [one, four] = [1, 4].map(|threads| analyse(&build, threads, &|_| ()).unwrap());
    assert!(one.graph.edges().len() > 10);
    assert_eq!(format!("{one:?}"), format!("{four:?}"));
}

#[test]
fn a_stale_dump_is_left_out_with_its_reason() {
    if !is_there(&GCC) {
        return;
    }
    let directory = build(&GCC, &[("inline.c", corpus("inline.c"))], &[], false);
    let path = directory.path();
    std::fs::copy(path.join("inline.c.000i.ipa-clones"), path.join("gone.c.000i.ipa-clones"))
        .unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(86400);
    let dump =
        std::fs::File::options().append(true).open(path.join("inline.c.000i.ipa-clones")).unwrap();
    dump.set_modified(old).unwrap();
    let analysis = analyse(&scan(path, 2).unwrap(), 1, &|_| ()).unwrap();
    let reasons: Vec<&str> =
        analysis.skipped.iter().map(|skipped| skipped.reason.as_str()).collect();
    assert!(
        reasons
            .iter()
            .any(|reason| reason.contains("gone.o, which it was written with, is not there")),
        "{reasons:?}"
    );
    assert!(
        reasons
            .iter()
            .any(|reason| reason.contains("1439 minutes apart")
                || reason.contains("1440 minutes apart")),
        "{reasons:?}"
    );
}

#[test]
fn cut_and_mixed_dumps_name_the_line() {
    if !is_there(&GCC) {
        return;
    }
    let directory = build(&GCC, &[("inline.c", corpus("inline.c"))], &[], false);
    let path = directory.path().join("inline.c.000i.ipa-clones");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 9]).unwrap();
    let error = analyse(&scan(directory.path(), 2).unwrap(), 1, &|_| ()).unwrap_err().to_string();
    assert!(error.contains("inline.c.000i.ipa-clones, line "), "{error}");
    std::fs::write(&path, "--- !Passed\n").unwrap();
    let error = analyse(&scan(directory.path(), 2).unwrap(), 1, &|_| ()).unwrap_err().to_string();
    assert!(error.contains("line 1: expected `Callgraph clone;"), "{error}");
    std::fs::remove_file(&path).unwrap();
    let empty = tempfile::tempdir().unwrap();
    let error = scan(empty.path(), 2).unwrap_err().to_string();
    assert!(error.contains("-fdump-ipa-clones"), "{error}");
}
