//! The options of `planish record`, with perf's spelling and meaning where perf has them.

use super::perf_args::{Asked, PerfArgs};
use super::stream_args::StreamArgs;
use crate::cli::Format;
use record::live::{self, Rate, Sampling, Target};
use record::plan;
use record::settings::{BranchFilter, CallGraph, Clock};
use record::software;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Where branch stacks come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Branches {
    /// CPU branch records if available, else software stacks; plain samples if another option
    /// needs them or neither works here
    #[default]
    Auto,
    /// CPU branch records (Intel LBR, AMD BRS and LBRv2, Arm BRBE), or an error
    Hardware,
    /// Software stacks: an interpreter looks ahead from each stop; x86-64 programs at nearly native
    /// speed, without special permission
    Software,
    /// Branches of an emulated CPU (qemu-user): any machine, exact, 10 to 15 times slower
    Emulated,
    /// No branch stacks: clock samples
    None,
}

/// What is counted between two stops for a software branch stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum StopBy {
    /// CPU time of the thread: on every machine; sees more of what is slow
    Clock,
    /// Taken branches, where the CPU counts them (the default there): sees every branch as often as
    /// it is taken
    Branches,
}

const EVENTS_HELP: &str = "\
What to sample, by perf's syntax; repeatable. Without it: branch stacks of the CPU, else software \
                           ones, else the clock.

  cpu-clock, page-faults, cs …          software: on every machine
  cycles, instructions, branch-misses   hardware, where there is a PMU
  L1-icache-load-misses, dTLB-loads …   caches
  sched:sched_switch, sched:*           tracepoints
  r1a8, cpu/event=0x3c,umask=0/         by number; terms as in \
                           /sys/bus/event_source/devices/PMU/format
  cycles/period=100003,name='a text'/   own period, freq, name, call-graph, stack-size, max-stack, \
                           inherit
  {cycles,instructions}:S               a group, read together
  cycles:u cycles:k cycles:ppp          modifiers: user, kernel, precise; also h G H I P S D e W";

