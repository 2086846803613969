//! Are layout metrics exact where counts are known, the same each time, and open about what they
//! leave out?

use super::support::{command, compile, metrics};
use record::code_metrics::{CodeMetrics, Environment, Error, Geometry, MetricsOptions, measure};
use std::path::Path;
use std::time::Duration;

const BARE: &[&str] = &["-nostdlib", "-static"];

#[test]
fn a_loop_has_the_counts_that_it_is_written_to_have() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "loop.S", BARE) else { return };
    let Some(found) = metrics(&program, &MetricsOptions::default()) else { return };
    assert_eq!((found.instructions, found.branches, found.taken_branches), (3004, 2000, 1999));
    assert_eq!((found.conditional_branches, found.conditional_taken), (1000, 999));
    assert_eq!(
        (found.l1i_misses, found.l2_misses, found.itlb_4k_misses, found.itlb_2m_misses),
        (2, 2, 1, 1)
    );
    assert_eq!((found.code_lines, found.code_pages_4k, found.code_pages_2m), (2, 1, 1));
    assert_eq!(
        (found.threads, found.processes, found.native_programs, found.interruptions),
        (1, 1, 0, 0)
    );
    assert!(found.deterministic && found.remarks().is_empty());
    assert_eq!(found.fall_through_share(), Some(1.0 / 2000.0));
    assert_eq!(found.conditional_taken_share(), Some(0.999));
    // The recorder's plain count of the same run.
    let counted =
        record::emulate::count(&record::Workload::new([&program]), &Default::default()).unwrap();
    assert_eq!(
        (counted.instructions, counted.taken_branches),
        (found.instructions, found.taken_branches)
    );
    // A first level of one line: both lines are fetched again in each round. The second level still
    // holds both.
    let mut geometry = Geometry::default();
    geometry.set("l1i", "64:1:64").unwrap();
    let tiny =
        metrics(&program, &MetricsOptions { geometry, ..MetricsOptions::default() }).unwrap();
    assert_eq!((tiny.l1i_misses, tiny.l2_misses), (2000, 2));
    assert_eq!(tiny.instructions, found.instructions);
}

#[test]
fn an_aarch64_program_is_measured_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--target=aarch64-linux-gnu", "-fuse-ld=lld", "-nostdlib", "-static"];
    let Some(program) = compile(dir.path(), "loop_aarch64.S", &flags) else { return };
    let Some(found) = metrics(&program, &MetricsOptions::default()) else { return };
    assert_eq!((found.instructions, found.branches, found.taken_branches), (3004, 2000, 1999));
    assert_eq!((found.architecture.as_str(), found.code_lines), ("aarch64", 2));
}

fn always_the_same(flags: &[&str]) -> Option<CodeMetrics> {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(dir.path(), "strings.c", flags)?;
    let first = metrics(&program, &MetricsOptions::default())?;
    assert!(first.deterministic, "{first:?}");
    assert!(first.instructions > 1_000_000 && first.l1i_misses > 100, "{first:?}");
    assert!(
        first.code_lines <= first.l2_misses && first.l2_misses <= first.l1i_misses,
        "{first:?}"
    );
    let place = |name: &str| {
        let to = dir.path().join(name);
        std::fs::copy(&program, &to).unwrap();
        metrics(&to, &MetricsOptions { name: Some("strings".into()), ..MetricsOptions::default() })
            .unwrap()
    };
    assert_eq!(metrics(&program, &MetricsOptions::default()).unwrap(), first);
    assert_eq!(place("another"), first, "a name as long");
    // Start-up code of the C library reads the program's own path, about two instructions a
    // character.
    let longer = place("the same with a longer name");
    assert!(longer.instructions.abs_diff(first.instructions) < 200, "{longer:?}, {first:?}");
    assert_eq!((longer.l1i_misses, longer.code_lines), (first.l1i_misses, first.code_lines));
    Some(first)
}

#[test]
fn a_static_program_gives_the_same_numbers_each_time() {
    let Some(found) = always_the_same(&["-static"]) else { return };
    let json = serde_json::to_string(&found).unwrap();
    assert!(json.contains("\"l1i\":\"32K:8:64\""), "{json}");
    assert_eq!(serde_json::from_str::<CodeMetrics>(&json).unwrap(), found);
    assert_eq!(found.figures().len(), 11);
}

