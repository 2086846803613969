//! How is a design measured from end to end? Its runs are kept as they come, gone on with where
//! that is wanted, confirmed where that was asked for, and analysed.

use crate::kept::{self, Keep, Resume};
use crate::result::{Measurement, Stopped};
use crate::rounds::{Observer, Progress, Runner, executions, rounds};
use crate::runs::{self, Recorded};
use crate::teller::{Teller, Work};
use crate::{Analysis, AnalysisOptions, Design, Error, Run, analyse, confirm, run};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Measures a design with programs; the second result says whether the user ended it early, by
/// `stop`. What was measured is kept in any case.
///
/// # Errors
/// Where the design cannot be run, its runs cannot be kept, or nothing is left to compare.
pub fn measure(
    mut design: Design,
    keep: Keep<'_>,
    stop: &AtomicBool,
    teller: &mut dyn Teller,
) -> Result<(Recorded, bool), Error> {
    design.check()?;
    for variant in &mut design.variants {
        variant.digests =
            variant.binaries.iter().map(|path| kept::digest(path)).collect::<Result<_, _>>()?;
    }
    if let Some(path) = keep.raw {
        kept::replaceable(path, &design)?;
    }
    let before = keep.before(&design)?;
    if keep.resume == Resume::IfSame && !before.runs.is_empty() {
        let (runs, rounds) = (before.runs.len(), before.rounds());
        teller.note(&format!(
            "going on with {runs} runs of an earlier call, which had ended {rounds} rounds"
        ));
    }
    design.looked = before.looks();
    looked_before(&design, teller);
    // Kept over an interruption, the design is the one that began, with as many rounds as are asked
    // for now.
    let total = executions(&design, true) * design.benchmarks.len() as u64;
    teller.begin(Work::Runs, before.runs.len() as u64, total);
    let mut keeper = Keeper { path: keep.raw, file: None, teller };
    let found = run(&design, stop, before, &mut keeper);
    keeper.teller.end();
    let (found, interrupted) = (found?, stop.load(Ordering::Relaxed));
    if interrupted && keep.resume != Resume::IfSame && found.rounds() > 0 {
        // What is told now has been seen when the measurement goes on.
        keeper.write(|file| runs::write_looked(file, found.rounds()))?;
    }
    Ok((found, interrupted))
}

/// Measures with a runner of the caller's, from the runs `before`, which name the design; one that
/// has no benchmarks yet gets them by the first execution. The second result says whether the user
/// ended it early.
///
/// # Errors
/// Those of the runner, and where the runs cannot be kept.
pub fn measure_by<R: Runner>(
    runner: &mut R,
    before: Recorded,
    work: Work,
    keep: Keep<'_>,
    stop: &AtomicBool,
    teller: &mut dyn Teller,
) -> Result<(Recorded, bool), R::Error> {
    let design = &before.design;
    let done: BTreeSet<_> = before.runs.iter().map(|run| (run.round, run.slot())).collect();
    teller.begin(work, done.len() as u64, executions(design, runner.has_warm_up()));
    let mut keeper = Keeper { path: keep.raw, file: None, teller };
    let found = rounds(runner, before, None, stop, &mut keeper);
    keeper.teller.end();
    found
}

/// A measurement with what it shows.
#[derive(Clone, Debug)]
pub struct Judged {
    /// What it shows.
    pub analysis: Analysis,
    /// The runs.
    pub recorded: Recorded,
}

