//! Emulated recordings: every branch is one that the code can take, whatever the program does.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test")]

mod support;

use record::emulate::{self, EmulationOptions};
use record::streaming::Compression;
use record::{Ending, Error, Stdout, Summary, Workload};
use std::path::Path;
use support::{check, compile, has, run};

fn record(program: &Path, output: &Path, period: u64) -> Option<Summary> {
    let workload = Workload { stdout: Stdout::Discard, ..Workload::new([program]) };
    match emulate::record(
        &workload,
        output,
        &EmulationOptions { period, ..EmulationOptions::default() },
    ) {
        Ok(summary) => Some(summary),
        Err(Error::NoEmulator { name }) => support::skipped(&format!("{name} is not installed")),
        Err(error) => panic!("{error}"),
    }
}

fn recorded(source: &str, flags: &[&str]) -> Option<(Summary, support::Facts, tempfile::TempDir)> {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), source, flags)?;
    let summary = record(&program, &dir.path().join("perf.data"), 100)?;
    let facts = check(&summary.output);
    assert_eq!((facts.samples, facts.entries), (summary.samples, summary.branch_entries));
    assert_eq!(summary.lost_samples, 0);
    assert_eq!(
        std::fs::read_dir(dir.path()).unwrap().count(),
        2,
        "only the program and perf.data stay"
    );
    Some((summary, facts, dir))
}

#[test]
fn a_static_program_gives_the_same_stacks_twice() {
    let Some((summary, facts, dir)) = recorded("sort.c", &["-static"]) else { return };
    assert!(facts.samples > 1000, "{summary:?}");
    assert!(facts.entries * 10 >= facts.samples * 32 * 9, "stacks are full: {summary:?}");
    let taken = summary.taken_branches.unwrap();
    assert!(taken - facts.period < 200, "the periods add up to the {taken} taken branches");
    let again = record(&dir.path().join("sort"), &dir.path().join("again"), 100).unwrap();
    assert_eq!(again.taken_branches, summary.taken_branches);
    assert!(check(&again.output).stacks == facts.stacks);
    let counted = emulate::count(
        &Workload { stdout: Stdout::Discard, ..Workload::new([dir.path().join("sort")]) },
        &EmulationOptions::default(),
    );
    let counted = counted.unwrap();
    assert_eq!(counted.taken_branches, taken);
    assert!(counted.instructions > 2 * taken);
}

#[test]
fn a_compressed_recording_holds_the_same_in_a_fraction_of_the_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "sort.c", &["-static"]) else { return };
    let workload = Workload { stdout: Stdout::Discard, ..Workload::new([&program]) };
    let of = |compression| {
        let options = EmulationOptions { period: 20, compression, ..EmulationOptions::default() };
        let output = dir.path().join("perf.data");
        let summary = match emulate::record(&workload, &output, &options) {
            Ok(summary) => summary,
            Err(Error::NoEmulator { name }) => {
                return support::skipped(&format!("{name} is not installed"));
            }
            Err(error) => panic!("{error}"),
        };
        let input = perfdata::Input::open(&output).unwrap();
        let level = input.features().compressed.as_ref().map(|how| how.level);
        Some((check(&output).stacks, summary.bytes, level))
    };
    let Some((stacks, bytes, level)) = of(Compression::Off) else { return };
    assert!(bytes > 4 << 20 && level.is_none(), "several rounds: {bytes}, {level:?}");
    for (compression, wanted) in [(Compression::Adapting, 1), (Compression::Level(5), 5)] {
        let (packed, less, level) = of(compression).unwrap();
        assert!(packed == stacks && less * 5 < bytes, "{less} of {bytes} bytes");
        assert_eq!(level, Some(wanted));
    }
}

#[test]
fn a_dynamic_program_has_its_libraries() {
    let Some((_, facts, _dir)) = recorded("sort.c", &["-fPIE", "-pie"]) else { return };
    assert_eq!(facts.files.len(), 3, "{:?}", facts.files);
    assert!(facts.files.iter().any(|file| file.contains("libc")));
}

#[test]
fn a_static_position_independent_program_is_resolved() {
    let Some((_, facts, _dir)) = recorded("sort.c", &["-static-pie"]) else { return };
    assert!(facts.samples > 1000);
}

#[test]
fn each_thread_has_its_own_stack() {
    let Some((summary, facts, _dir)) = recorded("threads.c", &["-lpthread"]) else { return };
    assert_eq!(summary.processes, 1);
    assert_eq!((facts.pids.len(), facts.tids.len()), (1, 13));
}

#[test]
fn forked_children_are_recorded_and_signals_are_no_branches() {
    let Some((summary, facts, _dir)) = recorded("forks_and_signals.c", &["-static"]) else {
        return;
    };
    assert_eq!((summary.processes, facts.pids.len()), (4, 4));
    assert_eq!(summary.native_programs, 1);
    assert_eq!(summary.ending, Ending::Code(0));
    assert_eq!(facts.comms.into_iter().collect::<Vec<_>>(), ["forks_and_signa"]);
}

#[test]
fn an_aarch64_program_is_recorded_as_well() {
    let flags = ["--target=aarch64-linux-gnu", "-fuse-ld=lld", "-nostdlib", "-static"];
    let Some((_, facts, _dir)) = recorded("bare_aarch64.c", &flags) else { return };
    assert!(facts.samples > 1000);
}

#[test]
fn the_peers_accept_the_recording() {
    let Some((summary, facts, dir)) = recorded("sort.c", &["-static"]) else { return };
    let data = summary.output.to_str().unwrap();
    if has("perf") {
        let (done, text, errors) = run("perf", &["script", "-i", data, "-F", "ip,brstack"]);
        assert!(done && errors.is_empty(), "{errors}");
        assert_eq!(text.lines().count() as u64, facts.samples);
        let newest = format!("0x{:x}/0x{:x}/", facts.stacks[0][0].0, facts.stacks[0][0].1);
        assert!(text.lines().next().unwrap().contains(&newest), "{newest}");
    }
    if has("llvm-profgen-22") {
        let (program, profile) = (dir.path().join("sort"), dir.path().join("profile"));
        let binary = format!("--binary={}", program.display());
        let (perf, output) =
            (format!("--perfdata={data}"), format!("--output={}", profile.display()));
        let (done, _, errors) = run("llvm-profgen-22", &[&binary, &perf, &output, "--format=text"]);
        assert!(done && !errors.contains("error"), "{errors}");
        assert!(std::fs::read_to_string(profile).unwrap().contains("compare:"));
    }
}

#[test]
fn what_cannot_be_recorded_is_said_plainly() {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("perf.data");
    let fails = |argv: &[&str], period| {
        let options = EmulationOptions { period, ..EmulationOptions::default() };
        emulate::record(&Workload::new(argv), &output, &options).unwrap_err().to_string()
    };
    assert!(fails(&[], 1).contains("no command"));
    assert!(fails(&["/no/such/program"], 1).contains("/no/such/program"));
    if has("qemu-x86_64") && cfg!(target_arch = "x86_64") {
        assert!(fails(&["/bin/true"], 1 << 30).contains("lower the period"));
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing half-made stays");
}
