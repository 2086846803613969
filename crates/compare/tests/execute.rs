//! What happens when a design is really run: with small shell scripts as programs.

#![allow(clippy::unwrap_used)]

use compare::{Design, Error, Metric, Options, Run, Variant, analyse, run};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

fn script(directory: &Path, name: &str, body: &str) -> Variant {
    let path = directory.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    Variant { name: name.into(), path }
}

fn design(variants: Vec<Variant>, rounds: u32) -> Design {
    let command = vec!["{bin}".into(), "word".into()];
    Design { variants, command, rounds, seed: 5, metric: Metric::Wall, ignore_output: false }
}

fn run_all(design: &Design) -> Result<Vec<Run>, Error> {
    run(design, &AtomicBool::new(false), &mut |_, _| Ok(()))
}

#[test]
fn every_binary_runs_once_per_round_and_all_numbers_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let pair = vec![script(folder.path(), "a", "echo $1"), script(folder.path(), "b", "echo $1; sleep 0.03")];
    let design = design(pair, 7);
    let runs = run_all(&design).unwrap();
    assert_eq!(runs.len(), 16);
    for round in 0..=7 {
        let mut variants: Vec<usize> = runs.iter().filter(|r| r.round == round).map(|r| r.variant).collect();
        variants.sort_unstable();
        assert_eq!(variants, [0, 1]);
    }
    assert!(runs.iter().all(|r| r.output_bytes == 5 && r.exit_code == 0 && r.max_rss_bytes > 100_000));
    assert!(runs.iter().filter(|r| r.variant == 1).all(|r| r.wall_ns > 30_000_000));
    let analysis = analyse(&design, &runs, Options::default()).unwrap();
    assert_eq!(analysis.comparisons[0].verdict, compare::Verdict::Slower);
}

#[test]
fn a_program_that_prints_something_else_is_named_with_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let pair =
        vec![script(folder.path(), "a", "echo x; echo 1"), script(folder.path(), "b", "echo x; echo 2")];
    let mut design = design(pair, 1);
    let message = run_all(&design).unwrap_err().to_string();
    assert!(message.contains("b printed something else") && message.contains("line 2 is \"2\""), "{message}");
    design.ignore_output = true;
    assert_eq!(run_all(&design).unwrap().len(), 4);
}

#[test]
fn a_program_that_fails_is_reported_with_its_own_words() {
    let folder = tempfile::tempdir().unwrap();
    let pair =
        vec![script(folder.path(), "a", "true"), script(folder.path(), "b", "echo no memory >&2; exit 3")];
    let message = run_all(&design(pair, 1)).unwrap_err().to_string();
    assert!(message.contains("exit code 3") && message.contains("no memory"), "{message}");
    let pair = vec![script(folder.path(), "c", "true"), script(folder.path(), "d", "kill -9 $$")];
    let message = run_all(&design(pair, 1)).unwrap_err().to_string();
    assert!(message.contains("signal 9"), "{message}");
}

#[test]
fn a_missing_program_is_an_error_with_its_path() {
    let variant = |name: &str| Variant { name: name.into(), path: "/no/such/program".into() };
    let message = run_all(&design(vec![variant("a"), variant("b")], 1)).unwrap_err().to_string();
    assert!(message.contains("cannot start /no/such/program"), "{message}");
}

#[test]
fn a_printed_number_is_the_metric_and_no_difference_of_output() {
    let folder = tempfile::tempdir().unwrap();
    let pair =
        vec![script(folder.path(), "a", "echo took 5 ms"), script(folder.path(), "b", "echo took 7 ms")];
    let mut design = design(pair, 2);
    design.metric = Metric::parse(r"output:took (\d+)").unwrap();
    let runs = run_all(&design).unwrap();
    assert!(runs.iter().all(|r| r.printed == Some(if r.variant == 0 { 5.0 } else { 7.0 })));
    design.metric = Metric::parse(r"output:used (\d+)").unwrap();
    assert!(matches!(run_all(&design), Err(Error::NoValue { .. })));
}

#[test]
fn stopping_keeps_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let pair = vec![script(folder.path(), "a", "true"), script(folder.path(), "b", "true")];
    let stop = AtomicBool::new(false);
    let runs = run(&design(pair, 50), &stop, &mut |_, progress| {
        stop.store(progress.done == 5, Ordering::Relaxed);
        Ok(())
    });
    assert_eq!(runs.unwrap().len(), 5);
}
