//! Recorded machines: what their kernels do in the sections asked for, whole or not at all.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test")]

mod support;

use perfdata::{Input, OrderOptions, Record};
use record::Error;
use record::kernel::{KernelOptions, Recorded, record};
use record::machine::{Board, Execution, Failure, Guest, Statement, Timing};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::{has, machine, skipped};

/// Where the kernel of `programs/machine.S` has its system calls.
const ENTRY: u64 = 0xffff_ffff_8020_2000;
const WORK: u64 = ENTRY + 0x1000;
const HELD: u64 = ENTRY + 0x2000;
/// Every branch of a call of work(): there, and around its loop.
const WORK_BRANCHES: [(u64, u64); 4] =
    [(ENTRY + 2, WORK), (WORK, WORK + 13), (WORK + 8, WORK), (WORK + 13, WORK + 5)];

fn options(period: u64) -> KernelOptions {
    // Far longer than it takes, lest a machine that hangs keeps the tests waiting for ever.
    let timeout = Some(Duration::from_secs(300));
    KernelOptions { period, timeout, to_the_end: true, ..KernelOptions::default() }
}

fn recorded(guest: &Guest, output: &Path, options: &KernelOptions) -> Recorded {
    record(&guest.argv(), output, options, &mut |_, _| {}).unwrap()
}

/// All branches of a recording, and the number of samples.
fn branches(path: &Path) -> (BTreeSet<(u64, u64)>, u64) {
    let input = Input::open(path).unwrap();
    let mut ordered = input.ordered(OrderOptions::default()).unwrap();
    let (mut branches, mut samples) = (BTreeSet::new(), 0);
    while let Some(record) = ordered.next() {
        let record = record.unwrap();
        if let (Record::Sample(sample), _) = record.parse().unwrap() {
            let stack = sample.branches.as_ref().unwrap();
            branches.extend(stack.iter().map(|entry| (entry.from.0, entry.to.0)));
            samples += 1;
        }
    }
    (branches, samples)
}

/// What stays in a directory beside the kernel.
fn left(dir: &Path, kernel: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path != kernel).collect()
}

#[test]
fn only_the_sections_asked_for_are_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let Some(guest) = machine(dir.path(), &[]) else { return };
    let output = dir.path().join("perf.data");
    let mut said = Vec::new();
    let options = KernelOptions { sections: Some(1..=99), ..options(10) };
    let found = record(&guest.argv(), &output, &options, &mut |_, statement| {
        said.extend(statement.cloned())
    });
    let Recorded { summary, transcript } = found.unwrap();
    // Twice 100 rounds with a call, a return and a jump back, of which the last is not taken; and
    // the jump there.
    assert_eq!((summary.taken_branches, summary.lost_samples), (Some(600), 0));
    let (found, samples) = branches(&output);
    assert_eq!(found, BTreeSet::from(WORK_BRANCHES));
    // Intervals vary from three to five quarters of the period.
    assert!(samples == summary.samples && (600 / 13..=600 / 8).contains(&samples), "{samples}");
    let sections: Vec<_> = transcript
        .sections
        .iter()
        .map(|section| (section.number, section.held_out, &*section.name))
        .collect();
    assert_eq!(sections, [(1, false, "calls"), (101, true, "loops")]);
    assert_eq!(transcript.results, [Timing { number: 1, operations: 200, nanoseconds: 5000 }]);
    assert!(
        transcript.ended && said.len() == 5 && said.last() == Some(&Statement::End),
        "{said:?}"
    );
    assert_eq!(left(dir.path(), &guest.kernel), [output]);
}

#[test]
fn without_sections_the_whole_run_is_recorded_and_twice_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let Some(guest) = machine(dir.path(), &[]) else { return };
    let outputs = ["one", "two"].map(|name| dir.path().join(name));
    for output in &outputs {
        let found = recorded(&guest, output, &options(1));
        assert!(found.summary.taken_branches > Some(600), "{found:?}");
    }
    let (found, _) = branches(&outputs[0]);
    assert!(WORK_BRANCHES.iter().all(|branch| found.contains(branch)), "{found:x?}");
    assert!(found.contains(&(HELD + 3, HELD)), "{found:x?}");
    let [one, two] = outputs.map(|output| std::fs::read(output).unwrap());
    assert!(one == two, "the same run gives the same bytes");
}

