//! `planish compare`: measures variants of a program and says whether a difference is real, layout
//! luck, nothing, or undecided.

mod args;
mod bisect;
mod check;
mod code_metrics;
mod libraries;
mod project;
pub mod tell;
mod watch;

pub use args::{CORRECT, Output};
pub use tell::tell;
pub use watch::{Bar, stop_flag};

use super::INTERRUPTED;
use crate::cli::{BAD_INPUT, FINE, Global, NEGATIVE, UNDECIDED};
use anyhow::{Context, bail};
use args::{CalibrateArgs, ShowArgs, What};
use compare::calibrate::{self, Relinks};
use compare::gate::{self, Gate};
use compare::result::Compared;
use compare::{
    Analysis, AnalysisOptions, Design, Error, Keep, Metric, Recorded, Source, analyse, layouts,
    named, runs,
};
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Measure variants of a program and say whether a difference is real, layout luck, nothing, or
/// undecided.
///
/// Every binary runs once per round, in random order, under an environment of random size; a
/// warm-up round comes first and is not used. All programs must end and print alike. With --layouts
/// every variant is also linked in random layouts from the same objects, so that the luck of one
/// link can be told from the change itself. Without binaries the variants and benchmarks of
/// planish.toml are built and measured.
///
/// Exit code: 0 fine, 1 a variant is slower (or a gate of --fail-if is hit), 2 wrong usage or a
/// failing program, 3 this machine lacks a counter or a linker, 4 undecided whether a variant is
/// slower (or a gate hit), 130 interrupted.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    tool: Option<Tool>,
    #[command(flatten)]
    what: What,
}

const EXAMPLES: &str = "\
Examples:
  planish compare ./old ./new -- {bin} input.txt
  planish compare ./old ./new --layouts 8 --objects old.tar new.tar \\
      -- {bin} input.txt
      # linked with -ffunction-sections -Wl,--reproduce=old.tar
  planish compare ./old ./new --metric wall \\
      --metric 'rate[MB/s]=throughput:([0-9.]+) MB/s' -- {bin}
  planish compare --config planish.toml --html report.html
  planish compare show laptop.jsonl server.jsonl --markdown -
  planish compare calibrate ./app -- {bin} input.txt
  planish compare bisect v1.0 HEAD --config planish.toml";

#[derive(Debug, clap::Subcommand)]
enum Tool {
    /// Analyse kept runs again, instead of running anything
    Show(ShowArgs),
    /// Compare a program with itself many times: how often is a difference claimed by mistake here?
    Calibrate(Box<CalibrateArgs>),
    Bisect(bisect::Args),
}

/// Runs the command.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    let done = match args.tool {
        Some(Tool::Bisect(args)) => return bisect::run(args, global),
        Some(Tool::Show(args)) => compare(args.into(), global),
        Some(Tool::Calibrate(args)) => calibrate(&args, global),
        None => compare(args.what, global),
    };
    match done {
        Err(error) if matches!(error.downcast_ref(), Some(Error::Interrupted(_))) => {
            eprintln!("planish: {error}");
            Ok(INTERRUPTED)
        }
        other => other,
    }
}

fn compare(what: What, global: &Global) -> anyhow::Result<u8> {
    what.check()?;
    let gates = gate::parse(&what.output.fail_if)?;
    let what = what.absolute()?;
    let judge = Judge { options: what.options()?, gates, global };
    let told = if !what.from.is_empty() {
        Some(again(&what, &judge.options)?)
    } else if what.binaries.is_empty() {
        project::measure(&what, &judge)?
    } else {
        Some(binaries(&what, &judge)?)
    };
    let Some(told) = told else { return Ok(INTERRUPTED) };
    concluded(told, &what.output, &judge.gates, global)
}

/// Tells a result; the exit code that it has.
///
/// # Errors
/// Where it cannot be told.
pub fn concluded(
    mut told: Told,
    output: &Output,
    gates: &[Gate],
    global: &Global,
) -> anyhow::Result<u8> {
    told.analysis.measurement.raw = told.raw.iter().map(|path| shown_name(path)).collect();
    tell::tell(&told, output)?;
    let measurement = &told.analysis.measurement;
    // The rest was compared and told, but a program that fails is no fine end.
    let stopped = measurement.stopped.iter().any(|s| !output.optional.contains(&s.variant));
    let open = gate::open(gates, measurement);
    if !global.quiet {
        open.iter().for_each(|line| eprintln!("planish: {line}"));
    }
    let may_be_slower = |row: &Compared| gate::may_be_slower(row, measurement);
    let open = match gates.is_empty() {
        true => measurement.comparisons.iter().any(may_be_slower),
        false => !open.is_empty(),
    };
    Ok(match gate::hit(gates, measurement) {
        _ if measurement.interrupted => INTERRUPTED,
        Some(reason) => {
            if !gates.is_empty() && !global.quiet {
                eprintln!("planish: {reason}");
            }
            NEGATIVE
        }
        None if stopped => BAD_INPUT,
        // What may be a slow-down beyond the gate passes no job by itself.
        None if open => UNDECIDED,
        None => FINE,
    })
}