/// Measures a design, measures the second block of rounds where a variant is slower and the design
/// asks for confirmation, and analyses.
///
/// # Errors
/// Those of [`measure`]; [`Error::Interrupted`] where the user ended it before there was anything
/// to tell, or one that goes on by itself.
pub fn judge(
    design: Design,
    options: &AnalysisOptions,
    keep: Keep<'_>,
    stop: &AtomicBool,
    teller: &mut dyn Teller,
) -> Result<Judged, Error> {
    let judged = |recorded: Recorded, interrupted: bool| match analyse(
        std::slice::from_ref(&recorded),
        options,
    ) {
        Err(Error::TooFew(reason)) if interrupted => Err(Error::Interrupted(reason)),
        Err(error) => Err(error),
        Ok(mut analysis) => {
            analysis.measurement.interrupted = interrupted;
            Ok(Judged { analysis, recorded })
        }
    };
    // Of what is gone on with by itself, nobody sees a result before its end.
    let untold = |interrupted| match interrupted && keep.resume == Resume::IfSame {
        true => Err(Error::Interrupted("the next call goes on with the measurement".into())),
        false => Ok(()),
    };
    let (recorded, interrupted) = measure(design, keep, stop, teller)?;
    untold(interrupted)?;
    let first = judged(recorded, interrupted)?;
    let slower = to_confirm(&first.recorded, &first.analysis.measurement);
    if interrupted || slower.is_empty() {
        return Ok(first);
    }
    let design = first.recorded.design.clone();
    teller.note(&format!(
        "a variant is slower; {} more rounds are to confirm it",
        design.second_rounds()
    ));
    let append = |path| beside::append(path).map_err(Error::file(path));
    let file = keep.raw.map(append).transpose()?;
    let mut keeper = Keeper { path: keep.raw, file, teller };
    let found = confirm(&design, stop, first.recorded, &mut keeper, &slower)?;
    let interrupted = stop.load(Ordering::Relaxed);
    untold(interrupted)?;
    judged(found, interrupted)
}

/// Says what going on after a look costs.
fn looked_before(design: &Design, teller: &mut dyn Teller) {
    let looked: Vec<String> =
        design.looked.iter().filter(|&&look| look < design.rounds).map(u32::to_string).collect();
    if !looked.is_empty() {
        teller.note(&format!(
            "the result was told after {} rounds already; p-values are corrected for \
             looking more than once",
            looked.join(" and ")
        ));
    }
}

/// Benchmarks with a variant that is slower by the first block of rounds and awaits the second.
fn to_confirm(recorded: &Recorded, told: &Measurement) -> BTreeSet<usize> {
    let design = &recorded.design;
    let open = |name: &str| {
        let mut rows = told.comparisons.iter().filter(|c| c.benchmark == name);
        rows.any(|c| c.awaits_confirmation(design.second_rounds()))
    };
    (0..design.benchmarks.len()).filter(|&at| open(&design.benchmarks[at].name)).collect()
}

/// Writes what happens to the file of runs, and tells it.
struct Keeper<'a> {
    path: Option<&'a Path>,
    /// Open once the measurement has begun.
    file: Option<File>,
    teller: &'a mut dyn Teller,
}

impl Keeper<'_> {
    fn write(&mut self, what: impl FnOnce(&mut File) -> std::io::Result<()>) -> Result<(), Error> {
        match (self.path, &mut self.file) {
            (Some(path), Some(file)) => what(file).map_err(Error::file(path)),
            _ => Ok(()),
        }
    }
}

impl Observer for Keeper<'_> {
    fn begun(&mut self, found: &Recorded) -> Result<(), Error> {
        if let (Some(path), None) = (self.path, &self.file) {
            let (file, old) = kept::begin(path, found)?;
            self.file = Some(file);
            if let Some(old) = old {
                let (old, path) = (old.display(), path.display());
                self.teller.note(&format!("the runs that {path} held are now in {old}"));
            }
        }
        Ok(())
    }

    fn doing(&mut self, what: &str) {
        self.teller.doing(what);
    }

    fn warn(&mut self, text: &str) {
        self.teller.warn(text);
    }

    fn run(&mut self, run: &Run, progress: Progress) -> Result<(), Error> {
        self.teller.at(progress.done);
        self.write(|file| runs::write_run(file, run))
    }

    fn stopped(&mut self, stopped: &Stopped) -> Result<(), Error> {
        self.teller.note(&format!(
            "{} is dropped from {}: {}",
            stopped.variant, stopped.benchmark, stopped.reason
        ));
        self.write(|file| runs::write_stopped(file, stopped))
    }
}
