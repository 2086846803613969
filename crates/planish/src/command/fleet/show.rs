//! `planish fleet show`: what counts files tell of themselves.

use super::given::Given;
use super::look;
use super::remote::Remote;
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output::print_json;
use anyhow::bail;
use report::fleet::{Aside, shard_lines, shards_json};
use std::path::PathBuf;

/// Arguments of `planish fleet show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Counts files, directories with files *.counts in or below them, patterns with * and ?; or
    /// any of these in a store, as s3://BUCKET/KEY or gs://BUCKET/KEY
    #[arg(required = true, value_name = "FILE")]
    pub inputs: Vec<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    #[command(flatten)]
    pub remote: Remote,
}

/// Prints what the files tell.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let mut given = Given::take(&args.inputs, None, &args.remote, global)?;
    let mut rejected = std::mem::take(&mut given.rejected);
    let mut shards = Vec::new();
    for (path, _) in &given.files {
        let mut bad = Vec::new();
        if let Some(mut shard) = look(path, &mut bad)? {
            shard.path = given.named(path);
            shards.push(shard);
        }
        let told = |one: Aside| Aside { path: given.named(&one.path), why: given.told(&one.why) };
        rejected.extend(bad.into_iter().map(told));
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