#[test]
fn a_machine_with_several_cpus_is_recorded_without_counting_instructions() {
    let dir = tempfile::tempdir().unwrap();
    let Some(guest) = machine(dir.path(), &[]) else { return };
    let guest = Guest { cpus: 3, execution: Execution::Emulated, ..guest };
    let output = dir.path().join("perf.data");
    let found = recorded(&guest, &output, &KernelOptions { sections: Some(1..=99), ..options(10) });
    // The other CPUs wait to be started, and the one that runs does what it always does.
    assert_eq!((found.summary.taken_branches, found.summary.lost_samples), (Some(600), 0));
    assert_eq!(branches(&output).0, BTreeSet::from(WORK_BRANCHES));
}

#[test]
fn sections_that_never_begin_leave_no_recording() {
    let dir = tempfile::tempdir().unwrap();
    let Some(guest) = machine(dir.path(), &[]) else { return };
    let options = KernelOptions { sections: Some(2..=99), ..options(10) };
    let error =
        record(&guest.argv(), &dir.path().join("perf.data"), &options, &mut |_, _| {}).unwrap_err();
    assert!(error.to_string().contains("in the sections 2 to 99"), "{error}");
    assert_eq!(left(dir.path(), &guest.kernel), [""; 0].map(PathBuf::from));
}

/// Records a machine that comes to no good end.
fn failure(defines: &[&str], options: &KernelOptions) -> Option<(Failure, Vec<String>)> {
    let dir = tempfile::tempdir().unwrap();
    let guest = machine(dir.path(), defines)?;
    let error =
        record(&guest.argv(), &dir.path().join("perf.data"), options, &mut |_, _| {}).unwrap_err();
    assert_eq!(left(dir.path(), &guest.kernel), [""; 0].map(PathBuf::from), "{error}");
    let text = error.to_string();
    let Error::Machine { failure, tail, .. } = error else { panic!("{error}") };
    assert!(tail.iter().all(|line| text.contains(line)), "{text}");
    Some((failure, tail))
}

#[test]
fn a_workload_that_fails_ends_the_machine() {
    let Some((failure, tail)) = failure(&["-DFAILS"], &options(10)) else { return };
    assert_eq!(failure, Failure::Workload { section: 101, text: "no such thing".to_owned() });
    assert!(tail.iter().any(|line| line == "planish: failed 101 no such thing"), "{tail:?}");
}

#[test]
fn a_workload_of_a_form_that_is_not_known_is_not_recorded() {
    let Some((failure, _)) = failure(&["-DLATER"], &options(10)) else { return };
    assert_eq!(failure, Failure::Form(2));
    assert!(failure.to_string().contains("planish: begin 2"), "{failure}");
}

#[test]
fn a_panic_ends_the_machine_with_its_last_words() {
    let Some((failure, tail)) = failure(&["-DPANICS"], &options(10)) else { return };
    assert_eq!(failure, Failure::Panic);
    assert!(tail.iter().any(|line| line == "Call Trace: work"), "{tail:?}");
}

#[test]
fn a_machine_that_hangs_is_killed_when_its_time_is_over() {
    let limit = Duration::from_secs(5);
    let short = KernelOptions { timeout: Some(limit), ..options(10) };
    let Some((failure, _)) = failure(&["-DHANGS"], &short) else { return };
    assert_eq!(failure, Failure::TimedOut(limit));
}

#[test]
fn a_guest_that_prints_without_end_takes_bounded_room() {
    let limit = Duration::from_secs(5);
    let short = KernelOptions { timeout: Some(limit), ..options(1_000_000) };
    let Some((failure, tail)) = failure(&["-DCHATTERS"], &short) else { return };
    assert_eq!(failure, Failure::TimedOut(limit));
    assert!(tail.iter().map(String::len).sum::<usize>() < 40 * 4 * 400);
}

