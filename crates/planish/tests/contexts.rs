//! Profiles by calling context: emulated recordings with call chains give what llvm-profgen makes
//! of them, and clang uses it.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on shall fail its test")]

use perfdata::{Input, OrderOptions, Record};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/callers.c");
/// Templates, virtual calls and circles of calls.
const NODES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/nodes.cc");
const FLAGS: [&str; 5] = [
    "-O2",
    "-g1",
    "-fno-omit-frame-pointer",
    "-fdebug-info-for-profiling",
    "-fpseudo-probe-for-profiling",
];

fn planish(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
    command.current_dir(directory).args(words).stdin(Stdio::null()).output().expect("planish runs")
}

#[track_caller]
fn says(directory: &Path, words: &[&str], code: i32) -> String {
    let output = planish(directory, words);
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
    said.into_owned()
}

/// What a tool prints on both streams; `None`, with a note, where it is not installed.
#[track_caller]
fn tool(directory: &Path, words: &[&str]) -> Option<String> {
    let (program, arguments) = words.split_first().unwrap();
    let Ok(output) = Command::new(program).args(arguments).current_dir(directory).output() else {
        eprintln!("skipped: {program} is not installed");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    Some(said.into_owned())
}

/// Builds `app` and records it to `perf.data`; false, with a note, where something is missing.
fn prepare(directory: &Path) -> bool {
    prepare_with(directory, &FLAGS)
}

fn prepare_with(directory: &Path, flags: &[&str]) -> bool {
    let clang = [&["clang-22", SOURCE, "-o", "app", "-Wl,--build-id"], flags].concat();
    tool(directory, &clang).is_some() && record(directory)
}

/// Records `app` to `perf.data`, with call chains; false, with a note, where that cannot be.
fn record(directory: &Path) -> bool {
    let record = [
        "record",
        "--branches=emulated",
        "--call-graph",
        "fp",
        "-c",
        "200",
        "-o",
        "perf.data",
        "--",
        "./app",
    ];
    // The variables lie on the recorded program's stack and are looked at when it starts, so that
    // they decide which samples there are: the same ones everywhere. (In one recording in many, of
    // two calls that are equal in all that LLVM compares, llvm-profgen inlines the other one.)
    let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let done = command.current_dir(directory).args(record).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    if done.status.code() != Some(0) {
        assert!(said.contains("qemu"), "{said}");
        eprintln!("skipped: no emulated recording: {said}");
        return false;
    }
    true
}

/// What `perf script --show-mmap-events -F ip,brstack` prints, with frames as they were recorded:
/// newer perf prints them as offsets in their files, in which llvm-profgen finds no callers.
fn script(recording: &Path) -> String {
    let mut text = String::new();
    let input = Input::open(recording).unwrap();
    let mut records = input.ordered(OrderOptions::default()).unwrap();
    while let Some(record) = records.next() {
        let record = record.unwrap();
        match record.parse().unwrap().0 {
            Record::Mmap(map) if map.executable => {
                let (pid, path) = (map.pid, String::from_utf8_lossy(map.path).into_owned());
                let (start, len, offset) = (map.start.0, map.len, map.pgoff);
                let place = format!("[{start:#x}({len:#x}) @ {offset:#x} 00:00 0 0]");
                writeln!(text, "PERF_RECORD_MMAP2 {pid}/{pid}: {place}: r-xp {path}").unwrap();
            }
            Record::Sample(sample) => {
                // Above the addresses are marks that say whose frames follow.
                for frame in sample.callchain.unwrap().iter().filter(|frame| *frame < 1 << 63) {
                    writeln!(text, "\t{frame:16x}").unwrap();
                }
                for entry in sample.branches.unwrap().iter() {
                    write!(text, " {:#x}/{:#x}/-/-/-/0 ", entry.from.0, entry.to.0).unwrap();
                }
                text.push_str("\n\n");
            }
            _ => {}
        }
    }
    text
}

/// A profile as text, without the comments that say which program was counted.
fn read(directory: &Path, name: &str) -> String {
    let text = std::fs::read_to_string(directory.join(name)).unwrap();
    text.lines().filter(|line| !line.starts_with("# ")).map(|line| format!("{line}\n")).collect()
}

fn make(directory: &Path, input: &str, output: &str, more: &[&str]) -> String {
    let words = ["profile", input, "--binary", "app", "-o", output, "--emit", "text"];
    says(directory, &[&words[..], more].concat(), 0)
}

/// Functions or contexts with the lines below them.
fn parts(profile: &str) -> BTreeMap<String, Vec<String>> {
    let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut last = String::new();
    for line in profile.lines() {
        if line.starts_with(' ') {
            parts.get_mut(&last).unwrap().push(line.to_owned());
        } else {
            last = line.to_owned();
            parts.insert(last.clone(), Vec::new());
        }
    }
    parts
}

#[track_caller]
fn same(ours: &str, theirs: &str) {
    let (ours, theirs) = (parts(ours), parts(theirs));
    let differing = ours.iter().find(|(name, lines)| theirs.get(*name) != Some(lines));
    let missing = theirs.keys().find(|name| !ours.contains_key(*name));
    if let Some((name, lines)) = differing {
        panic!("{name}: ours {lines:#?}, theirs {:#?}", theirs.get(name));
    }
    assert_eq!(missing, None, "theirs alone");
}

#[test]
fn contexts_are_those_of_llvm_profgen() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    if !prepare(here) {
        return;
    }
    std::fs::write(here.join("script.txt"), script(&here.join("perf.data"))).unwrap();
    let profgen = |output: &str, more: &[&str]| {
        let words = [
            "llvm-profgen-22",
            "--binary=app",
            "--perfscript=script.txt",
            "--format=text",
            "--csspgo-preinliner=0",
            "--infer-missing-frames=0",
        ];
        tool(here, &[&words[..], &["-o", output], more].concat()).is_some()
    };
    // With every context, then with cold ones merged, then as inlined calls.
    if !profgen("all.theirs", &["--gen-cs-nested-profile=0", "--csprof-merge-cold-context=0"]) {
        return;
    }
    make(here, "script.txt", "all.ours", &["--contexts", "full", "--cold-context", "0"]);
    let all = read(here, "all.ours");
    for part in [":", "tree:", "[main:", " @ often:", "!CFGChecksum: ", "!Attributes: 1"] {
        assert!(all.contains(part), "no `{part}` in: {all}");
    }
    assert!(parts(&all).len() > 20, "{all}");
    same(&all, &read(here, "all.theirs"));

    assert!(profgen("merged.theirs", &["--gen-cs-nested-profile=0"]));
    let said = make(here, "script.txt", "merged.ours", &["--contexts", "full"]);
    assert!(
        said.contains("merged into their functions") && said.contains("of them in a context"),
        "{said}"
    );
    assert!(read(here, "merged.ours") != all);
    same(
        &without_attributes(&read(here, "merged.ours")),
        &without_attributes(&read(here, "merged.theirs")),
    );

    assert!(profgen("nested.theirs", &[]));
    make(here, "script.txt", "nested.ours", &["--contexts", "nested"]);
    // Which attributes a sum of contexts has depends on the order in which llvm-profgen comes by
    // them.
    same(
        &without_attributes(&read(here, "nested.ours")),
        &without_attributes(&read(here, "nested.theirs")),
    );
}

