//! `planish fleet`: counts of many machines to one counts file.

mod at_hand;
mod binaries;
mod builds;
mod choose;
mod described;
mod export;
mod given;
mod import;
mod merge;
mod profile;
mod programs;
mod remote;
mod service;
mod shard;
mod show;
mod simulate;
mod status;
mod upload;

use crate::cli::Global;
use fleet::{Error, Shard};
use report::fleet::Aside;
use std::path::Path;

/// Make, merge and look at counts of many machines.
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  planish fleet shard perf.data --into spool
  planish fleet upload spool --to s3://bucket/service --remove
  planish fleet merge spool -o all.counts
  planish fleet status spool --for ./server
  planish fleet profile spool --for ./server -o server.afdo")]
pub struct Args {
    #[command(subcommand)]
    tool: Tool,
}

/// What can be done with the counts of a fleet.
#[derive(Debug, clap::Subcommand)]
enum Tool {
    /// Count one recording, and write down where, when and how it was made
    Shard(shard::Args),
    Import(import::Args),
    /// Write counts as pprof, OpenTelemetry profiles or BOLT's text, for other tools
    Export(export::Args),
    /// Put shards into an object store, each once, however often you run it
    Upload(upload::Args),
    /// Add up counts files, each recording once, in bounded memory
    Merge(merge::Args),
    /// Make one profile of a service out of the counts of all its builds and hosts
    Profile(profile::Args),
    /// Say what each build and class of hosts gave, and whether there are enough recordings
    Status(status::Args),
    /// Keep the programs of all builds where fleet profile finds them
    Binaries(binaries::Args),
    /// Make shards as a fleet would deliver them, out of real counts, to try things on
    Simulate(simulate::Args),
    /// Say what counts files tell of themselves
    Show(show::Args),
}

/// Runs the tool asked for.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    match &args.tool {
        Tool::Shard(args) => shard::run(args, global),
        Tool::Import(args) => import::run(args, global),
        Tool::Export(args) => export::run(args, global),
        Tool::Upload(args) => upload::run(args, global),
        Tool::Merge(args) => merge::run(args, global),
        Tool::Profile(args) => profile::run(args, global),
        Tool::Status(args) => status::run(args, global),
        Tool::Binaries(args) => binaries::run(args, global),
        Tool::Simulate(args) => simulate::run(args, global),
        Tool::Show(args) => show::run(args, global),
    }
}

/// A time, as an option states it: seconds since 1970.
fn second(text: &str) -> Result<u64, &'static str> {
    let read = fleet::time::second(text);
    read.ok_or("expected a time like 2026-11-26T17:40:00, or seconds since 1970")
}

/// Seconds, as an option states them.
fn duration(text: &str) -> Result<u64, &'static str> {
    let read = fleet::time::seconds(text).filter(|seconds| *seconds > 0);
    read.ok_or("expected seconds, or a number with s, m, h, d or w, such as 7d")
}

/// Looks at a file; one that cannot be merged goes to `rejected`.
fn look(path: &Path, rejected: &mut Vec<Aside>) -> Result<Option<Shard>, Error> {
    match Shard::open(path) {
        Ok(shard) => Ok(Some(shard)),
        Err(error) if error.shard().is_some() => {
            rejected.push(Aside { path: path.to_owned(), why: error.to_string() });
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
