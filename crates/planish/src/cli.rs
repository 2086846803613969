//! The command line: one verb a step, flags that hold for all of them, and the exit codes.

mod choice;
mod words;

pub use choice::Choice;
pub use words::parse;

use crate::command;
use crate::output;
use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use record::streaming::Spread;
use std::io::Write as _;

/// Exit code of a run that did what it was asked and found nothing bad.
pub const FINE: u8 = 0;
/// Exit code where the finding is negative: slower, missing, different.
pub const NEGATIVE: u8 = 1;
/// Exit code of wrong usage and bad input.
pub const BAD_INPUT: u8 = 2;
/// Exit code where this machine lacks what it takes: a program, a right, hardware.
pub const LACKING: u8 = 3;
/// Exit code where what was asked is neither shown nor ruled out.
pub const UNDECIDED: u8 = 4;

/// The whole of `planish --help`, grouped by what somebody wants; a test holds it to the commands.
const HELP: &str = "\
{about}

{usage-heading} {usage}

Make a program faster:
  init         Write a planish.toml to fill in
  optimize     Build, record, rebuild, measure and report, all from planish.toml
  doctor       Say what this machine and a binary can do, and how to fix what is missing

Find out whether it is real:
  compare      Measure variants in turns: faster, slower, layout luck, nothing, or undecided

Find out why:
  report       Show where a recorded program spends its time and waits; print a finished run's result again
  top          Show where running programs spend their time, while they run
  stat         Count events of a program, of processes or of the system
  pages        Put program text on superpages, and check what that does

Kernels and live patches:
  kernel       Build, record and lay out Linux; give an older tree the options for it
  livepatch    Say which functions change when some functions do, for live patches

The steps by hand:
  record       Record where a program spends its time, with branch stacks, into perf.data
  aggregate    Count branches, ranges and samples per image; add up counts of many runs
  profile      Make a sample profile for clang, gcc or rustc; show, merge, diff, trim, match
  layout       Make a layout for clang, linkers and BOLT; verify, show and check it
  fleet        Merge counts of many machines, each recording once; say what counts files hold
  build        Build a program as planish.toml says, with or without a profile

For your shell: completions, man

{options}{after-help}";

const AFTER_HELP: &str = "\
Exit codes: 0 fine, 1 negative finding, 2 bad usage or input, 3 machine lacks
something, 4 undecided, 130 interrupted. `planish COMMAND --help` tells more.";

/// The version, with the commit where the build names one by PLANISH_COMMIT: scripts/build.sh does in
/// a checkout. Nothing is asked at build time, so that one source gives one binary.
fn version() -> &'static str {
    static VERSION: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    VERSION.get_or_init(|| {
        let number = env!("CARGO_PKG_VERSION");
        match option_env!("PLANISH_COMMIT").filter(|commit| !commit.is_empty()) {
            Some(commit) => format!("{number} ({commit})"),
            None => number.to_owned(),
        }
    })
}

/// Makes programs faster by laying out their code as it is used in practice, and proves what it
/// gained.
#[derive(Debug, Parser)]
#[command(name = "planish", version = version(), about, after_help = AFTER_HELP, max_term_width = 100)]
#[command(help_template = HELP)]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

/// Flags that every command takes.
#[derive(Clone, Debug, clap::Args)]
pub struct Global {
    /// Print errors and the result only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print more about what was done
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// Threads to work with [default: one per CPU]
    #[arg(long, global = true, value_name = "N", value_parser = Threads::count)]
    threads: Option<Threads>,
}

/// What `--threads` says: how many, or, to `record`, what each is for. One option has to have one
/// type for both.
#[derive(Clone, Debug)]
pub enum Threads {
    /// So many.
    Count(u16),
    /// One for each of these.
    Spread(Spread),
}

impl Threads {
    fn count(text: &str) -> Result<Threads, String> {
        let count = text.parse().ok().filter(|count| (1..=1024).contains(count));
        count.map(Threads::Count).ok_or_else(|| "it is no number from 1 to 1024".to_owned())
    }

    /// For `record`.
    pub fn spread(text: &str) -> Result<Threads, String> {
        text.parse()
            .map(Threads::Spread)
            .map_err(|wrong: record::settings::Wrong| wrong.to_string())
    }
}

impl Global {
    /// The number of threads asked for, or one per CPU.
    pub fn threads(&self) -> usize {
        match &self.threads {
            Some(Threads::Count(count)) => usize::from(*count),
            _ => std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get),
        }
    }
}

/// How a command prints its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Lines for people
    #[default]
    Text,
    /// One JSON object
    Json,
}

/// The commands; what each says of itself stands at its arguments.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of it")]
enum Verb {
    Doctor(command::doctor::Args),
    Record(command::record::Args),
    Top(Box<command::top::Args>),
    Stat(command::stat::Args),
    Aggregate(command::aggregate::Args),
    Fleet(command::fleet::Args),
    Profile(command::profile::Args),
    Layout(command::layout::Args),
    Init(command::init::Args),
    Build(command::build::Args),
    Compare(Box<command::compare::Args>),
    /// Run a compiler, keep its objects, take kept ones
    #[command(hide = true)]
    Compiler(command::compiler::Args),
    /// Time training, and record it as suits the time it takes
    #[command(hide = true)]
    Train(command::train::Args),
    /// Run a command with its set-up, a server and tear-down around it
    #[command(hide = true)]
    Workload(Box<command::workload::Args>),
    Pages(command::pages::Args),
    Optimize(command::optimize::Args),
    Livepatch(command::livepatch::Args),
    Kernel(command::kernel::Args),
    Report(command::report::Args),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write man pages into a directory
    Man {
        /// The directory
        #[arg(value_name = "DIR")]
        directory: std::path::PathBuf,
    },
}

impl Cli {
    /// Runs the command; the result is the exit code.
    pub fn run(self) -> anyhow::Result<u8> {
        let global = &self.global;
        match self.verb {
            Verb::Doctor(args) => command::doctor::run(&args, global),
            Verb::Record(args) => command::record::run(args, global),
            Verb::Top(args) => command::top::run(&args, global),
            Verb::Stat(args) => command::stat::run(&args, global),
            Verb::Aggregate(args) => command::aggregate::run(&args, global),
            Verb::Fleet(args) => command::fleet::run(&args, global),
            Verb::Profile(args) => command::profile::run(args, global),
            Verb::Layout(args) => command::layout::run(args, global),
            Verb::Init(args) => command::init::run(args, global),
            Verb::Build(args) => command::build::run(args, global),
            Verb::Compare(args) => command::compare::run(*args, global),
            Verb::Compiler(args) => command::compiler::run(&args),
            Verb::Train(args) => command::train::run(args, global),
            Verb::Workload(args) => command::workload::run(*args),
            Verb::Pages(args) => command::pages::run(args, global),
            Verb::Optimize(args) => command::optimize::run(args, global),
            Verb::Livepatch(args) => command::livepatch::run(&args, global),
            Verb::Kernel(args) => command::kernel::run(&args, global),
            Verb::Report(args) => command::report::run(args, global),
            Verb::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Cli::command(), "planish", &mut script);
                output::raw().write_all(&script)?;
                Ok(FINE)
            }
            Verb::Man { directory } => {
                let named =
                    || format!("{}: no man pages can be written there", directory.display());
                std::fs::create_dir_all(&directory).with_context(named)?;
                clap_mangen::generate_to(Cli::command(), &directory).with_context(named)?;
                Ok(FINE)
            }
        }
    }
}

#[cfg(test)]
mod tests;