#[test]
fn what_is_inlined_is_what_llvm_profgens_pre_inliner_decides() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    for (program, compiler, source) in [("app", "clang-22", SOURCE), ("app", "clang++-22", NODES)] {
        let clang = [&[compiler, source, "-o", program, "-Wl,--build-id"], &FLAGS[..]].concat();
        if tool(here, &clang).is_none() || !record(here) {
            return;
        }
        std::fs::write(here.join("script.txt"), script(&here.join("perf.data"))).unwrap();
        for (by, cost) in [("code", "1"), ("places", "0")] {
            for (form, nested) in [("full", "0"), ("nested", "1")] {
                let (cost, nested) = (
                    format!("--use-context-cost-for-preinliner={cost}"),
                    format!("--gen-cs-nested-profile={nested}"),
                );
                let words = [
                    "llvm-profgen-22",
                    "--binary=app",
                    "--perfscript=script.txt",
                    "--format=text",
                    "--infer-missing-frames=0",
                    &cost,
                    &nested,
                    "-o",
                    "theirs",
                ];
                if tool(here, &words).is_none() {
                    return;
                }
                let more = ["--contexts", form, "--pre-inline", by];
                let said = make(here, "script.txt", "ours", &more);
                assert!(said.contains("contexts to inline"), "{said}");
                let ours = read(here, "ours");
                assert!(ours.contains("!Attributes: 2"), "{source}: nothing is inlined: {ours}");
                same(&ours, &read(here, "theirs"));
            }
        }
    }
}

