//! `planish compare`: measures variants of a program and says whether a difference is real, layout
//! luck, nothing, or undecided.

mod bisect;
mod busy;
mod calibrate;
mod code_metrics;
mod design;
mod gate;
mod layouts;
pub mod measure;
mod probe;
mod project;
pub mod tell;

pub use design::of as design_of;
pub use measure::{measure, stop_flag};
pub use tell::{tell, terminal_style};

use super::INTERRUPTED;
use crate::cli::{BAD_INPUT, FINE, Format, Global, NEGATIVE, UNDECIDED};
use anyhow::{Context, bail};
use compare::{Correction, Metric, Options, Recorded, Verdict, analyse, runs};
use statistics::least_layouts;
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
/// failing program.
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
  planish compare ./old ./new --layouts 8 --objects old.tar new.tar -- {bin} input.txt
      (linked with -ffunction-sections -Wl,--reproduce=old.tar)
  planish compare ./old ./new --metric wall --metric 'rate[MB/s]=throughput:([0-9.]+) MB/s' -- \
                        {bin}
  planish compare --config planish.toml --html report.html
  planish compare --from laptop.jsonl server.jsonl --markdown -
  planish compare ./app --calibrate -- {bin} input.txt
  planish compare bisect v1.0 HEAD --config planish.toml";

#[derive(Debug, clap::Subcommand)]
enum Tool {
    /// Find the commit that made the program slower; layout luck names no culprit
    Bisect(bisect::Args),
}

/// What to compare and how.
#[derive(Clone, Debug, clap::Args)]
pub struct What {
    /// Binaries, or NAME=BINARY; the first is the one the others are compared with
    #[arg(value_name = "BINARY")]
    pub binaries: Vec<String>,
    /// Build and measure the variants and benchmarks of this file [default without binaries:
    /// planish.toml]
    #[arg(long, value_name = "planish.toml", conflicts_with = "binaries")]
    pub config: Option<PathBuf>,
    /// One variant for each flag of [matrix] in planish.toml, and one with all of them
    #[arg(long, conflicts_with_all = ["binaries", "from"])]
    pub matrix: bool,
    /// How to measure.
    #[command(flatten)]
    pub how: How,
    /// Analyse the runs of such files again, one file a machine, instead of running anything
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["binaries", "config", "raw", "resume", "command"])]
    pub from: Vec<PathBuf>,
    /// Link inputs of each binary, written by lld with --reproduce [default: BINARY.repro.tar]
    #[arg(long, value_name = "TAR", num_args = 1.., requires = "binaries")]
    pub objects: Vec<PathBuf>,
    /// Compare the program with itself many times over: how often is a difference claimed on this
    /// machine?
    #[arg(long, conflicts_with_all = ["from", "matrix", "config", "resume"])]
    pub calibrate: bool,
    /// What to tell, and where.
    #[command(flatten)]
    pub output: Output,
    /// Program and arguments; {bin} stands for the binary
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// How to measure.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Measuring")]
pub struct How {
    /// Rounds: every binary runs once in each [default: 30]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rounds: Option<u32>,
    /// Decides the order of the runs and the layouts; the same seed repeats them [default: 1]
    #[arg(long)]
    pub seed: Option<u64>,
    /// cpu, user, system, wall, maxrss, faults, switches, task-clock, instructions, …,
    /// output:PATTERN (smaller is better), throughput:PATTERN; NAME[UNIT]= before the last
    /// two. Repeatable; the first decides
    #[arg(long)]
    pub metric: Vec<String>,
    /// Differences within plus or minus this many per cent count as none [default: 1]
    #[arg(long, value_name = "PCT")]
    pub margin: Option<f64>,
    /// Link every variant in this many random layouts and average over them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub layouts: Option<u32>,
    /// Random orders that all variants share, or each its own
    #[arg(long, value_enum)]
    pub layout_mode: Option<LayoutMode>,
    /// Measure again with all functions aligned to these many bytes: does the difference vanish?
    /// (with planish.toml)
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    pub probe_align: Vec<u32>,
    /// End as soon as every comparison is decided; --rounds is then the most
    #[arg(long, conflicts_with = "looks")]
    pub until_decided: bool,
    /// Look four times and end when all is decided, at the price of stricter p-values
    #[arg(long)]
    pub looks: bool,
    /// Measure a slower variant for as many rounds again, and call it slower only if these say so
    /// too
    #[arg(long)]
    pub confirm: bool,
    /// Kill a run after this many seconds [default: 20 times the longest good run, 60 at least]
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,
    /// Compare programs although they print different things
    #[arg(long)]
    pub ignore_output: bool,
    /// Address-space layout randomisation of the programs
    #[arg(long, value_enum)]
    pub aslr: Option<Aslr>,
    /// Run everything on this CPU
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// Name of this machine in reports [default: the host's]
    #[arg(long, value_name = "NAME")]
    pub machine: Option<String>,
    /// Also count instructions, taken branches and simulated cache misses of the code under
    /// emulation
    #[arg(long)]
    pub code_metrics: bool,
    /// Keep every run as JSON lines
    #[arg(long, value_name = "FILE")]
    pub raw: Option<PathBuf>,
    /// Go on with the measurement that the file of --raw holds
    #[arg(long)]
    pub resume: bool,
}

