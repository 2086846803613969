//! `planish pages experiment`: as built, aligned, aligned and warm, measured in turns.
//!
//! The program's libraries (and the program, when it has much text itself) are copied into three
//! folders: as they are and in small writes, so that they lie in small pages; aligned, also in
//! small pages; aligned and on superpages. The command runs with `LD_LIBRARY_PATH` leading to one
//! of them, through `env`, which costs all three alike.

use super::size;
use crate::cli::{FINE, Format, Global, NEGATIVE, UNDECIDED};
use crate::command::{INTERRUPTED, compare as measuring};
use anyhow::{Context as _, bail};
use compare::{AnalysisOptions, Benchmark, Design, Metric, Recorded, Variant, analyse, gate};
use measuring::{Output, Told};
use report::pages::warmed;
use std::path::{Path, PathBuf};
use superpages::{Copies, Loading};

/// Measure a command three times over: as built, aligned, aligned and warm.
///
/// Prints what planish compare prints, with CPU time, wall time, page faults and, where there is a
/// PMU, misses of the instruction TLB. Exit code 1 when superpages make it slower, or cannot be had
/// here, 4 when it is undecided whether they do.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Rounds: each of the three runs once in each
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: u32,
    /// Decides the order of the runs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the copies go, on the file system that is to be measured [default: the temporary
    /// folder]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Keep every run as JSON lines
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,
    /// Write one HTML file with pictures
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write Markdown; - is standard output
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const ITLB: &str = "iTLB-load-misses";

pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let Some(name) = args.command.first() else { bail!("there is no command behind --") };
    let path = superpages::find_program(name)?;
    let program = superpages::elf_program(&path)?;
    let folder = args.folder.clone().unwrap_or_else(std::env::temp_dir);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("{}: cannot be made", folder.display()))?;
    let probe = superpages::probe(&folder)?;
    if !probe.file_backed {
        eprintln!(
            "planish: {} ({}): file-backed text gets no superpages here; --folder names another \
             place",
            folder.display(),
            probe.file_system
        );
        return Ok(NEGATIVE);
    }
    let files = Copies::worth_it(&superpages::files_of(&program, None, Loading::Runs)?);
    if files.is_empty() {
        eprintln!("planish: neither {name} nor its libraries have text for a superpage (2 MiB)");
        return Ok(NEGATIVE);
    }
    let beside = tempfile::Builder::new()
        .prefix("planish-pages-")
        .tempdir_in(&folder)
        .with_context(|| folder.display().to_string())?;
    let copies = Copies { root: beside.path(), files: &files };
    copies.make()?;
    if !global.quiet {
        let names: Vec<String> = files.iter().map(|file| file_name(file)).collect();
        eprintln!("planish: copied three times: {}", names.join(", "));
    }
    copies.check_used(&program)?;
    for file in copies.warm()? {
        if !file.is_whole() {
            eprint!("planish: the copies cannot be warmed: {}", warmed(&file));
            return Ok(NEGATIVE);
        }
        if global.verbose {
            eprint!("planish: {}", warmed(&file));
        }
    }
    let design = design(args, &copies, &program, &path);
    let (recorded, interrupted) = measure(design, args.raw.as_deref(), global)?;
    if interrupted && recorded.runs.is_empty() {
        return Ok(INTERRUPTED);
    }
    // What was warm at the beginning must have been so to the end.
    let at_end = copies.warm()?;
    let warm: u64 = at_end.iter().map(|file| file.before_bytes).sum();
    let eligible: u64 = at_end.iter().map(|file| file.eligible_bytes).sum();
    let mut analysis = analyse(&[recorded], &AnalysisOptions::default())?;
    analysis.measurement.interrupted = interrupted;
    if warm < eligible {
        let warning = format!(
            "{} of {} superpages' text had been split by the end; memory is short, so the gain is \
             understated",
            size(eligible - warm),
            size(eligible)
        );
        analysis.measurement.warnings.push(warning);
    }
    let rows = &analysis.measurement.comparisons;
    let slower = rows.iter().any(|row| row.is_slower());
    let open = rows.iter().any(|row| gate::may_be_slower(row, &analysis.measurement));
    let told = Told { analysis, raw: args.raw.iter().cloned().collect() };
    let output = Output {
        format: args.format,
        html: args.html.clone(),
        markdown: args.markdown.clone(),
        ..Output::default()
    };
    measuring::tell(&told, &output)?;
    Ok(match (slower, open) {
        _ if interrupted => INTERRUPTED,
        (true, _) => NEGATIVE,
        (false, true) => UNDECIDED,
        (false, false) => FINE,
    })
}

/// The command with each of the folders of copies; the program itself is one of them where it was
/// copied.
fn design(args: &Args, copies: &Copies<'_>, program: &PathBuf, path: &Path) -> Design {
    let variants = Copies::KINDS.map(|kind| Variant {
        name: kind.into(),
        description: kind.replace('-', " "),
        binaries: vec![copies.folder(kind)],
        ..Variant::default()
    });
    let variants = variants.to_vec();
    let own = copies.files.contains(program).then(|| format!("{{bin}}/{}", file_name(program)));
    let inherited =
        std::env::var("LD_LIBRARY_PATH").map_or_else(|_| String::new(), |had| format!(":{had}"));
    let mut command = vec!["env".to_owned(), format!("LD_LIBRARY_PATH={{bin}}{inherited}")];
    command.push(own.unwrap_or_else(|| path.display().to_string()));
    command.extend(args.command.iter().skip(1).cloned());
    let (rounds, seed) = (Some(args.rounds), Some(args.seed));
    let settings = compare::Settings { rounds, seed, ..Default::default() };
    let benchmark = Benchmark { name: args.command.join(" "), command, ..Benchmark::default() };
    Design { variants, benchmarks: vec![benchmark], ..settings.design() }
}

/// Measures, with misses of the instruction TLB where they can be counted.
fn measure(
    mut design: Design,
    raw: Option<&Path>,
    global: &Global,
) -> anyhow::Result<(Recorded, bool)> {
    let mut names = vec!["cpu", "wall", "faults", ITLB];
    loop {
        let metrics: Result<Vec<Metric>, _> =
            names.iter().map(|name| Metric::parse(name)).collect();
        for benchmark in &mut design.benchmarks {
            benchmark
                .metrics
                .clone_from(metrics.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?);
        }
        let keep = compare::Keep { raw, ..compare::Keep::default() };
        let (stop, bar) = (measuring::stop_flag()?, &mut measuring::Bar::new(global));
        match compare::measure(design.clone(), keep, &stop, bar) {
            Err(error @ compare::Error::NoCounter { .. }) if names.contains(&ITLB) => {
                if !global.quiet {
                    eprintln!("planish: {ITLB} are not counted: {error}");
                }
                names.pop();
            }
            other => return Ok(other?),
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
