//! What happens when a design is really run: with small shell scripts as programs.

#![allow(clippy::unwrap_used)]

use compare::result::Stopped;
use compare::{
    AnalysisOptions, Benchmark, Design, Error, Metric, Observer, Progress, Recorded, Run, Variant,
    analyse, repeats, run,
};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

fn script(directory: &Path, name: &str, body: &str) -> Variant {
    let path = directory.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    Variant { name: name.into(), binaries: vec![path], ..Variant::default() }
}

fn design(variants: Vec<Variant>, rounds: u32) -> Design {
    let command = vec!["{bin}".into(), "word".into()];
    let metrics = vec![Metric::parse("wall").unwrap()];
    let benchmarks = vec![Benchmark { name: "x".into(), command, metrics, ..Benchmark::default() }];
    Design { variants, benchmarks, rounds, seed: 5, margin: 0.01, ..Design::default() }
}

/// Stops after so many runs.
struct Until<'a>(u64, &'a AtomicBool);

impl Observer for Until<'_> {
    fn run(&mut self, _: &Run, progress: Progress) -> Result<(), Error> {
        self.1.store(progress.done == self.0, Ordering::Relaxed);
        Ok(())
    }
    fn stopped(&mut self, _: &Stopped) -> Result<(), Error> {
        Ok(())
    }
}

fn run_all(design: &Design) -> Result<Vec<Run>, Error> {
    let stop = AtomicBool::new(false);
    run(design, &stop, Recorded::default(), &mut Until(u64::MAX, &stop)).map(|found| found.runs)
}

#[test]
fn a_command_repeats_itself_but_for_the_numbers_of_its_metric() {
    let on = |script: &str, metric: &str, ignored, cpu| {
        let command = ["sh", "-c", script].map(String::from);
        let stop = AtomicBool::new(false);
        repeats(&command, Metric::parse(metric).unwrap(), ignored, cpu, &stop)
            .map_err(|e| e.to_string())
    };
    let tried = |script: &str, metric: &str, ignored| on(script, metric, ignored, None);
    let absent = on("exit 3", "cpu", true, Some(4000)).unwrap_err();
    assert!(absent.contains("--cpu"), "it is missed although nothing runs: {absent}");
    assert_eq!(tried("echo a", "cpu", false), Ok(()));
    let varies = tried("echo a; echo $$", "cpu", false).unwrap_err();
    assert!(varies.contains("ran again") && varies.contains("line 2 is "), "{varies}");
    let clock = tried("date +%s", "cpu", false).unwrap_err();
    assert!(clock.contains("ran again"), "a clock that tells seconds is seen: {clock}");
    assert_eq!(tried("echo $$ 7 ms", "output:([0-9]+) ms", true), Ok(()));
    assert_eq!(tried("exit 3", "cpu", true), Ok(()), "it does not run");
    assert_eq!(tried("echo $$ ms", "output:([0-9]+) ms", false), Ok(()));
    let none = tried("echo a", "output:([0-9]+) ms", true).unwrap_err();
    assert!(
        none.starts_with(
            "sh -c echo a prints no number for the metric: the pattern ([0-9]+) ms finds none in standard"
        ),
        "{none}"
    );
    let zero = tried("echo 0 ms", "output:([0-9]+) ms", false).unwrap_err();
    assert!(zero.contains("finds 0 in") && zero.contains("above 0"), "{zero}");
    let word = tried("echo x ms", "output:([a-z]+) ms", false).unwrap_err();
    assert!(word.contains("finds \"x\" in") && word.contains("no number"), "{word}");
    let beside = tried("echo 7 ms $$", "output:([0-9]+) ms", false).unwrap_err();
    assert!(beside.contains("<number> ms"), "{beside}");
    assert!(tried("exit 3", "cpu", false).unwrap_err().contains("exit code 3"));
}

