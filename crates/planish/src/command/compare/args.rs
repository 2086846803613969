//! The arguments of `planish compare`, and what they mean to the library.

use crate::cli::{Choice, Format};
use compare::named::Links;
use compare::{
    AfterLink, AnalysisOptions, Aslr, Correction, Keep, LayoutMode, Metric, Resume, Settings,
    Stopping,
};
use std::path::{Path, PathBuf};

/// What to compare and how.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct What {
    /// Binaries, or NAME=BINARY; the first is the one the others are compared with
    #[arg(value_name = "BINARY")]
    pub binaries: Vec<String>,
    /// Build and measure the variants and benchmarks of this file [default without binaries:
    /// planish.toml]
    #[arg(long, value_name = "planish.toml", conflicts_with = "binaries")]
    pub config: Option<PathBuf>,
    /// One variant for each flag of [matrix] in planish.toml, and one with all of them
    #[arg(long, conflicts_with = "binaries")]
    pub matrix: bool,
    /// How to measure.
    #[command(flatten)]
    pub how: How,
    /// Kept runs to analyse again instead of running anything (`compare show`).
    #[arg(skip)]
    pub from: Vec<PathBuf>,
    /// Their variant that the others are compared with; the first without it.
    #[arg(skip)]
    pub base: Option<String>,
    /// How the binaries are linked again.
    #[command(flatten)]
    pub links: LinkArgs,
    /// A directory with shared libraries that each binary is to run with, as it lies from the
    /// directory of the binary: `../lib`. Repeat it for more
    #[arg(long, value_name = "DIR", requires = "binaries", conflicts_with_all = ["layouts", "code_metrics"])]
    pub library_path: Vec<PathBuf>,
    /// What to tell, and where.
    #[command(flatten)]
    pub output: Output,
    /// Program and arguments; {bin} stands for the binary
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// How binaries of the command line come by their layouts.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct LinkArgs {
    /// Link inputs of each binary, written by lld with --reproduce; or NAME=TAR for those that lie
    /// elsewhere [default: BINARY.repro.tar]
    #[arg(long, value_name = "TAR", num_args = 1.., requires = "binaries")]
    objects: Vec<String>,
    /// Do not link this binary in layouts: it is compared as it was built. Not for the first, with
    /// which the others are compared. Repeat it for more
    #[arg(long, value_name = "NAME", requires_all = ["binaries", "layouts"])]
    as_built: Vec<String>,
    /// Link this binary in each layout, then run this shell command, which makes {out} of the linked
    /// {in}; do not quote these two. app.bolt='llvm-bolt {in} -o {out} -data=app.yaml'. Repeat it
    /// for more
    #[arg(long, value_name = "NAME=COMMAND", requires_all = ["binaries", "layouts"])]
    after_link: Vec<String>,
}

impl LinkArgs {
    /// What may be an archive: what was given, and what stands behind a name.
    pub fn archives(&self) -> impl Iterator<Item = &Path> {
        let behind = self.objects.iter().filter_map(|given| Some(given.split_once('=')?.1));
        self.objects.iter().map(String::as_str).chain(behind).map(Path::new)
    }

    /// As the library has it.
    pub fn named(&self) -> anyhow::Result<Links> {
        let after = self.after_link.iter().map(|given| AfterLink::parse(given));
        let after = after.collect::<Result<_, _>>()?;
        let LinkArgs { objects, as_built, .. } = self.clone();
        Ok(Links { objects, as_built, after })
    }
}

/// Arguments of `planish compare show`.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// Kept runs (--raw), one file per machine
    #[arg(required = true, value_name = "RUNS")]
    files: Vec<PathBuf>,
    /// Compare the others with this variant [default: the one the runs were measured beside]
    #[arg(long, value_name = "NAME")]
    base: Option<String>,
    /// Judge by this metric, as `planish compare` names it
    #[arg(long)]
    metric: Option<String>,
    /// Differences within plus or minus this many per cent count as none [default: what the runs
    /// were measured for]
    #[arg(long, value_name = "PCT")]
    margin: Option<f64>,
    /// What to tell, and where.
    #[command(flatten)]
    output: Output,
}

impl From<ShowArgs> for What {
    fn from(args: ShowArgs) -> What {
        let ShowArgs { files, base, metric, margin, output } = args;
        let how = How { metric: metric.into_iter().collect(), margin, ..How::default() };
        What { how, from: files, base, output, ..What::default() }
    }
}

