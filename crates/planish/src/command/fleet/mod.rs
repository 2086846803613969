//! `planish fleet`: counts of many machines to one counts file.

mod merge;
mod show;

use crate::cli::Global;
use fleet::{Error, Shard};
use report::fleet::Aside;
use std::path::Path;

/// Merge counts of many machines, and say what counts files hold.
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    tool: Tool,
}

/// What can be done with the counts of a fleet.
#[derive(Debug, clap::Subcommand)]
enum Tool {
    /// Add up counts files, each recording once, in bounded memory
    Merge(merge::Args),
    /// Say what counts files tell of themselves
    Show(show::Args),
}

/// Runs the tool asked for.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    match &args.tool {
        Tool::Merge(args) => merge::run(args, global),
        Tool::Show(args) => show::run(args, global),
    }
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
