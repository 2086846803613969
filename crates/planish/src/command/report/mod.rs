//! `planish report`: what a recording shows, and the result of a finished run.

mod calls;
mod diff;
mod filter;
mod finished;
mod id_paths;
mod kernel_files;
mod lines;
mod listed;
mod pack;
mod recording;
mod run_time;
mod servers;
mod sources;
mod symbols;
mod unpacked;
mod waits;

use crate::cli::Global;

/// Say where a recorded program spends its time, and where it waits; print the result of a finished run again.
///
/// With hot, callers, callees, tree, lines, waits or timeline it reads a recording, with diff two or more; without, what `planish optimize` or
/// `planish compare` found.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    finished: finished::FinishedArgs,
}

/// What to show of a recording.
#[derive(Debug, clap::Subcommand)]
enum Verb {
    Hot(calls::HotArgs),
    Callers(calls::CallersArgs),
    Callees(calls::CalleesArgs),
    Tree(calls::TreeArgs),
    Lines(lines::LinesArgs),
    Waits(waits::WaitsArgs),
    Timeline(waits::TimelineArgs),
    Diff(diff::DiffArgs),
    Archive(pack::ArchiveArgs),
}

/// Runs the command.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    unpacked::be_quiet(global.quiet);
    let done = verb(args, global);
    unpacked::remove_all();
    done
}

fn verb(args: Args, global: &Global) -> anyhow::Result<u8> {
    match args.verb {
        None => finished::run(args.finished),
        Some(Verb::Hot(args)) => calls::hot(&args, global),
        Some(Verb::Callers(args)) => calls::callers(&args, global),
        Some(Verb::Callees(args)) => calls::callees(&args, global),
        Some(Verb::Tree(args)) => calls::tree(&args, global),
        Some(Verb::Lines(args)) => lines::lines(&args, global),
        Some(Verb::Waits(args)) => waits::waits(&args, global),
        Some(Verb::Timeline(args)) => waits::timeline(&args, global),
        Some(Verb::Diff(args)) => diff::run(&args, global),
        Some(Verb::Archive(args)) => pack::run(&args, global),
    }
}
