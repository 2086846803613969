//! Are the metrics of a machine's kernel exact where counts are known, apart by section, and the
//! same each time?

use super::support::{compile_file, has, skipped};
use record::code_metrics::machine::{MachineMetricsOptions, Measured, SectionMetrics, measure};
use record::code_metrics::{Counters, DataGeometry, Error, Geometry};
use record::machine::{Board, Execution, Failure, Guest};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The kernel that the recorder is tested with.
fn machine(dir: &Path, defines: &[&str]) -> Option<Guest> {
    if !has("qemu-system-x86_64") {
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/machine.S");
    let link = "-Wl,--image-base=0x200000,-Ttext=0x201000,--build-id=none";
    let flags = ["-m32", "-nostdlib", "-static", "-fuse-ld=lld", link];
    let kernel = compile_file(dir, &source, &[&flags, defines].concat())?;
    Some(Guest {
        board: Board::Pc,
        kernel,
        initrd: None,
        memory_mib: 64,
        cpus: 1,
        append: String::new(),
        execution: Execution::Deterministic,
    })
}

fn options() -> MachineMetricsOptions {
    MachineMetricsOptions {
        timeout: Some(Duration::from_secs(300)),
        to_the_end: true,
        ..MachineMetricsOptions::default()
    }
}

fn measured(guest: &Guest, options: &MachineMetricsOptions) -> Measured {
    measure(&guest.argv(), options, &mut |_, _| {}).unwrap()
}

#[test]
fn sections_have_the_counts_that_they_are_written_to_have() {
    let dir = tempfile::tempdir().unwrap();
    let Some(guest) = machine(dir.path(), &[]) else { return };
    let found = measured(&guest, &options());
    let numbers: Vec<u8> = found.sections.iter().map(|section| section.section).collect();
    assert_eq!(numbers, [0, 1, 101]);
    // Twice: two instructions to work(), a hundred rounds of four, and the return to the program.
    // One line at the system call's entry and one in work(), a page apart, fetched anew each
    // time.
    let calls = SectionMetrics {
        section: 1,
        counters: Counters {
            instructions: 2 * 403,
            branches: 2 * 301,
            taken_branches: 2 * 300,
            conditional_branches: 2 * 101,
            conditional_taken: 2 * 100,
            l1i_misses: 2 * 2,
            l2_misses: 2 * 2,
            itlb_4k_misses: 2 * 2,
            itlb_2m_misses: 2,
            code_lines: 2,
            code_pages_4k: 2,
            code_pages_2m: 1,
            interruptions: 0,
            ..Counters::default()
        },
    };
    assert_eq!(found.sections[1], calls);
    // Four instructions to held(), fifty rounds of two, and the return.
    let loops = SectionMetrics {
        section: 101,
        counters: Counters {
            instructions: 105,
            branches: 52,
            taken_branches: 50,
            conditional_branches: 52,
            conditional_taken: 50,
            l1i_misses: 2,
            l2_misses: 2,
            itlb_4k_misses: 2,
            itlb_2m_misses: 1,
            ..calls.counters
        },
    };
    assert_eq!(found.sections[2], loops);
    assert_eq!(found.transcript.sections.len(), 2);
    assert!(found.emulator.contains("QEMU"), "{}", found.emulator);
    assert_eq!(measured(&guest, &options()).sections, found.sections);
    // The caches are those asked for: with one line, entry and work() displace each other, but not
    // within its loop.
    let mut geometry = Geometry::default();
    geometry.set("l1i", "64:1:64").unwrap();
    geometry.set("itlb4k", "1").unwrap();
    let tiny = measured(&guest, &MachineMetricsOptions { geometry, ..options() }).sections[1];
    assert_eq!((tiny.l1i_misses, tiny.itlb_4k_misses), (4, 4));
    assert_eq!(tiny.instructions, calls.instructions);
    let text = serde_json::to_string(&calls).unwrap();
    assert_eq!(serde_json::from_str::<SectionMetrics>(&text).unwrap(), calls);
    assert_eq!(calls.figures()[0].value, 806.0);
}

#[test]
fn loads_and_stores_of_the_kernel_are_counted_where_they_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let Some(guest) = machine(dir.path(), &[]) else { return };
    let plain = measured(&guest, &options()).sections;
    let with_data = MachineMetricsOptions { data: Some(DataGeometry::default()), ..options() };
    let found = measured(&guest, &with_data).sections;
    // Twice a hundred rounds, each with a call that stores and a return that loads, all in one line of
    // the stack; the loop of section 101 touches no memory.
    let data = |section: &SectionMetrics| {
        (section.data_accesses, section.l1d_misses, section.dtlb_4k_misses)
    };
    assert_eq!(found.iter().skip(1).map(data).collect::<Vec<_>>(), [(400, 2, 2), (0, 0, 0)]);
    // The side of instructions is as it was, and so is a second run.
    let instructions = |section: &SectionMetrics| Counters {
        data_accesses: 0,
        l1d_misses: 0,
        dtlb_4k_misses: 0,
        ..section.counters
    };
    assert_eq!(
        found.iter().map(instructions).collect::<Vec<_>>(),
        plain.iter().map(instructions).collect::<Vec<_>>()
    );
    assert_eq!(measured(&guest, &with_data).sections, found);
}

#[test]
fn a_machine_that_panics_has_no_metrics() {
    let dir = tempfile::tempdir().unwrap();
    let Some(guest) = machine(dir.path(), &["-DPANICS"]) else { return };
    let error = measure(&guest.argv(), &options(), &mut |_, _| {}).unwrap_err();
    let failed =
        matches!(&error, Error::Machine(record::Error::Machine { failure: Failure::Panic, .. }));
    assert!(failed && error.to_string().contains("out of cheese"), "{error}");
}

#[test]
fn a_machine_that_cannot_start_has_no_metrics() {
    let error = measure(&["qemu-system-nonesuch".into()], &options(), &mut |_, _| {}).unwrap_err();
    assert!(matches!(&error, Error::Machine(record::Error::NoMachine { .. })), "{error}");
    let error = measure(&[], &options(), &mut |_, _| {}).unwrap_err();
    assert!(matches!(&error, Error::Machine(record::Error::NoCommand)), "{error}");
}

/// A kernel and an initrd of the developer's own, whose workload has markers.
#[test]
fn a_real_kernel_gives_the_same_numbers_twice() {
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
    let one = measured(&guest, &options());
    assert!(one.sections.len() > 1, "the workload executes markers");
    eprintln!("{}", serde_json::to_string_pretty(&one.sections).unwrap());
    assert_eq!(measured(&guest, &options()).sections, one.sections);
}
