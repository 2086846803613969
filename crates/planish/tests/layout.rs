//! `planish layout` on a real program: recorded under emulation, laid out, rebuilt, and found in
//! the new program; BOLT takes our files and gets the same counts from them as from the recording.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static int sink;
__attribute__((noinline)) static int helper(int x) { if (x % 11 == 0) return x * 3; sink += x; return x - 1; }
__attribute__((noinline)) int never(int x) { return x > 90 ? helper(x) : sink; }
__attribute__((noinline)) int work(int x) {
  int r = 0;
  for (int i = 0; i < x; i++) {
    if (i % 3 == 0) r += helper(i); else if (i % 7 == 1) r ^= i * 3; else r -= 2;
    if (r > 1000) { sink++; r -= 5; }
    switch (i & 7) {
      case 0: r++; break; case 1: r += 2; break; case 2: r ^= 7; break; case 3: r -= 9; break; case 5: r *= 3; break;
      default: break;
    }
  }
  return r;
}
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(int argc, char **argv) {
  int s = 0, a[64] = {0};
  for (int i = 0; i < argc * 2000; i++) {
    s += work(i & 63);
    a[i & 63] = s & 1023;
    if ((i & 63) == 63) qsort(a, 64, sizeof *a, compare);
    if (s == 123456789) s += never(s);
  }
  printf("%d\n", s + sink);
  return 0;
}
"#;

const FLAGS: &[&str] = &[
    "-O2",
    "-fuse-ld=lld",
    "-fbasic-block-address-map",
    "-funique-internal-linkage-names",
    "-Wl,--emit-relocs",
];

