//! Do compilers take the profiles without a word, and does the code they make show that they used
//! them?

use crate::bench::{Bench, CLANG_FLAGS, has, has_emulation, has_perf, succeeds, text};

/// clang's flags, then `more`.
fn clang<'a>(more: &[&'a str]) -> Vec<&'a str> {
    CLANG_FLAGS.iter().chain(more).copied().collect()
}

/// Lines of compiler output that are warnings or errors; remarks are what these tests ask for.
fn complaints(said: &str) -> Vec<&str> {
    said.lines().filter(|l| l.contains("warning:") || l.contains("error:")).collect()
}

#[test]
fn clang_uses_every_format_and_promotes_the_hot_indirect_call() {
    if !(has("clang-22") && has_emulation()) {
        return;
    }
    let bench = Bench::new();
    bench.source("calls.c");
    bench.tool("clang-22", &clang(&["-o", "calls", "calls.c"]));
    bench.tool("clang-22", &clang(&["-S", "-o", "plain.s", "calls.c"]));
    bench.emulate(&["./calls", "300000"]);
    let mut made = Vec::new();
    for format in ["text", "binary", "extbinary"] {
        bench.profile("calls", format, format);
        let used = format!("-fprofile-sample-use={format}");
        let words = [
            "-Wall",
            "-Werror",
            &used,
            "-Rpass-analysis=sample-profile",
            "-Rpass=sample-profile-inline|pgo-icall",
        ];
        let said = bench
            .tool("clang-22", &clang(&[&words[..], &["-S", "-o", "used.s", "calls.c"]].concat()));
        assert_eq!(complaints(&said), [""; 0], "{format}");
        assert!(said.contains("samples from profile"), "{format}: {said}");
        assert!(
            said.contains("helper") && said.contains("to match profiling context"),
            "{format}: {said}"
        );
        assert!(said.contains("Promote indirect call to _ZL3mixjj"), "{format}: {said}");
        made.push(bench.read("used.s"));
    }
    assert_ne!(made[0], bench.read("plain.s"));
    assert!(
        made.iter().all(|code| *code == made[0]),
        "one profile in three formats makes one program"
    );
}

#[test]
fn clang_inlines_hot_templates_of_cpp_where_the_profile_has_them() {
    if !(has("clang++-22") && has_emulation()) {
        return;
    }
    let bench = Bench::new();
    bench.source("shapes.cc");
    bench.tool("clang++-22", &clang(&["-o", "shapes", "shapes.cc"]));
    bench.emulate(&["./shapes", "200000"]);
    bench.profile("shapes", "extbinary", "shapes.afdo");
    let words = [
        "-Wall",
        "-Werror",
        "-fprofile-sample-use=shapes.afdo",
        "-Rpass=sample-profile-inline|pgo-icall",
    ];
    let said =
        bench.tool("clang++-22", &clang(&[&words[..], &["-o", "used", "shapes.cc"]].concat()));
    assert_eq!(complaints(&said), [""; 0]);
    for instance in ["_ZL4foldIjE", "_ZL4foldImE"] {
        assert!(
            said.lines()
                .any(|l| l.contains(instance) && l.contains("inlined into 'main' to match")),
            "{said}"
        );
    }
    assert!(said.contains("Promote indirect call to _ZNK6Square4areaEj"), "{said}");
    assert_eq!(bench.tool("./used", &["5000"]), bench.tool("./shapes", &["5000"]));
}