#[test]
fn every_binary_runs_once_per_round_and_all_numbers_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let pair = vec![
        script(folder.path(), "a", "echo $1"),
        script(folder.path(), "b", "echo $1; sleep 0.03"),
    ];
    let design = design(pair, 7);
    let runs = run_all(&design).unwrap();
    assert_eq!(runs.len(), 16);
    for round in 0..=7 {
        let mut variants: Vec<usize> =
            runs.iter().filter(|r| r.round == round).map(|r| r.variant).collect();
        variants.sort_unstable();
        assert_eq!(variants, [0, 1]);
    }
    assert!(
        runs.iter().all(|r| r.output_bytes == 5 && r.exit_code == 0 && r.max_rss_bytes > 100_000)
    );
    assert!(runs.iter().filter(|r| r.variant == 1).all(|r| r.wall_ns > 30_000_000));
    let recorded = Recorded { design, runs, ..Recorded::default() };
    let analysis = analyse(&[recorded], &AnalysisOptions::default()).unwrap();
    assert_eq!(analysis.measurement.comparisons[0].verdict, compare::Verdict::Slower);
}

#[test]
fn a_program_that_prints_something_else_is_named_with_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let pair = vec![
        script(folder.path(), "a", "echo x; echo 1"),
        script(folder.path(), "b", "echo x; echo 2"),
    ];
    let mut design = design(pair, 1);
    let message = run_all(&design).unwrap_err().to_string();
    assert!(
        message.contains("b printed something else") && message.contains("line 2 is \"2\""),
        "{message}"
    );
    design.ignore_output = true;
    assert_eq!(run_all(&design).unwrap().len(), 4);
}

#[test]
fn a_command_that_prints_something_else_each_time_is_blamed_and_no_variant() {
    let folder = tempfile::tempdir().unwrap();
    let pair = ["a", "b"].map(|name| script(folder.path(), name, "echo x; date +%N")).to_vec();
    let message = run_all(&design(pair, 1)).unwrap_err().to_string();
    assert!(message.contains("/a") && message.contains("when it ran again"), "{message}");
}

#[test]
fn a_program_that_fails_is_reported_with_its_own_words() {
    let folder = tempfile::tempdir().unwrap();
    let pair = vec![
        script(folder.path(), "a", "true"),
        script(folder.path(), "b", "echo no memory >&2; exit 3"),
    ];
    let message = run_all(&design(pair, 1)).unwrap_err().to_string();
    assert!(message.contains("exit code 3") && message.contains("no memory"), "{message}");
    let pair = vec![script(folder.path(), "c", "true"), script(folder.path(), "d", "kill -9 $$")];
    let message = run_all(&design(pair, 1)).unwrap_err().to_string();
    assert!(message.contains("signal 9"), "{message}");
}

#[test]
fn a_missing_program_is_an_error_with_its_path() {
    let variant = |name: &str| Variant {
        name: name.into(),
        binaries: vec!["/no/such/program".into()],
        ..Variant::default()
    };
    let message = run_all(&design(vec![variant("a"), variant("b")], 1)).unwrap_err().to_string();
    assert!(message.contains("cannot start /no/such/program"), "{message}");
}

#[test]
fn a_printed_number_is_the_metric_and_no_difference_of_output() {
    let folder = tempfile::tempdir().unwrap();
    let pair = vec![
        script(folder.path(), "a", "echo took 5 ms"),
        script(folder.path(), "b", "echo took 7 ms"),
    ];
    let mut design = design(pair, 2);
    design.benchmarks[0].metrics = vec![Metric::parse(r"ms=output:took (\d+)").unwrap()];
    let runs = run_all(&design).unwrap();
    assert!(runs.iter().all(|r| r.printed["ms"] == if r.variant == 0 { 5.0 } else { 7.0 }));
    design.benchmarks[0].metrics = vec![Metric::parse(r"output:used (\d+)").unwrap()];
    assert!(matches!(run_all(&design), Err(Error::NoValue { .. })));
}

#[test]
fn stopping_keeps_what_was_measured_and_it_can_be_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let pair = vec![script(folder.path(), "a", "true"), script(folder.path(), "b", "true")];
    let stop = AtomicBool::new(false);
    let design = design(pair, 6);
    let part = run(&design, &stop, Recorded::default(), &mut Until(5, &stop)).unwrap();
    assert_eq!(part.runs.len(), 5);
    stop.store(false, Ordering::Relaxed);
    let whole = run(&design, &stop, part.clone(), &mut Until(u64::MAX, &stop)).unwrap();
    assert_eq!(whole.runs.len(), 14);
    assert_eq!(whole.runs[..5], part.runs[..]);
    // The schedule is the one of an uninterrupted measurement.
    let slots = |runs: &[Run]| runs.iter().map(|r| (r.round, r.slot())).collect::<Vec<_>>();
    assert_eq!(slots(&whole.runs), slots(&run_all(&design).unwrap()));
    assert!(whole.runs.windows(2).all(|w| w[1].sequence == w[0].sequence + 1));
}

