//! `planish pages experiment`: as built, aligned, aligned and warm, measured in turns.
//!
//! The program's libraries (and the program, when it has much text itself) are copied into three
//! folders: as they are and in small writes, so that they lie in small pages; aligned, also in
//! small pages; aligned and on superpages. The command runs with `LD_LIBRARY_PATH` leading to one
//! of them, through `env`, which costs all three alike.

use super::size;
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::command::{INTERRUPTED, compare as measuring};
use anyhow::{Context as _, bail};
use compare::{Benchmark, Design, Metric, Options, Recorded, Variant, analyse};
use measuring::{Output, Told};
use std::path::{Path, PathBuf};
use superpages::{Loading, Writes};

/// Measure a command three times over: as built, aligned, aligned and warm.
///
/// Prints what planish compare prints, with CPU time, wall time, page faults and, where there is a
/// PMU, misses of the instruction TLB. Exit code 1 when superpages make it slower, or cannot be had
/// here.
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
    let Some((name, arguments)) = args.command.split_first() else {
        bail!("there is no command behind --")
    };
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
    let files = large(&superpages::files_of(&program, None, Loading::Runs)?);
    if files.is_empty() {
        eprintln!("planish: neither {name} nor its libraries have text for a superpage (2 MiB)");
        return Ok(NEGATIVE);
    }
    let beside = tempfile::Builder::new()
        .prefix("planish-pages-")
        .tempdir_in(&folder)
        .with_context(|| folder.display().to_string())?;
    let copies = Copies { root: beside.path(), files: &files };
    let variants = copies.make(global)?;
    for kind in KINDS {
        copies.check_used(&program, kind)?;
    }
    if let Some(cold) = copies.warm(global)? {
        eprint!("planish: the copies cannot be warmed: {cold}");
        return Ok(NEGATIVE);
    }
    let own = files.contains(&program).then(|| format!("{{bin}}/{}", file_name(&program)));
    let inherited =
        std::env::var("LD_LIBRARY_PATH").map_or_else(|_| String::new(), |had| format!(":{had}"));
    let mut command = vec!["env".to_owned(), format!("LD_LIBRARY_PATH={{bin}}{inherited}")];
    command.push(own.unwrap_or_else(|| path.display().to_string()));
    command.extend(arguments.iter().cloned());
    let (rounds, seed) = (Some(args.rounds), Some(args.seed));
    let settings = compare::Settings { rounds, seed, ..Default::default() };
    let benchmark = Benchmark { name: args.command.join(" "), command, ..Benchmark::default() };
    let design = Design { variants, benchmarks: vec![benchmark], ..settings.design() };
    let (recorded, interrupted) = measure(design, args.raw.as_deref(), global)?;
    if interrupted && recorded.runs.is_empty() {
        return Ok(INTERRUPTED);
    }
    // What was warm at the beginning must have been so to the end.
    let cold = copies.warm_bytes()?;
    let mut analysis = analyse(&[recorded], &Options::default())?;
    analysis.measurement.interrupted = interrupted;
    if cold.0 < cold.1 {
        let warning = format!(
            "{} of {} superpages' text had been split by the end; memory is short, so the gain is \
             understated",
            size(cold.1 - cold.0),
            size(cold.1)
        );
        analysis.measurement.warnings.push(warning);
    }
    let slower = analysis.measurement.comparisons.iter().any(|row| row.is_slower());
    let told = Told { analysis, raw: args.raw.iter().cloned().collect() };
    let output = Output {
        format: args.format,
        html: args.html.clone(),
        markdown: args.markdown.clone(),
        ..Output::default()
    };
    measuring::tell(&told, &output)?;
    Ok(match (interrupted, slower) {
        (true, _) => INTERRUPTED,
        (false, true) => NEGATIVE,
        (false, false) => FINE,
    })
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
        let keep = compare::Keep { raw, resume: false };
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

/// The files with text for a superpage that can be aligned.
fn large(files: &[PathBuf]) -> Vec<PathBuf> {
    let eligible = |path: &&PathBuf| {
        superpages::check(path).is_ok_and(|found| found.aligned_pct.is_some_and(|pct| pct > 0.0))
    };
    files.iter().filter(eligible).cloned().collect()
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Folders of the three variants; the first is the base.
const KINDS: [&str; 3] = ["as-built", "aligned", "aligned-and-warm"];

struct Copies<'a> {
    root: &'a Path,
    files: &'a [PathBuf],
}

impl Copies<'_> {
    fn place(&self, kind: &str, file: &Path) -> PathBuf {
        self.root.join(kind).join(file_name(file))
    }

    fn make(&self, global: &Global) -> anyhow::Result<Vec<Variant>> {
        let mut variants = Vec::new();
        for kind in KINDS {
            let folder = self.root.join(kind);
            std::fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
            for file in self.files {
                let place = self.place(kind, file);
                match kind {
                    "as-built" => superpages::copy(file, &place, Writes::Small)?,
                    "aligned" => drop(superpages::align(file, &place, false, Writes::Small)?),
                    _ => drop(superpages::align(file, &place, false, Writes::Large)?),
                }
            }
            variants.push(Variant {
                name: kind.into(),
                description: kind.replace('-', " "),
                binaries: vec![folder],
                ..Variant::default()
            });
        }
        if !global.quiet {
            let names: Vec<String> = self.files.iter().map(|file| file_name(file)).collect();
            eprintln!("planish: copied three times: {}", names.join(", "));
        }
        Ok(variants)
    }

    /// Whether the dynamic linker takes the copies: a program with an old-style RPATH does not.
    fn check_used(&self, program: &Path, kind: &str) -> anyhow::Result<()> {
        let used = superpages::files_of(program, Some(&self.root.join(kind)), Loading::Runs)?;
        for file in self.files.iter().filter(|file| *file != program) {
            if !used.contains(&self.place(kind, file)) {
                bail!(
                    "{}: {} takes it from its own place whatever LD_LIBRARY_PATH says (an RPATH); \
                     align it there and compare by hand with planish compare",
                    file.display(),
                    program.display()
                );
            }
        }
        Ok(())
    }

    /// Warms the third folder; what cannot be warmed, in words.
    fn warm(&self, global: &Global) -> anyhow::Result<Option<String>> {
        for file in self.files {
            let warmed = superpages::warm(&self.place("aligned-and-warm", file))?;
            if !warmed.is_whole() {
                return Ok(Some(super::warm::line(&warmed)));
            }
            if global.verbose {
                eprint!("planish: {}", super::warm::line(&warmed));
            }
        }
        Ok(None)
    }

    /// Bytes of the third folder that lie on superpages, and that should.
    fn warm_bytes(&self) -> anyhow::Result<(u64, u64)> {
        let mut sum = (0, 0);
        for file in self.files {
            let warmed = superpages::warm(&self.place("aligned-and-warm", file))?;
            sum = (sum.0 + warmed.before_bytes, sum.1 + warmed.eligible_bytes);
        }
        Ok(sum)
    }
}