/// Record where a program spends its time, with branch stacks, into perf.data.
///
/// Everything that reads perf.data reads the result: planish, perf script and perf report,
/// llvm-profgen, perf2bolt. An existing file is kept as perf.data.old. Ctrl-C ends the program and
/// finishes the file; a second one within three seconds ends a program that ignores the first.
/// Under emulation, programs that the program starts run natively and are not recorded; their
/// number is told.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to write; `-`: to standard output, in pipe form
    #[arg(short, long, default_value = "perf.data", value_name = "FILE")]
    pub output: PathBuf,
    /// Where branch stacks come from
    #[arg(long, value_enum, default_value_t = Branches::Auto)]
    pub branches: Branches,
    /// Software branch stacks: taken branches of each stack (1 to 2048) [default: 1024]
    #[arg(long, value_name = "BRANCHES", value_parser = clap::value_parser!(u16).range(1..=2048))]
    pub depth: Option<u16>,
    /// Software branch stacks: how much of the program's CPU time may go into stops [default: 3%]
    #[arg(long, value_name = "PERCENT", value_parser = budget, conflicts_with_all = ["period", "frequency"])]
    pub budget: Option<f64>,
    /// Software branch stacks: what is counted between two stops
    #[arg(long, value_enum, value_name = "WHAT")]
    pub stop_by: Option<StopBy>,
    /// Software branch stacks: step through every Nth foreseen stack and count where the thread
    /// went another way. Slow, and the one way in which killing planish (-9) may take the
    /// program with it: for tests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub check_stacks: Option<u64>,
    /// What to sample, by perf's syntax: -e cycles:u -e '{cpu-clock,page-faults}'; repeatable
    #[arg(short = 'e', long = "event", value_name = "EVENT", long_help = EVENTS_HELP)]
    pub events: Vec<String>,
    /// Sample every so many events; emulated: taken branches [default: 1000], software and clock:
    /// nanoseconds
    #[arg(short = 'c', long = "count", value_name = "PERIOD", conflicts_with = "frequency",
          value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    pub period: Option<u64>,
    /// Sample so many times a second, or `max`; not under emulation [default: 4000]
    #[arg(short = 'F', long = "freq", value_name = "HERTZ", value_parser = frequency)]
    pub frequency: Option<u64>,
    /// Record running processes, until they end, the command ends, or Ctrl-C
    #[arg(short, long, value_name = "PID", value_delimiter = ',', group = "who", value_parser = process)]
    pub pid: Vec<i32>,
    /// Record these threads alone, without what they start
    #[arg(short, long, value_name = "TID", value_delimiter = ',', group = "who", value_parser = thread)]
    pub tid: Vec<i32>,
    /// Record the running processes of a user, by name or number
    #[arg(short, long = "uid", value_name = "USER", group = "who", value_parser = user)]
    pub uid: Option<u32>,
    /// Record the whole system, until the command ends, or Ctrl-C
    #[arg(short, long = "all-cpus", group = "who")]
    pub all_cpus: bool,
    /// Record everything on these CPUs: `0-3,8`
    #[arg(short = 'C', long = "cpu", value_name = "CPULIST", conflicts_with_all = ["pid", "tid", "uid"])]
    pub cpus: Option<String>,
    /// Record these control groups alone (with -a or -C): one for all events, or one for each
    /// event in their order; an empty name is the whole system
    #[arg(short = 'G', long = "cgroup", value_name = "NAME", value_delimiter = ',')]
    pub cgroups: Vec<String>,
    /// Record who called, by frame pointers; beside --call-graph, that one holds
    #[arg(short = 'g')]
    pub frame_pointers: bool,
    /// Record who called: `fp` by frame pointers (under emulation: by following each call),
    /// `dwarf[,SIZE]` with a copy of the stack to unwind later (8192 bytes), `lbr` by the
    /// CPU's branch records
    #[arg(long, value_name = "HOW")]
    pub call_graph: Option<CallGraph>,
    /// Record user registers with each sample: `ax,bx,ip`; `?` lists them
    #[arg(long, value_name = "REGISTERS")]
    pub user_regs: Option<Asked>,
    /// Record all taken branches by the CPU; the same as --branch-filter any
    #[arg(short = 'b', long = "branch-any", conflicts_with = "branch_filter")]
    pub branch_any: bool,
    /// Record branches of these kinds by the CPU: any, any_call, any_ret, ind_call, cond, call …
    /// and u, k, hv
    #[arg(short = 'j', long, value_name = "KINDS")]
    pub branch_filter: Option<BranchFilter>,
    /// Record data addresses
    #[arg(short = 'd', long)]
    pub data: bool,
    /// Children of the program or process are not recorded
    #[arg(short = 'i', long)]
    pub no_inherit: bool,
    /// Record the counts of each thread, at its end
    #[arg(short = 's', long)]
    pub stat: bool,
    /// Clock of the times: realtime, monotonic, monotonic_raw, boottime, tai [default: monotonic]
    #[arg(short = 'k', long, value_name = "CLOCK")]
    pub clockid: Option<Clock>,
    /// Begin to sample so many milliseconds after the program has started; -1: when --control says
    /// `enable`
    #[arg(short = 'D', long, value_name = "MS", allow_negative_numbers = true, value_parser = delay)]
    pub delay: Option<i64>,
    /// Record in which namespaces processes run
    #[arg(long)]
    pub namespaces: bool,
    /// Record context switches, and with -g or --call-graph who was where at each (event cs), for
    /// `planish switches`
    #[arg(long)]
    pub switch_events: bool,
    #[command(flatten)]
    pub streams: StreamArgs,
    #[command(flatten)]
    pub perf: PerfArgs,
    /// How to print the summary; json goes to standard output, and the program's own to standard
    /// error
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Put what the program prints into this file, its first and its last 512 KiB
    #[arg(long, value_name = "FILE")]
    pub program_output: Option<PathBuf>,
    /// Keep nothing of a recording that cannot be written to its end, as of a full disk
    #[arg(long)]
    pub whole: bool,
    /// The program and its arguments; planish's own options stand before it, and `--` may stand
    /// between
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// A number, or the kernel's own limit.
fn frequency(text: &str) -> Result<u64, String> {
    if text == "max" {
        let unknown = || format!("cannot read {}; give a number", plan::HIGHEST_FREQUENCY);
        return plan::highest_frequency().ok_or_else(unknown);
    }
    let number = text.parse().ok().filter(|number| (1..=1_000_000).contains(number));
    number.ok_or_else(|| "it is no number from 1 to 1000000, and not `max`".to_owned())
}

/// A share of CPU time, as `3%` or `3`.
fn budget(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.strip_suffix('%').unwrap_or(text).trim().parse().ok();
    let share =
        number.filter(|number| (0.01..=100.0).contains(number)).map(|number| number / 100.0);
    share.ok_or_else(|| "it is no percentage from 0.01% to 100%".to_owned())
}

fn number_of(text: &str, what: &str) -> Result<i32, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| {
        format!("expected the number of a running {what}, or several with commas between them")
    })
}

/// A process by number.
fn process(text: &str) -> Result<i32, String> {
    number_of(text, "process")
}

/// A thread by number.
fn thread(text: &str) -> Result<i32, String> {
    number_of(text, "thread")
}

/// The delay that ends with a command.
pub const WAIT: i64 = -1;

/// Milliseconds, or -1.
fn delay(text: &str) -> Result<i64, String> {
    let number = text.parse().ok().filter(|number| (WAIT..=u32::MAX.into()).contains(number));
    number.ok_or_else(|| format!("expected milliseconds, 0 to {}, or -1 with --control", u32::MAX))
}

/// A user by number or by the name in /etc/passwd.
fn user(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let number = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(text)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    number.ok_or_else(|| "it is no number, and /etc/passwd has no user of that name".to_owned())
}

