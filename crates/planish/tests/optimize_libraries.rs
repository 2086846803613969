//! `planish optimize` on a program whose work is done by a shared library of its own, beside a
//! library that never runs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MAIN: &str = r#"
#include <stdio.h>
#include <stdlib.h>
unsigned walk(unsigned x);
unsigned idle(unsigned x);
int main(int argc, char **argv) {
  if (argc < 3) return printf("app train|eval N: %u\n", idle(argc)) < 0;
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

const IDLE: &str = "unsigned idle(unsigned x) { return x + 1; }\n";

/// As build systems do it: a name with a version behind a link, and the directory of the build in
/// the program, which every variant would follow to the libraries that were built last.
const BUILD: &str = r#"
set -e
cp *.c "$PLANISH_OUT"
cd "$PLANISH_OUT"
mkdir -p bin lib
for f in main walk idle; do "$PLANISH_CC" $PLANISH_CFLAGS -fPIC -c $f.c -o $f.o; done
"$PLANISH_CC" $PLANISH_LDFLAGS -shared -Wl,-soname,libwalk.so.1 walk.o -o lib/libwalk.so.1.0
ln -s libwalk.so.1.0 lib/libwalk.so.1
"$PLANISH_CC" $PLANISH_LDFLAGS -shared -Wl,-soname,libidle.so idle.o -o lib/libidle.so
"$PLANISH_CC" $PLANISH_LDFLAGS main.o lib/libwalk.so.1 lib/libidle.so RPATH -o bin/app
"#;

const RUNPATH: &str = r#"-Wl,-rpath,"$PLANISH_OUT/lib""#;

const CONFIG: &str = r#"
[build]
command = "sh build.sh"
binary = "bin/app"
libraries = ["lib/libwalk.so.1", "lib/libidle.so"]
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

const WALK_FILE: &str = "lib/libwalk.so.1";

struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new(config: &str, rpath: &str) -> Project {
        let folder = tempfile::tempdir().unwrap();
        let build = BUILD.replace("RPATH", rpath);
        for (name, text) in [
            ("main.c", MAIN),
            ("walk.c", WALK),
            ("idle.c", IDLE),
            ("build.sh", &build),
            ("planish.toml", config),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Project { folder }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn planish(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
        command.args(arguments).current_dir(self.folder.path()).env("NO_COLOR", "1");
        command.env_remove("LD_LIBRARY_PATH").output().unwrap()
    }

    /// What `planish optimize` ends on.
    fn refused(&self) -> String {
        let done = self.planish(&["optimize"]);
        assert_eq!(done.status.code(), Some(2), "{}", text(&done.stderr));
        text(&done.stderr)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn can_run() -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    for tool in ["clang-22", "ld.lld-22", "qemu-x86_64"] {
        if !path.split(':').any(|folder| Path::new(folder).join(tool).is_file()) {
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

/// The row of an image.
fn image<'r>(report: &'r Value, path: &str) -> &'r Value {
    let images = report["images"].as_array().unwrap();
    images.iter().find(|image| image["path"] == path).unwrap()
}

/// A file of a variant of an image.
fn program<'r>(image: &'r Value, variant: &str) -> &'r Value {
    let programs = image["programs"].as_array().unwrap();
    &programs.iter().find(|program| program[0] == variant).unwrap()[1]
}

#[test]
fn a_library_is_profiled_laid_out_and_measured_with_its_program() {
    if !can_run() {
        return;
    }
    let project = Project::new(&format!("{CONFIG}also = [\"pgo\", \"pgo-layout\"]\n"), RUNPATH);
    let done = project.planish(&["optimize"]);
    // Six rounds of a few milliseconds decide nothing for certain.
    assert!(matches!(done.status.code(), Some(0 | 1)), "{}", text(&done.stderr));
    let report: Value =
        serde_json::from_slice(&std::fs::read(project.at(".planish/report.json")).unwrap())
            .unwrap();

    // Layouts are for projects without libraries, so they are no advice.
    let notes = report["warnings"].to_string();
    assert!(
        notes.contains("each program was linked once") && !notes.contains("`layouts"),
        "{notes}"
    );
    let (app, walk, idle) =
        (image(&report, "bin/app"), image(&report, WALK_FILE), image(&report, "lib/libidle.so"));
    assert!(walk["share"].as_f64().unwrap() > 0.9, "{walk:#}");
    assert!(walk["samples"].as_u64() > app["samples"].as_u64(), "{report:#}");
    for hot in [app, walk] {
        assert!(hot["samples"].as_u64().unwrap() > 0, "{hot:#}");
        assert!(hot["matched"]["functions"].as_u64().unwrap() >= 1, "{hot:#}");
        assert_eq!(hot["matched"]["functions_matched"], hot["matched"]["functions"], "{hot:#}");
        let layout = &hot["layout"];
        assert!(layout["summary"]["functions"].as_u64().unwrap() >= 1, "{layout:#}");
        assert_eq!(layout["verified"]["applied"], true, "{layout:#}");
        let profile = hot["profile"]["path"].as_str().unwrap();
        assert!(project.at(profile).is_file(), "{profile}");
        let mut ids: Vec<&str> = ["base", "opt", "layout"]
            .map(|variant| program(hot, variant)["build_id"].as_str().unwrap())
            .to_vec();
        ids.dedup();
        assert_eq!(ids.len(), 3, "three variants are three files: {hot:#}");
        assert!(program(hot, "layout")["code_bytes"].as_u64().unwrap() > 0);
    }
    // What never ran is named, and neither profiled nor laid out.
    assert_eq!(idle["matched"]["functions"], 0, "{idle:#}");
    assert_eq!(idle["layout"]["summary"]["functions"], 0, "{idle:#}");
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("lib/libidle.so: no sample hit its functions"), "{warnings}");
    assert!(!warnings.contains("lib/libwalk.so.1: no sample"), "{warnings}");

    // What to take is the program and, of the same build, its libraries.
    let taken = |value: &Value| project.at(value.as_str().unwrap());
    let variant = taken(&report["take"]["path"]).ancestors().nth(2).unwrap().to_owned();
    let libraries: Vec<PathBuf> =
        report["take"]["libraries"].as_array().unwrap().iter().map(taken).collect();
    assert_eq!(libraries, [variant.join(WALK_FILE), variant.join("lib/libidle.so")]);
    let told = text(&done.stdout);
    for library in &libraries {
        assert!(
            library.is_file() && told.contains(&format!("library: {}", library.display())),
            "{told}"
        );
    }

    let merged = std::fs::read(project.at(".planish/merged-layouts.json")).unwrap();
    let merged: Value = serde_json::from_slice(&merged).unwrap();
    assert_eq!(merged["schema"], "planish-layout-merge");
    assert_eq!((&merged["functions"], &merged["shared"]), (&3.into(), &serde_json::json!([])));

    // The same with counters in the profile's place, where clang's library of them is there.
    let counted = project.at(".planish/images/pgo").is_dir();
    assert_ne!(counted, warnings.contains("pgo-layout is left out"), "{warnings}");
    for name in ["layout-verify.json", "libwalk.so.1.layout-verify.json"] {
        let found = std::fs::read(project.at(&format!(".planish/pgo-{name}")));
        assert_eq!(found.is_ok(), counted, "{name}");
        let Ok(found) = found else { continue };
        let found: Value = serde_json::from_slice(&found).unwrap();
        assert_eq!(found["applied"], true, "{found:#}");
    }
    if counted {
        let names = [app, walk].map(|hot| program(hot, "pgo-layout")["build_id"].clone());
        let before = [app, walk].map(|hot| program(hot, "pgo")["build_id"].clone());
        assert!(names[0] != before[0] && names[1] != before[1], "{names:?} {before:?}");
    }

    let branches = &report["branches"][0];
    let base = branches["base"].as_u64().unwrap();
    assert!(branches["opt"].as_u64().unwrap() < base, "{branches}");
    let layout = branches["others"].as_array().unwrap().iter().find(|other| other[0] == "layout");
    assert!(layout.unwrap()[1].as_u64().unwrap() < base, "{branches}");

    let said = text(&done.stdout);
    assert!(said.contains("lib/libwalk.so.1: 9") && said.contains("of the samples"), "{said}");
    assert!(said.contains("program: ") && said.contains("images/layout/bin/app.layout"), "{said}");
    let markdown = std::fs::read_to_string(project.at(".planish/report.md")).unwrap();
    assert!(markdown.contains("| `lib/libwalk.so.1` | "), "{markdown}");

    // What was counted of each variant ran with the library of that variant, although all programs
    // name the directory that the last build wrote to.
    for variant in ["base", "opt", "layout"] {
        let root = format!(".planish/images/{variant}");
        let (app, walk) = (format!("{root}/bin/app.{variant}"), format!("{root}/{WALK_FILE}"));
        let counted = format!(".planish/branches-{variant}-1.data");
        let out = format!("{root}/counts");
        let arguments = [
            "aggregate",
            &counted,
            "--binary",
            &app,
            "--binary",
            &walk,
            "--no-copies",
            "--allow-few",
            "-o",
            &out,
            "--format",
            "json",
        ];
        let counts = project.planish(&arguments);
        assert!(counts.status.success(), "{}", text(&counts.stderr));
        let counts: Value = serde_json::from_slice(&counts.stdout).unwrap();
        let id = program(image(&report, WALK_FILE), variant)["build_id"].clone();
        let images = counts["images"].as_array().unwrap();
        assert!(images.iter().any(|image| image["build_id"] == id), "{counts:#}");
    }
    let again = text(&project.planish(&["optimize"]).stderr);
    assert_eq!(again.matches("up to date").count(), again.matches('[').count(), "{again}");
}

#[test]
fn a_program_that_runs_with_another_library_than_its_own_is_refused() {
    if !can_run() {
        return;
    }
    // An RPATH goes before LD_LIBRARY_PATH, and leads every variant to the last build.
    let copy = format!("-Wl,--disable-new-dtags {RUNPATH}");
    let said = Project::new(CONFIG, &copy).refused();
    assert!(said.contains("step record failed"), "{said}");
    assert!(said.contains(".planish/images/base/lib/libidle.so: expected that this"), "{said}");
    assert!(
        said.contains(".planish/build/lib/libidle.so did, a copy") && said.contains("RPATH"),
        "{said}"
    );

    // A library of that name which another build made.
    let planted = tempfile::tempdir().unwrap();
    let source = planted.path().join("walk.c");
    std::fs::write(&source, WALK).unwrap();
    let mut clang = Command::new("clang-22");
    clang.args(["-O1", "-shared", "-fPIC", "-fuse-ld=lld", "-Wl,--build-id"]);
    clang.arg("-Wl,-soname,libwalk.so.1").arg(&source).arg("-o");
    assert!(clang.arg(planted.path().join("libwalk.so.1")).status().unwrap().success());
    let planted = planted.path().display();
    let rpath = format!("-Wl,--disable-new-dtags -Wl,-rpath,{planted}");
    let said = Project::new(CONFIG, &rpath).refused();
    assert!(said.contains(&format!("found that {planted}/libwalk.so.1 did, another")), "{said}");
}

#[test]
fn a_library_goes_by_the_name_that_programs_load_it_by() {
    if !can_run() {
        return;
    }
    let config = CONFIG.replace("libwalk.so.1", "libwalk.so.1.0");
    let said = Project::new(&config, RUNPATH).refused();
    assert!(said.contains("programs look for it by its SONAME libwalk.so.1;"), "{said}");

    // One that nobody named would be that of the last build, in all variants.
    let config = CONFIG.replace("libraries = [\"lib/libwalk.so.1\", \"lib/libidle.so\"]", "");
    let said = Project::new(&config, RUNPATH).refused();
    assert!(said.contains("step build ended well"), "{said}");
    let named = "libraries = [\"lib/libidle.so\", \"lib/libwalk.so.1\"] in [build]";
    assert!(said.contains(named) && said.contains("--library lib/libidle.so --library "), "{said}");

    let config = CONFIG.replace("lib/libidle.so", "lib/libnone.so");
    let said = Project::new(&config, RUNPATH).refused();
    assert!(said.contains("libnone.so") && said.contains("[build] binary and libraries"), "{said}");
}

#[test]
fn each_program_under_comparison_runs_with_the_library_beside_it() {
    let path = std::env::var("PATH").unwrap_or_default();
    if !path.split(':').any(|folder| Path::new(folder).join("clang-22").is_file()) {
        return eprintln!("skipped: clang-22 is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let clang = |arguments: &[&str]| {
        let mut command = Command::new("clang-22");
        assert!(command.args(arguments).current_dir(folder.path()).status().unwrap().success());
    };
    std::fs::write(at("main.c"), "int puts(const char *);\nconst char *say(void);\nint main(void) { return puts(say()) < 0; }\n").unwrap();
    for name in ["one", "two"] {
        std::fs::create_dir_all(at(name).join("bin")).unwrap();
        std::fs::create_dir_all(at(name).join("lib")).unwrap();
        let source = format!("const char *say(void) {{ return \"{name}\"; }}\n");
        std::fs::write(at("say.c"), source).unwrap();
        let library = format!("{name}/lib/libsay.so");
        clang(&["-shared", "-fPIC", "-Wl,-soname,libsay.so", "say.c", "-o", &library]);
        clang(&["main.c", &library, "-o", &format!("{name}/bin/{name}")]);
    }
    let compare = |one: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
        command.args(["compare", one, "two/bin/two", "--rounds", "6", "--library-path", "../lib"]);
        command.args(["--", "{bin}"]).current_dir(folder.path()).output().unwrap()
    };
    let differ = compare("one/bin/one");
    let said = text(&differ.stderr);
    assert_eq!(differ.status.code(), Some(2), "{said}");
    assert!(said.contains("print"), "the two libraries print different things: {said}");
    // An RPATH goes before what is asked for.
    let elsewhere = format!("-Wl,--disable-new-dtags,-rpath,{}", at("two/lib").display());
    clang(&["main.c", "one/lib/libsay.so", &elsewhere, "-o", "one/bin/bound"]);
    let bound = compare("one/bin/bound");
    let said = text(&bound.stderr);
    assert_eq!(bound.status.code(), Some(2), "{said}");
    assert!(said.contains("expected that it loads") && said.contains("RPATH"), "{said}");
}
