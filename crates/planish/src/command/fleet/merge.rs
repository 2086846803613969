//! `planish fleet merge`: many counts files to one, each recording once.

use super::choose::{self, Choice, Wanted};
use super::given::Given;
use super::remote::written;
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output::print_json;
use anyhow::bail;
use fleet::Partition;
use fleet::recording::MOST_PARTS;
use report::fleet::MergedFleet;
use std::path::{Path, PathBuf};

/// Arguments of `planish fleet merge`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Counts files, directories with files *.counts in or below them, patterns with * and ?; or
    /// any of these in a store, as s3://BUCKET/KEY or gs://BUCKET/KEY
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    /// Where to write; `-` is standard output, s3://BUCKET/KEY or gs://BUCKET/KEY an object
    #[arg(short, long, required = true, value_name = "FILE")]
    pub output: PathBuf,
    /// Make only part I of N of the result; merging all N gives the whole
    #[arg(long, value_name = "I/N", value_parser = partition)]
    pub partition: Option<Partition>,
    /// Keep files of a merge in several levels in this directory until all is merged, so that the same
    /// merge goes on where it was broken off
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// How to print what was merged; text goes to standard error
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    #[command(flatten)]
    pub choice: Choice,
}

fn partition(text: &str) -> Result<Partition, String> {
    let read = text.split_once('/').and_then(|(part, of)| {
        let (part, of): (u32, u32) = (part.parse().ok()?, of.parse().ok()?);
        let fits = (1..=MOST_PARTS).contains(&of) && (1..=of).contains(&part);
        fits.then(|| Partition { part: part - 1, of })
    });
    read.ok_or_else(|| format!("expected I/N, such as 2/8, with I from 1 and N up to {MOST_PARTS}"))
}

/// Runs the tool.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let to_stream = args.output == Path::new("-");
    if args.format == Format::Json && to_stream {
        bail!("-o - and --format json both want standard output; write the counts to a file");
    }
    let remote = &args.choice.remote;
    let given = Given::take(&args.inputs, Some(&args.output), remote, global)?;
    let merged = written(&args.output, remote.retry, |place| {
        let (partition, keep) = (args.partition, args.keep.clone());
        let wanted = Wanted { partition, keep, ..Wanted::default() };
        choose::merge(&given, &args.choice, wanted, place, global)
    })?;
    tell(args, &merged, global)
}

fn tell(args: &Args, merged: &MergedFleet, global: &Global) -> anyhow::Result<u8> {
    if args.format == Format::Json {
        print_json(&merged.json())?;
    }
    if !global.quiet {
        merged.lines(global.verbose).iter().for_each(|line| eprintln!("{line}"));
    }
    let fine = merged.rejected.is_empty() && !merged.is_nothing();
    Ok(if fine { FINE } else { NEGATIVE })
}