#[test]
fn a_thin_lto_build_uses_the_profile_across_files() {
    if !(has("clang-22") && has("ld.lld-22") && has("llvm-objdump-22") && has_emulation()) {
        return;
    }
    let bench = Bench::new();
    bench.source("near.c");
    bench.source("far.c");
    let thin = |more: &[&str]| {
        let words = ["-flto=thin", "-fuse-ld=lld", "-Wall", "-Werror", "near.c", "far.c"];
        bench.tool("clang-22", &clang(&[&words[..], more].concat()))
    };
    thin(&["-o", "plain"]);
    bench.emulate(&["./plain", "100000"]);
    bench.profile("plain", "extbinary", "thin.afdo");
    let said =
        thin(&["-o", "used", "-fprofile-sample-use=thin.afdo", "-Rpass-analysis=sample-profile"]);
    assert_eq!(complaints(&said), [""; 0]);
    assert!(said.contains("near.c") && said.contains("far.c"), "both files got samples: {said}");
    let code = |binary| {
        bench.tool(
            "llvm-objdump-22",
            &["-d", "--no-show-raw-insn", "--disassemble-symbols=work", binary],
        )
    };
    assert!(!code("used").contains("<far_helper>"), "the hot callee of the other file is inlined");
    assert_ne!(code("used"), code("plain"));
    assert_eq!(bench.tool("./used", &["5000"]), bench.tool("./plain", &["5000"]));
}

/// The major version of the installed gcc, of those that read version 2.
fn gcc_version() -> Option<String> {
    if !has("gcc") {
        return None;
    }
    let version = Bench::new().tool("gcc", &["-dumpversion"]);
    let major = version.trim().split('.').next().unwrap_or_default().to_owned();
    let known = major.parse().is_ok_and(|major: u32| (5..=16).contains(&major));
    if !known {
        eprintln!("skipped: gcc {major} is not known");
    }
    known.then_some(major)
}

/// Builds with gcc's compiler `driver`, records, and compiles with the profile; gcc's dump of what
/// it read.
fn gcc_build(bench: &Bench, driver: &str, major: &str, source: &str, argument: &str) -> String {
    bench.source(source);
    bench.tool(driver, &["-g1", "-O2", "-o", "app", source]);
    bench.tool(driver, &["-g1", "-O2", "-S", "-o", "plain.s", source]);
    bench.emulate(&["./app", argument]);
    let words = [
        "profile",
        "perf.data",
        "--binary",
        "app",
        "--emit",
        "gcov",
        "--gcc-version",
        major,
        "-o",
        "app.gcov",
    ];
    let said = succeeds(&bench.planish(&words));
    assert!(said.contains("gcc -fauto-profile=app.gcov"), "{said}");
    let words =
        ["-g1", "-O2", "-Wall", "-Wextra", "-fauto-profile=app.gcov", "-fdump-ipa-afdo=dump"];
    let said = bench.tool(driver, &[&words[..], &["-S", "-o", "used.s", source]].concat());
    assert_eq!(said, "", "gcc has nothing to say");
    assert_ne!(bench.read("used.s"), bench.read("plain.s"));
    text(&bench.read("dump"))
}

/// The largest count of a block of a function, from gcc's dump.
fn hottest_block(dump: &str) -> u64 {
    let counts = dump
        .lines()
        .filter_map(|l| l.trim().strip_prefix("<bb ")?.split("[count: ").nth(1)?.split(']').next());
    counts.filter_map(|c| c.parse().ok()).max().unwrap_or(0)
}

#[test]
fn gcc_uses_the_profile_of_a_program_that_it_built() {
    let Some(major) = gcc_version().filter(|_| has_emulation()) else { return };
    let bench = Bench::new();
    let dump = gcc_build(&bench, "gcc", &major, "calls.c", "300000");
    assert!(hottest_block(&dump) > 10_000, "the loop's blocks have counts: {dump}");
    assert!(
        dump.contains("Indirect call counter all:"),
        "the indirect call has its targets: {dump}"
    );
    // `work` is entered once, so its head count is 0; gcc must not take its hot loop for cold code.
    // The promoted call compares the function pointer with `mix`, which is inlined or called
    // directly.
    let code = text(&bench.read("used.s"));
    let work = code.split("\nwork:").nth(1).and_then(|c| c.split(".size\twork").next()).unwrap();
    assert!(work.contains("mix"), "the hot indirect call is promoted: {work}");
    assert!(code.contains(".text.hot"), "{code}");
}

