//! What the edits of objtool do, on real objects: it is built from a real tree as it is and
//! prepared, and both look at the same three objects. Needs whole trees in `PLANISH_KERNEL_TREES`
//! (directories, separated by colons), clang-22, lld, make and libelf; some minutes on a busy
//! machine.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use kernel::prepare::{Standing, standing};
use kernel::tree::Tree;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The parts of a tree that objtool is built from.
const PARTS: &[&str] = &["Makefile", "objtool", "lib", "include", "arch", "scripts", "build"];

const FLAGS: &[&str] = &[
    "-O2",
    "-mno-red-zone",
    "-fno-asynchronous-unwind-tables",
    "-fno-stack-protector",
    "-fno-omit-frame-pointer",
    "-fno-optimize-sibling-calls",
    "-ffunction-sections",
];

/// `h` returns from its cold part only.
const COLD: &str = "int g(int);
__attribute__((noinline)) static int h(int x) { if (__builtin_expect(x > 3, 1)) { for (;;) g(x); } return g(x + 1) + 5; }
int k(int x) { int r = h(x); return r + g(x); }
";
const COLD_LAYOUT: &str = "v1\nf h\nc0 1\n";

/// `f` and `lone` are weak and overridden: their code stays, without a symbol, in front of the
/// strong `f`, and alone.
const WEAK: &str = "int g(int);
__attribute__((weak)) int f(int x) { if (x) g(x + 1); return g(x) + 1; }
__attribute__((weak)) int lone(int x) { return g(x) * 3; }
int user(int x) { return f(x) + lone(x) + 1; }
";
const STRONG: &str = "int g(int);
int f(int x) { return g(x) + 2; }
int g(int x) { return x * 3; }
__attribute__((section(\".text\"))) int lone(int x) { return x + 1; }
";

/// `s` needs no landing pad, as its address is only in the block map.
const MAPPED: &str = "int g(int);
__attribute__((noinline)) static int s(int x) { g(x); return g(x + 1) + 1; }
int user(int x) { return s(x) + 1; }
";

fn run(dir: &Path, program: &str, words: &[&str]) -> Output {
    Command::new(program).current_dir(dir).args(words).stdin(Stdio::null()).output().unwrap()
}

#[track_caller]
fn done(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What is missing for this test, if anything.
fn lack() -> Option<&'static str> {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    match () {
        () if !has("clang-22") || !has("ld.lld-22") => {
            Some("clang-22 and lld-22 are not installed")
        }
        () if !has("make") => Some("make is not installed"),
        () if !Path::new("/usr/include/libelf.h").exists() => Some("libelf-dev is not installed"),
        () => None,
    }
}

fn compile(dir: &Path, name: &str, source: &str, more: &[&str]) {
    std::fs::write(dir.join(format!("{name}.c")), source).unwrap();
    let (input, output) = (format!("{name}.c"), format!("{name}.o"));
    let words = [FLAGS, more, &["-c", &input, "-o", &output]].concat();
    done(&run(dir, "clang-22", &words));
}

fn objects(dir: &Path) {
    std::fs::write(dir.join("cold.layout"), COLD_LAYOUT).unwrap();
    compile(dir, "cold", COLD, &["-fbasic-block-sections=list=cold.layout"]);
    compile(dir, "first", WEAK, &[]);
    compile(dir, "second", STRONG, &[]);
    done(&run(dir, "ld.lld-22", &["-r", "first.o", "second.o", "-o", "weak.o"]));
    compile(dir, "block", MAPPED, &["-fcf-protection=branch", "-fbasic-block-address-map"]);
    done(&run(dir, "ld.lld-22", &["-r", "block.o", "-o", "mapped.o"]));
}

/// Builds objtool of a directory with `tools`.
fn objtool(tree: &Path) -> PathBuf {
    let output = tree.join("built");
    std::fs::create_dir_all(output.join("tools")).unwrap();
    let to = format!("O={}", output.display());
    let words = [
        "-C",
        "tools",
        &to,
        "subdir=tools",
        "LLVM=-22",
        "HOSTCC=clang-22",
        "SRCARCH=x86",
        "objtool",
    ];
    done(&run(tree, "make", &words));
    output.join("tools/objtool/objtool")
}

/// How many warnings there are for an object.
fn warnings(objtool: &Path, dir: &Path, object: &str, words: &[&str]) -> usize {
    std::fs::copy(dir.join(object), dir.join("looked-at.o")).unwrap();
    let said = run(dir, objtool.to_str().unwrap(), &[words, &["looked-at.o"]].concat());
    String::from_utf8_lossy(&said.stderr)
        .lines()
        .filter(|line| line.contains("warning: objtool:"))
        .count()
}

#[test]
fn objtool_of_a_prepared_tree_understands_what_profiles_make_of_code() {
    let named = std::env::var("PLANISH_KERNEL_TREES").unwrap_or_default();
    let whole = |tree: &PathBuf| tree.join("tools/objtool/Makefile").is_file();
    let trees: Vec<PathBuf> =
        named.split(':').filter(|name| !name.is_empty()).map(PathBuf::from).filter(whole).collect();
    if trees.is_empty() {
        return eprintln!(
            "skipped: objtool of prepared trees; name whole kernel trees in PLANISH_KERNEL_TREES"
        );
    }
    if let Some(lack) = lack() {
        return eprintln!("skipped: objtool of prepared trees; {lack}");
    }
    let dir = tempfile::tempdir().unwrap();
    objects(dir.path());
    for tree in trees {
        let Standing::Plain { prepare, .. } = standing(&Tree::open(&tree).unwrap()).unwrap() else {
            panic!("{} can be prepared", tree.display())
        };
        let copy = tempfile::tempdir().unwrap();
        std::fs::create_dir(copy.path().join("tools")).unwrap();
        for part in PARTS {
            let from = tree.join("tools").join(part);
            done(&run(copy.path(), "cp", &["-a", from.to_str().unwrap(), "tools/"]));
        }
        let count = || {
            let objtool = objtool(copy.path());
            let of = |object, words: &[&str]| warnings(&objtool, dir.path(), object, words);
            [
                of("cold.o", &["--orc", "--stackval"]),
                of("weak.o", &["--orc", "--stackval", "--link"]),
                of("mapped.o", &["--orc", "--ibt", "--link"]),
            ]
        };
        let before = count();
        for change in prepare.iter().filter(|change| change.path.starts_with("tools/")) {
            std::fs::write(copy.path().join(change.path), change.after.clone().unwrap()).unwrap();
        }
        let after = count();
        eprintln!(
            "{}: warnings (cold part, weak functions, block map) {before:?}, prepared {after:?}",
            tree.display()
        );
        assert!(before.iter().all(|warnings| *warnings > 0), "{}: {before:?}", tree.display());
        assert_eq!(after, [0; 3], "{}", tree.display());
    }
}