/// What to tell, and where.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Telling")]
pub struct Output {
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Write one HTML file with pictures
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write Markdown for a pull request; - is standard output
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Exit with 1 when one of these holds: "slower > 1%", "faster", "layout-luck", "undecided",
    /// "text > 2%", …
    #[arg(long, value_name = "GATE")]
    pub fail_if: Vec<String>,
    /// These rows are some of N whose claims are corrected together, in other measurements of the
    /// same question
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub among: Option<u32>,
    /// How claims on several rows are corrected: holm (no false claim at all, 95 %), bh (5 % of
    /// the claims may be false)
    #[arg(long, value_enum, default_value_t)]
    pub correct: Correct,
}

/// `--layout-mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LayoutMode {
    /// Matched where that works, else independent
    Auto,
    /// The same random orders for all variants: what did not change lies alike in all of them
    Matched,
    /// Each variant has random orders of its own
    Independent,
}

/// `--aslr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Aslr {
    /// As the system has it
    AsSet,
    /// Off
    Off,
}

/// `--correct`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Correct {
    /// Holm's step-down correction
    #[default]
    Holm,
    /// Benjamini and Hochberg's false discovery rate
    Bh,
}

/// Runs the command.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    match args.tool {
        Some(Tool::Bisect(args)) => bisect::run(args, global),
        None => match compare(args.what, global) {
            Err(error) if error.is::<Interrupted>() => {
                eprintln!("planish: {error}");
                Ok(INTERRUPTED)
            }
            other => other,
        },
    }
}

fn compare(what: What, global: &Global) -> anyhow::Result<u8> {
    check(&what)?;
    if what.calibrate {
        return calibrate::run(&what, global);
    }
    let gates = gate::parse(&what.output.fail_if)?;
    let what = absolute(what)?;
    let mut told = if !what.from.is_empty() {
        again(&what)?
    } else if what.binaries.is_empty() {
        match project::measure(&what, global)? {
            Some(told) => told,
            None => return Ok(INTERRUPTED),
        }
    } else {
        let design = design::from_binaries(&what, global)?;
        measured(design, &what, global)?
    };
    told.analysis.measurement.raw = told.raw.iter().map(|path| shown_name(path)).collect();
    tell::tell(&told, &what.output)?;
    let interrupted = told.analysis.measurement.interrupted;
    // The rest was compared and told, but a program that fails is no fine end.
    let stopped = !told.analysis.measurement.stopped.is_empty();
    let open = gate::open(&gates, &told.analysis.measurement);
    if !global.quiet {
        open.iter().for_each(|line| eprintln!("planish: {line}"));
    }
    Ok(match gate::hit(&gates, &told.analysis.measurement) {
        _ if interrupted => INTERRUPTED,
        Some(reason) => {
            if !gates.is_empty() && !global.quiet {
                eprintln!("planish: {reason}");
            }
            NEGATIVE
        }
        None if stopped => BAD_INPUT,
        // What may be a slow-down beyond the gate passes no job by itself.
        None if !open.is_empty() => UNDECIDED,
        None => FINE,
    })
}

