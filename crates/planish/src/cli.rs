//! The command line: one verb a step, flags that hold for all of them, and the exit codes.

use crate::command;
use crate::output::{self, Stream};
use anyhow::Context;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use record::streaming::Spread;
use std::ffi::OsString;
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
  report       Print the result of a finished run again

Find out why:
  stat         Count events of a program, of processes or of the system
  switches     Show where threads wait and for how long, from recorded context switches
  pages        Put program text on superpages, and check what that does

Kernels and live patches:
  kernel       Build, record and lay out Linux; give an older tree the options for it
  livepatch    Say which functions change when some functions do, for live patches

The steps by hand:
  record       Record where a program spends its time, with branch stacks, into perf.data
  aggregate    Count branches, ranges and samples per image; add up counts of many runs
  profile      Make a sample profile for clang, gcc or rustc; show, merge, diff, trim, match
  layout       Make a layout for clang, linkers and BOLT; verify, show and check it
  build        Build a program as planish.toml says, with or without a profile

For your shell: completions, man

{options}{after-help}";

const AFTER_HELP: &str = "\
Exit codes: 0 fine, 1 the finding is negative, 2 wrong usage or bad input, 3 this machine
lacks something, 4 undecided, 130 interrupted. `planish COMMAND --help` tells more.";

/// Makes programs faster by laying out their code after how they really run, and proves what it
/// gained.
#[derive(Debug, Parser)]
#[command(name = "planish", version, about, after_help = AFTER_HELP, max_term_width = 100)]
#[command(help_template = HELP)]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

/// Reads the command line. `-z5` is perf's spelling of `-z=5`, which clap has no word for.
///
/// # Errors
/// The exit code, after what there is to say was said: what is wrong, or the help that was asked
/// for.
pub fn parse() -> Result<Cli, u8> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let first = Cli::try_parse_from(&words);
    let own = match &first {
        Ok(Cli { verb: Verb::Record(args), .. }) => words.len() - args.command.len(),
        Ok(_) => 0,
        Err(_) => words.iter().take_while(|word| *word != "--").count(),
    };
    let read = match registers_apart(&words, own) {
        Some(words) => Cli::try_parse_from(&words).or_else(|error| respelled(words, error)),
        None => first.or_else(|error| respelled(words.clone(), error)),
    };
    read.map_err(|error| told(error, &words))
}

fn told(error: clap::Error, words: &[OsString]) -> u8 {
    // The message repeats words, of which clap itself drops parts: it is made once more of words
    // that can be shown.
    let shown: Vec<OsString> = words
        .iter()
        .map(|word| report::visible(&word.to_string_lossy()).into_owned().into())
        .collect();
    let error =
        if shown == words { error } else { Cli::try_parse_from(&shown).err().unwrap_or(error) };
    let stream = if error.use_stderr() { Stream::Error } else { Stream::Output };
    let rendered = error.render();
    let text =
        if stream.style().colour { rendered.ansi().to_string() } else { rendered.to_string() };
    // A stream that takes no more is told of when the program ends.
    let _ = stream.text(&text);
    u8::try_from(error.exit_code()).unwrap_or(BAD_INPUT)
}

/// Tries again with `=` in the `-zN` of `record`, where its first digit is what was not understood.
fn respelled(words: Vec<OsString>, error: clap::Error) -> Result<Cli, clap::Error> {
    let unknown = |error: &clap::Error| match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) if error.kind() == ErrorKind::UnknownArgument => {
            Some(word.clone())
        }
        _ => None,
    };
    let digit = unknown(&error).filter(|word| word.starts_with('-') && word.len() == 2);
    let digit = digit.and_then(|word| word.chars().nth(1)).filter(char::is_ascii_digit);
    let Some((at, level)) = digit.and_then(|digit| level_at_once(&words, digit)) else {
        return Err(error);
    };
    let with =
        |spelling: String| {
            let spelled = words.iter().enumerate();
            Cli::try_parse_from(spelled.map(|(index, word)| {
                if index == at { spelling.clone().into() } else { word.clone() }
            }))
        };
    // Another word may have the same digit and be what is wrong.
    if with("-z".to_owned()).is_err_and(|other| unknown(&other) == unknown(&error)) {
        return Err(error);
    }
    if level.bytes().all(|byte| byte.is_ascii_digit()) {
        return with(format!("-z={level}"));
    }
    let said =
        format!("-z{level}: expected -z, or -z=LEVEL or -zLEVEL with a level from 1 to 22\n");
    Err(clap::Error::raw(ErrorKind::InvalidValue, said))
}