/// The numbers before two of the words of the ledger: samples in, and samples unwound.
fn unwound(said: &str) -> (u64, u64) {
    let before = |words: &str| -> u64 {
        let (before, _) =
            said.split_once(words).unwrap_or_else(|| panic!("no `{words}` in: {said}"));
        before.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    (before(" in, "), before(" unwound"))
}

#[test]
fn an_emulated_recording_keeps_its_samples_at_the_begin_and_end_of_functions() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let source = "__attribute__((noinline)) int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }\n\
                  int main(void) { return fib(27) & 1; }\n";
    std::fs::write(here.join("fib.c"), source).unwrap();
    let clang = [&["clang-22", "fib.c", "-o", "app", "-Wl,--build-id"], &FLAGS[..]].concat();
    if tool(here, &clang).is_none() || !record(here) {
        return;
    }
    let said =
        make(here, "perf.data", "exact.text", &["--contexts", "full", "--cold-context", "0"]);
    let (samples, kept) = unwound(&said);
    assert!(samples > 100 && kept * 100 >= samples * 95, "{said}");
    assert!(read(here, "exact.text").contains("[main:"), "{said}");
    assert!(
        said.contains("evidence: ") && said.contains("the halves of the samples overlap by"),
        "{said}"
    );
    let more = ["--contexts", "full", "--cold-context", "0", "--format", "json", "-q"];
    let summary: serde_json::Value =
        serde_json::from_str(&make(here, "perf.data", "exact.text", &more)).unwrap();
    assert_eq!(summary["schema"], "planish-profile");
    assert!(summary["evidence"]["samples"].as_u64().unwrap() > 100, "{summary}");
    // Text does not say who followed the calls, so llvm-profgen's rule holds.
    std::fs::write(here.join("script.txt"), script(&here.join("perf.data"))).unwrap();
    let said =
        make(here, "script.txt", "text.text", &["--contexts", "full", "--cold-context", "0"]);
    let (all, kept_of_text) = unwound(&said);
    eprintln!("kept of {samples} samples: {kept}; as text {kept_of_text} of {all}");
    assert!(kept_of_text < kept && said.contains("frame pointers miss a caller"), "{said}");
}

#[test]
fn chains_without_callers_are_told_with_the_option_that_gives_them() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    if !prepare(here) {
        return;
    }
    // Of each chain the sampled address alone, as perf script prints it of a recording without -g.
    let mut text = String::new();
    let mut first = true;
    for line in script(&here.join("perf.data")).lines() {
        if !line.starts_with('\t') || first {
            writeln!(text, "{line}").unwrap();
        }
        first = !line.starts_with('\t');
    }
    std::fs::write(here.join("leaves.txt"), text).unwrap();
    let said = make(here, "leaves.txt", "full.text", &["--contexts", "full"]);
    assert!(
        said.contains("have no callers in their call chains") && said.contains("record with -g"),
        "{said}"
    );
    let said = make(here, "perf.data", "whole.text", &["--contexts", "full"]);
    assert!(!said.contains("record with -g"), "{said}");
}

fn without_attributes(profile: &str) -> String {
    let lines = profile.lines().filter(|line| !line.trim_start().starts_with("!Attributes: "));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn clang_uses_contexts_in_every_form_and_llvm_profdata_reads_them() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    if !prepare(here) {
        return;
    }
    for (contexts, form) in
        [("nested", "text"), ("nested", "extbinary"), ("full", "text"), ("full", "extbinary")]
    {
        let words = ["profile", "perf.data", "--binary", "app", "-o", "p.afdo", "--quiet"];
        says(here, &[&words[..], &["--contexts", contexts, "--emit", form]].concat(), 0);
        let remarks = ["-Rpass-analysis=sample-profile", "-mllvm", "-report-profile-staleness"];
        let words = ["clang-22", SOURCE, "-o", "again", "-Werror", "-fprofile-sample-use=p.afdo"];
        let said = tool(here, &[&words[..], &FLAGS, &remarks].concat()).unwrap();
        assert!(
            said.contains("Applied"),
            "{contexts} {form}: clang must say what it applied: {said}"
        );
        assert!(said.contains("(0/"), "{contexts} {form}: nothing may be stale: {said}");

        // What is written is read back the same, by us and by llvm-profdata.
        says(here, &["profile", "merge", "p.afdo", "-o", "ours.text", "--emit", "text"], 0);
        if tool(
            here,
            &["llvm-profdata-22", "merge", "--sample", "--text", "p.afdo", "-o", "theirs.text"],
        )
        .is_some()
        {
            same(&read(here, "ours.text"), &read(here, "theirs.text"));
            let shown = tool(here, &["llvm-profdata-22", "show", "--sample", "p.afdo"]).unwrap();
            assert_eq!(shown.contains(" @ often"), contexts == "full", "{shown}");
        }
        let shown = says(here, &["profile", "show", "p.afdo"], 0);
        assert!(shown.contains("pseudo probes"), "{shown}");
    }
}