#[test]
fn a_variant_that_fails_is_stopped_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let programs = vec![
        script(folder.path(), "a", "echo x"),
        script(folder.path(), "b", "echo y"),
        script(folder.path(), "c", "echo x"),
    ];
    let stop = AtomicBool::new(false);
    let found =
        run(&design(programs, 6), &stop, Recorded::default(), &mut Until(u64::MAX, &stop)).unwrap();
    assert_eq!(found.stopped.len(), 1);
    assert!(
        found.stopped[0].variant == "b"
            && found.stopped[0].reason.contains("printed something else")
    );
    assert_eq!(found.runs.len(), 14);
    let told = analyse(&[found], &AnalysisOptions::default()).unwrap().measurement;
    assert_eq!((told.comparisons.len(), told.stopped.len()), (1, 1));
}

#[test]
fn an_interrupted_resume_ends_without_judging_the_run_that_was_cut() {
    let folder = tempfile::tempdir().unwrap();
    // What a killed run printed is not what the program prints.
    let body = format!("test -e {}/cut || echo x", folder.path().display());
    let pair = vec![script(folder.path(), "a", &body), script(folder.path(), "b", &body)];
    let design = design(pair, 6);
    let stop = AtomicBool::new(false);
    let part = run(&design, &stop, Recorded::default(), &mut Until(5, &stop)).unwrap();
    std::fs::write(folder.path().join("cut"), "").unwrap();
    let again = run(&design, &stop, part.clone(), &mut Until(u64::MAX, &stop)).unwrap();
    assert_eq!(again.runs, part.runs);
    stop.store(false, Ordering::Relaxed);
    let changed = run(&design, &stop, part, &mut Until(u64::MAX, &stop)).unwrap_err().to_string();
    assert!(changed.contains("prints something else than when"), "{changed}");
}

#[test]
fn a_benchmark_of_which_only_the_base_is_left_ends_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let pair = vec![
        script(folder.path(), "a", "true"),
        script(folder.path(), "b", "test $1 = word || echo only b prints this"),
    ];
    let mut design = design(pair, 6);
    let mut second = design.benchmarks[0].clone();
    (second.name, second.command) = ("y".into(), vec!["{bin}".into(), "other".into()]);
    design.benchmarks.push(second);
    let stop = AtomicBool::new(false);
    let found = run(&design, &stop, Recorded::default(), &mut Until(u64::MAX, &stop)).unwrap();
    assert_eq!(found.stopped.len(), 1);
    let of = |benchmark: usize| found.runs.iter().filter(|r| r.benchmark == benchmark).count();
    // The base ran once, so that the variant could be told to differ from it.
    assert_eq!((of(0), of(1)), (14, 1));
    assert_eq!(
        analyse(&[found], &AnalysisOptions::default()).unwrap().measurement.comparisons.len(),
        1
    );
}

#[test]
fn what_is_set_for_the_programs_is_not_left_set_for_planish() {
    let folder = tempfile::tempdir().unwrap();
    let own = |name: &str| {
        std::fs::read_to_string(format!("/proc/thread-self/{name}")).unwrap_or_default()
    };
    let cpus = |status: &str| {
        let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list:"));
        line.map_or_else(String::new, |line| {
            line.split_whitespace().last().unwrap_or("").to_owned()
        })
    };
    let before = (own("personality"), cpus(&own("status")));
    let Some(cpu) = before.1.split(['-', ',']).next_back().and_then(|cpu| cpu.parse::<u32>().ok())
    else {
        return eprintln!("skipped: /proc/thread-self/status does not tell the CPUs");
    };
    let seen = folder.path().join("seen");
    let body = format!("cat /proc/self/personality /proc/self/status > {}", seen.display());
    let pair = vec![script(folder.path(), "a", &body), script(folder.path(), "b", &body)];
    let mut design = design(pair, 1);
    design.pinned_cpu = Some(cpu);
    design.aslr = compare::Aslr::Off;
    if let Err(error) = run_all(&design) {
        // Sandboxes may forbid one of the two.
        assert!(
            error.to_string().contains("--aslr off") || error.to_string().contains("--cpu"),
            "{error}"
        );
        eprintln!("skipped: {error}");
    } else {
        let seen = std::fs::read_to_string(seen).unwrap();
        assert_eq!(cpus(&seen), cpu.to_string());
        if !before.0.is_empty() {
            assert_ne!(seen.lines().next(), before.0.lines().next(), "ADDR_NO_RANDOMIZE");
        }
    }
    assert_eq!((own("personality"), cpus(&own("status"))), before);
}

