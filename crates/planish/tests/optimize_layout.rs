//! `planish optimize` with a layout at its end, beside instrumented PGO and BOLT, on a program of
//! three files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MAIN: &str = r#"
#include <stdio.h>
#include <stdlib.h>
unsigned walk(unsigned x);
void explain(void);
int main(int argc, char **argv) {
  if (argc < 3) { explain(); return 0; }
  unsigned limit = atoi(argv[2]), sum = 0;
  for (unsigned i = 1; i < limit; i++) sum += walk(i * (argv[1][0] == 't' ? 3 : 5));
  printf("%u\n", sum);
  return 0;
}
"#;

/// The loop's hot side lies behind code that never runs, so that there is something to lay out.
const WALK: &str = r#"
#include <stdio.h>
static int rare(unsigned x) { printf("rare %u\n", x); return 1; }
__attribute__((noinline)) static unsigned step(unsigned x) {
  if (x == 4000000001u) { rare(x); return 1; }
  switch (x % 7) {
    case 3: return x / 3;
    case 5: return x % 2 ? x - 1 : x / 2 + 1;
    default: return x % 2 ? 3 * x + 1 : x / 2;
  }
}
unsigned walk(unsigned x) {
  unsigned n = 0;
  while (x > 4 && n < 1000) { x = step(x); n++; if (x == 4000000001u) n += rare(x); }
  return n;
}
"#;

const HELP: &str = "#include <stdio.h>\nvoid explain(void) { puts(\"app train|eval N\"); }\n";

const CONFIG: &str = r#"
[build]
command = 'cp *.c "$PLANISH_OUT" && cd "$PLANISH_OUT" && for f in main walk help; do "$PLANISH_CC" $PLANISH_CFLAGS -c $f.c -o $f.o || exit 1; done && "$PLANISH_CC" $PLANISH_LDFLAGS main.o walk.o help.o -o app'
binary = "app"
compiler = "clang"
THINLTO
[workload]
train = "{bin} train 20000"
[evaluate]
command = "{bin} eval 20000"
rounds = 6
[record]
branches = "emulated"
[optimize]
steps = ["autofdo", "propeller"]
"#;

struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new(config: &str) -> Project {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in
            [("main.c", MAIN), ("walk.c", WALK), ("help.c", HELP), ("planish.toml", config)]
        {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Project { folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn planish(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("NO_COLOR", "1")
            .output()
            .unwrap()
    }

    /// Whether clang can build a program that counts: the library of counters is a package of its
    /// own.
    fn instrumented(&self) -> bool {
        // Not in the project's own folder, whose files are its sources.
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("clang-22");
        command.args(["-fprofile-generate", "-shared", "-o"]).arg(folder.path().join("counting"));
        command.arg(self.at("help.c")).output().unwrap().status.success()
    }

    /// Runs `planish optimize` and gives its report.
    fn optimized(&self) -> Value {
        let done = self.planish(&["optimize"]);
        // Six rounds of a few milliseconds decide nothing for certain; slower (1) is no failure of
        // the machinery.
        assert!(matches!(done.status.code(), Some(0 | 1)), "{}", text(&done.stderr));
        serde_json::from_slice(&std::fs::read(self.at(".planish/report.json")).unwrap()).unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn has(tool: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').any(|d| Path::new(d).join(tool).is_file())
}

fn can_run() -> bool {
    for tool in ["clang-22", "ld.lld-22", "qemu-x86_64"] {
        if !has(tool) {
            eprintln!("skipped: {tool} is not installed");
            return false;
        }
    }
    let beside =
        Path::new(env!("CARGO_BIN_EXE_planish")).with_file_name("libplanish_qemu_branches.so");
    let found = beside.is_file() || std::env::var_os("PLANISH_QEMU_PLUGIN").is_some();
    if !found {
        eprintln!("skipped: the emulation plugin is not built");
    }
    found
}

/// What must hold of every program with a layout.
fn check_layout(report: &Value) {
    let layout = &report["layout"];
    let verified = &layout["verified"];
    assert_eq!(verified["applied"], true, "{verified:#}");
    assert!(verified["asked"].as_u64().unwrap() >= 3, "{verified:#}");
    for pages in ["pages_4k", "pages_2m"] {
        assert!(layout["summary"]["after"][pages][0].as_u64().unwrap() >= 1, "{pages}: {layout:#}");
    }
    let names = report["variants"].as_array().unwrap().iter().map(|v| v["name"].as_str().unwrap());
    assert!(names.clone().any(|name| name == "layout"), "{:?}", names.collect::<Vec<_>>());
}

#[test]
fn a_layout_is_applied_by_a_relink_that_reuses_what_it_says_nothing_about() {
    if !can_run() {
        return;
    }
    let config = CONFIG.replace("THINLTO", "")
        + "also = ['pgo', 'bolt', 'pgo-layout']\ntest = 'test \"$({bin})\" = \"app train|eval N\"'\n";
    let project = Project::new(&config);
    let report = project.optimized();
    check_layout(&report);
    // main.c and walk.c ran when they were recorded, help.c did not.
    let objects = &report["layout"]["objects"];
    assert_eq!(
        [&objects["reused"], &objects["laid_out"], &objects["compiled"]],
        [1, 2, 0],
        "{objects}"
    );
    let taken = |name: &str| {
        let others = report["branches"][0]["others"].as_array().unwrap();
        others.iter().find(|other| other[0] == name).map(|other| other[1].as_u64().unwrap())
    };
    let base = report["branches"][0]["base"].as_u64().unwrap();
    assert!(taken("layout").unwrap() < base, "{report:#}");
    let compared = report["measurements"][0]["comparisons"].as_array().unwrap();
    let variants: Vec<&str> = compared.iter().map(|c| c["variant"].as_str().unwrap()).collect();
    assert_eq!(variants[..2], ["app.opt", "app.layout"]);
    // A tool that is missing leaves its program out, with a sentence.
    let notes = report["warnings"].to_string();
    assert!(
        notes.contains("each program was linked once") && notes.contains("`layouts = 8`"),
        "{notes}"
    );
    let counted = has("llvm-profdata-22") && project.instrumented();
    for (name, possible) in
        [("pgo", counted), ("pgo-layout", counted), ("bolt", has("llvm-bolt-22"))]
    {
        let measured = variants.contains(&format!("app.{name}").as_str());
        assert_eq!(measured, possible, "{name}: {variants:?}");
        assert_eq!(notes.contains(&format!("{name} is left out")), !possible, "{notes}");
        assert_eq!(taken(name).is_some(), possible, "{report:#}");
    }
    if counted {
        let found = std::fs::read(project.at(".planish/pgo-layout-verify.json")).unwrap();
        let found: Value = serde_json::from_slice(&found).unwrap();
        assert_eq!(found["applied"], true, "{found:#}");
        let made = std::fs::read_to_string(project.at(".planish/pgo-relink.objects")).unwrap();
        assert_eq!(made, "laid-out main.o\nlaid-out walk.o\nreused help.o\n");
        assert!(taken("pgo-layout").unwrap() < base, "{report:#}");
    }
    let page = std::fs::read_to_string(project.at(".planish/report.html")).unwrap();
    assert!(page.contains("default-src &#39;none&#39;") && page.contains("Straightened branches"));
    let turned = &report["layout"]["summary"]["turned"];
    assert!(turned["to_fall_through"][1].as_u64() >= turned["to_taken"][1].as_u64(), "{turned}");
    let markdown = std::fs::read_to_string(project.at(".planish/report.md")).unwrap();
    assert!(markdown.starts_with("# app, rebuilt with its profile and a layout: "), "{markdown}");
    assert!(markdown.contains("| superpages (2 MiB) touched | "), "{markdown}");

    let again = text(&project.planish(&["optimize"]).stderr);
    assert_eq!(again.matches("up to date").count(), again.matches('[').count(), "{again}");
    // The relink alone, by hand: the same program.
    let built = project.planish(&["build", "--layout", ".planish/app", "-o", "by-hand"]);
    assert!(built.status.success(), "{}", text(&built.stderr));
    let code = |name: &str| std::fs::read(project.at(name)).unwrap();
    assert!(code("by-hand") == code(".planish/app.layout"), "two relinks of one layout differ");

    // A layout that says less about walk.c, without its static function (`_ZL4stepj.__uniq.N`):
    // that object is compiled anew, main.c's is taken from the last relink.
    let list = std::fs::read_to_string(project.at(".planish/app_cc_profile.txt")).unwrap();
    let kept = list.lines().take_while(|line| !(line.starts_with("f ") && line.contains("step")));
    let less: String = kept.map(|line| format!("{line}\n")).collect();
    assert!(less.len() < list.len() && less.lines().any(|line| line.starts_with("f ")), "{list}");
    std::fs::write(project.at("less_cc_profile.txt"), less).unwrap();
    std::fs::copy(project.at(".planish/app_ld_profile.txt"), project.at("less_ld_profile.txt"))
        .unwrap();
    let built = project.planish(&["build", "--layout", "less", "-o", "less"]);
    assert!(built.status.success(), "{}", text(&built.stderr));
    assert!(
        code("less") != code(".planish/app.layout"),
        "another cc profile made the same program"
    );

    // Tests that fail stop before anything is measured.
    std::fs::write(
        project.at("planish.toml"),
        config.replace("test = 'test", "test = 'echo wrong >&2; ! test"),
    )
    .unwrap();
    let failed = project.planish(&["optimize"]);
    let said = text(&failed.stderr);
    assert_eq!(failed.status.code(), Some(2), "{said}");
    assert!(said.contains("step test-opt failed") && said.contains("| wrong"), "{said}");
}

/// Spends its time in the C library, which a layout cannot reach.
const LIBRARY: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
unsigned walk(unsigned x);
void explain(void);
int main(int argc, char **argv) {
  if (argc < 3) { explain(); return 0; }
  char text[64];
  unsigned limit = atoi(argv[2]), sum = 0;
  for (unsigned i = 1; i < limit; i++) {
    snprintf(text, sizeof text, "%u %s", i % 16 ? i : walk(i), argv[1]);
    sum += strtoul(text, 0, 10) + strlen(text);
  }
  printf("%u\n", sum);
  return 0;
}
"#;

/// Addresses of the functions of a program.
fn addresses(program: &Path) -> std::collections::BTreeMap<String, u64> {
    let listed = Command::new("llvm-nm-22").arg("--defined-only").arg(program).output().unwrap();
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let kind = words.next()?;
        // The C library's own names are weak.
        matches!(kind, "t" | "T" | "W").then(|| (words.next().unwrap_or("").to_owned(), address))
    };
    text(&listed.stdout).lines().filter_map(line).collect()
}

#[test]
fn llvm_bolt_places_what_the_layout_cannot_reach_and_moves_nothing_else() {
    if !can_run() {
        return;
    }
    if !has("llvm-bolt-22") || !has("llvm-nm-22") {
        eprintln!("skipped: llvm-bolt-22 or llvm-nm-22 is not installed");
        return;
    }
    let config =
        CONFIG.replace("THINLTO", "").replace("$PLANISH_LDFLAGS", "$PLANISH_LDFLAGS -static");
    let config = config.replace("\"propeller\"]", "\"propeller\", \"bolt-rest\"]");
    let project = Project::new(&config);
    std::fs::write(project.at("main.c"), LIBRARY).unwrap();
    let report = project.optimized();
    check_layout(&report);
    let names = std::fs::read_to_string(project.at(".planish/rest-functions.txt")).unwrap();
    let (before, after) = (
        addresses(&project.at(".planish/app.layout")),
        addresses(&project.at(".planish/app.rest")),
    );
    let moved = |name: &str| before[name] != after[name];
    let library: Vec<&str> = names.lines().filter(|name| before.contains_key(*name)).collect();
    assert!(library.iter().any(|name| name.contains("printf")), "{names}");
    assert!(library.iter().filter(|name| moved(name)).count() * 2 > library.len(), "{names}");
    assert!(!names.lines().any(|name| name == "main" || name == "walk"), "{names}");
    assert!(!moved("main") && !moved("walk"));
    let others = report["branches"][0]["others"].as_array().unwrap();
    let taken = |name: &str| {
        let found = others.iter().find(|other| other[0] == name).unwrap();
        found[1].as_u64().unwrap()
    };
    assert!(taken("rest") < taken("layout"), "{others:?}");
    let markdown = std::fs::read_to_string(project.at(".planish/report.md")).unwrap();
    assert!(markdown.contains("app.rest"), "{markdown}");
}

/// gcc makes no block maps: llvm-bolt gets all that ran, of the rebuilt program and of each other link
/// of it.
#[test]
fn llvm_bolt_lays_out_what_gcc_compiled() {
    if !can_run() || !has("gcc") {
        return;
    }
    if !has("llvm-bolt-22") {
        eprintln!("skipped: llvm-bolt-22 is not installed");
        return;
    }
    let config = CONFIG
        .replace("THINLTO", "")
        .replace("\"clang\"", "\"gcc\"")
        .replace("\"propeller\"", "\"bolt-rest\"")
        .replace("rounds = 6", "rounds = 6\nlayouts = 4");
    let project = Project::new(&config);
    let report = project.optimized();
    assert_eq!(
        layouts(&report),
        ["base", "opt", "rest"].map(|ending| (format!("app.{ending}"), 4))
    );
    let names = std::fs::read_to_string(project.at(".planish/rest-functions.txt")).unwrap();
    assert!(names.lines().any(|name| name == "walk"), "{names}");
    assert_eq!(report["last_step"][0]["base"], "app.opt", "{report:#}");
    assert_eq!(report["last_step"][0]["variant"], "app.rest");
    let markdown = std::fs::read_to_string(project.at(".planish/report.md")).unwrap();
    assert!(markdown.starts_with("# app, rebuilt with its profile and BOLT: "), "{markdown}");
}

#[test]
fn with_thinlto_the_linker_applies_the_layout() {
    if !can_run() {
        return;
    }
    let config = CONFIG.replace("THINLTO", "thinlto = true");
    let project = Project::new(
        &config
            .replace("branches = \"emulated\"", "branches = \"emulated\"\ncount_branches = false"),
    );
    let report = project.optimized();
    check_layout(&report);
    let objects = &report["layout"]["objects"];
    assert_eq!(
        [&objects["reused"], &objects["laid_out"]],
        [3, 0],
        "the linker compiles all of them: {objects}"
    );
}

/// The layouts that each program was measured in, in the order of the report.
fn layouts(report: &Value) -> Vec<(String, u64)> {
    let variants = report["measurements"][0]["variants"].as_array().unwrap();
    let of = |v: &Value| (v["name"].as_str().unwrap().to_owned(), v["layouts"].as_u64().unwrap());
    variants.iter().map(of).collect()
}

#[test]
fn programs_are_measured_over_several_links() {
    if !can_run() {
        return;
    }
    // Another program is linked behind the one whose link is repeated.
    let config = CONFIG
        .replace(
            "-o app'",
            "-o app && \"$PLANISH_CC\" $PLANISH_LDFLAGS main.o walk.o help.o -o own'",
        )
        .replace("THINLTO", "release = 'cc -O1 *.c -o \"$PLANISH_OUT/app\"'")
        .replace("rounds = 6", "rounds = 6\nlayouts = 4")
        .replace("branches = \"emulated\"", "branches = \"emulated\"\ncount_branches = false")
        + "also = ['bolt']\n";
    let project = Project::new(&config);
    let report = project.optimized();
    check_layout(&report);
    let bolt = has("llvm-bolt-22");
    // llvm-bolt makes its program of each link; planish does not link the release build.
    let expected = [("base", 4), ("opt", 4), ("layout", 4), ("bolt", 4), ("release", 0)];
    let expected = expected.into_iter().filter(|(name, _)| bolt || *name != "bolt");
    let expected: Vec<_> = expected.map(|(name, count)| (format!("app.{name}"), count)).collect();
    assert_eq!(layouts(&report), expected);
    let compared = report["measurements"][0]["comparisons"].as_array().unwrap();
    assert_eq!(compared[1]["layouts"]["count"], 4, "{compared:#?}");
    let release = compared.last().unwrap();
    assert!(release.get("layouts").is_none_or(Value::is_null), "{release:#}");
    assert_eq!(report["last_step"][0]["layouts"]["count"], 4, "{:#}", report["last_step"]);
    let markdown = std::fs::read_to_string(project.at(".planish/report.md")).unwrap();
    assert!(markdown.contains(", averaged over 4 layouts"), "{markdown}");
    assert!(markdown.contains("release build was linked once, and is compared"), "{markdown}");
    assert!(!markdown.contains("each program was linked once"), "{markdown}");
    // The layout keeps its order; where it begins is another place in each.
    let programs = std::fs::read_dir(project.at(".planish/layouts/programs")).unwrap();
    let names = programs.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let linked = names.filter(|name| name.contains("independent")).count();
    assert_eq!(linked, if bolt { 20 } else { 12 });

    // A build that links by itself keeps nothing to repeat.
    let own = config.replace("\"$PLANISH_CC\" $PLANISH_LDFLAGS", "clang-22 $PLANISH_LDFLAGS");
    std::fs::write(project.at("planish.toml"), own).unwrap();
    let refused = project.planish(&["optimize"]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("must link the program with one of them"), "{said}");
}

/// GNU ld does not keep what it reads: lld links what gcc compiles, under every name that it has.
#[test]
fn programs_of_gcc_are_measured_over_links_that_lld_makes() {
    if !can_run() || !has("gcc") {
        return;
    }
    let config = CONFIG
        .replace("THINLTO", "")
        .replace("\"clang\"", "\"gcc\"")
        .replace(", \"propeller\"", "")
        .replace("rounds = 6", "rounds = 6\nlayouts = 4");
    let project = Project::new(&config);
    let looked = project.planish(&["optimize", "--dry-run"]);
    assert!(looked.status.success(), "{}", text(&looked.stderr));
    assert!(!project.at(".planish").exists(), "a dry run leaves nothing behind");
    let report = project.optimized();
    assert_eq!(layouts(&report), [("app.base".to_owned(), 4), ("app.opt".to_owned(), 4)]);
    let notes = format!("{}{}", text(&looked.stdout), text(&looked.stderr));
    assert!(notes.contains("lld links these programs"), "{notes}");
    for ending in ["base", "opt"] {
        let made = std::fs::read(project.at(".planish/app").with_extension(ending)).unwrap();
        let says = |word: &[u8]| made.windows(word.len()).any(|part| part == word);
        assert!(says(b"GCC: (") && says(b"LLD "), "{ending}: .comment names both");
    }
}

/// Probes lead to the code that is laid out and are no longer in it: clang cannot write those of a
/// function in several sections.
#[test]
fn a_program_with_pseudo_probes_can_be_laid_out() {
    if !can_run() {
        return;
    }
    // The compiler alone, the linker since planish says so, and since the project itself does.
    for (thinlto, own) in [("", ""), ("thinlto = true\n", ""), ("", "-flto=thin ")] {
        let flags = format!("flags = \"-fpseudo-probe-for-profiling\"\n{thinlto}");
        let config = CONFIG.replace("THINLTO", &flags);
        let config = config.replace("$PLANISH_CFLAGS", &format!("{own}$PLANISH_CFLAGS"));
        let config = config.replace("$PLANISH_LDFLAGS", &format!("{own}$PLANISH_LDFLAGS"));
        let project = Project::new(&config);
        check_layout(&project.optimized());
        let probes = |ending: &str| {
            let image = image::Image::open(&project.at(".planish/app").with_extension(ending));
            !image::probes::Probes::read(&image.unwrap()).unwrap().is_empty()
        };
        assert_eq!(["base", "opt", "layout"].map(probes), [true, false, false], "{thinlto}{own}");
        let shown = text(&project.planish(&["profile", "show", ".planish/app.afdo"]).stdout);
        assert!(shown.contains("pseudo probes"), "{shown}");
    }
}

#[test]
fn a_layout_needs_its_files_and_clang() {
    let project = Project::new(&CONFIG.replace("THINLTO", "").replace("\"clang\"", "\"gcc\""));
    let refused = project.planish(&["optimize", "--dry-run"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("only compiler = \"clang\""),
        "{}",
        text(&refused.stderr)
    );
    if has("clang-22") {
        let project = Project::new(&CONFIG.replace("THINLTO", ""));
        let missing = project.planish(&["build", "--layout", "none"]);
        assert_eq!(missing.status.code(), Some(2));
        assert!(
            text(&missing.stderr).contains("`planish layout --prefix none` writes it"),
            "{}",
            text(&missing.stderr)
        );
    }
}
