//! `planish train`: how long does training take, and how is it recorded then?

use crate::cli::{FINE, Global, NEGATIVE};
use crate::output;
use ::record::branches::Offered;
use ::record::{Branches, Ending};
use anyhow::Context;
use build::call::{Input, Output};
use build::config::Record;
use build::recording::StopBy;
use build::request::{Libraries, Pace, ProgramCommand, TrainRecord};
use build::training::{self, Training, Wish};
use build::{Request, split_words};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
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
    /// Record one command as `planish train time` said
    Record(RecordArgs),
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
}

#[derive(Debug, clap::Args)]
struct TimeArgs {
    /// A training command; repeat it for more
    #[arg(long, required = true, value_name = "LINE")]
    command: Vec<String>,
    /// Which branch stacks are wanted
    #[arg(long, value_enum, default_value_t = Kind::Auto)]
    branches: Kind,
    /// Seconds to record, all commands together
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
    /// Put what the commands print into this file
    #[arg(long, value_name = "FILE")]
    program_output: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct RecordArgs {
    /// What `planish train time` printed
    #[arg(long, value_name = "FILE")]
    by: PathBuf,
    /// Where to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Software branch stacks: per cent of the program's CPU time that may go into stops
    #[arg(long, value_name = "PERCENT", conflicts_with = "period")]
    budget: Option<f64>,
    /// Software branch stacks: from one stop to the next
    #[arg(long, value_name = "N")]
    period: Option<u64>,
    /// Software branch stacks: what is counted between two stops
    #[arg(long, value_name = "WHAT", value_parser = stop_by)]
    stop_by: Option<StopBy>,
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

fn stop_by(text: &str) -> Result<StopBy, String> {
    StopBy::parse(text).ok_or_else(|| "it is neither clock nor branches".to_owned())
}

/// Runs the command.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    match args.what {
        What::Time(args) => time(&args, global),
        What::Record(args) => record(&args),
        What::Repeat(args) => repeat(&args),
    }
}

fn time(args: &TimeArgs, global: &Global) -> anyhow::Result<u8> {
    let stop = super::compare::stop_flag()?;
    let log = args.program_output.as_deref();
    let timed = args.command.iter().map(|line| training::time(line, log, &stop));
    let timed = timed.collect::<Result<_, _>>()?;
    let program = args.command.first().and_then(|line| split_words(line).ok()).unwrap_or_default();
    let program: Vec<OsString> = program.into_iter().map(Into::into).collect();
    let wish = Wish {
        branches: if args.branches == Kind::Auto { Branches::Auto } else { Branches::Software },
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

/// Becomes the `planish record` that was decided on.
fn record(args: &RecordArgs) -> anyhow::Result<u8> {
    let planish = std::env::current_exe().context("cannot find this executable")?;
    let budget = args.budget.map(Pace::Budget);
    let asked = TrainRecord {
        by: Input::from(&args.by),
        output: Output::from(&args.output),
        pace: args.period.map(Pace::Period).or(budget),
        stop_by: args.stop_by,
        program_output: args.program_output.clone(),
        command: ProgramCommand {
            words: args.what.command.clone(),
            program: None,
            // Its environment, which is this command's own, leads the program to them.
            libraries: Libraries::default(),
        },
    };
    let recording = Request::Record(Training::read(&args.by)?.recording(&planish, &asked));
    let words = recording.call().arguments(|_| true);
    let failed = Command::new(&planish).args(words).exec();
    Err(failed).context("cannot start planish record")
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
