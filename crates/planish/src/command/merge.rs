//! `planish merge`: counts of several runs or machines, added up.

use crate::cli::{FINE, Global};
use crate::output;
use counts::{artefact, merge};
use std::path::PathBuf;

/// Add up counts artefacts.
///
/// Images are the same where their build IDs are. The order of the files makes no difference to a
/// byte of the result.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Counts artefacts (planish aggregate)
    #[arg(required = true, value_name = "FILE.counts")]
    pub inputs: Vec<PathBuf>,
    /// Where to write; `-` is standard output
    #[arg(short, long, value_name = "ALL.counts")]
    pub output: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    output::refuse_inputs([args.output.as_path()], args.inputs.iter().map(PathBuf::as_path))?;
    let mut all = counts::Counts::default();
    for path in &args.inputs {
        crate::input::open(path)?;
        all = merge([all, artefact::read(path)?])?;
    }
    output::write_file(&args.output, |out| Ok(artefact::write(&args.output, &all, out)?))?;
    if !global.quiet {
        eprintln!(
            "merged {} file{}: {} image{}, {} samples, {} branch entries",
            args.inputs.len(),
            if args.inputs.len() == 1 { "" } else { "s" },
            all.images.len(),
            if all.images.len() == 1 { "" } else { "s" },
            all.ledger.samples.used,
            all.ledger.branches.used
        );
    }
    Ok(FINE)
}
