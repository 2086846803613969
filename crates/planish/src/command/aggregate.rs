//! `planish aggregate`: recordings to counts per image address.

use super::inputs::{self, Selection};
use crate::cli::{FINE, Global};
use crate::output;
use counts::aggregate::Aggregated;
use counts::{Book, Ledger, artefact, text};
use serde_json::json;
use std::path::PathBuf;

/// What `aggregate` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// The counts artefact (Parquet), for profile and layout
    Counts,
    /// Ranges, samples and branches as lines
    Text,
    /// Sums per image and the ledger
    Json,
}

/// Count branches, fall-through ranges and samples of recordings, per image.
///
/// Reads perf.data (file, pipe or directory form, compressed or not), the output of `perf script -F
/// ip,brstack`, BOLT's pre-aggregated text, and counts, which are added up: images are told apart by
/// build ID, and the order of the inputs makes no difference to a byte of the result. Without --binary every file that the recordings
/// name and that is still the recorded build is counted.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Recordings, and counts of other runs or machines; `-` is standard input
    #[arg(required = true, value_name = "PERF.DATA")]
    pub inputs: Vec<PathBuf>,
    /// Count only in this ELF file; may be given several times
    #[arg(long, value_name = "FILE")]
    pub binary: Vec<PathBuf>,
    /// Where to write; `-` is standard output [default: run.counts, or standard output for text
    /// and json]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// What to write
    #[arg(long, value_enum, default_value_t = Format::Counts)]
    pub format: Format,
    /// Count paths too: pairs of branches taken one after the other, for a layout with cloned
    /// blocks
    #[arg(long)]
    pub paths: bool,
    #[command(flatten)]
    pub selection: Selection,
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let default = if args.format == Format::Counts { "run.counts" } else { "-" };
    let path = args.output.clone().unwrap_or_else(|| default.into());
    output::refuse_inputs(
        [path.as_path()],
        args.inputs.iter().chain(&args.binary).map(PathBuf::as_path),
    )?;
    let images = inputs::open_images(&args.binary)?;
    let selection = Selection { paths: args.paths, ..args.selection };
    let mut found = inputs::read_all(&args.inputs, &images, selection, global)?;
    if args.format == Format::Text {
        // Lines of text name each image once.
        let images = &mut found.counts.images;
        images.iter_mut().for_each(|image| image.path = ::report::visible(&image.path).into());
    }
    output::write_file(&path, |out| {
        match args.format {
            Format::Counts => artefact::write(&path, &found.counts, out)?,
            Format::Text => out.write_all(text::render(&found.counts).as_bytes())?,
            Format::Json => {
                serde_json::to_writer_pretty(&mut *out, &to_json(&found))?;
                out.write_all(b"\n")?;
            }
        }
        Ok(())
    })?;
    if !global.quiet {
        print_ledger(&found, global);
        if args.format == Format::Counts && path.as_os_str() != "-" {
            eprintln!(
                "wrote {}; next: planish profile {0} --binary FILE -o FILE.afdo",
                path.display()
            );
        }
    }
    Ok(FINE)
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
    for note in &found.notes {
        eprintln!("note: {note}");
    }
    let ledger = &found.counts.ledger;
    print_book("samples", &ledger.samples);
    print_book("branch entries", &ledger.branches);
    print_book("fall-through ranges", &ledger.fall_throughs);
    print_book("paths", &ledger.paths);
    if ledger.lost > 0 {
        eprintln!("{:>20}: {} that the kernel could not deliver", "lost", ledger.lost);
    }
    warn_of_cut(ledger.truncated_bytes);
    if ledger.unknown_records > 0 {
        eprintln!(
            "{:>20}: {} records of unknown or damaged kinds",
            "skipped", ledger.unknown_records
        );
    }
    if global.verbose {
        for (path, count) in found.elsewhere.iter().take(10) {
            eprintln!("{:>20}: {count} samples in {path}", "elsewhere");
        }
    }
}

/// Says that a recording ends too early.
pub fn warn_of_cut(truncated_bytes: u64) {
    if truncated_bytes > 0 {
        eprintln!(
            "warning: the recording is truncated: {truncated_bytes} bytes of it are missing or \
             form no whole record; what stands before them was used"
        );
    }
}

fn print_book(name: &str, book: &Book) {
    if book.entered == 0 {
        return;
    }
    eprint!("{name:>20}: {} in, {} used ({:.1} %)", book.entered, book.used, book.used_pct());
    for (reason, count) in &book.unused {
        let reason = serde_json::to_string(reason).unwrap_or_default();
        eprint!(", {} {count}", reason.trim_matches('"'));
    }
    eprintln!();
}

/// Sums per image and the ledger.
fn to_json(found: &Aggregated) -> serde_json::Value {
    let images: Vec<_> = found
        .counts
        .images
        .iter()
        .map(|i| {
            json!({
                "build_id": i.build_id.as_ref().map(ToString::to_string),
                "path": i.path,
                "samples": i.sample_total().to_string().parse::<u64>().ok(),
                "sampled_addresses": i.samples.len(),
                "branches": i.branch_total().to_string().parse::<u64>().ok(),
                "distinct_branches": i.branches.len(),
                "fall_throughs": i.fall_through_total().to_string().parse::<u64>().ok(),
                "distinct_fall_throughs": i.fall_throughs.len(),
            })
        })
        .collect();
    json!({ "schema": "planish-aggregate", "version": 1, "images": images, "notes": found.notes, "ledger": ledger_json(&found.counts.ledger) })
}

/// The ledger as JSON.
pub fn ledger_json(ledger: &Ledger) -> serde_json::Value {
    serde_json::to_value(ledger).unwrap_or_default()
}
