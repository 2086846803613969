//! Runs programs: every binary once per round, in random order, one after the other.

use crate::design::{Aslr, Benchmark, Slot, Variant};
use crate::metric::{Counter, Source};
use crate::process::{Launcher, problem};
use crate::rounds::{Observer, Place, Ran, Runner, rounds};
use crate::runs::Recorded;
use crate::{Design, Error, Metric, Run, sys};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Without a limit of the user's, a run may take this many times the longest good one so far…
const PATIENCE: u32 = 20;
/// …and at least this long.
const LEAST_PATIENCE: Duration = Duration::from_secs(60);

/// Time between the starts of two trial runs: long enough that a clock printed to the second shows
/// another value.
const CLOCK_STEP: Duration = Duration::from_millis(1100);

/// How long a run may take after one that took so long.
fn patience(longest: Duration) -> Duration {
    longest.saturating_mul(PATIENCE).max(LEAST_PATIENCE)
}

/// Runs a design, or what is left of it: `before` holds the runs that an earlier call finished.
///
/// `stop` ends the measurement early. Every run must end and print as the first run of the base
/// does; a variant whose run does not is stopped. See [`rounds`] for what goes on then.
///
/// # Errors
/// Where the design cannot be run, or nothing is left to compare; [`Error::Varies`] where the first run
/// of a command printed something else than the same program does when it runs again.
pub fn run(
    design: &Design,
    stop: &AtomicBool,
    before: Recorded,
    observer: &mut dyn Observer,
) -> Result<Recorded, Error> {
    go(design, stop, before, observer, None)
}

/// Measures the second block of rounds of these benchmarks, which confirms what the first one showed.
///
/// # Errors
/// As [`run`].
pub fn confirm(
    design: &Design,
    stop: &AtomicBool,
    before: Recorded,
    observer: &mut dyn Observer,
    benchmarks: &BTreeSet<usize>,
) -> Result<Recorded, Error> {
    go(design, stop, before, observer, Some(benchmarks))
}

/// Runs one binary once at its place, for a runner that does more than start programs. Nothing is
/// known here of what the base printed, so outputs are not compared; a run must end with exit code
/// 0 and print the numbers that its metrics want.
///
/// # Errors
/// Where it cannot be started, or a counter is not there.
pub fn once(design: &Design, place: Place, stop: &AtomicBool) -> Result<Ran, Error> {
    let _settings = sys::Settings::of_programs(design.aslr == Aslr::Off, design.pinned_cpu)?;
    let launcher = Launcher::new(design, stop, openable_counters(design)?)?;
    let Place { benchmark, round, position, slot } = place;
    let bytes = design.environment_bytes(benchmark, round, position);
    let limit = design.timeout_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let mut outcome = launcher.once(benchmark, slot, bytes, limit)?;
    if stop.load(Ordering::Relaxed) {
        return Ok(Ran::Interrupted);
    }
    outcome.run.round = round;
    Ok(match problem(design, &outcome, None) {
        Some(error) => Ran::Failed(error),
        None => Ran::Runs(vec![outcome.run]),
    })
}

/// Runs a command as a comparison runs it: it must end with exit code 0, and its output must hold the
/// number that `metric` takes from it. Unless outputs are ignored it runs twice, the second time at
/// least a second after the first, and must print the same but for that number. Where outputs are
/// ignored and no number is taken from them, there is nothing to check, and it does not run.
///
/// # Errors
/// What a comparison would end with, as where there is no such `cpu`; [`Error::Varies`] where the
/// second run prints something else, [`Error::Prints`] where there is no number.
pub fn repeats(
    command: &[String],
    metric: Metric,
    ignore_output: bool,
    cpu: Option<u32>,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let _settings = sys::Settings::of_programs(false, cpu)?;
    // One run tells whether the number is there, two whether the rest stays.
    let runs = match (ignore_output, metric.reader().is_some()) {
        (true, false) => 0,
        (true, true) => 1,
        (false, _) => 2,
    };
    let line = command.join(" ");
    let variant =
        Variant { name: line.clone(), binaries: vec![PathBuf::new()], ..Variant::default() };
    let benchmark =
        Benchmark { command: command.to_vec(), metrics: vec![metric], ..Benchmark::default() };
    let design = Design {
        variants: vec![variant],
        benchmarks: vec![benchmark],
        ignore_output,
        ..Design::default()
    };
    let launcher = Launcher::new(&design, stop, openable_counters(&design)?)?;
    let slot = Slot { variant: 0, layout: 0, copy: 0 };
    let mut first: Option<(Run, Vec<u8>)> = None;
    let began = Instant::now();
    for position in 0..runs {
        while position > 0 && began.elapsed() < CLOCK_STEP && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(
                CLOCK_STEP.saturating_sub(began.elapsed()).min(Duration::from_millis(50)),
            );
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let bytes = design.environment_bytes(0, 0, position);
        let limit = first.as_ref().map(|(run, _)| patience(Duration::from_nanos(run.wall_ns)));
        let outcome = launcher.once(0, slot, bytes, limit)?;
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match problem(&design, &outcome, first.as_ref()) {
            Some(Error::Output { difference, .. }) => {
                return Err(Error::Varies { command: line, difference });
            }
            Some(Error::NoValue { pattern, found, .. }) => {
                return Err(Error::Prints { command: line, pattern, found });
            }
            Some(error) => return Err(error),
            None => first = Some((outcome.run, outcome.stdout)),
        }
    }
    Ok(())
}

