//! The options of `planish record`, with perf's spelling and meaning where perf has them.

use super::continuous_args::ContinuousArgs;
use super::perf_args::PerfArgs;
use super::sample_args::SampleArgs;
use super::software_args::SoftwareArgs;
use super::stream_args::StreamArgs;
use super::target_args::TargetArgs;
use crate::cli::{Choice, Format};
use record::Branches;
use record::live::{self, Rate};
use record::plan;
use record::request::Request;
use record::settings::Wrong;
use record::software::Pace;
use std::ffi::OsString;
use std::path::PathBuf;

/// Where branch stacks come from.
const BRANCHES: Choice<Branches> = Choice(&[
    (
        "auto",
        Branches::Auto,
        "CPU branch records if available, else software stacks; plain samples if another option \
         needs them or neither works here",
    ),
    (
        "hardware",
        Branches::Hardware,
        "CPU branch records (Intel LBR, AMD BRS and LBRv2, Arm BRBE), or an error",
    ),
    (
        "software",
        Branches::Software,
        "Software stacks: an interpreter looks ahead from each stop; x86-64 programs at nearly \
         native speed, without special permission",
    ),
    (
        "emulated",
        Branches::Emulated,
        "Branches of an emulated CPU (qemu-user): any machine, exact, 5 to 25 times slower",
    ),
    ("none", Branches::None, "No branch stacks: clock samples"),
]);

const EVENTS_HELP: &str = "\
What to sample, by perf's syntax; repeatable. Without it: CPU branch records if available, else software \
                           stacks, else clock samples.

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
/// Under emulation, other programs that the program starts run natively and are not recorded;
/// planish says how many there were.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish record -- ./app input                 # branch stacks, for a profile
  planish record -e cpu-clock -g -- ./app input # clock samples with call chains
  planish record --branches=emulated -c 1000 -- ./app input  # on any machine
  planish record -a -- sleep 10                 # all CPUs for ten seconds
  planish report -i perf.data                   # look at it")]
pub struct Args {
    /// Where to write; `-`: to standard output, in pipe form
    #[arg(short, long, default_value = "perf.data", value_name = "FILE")]
    pub output: PathBuf,
    /// Where branch stacks come from
    #[arg(long, value_parser = BRANCHES, default_value = "auto")]
    pub branches: Branches,
    #[command(flatten)]
    pub software: SoftwareArgs,
    /// What to sample, by perf's syntax: -e cycles:u -e '{cpu-clock,page-faults}'; repeatable
    #[arg(short = 'e', long = "event", value_name = "EVENT", long_help = EVENTS_HELP)]
    pub events: Vec<String>,
    /// Take a sample every PERIOD events; under emulation, taken branches [default: 1000]; with
    /// software stacks or the clock, nanoseconds
    #[arg(short = 'c', long = "count", value_name = "PERIOD", conflicts_with = "frequency",
          value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    pub period: Option<u64>,
    /// Take this many samples a second: 4000, 4k, or `max`; not under emulation [default: 4000]
    #[arg(short = 'F', long = "freq", value_name = "HERTZ", value_parser = frequency)]
    pub frequency: Option<u64>,
    #[command(flatten)]
    pub who: TargetArgs,
    #[command(flatten)]
    pub samples: SampleArgs,
    #[command(flatten)]
    pub streams: StreamArgs,
    #[command(flatten)]
    pub perf: PerfArgs,
    /// How to print the summary; json goes to standard output, and the program's own output to
    /// standard error
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Write the program's output to this file: its first and its last 512 KiB
    #[arg(long, value_name = "FILE")]
    pub program_output: Option<PathBuf>,
    /// An exit code of the program that is as good as 0; repeat it for more
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(i32).range(1..=255))]
    pub exit_code: Vec<i32>,
    /// When the recording is done, look around in it (`planish report -i`); without a terminal,
    /// print what weighs most
    #[arg(long, conflicts_with_all = ["format", "switch_output"])]
    pub report: bool,
    /// Delete a recording that cannot be completed, for example because the disk is full
    #[arg(long)]
    pub whole: bool,
    /// The program and its arguments; put planish's own options before it; you may put `--` between
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<OsString>,
    #[command(flatten)]
    pub continuous: ContinuousArgs,
}

/// A number, also in thousands (`4k`), or the kernel's own limit.
fn frequency(text: &str) -> Result<u64, String> {
    if text.eq_ignore_ascii_case("max") {
        let unknown = || format!("cannot read {}; give a number", plan::HIGHEST_FREQUENCY);
        return plan::highest_frequency().ok_or_else(unknown);
    }
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1000),
        None => (text, 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    let number = number.filter(|number| (1..=1_000_000).contains(number));
    number.ok_or_else(|| "it is no number from 1 to 1000000 (or 1000k), and not `max`".to_owned())
}

impl Args {
    /// The same as values.
    pub fn request(&self) -> Result<Request, Wrong> {
        let pace = self.period.map(Pace::Period).or(self.frequency.map(Pace::Frequency));
        let sampling = self.samples.sampling();
        Ok(Request {
            branches: self.branches,
            target: self.who.target(),
            has_command: !self.command.is_empty(),
            given: self.given(),
            software: self.software.options(pace, sampling.no_inherit),
            live: live::RecordOptions {
                rate: self.period.map(Rate::Period).or(self.frequency.map(Rate::Frequency)),
                events: self.events.clone(),
                sampling: self.perf.apply(sampling),
                cpus: self.who.cpus()?,
                cgroups: self.who.cgroups.clone(),
                streaming: self.streams.streaming(),
                ..live::RecordOptions::default()
            },
        })
    }

    /// The options given that not every way of recording has, as they are typed.
    fn given(&self) -> Vec<&'static str> {
        let own = [(!self.events.is_empty(), "-e"), (!self.who.cgroups.is_empty(), "-G")];
        let all = own.into_iter().chain(self.samples.given()).chain(self.streams.given());
        let all = all.chain(self.perf.given()).chain(self.software.given());
        all.filter(|(given, _)| *given).map(|(_, option)| option).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_of_hertz_or_kilohertz() {
        for (text, rate) in [("99", 99), ("4k", 4000), ("10K", 10_000), ("1000k", 1_000_000)] {
            assert_eq!(frequency(text), Ok(rate));
        }
        for wrong in ["0", "k", "4kk", "4 k", "1001k", "18446744073709551615k", "-1", "often"] {
            assert!(frequency(wrong).is_err(), "{wrong}");
        }
    }
}
