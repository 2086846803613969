//! `planish train`: how long does training take, and how is it recorded then?

use super::record::program_log::ProgramLog;
use crate::cli::{FINE, Global, NEGATIVE};
use crate::output;
use anyhow::{Context, bail};
use build::config::{Branches, Record};
use build::training::{Timed, Training, Wish};
use build::{bounded_log, split_words};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

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
    #[arg(long, value_name = "WHAT")]
    stop_by: Option<String>,
    /// Put what the command prints into this file
    #[arg(long, value_name = "FILE")]
    program_output: Option<PathBuf>,
    /// The command
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct RepeatArgs {
    /// How often
    #[arg(long, value_name = "N")]
    runs: u64,
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
        What::Record(args) => record(&args),
        What::Repeat(args) => repeat(&args),
    }
}

fn time(args: &TimeArgs, global: &Global) -> anyhow::Result<u8> {
    let stop = super::compare::stop_flag()?;
    let mut timed = Vec::new();
    for line in &args.command {
        let words = split_words(line).map_err(|problem| anyhow::anyhow!("--command: {problem}"))?;
        let log = args.program_output.as_deref().map(ProgramLog::create).transpose()?;
        let mut command = command_of(&words)?;
        if let Some(log) = &log {
            let writer = log.writer();
            command.stdout(writer.try_clone()?).stderr(writer.try_clone()?);
        } else {
            // Standard output is for the result.
            command.stdout(std::io::stderr());
        }
        let began = Instant::now();
        let mut child =
            command.stdin(Stdio::null()).spawn().with_context(|| format!("cannot start {line}"))?;
        // Its copies of the log's writer go, so that the log can end.
        drop(command);
        let status = build::wait(&mut child, &stop)?;
        let seconds = began.elapsed().as_secs_f64();
        log.map(ProgramLog::finish).transpose()?;
        if !status.success() {
            bail!(
                "{line}: ended with {status}{}; training must end well",
                last_words(args.program_output.as_deref())
            );
        }
        timed.push(Timed { command: line.clone(), seconds });
    }
    let program = args.command.first().and_then(|line| split_words(line).ok()).unwrap_or_default();
    let wish = Wish {
        branches: if args.branches == Kind::Auto { Branches::Auto } else { Branches::Software },
        seconds: args.seconds,
        emulate_below: args.emulate_below,
        budget: args.budget,
        can_emulate: can_emulate(&program),
        can_stop: ::record::software::probe().is_ok(),
    };
    let training = Training::decide(timed, &wish).map_err(|problem| anyhow::anyhow!(problem))?;
    if !global.quiet {
        eprintln!("{}", training.reason);
    }
    output::print(&(serde_json::to_string_pretty(&training)? + "\n"))?;
    Ok(FINE)
}

/// Whether the emulator and its plugin for the program are here.
fn can_emulate(program: &[String]) -> bool {
    let argv: Vec<std::ffi::OsString> = program.iter().map(Into::into).collect();
    let found =
        ::record::program(&argv, None).and_then(|program| ::record::emulator(program.machine));
    found.is_ok() && ::record::plugin(None).is_ok()
}

fn last_words(log: Option<&Path>) -> String {
    let lines = log.map(|log| bounded_log::last_lines(log, 0, 5)).unwrap_or_default();
    if lines.is_empty() { String::new() } else { format!(" ({})", lines.join(" | ")) }
}

fn command_of(words: &[String]) -> anyhow::Result<Command> {
    let Some((program, arguments)) = words.split_first() else { bail!("a command is needed") };
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// Becomes the `planish record` that was decided on.
fn record(args: &RecordArgs) -> anyhow::Result<u8> {
    let training = Training::read(&args.by)?;
    let planish = std::env::current_exe().context("cannot find this executable")?;
    let mut command = Command::new(&planish);
    command
        .arg("record")
        .arg(format!("--branches={}", training.branches.word()))
        .args(["--whole", "--accept-losses"]);
    command.arg("-o").arg(&args.output);
    if let Some(log) = &args.program_output {
        command.arg("--program-output").arg(log);
    }
    if training.branches == Branches::Software {
        match (args.period, args.budget) {
            (Some(period), _) => command.args(["-c", &period.to_string()]),
            (None, Some(budget)) => command.args(["--budget", &budget.to_string()]),
            (None, None) => &mut command,
        };
        command.args(args.stop_by.iter().flat_map(|by| ["--stop-by", by]));
        command.arg("--");
        if training.runs > 1 {
            command.arg(&planish).args([
                "train",
                "repeat",
                "--runs",
                &training.runs.to_string(),
                "--",
            ]);
        }
    } else {
        command.args(["-c", "1000", "--"]);
    }
    command.args(&args.command);
    let failed = command.exec();
    Err(failed).context("cannot start planish record")
}

/// Runs a command so often. What ends it between two runs is a signal, which the program gets too.
fn repeat(args: &RepeatArgs) -> anyhow::Result<u8> {
    let stop = super::compare::stop_flag()?;
    let ended = |stop: &AtomicBool| stop.load(std::sync::atomic::Ordering::Relaxed);
    for _ in 0..args.runs {
        if ended(&stop) {
            return Ok(super::INTERRUPTED);
        }
        let mut child = command_of(&args.command)?.spawn().context("cannot start the program")?;
        let status = build::wait(&mut child, &stop)?;
        if !status.success() {
            return Ok(code_of(status));
        }
    }
    Ok(FINE)
}

/// A program's exit code as this process's own; of a signal as shells tell it.
fn code_of(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(NEGATIVE)
}