/// A result on its way to the reader.
pub struct Told {
    /// Result and pictures' data.
    pub analysis: Analysis,
    /// Files with every run.
    pub raw: Vec<PathBuf>,
}

/// The program against itself, for what this machine claims where there is no difference.
fn calibrate(args: &CalibrateArgs, global: &Global) -> anyhow::Result<u8> {
    args.how.check()?;
    let settings = args.how.settings()?;
    let same = [args.program.clone(), args.program.clone()];
    let same = named::design(&same, &args.command, &settings)?;
    let again = match settings.layouts() {
        Some(_) => named::Links { objects: twice(args.objects.as_ref()), ..Default::default() }
            .of(&same)?,
        None => Vec::new(),
    };
    let folder = state_directory()?.join("layouts");
    let relinks = settings.layouts().zip(again.iter().flatten().next());
    let relinks =
        relinks.map(|(count, again)| Relinks { count, archive: &again.archive, folder: &folder });
    let fingerprint = same.machine.fingerprint.clone();
    let stop = stop_flag()?;
    let mut bar = Bar::new(global);
    let found = calibrate::calibrate(same, relinks, args.how.keep(), &stop, &mut bar)?;
    let Some(found) = found else { return Ok(INTERRUPTED) };
    let path = calibrate::store(&fingerprint, &found)?;
    tell::calibration(&found, &path, args.format)?;
    Ok(FINE)
}

/// One archive stands for both names of the one program.
fn twice(objects: Option<&String>) -> Vec<String> {
    objects.into_iter().flat_map(|archive| [archive.clone(), archive.clone()]).collect()
}

/// Kept runs, analysed again.
fn again(what: &What, options: &AnalysisOptions) -> anyhow::Result<Told> {
    let mut files = Vec::new();
    for path in &what.from {
        let kept = runs::read(path, BufReader::new(crate::input::stream(path)?))?;
        files.push(match &what.base {
            Some(base) => kept.beside(base)?,
            None => kept,
        });
    }
    if let Some(metric) = &options.metric {
        files.iter().try_for_each(|file| knows(file, metric))?;
    }
    Ok(Told { analysis: analyse(&files, options)?, raw: what.from.clone() })
}

/// Kept runs hold all times and sizes, of the output only the numbers that were looked for.
fn knows(file: &Recorded, wanted: &Metric) -> anyhow::Result<()> {
    let printed = matches!(wanted.source, Source::Output { .. } | Source::Counter(_));
    let kept = file.design.benchmarks.iter().all(|b| b.metrics.contains(wanted));
    if printed && !kept {
        bail!(
            "--metric {}: the runs were kept without it; measure again with this metric, or take \
             one of cpu, user, system, wall, maxrss, faults, switches",
            wanted.label()
        );
    }
    Ok(())
}

/// Programs named on the command line, all running one command.
fn binaries(what: &What, judge: &Judge<'_>) -> anyhow::Result<Told> {
    let settings = what.how.settings()?;
    let (there, missing) = named::present(&what.binaries, &what.output.optional)?;
    for binary in missing.iter().filter(|_| !judge.global.quiet) {
        eprintln!("planish: {binary} is not there, so the comparison goes without it (--optional)");
    }
    let links = what.links.named()?;
    links.check(&what.binaries)?;
    let mut design = named::design(&there, &what.command, &settings)?;
    libraries::lead(&mut design, &what.library_path)?;
    if let Some(count) = settings.layouts() {
        let again = links.of(&design)?;
        let folder = state_directory()?.join("layouts");
        let mode = settings.layout_mode.unwrap_or_default();
        layouts::add(&mut design, &again, count, mode, &folder, &mut Bar::new(judge.global))?;
    }
    if what.how.code_metrics {
        code_metrics::add(&mut design, judge.global)?;
    }
    // Standard output has no name beside which the runs could be kept.
    let page = what.output.html.as_ref().filter(|html| *html != Path::new("-"));
    let raw = what.how.raw.clone().or_else(|| page.map(|html| html.with_extension("jsonl")));
    let analysis = judge.of(design, Keep { raw: raw.as_deref(), resume: what.how.resuming() })?;
    Ok(Told { analysis, raw: raw.into_iter().collect() })
}

/// By what a measurement is judged.
struct Judge<'a> {
    options: AnalysisOptions,
    gates: Vec<Gate>,
    global: &'a Global,
}

impl Judge<'_> {
    /// Measures a design and analyses what was measured.
    fn of(&self, design: Design, keep: Keep<'_>) -> anyhow::Result<Analysis> {
        let hindrance = gate::hindrance(&design, self.options.among, &self.gates)?;
        if let Some(problem) = hindrance.filter(|_| !self.global.quiet) {
            eprintln!("planish: {problem}");
        }
        let stop = stop_flag()?;
        let mut bar = Bar::new(self.global);
        Ok(compare::judge(design, &self.options, keep, &stop, &mut bar)?.analysis)
    }
}

/// The name of the kept runs.
fn shown_name(path: &Path) -> String {
    // Below the directory in which the commands run, the name from there says enough.
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).display().to_string()
}

/// Where what is kept for layouts lies: in the directory where planish runs.
fn state_directory() -> anyhow::Result<PathBuf> {
    build::state_directory(Path::new("")).context("cannot make .planish in this directory")
}