/// The words with `=` in the `-IREGISTERS` of `record`, where there is one among the first `own`.
/// Without it clap takes the registers for short options, of which it may know all.
fn registers_apart(words: &[OsString], own: usize) -> Option<Vec<OsString>> {
    let apart = |word: &OsString| {
        let registers = word.to_str()?.strip_prefix("-I").filter(|rest| !rest.is_empty())?;
        let known = registers.parse::<command::record::Asked>().is_ok();
        known.then(|| OsString::from(format!("-I={registers}")))
    };
    let changed: Vec<Option<OsString>> = words.iter().take(own).map(apart).collect();
    if changed.iter().all(Option::is_none) {
        return None;
    }
    let changed = changed.into_iter().chain(std::iter::repeat(None));
    Some(
        words
            .iter()
            .zip(changed)
            .map(|(word, apart)| apart.unwrap_or_else(|| word.clone()))
            .collect(),
    )
}

/// The first word of `record`, before a `--`, that is `-z` and something that begins with this
/// digit: where it stands, and what follows the `-z`.
fn level_at_once(words: &[OsString], digit: char) -> Option<(usize, String)> {
    let verbs = Cli::command();
    let mut after = words.iter().enumerate().skip(1).take_while(|(_, word)| *word != "--");
    after
        .find(|(_, word)| verbs.find_subcommand(word).is_some())
        .filter(|(_, word)| *word == "record")?;
    after.find_map(|(index, word)| {
        let level = word.to_str()?.strip_prefix("-z")?;
        level.starts_with(digit).then(|| (index, level.to_owned()))
    })
}

/// Flags that every command takes.
#[derive(Clone, Debug, clap::Args)]
pub struct Global {
    /// Print errors only
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

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of it")]
enum Verb {
    /// Say what this machine and a binary can do, and how to fix what is missing
    Doctor(command::doctor::Args),
    /// Record where a program spends its time, with branch stacks, into perf.data
    Record(command::record::Args),
    /// Count events of a program, of processes or of the system
    Stat(command::stat::Args),
    /// Show where threads wait and for how long, from recorded context switches
    Switches(command::switches::Args),
    /// Count branches, ranges and samples per image; add up counts of many runs
    Aggregate(command::aggregate::Args),
    /// Make a sample profile for clang, gcc or rustc; show, merge, diff, trim, match
    Profile(command::profile::Args),
    /// Make a layout for clang, linkers and BOLT; verify, show and check it
    Layout(command::layout::Args),
    /// Write a planish.toml to fill in
    Init(command::init::Args),
    /// Build a program as planish.toml says, with or without a profile
    Build(command::build::Args),
    /// Measure variants in turns: faster, slower, layout luck, nothing, or undecided
    Compare(Box<command::compare::Args>),
    /// Run a compiler, keep its objects, take kept ones
    #[command(hide = true)]
    Compiler(command::compiler::Args),
    /// Time training, and record it as suits the time it takes
    #[command(hide = true)]
    Train(command::train::Args),
    /// Put program text on superpages, and check what that does
    Pages(command::pages::Args),
    /// Build, record, rebuild, measure and report, all from planish.toml
    Optimize(command::optimize::Args),
    /// Say which functions change when some functions do, for live patches
    Clones(command::livepatch::Args),
    /// Build, record and lay out Linux; give an older tree the options for it
    Kernel(command::kernel::Args),
    /// Print the result of a finished run again
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
            Verb::Stat(args) => command::stat::run(&args, global),
            Verb::Switches(args) => command::switches::run(&args, global),
            Verb::Aggregate(args) => command::aggregate::run(&args, global),
            Verb::Profile(args) => command::profile::run(args, global),
            Verb::Layout(args) => command::layout::run(args, global),
            Verb::Init(args) => command::init::run(args, global),
            Verb::Build(args) => command::build::run(args, global),
            Verb::Compare(args) => command::compare::run(*args, global),
            Verb::Compiler(args) => command::compiler::run(&args),
            Verb::Train(args) => command::train::run(args, global),
            Verb::Pages(args) => command::pages::run(args, global),
            Verb::Optimize(args) => command::optimize::run(args, global),
            Verb::Clones(args) => command::livepatch::run(&args, global),
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
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// All commands that do something by themselves, by their words.
    fn commands(command: &clap::Command, words: &str, found: &mut BTreeSet<String>) {
        let mut below = command.get_subcommands().filter(|sub| sub.get_name() != "help").peekable();
        if below.peek().is_none() || !command.is_subcommand_required_set() && !words.is_empty() {
            found.insert(words.to_owned());
        }
        for sub in below {
            commands(sub, format!("{words} {}", sub.get_name()).trim(), found);
        }
    }