/// A program and its recording.
struct Recorded {
    dir: tempfile::TempDir,
}

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Recorded {
    fn new(flags: &[&str]) -> Option<Recorded> {
        if !["clang-22", "ld.lld-22", "qemu-x86_64"].iter().all(|program| installed(program)) {
            return None;
        }
        let recorded = Recorded { dir: tempfile::tempdir().unwrap() };
        std::fs::write(recorded.path("app.c"), SOURCE).unwrap();
        recorded.compile("app", flags);
        let done =
            recorded.planish(&["record", "--branches=emulated", "-o", "perf.data", "--", "./app"]);
        if !done.status.success() {
            eprintln!("skipped: no emulated recording: {}", text(&done.stderr));
            return None;
        }
        Some(recorded)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, program: &str, words: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.current_dir(self.dir.path()).args(words).stdin(Stdio::null()).output().unwrap()
    }

    fn compile(&self, output: &str, flags: &[&str]) {
        let words: Vec<&str> = [flags, &["-o", output, "app.c"]].concat();
        let done = self.run("clang-22", &words);
        assert!(done.status.success(), "{}", text(&done.stderr));
    }

    fn planish(&self, words: &[&str]) -> Output {
        self.run(env!("CARGO_BIN_EXE_planish"), words)
    }

    fn fine(&self, words: &[&str]) -> String {
        let done = self.planish(words);
        assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
        text(&done.stdout)
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.fine(words)).unwrap()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[test]
fn a_program_is_laid_out_rebuilt_and_found_to_be_so() {
    let Some(app) = Recorded::new(FLAGS) else { return };
    for (mode, version) in [("per-function", "1"), ("inter-function", "1"), ("per-function", "0")] {
        let summary = app.json(&[
            "layout",
            "perf.data",
            "--binary",
            "app",
            "--prefix",
            "out",
            "--mode",
            mode,
            "--cc-version",
            version,
            "--verbose-comments",
            "--format",
            "json",
        ]);
        assert_eq!(summary["schema"], "planish-layout");
        assert!(number(&summary["functions"]) >= 4, "{summary}");
        assert!(
            number(&summary["after"]["taken"]) < number(&summary["before"]["taken"]),
            "{summary}"
        );
        // What is straightened was taken before, by the same rules.
        let (straightened, bent) =
            (&summary["turned"]["to_fall_through"][1], &summary["turned"]["to_taken"][1]);
        let (taken, fell) = (&summary["before"]["taken"], &summary["before"]["fall_throughs"]);
        assert!(number(straightened) > 0 && number(straightened) <= number(taken), "{summary}");
        assert!(number(bent) <= number(fell), "{summary}");
        for (_, book) in
            summary["books"].as_array().unwrap().iter().map(|pair| (&pair[0], &pair[1]))
        {
            let unused: u64 =
                book["unused"].as_array().unwrap().iter().map(|pair| number(&pair[1])).sum();
            assert_eq!(number(&book["entered"]), number(&book["used"]) + unused, "{book}");
        }
        let (cc, ld) = (app.read("out_cc_profile.txt"), app.read("out_ld_profile.txt"));
        assert_eq!(cc.starts_with("v1\n"), version == "1", "{cc}");
        assert!(cc.contains("#ext-tsp score: [intra: "), "{cc}");
        assert!(ld.lines().any(|line| line == "work"), "{ld}");
        assert_eq!(
            app.fine(&["layout", "check", "out_cc_profile.txt"]),
            "out_cc_profile.txt: fine\n"
        );

        let list = "-fbasic-block-sections=list=out_cc_profile.txt";
        app.compile(
            "new",
            &[FLAGS, &[list, "-Wl,--symbol-ordering-file=out_ld_profile.txt"]].concat(),
        );
        assert_eq!(app.run("./new", &[]).stdout, app.run("./app", &[]).stdout);
        let verify = [
            "layout",
            "verify",
            "perf.data",
            "--binary",
            "app",
            "--mode",
            mode,
            "--format",
            "json",
            "--new",
        ];
        let found = app.json(&[&verify[..], &["new"]].concat());
        assert_eq!(found["applied"], true, "{mode}: {found}");
        assert_eq!(
            (&found["found"], &found["in_order"]),
            (&found["asked"], &found["asked"]),
            "{found}"
        );
        let old = app.planish(&[&verify[..], &["app"]].concat());
        assert_eq!(old.status.code(), Some(1), "the recorded program does not have the layout");
    }
}

#[test]
fn a_recording_of_an_older_build_lays_a_newer_one_out() {
    let Some(recorded) = Recorded::new(FLAGS) else { return };
    let newer = SOURCE
        .replace("if (s == 123456789)", "if (s == 987654321) sink += 7;\n    if (s == 123456789)");
    std::fs::write(recorded.path("app.c"), newer).unwrap();
    recorded.compile("newer", FLAGS);
    let refused =
        recorded.planish(&["layout", "perf.data", "--binary", "newer", "--prefix", "new"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stdout));
    let words = [
        "layout",
        "perf.data",
        "--recorded",
        "app",
        "--binary",
        "newer",
        "--prefix",
        "new",
        "--format",
        "json",
    ];
    let told = recorded.json(&words);
    let warning = told["warnings"].to_string();
    assert!(
        warning.contains("of another build") && warning.contains("% of its executions"),
        "{warning}"
    );
    let list = "-fbasic-block-sections=list=new_cc_profile.txt";
    let order = "-Wl,--symbol-ordering-file=new_ld_profile.txt";
    recorded.compile("laid", &[FLAGS, &[list, order, "-Wl,--no-warn-symbol-ordering"]].concat());
    let [old, new] =
        ["newer", "laid"].map(|program| recorded.run(&format!("./{program}"), &[]).stdout);
    assert_eq!(old, new);
    let verified = [
        "layout",
        "verify",
        "perf.data",
        "--recorded",
        "app",
        "--binary",
        "newer",
        "--new",
        "laid",
    ];
    recorded.fine(&verified);
}

#[test]
fn the_same_recording_gives_the_same_files_through_counts_and_script_text() {
    let Some(app) = Recorded::new(FLAGS) else { return };
    app.fine(&["aggregate", "perf.data", "--binary", "app", "-o", "run.counts"]);
    app.fine(&["layout", "perf.data", "--binary", "app", "--prefix", "a"]);
    app.fine(&["layout", "run.counts", "--binary", "app", "--prefix", "b", "--threads", "3"]);
    app.fine(&[
        "layout",
        "perf.data",
        "--binary",
        "app",
        "--prefix",
        "c",
        "--emit",
        "preaggregated",
    ]);
    app.fine(&["layout", "c_preaggregated.txt", "--binary", "app", "--prefix", "d"]);
    for file in ["_cc_profile.txt", "_ld_profile.txt"] {
        let first = app.read(&format!("a{file}"));
        assert!(first.lines().count() > 3, "{first}");
        assert_eq!(app.read(&format!("b{file}")), first);
        assert_eq!(app.read(&format!("d{file}")), first);
    }
}

/// Counts of fdata by its ends, without the number of mispredictions.
fn lines(fdata: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        (fields[..6].join(" "), fields[7].parse().unwrap())
    };
    fdata.lines().map(line).collect()
}

