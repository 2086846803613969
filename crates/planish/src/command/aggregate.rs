//! `planish aggregate`: recordings to counts per image address.

use super::copies;
use super::inputs::{self, Selection};
use super::weigh;
use crate::cli::{FINE, Format, Global};
use crate::output;
use anyhow::bail;
use counts::aggregate::Aggregated;
use counts::{artefact, text};
use image::Image;
use std::path::PathBuf;
use std::sync::Arc;

/// What `aggregate` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Emit {
    /// The counts artefact (Parquet), for profile and layout
    Counts,
    /// Ranges, samples and branches as lines
    Text,
}

/// Count branches, fall-through ranges and samples of recordings, per image.
///
/// Reads perf.data (file, pipe or directory form, compressed or not), the output of `perf script -F
/// ip,brstack`, BOLT's pre-aggregated text, and counts, which are added up: images are told apart by
/// build ID, and the order of the inputs makes no difference to a byte of the result. Without
/// --binary every file that the recordings name and that is still the recorded build is counted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish aggregate perf.data --binary ./app -o app.counts
  planish aggregate one.data two.data --binary ./app -o app.counts
  perf script -F ip,brstack | planish aggregate - --binary ./app -o app.counts")]
pub struct Args {
    /// Recordings, and counts of other runs or machines; `-` is standard input
    #[arg(required = true, value_name = "PERF.DATA")]
    pub inputs: Vec<PathBuf>,
    /// Count only in this ELF file; may be given several times
    #[arg(long, value_name = "FILE")]
    pub binary: Vec<PathBuf>,
    /// What the counts of a recording are multiplied by against the others; as often as recordings
    #[arg(long, value_name = "NUMBER")]
    pub weight: Vec<f64>,
    /// Where to write; `-` is standard output [default: run.counts, or standard output for text]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// What kind of counts to write
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Emit::Counts)]
    pub emit: Emit,
    /// How to print sums and ledger; text goes to standard error
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Count paths too: pairs of branches taken one after the other, for a layout with cloned
    /// blocks
    #[arg(long)]
    pub paths: bool,
    /// Fail where a recorded program mapped another file of the name of a --binary: the system's
    /// library, say, in place of the one that was just built
    #[arg(long, requires = "binary")]
    pub no_copies: bool,
    #[command(flatten)]
    pub selection: Selection,
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let default = if args.emit == Emit::Counts { "run.counts" } else { "-" };
    let path = args.output.clone().unwrap_or_else(|| default.into());
    if args.format == Format::Json && path.as_os_str() == "-" {
        bail!("-o - and --format json both want standard output; write the counts to a file");
    }
    output::refuse_inputs(
        [path.as_path()],
        args.inputs.iter().chain(&args.binary).map(PathBuf::as_path),
    )?;
    let images = inputs::open_images(&args.binary)?;
    let selection = Selection { paths: args.paths, ..args.selection };
    let mut found = if args.weight.is_empty() {
        inputs::read_all(&args.inputs, &images, selection, global)?
    } else {
        weigh_all(args, &images, selection, global)?
    };
    if args.no_copies {
        copies::refuse(&found, &images)?;
    }
    if args.emit == Emit::Text {
        // Lines of text name each image once.
        let images = &mut found.counts.images;
        images.iter_mut().for_each(|image| image.path = report::visible(&image.path).into());
    }
    output::write_file(&path, |out| {
        match args.emit {
            Emit::Counts => artefact::write(&path, &found.counts, out)?,
            Emit::Text => out.write_all(text::render(&found.counts).as_bytes())?,
        }
        Ok(())
    })?;
    if args.format == Format::Json {
        output::print_json(&report::counts::json(&found))?;
    }
    if !global.quiet {
        print_ledger(&found, global);
        if args.emit == Emit::Counts && path.as_os_str() != "-" {
            eprintln!(
                "wrote {}; next: planish profile {} --binary FILE -o FILE.afdo",
                path.display(),
                output::word(&path)
            );
        }
    }
    Ok(FINE)
}

/// The sum of the recordings, each with its weight.
fn weigh_all(
    args: &Args,
    images: &[Arc<Image>],
    selection: Selection,
    global: &Global,
) -> anyhow::Result<Aggregated> {
    let weights = weigh::of(&args.weight, args.inputs.len(), "a recording")?;
    let parts = args.inputs.iter().map(|path| inputs::read(path, images, selection, global));
    let parts = parts.collect::<anyhow::Result<Vec<_>>>()?;
    let recorded: Vec<u64> = parts.iter().map(|part| part.counts.recorded()).collect();
    let wanted = recorded.iter().zip(weights).map(|(&recorded, weight)| recorded as f64 * weight);
    let found = Aggregated::sum(weigh::weighted(parts, wanted)?.0)?;
    if !selection.allow_few {
        counts::refuse_too_few(&found, &args.inputs)?;
    }
    Ok(found)
}

/// Notes and ledger on standard error, unless the command that made the counts has told them, or
/// with --verbose.
pub fn print_ledger_once(found: &Aggregated, inputs: &[PathBuf], global: &Global) {
    if global.verbose || !inputs::are_counted(inputs) {
        print_ledger(found, global);
    }
}

/// Notes and ledger on standard error.
pub fn print_ledger(found: &Aggregated, global: &Global) {
    report::counts::lines(found, global.verbose).iter().for_each(|line| eprintln!("{line}"));
}