fn go(
    design: &Design,
    stop: &AtomicBool,
    before: Recorded,
    observer: &mut dyn Observer,
    again: Option<&BTreeSet<usize>>,
) -> Result<Recorded, Error> {
    design.check()?;
    let _settings = sys::Settings::of_programs(design.aslr == Aslr::Off, design.pinned_cpu)?;
    let mut programs = Programs {
        launcher: Launcher::new(design, stop, openable_counters(design)?)?,
        design,
        references: BTreeMap::new(),
        longest: Duration::ZERO,
    };
    let before = Recorded { design: design.clone(), ..before };
    rounds(&mut programs, before, again, stop, observer).map(|(found, _)| found)
}

/// The counters that the metrics want, which this machine must have.
fn openable_counters(design: &Design) -> Result<Vec<Counter>, Error> {
    let metrics = design.benchmarks.iter().flat_map(|b| &b.metrics);
    let counter = |source: &Source| match source {
        Source::Counter(counter) => Some(*counter),
        _ => None,
    };
    let all: BTreeSet<Counter> = metrics.filter_map(|m| counter(&m.source)).collect();
    let all: Vec<Counter> = all.into_iter().collect();
    match sys::Counters::open(&all) {
        (_, Some(counter)) => Err(Error::NoCounter { name: counter.name() }),
        (_, None) => Ok(all),
    }
}

struct Programs<'a> {
    launcher: Launcher<'a>,
    design: &'a Design,
    /// The first run of each benchmark with what it printed.
    references: BTreeMap<usize, (Run, Vec<u8>)>,
    longest: Duration,
}

impl Programs<'_> {
    fn is_interrupted(&self) -> bool {
        self.launcher.stop.load(Ordering::Relaxed)
    }

    /// How long a run may take. The first one of all has no limit unless the user gave one: nothing
    /// is known yet.
    fn limit(&self, benchmark: usize) -> Option<Duration> {
        match self.design.timeout_s {
            Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
            None if self.references.contains_key(&benchmark) => Some(patience(self.longest)),
            None => None,
        }
    }
}

impl Programs<'_> {
    /// Is it the variant that prints something else, or does the command print something else each
    /// time? The program that made the reference runs once more.
    fn blamed(&self, error: Error, benchmark: usize, slot: Slot) -> Result<Ran, Error> {
        let reference = self.references.get(&benchmark);
        let (Error::Output { difference, .. }, Some((first, _))) = (&error, reference) else {
            return Ok(Ran::Failed(error));
        };
        let varies = |difference| {
            let command = self.launcher.command(benchmark, first.slot());
            Error::Varies { command, difference }
        };
        if slot == first.slot() {
            return Err(varies(difference.clone()));
        }
        let outcome = self.launcher.once(benchmark, first.slot(), 0, self.limit(benchmark))?;
        if self.is_interrupted() {
            return Ok(Ran::Interrupted);
        }
        match problem(self.design, &outcome, reference) {
            Some(Error::Output { difference, .. }) => Err(varies(difference)),
            _ => Ok(Ran::Failed(error)),
        }
    }
}

impl Runner for Programs<'_> {
    type Error = Error;

    /// The reference output of a resumed measurement was not kept, its hash was: the base runs once
    /// more.
    fn resume(&mut self, found: &Recorded) -> Result<(), Error> {
        let longest = found.runs.iter().map(|run| run.wall_ns).max();
        self.longest = Duration::from_nanos(longest.unwrap_or_default());
        for benchmark in 0..self.design.benchmarks.len() {
            let Some(first) = found.runs.iter().find(|run| run.benchmark == benchmark) else {
                continue;
            };
            let base = Slot { variant: 0, layout: 0, copy: 0 };
            let outcome = self.launcher.once(benchmark, base, 0, None)?;
            if self.is_interrupted() {
                break;
            }
            if !self.design.ignore_output && outcome.run.output_sha256 != first.output_sha256 {
                return Err(Error::Design(
                    "the base prints something else than when the measurement began; begin a new \
                     one, without the runs that are there"
                        .into(),
                ));
            }
            self.references.insert(benchmark, (first.clone(), outcome.stdout));
        }
        Ok(())
    }

    fn execute(
        &mut self,
        _: &mut Recorded,
        place: Place,
        _: &mut dyn Observer,
    ) -> Result<Ran, Error> {
        let Place { benchmark, round, position, slot } = place;
        let bytes = self.design.environment_bytes(benchmark, round, position);
        let mut outcome = self.launcher.once(benchmark, slot, bytes, self.limit(benchmark))?;
        if self.is_interrupted() {
            return Ok(Ran::Interrupted);
        }
        outcome.run.round = round;
        if let Some(error) = problem(self.design, &outcome, self.references.get(&benchmark)) {
            return self.blamed(error, benchmark, slot);
        }
        self.longest = self.longest.max(Duration::from_nanos(outcome.run.wall_ns));
        self.references.entry(benchmark).or_insert_with(|| (outcome.run.clone(), outcome.stdout));
        Ok(Ran::Runs(vec![outcome.run]))
    }
}