/// How many functions BOLT gave a profile, in its own words.
fn profiled(bolt: &Output) -> String {
    let said = text(&bolt.stdout) + &text(&bolt.stderr);
    let line = said
        .lines()
        .find(|line| line.contains("functions in the binary") && line.contains("have non-empty"));
    line.unwrap_or_else(|| panic!("no functions in: {said}")).to_owned()
}

#[test]
fn bolt_gets_the_same_counts_from_our_files_as_from_the_recording() {
    let Some(app) = Recorded::new(FLAGS) else { return };
    if !["perf2bolt-22", "llvm-bolt-22", "perf"].iter().all(|program| installed(program)) {
        return;
    }
    app.fine(&[
        "layout",
        "perf.data",
        "--binary",
        "app",
        "--prefix",
        "ours",
        "--emit",
        "fdata,preaggregated",
    ]);
    let theirs = app.run("perf2bolt-22", &["-p", "perf.data", "-o", "theirs.fdata", "app"]);
    if !theirs.status.success() {
        eprintln!("skipped: perf2bolt-22 cannot read the recording: {}", text(&theirs.stderr));
        return;
    }
    let pre =
        app.run("perf2bolt-22", &["-pa", "-p", "ours_preaggregated.txt", "-o", "pre.fdata", "app"]);
    assert!(pre.status.success(), "{}", text(&pre.stderr));
    assert_eq!(profiled(&pre), profiled(&theirs));

    let want = lines(&app.read("theirs.fdata"));
    let total: u64 = want.values().sum();
    assert!(total > 1000, "{want:?}");
    for file in ["ours.fdata", "pre.fdata"] {
        let ours = lines(&app.read(file));
        let apart: Vec<String> = want
            .keys()
            .chain(ours.keys())
            .filter(|name| ours.get(*name) != want.get(*name))
            .map(|name| format!("{name}: {:?}, perf2bolt {:?}", ours.get(name), want.get(name)))
            .collect();
        let count = |name: &String| ours.get(name).copied().unwrap_or(0);
        let off: u64 = want.iter().map(|(name, wanted)| wanted.abs_diff(count(name))).sum();
        let surplus: u64 =
            ours.iter().filter(|(name, _)| !want.contains_key(*name)).map(|(_, count)| count).sum();
        assert!(
            (off + surplus) * 200 <= total,
            "{file}: more than a count in 200 differs:\n{}",
            apart.join("\n")
        );
    }

    let bolt = |data: &str| {
        let done = app.run(
            "llvm-bolt-22",
            &["app", "-o", "bolted", "-data", data, "-reorder-blocks=ext-tsp"],
        );
        assert!(done.status.success(), "{data}: {}", text(&done.stderr));
        let said = text(&done.stdout) + &text(&done.stderr);
        let stale =
            said.lines().find(|line| line.contains("stale") || line.contains("invalid profile"));
        assert!(stale.is_none_or(|line| line.contains("0 ")), "{stale:?}");
        assert_eq!(app.run("./bolted", &[]).stdout, app.run("./app", &[]).stdout);
        profiled(&done)
    };
    assert_eq!(bolt("ours.fdata"), bolt("theirs.fdata"));
}

