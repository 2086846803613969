//! `planish compare`: runs binaries in random order, round by round, and says whether they differ.

use super::INTERRUPTED;
use crate::cli::{FINE, Format, Global, NEGATIVE};
use anyhow::{Context, bail};
use compare::{Analysis, Design, Metric, Options, Run, Variant, analyse, runs};
use indicatif::{ProgressBar, ProgressStyle};
use report::{Compared, Measurement, Style, Summary, Verdict};
use std::collections::BTreeSet;
use std::io::{BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Measure variants of a program, interleaved, and say whether they differ.
///
/// Every binary runs once per round, in random order, under an environment of random size; a warm-up round comes
/// first and is not used. What is told is the ratio to the first binary, with its 95 % interval. All binaries must
/// end and print alike. Exit code: 0 fine, 1 a binary is slower than the first, 2 wrong usage or a failing program.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Binaries; the first is the one the others are compared with
    #[arg(value_name = "BINARY", required_unless_present = "from")]
    pub binaries: Vec<PathBuf>,
    /// Rounds: every binary runs once in each
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rounds: u32,
    /// Decides the order of the runs; the same seed repeats it
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// cpu, user, wall, maxrss, output:PATTERN (smaller is better), throughput:PATTERN (larger is better)
    /// [default: cpu, with --from the one that was measured]
    #[arg(long)]
    pub metric: Option<String>,
    /// Differences within plus or minus this many per cent count as none
    #[arg(long, default_value_t = 1.0, value_name = "PCT")]
    pub margin: f64,
    /// Compare programs although they print different things
    #[arg(long)]
    pub ignore_output: bool,
    /// Keep every run as JSON lines
    #[arg(long, value_name = "FILE")]
    pub raw: Option<PathBuf>,
    /// Analyse the runs of such a file again instead of running anything
    #[arg(long, value_name = "FILE", conflicts_with_all = ["binaries", "raw", "command", "rounds", "seed", "ignore_output"])]
    pub from: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Program and arguments; {bin} stands for the binary
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "from")]
    pub command: Vec<String>,
}

/// Runs the command.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    if !(args.margin > 0.0 && args.margin < 100.0) {
        bail!("--margin {}: give a percentage between 0 and 100", args.margin);
    }
    let (design, runs, interrupted) = match &args.from {
        Some(path) => {
            let file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
            let (mut design, runs) = runs::read(path, BufReader::new(file))?;
            if let Some(metric) = &args.metric {
                design.metric = other_metric(&design.metric, Metric::parse(metric)?)?;
            }
            (design, runs, false)
        }
        None => measure(&args, global)?,
    };
    let options = Options { margin: args.margin / 100.0, ..Options::default() };
    let analysis = analyse(&design, &runs, options)?;
    let raw = args.raw.as_ref().or(args.from.as_ref()).map(|p| final_name(p));
    let result = describe(&design, analysis, raw, interrupted);
    let mut out = std::io::stdout().lock();
    match args.format {
        Format::Json => writeln!(out, "{}", serde_json::to_string_pretty(&result)?)?,
        Format::Text => write!(out, "{}", result.terminal(terminal_style()))?,
    }
    out.flush()?;
    let slower = |c: &Compared| c.verdict == Verdict::Slower && !c.negligible;
    Ok(match result.comparisons.iter().any(slower) {
        _ if interrupted => INTERRUPTED,
        true => NEGATIVE,
        false => FINE,
    })
}

/// The metric to analyse kept runs by. They hold all times and sizes, of the output only the number that was looked for.
fn other_metric(measured: &Metric, wanted: Metric) -> anyhow::Result<Metric> {
    let pattern = |metric: &Metric| match metric {
        Metric::Output { pattern, .. } => Some(pattern.clone()),
        _ => None,
    };
    match (pattern(&wanted), pattern(measured)) {
        (Some(new), old) if old.as_ref() != Some(&new) => bail!(
            "--metric: the runs were kept without what {new:?} finds in the output; measure again with this metric, \
             or take cpu, user, wall or maxrss"
        ),
        _ => Ok(wanted),
    }
}

/// The name of the kept runs. A step of `planish optimize` writes beside and renames when all is done.
fn final_name(path: &Path) -> String {
    let own = path.parent().is_some_and(|folder| folder.ends_with(build::plan::STATE_DIRECTORY));
    let shown = path.display().to_string();
    shown.strip_suffix(".partial").filter(|_| own).map_or(shown.clone(), str::to_owned)
}