/// A result on its way to the reader.
pub struct Told {
    /// Result and pictures' data.
    pub analysis: compare::Analysis,
    /// Files with every run.
    pub raw: Vec<PathBuf>,
}

fn check(what: &What) -> anyhow::Result<()> {
    if let Some(margin) = what.how.margin.filter(|m| !(*m > 0.0 && *m < 100.0)) {
        bail!("--margin {margin}: give a percentage between 0 and 100");
    }
    if let Some(timeout) = what.how.timeout.filter(|t| !(*t > 0.0 && t.is_finite())) {
        bail!("--timeout {timeout}: give seconds above 0");
    }
    if !what.binaries.is_empty() && what.command.is_empty() {
        bail!(
            "there is no command: write it behind --, with {{bin}} for the program: planish \
             compare A B -- {{bin}} input"
        );
    }
    if what.how.resume && what.how.raw.is_none() && !what.binaries.is_empty() {
        bail!("--resume goes on with the measurement in the file of --raw: name it");
    }
    if what.binaries.is_empty() && !what.command.is_empty() {
        bail!("the command is there but no program: planish compare A B -- {{bin}} input");
    }
    if !what.binaries.is_empty() && !what.how.probe_align.is_empty() {
        bail!(
            "--probe-align builds the program anew, so it needs variants of a planish.toml \
             instead of binaries"
        );
    }
    enough_layouts("--layouts", what.how.layouts)?;
    if what.how.layouts == Some(1) {
        bail!(
            "--layouts 1: one layout cannot be averaged; {} matched or {} independent ones are \
             the least, 8 are usual",
            least_layouts(true),
            least_layouts(false)
        );
    }
    let outputs = [&what.output.html, &what.output.markdown].into_iter().flatten();
    if outputs.clone().filter(|path| path.as_os_str() == "-").count() > 1 {
        bail!("--html - and --markdown - both want standard output; write one of them to a file");
    }
    let inputs = || what.from.iter().chain(&what.objects).chain(&what.how.raw);
    for output in outputs {
        let binaries = what.binaries.iter().map(Path::new);
        if inputs()
            .map(PathBuf::as_path)
            .chain(binaries)
            .any(|input| measure::same_file(input, output))
        {
            bail!(
                "{}: is read or written as something else already; give the report another name",
                output.display()
            );
        }
    }
    if what.from.len() > 1 && what.how.layouts.is_some() {
        bail!("--layouts is decided when measuring; the files of --from have theirs");
    }
    Ok(())
}

/// Each layout is linked before anything is measured.
fn enough_layouts(named: &str, layouts: Option<u32>) -> anyhow::Result<()> {
    match layouts.filter(|&count| count > compare::MOST_LAYOUTS) {
        Some(count) => {
            bail!(
                "{named} {count}: {} are the most, 8 are usual; each is a link of every program",
                compare::MOST_LAYOUTS
            )
        }
        None => Ok(()),
    }
}

/// Commands of planish.toml run in its directory; files named on the command line lie where the
/// user is.
fn absolute(mut what: What) -> anyhow::Result<What> {
    if !what.binaries.is_empty() || !what.from.is_empty() {
        return Ok(what);
    }
    for path in
        [&mut what.how.raw, &mut what.output.html, &mut what.output.markdown].into_iter().flatten()
    {
        if path.as_os_str() != "-" {
            *path = std::path::absolute(&*path).with_context(|| path.display().to_string())?;
        }
    }
    Ok(what)
}