#[test]
fn gpp_uses_the_profile_for_templates_and_virtual_calls() {
    let Some(major) = gcc_version().filter(|_| has("g++") && has_emulation()) else { return };
    let bench = Bench::new();
    let dump = gcc_build(&bench, "g++", &major, "shapes.cc", "200000");
    assert!(hottest_block(&dump) > 10_000, "the loop's blocks have counts");
    assert!(dump.contains("Indirect call counter all:"), "the virtual call has its targets");
}

#[test]
fn rustc_uses_the_profile() {
    if !(has("rustc") && has_emulation()) {
        return;
    }
    let bench = Bench::new();
    bench.source("walk.rs");
    let rustc = |more: &[&str]| {
        let words = [
            "-Copt-level=3",
            "-Cdebuginfo=1",
            "-Cstrip=none",
            "-Zdebug-info-for-profiling",
            "walk.rs",
        ];
        bench.command("rustc").env("RUSTC_BOOTSTRAP", "1").args(words).args(more).output().unwrap()
    };
    let built = rustc(&["-o", "walk"]);
    if text(&built.stderr).contains("unknown unstable option") {
        eprintln!("skipped: this rustc has no -Zdebug-info-for-profiling");
        return;
    }
    succeeds(&built);
    bench.emulate(&["./walk", "3000"]);
    bench.profile("walk", "extbinary", "walk.afdo");
    let used =
        rustc(&["-Zprofile-sample-use=walk.afdo", "-Cremark=sample-profile-impl", "-o", "used"]);
    let said = succeeds(&used);
    assert_eq!(complaints(&said), [""; 0]);
    assert!(said.contains("samples from profile"), "{said}");
    assert_eq!(bench.tool("./used", &["500"]), bench.tool("./walk", &["500"]));
    for (more, name) in [(vec![], "plain.s"), (vec!["-Zprofile-sample-use=walk.afdo"], "used.s")] {
        succeeds(&rustc(&[&more[..], &["--emit=asm", "-o", name]].concat()));
    }
    assert_ne!(bench.read("plain.s"), bench.read("used.s"));
}

/// Taken branches of one run. Unlike time they do not depend on the machine's mood or on alignment.
fn taken_branches(bench: &Bench, program: &str) -> u64 {
    let words = [
        "record",
        "--branches=emulated",
        "--format=json",
        "-o",
        "taken.data",
        "--",
        program,
        "2000",
    ];
    let made = bench.planish(&words);
    succeeds(&made);
    let summary: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    summary["taken_branches"].as_u64().unwrap()
}

#[test]
fn a_profile_of_plain_samples_is_accepted_and_does_no_harm() {
    if !(has("clang-22") && has_perf()) {
        return;
    }
    let bench = Bench::new();
    bench.source("spin.c");
    bench.tool("clang-22", &clang(&["-o", "spin", "spin.c"]));
    succeeds(&bench.planish(&[
        "record",
        "-q",
        "--branches=none",
        "-o",
        "perf.data",
        "--",
        "./spin",
        "3000000",
    ]));
    let said = bench.profile("spin", "extbinary", "spin.afdo");
    assert!(
        said.contains("without branch stacks") && said.contains("--branches=emulated"),
        "{said}"
    );
    let words =
        ["-Wall", "-Werror", "-fprofile-sample-use=spin.afdo", "-Rpass-analysis=sample-profile"];
    let said = bench.tool("clang-22", &clang(&[&words[..], &["-o", "used", "spin.c"]].concat()));
    assert_eq!(complaints(&said), [""; 0]);
    assert!(said.contains("samples from profile"), "{said}");
    assert_eq!(bench.tool("./used", &["5000"]), bench.tool("./spin", &["5000"]));
    if has_emulation() {
        let (plain, used) = (taken_branches(&bench, "./spin"), taken_branches(&bench, "./used"));
        assert!(used <= plain + plain / 50, "{used} taken branches after {plain}");
    }
}
