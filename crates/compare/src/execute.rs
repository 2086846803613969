//! Runs a design: every binary once per round, in random order, one after the other.

use crate::design::{Aslr, Slot, Stopping};
use crate::metric::{Counter, Source};
use crate::process::{Outcome, Runner, problem};
use crate::result::Stopped;
use crate::runs::Recorded;
use crate::watch::Watch;
use crate::{Design, Error, Run, sys};
use statistics::Observation;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Where a measurement stands after a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Runs finished, the warm-up included.
    pub done: u64,
    /// Runs the design asks for.
    pub total: u64,
}

/// Who is told what happens during a measurement.
pub trait Observer {
    /// A run was finished. An error ends the measurement.
    fn run(&mut self, run: &Run, progress: Progress) -> Result<(), Error>;
    /// A variant was stopped; the others go on.
    fn stopped(&mut self, stopped: &Stopped) -> Result<(), Error>;
}

/// Without a limit of the user's, a run may take this many times the longest good one so far…
const PATIENCE: u32 = 20;
/// …and at least this long.
const LEAST_PATIENCE: Duration = Duration::from_secs(60);

/// Runs a design, or what is left of it: `before` holds the runs that an earlier call finished.
///
/// `stop` ends the measurement early: the run that was under way is thrown away, an unfinished
/// round stays in the result (the analysis leaves it out). Every run must end and print as the
/// first run of the base does; a variant whose run does not is stopped and the others go on. When
/// only the base is left of the one benchmark, or the base itself fails, that is the error; one of
/// several benchmarks ends when only the base is left.
pub fn run(
    design: &Design,
    stop: &AtomicBool,
    before: Recorded,
    observer: &mut dyn Observer,
) -> Result<Recorded, Error> {
    go(design, stop, before, observer, None)
}

/// Measures `design.rounds` rounds more of these benchmarks: the block that confirms what the first
/// one showed.
pub fn confirm(
    design: &Design,
    stop: &AtomicBool,
    before: Recorded,
    observer: &mut dyn Observer,
    benchmarks: &BTreeSet<usize>,
) -> Result<Recorded, Error> {
    go(design, stop, before, observer, Some(benchmarks))
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
    let counters = wanted_counters(design);
    if let (_, Some(counter)) = sys::Counters::open(&counters) {
        return Err(Error::NoCounter { name: counter.name() });
    }
    let mut session = Session {
        runner: Runner::new(design, stop, counters),
        design,
        done: before.runs.iter().map(|run| (run.benchmark, run.round, run.slot())).collect(),
        found: Recorded { design: design.clone(), ..before },
        references: BTreeMap::new(),
        longest: Duration::ZERO,
        watch: Watch::new(design),
        decided: BTreeSet::new(),
    };
    if !session.resume()? {
        return Ok(session.found);
    }
    let rounds = match again {
        None => 0..=design.rounds,
        Some(_) => design.second_block(),
    };
    for round in rounds {
        for benchmark in 0..design.benchmarks.len() {
            let left_out = again.is_some_and(|wanted| !wanted.contains(&benchmark));
            if left_out || session.decided.contains(&benchmark) || session.only_base(benchmark) {
                continue;
            }
            if !session.round(benchmark, round, observer)? {
                return Ok(session.found);
            }
            if again.is_none() && round > 0 && session.is_decided(benchmark, round) {
                session.decided.insert(benchmark);
            }
        }
    }
    Ok(session.found)
}

fn wanted_counters(design: &Design) -> Vec<Counter> {
    let metrics = design.benchmarks.iter().flat_map(|b| &b.metrics);
    let counter = |source: &Source| match source {
        Source::Counter(counter) => Some(*counter),
        _ => None,
    };
    let all: BTreeSet<Counter> = metrics.filter_map(|m| counter(&m.source)).collect();
    all.into_iter().collect()
}

struct Session<'a> {
    runner: Runner<'a>,
    design: &'a Design,
    found: Recorded,
    /// The first run of each benchmark with what it printed.
    references: BTreeMap<usize, (Run, Vec<u8>)>,
    longest: Duration,
    /// What an earlier call ran.
    done: BTreeSet<(usize, u32, Slot)>,
    watch: Watch<'a>,
    decided: BTreeSet<usize>,
}