#[test]
fn a_dynamic_position_independent_program_gives_the_same_numbers_each_time() {
    always_the_same(&["-fPIE", "-pie"]);
}

#[test]
fn a_static_position_independent_program_gives_the_same_numbers_each_time() {
    always_the_same(&["-static-pie"]);
}

#[test]
fn the_callers_environment_does_not_matter_unless_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "strings.c", &["-static"]) else { return };
    let Some(fixed) = metrics(&program, &MetricsOptions::default()) else { return };
    let inherited =
        MetricsOptions { environment: Environment::Inherited, ..MetricsOptions::default() };
    let inherited = metrics(&program, &inherited).unwrap();
    assert_ne!(inherited.instructions, fixed.instructions, "start-up code reads the environment");
}

#[test]
fn threads_have_a_core_each_and_promise_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "four_threads.c", &["-lpthread"]) else { return };
    let Some(found) = metrics(&program, &MetricsOptions::default()) else { return };
    assert_eq!((found.threads, found.processes, found.deterministic), (5, 1, false));
    assert!(found.instructions > 4 * 300_000, "{found:?}");
    assert!(
        found.remarks().iter().any(|remark| remark.contains("5 threads")),
        "{:?}",
        found.remarks()
    );
}

#[test]
fn processes_are_added_up_and_programs_outside_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "processes.c", &["-static"]) else { return };
    let Some(found) = metrics(&program, &MetricsOptions::default()) else { return };
    assert_eq!((found.threads, found.processes, found.native_programs), (3, 3, 1));
    assert_eq!(found.interruptions, 2, "a handler entered and left");
    assert!(!found.deterministic);
    assert_eq!(found.remarks().len(), 3, "{:?}", found.remarks());
}

fn fails(words: &[String], options: &MetricsOptions) -> Error {
    measure(words, options).unwrap_err()
}

#[test]
fn what_cannot_be_measured_is_said_plainly() {
    let dir = tempfile::tempdir().unwrap();
    let options = MetricsOptions::default();
    assert!(fails(&[], &options).to_string().contains("no command"));
    let missing = fails(&["/no/such/program".to_owned()], &options).to_string();
    assert!(missing.contains("/no/such/program"), "{missing}");
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        command(&path, &[])
    };
    assert!(matches!(fails(&write("text", b"hello"), &options), Error::NotElf { .. }));
    let mut riscv = [0u8; 64];
    riscv[..6].copy_from_slice(b"\x7fELF\x02\x01");
    riscv[18] = 243;
    let other = fails(&write("riscv", &riscv), &options).to_string();
    assert!(other.contains("243") && other.contains("x86-64 or AArch64"), "{other}");
    let script = fails(&write("script", b"#!/bin/sh\ntrue\n"), &options);
    assert!(
        matches!(script, Error::Script { .. }) && script.to_string().contains("/bin/sh"),
        "{script}"
    );
    let mut geometry = Geometry::default();
    geometry.l2.ways = 3;
    let error =
        fails(&command(Path::new("/bin/true"), &[]), &MetricsOptions { geometry, ..options });
    assert!(matches!(error, Error::Geometry(_)), "{error}");
}

#[test]
fn a_program_that_fails_or_hangs_has_no_metrics() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "strings.c", &["-static"]) else { return };
    if metrics(&program, &MetricsOptions::default()).is_none() {
        return;
    }
    let error = fails(&command(&program, &["3"]), &MetricsOptions::default()).to_string();
    assert!(error.contains("exit status: 3"), "{error}");
    let limit =
        MetricsOptions { timeout: Some(Duration::from_millis(5)), ..MetricsOptions::default() };
    assert!(matches!(fails(&command(&program, &[]), &limit), Error::TimedOut { .. }));
    let unknown = MetricsOptions { cpu: "no-such-cpu".into(), ..MetricsOptions::default() };
    let error = fails(&command(&program, &[]), &unknown).to_string();
    assert!(error.contains("no-such-cpu"), "{error}");
    let text = dir.path().join("plugin");
    std::fs::write(&text, "no library").unwrap();
    let error = fails(
        &command(&program, &[]),
        &MetricsOptions { plugin: Some(text), ..MetricsOptions::default() },
    );
    assert!(matches!(error, Error::PluginNotLoaded { .. }), "{error}");
}