/// Colours where standard output is a terminal and the user does not object (<https://no-color.org>).
pub fn terminal_style() -> Style {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    Style { colour: !unwanted && std::io::stdout().is_terminal() }
}

/// A flag that Ctrl-C and a request to end set, instead of ending the process.
pub fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    super::handle_interrupts();
    Ok(stop)
}

fn measure(args: &Args, global: &Global) -> anyhow::Result<(Design, Vec<Run>, bool)> {
    let design = Design {
        variants: name_variants(&args.binaries)?,
        command: args.command.clone(),
        rounds: args.rounds,
        seed: args.seed,
        metric: args.metric.as_deref().map_or(Ok(Metric::default()), Metric::parse)?,
        ignore_output: args.ignore_output,
    };
    design.check()?;
    let stop = stop_flag()?;
    let mut raw = None;
    if let Some(path) = &args.raw {
        let mut file = std::fs::File::create(path).with_context(|| path.display().to_string())?;
        runs::write_head(&mut file, &design).with_context(|| path.display().to_string())?;
        raw = Some((path, file));
    }
    let bar = progress_bar(&design, global);
    let runs = compare::run(&design, &stop, &mut |run, _| {
        bar.inc(1);
        if let Some((path, file)) = &mut raw {
            runs::write_run(file, run).map_err(|e| compare::Error::File {
                path: path.to_path_buf(),
                line: None,
                problem: e.to_string(),
            })?;
        }
        Ok(())
    });
    bar.finish_and_clear();
    Ok((design, runs?, stop.load(Ordering::Relaxed)))
}

/// File names where they differ, else whole paths.
fn name_variants(paths: &[PathBuf]) -> anyhow::Result<Vec<Variant>> {
    let short =
        |path: &PathBuf| path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let distinct: BTreeSet<String> = paths.iter().map(short).collect();
    let variant = |path: &PathBuf| {
        if !path.is_file() {
            bail!("{}: there is no such file", path.display());
        }
        // With a slash, so that it is not looked for in PATH.
        let run = if path.components().count() == 1 { PathBuf::from(".").join(path) } else { path.clone() };
        let name = if distinct.len() == paths.len() { short(path) } else { path.display().to_string() };
        Ok(Variant { name, path: run })
    };
    let mut variants: Vec<Variant> = paths.iter().map(variant).collect::<anyhow::Result<_>>()?;
    // The same file twice is a legitimate question (how noisy is this machine?), so tell the two apart.
    for index in 1..variants.len() {
        if variants[..index].iter().any(|v| v.name == variants[index].name) {
            variants[index].name = format!("{} #{}", variants[index].name, index + 1);
        }
    }
    Ok(variants)
}

fn progress_bar(design: &Design, global: &Global) -> ProgressBar {
    if global.quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let runs = (u64::from(design.rounds) + 1) * design.variants.len() as u64;
    let style = ProgressStyle::with_template("compare {wide_bar} {pos}/{len} runs, {eta} left");
    ProgressBar::new(runs).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn describe(design: &Design, analysis: Analysis, raw: Option<String>, interrupted: bool) -> Measurement {
    let summary = |s: compare::Summary| Summary { name: s.name, median: s.median, spread: s.spread };
    Measurement {
        schema: "planish-compare".into(),
        version: 1,
        command: design.command.join(" "),
        metric: design.metric.clone().into(),
        metric_words: design.metric.describe().into(),
        unit: design.metric.unit().into(),
        seed: design.seed,
        raw,
        interrupted,
        variants: analysis.summaries.into_iter().map(summary).collect(),
        comparisons: analysis.comparisons.into_iter().map(compared).collect(),
        warnings: analysis.warnings,
    }
}

fn compared(c: compare::Comparison) -> Compared {
    Compared {
        base: c.base,
        variant: c.variant,
        verdict: match c.verdict {
            compare::Verdict::Faster => Verdict::Faster,
            compare::Verdict::Slower => Verdict::Slower,
            compare::Verdict::Same => Verdict::Same,
            compare::Verdict::Undecided => Verdict::Undecided,
        },
        negligible: c.negligible,
        ratio: c.ratio,
        low: c.low,
        high: c.high,
        p_value: c.p_value,
        n: c.rounds,
        base_median: c.base_median,
        variant_median: c.variant_median,
        warnings: c.warnings,
    }
}
