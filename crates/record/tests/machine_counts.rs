//! Machines whose kernel's branches are all counted: as often as the kernel is written to take
//! them, and as a recording of each single branch shows them.

#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test")]

mod support;

use perfdata::{Input, OrderOptions, Record, RuntimeAddr};
use record::Error;
use record::kernel::{Counted, KernelOptions, TraceCount, count, record};
use record::machine::{Board, Execution, Failure, Guest};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::{machine, machine_for_arm64, skipped};

/// Where the kernel of `programs/machine.S` has its system calls.
const ENTRY: u64 = 0xffff_ffff_8020_2000;
const WORK: u64 = ENTRY + 0x1000;
const HELD: u64 = ENTRY + 0x2000;

fn options() -> KernelOptions {
    // Far longer than it takes, lest a machine that hangs keeps the tests waiting for ever.
    KernelOptions {
        timeout: Some(Duration::from_secs(300)),
        to_the_end: true,
        ..KernelOptions::default()
    }
}

fn counted(guest: &Guest, dir: &Path, options: &KernelOptions) -> Counted {
    count(&guest.argv(), &dir.join("kernel.counts"), options, &mut |_, _| {}).unwrap()
}

fn trace(from: u64, to: u64, next_from: Option<u64>, count: u64) -> TraceCount {
    let [from, to] = [from, to].map(RuntimeAddr);
    TraceCount { from, to, next_from: next_from.map(RuntimeAddr), count }
}

/// What two calls of work(), with a hundred rounds each, are.
fn twice_work() -> Vec<TraceCount> {
    vec![
        trace(ENTRY + 2, WORK, Some(WORK), 2),
        // The call of nothing(), its return, and the jump back, which is not taken in the last
        // round: then comes the program.
        trace(WORK, WORK + 13, Some(WORK + 13), 200),
        trace(WORK + 8, WORK, Some(WORK), 198),
        trace(WORK + 13, WORK + 5, Some(WORK + 8), 198),
        trace(WORK + 13, WORK + 5, None, 2),
    ]
}

fn left(dir: &Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}

#[test]
fn every_branch_of_a_section_is_counted_as_often_as_it_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let Some(guest) = machine(dir.path(), &[]) else { return };
    let found = counted(&guest, dir.path(), &KernelOptions { sections: Some(1..=99), ..options() });
    assert_eq!((found.traces, found.taken_branches), (twice_work(), 600));
    assert_eq!(
        found.text,
        (RuntimeAddr(0xffff_ffff_8020_1000), RuntimeAddr(0xffff_ffff_8021_0000))
    );
    assert_eq!((found.build_id, found.transcript.sections.len()), (Some(vec![1, 2, 3, 4]), 2));
    let held =
        counted(&guest, dir.path(), &KernelOptions { sections: Some(101..=199), ..options() });
    // Two conditional jumps to held(), of which the first is not taken; 49 of its 50 rounds jump
    // back.
    let expected = [trace(HELD + 3, HELD, Some(HELD + 3), 48), trace(HELD + 3, HELD, None, 1)];
    assert_eq!(held.traces.iter().map(|trace| trace.count).sum::<u64>(), 50);
    assert!(expected.iter().all(|trace| held.traces.contains(trace)), "{:x?}", held.traces);
    assert_eq!(left(dir.path()), 1, "only the kernel stays");
}

#[test]
fn every_branch_of_an_arm64_kernel_is_counted_as_often_as_it_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let Some(guest) = machine_for_arm64(dir.path()) else { return };
    let found = counted(&guest, dir.path(), &KernelOptions { sections: Some(1..=99), ..options() });
    let entry = 0xffff_ff80_4020_2400;
    let work = 0xffff_ff80_4020_3000;
    // As twice_work(): the call, nothing() and its return, and the jump back.
    let expected = vec![
        trace(entry, work, Some(work), 2),
        trace(work, work + 16, Some(work + 16), 200),
        trace(work + 8, work, Some(work), 198),
        trace(work + 16, work + 4, Some(work + 8), 198),
        trace(work + 16, work + 4, None, 2),
    ];
    assert_eq!((found.traces, found.taken_branches), (expected, 600));
    assert_eq!(found.map_name, "[kernel.kallsyms]_stext");
    assert_eq!((found.build_id, found.transcript.sections.len()), (Some(vec![1, 2, 3, 4]), 2));
    let output = dir.path().join("perf.data");
    let options = KernelOptions { sections: Some(1..=99), period: 50, ..options() };
    let recorded = record(&guest.argv(), &output, &options, &mut |_, _| {}).unwrap();
    assert_eq!(recorded.summary.taken_branches, Some(600));
    let input = Input::open(&output).unwrap();
    assert_eq!(input.features().arch.as_deref(), Some("aarch64"));
}

#[test]
fn several_cpus_count_into_one_sum() {
    let dir = tempfile::tempdir().unwrap();
    let Some(guest) = machine(dir.path(), &[]) else { return };
    let guest = Guest { cpus: 3, execution: Execution::Emulated, ..guest };
    let found = counted(&guest, dir.path(), &KernelOptions { sections: Some(1..=99), ..options() });
    assert_eq!(found.traces, twice_work());
}