#[test]
fn a_gauge_needs_a_cpu_and_is_read_during_each_run() {
    let folder = tempfile::tempdir().unwrap();
    let body = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let pair = vec![script(folder.path(), "a", body), script(folder.path(), "b", body)];
    let mut design = design(pair, 2);
    design.gauge = true;
    let error = run_all(&design).unwrap_err().to_string();
    assert!(error.contains("--cpu"), "{error}");
    for cpu in [1023, 99_999] {
        design.pinned_cpu = Some(cpu);
        let error = run_all(&design).unwrap_err().to_string();
        assert!(error.contains("--cpu"), "{error}");
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    design.pinned_cpu = list.and_then(|list| list.trim().split(['-', ',']).next()?.parse().ok());
    let runs = run_all(&design).unwrap();
    assert_eq!(runs.len(), 6);
    assert!(runs.iter().all(|run| run.gauge_ns.is_some_and(|ns| ns > 100)), "{runs:?}");
    design.gauge = false;
    assert!(run_all(&design).unwrap().iter().all(|run| run.gauge_ns.is_none()));
}

#[test]
fn a_program_that_hangs_is_killed_with_all_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let programs = vec![
        script(folder.path(), "a", "true"),
        script(folder.path(), "b", "sleep 100 & sleep 100"),
    ];
    let mut design = design(programs, 6);
    design.timeout_s = Some(0.3);
    let began = std::time::Instant::now();
    let message = run_all(&design).unwrap_err().to_string();
    assert!(
        message.contains("b was killed in round 0") && message.contains("--timeout"),
        "{message}"
    );
    assert!(began.elapsed().as_secs() < 20);
}

#[test]
fn a_program_that_prints_without_end_is_killed_before_it_fills_the_memory() {
    let folder = tempfile::tempdir().unwrap();
    for (name, body) in [("out", "exec yes"), ("err", "exec yes >&2")] {
        let pair = vec![script(folder.path(), name, body), script(folder.path(), "b", "true")];
        let message = run_all(&design(pair, 1)).unwrap_err().to_string();
        assert!(message.contains(&format!("{name} was killed in round 0")), "{message}");
        assert!(message.contains("more than 1 GiB"), "{message}");
    }
}

#[test]
fn the_kernels_clock_counts_each_program_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let busy = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";
    let pair = vec![script(folder.path(), "a", "true"), script(folder.path(), "b", busy)];
    let mut design = design(pair, 6);
    design.benchmarks[0].metrics = vec![Metric::parse("task-clock").unwrap()];
    let runs = match run_all(&design) {
        Err(error @ Error::NoCounter { .. }) => return eprintln!("skipped: {error}"),
        other => other.unwrap(),
    };
    let clock = |variant: usize| {
        let own = runs.iter().filter(|r| r.variant == variant);
        own.map(|r| r.counters["task-clock"]).collect::<Vec<u64>>()
    };
    let (short, long) = (clock(0), clock(1));
    assert!(short.iter().max() < long.iter().min(), "{short:?} {long:?}");
    for run in runs.iter().filter(|r| r.variant == 1) {
        let (clock, usage) =
            (run.counters["task-clock"] as f64, (run.user_ns + run.system_ns) as f64);
        assert!((0.5..2.0).contains(&(clock / usage)), "{clock} {usage}");
    }
}

#[test]
fn a_counter_that_the_machine_lacks_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let pair = vec![script(folder.path(), "a", "true"), script(folder.path(), "b", "true")];
    let mut design = design(pair, 1);
    design.benchmarks[0].metrics = vec![Metric::parse("instructions").unwrap()];
    match run_all(&design) {
        Ok(runs) => assert!(runs.iter().all(|r| r.counters["instructions"] > 1000)),
        Err(error) => assert!(error.to_string().contains("cannot count instructions"), "{error}"),
    }
}