impl Session<'_> {
    /// The reference output of a resumed measurement was not kept, its hash was: the base runs once
    /// more. False when the user stopped it.
    fn resume(&mut self) -> Result<bool, Error> {
        self.longest = self
            .found
            .runs
            .iter()
            .map(|r| Duration::from_nanos(r.wall_ns))
            .max()
            .unwrap_or_default();
        let started: BTreeSet<usize> = self.found.runs.iter().map(|run| run.benchmark).collect();
        for benchmark in started {
            let first = self.found.runs.iter().find(|run| run.benchmark == benchmark).cloned();
            let outcome =
                self.runner.once(benchmark, Slot { variant: 0, layout: 0, copy: 0 }, 0, None)?;
            if self.is_interrupted() {
                return Ok(false);
            }
            if let Some(first) = first {
                if !self.design.ignore_output && outcome.run.output_sha256 != first.output_sha256 {
                    return Err(Error::Design(
                        "the base prints something else than when the measurement began; start a \
                         new one without --resume"
                            .into(),
                    ));
                }
                self.references.insert(benchmark, (first, outcome.stdout));
            }
        }
        Ok(true)
    }

    fn is_interrupted(&self) -> bool {
        self.runner.stop.load(Ordering::Relaxed)
    }

    /// Is nothing left that the base could be compared with?
    fn only_base(&self, benchmark: usize) -> bool {
        (1..self.design.variants.len()).all(|v| self.is_stopped(v, benchmark))
    }

    fn is_stopped(&self, variant: usize, benchmark: usize) -> bool {
        let name = |index: usize| self.design.variants.get(index).map(|v| v.name.as_str());
        let place = self.design.benchmarks.get(benchmark).map(|b| b.name.as_str());
        let same = |s: &Stopped| {
            Some(s.variant.as_str()) == name(variant) && Some(s.benchmark.as_str()) == place
        };
        self.found.stopped.iter().any(same)
    }

    fn is_decided(&mut self, benchmark: usize, round: u32) -> bool {
        if self.design.stopping == Stopping::Fixed {
            return false;
        }
        // Rounds that an earlier call measured need not stand last.
        let recent = self.found.runs.iter().rev();
        let variants: Vec<usize> =
            (0..self.design.variants.len()).filter(|&v| !self.is_stopped(v, benchmark)).collect();
        let here = recent.filter(|run| {
            run.round == round && run.benchmark == benchmark && variants.contains(&run.variant)
        });
        let Some(metric) = self.design.benchmarks.get(benchmark).and_then(|b| b.metrics.first())
        else {
            return false;
        };
        let seen: Option<Vec<Observation>> = here.map(|run| metric.observation(run)).collect();
        // A round with a run that has no number is none to judge by.
        let Some(mut seen) = seen else { return false };
        seen.reverse();
        self.watch.feed(benchmark, &seen, &variants)
    }

    /// False when the user stopped it.
    fn round(
        &mut self,
        benchmark: usize,
        round: u32,
        observer: &mut dyn Observer,
    ) -> Result<bool, Error> {
        for (position, slot) in self.design.order(benchmark, round).into_iter().enumerate() {
            if self.only_base(benchmark) {
                break;
            }
            if self.done.contains(&(benchmark, round, slot))
                || self.is_stopped(slot.variant, benchmark)
            {
                continue;
            }
            let bytes = self.design.environment_bytes(benchmark, round, position);
            let outcome = self.runner.once(benchmark, slot, bytes, self.limit(benchmark))?;
            if self.is_interrupted() {
                return Ok(false);
            }
            self.take(outcome, benchmark, round, observer)?;
        }
        Ok(true)
    }

    fn take(
        &mut self,
        mut outcome: Outcome,
        benchmark: usize,
        round: u32,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        outcome.run.sequence = self.found.runs.last().map_or(0, |run| run.sequence + 1);
        outcome.run.round = round;
        if let Some(error) = problem(self.design, &outcome, self.references.get(&benchmark)) {
            return self.stop_variant(outcome.run.variant, benchmark, error, observer);
        }
        self.longest = self.longest.max(Duration::from_nanos(outcome.run.wall_ns));
        let total = (u64::from(self.design.rounds) + 1)
            * self.design.slots().len() as u64
            * self.design.benchmarks.len() as u64;
        observer.run(&outcome.run, Progress { done: self.found.runs.len() as u64 + 1, total })?;
        self.references.entry(benchmark).or_insert_with(|| (outcome.run.clone(), outcome.stdout));
        self.found.runs.push(outcome.run);
        Ok(())
    }

    fn stop_variant(
        &mut self,
        variant: usize,
        benchmark: usize,
        error: Error,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let others = (1..self.design.variants.len())
            .filter(|&v| v != variant && !self.is_stopped(v, benchmark))
            .count();
        if variant == 0 || (others == 0 && self.design.benchmarks.len() == 1) {
            return Err(error);
        }
        let stopped = Stopped {
            variant: self.design.variants.get(variant).map_or_else(String::new, |v| v.name.clone()),
            benchmark: self
                .design
                .benchmarks
                .get(benchmark)
                .map_or_else(String::new, |b| b.name.clone()),
            machine: self.design.machine.name.clone(),
            reason: error.to_string(),
        };
        observer.stopped(&stopped)?;
        self.found.stopped.push(stopped);
        Ok(())
    }

    /// How long a run may take. The first one of all has no limit unless the user gave one: nothing
    /// is known yet.
    fn limit(&self, benchmark: usize) -> Option<Duration> {
        match self.design.timeout_s {
            Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
            None if self.references.contains_key(&benchmark) => {
                Some(self.longest.saturating_mul(PATIENCE).max(LEAST_PATIENCE))
            }
            None => None,
        }
    }
}
