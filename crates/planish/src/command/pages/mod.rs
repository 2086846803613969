//! `planish pages`: program text on superpages, and the proof that it lies there.
//!
//! Each tool is a file that asks `crates/superpages` one question and prints the answer.

mod align;
mod check;
mod experiment;
mod keep;
mod probe;
mod run;
mod verify;
mod warm;

use crate::cli::Global;

const EXAMPLES: &str = "\
Examples:
  planish pages check ./app libbig.so      # how much text can lie there
  planish pages check --system             # for this machine's programs
  planish pages align libbig.so -o new.so  # move the text so that it can
  planish pages run -- ./app input         # warm program and libraries, run it
  planish pages verify PID --min 90        # does it lie there? 1 if not
  planish pages experiment -- ./app input  # does it help?";

/// Put program text on superpages, and prove that it lies there.
///
/// Exit code: 0 fine, 1 the finding is negative or this machine lacks what is needed, 2 wrong usage
/// or input.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Debug, clap::Subcommand)]
enum Tool {
    /// Say which bytes of text can lie on superpages and why the others cannot
    Check(check::Args),
    Align(align::Args),
    Warm(warm::Args),
    Keep(keep::Args),
    Probe(probe::Args),
    /// Say for every 2 MiB of a process's text whether it lies on a superpage
    Verify(verify::Args),
    Run(run::Args),
    Experiment(experiment::Args),
}

/// Runs the tool.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    match args.tool {
        Tool::Check(args) => check::run(&args, global),
        Tool::Align(args) => align::run(&args, global),
        Tool::Warm(args) => warm::run(&args, global),
        Tool::Keep(args) => keep::run(&args, global),
        Tool::Probe(args) => probe::run(&args, global),
        Tool::Verify(args) => verify::run(&args, global),
        Tool::Run(args) => run::run(&args, global),
        Tool::Experiment(args) => experiment::run(&args, global),
    }
}

/// Prints a JSON object with its kind and version in front.
fn print_json(kind: &'static str, content: &impl serde::Serialize) -> anyhow::Result<()> {
    crate::output::print_json(&report::Form::first(kind, content))
}

/// Bytes as people read them.
fn size(bytes: u64) -> String {
    report::bytes(bytes as f64)
}
