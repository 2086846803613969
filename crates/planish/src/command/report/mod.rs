//! `planish report`: what a recording shows, and the result of a finished run.

mod calls;
mod diff;
mod doubts;
mod earlier;
mod export;
mod filter;
mod finished;
pub mod id_paths;
mod index_file;
mod interactive;
pub mod kernel_files;
mod lines;
mod pack;
mod page;
mod recording;
pub mod run_time;
pub mod servers;
mod sources;
pub mod symbols;
mod unpacked;
mod waits;

use crate::cli::Global;
pub use calls::BY;

/// Show where a recorded program spends its time and where it waits, or print a finished run's
/// result again.
///
/// The commands below read a recording that `planish record` or `perf record` made; diff compares
/// several. Without a command, planish prints again what `planish optimize` or `planish compare`
/// found. With -i, you look around in a recording on the terminal.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Examples:
  planish report
  planish report -i perf.data
  planish report hot perf.data --comm server
  planish report diff before.data after.data
  planish report export perf.data --to folded > stacks.txt")]
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
    Export(export::ExportArgs),
    Archive(pack::ArchiveArgs),
}

/// Shows a recording that was just made: on the terminal, or, without one, what weighs most.
pub fn after_recording(path: &std::path::Path, global: &Global) -> anyhow::Result<u8> {
    // The recorder no longer ends by itself on Ctrl-C: there is nothing left to finish.
    super::leave_interrupts();
    match super::viewing::check() {
        Ok(()) => interactive::run_of(path, global),
        Err(_) => calls::hot(&calls::HotArgs::of(path), global),
    }
}

/// What tables can be about, with the word for it.
pub fn kinds_of_rows() -> Vec<viewer::ByName> {
    calls::BY.0.iter().map(|(word, by, _)| (*word, *by)).collect()
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
        None if args.finished.interactive => interactive::run_of(&args.finished.path, global),
        None => finished::run(args.finished),
        Some(Verb::Hot(args)) => calls::hot(&args, global),
        Some(Verb::Callers(args)) => calls::callers(&args, global),
        Some(Verb::Callees(args)) => calls::callees(&args, global),
        Some(Verb::Tree(args)) => calls::tree(&args, global),
        Some(Verb::Lines(args)) => lines::lines(&args, global),
        Some(Verb::Waits(args)) => waits::waits(&args, global),
        Some(Verb::Timeline(args)) => waits::timeline(&args, global),
        Some(Verb::Diff(args)) => diff::run(&args, global),
        Some(Verb::Export(args)) => export::run(&args, global),
        Some(Verb::Archive(args)) => pack::run(&args, global),
    }
}