    #[test]
    fn the_help_lists_every_command_once_and_fits_a_screen() {
        let help = Cli::command().render_help().to_string();
        assert!(help.lines().count() <= 40, "{help}");
        for sub in Cli::command().get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let line = match sub.get_name() {
                "completions" | "man" => continue,
                name => format!("  {name:<12} {}\n", sub.get_about().unwrap()),
            };
            assert_eq!(help.matches(&line).count(), 1, "{line}{help}");
        }
    }

    #[test]
    fn the_list_of_what_only_reads_names_every_command() {
        let list = include_str!("../tests/hostile/commands.txt");
        let lines = list.lines().filter(|line| !line.starts_with('#'));
        let named: BTreeSet<String> =
            lines.filter_map(|line| Some(line.split('|').nth(1)?.trim().to_owned())).collect();
        let mut there = BTreeSet::new();
        commands(&Cli::command(), "", &mut there);
        assert_eq!(
            named, there,
            "tests/hostile/commands.txt must say of each whether it reads, runs or writes"
        );
        let mut dry = BTreeSet::new();
        with_option(&Cli::command(), "", "dry_run", &mut dry);
        let tried = |command: &String| {
            let of = |line: &str| line.split('|').nth(1).map(str::trim) == Some(command.as_str());
            list.lines().any(|line| of(line) && line.contains("--dry-run"))
        };
        assert!(
            dry.len() >= 5 && dry.iter().all(tried),
            "{dry:?}: each --dry-run is tried in the hostile directory"
        );
    }

    /// The commands that have an option.
    fn with_option(
        command: &clap::Command,
        words: &str,
        option: &str,
        found: &mut BTreeSet<String>,
    ) {
        if command.get_arguments().any(|argument| argument.get_id() == option) {
            found.insert(words.to_owned());
        }
        for sub in command.get_subcommands() {
            with_option(sub, format!("{words} {}", sub.get_name()).trim(), option, found);
        }
    }

    /// The arguments that name a file, as far as their type says so: command and argument.
    fn named_files(command: &clap::Command, words: &str, found: &mut BTreeSet<(String, String)>) {
        let path = clap::value_parser!(std::path::PathBuf).type_id();
        let paths = command
            .get_arguments()
            .filter(|argument| argument.get_value_parser().type_id() == path);
        found.extend(paths.map(|argument| (words.to_owned(), argument.get_id().to_string())));
        for sub in command.get_subcommands() {
            named_files(sub, format!("{words} {}", sub.get_name()).trim(), found);
        }
    }

    #[test]
    fn the_list_of_what_bombs_are_given_to_names_every_argument_that_is_a_file() {
        let list = include_str!("../tests/bombs/arguments.txt");
        let lines = list.lines().filter(|line| !line.starts_with('#'));
        let listed: BTreeSet<(String, String)> = lines
            .filter_map(|line| {
                let mut cells = line.split('|').skip(1).map(|cell| cell.trim().to_owned());
                Some((cells.next()?, cells.next()?))
            })
            .collect();
        let mut there = BTreeSet::new();
        named_files(&Cli::command(), "", &mut there);
        assert!(there.len() > 50, "{there:?}");
        let missing: Vec<_> = there.difference(&listed).collect();
        assert!(
            missing.is_empty(),
            "tests/bombs/arguments.txt must say what becomes of {missing:?}"
        );
    }
}
