//! `planish stat`: how often events happen while a program, processes or the system run.

use crate::cli::{FINE, Format, Global};
use crate::output;
use anyhow::{Context as _, bail};
use record::live::{self, Target};
use record::stat::{self, StatOptions};
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
#[command(after_help = "\
Examples:
  planish stat ./app input.txt
  planish stat -r 10 -e cycles,instructions -- ./app input.txt
  planish stat -I 1000 -p $(pidof server)
  planish stat -a -e 'sched:*' --format json -- sleep 5")]
pub struct Args {
    /// What to count, by perf's syntax; repeatable
    #[arg(short = 'e', long = "event", value_name = "EVENT", long_help = EVENTS_HELP)]
    pub events: Vec<String>,
    /// Print counts every MS milliseconds
    #[arg(short = 'I', long = "interval-print", value_name = "MS", conflicts_with = "repeat",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub interval: Option<u32>,
    /// Count running processes, until they end, the command ends, or Ctrl-C
    #[arg(short, long, value_name = "PID", value_delimiter = ',', group = "whom",
          value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Vec<i32>,
    /// Count only these threads, not what they start
    #[arg(short, long, value_name = "TID", value_delimiter = ',', group = "whom",
          value_parser = clap::value_parser!(i32).range(1..))]
    pub tid: Vec<i32>,
    /// Count the whole system, until the command ends, or Ctrl-C
    #[arg(short, long = "all-cpus", group = "whom")]
    pub all_cpus: bool,
    /// Count everything on these CPUs: `0-3,8`
    #[arg(short = 'C', long = "cpu", value_name = "CPULIST", conflicts_with_all = ["pid", "tid"])]
    pub cpus: Option<String>,
    /// Count only these control groups (with -a or -C): one for all events, or one for each event,
    /// in order; an empty name is the whole system
    #[arg(short = 'G', long = "cgroup", value_name = "NAME", value_delimiter = ',')]
    pub cgroups: Vec<String>,
    /// Run the command N times; print the mean and the standard error
    #[arg(short, long, value_name = "N", requires = "command",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,
    /// Do not count children of the program or process
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
    /// The program and its arguments; put planish's own options before it; you may put `--` between
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let target = target(args)?;
    let options = StatOptions {
        events: args.events.clone(),
        cpus: args.cpus.as_deref().map(live::cpu_list).transpose()?.unwrap_or_default(),
        cgroups: args.cgroups.clone(),
        interval: args.interval.map(|ms| Duration::from_millis(ms.into())),
        no_inherit: args.no_inherit,
        per_thread: args.per_thread,
    };
    super::handle_interrupts();
    let is_json = args.format == Format::Json;
    let to_stdout = args.output.as_ref().map_or(is_json, |path| path.as_os_str() == "-");
    let stdout = if to_stdout { Stdout::ToStderr } else { Stdout::Inherit };
    let workload = Workload { stdout, ..Workload::new(args.command.iter()) };
    let command = (!args.command.is_empty()).then_some(&workload);
    let mut code = FINE;
    let result = write(args, |out| {
        let runs =
            stat::repeated(&target, command, &options, args.repeat, &mut |counters, counts| {
                let told = if is_json { tell::json::interval } else { tell::interval };
                say(out, &told(counters, counts))
            })?;
        for run in &runs {
            code = code.max(super::record::code_of(run.ending));
        }
        let total = match args.format {
            Format::Json => tell::json::total(&runs, &args.command, args.interval.is_some()),
            Format::Text if args.interval.is_some() => String::new(),
            Format::Text => tell::total(&runs, &args.command, global.quiet),
        };
        say(out, &total)?;
        if !global.quiet {
            tell::notes(&runs).iter().for_each(|note| eprintln!("{note}"));
        }
        Ok(())
    });
    result.map(|()| code)
}

/// Who is to be counted.
fn target(args: &Args) -> anyhow::Result<Target> {
    let system = args.all_cpus || args.cpus.is_some();
    let target = Target::of(system, None, &args.tid, &args.pid);
    if !args.cgroups.is_empty() && !matches!(target, Target::System) {
        bail!("-G counts what runs in a control group on CPUs: give -a or -C with it");
    }
    if args.command.is_empty() && matches!(target, Target::Command) {
        bail!("nothing to count: give a command after `--`, or -p PID, -t TID, -C CPU, or -a");
    }
    Ok(target)
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
