//! `planish train`: how long does training take, and how is it recorded then?

mod rounds;

use super::weigh;
use crate::cli::{FINE, Global, NEGATIVE};
use crate::output;
use ::record::branches::Offered;
use ::record::{Branches, Ending};
use anyhow::Context;
use build::config::Record;
use build::split_words;
use build::training::{self, Timed, Training, Wish};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// Time training, and record it as suits the time it takes.
///
/// The steps of `planish optimize` where the CPU records no branches; each can be typed by hand.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Run each command once and print how all of them are to be recorded
    Time(TimeArgs),
    /// Does a command end well, run the program and print the same each time?
    Try(TryArgs),
    /// Record all commands as `planish train time` said, until the profile is stable, and count
    Record(Box<rounds::Args>),
    /// Run a command several times, until one run fails
    Repeat(RepeatArgs),
}

/// Which branch stacks are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Emulated ones of a short program, software ones of a long one
    Auto,
    /// Software ones
    Software,
    /// Emulated ones
    Emulated,
}

#[derive(Debug, clap::Args)]
struct TimeArgs {
    /// A training command; repeat it for more
    #[arg(long, required = true, value_name = "LINE")]
    command: Vec<String>,
    /// Which branch stacks are wanted
    #[arg(long, value_enum, default_value_t = Kind::Auto)]
    branches: Kind,
    /// What a command's weight in the profile is multiplied by; as often as --command
    #[arg(long, value_name = "NUMBER")]
    weight: Vec<f64>,
    /// Most seconds to record, all commands together
    #[arg(long, value_name = "SECONDS", default_value_t = Record::SECONDS)]
    seconds: f64,
    /// Emulate where the commands take fewer seconds together
    #[arg(long, value_name = "SECONDS", default_value_t = Record::EMULATE_BELOW)]
    emulate_below: f64,
    /// Per cent of the program's CPU time that stops will take
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0)]
    budget: f64,
    /// Emulate none of the commands: they start the program by a script, or beside a server
    #[arg(long)]
    started_by_others: bool,
    /// The program, which every command must run
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Put what the commands print into this file
    #[arg(long, value_name = "FILE")]
    program_output: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct TryArgs {
    /// The program
    #[arg(long, value_name = "FILE")]
    program: PathBuf,
    /// What will be measured (see planish compare --metric): numbers that a pattern takes from the
    /// output must be there, and may differ between two runs
    #[arg(long, value_name = "METRIC", default_value = "cpu")]
    metric: String,
    /// Take a command that prints something else each time
    #[arg(long)]
    ignore_output: bool,
    /// The CPU that it will be measured on, which must be there
    #[arg(long, value_name = "N")]
    cpu: Option<u32>,
    /// Put what the command prints into this file
    #[arg(long, value_name = "FILE")]
    program_output: Option<PathBuf>,
    #[command(flatten)]
    what: CommandArgs,
}

#[derive(Debug, clap::Args)]
struct RepeatArgs {
    /// How often
    #[arg(long, value_name = "N")]
    runs: u64,
    #[command(flatten)]
    what: CommandArgs,
}

#[derive(Debug, clap::Args)]
struct CommandArgs {
    /// The command
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<String>,
}

/// Runs the command.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    match args.what {
        What::Time(args) => time(&args, global),
        What::Try(args) => try_once(&args, global),
        What::Record(args) => rounds::run(&args, global),
        What::Repeat(args) => repeat(&args),
    }
}

fn time(args: &TimeArgs, global: &Global) -> anyhow::Result<u8> {
    let stop = super::compare::stop_flag()?;
    let log = args.program_output.as_deref();
    let weights = weigh::of(&args.weight, args.command.len(), "--command")?;
    // One command has the whole weight, however long it takes.
    let times = if args.command.len() > 1 { 3 } else { 1 };
    let timed = args.command.iter().zip(weights).map(|(line, weight)| {
        let timed = match &args.program {
            Some(program) => build::trial::time(line, program, times, log, &stop)?,
            None => training::time(line, times, log, &stop)?,
        };
        Ok(Timed { weight, ..timed })
    });
    let timed = timed.collect::<anyhow::Result<_>>()?;
    let program = args.command.first().and_then(|line| split_words(line).ok()).unwrap_or_default();
    let program: Vec<OsString> = program.into_iter().map(Into::into).collect();
    let wish = Wish {
        branches: match args.branches {
            Kind::Auto => Branches::Auto,
            Kind::Software => Branches::Software,
            Kind::Emulated => Branches::Emulated,
        },
        seconds: args.seconds,
        emulate_below: args.emulate_below,
        budget: args.budget,
        offered: Offered::without_hardware(&program),
        started_by_others: args.started_by_others,
    };
    let training = Training::decide(timed, &wish).map_err(|problem| anyhow::anyhow!(problem))?;
    if !global.quiet {
        eprintln!("{}", training.reason);
    }
    output::print(&(serde_json::to_string_pretty(&training)? + "\n"))?;
    Ok(FINE)
}

fn try_once(args: &TryArgs, global: &Global) -> anyhow::Result<u8> {
    let stop = super::compare::stop_flag()?;
    let words: Vec<String> = args.what.command.iter().map(|word| build::quoted(word)).collect();
    let metric = compare::Metric::parse(&args.metric)?;
    let log = args.program_output.as_deref();
    let timed = build::trial::try_once(&words.join(" "), &args.program, log, &stop);
    // What was ended did not fail.
    if stop.load(Ordering::Relaxed) {
        return Ok(super::INTERRUPTED);
    }
    let timed = timed?;
    if !global.quiet {
        let took = report::duration_ns(timed.seconds * 1e9);
        eprintln!("it runs {} and takes {took}", args.program.display());
    }
    compare::repeats(&args.what.command, metric, args.ignore_output, args.cpu, &stop)?;
    if stop.load(Ordering::Relaxed) { Ok(super::INTERRUPTED) } else { Ok(FINE) }
}

/// Runs a command so often. What ends it between two runs is a signal, which the program gets too.
fn repeat(args: &RepeatArgs) -> anyhow::Result<u8> {
    let stop = super::compare::stop_flag()?;
    for _ in 0..args.runs {
        if stop.load(Ordering::Relaxed) {
            return Ok(super::INTERRUPTED);
        }
        let mut child = training::command_of(&args.what.command)?
            .spawn()
            .context("cannot start the program")?;
        let status = build::wait(&mut child, &stop)?;
        if !status.success() {
            // A program's exit code as this process's own; of a signal as shells tell it.
            return Ok(u8::try_from(Ending::from(status).code()).unwrap_or(NEGATIVE));
        }
    }
    Ok(FINE)
}
