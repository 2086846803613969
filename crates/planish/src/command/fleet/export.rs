//! `planish fleet export`: counts to the profiles that other tools read.

use super::choose::{self, Choice};
use super::given::Given;
use super::programs::Programs;
use super::remote::written;
use crate::cli::{FINE, Format as Printed, Global, NEGATIVE};
use crate::command::inputs;
use crate::output::{self, print_json};
use anyhow::{Context as _, bail};
use counts::{Counts, ImageCounts, artefact};
use exchange::export::{self, About};
use fleet::law::Mixing;
use fleet::{Description, Recording, Shard};
use image::Image;
use report::exchange::Exported;
use std::cell::RefCell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum To {
    /// pprof: a sample for each address
    Pprof,
    /// OpenTelemetry profiles (ProfilesData, a protocol buffer): the same
    Otlp,
    /// The pre-aggregated text that perf2bolt -pa reads: branches and ranges of one program
    Bolt,
}

impl To {
    fn name(self) -> &'static str {
        match self {
            To::Pprof => "pprof",
            To::Otlp => "otlp",
            To::Bolt => "bolt",
        }
    }
}

/// Write counts as profiles for other tools.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Counts files, directories with files *.counts in or below them, patterns with * and ?; or
    /// any of these in a store, as s3://BUCKET/KEY or gs://BUCKET/KEY
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    /// What to write
    #[arg(long, value_enum, required = true, value_name = "FORMAT")]
    pub to: To,
    /// Where to write; `-` is standard output, s3://BUCKET/KEY or gs://BUCKET/KEY an object
    #[arg(short, long, required = true, value_name = "FILE")]
    pub output: PathBuf,
    /// Write only the counts of this ELF file, with the names of its functions; may be given
    /// several times
    #[arg(long, value_name = "FILE")]
    pub binary: Vec<PathBuf>,
    /// Look in this directory for programs that name functions (.build-id/xx/yyyy, or by file
    /// name), or in this bucket (s3://BUCKET/KEY, gs://BUCKET/KEY); repeatable
    #[arg(long, value_name = "DIR")]
    pub binaries: Vec<PathBuf>,
    /// How to print what was written; text goes to standard error
    #[arg(long, value_enum, default_value_t)]
    pub format: Printed,
    #[command(flatten)]
    pub choice: Choice,
}

/// Runs the tool.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    if args.format == Printed::Json && args.output == Path::new("-") {
        bail!("-o - and --format json both want standard output; write the profile to a file");
    }
    let files = args.inputs.iter().chain(&args.binary).map(PathBuf::as_path);
    output::refuse_inputs([args.output.as_path()], files)?;
    let asked_for = inputs::open_images(&args.binary)?;
    let folder = tempfile::tempdir().context("a directory for the sum of the counts")?;
    let place = folder.path().join("sum.counts");
    let unsaid = Mixing::default();
    let remote = &args.choice.remote;
    let given = Given::take(&args.inputs, Some(&args.output), remote, global)?;
    let merged = choose::merge(&given, &args.choice, unsaid, &place, global)?;
    let about = about(&Shard::open(&place)?.description);
    let mut counts = artefact::read(&place, File::open(&place)?)?;
    keep(&mut counts, &asked_for)?;
    let mut told = Exported::of(&counts, args.to.name(), args.output.clone());
    let programs = RefCell::new(Programs::new(asked_for, &args.binaries, remote, global.quiet)?);
    let program =
        |image: &ImageCounts| programs.borrow_mut().of_counts(image.build_id.as_ref(), &image.path);
    written(&args.output, remote.retry, |place| {
        output::write_file(place, |out| {
            let done = match args.to {
                To::Pprof => export::pprof(&counts, &about, &program, out).map_err(Into::into),
                To::Otlp => export::otlp(&counts, &about, &program, out).map_err(Into::into),
                To::Bolt => of_bolt(&counts, out).map(|sampled| told.is_sampled = !sampled),
            };
            done.with_context(|| args.output.display().to_string())
        })
    })?;
    if args.format == Printed::Json {
        print_json(&told.json(&merged))?;
    }
    if !global.quiet {
        merged.lines(global.verbose).iter().for_each(|line| eprintln!("{line}"));
        told.lines().iter().for_each(|line| eprintln!("{line}"));
    }
    Ok(if merged.rejected.is_empty() { FINE } else { NEGATIVE })
}

/// Keeps the counts of the images that are asked for, if there are any.
fn keep(counts: &mut Counts, asked_for: &[Arc<Image>]) -> anyhow::Result<()> {
    if asked_for.is_empty() {
        return Ok(());
    }
    let mut kept = Vec::new();
    for image in asked_for {
        let path = image.path().display().to_string();
        match counts.find(image.build_id(), &path) {
            Some(own) => kept.push(own.clone()),
            None => bail!("the counts have none of {path}; they have {}", named(counts)),
        }
    }
    counts.images = kept;
    Ok(())
}

/// Some of the images that were counted.
fn named(counts: &Counts) -> String {
    let names: Vec<&str> = counts.images.iter().take(5).map(|image| &*image.path).collect();
    let more = if counts.images.len() > names.len() { ", …" } else { "" };
    if names.is_empty() { "none".to_owned() } else { format!("{}{more}", names.join(", ")) }
}

/// Writes BOLT's text; whether it has branches.
fn of_bolt(counts: &Counts, out: &mut dyn std::io::Write) -> anyhow::Result<bool> {
    let [image] = &counts.images[..] else {
        let images = named(counts);
        bail!("this text is of one program; --binary says of which: there are counts of {images}");
    };
    export::bolt(image, out)?;
    Ok(image.has_branches())
}

/// What the recordings have in common.
fn about(description: &Description) -> About {
    let recordings = &description.recordings;
    let only = |of: &dyn Fn(&Recording) -> Option<u64>| {
        let first = recordings.first().and_then(of);
        first.filter(|_| recordings.iter().all(|one| of(one) == first))
    };
    // Counts that were weighed are no samples any more.
    let is_clock = |one: &Recording| {
        one.source == "clock" && one.weights.is_empty() && !description.executions
    };
    let clock = only(&|one| one.period.filter(|_| is_clock(one)));
    let host = recordings.first().map(|one| &one.host);
    let host = host.filter(|host| recordings.iter().all(|one| one.host == **host));
    About {
        begin: recordings.iter().filter_map(|one| one.begin.or(one.end)).min(),
        end: recordings.iter().filter_map(Recording::time).max(),
        clock_ns: clock,
        host: host.cloned().unwrap_or_default(),
    }
}