/// The traces of a recording with a sample of every branch: a sample's newest branch is the one
/// that was just taken, and the one before it, if the stack holds one, was followed by that.
fn traces_of(path: &Path) -> Vec<TraceCount> {
    let input = Input::open(path).unwrap();
    let mut ordered = input.ordered(OrderOptions::default()).unwrap();
    let mut sums: BTreeMap<(u64, u64, Option<u64>), u64> = BTreeMap::new();
    let mut newest: Option<(u64, u64)> = None;
    let mut add = |(from, to): (u64, u64), next| *sums.entry((from, to, next)).or_default() += 1;
    while let Some(record) = ordered.next() {
        let record = record.unwrap();
        let (Record::Sample(sample), _) = record.parse().unwrap() else { continue };
        let stack: Vec<(u64, u64)> =
            sample.branches.unwrap().iter().map(|entry| (entry.from.0, entry.to.0)).collect();
        assert_eq!(sample.period, Some(1));
        if let Some(before) = newest.replace(stack[0]) {
            assert!(
                stack.get(1).is_none_or(|older| *older == before),
                "no branch is missing in between"
            );
            add(before, stack.get(1).map(|_| stack[0].0));
        }
    }
    add(newest.unwrap(), None);
    sums.into_iter().map(|((from, to, next), count)| trace(from, to, next, count)).collect()
}

/// Counts a deterministic machine, and holds that against a recording of each single branch.
fn agrees(guest: &Guest, options: &KernelOptions) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let exact = counted(guest, dir.path(), options);
    let output = dir.path().join("perf.data");
    let sampled = record(
        &guest.argv(),
        &output,
        &KernelOptions { period: 1, ..options.clone() },
        &mut |_, _| {},
    )
    .unwrap();
    let summary = sampled.summary;
    assert_eq!((summary.samples, summary.lost_samples), (exact.taken_branches, 0));
    assert_eq!(summary.taken_branches, Some(exact.taken_branches));
    // Sorted alike: one that nothing followed comes last in the plugin's order, and first in that
    // of options.
    let mut traces = exact.traces;
    traces.sort();
    assert!(traces == traces_of(&output), "the counts are not those of the recording");
    exact.taken_branches
}

#[test]
fn counts_are_those_of_a_recording_of_each_single_branch() {
    let dir = tempfile::tempdir().unwrap();
    let Some(guest) = machine(dir.path(), &[]) else { return };
    assert_eq!(agrees(&guest, &KernelOptions { sections: Some(1..=199), ..options() }), 650);
    let Some(guest) = machine(dir.path(), &["-DFAULTS"]) else { return };
    assert_eq!(agrees(&guest, &KernelOptions { sections: Some(1..=199), ..options() }), 650);
}

#[test]
fn nothing_follows_a_branch_before_a_fault_and_nothing_leads_out_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let Some(guest) = machine(dir.path(), &["-DFAULTS"]) else { return };
    let found = counted(&guest, dir.path(), &KernelOptions { sections: Some(1..=99), ..options() });
    // Behind the call stands an instruction that there is not; its handler steps over it.
    let expected = [
        trace(ENTRY + 2, WORK, Some(WORK), 2),
        trace(WORK, WORK + 15, Some(WORK + 15), 200),
        trace(WORK + 10, WORK, Some(WORK), 198),
        trace(WORK + 15, WORK + 5, None, 200),
    ];
    assert_eq!(found.traces, expected);
}

#[test]
fn sections_that_never_begin_and_workloads_that_fail_have_no_counts() {
    let dir = tempfile::tempdir().unwrap();
    let Some(guest) = machine(dir.path(), &["-DFAILS"]) else { return };
    let fails = |guest: &Guest, options: &KernelOptions| {
        let output = dir.path().join("kernel.counts");
        let error = count(&guest.argv(), &output, options, &mut |_, _| {}).unwrap_err();
        assert_eq!(left(dir.path()), 1, "only the kernel stays");
        error
    };
    let error = fails(&guest, &options());
    assert!(
        matches!(&error, Error::Machine { failure: Failure::Workload { section: 101, .. }, .. }),
        "{error}"
    );
    let Some(guest) = machine(dir.path(), &[]) else { return };
    let error = fails(&guest, &KernelOptions { sections: Some(2..=99), ..options() });
    assert!(error.to_string().contains("in the sections 2 to 99"), "{error}");
}

/// A kernel and an initrd of the developer's own, whose workload prints what planish's does.
#[test]
fn a_real_kernels_counts_are_those_of_a_recording_of_each_single_branch() {
    let [Some(kernel), Some(initrd)] = ["PLANISH_KERNEL_IMAGE", "PLANISH_KERNEL_INITRD"]
        .map(|name| std::env::var_os(name).map(PathBuf::from))
    else {
        skipped::<()>("PLANISH_KERNEL_IMAGE and PLANISH_KERNEL_INITRD name no kernel to boot");
        return;
    };
    let append = "PLANISH_SECTIONS=fork_wait,tcp_rr,signal PLANISH_ROUNDS=1".to_owned();
    let guest = Guest {
        board: Board::Pc,
        kernel,
        initrd: Some(initrd),
        memory_mib: 512,
        cpus: 1,
        append,
        execution: Execution::Deterministic,
    };
    let taken = agrees(&guest, &KernelOptions { sections: Some(1..=99), ..options() });
    assert!(taken > 10_000, "{taken}");
}
