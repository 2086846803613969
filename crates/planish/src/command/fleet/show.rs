//! `planish fleet show`: what counts files tell of themselves.

use super::look;
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output::print_json;
use anyhow::bail;
use report::fleet::{shard_lines, shards_json};
use std::path::PathBuf;

/// Arguments of `planish fleet show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Counts files, directories with files *.counts in or below them, or patterns with * and ?
    #[arg(required = true, value_name = "FILE")]
    pub inputs: Vec<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Prints what the files tell.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let (mut shards, mut rejected) = (Vec::new(), Vec::new());
    for input in &args.inputs {
        for path in fleet::inputs::expand(input)? {
            shards.extend(look(&path, &mut rejected)?);
        }
    }
    if let (true, Some(first)) = (shards.is_empty(), rejected.first()) {
        bail!("{}", first.why);
    }
    match args.format {
        Format::Json => print_json(&shards_json(&shards, &rejected))?,
        Format::Text => {
            for line in shards.iter().flat_map(shard_lines) {
                println!("{line}");
            }
        }
    }
    if !global.quiet {
        rejected.iter().for_each(|one| eprintln!("rejected: {}", one.why));
    }
    Ok(if rejected.is_empty() { FINE } else { NEGATIVE })
}
