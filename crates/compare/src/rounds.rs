//! Who runs when, what is left to do, and when is enough measured? The one loop of all
//! measurements, of programs and of whatever else implements [`Runner`].

use crate::design::{Slot, Stopping};
use crate::result::Stopped;
use crate::runs::Recorded;
use crate::watch::Watch;
use crate::{Error, Run};
use statistics::Observation;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where a measurement stands after an execution.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Executions finished, the warm-up included.
    pub done: u64,
    /// Executions the design asks for.
    pub total: u64,
}

/// Who is told what happens during a measurement. An error ends it.
pub trait Observer {
    /// The design is whole; these are the runs that are there already.
    ///
    /// # Errors
    /// Where what happens cannot be kept.
    fn begun(&mut self, _found: &Recorded) -> Result<(), Error> {
        Ok(())
    }
    /// The runner says what it is doing.
    fn doing(&mut self, _what: &str) {}
    /// The runner says what the result will lack.
    fn warn(&mut self, _text: &str) {}
    /// A run was finished.
    ///
    /// # Errors
    /// Where it cannot be kept.
    fn run(&mut self, run: &Run, progress: Progress) -> Result<(), Error>;
    /// A variant was stopped; the others go on.
    ///
    /// # Errors
    /// Where that cannot be kept.
    fn stopped(&mut self, stopped: &Stopped) -> Result<(), Error>;
}

/// One place of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index into [`Design::benchmarks`](crate::Design::benchmarks); 0 where one execution runs
    /// all.
    pub benchmark: usize,
    /// The round; 0 warms up.
    pub round: u32,
    /// Place in the order of the round.
    pub position: usize,
    /// What runs there.
    pub slot: Slot,
}

/// What came of an execution.
#[derive(Debug)]
pub enum Ran {
    /// The runs it gave; the loop fills in the sequence.
    Runs(Vec<Run>),
    /// The variant cannot be compared on this benchmark.
    Failed(Error),
    /// The user ended it.
    Interrupted,
}

/// Executes what a design names.
pub trait Runner {
    /// What ends the whole measurement.
    type Error: From<Error>;

    /// Whether an execution runs all benchmarks at once, as a boot runs all sections of its
    /// workload. They may then become known by the first one, which adds them to the design.
    fn runs_all(&self) -> bool {
        false
    }

    /// Whether round 0 warms up. Not where each execution does so by itself.
    fn has_warm_up(&self) -> bool {
        true
    }

    /// Gets ready to go on after the runs of an earlier call.
    ///
    /// # Errors
    /// Where it cannot be gone on with them.
    fn resume(&mut self, _found: &Recorded) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Executes once.
    ///
    /// # Errors
    /// What ends the measurement.
    fn execute(
        &mut self,
        found: &mut Recorded,
        place: Place,
        observer: &mut dyn Observer,
    ) -> Result<Ran, Self::Error>;
}

/// Runs the rounds that are left of a design: `before` holds the runs that an earlier call
/// finished. `again` measures the second block of rounds of some benchmarks in place of the first.
/// The second result says whether the user ended it early, by `stop` or at the runner.
///
/// In every round each slot runs once, in the order of the design. A run that was under way when
/// the user ended it is thrown away; an unfinished round stays in the result (the analysis leaves
/// it out). A variant that fails is stopped and the others go on; when only the base is left of
/// the one benchmark, or the base itself fails, that is the error; one of several benchmarks ends
/// when only the base is left.
///
/// # Errors
/// Those of the runner, of the observer, and of the last variant that could be compared.
pub fn rounds<R: Runner>(
    runner: &mut R,
    before: Recorded,
    again: Option<&BTreeSet<usize>>,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<(Recorded, bool), R::Error> {
    let design = before.design.clone();
    let units = runner.runs_all().then_some(1);
    let of_units = |run: &&Run| units.is_none_or(|units| run.benchmark < units);
    let done = before.runs.iter().filter(of_units);
    let mut session = Session {
        units,
        warms_up: runner.has_warm_up(),
        done: done.map(|run| (run.benchmark, run.round, run.slot())).collect(),
        begun: !design.benchmarks.is_empty(),
        found: before,
        watch: Watch::new(&design),
        decided: BTreeSet::new(),
    };
    if session.begun {
        observer.begun(&session.found)?;
    }
    let whole = session.all(runner, again, stop, observer)?;
    Ok((session.found, !whole || stop.load(Ordering::Relaxed)))
}

/// How often each benchmark, or all of them at once, is executed: in each round every slot once.
pub(crate) fn executions(design: &crate::Design, warms_up: bool) -> u64 {
    (u64::from(design.rounds) + u64::from(warms_up)) * design.slots().len() as u64
}

struct Session<'a> {
    /// How many benchmarks run by themselves, where that is not all.
    units: Option<usize>,
    /// Whether there is a round 0.
    warms_up: bool,
    found: Recorded,
    /// What was executed, also by an earlier call.
    done: BTreeSet<(usize, u32, Slot)>,
    /// Whether the observer knows the design.
    begun: bool,
    watch: Watch<'a>,
    decided: BTreeSet<usize>,
}

