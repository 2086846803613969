//! `planish stat`: how often events happen while a program, processes or the system run.

use crate::cli::{FINE, Format, Global};
use crate::output;
use anyhow::{Context as _, bail};
use record::live::{self, Target};
use record::stat::{self, Counter, Counts, Options, Stat};
use record::{Stdout, Workload};
use report::stat as tell;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

const EVENTS_HELP: &str = "\
What to count, by perf's syntax; repeatable. Without it: clock, context switches, migrations, page \
                           faults, cycles,
instructions, branches, branch misses.

  task-clock, page-faults, cs …         software: on every machine
  cycles, instructions, cache-misses    hardware, where there is a PMU
  sched:sched_switch, sched:*           tracepoints
  {cycles,instructions}                 a group: counted at the same times, read together
  cycles:u cycles:k                     only user mode, only the kernel";

/// Count events of a program, of processes or of the system, without recording where.
///
/// Text goes to standard error, where perf writes it; JSON to standard output, and the program's
/// own output then to standard error. What this machine cannot count is shown as `<not supported>`,
/// with the reason.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to count, by perf's syntax; repeatable
    #[arg(short = 'e', long = "event", value_name = "EVENT", long_help = EVENTS_HELP)]
    pub events: Vec<String>,
    /// Print the counts of every so many milliseconds
    #[arg(short = 'I', long = "interval-print", value_name = "MS", conflicts_with = "repeat",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub interval: Option<u32>,
    /// Count running processes, until they end, the command ends, or Ctrl-C
    #[arg(short, long, value_name = "PID", value_delimiter = ',', group = "whom",
          value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Vec<i32>,
    /// Count these threads alone, without what they start
    #[arg(short, long, value_name = "TID", value_delimiter = ',', group = "whom",
          value_parser = clap::value_parser!(i32).range(1..))]
    pub tid: Vec<i32>,
    /// Count the whole system, until the command ends, or Ctrl-C
    #[arg(short, long = "all-cpus", group = "whom")]
    pub all_cpus: bool,
    /// Count everything on these CPUs: `0-3,8`
    #[arg(short = 'C', long = "cpu", value_name = "CPULIST", conflicts_with_all = ["pid", "tid"])]
    pub cpus: Option<String>,
    /// Count these control groups alone (with -a or -C): one for all events, or one for each event
    /// in their order; an empty name is the whole system
    #[arg(short = 'G', long = "cgroup", value_name = "NAME", value_delimiter = ',')]
    pub cgroups: Vec<String>,
    /// Run the command so many times; print mean and standard error
    #[arg(short, long, value_name = "N", requires = "command",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,
    /// Children of the program or process are not counted
    #[arg(short = 'i', long)]
    pub no_inherit: bool,
    /// Also print the counts of each thread that ran when counting began; with -p or -t
    #[arg(long, requires = "whom", conflicts_with_all = ["all_cpus", "repeat"])]
    pub per_thread: bool,
    /// Write the result into a file, whole or not at all; `-`: to standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// How to print the counts
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// The program and its arguments; planish's own options stand before it, and `--` may stand
    /// between
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let target = target(args)?;
    let options = Options {
        events: args.events.clone(),
        cpus: args.cpus.as_deref().map(live::cpu_list).transpose()?.unwrap_or_default(),
        cgroups: args.cgroups.clone(),
        interval: args.interval.map(|ms| Duration::from_millis(ms.into())),
        no_inherit: args.no_inherit,
        per_thread: args.per_thread,
    };
    super::handle_interrupts();
    let mut code = FINE;
    let result = write(args, |out| {
        let shape = Shape { args, quiet: global.quiet };
        let runs = count(&target, args, &options, &mut |counters, counts| {
            say(out, &shape.interval(counters, counts))
        })?;
        for run in &runs {
            code = code.max(super::record::code_of(run.ending));
        }
        say(out, &shape.total(&runs))?;
        if !global.quiet {
            tell::notes(&runs).iter().for_each(|note| eprintln!("{note}"));
        }
        Ok(())
    });
    result.map(|()| code)
}

/// Who is to be counted.
fn target(args: &Args) -> anyhow::Result<Target> {
    let target = if args.all_cpus || args.cpus.is_some() {
        Target::System
    } else if !args.tid.is_empty() {
        Target::Threads(args.tid.clone())
    } else if !args.pid.is_empty() {
        Target::Processes(args.pid.clone())
    } else {
        Target::Command
    };
    if !args.cgroups.is_empty() && !matches!(target, Target::System) {
        bail!("-G counts what runs in a control group on CPUs: give -a or -C with it");
    }
    if args.command.is_empty() && matches!(target, Target::Command) {
        bail!("nothing to count: give a command after `--`, or -p PID, -t TID, -C CPU, or -a");
    }
    Ok(target)
}

/// Counts once, or as often as asked for.
fn count(
    target: &Target,
    args: &Args,
    options: &Options,
    tell: &mut dyn FnMut(&[Counter], &Counts) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Stat>> {
    let json_to_stdout = args.format == Format::Json && args.output.is_none();
    let to_stdout =
        json_to_stdout || args.output.as_ref().is_some_and(|path| path.as_os_str() == "-");
    let stdout = if to_stdout { Stdout::ToStderr } else { Stdout::Inherit };
    let workload = Workload { stdout, ..Workload::new(args.command.iter()) };
    let command = (!args.command.is_empty()).then_some(&workload);
    let mut runs = Vec::new();
    for _ in 0..args.repeat.unwrap_or(1) {
        let mut failure = None;
        let run = stat::count(target, command, options, &mut |counters, counts| {
            // The program goes on when its counts cannot be printed; the first reason is told at
            // the end.
            if failure.is_none() {
                failure = tell(counters, counts).err();
            }
        })?;
        let interrupted = run.interrupted;
        runs.push(run);
        if let Some(failure) = failure {
            return Err(failure);
        }
        if interrupted {
            break;
        }
    }
    Ok(runs)
}

/// How the options want the result printed.
struct Shape<'a> {
    args: &'a Args,
    quiet: bool,
}

impl Shape<'_> {
    fn interval(&self, counters: &[Counter], counts: &Counts) -> String {
        match self.args.format {
            Format::Text => tell::interval(counters, counts),
            Format::Json => tell::json::interval(counters, counts),
        }
    }

    fn total(&self, runs: &[Stat]) -> String {
        match self.args.format {
            Format::Text if self.args.interval.is_some() => String::new(),
            Format::Text => tell::total(runs, &self.args.command, self.quiet),
            Format::Json => {
                tell::json::total(runs, &self.args.command, self.args.interval.is_some())
            }
        }
    }
}

/// One block at a time, so that a reader never sees half of one.
fn say(out: &mut dyn Write, block: &str) -> anyhow::Result<()> {
    out.write_all(block.as_bytes()).and_then(|()| out.flush()).context("write the counts")
}

/// Where the result goes.
fn write(
    args: &Args,
    fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    match (&args.output, args.format) {
        (Some(path), _) => output::write_file(path, |out| fill(out)),
        (None, Format::Json) => fill(&mut output::raw()),
        (None, Format::Text) => fill(&mut output::error_text()),
    }
}