/// How the runs are analysed; the margin is that of the design unless one was given.
fn options(what: &What) -> anyhow::Result<Options> {
    let metric = match (what.from.is_empty(), what.how.metric.first()) {
        (false, Some(metric)) => Some(Metric::parse(metric)?),
        _ => None,
    };
    Ok(Options {
        margin: what.how.margin.map(|m| m / 100.0),
        correction: match what.output.correct {
            Correct::Holm => Correction::Holm,
            Correct::Bh => Correction::FalseDiscoveryRate,
        },
        metric,
        among: what.output.among.unwrap_or(0) as usize,
        ..Options::default()
    })
}

fn again(what: &What) -> anyhow::Result<Told> {
    let mut files = Vec::new();
    for path in &what.from {
        files.push(runs::read(path, BufReader::new(crate::input::stream(path)?))?);
    }
    let options = options(what)?;
    if let Some(metric) = &options.metric {
        for file in &files {
            knows(file, metric)?;
        }
    }
    Ok(Told { analysis: analyse(&files, &options)?, raw: what.from.clone() })
}

/// Kept runs hold all times and sizes, of the output only the numbers that were looked for.
fn knows(file: &Recorded, wanted: &Metric) -> anyhow::Result<()> {
    let printed =
        matches!(wanted.source, compare::Source::Output { .. } | compare::Source::Counter(_));
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

/// The user stopped before there was anything to tell.
#[derive(Debug, thiserror::Error)]
#[error("interrupted: {0}")]
struct Interrupted(String);

/// Measures a design and analyses what was measured.
fn measured(design: compare::Design, what: &What, global: &Global) -> anyhow::Result<Told> {
    // Standard output has no name beside which the runs could be kept.
    let page = what.output.html.as_ref().filter(|html| *html != Path::new("-"));
    let raw = what.how.raw.clone().or_else(|| page.map(|html| html.with_extension("jsonl")));
    let options = options(what)?;
    gate::possible(&design, options.among, &what.output.fail_if, global)?;
    let analysed = |recorded: &Recorded, interrupted: bool| match analyse(
        std::slice::from_ref(recorded),
        &options,
    ) {
        Err(compare::Error::TooFew(reason)) if interrupted => Err(Interrupted(reason).into()),
        other => other.map_err(anyhow::Error::from),
    };
    let (recorded, mut interrupted) =
        measure::measure(design, raw.as_deref(), what.how.resume, global)?;
    let mut analysis = analysed(&recorded, interrupted)?;
    let slower = measure::to_confirm(&recorded, &analysis.measurement);
    if !interrupted && !slower.is_empty() {
        let (recorded, stopped) = measure::confirm(recorded, raw.as_deref(), &slower, global)?;
        (interrupted, analysis) = (stopped, analysed(&recorded, stopped)?);
    }
    analysis.measurement.interrupted = interrupted;
    Ok(Told { analysis, raw: raw.into_iter().collect() })
}

/// The name of the kept runs. A step of `planish optimize` writes beside and renames when all is
/// done.
fn shown_name(path: &Path) -> String {
    let own = path.parent().is_some_and(|folder| folder.ends_with(build::plan::STATE_DIRECTORY));
    // Below the directory in which the commands run, the name from there says enough.
    let here = std::env::current_dir().unwrap_or_default();
    let shown = path.strip_prefix(here).unwrap_or(path).display().to_string();
    shown.strip_suffix(".partial").filter(|_| own).map_or(shown.clone(), str::to_owned)
}

/// Whether a row is a finding against the variant.
pub fn is_slower(c: &compare::result::Compared) -> bool {
    c.verdict == Verdict::Slower && !c.negligible
}