/// Arguments of `planish compare calibrate`.
#[derive(Debug, clap::Args)]
pub struct CalibrateArgs {
    /// The program
    #[arg(value_name = "PROGRAM")]
    pub program: String,
    /// How to measure.
    #[command(flatten)]
    pub how: How,
    /// Link inputs of the program, written by lld with --reproduce [default: PROGRAM.repro.tar]
    #[arg(long, value_name = "TAR")]
    pub objects: Option<String>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Program and arguments; {bin} stands for the program
    #[arg(last = true, required = true, value_name = "COMMAND")]
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
    #[arg(long, value_parser = LAYOUT_MODE)]
    pub layout_mode: Option<LayoutMode>,
    /// Measure again with all functions aligned to these many bytes: does the difference vanish?
    /// (with planish.toml)
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    pub probe_align: Vec<u32>,
    /// End as soon as every comparison is decided; --rounds is then the most
    #[arg(long, conflicts_with = "looks")]
    pub until_decided: bool,
    /// Look four times and end when everything is decided, at the price of stricter p-values
    #[arg(long)]
    pub looks: bool,
    /// Measure a slower variant for as many rounds again (8 at least), and call it slower only if
    /// these say so too
    #[arg(long)]
    pub confirm: bool,
    /// Kill a run after this many seconds [default: 20 times the longest good run, 60 at least]
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,
    /// Compare programs even if they print different things
    #[arg(long)]
    pub ignore_output: bool,
    /// Address-space layout randomisation of the programs
    #[arg(long, value_parser = ASLR)]
    pub aslr: Option<Aslr>,
    /// Run everything on this CPU
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// On a shared machine: time a fixed loop on the CPU of --cpu every millisecond, and correct the
    /// programs' times for what slowed the loop
    #[arg(long, conflicts_with_all = ["until_decided", "looks"])]
    pub gauge: bool,
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
    /// Go on with it if it is this measurement, else begin anew; interrupted, tell nothing
    #[arg(long, conflicts_with = "resume")]
    pub resume_if_same: bool,
}

/// What to tell, and where.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Result")]
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
    /// Correct the claims for N rows in all: these, and those of other measurements of the same
    /// question
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub among: Option<u32>,
    /// How claims on several rows are corrected: holm (no false claim at all, 95 %), bh (5 % of
    /// the claims may be false)
    #[arg(long, value_parser = CORRECT, default_value = "holm")]
    pub correct: Correction,
    /// A variant that may fail or be missing: the exit code is then that of the others. Repeat it for
    /// more
    #[arg(long, value_name = "NAME")]
    pub optional: Vec<String>,
}

const LAYOUT_MODE: Choice<LayoutMode> = Choice(&[
    ("auto", LayoutMode::Auto, "Matched where that works, else independent"),
    (
        "matched",
        LayoutMode::Matched,
        "The same random orders for all variants: what did not change lies alike in all of them",
    ),
    ("independent", LayoutMode::Independent, "Each variant has random orders of its own"),
]);

const ASLR: Choice<Aslr> =
    Choice(&[("as-set", Aslr::AsSet, "As the system has it"), ("off", Aslr::Off, "Off")]);

/// How claims on several rows are corrected.
pub const CORRECT: Choice<Correction> = Choice(&[
    ("holm", Correction::Holm, "Holm's step-down correction"),
    ("bh", Correction::FalseDiscoveryRate, "Benjamini and Hochberg's false discovery rate"),
]);

impl How {
    /// As the library has it.
    pub fn settings(&self) -> anyhow::Result<Settings> {
        let metrics = self.metric.iter().map(|metric| Metric::parse(metric));
        Ok(Settings {
            rounds: self.rounds,
            seed: self.seed,
            metrics: metrics.collect::<Result<_, _>>()?,
            margin: self.margin.map(|per_cent| per_cent / 100.0),
            layouts: self.layouts,
            layout_mode: self.layout_mode,
            stopping: match (self.until_decided, self.looks) {
                (true, _) => Stopping::UntilDecided,
                (false, true) => Stopping::Looks,
                (false, false) => Stopping::Fixed,
            },
            confirm: self.confirm,
            timeout_s: self.timeout,
            ignore_output: self.ignore_output,
            aslr: self.aslr.unwrap_or_default(),
            cpu: self.cpu,
            gauge: self.gauge,
            machine: self.machine.clone(),
        })
    }

    /// Whether an earlier measurement is gone on with.
    pub fn resuming(&self) -> Resume {
        if self.resume_if_same { Resume::IfSame } else { self.resume.into() }
    }

    /// Where the runs are kept.
    pub fn keep(&self) -> Keep<'_> {
        Keep { raw: self.raw.as_deref(), resume: self.resuming() }
    }
}

impl What {
    /// How the runs are analysed; the margin is that of the design unless one was given.
    pub fn options(&self) -> anyhow::Result<AnalysisOptions> {
        let metric = self.how.metric.first().filter(|_| !self.from.is_empty());
        Ok(AnalysisOptions {
            margin: self.how.margin.map(|per_cent| per_cent / 100.0),
            correction: self.output.correct,
            metric: metric.map(|metric| Metric::parse(metric)).transpose()?,
            among: self.output.among.unwrap_or(0) as usize,
            ..AnalysisOptions::default()
        })
    }
}