impl Session<'_> {
    fn units(&self) -> usize {
        self.units.unwrap_or(self.found.design.benchmarks.len())
    }

    /// All rounds; false when the user ended them.
    fn all<R: Runner>(
        &mut self,
        runner: &mut R,
        again: Option<&BTreeSet<usize>>,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<bool, R::Error> {
        runner.resume(&self.found)?;
        let rounds = match again {
            None => u32::from(!self.warms_up)..=self.found.design.rounds,
            Some(_) => self.found.design.second_block(),
        };
        for round in rounds {
            for benchmark in 0..self.units() {
                let left_out = again.is_some_and(|wanted| !wanted.contains(&benchmark));
                if left_out || self.decided.contains(&benchmark) || self.only_base(benchmark) {
                    continue;
                }
                if !self.round(runner, benchmark, round, stop, observer)? {
                    return Ok(false);
                }
                if again.is_none() && round > 0 && self.is_decided(benchmark, round) {
                    self.decided.insert(benchmark);
                }
            }
        }
        Ok(true)
    }

    /// False when the user ended it.
    fn round<R: Runner>(
        &mut self,
        runner: &mut R,
        benchmark: usize,
        round: u32,
        stop: &AtomicBool,
        observer: &mut dyn Observer,
    ) -> Result<bool, R::Error> {
        let order = self.found.design.order(benchmark, round);
        for (position, slot) in order.into_iter().enumerate() {
            if self.only_base(benchmark) {
                break;
            }
            if self.done.contains(&(benchmark, round, slot))
                || self.is_stopped(slot.variant, benchmark)
            {
                continue;
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let place = Place { benchmark, round, position, slot };
            match runner.execute(&mut self.found, place, observer)? {
                Ran::Runs(runs) => self.take(runs, place, observer)?,
                Ran::Failed(error) => {
                    self.stop_variant(slot.variant, benchmark, error, observer)?
                }
                Ran::Interrupted => return Ok(false),
            }
        }
        Ok(true)
    }

    fn take(
        &mut self,
        runs: Vec<Run>,
        place: Place,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        if !self.begun {
            observer.begun(&self.found)?;
            self.begun = true;
        }
        self.done.insert((place.benchmark, place.round, place.slot));
        let design = &self.found.design;
        let total = executions(design, self.warms_up) * self.units() as u64;
        let progress = Progress { done: self.done.len() as u64, total };
        for mut run in runs {
            run.sequence = self.found.runs.last().map_or(0, |run| run.sequence + 1);
            observer.run(&run, progress)?;
            self.found.runs.push(run);
        }
        Ok(())
    }

    fn stop_variant(
        &mut self,
        variant: usize,
        benchmark: usize,
        error: Error,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let design = &self.found.design;
        let others = (1..design.variants.len())
            .filter(|&v| v != variant && !self.is_stopped(v, benchmark))
            .count();
        if variant == 0 || (others == 0 && design.benchmarks.len() == 1) {
            return Err(error);
        }
        // Where one execution runs all benchmarks, all have lost it.
        let lost = |at: &usize| self.units.is_some() || *at == benchmark;
        let benchmarks = design.benchmarks.iter().enumerate().filter(|(at, _)| lost(at));
        let stopped = benchmarks.map(|(_, of)| Stopped {
            variant: design.variants.get(variant).map_or_else(String::new, |v| v.name.clone()),
            benchmark: of.name.clone(),
            machine: design.machine.name.clone(),
            reason: error.to_string(),
        });
        for stopped in stopped.collect::<Vec<_>>() {
            observer.stopped(&stopped)?;
            self.found.stopped.push(stopped);
        }
        Ok(())
    }

    /// Is nothing left that the base could be compared with?
    fn only_base(&self, benchmark: usize) -> bool {
        (1..self.found.design.variants.len()).all(|v| self.is_stopped(v, benchmark))
    }

    fn is_stopped(&self, variant: usize, benchmark: usize) -> bool {
        let design = &self.found.design;
        let name = design.variants.get(variant).map(|v| v.name.as_str());
        let place = design.benchmarks.get(benchmark).map(|b| b.name.as_str());
        let same =
            |s: &Stopped| Some(s.variant.as_str()) == name && Some(s.benchmark.as_str()) == place;
        self.found.stopped.iter().any(same)
    }

    fn is_decided(&mut self, benchmark: usize, round: u32) -> bool {
        let design = &self.found.design;
        if design.stopping == Stopping::Fixed {
            return false;
        }
        // Rounds that an earlier call measured need not stand last.
        let recent = self.found.runs.iter().rev();
        let variants: Vec<usize> =
            (0..design.variants.len()).filter(|&v| !self.is_stopped(v, benchmark)).collect();
        let here = recent.filter(|run| {
            run.round == round && run.benchmark == benchmark && variants.contains(&run.variant)
        });
        let metric = design.benchmarks.get(benchmark).and_then(|b| b.metrics.first());
        let Some(metric) = metric else { return false };
        let seen: Option<Vec<Observation>> = here.map(|run| metric.observation(run)).collect();
        // A round with a run that has no number is none to judge by.
        let Some(mut seen) = seen else { return false };
        seen.reverse();
        self.watch.feed(benchmark, &seen, &variants)
    }
}
