//! `planish fleet shard`: the counts of one recording, with what it says of itself.

use super::described::Described;
use crate::cli::{FINE, Format, Global};
use crate::command::aggregate::print_ledger;
use crate::command::inputs::{self, Selection};
use crate::output::{self, print_json};
use anyhow::{Context, bail};
use fleet::{Recording, origin};
use perfdata::Input;
use std::path::{Path, PathBuf};

/// Arguments of `planish fleet shard`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Recordings; each becomes a shard of its own
    #[arg(required = true, value_name = "PERF.DATA")]
    pub inputs: Vec<PathBuf>,
    /// Count only in this ELF file; may be given several times
    #[arg(long, value_name = "FILE")]
    pub binary: Vec<PathBuf>,
    #[command(flatten)]
    pub described: Described,
    /// Count paths too, for a layout with cloned blocks
    #[arg(long)]
    pub paths: bool,
    /// How to print what was written; text goes to standard error
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Runs the tool.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    args.described.prepare(args.inputs.len(), args.format == Format::Json)?;
    let images = inputs::open_images(&args.binary)?;
    // Few samples of many machines are enough.
    let selection = Selection { dedup: None, pid: None, allow_few: true, paths: args.paths };
    let mut written = Vec::new();
    for path in &args.inputs {
        let (input, mut recording) = described(args, path)?;
        let place = args.described.place(&recording)?;
        let read = args.binary.iter().chain(&args.inputs).map(PathBuf::as_path);
        output::refuse_inputs([place.as_path()], read)?;
        let found = inputs::read(path, &images, selection, global)?;
        let sampling = origin::Sampling::of(&input)?;
        let rate = args.described.branch_rate;
        recording.law = sampling.and_then(|sampling| sampling.law(&found.counts.ledger, rate));
        output::write_file(&place, |out| {
            Ok(fleet::write(&place, &found.counts, recording.clone(), out)?)
        })?;
        if !global.quiet {
            print_ledger(&found, global);
            if recording.end.is_none() {
                eprintln!(
                    "note: {} does not say when it was made, so --since leaves it out; --end says it",
                    path.display()
                );
            }
        }
        written.push((place, recording));
    }
    if args.format == Format::Json {
        print_json(&report::fleet::written_json(&written))?;
    } else if !global.quiet && !args.described.is_stream() {
        report::fleet::written_lines(&written).iter().for_each(|line| eprintln!("{line}"));
    }
    Ok(FINE)
}

/// What the recording says of itself, and what the user does.
fn described(args: &Args, path: &Path) -> anyhow::Result<(Input, Recording)> {
    if path == Path::new("-") || !(path.is_file() || path.is_dir()) {
        bail!(
            "{}: a shard is made of a recording that is a file or a directory; `planish aggregate` \
             counts other inputs",
            path.display()
        );
    }
    let input = Input::open(path)?;
    let id = match &args.described.id {
        Some(id) => id.clone(),
        None => origin::id(path).with_context(|| path.display().to_string())?,
    };
    let mut recording = origin::described(&input, id);
    args.described.describe(&mut recording);
    Ok((input, recording))
}