#[test]
fn a_program_without_block_maps_gets_an_order_of_functions_and_its_own_error_for_blocks() {
    let Some(app) = Recorded::new(&["-O2", "-fuse-ld=lld", "-ffunction-sections"]) else { return };
    let done = app.planish(&["layout", "perf.data", "--binary", "app", "--prefix", "out"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done.stderr).contains("-fbasic-block-address-map"), "{}", text(&done.stderr));

    let kinds = "symbol-order,section-order,linker-script,gold-order";
    app.fine(&["layout", "perf.data", "--binary", "app", "--prefix", "out", "--emit", kinds]);
    let order = app.read("out_symbol_order.txt");
    assert!(order.lines().any(|line| line == "work") && !order.contains("never"), "{order}");
    assert!(app.read("out_order.ld").contains("*(.text.hot.work .text.work .text.startup.work)"));
    app.compile(
        "new",
        &[
            "-O2",
            "-fuse-ld=lld",
            "-ffunction-sections",
            "-Wl,--symbol-ordering-file=out_symbol_order.txt",
        ],
    );
    let verify = [
        "layout",
        "verify",
        "perf.data",
        "--binary",
        "app",
        "--functions",
        "--format",
        "json",
        "--new",
        "new",
    ];
    let done = app.planish(&verify);
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(
        done.status.code(),
        Some(i32::from(found["applied"] != true)),
        "{}",
        text(&done.stderr)
    );
    // The functions of the C library's start files share sections, whose inner order nobody can
    // change.
    assert!(number(&found["in_order"]) + 4 >= number(&found["found"]), "{found}");
    assert!(number(&found["in_order"]) >= 4, "{found}");
}

#[test]
fn the_text_is_shown_page_by_page_and_a_function_block_by_block() {
    let Some(app) = Recorded::new(FLAGS) else { return };
    let show = ["layout", "show", "perf.data", "--binary", "app"];
    let view = app.json(&[&show[..], &["--format", "json"]].concat());
    assert_eq!(view["schema"], "planish-layout-show");
    let summary = app.json(&[
        "layout",
        "perf.data",
        "--binary",
        "app",
        "--prefix",
        "out",
        "--format",
        "json",
    ]);
    for (map, which) in view["heat"].as_array().unwrap().iter().zip(["before", "after"]) {
        let pages = map["pages"].as_array().unwrap();
        let of = |heat: &str| pages.iter().filter(|page| page["heat"] == heat).count() as u64;
        let expected = &summary[which]["pages_4k"];
        assert_eq!(
            (of("hot") + of("warm"), of("hot")),
            (number(&expected[0]), number(&expected[1])),
            "{map}"
        );
    }
    let shown = app.fine(&[&show[..], &["--svg", "map.svg", "--html", "map.html"]].concat());
    assert!(
        shown.contains("as recorded") && shown.contains("as laid out") && !shown.contains('\x1b'),
        "{shown}"
    );
    let (svg, html) = (app.read("map.svg"), app.read("map.html"));
    assert!(svg.starts_with("<svg ") && svg.contains("class=\"hot\"") && svg.ends_with("</svg>\n"));
    assert!(html.starts_with("<!DOCTYPE html>") && html.contains("class=\"hot\""));

    let shown = app.fine(&[&show[..], &["--function", "work"]].concat());
    assert!(
        shown.contains("[entry]") && shown.contains("section ") && shown.contains(" -> "),
        "{shown}"
    );
    let shown = app.fine(&[&show[..], &["--function", "never"]].concat());
    assert!(shown.contains("not laid out: nothing was counted in it"), "{shown}");
    let done = app.planish(&[&show[..], &["--function", "wor"]].concat());
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done.stderr).contains("did you mean"), "{}", text(&done.stderr));
}

#[test]
fn a_list_that_clang_would_not_heed_is_told_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("list.txt");
    std::fs::write(&list, "f main\nc0 1\n").unwrap();
    let check = |format: &str| {
        let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
        planish.args(["layout", "check", "--format", format]).arg(&list).output().unwrap()
    };
    let done = check("text");
    assert_eq!(done.status.code(), Some(1));
    assert!(
        text(&done.stdout).contains("line 1: expected `!` (version 0), found `f main`"),
        "{}",
        text(&done.stdout)
    );
    let value: Value = serde_json::from_slice(&check("json").stdout).unwrap();
    assert_eq!(value["findings"][0]["line"], 1);
    std::fs::write(&list, "v1\nf main\nc0 1\n").unwrap();
    assert_eq!(check("text").status.code(), Some(0));
}