#[test]
fn profiles_with_and_without_contexts_are_not_added_up() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    if !prepare(here) {
        return;
    }
    make(here, "perf.data", "full.text", &["--contexts", "full"]);
    make(here, "perf.data", "nested.text", &["--contexts", "nested"]);
    let merge =
        |inputs: [&'static str; 2]| [&["profile", "merge", "-o", "sum.text"], &inputs[..]].concat();
    let said = says(here, &merge(["full.text", "nested.text"]), 2);
    assert!(
        said.contains("full.text keeps calling contexts") && said.contains("same --contexts"),
        "{said}"
    );
    says(here, &["profile", "diff", "nested.text", "full.text"], 2);
    says(here, &merge(["full.text", "full.text"]), 0);
    says(here, &merge(["nested.text", "nested.text"]), 0);
}

#[test]
fn a_program_whose_calls_have_no_probes_is_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    if !prepare_with(here, &["-O2", "-fpseudo-probe-for-profiling"]) {
        return;
    }
    let said = make(here, "perf.data", "full.text", &["--contexts", "full"]);
    assert!(said.contains("none of calls") && said.contains("-g1"), "{said}");
    assert!(
        !read(here, "full.text").contains(" @ "),
        "contexts after all, so the warning is wrong"
    );
}

#[test]
fn what_has_no_contexts_is_an_error_with_the_next_step() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    if !prepare(here) {
        return;
    }
    let plain = ["record", "--branches=emulated", "-o", "plain.data", "--", "./app"];
    says(here, &plain, 0);
    let words = |input: &'static str| {
        ["profile", input, "--binary", "app", "-o", "x", "--contexts", "full"]
    };
    let said = says(here, &words("plain.data"), 2);
    assert!(said.contains("no call chain") && said.contains("--call-graph fp"), "{said}");
    says(here, &["aggregate", "perf.data", "--binary", "app", "-o", "run.counts"], 0);
    let said = says(here, &words("run.counts"), 2);
    assert!(said.contains("give --contexts the recording itself"), "{said}");
    let said = says(here, &[&words("perf.data")[..], &["--emit", "gcov"]].concat(), 2);
    assert!(said.contains("extbinary and text"), "{said}");
    let said = says(
        here,
        &["profile", "perf.data", "--binary", "app", "-o", "x", "--cold-context", "7"],
        2,
    );
    assert!(said.contains("--contexts"), "{said}");
    // Frames that lie nowhere, as newer perf prints them.
    let shifted: String = script(&here.join("perf.data"))
        .lines()
        .map(|line| {
            if line.starts_with('\t') {
                "\t             11a0\n".to_owned()
            } else {
                format!("{line}\n")
            }
        })
        .collect();
    std::fs::write(here.join("offsets.txt"), shifted).unwrap();
    let said = says(here, &words("offsets.txt"), 2);
    assert!(
        said.contains("offsets in their files") && said.contains("give the perf.data"),
        "{said}"
    );
    // Cut and garbled recordings are no reason to panic.
    let bytes = std::fs::read(here.join("perf.data")).unwrap();
    for at in [200, bytes.len() / 3, bytes.len() - 100] {
        std::fs::write(here.join("cut.data"), &bytes[..at]).unwrap();
        let code = planish(here, &words("cut.data")).status.code();
        assert!(matches!(code, Some(0 | 2)), "cut at {at}: {code:?}");
        let mut wrong = bytes.clone();
        wrong[at..at + 64].fill(0xee);
        std::fs::write(here.join("wrong.data"), &wrong).unwrap();
        let code = planish(here, &words("wrong.data")).status.code();
        assert!(matches!(code, Some(0 | 2)), "garbled at {at}: {code:?}");
    }
}