impl Args {
    /// Whether something is recorded that planish does not start.
    pub fn attached(&self) -> bool {
        self.all_cpus
            || self.cpus.is_some()
            || !self.pid.is_empty()
            || !self.tid.is_empty()
            || self.uid.is_some()
    }

    /// How callers are to be found.
    pub fn call_chain(&self) -> Option<CallGraph> {
        self.call_graph.or(self.frame_pointers.then_some(CallGraph::FramePointers))
    }

    /// The first option given that only recordings by the kernel have.
    pub fn kernel_option(&self) -> Option<&'static str> {
        self.kernel_options().next()
    }

    /// The first option given that recordings by the kernel have and emulated ones do not.
    pub fn beyond_emulation(&self) -> Option<&'static str> {
        let chains = self.call_chain() == Some(CallGraph::FramePointers);
        self.kernel_options().find(|option| !(chains && matches!(*option, "-g" | "--call-graph")))
    }

    fn kernel_options(&self) -> impl Iterator<Item = &'static str> {
        let given = [
            (!self.events.is_empty(), "-e"),
            (!self.cgroups.is_empty(), "-G"),
            (self.frame_pointers, "-g"),
            (self.call_graph.is_some(), "--call-graph"),
            (self.user_regs.is_some(), "--user-regs"),
            (self.branch_any, "-b"),
            (self.branch_filter.is_some(), "-j"),
            (self.data, "-d"),
            (self.no_inherit, "-i"),
            (self.stat, "-s"),
            (self.clockid.is_some(), "-k"),
            (self.delay.is_some(), "-D"),
            (self.namespaces, "--namespaces"),
            (self.switch_events, "--switch-events"),
        ];
        given
            .into_iter()
            .filter(|(given, _)| *given)
            .map(|(_, option)| option)
            .chain(self.streams.given())
            .chain(self.perf.given())
    }

    /// The first option given that only software branch stacks have.
    pub fn software_option(&self) -> Option<&'static str> {
        let given = [
            (self.depth.is_some(), "--depth"),
            (self.budget.is_some(), "--budget"),
            (self.stop_by.is_some(), "--stop-by"),
            (self.check_stacks.is_some(), "--check-stacks"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, option)| option)
    }

    /// How to look ahead.
    pub fn software_options(&self) -> software::Options {
        let usual = software::Options::default();
        let period = self.period.map(software::Pace::Period);
        let frequency = self.frequency.map(software::Pace::Frequency);
        let budget = self.budget.map(software::Pace::Budget);
        software::Options {
            depth: self.depth.map_or(usual.depth, usize::from),
            pace: budget.or(period).or(frequency).unwrap_or(usual.pace),
            stop_by: match self.stop_by {
                // A period means the same on every machine.
                None if self.period.is_some() => software::StopBy::Clock,
                None => usual.stop_by,
                Some(StopBy::Clock) => software::StopBy::Clock,
                Some(StopBy::Branches) => software::StopBy::Branches,
            },
            check: self.check_stacks,
            no_inherit: self.no_inherit,
        }
    }

    /// Who is to be recorded.
    pub fn target(&self) -> Target {
        if self.all_cpus || self.cpus.is_some() {
            Target::System
        } else if let Some(user) = self.uid {
            Target::User(user)
        } else if !self.tid.is_empty() {
            Target::Threads(self.tid.clone())
        } else if self.pid.is_empty() {
            Target::Command
        } else {
            Target::Processes(self.pid.clone())
        }
    }

    /// How.
    pub fn live_options(&self) -> anyhow::Result<live::Options> {
        let branches = match self.branches {
            Branches::Hardware => live::Branches::Hardware,
            Branches::None => live::Branches::None,
            Branches::Auto | Branches::Software | Branches::Emulated => live::Branches::Auto,
        };
        let sampling = Sampling {
            call_graph: self.call_chain(),
            user_registers: Asked::registers(self.user_regs),
            branch_filter: self.branch_filter.or(self.branch_any.then_some(BranchFilter::ANY)),
            addresses: self.data,
            no_inherit: self.no_inherit,
            thread_counts: self.stat,
            clock: self.clockid,
            delay: self
                .delay
                .and_then(|delay| u64::try_from(delay).ok())
                .filter(|delay| *delay > 0)
                .map(Duration::from_millis),
            wait: self.delay == Some(WAIT),
            namespaces: self.namespaces,
            switch_events: self.switch_events,
            ..Sampling::default()
        };
        let sampling = self.perf.apply(sampling);
        let cpus = self.cpus.as_deref().map(live::cpu_list).transpose()?.unwrap_or_default();
        Ok(live::Options {
            branches,
            rate: self.period.map(Rate::Period).or(self.frequency.map(Rate::Frequency)),
            events: self.events.clone(),
            sampling,
            cpus,
            cgroups: self.cgroups.clone(),
            streaming: self.streams.streaming(),
        })
    }
}