#[test]
fn a_machine_that_ends_before_its_workload_is_noticed_where_that_matters() {
    let Some((failure, _)) = failure(&["-DSTOPS"], &options(10)) else { return };
    assert_eq!(failure, Failure::NoEnd);
    let dir = tempfile::tempdir().unwrap();
    let guest = machine(dir.path(), &["-DSTOPS"]).unwrap();
    let found = recorded(
        &guest,
        &dir.path().join("perf.data"),
        &KernelOptions { to_the_end: false, ..options(10) },
    );
    assert!(!found.transcript.ended && found.summary.samples > 0);
}

#[test]
fn a_machine_that_cannot_start_is_named_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("perf.data");
    let argv = ["qemu-system-nonesuch".into()];
    let error = record(&argv, &output, &options(10), &mut |_, _| {}).unwrap_err();
    assert!(
        matches!(&error, Error::NoMachine { name, .. } if name == "qemu-system-nonesuch"),
        "{error}"
    );
    assert!(error.to_string().contains("qemu-system-x86"), "{error}");
    if !has("qemu-system-x86_64") {
        return;
    }
    let guest = Guest {
        board: Board::Pc,
        kernel: dir.path().join("missing"),
        initrd: None,
        memory_mib: 64,
        cpus: 1,
        append: String::new(),
        execution: Execution::Emulated,
    };
    let options = KernelOptions { to_the_end: false, ..options(10) };
    let error = record(&guest.argv(), &output, &options, &mut |_, _| {}).unwrap_err();
    // qemu loads plugins before kernels, or after them.
    let returned = matches!(error, Error::Machine { failure: Failure::Returned(1), .. });
    assert!(returned || matches!(error, Error::PluginNotLoaded { .. }), "{error}");
    assert!(!output.exists());
}

/// A kernel and an initrd of the developer's own, whose workload prints what planish's does.
#[test]
fn a_real_kernel_gives_the_same_recording_twice() {
    let [Some(kernel), Some(initrd)] = ["PLANISH_KERNEL_IMAGE", "PLANISH_KERNEL_INITRD"]
        .map(|name| std::env::var_os(name).map(PathBuf::from))
    else {
        skipped::<()>("PLANISH_KERNEL_IMAGE and PLANISH_KERNEL_INITRD name no kernel to boot");
        return;
    };
    let guest = Guest {
        board: Board::Pc,
        kernel,
        initrd: Some(initrd),
        memory_mib: 512,
        cpus: 1,
        append: String::new(),
        execution: Execution::Deterministic,
    };
    let dir = tempfile::tempdir().unwrap();
    let options = KernelOptions { sections: Some(1..=99), ..options(1000) };
    let [one, two] = ["one", "two"].map(|name| {
        let output = dir.path().join(name);
        let found = recorded(&guest, &output, &options);
        assert!(found.summary.samples > 1000, "{found:?}");
        std::fs::read(output).unwrap()
    });
    assert!(one == two, "the same run gives the same bytes");
}

#[test]
fn a_real_kernel_is_recorded_on_two_cpus() {
    let [Some(kernel), Some(initrd)] = ["PLANISH_KERNEL_IMAGE", "PLANISH_KERNEL_INITRD"]
        .map(|name| std::env::var_os(name).map(PathBuf::from))
    else {
        skipped::<()>("PLANISH_KERNEL_IMAGE and PLANISH_KERNEL_INITRD name no kernel to boot");
        return;
    };
    let append = "PLANISH_SECTIONS=train PLANISH_ROUNDS=10".to_owned();
    let guest = Guest {
        board: Board::Pc,
        kernel,
        initrd: Some(initrd),
        memory_mib: 512,
        cpus: 2,
        append,
        execution: Execution::Emulated,
    };
    let dir = tempfile::tempdir().unwrap();
    let options = KernelOptions { sections: Some(1..=99), ..options(1000) };
    let Recorded { summary, transcript } =
        recorded(&guest, &dir.path().join("perf.data"), &options);
    assert!(summary.samples > 1000 && summary.lost_samples == 0, "{summary:?}");
    assert_eq!(transcript.results.len(), transcript.sections.len());
}
