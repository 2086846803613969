//! `planish kernel build`: run make with a profile or a layout, for the objects that it speaks of.

use crate::cli::{FINE, Format, Global};
use crate::output;
use crate::progress::Ticker;
use kernel::build::Wanted;
use kernel::make::{Make, Request};
use report::Form;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Build a kernel, with a profile or a layout where one is given.
///
/// Runs make in a build directory that has a .config. With a profile or a layout only the objects
/// are built anew that hold samples or laid out functions, and both are copied into the build under
/// names with a hash of their content, since the kernel's build compiles again when a command
/// changes and not when a profile does. A profile that does not belong to the build is refused.
/// make's output goes to planish/make.log in the build directory.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish kernel build linux-6.12 --build out  # with out/.config: to record
  planish kernel build linux-6.12 --build out \\
      --profile kernel.afdo --first-round
  planish kernel build linux-6.12 --build out \\
      --profile second.afdo --layout kernel
  planish kernel build linux-6.12 --build out --dry-run   # what make is told

Exit codes: 0 fine, 2 wrong usage or input, or make failed.")]
pub struct Args {
    /// The top directory of the Linux sources, prepared
    #[arg(value_name = "TREE")]
    tree: PathBuf,
    /// The directory of the build, with a .config; make's O= [default: TREE]
    #[arg(long, value_name = "DIR")]
    build: Option<PathBuf>,
    /// The sample profile
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Use the profile even if another compiler, or another major release, built the kernel it was
    /// recorded on
    #[arg(long, requires = "profile")]
    any_compiler: bool,
    /// The profile was recorded on a kernel built without one: its flow-sensitive discriminators
    /// are not used
    #[arg(long, requires = "profile")]
    first_round: bool,
    /// Split cold parts from functions even without a layout (PROPELLER_CLANG keeps them whole for
    /// the block map)
    #[arg(long, requires = "profile")]
    split: bool,
    /// The layout: what `planish layout --prefix PREFIX` wrote
    #[arg(long, value_name = "PREFIX")]
    layout: Option<PathBuf>,
    /// Build every object with the profile and the layout, not only those that they speak of
    #[arg(long)]
    whole: bool,
    #[command(flatten)]
    pub make: MakeArgs,
    /// Print the make command and run nothing; the profile and the layout are put where make reads
    /// them
    #[arg(long)]
    dry_run: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Targets and further variables of make [default: the boot image (bzImage, or Image for arm64),
    /// vmlinux, and modules where the configuration has some]
    #[arg(last = true, value_name = "MAKE")]
    targets: Vec<String>,
}

/// How make is called.
#[derive(Clone, Debug, clap::Args)]
pub struct MakeArgs {
    /// make's LLVM=: the release of clang and lld [default: the newest from 19 on that is
    /// installed]
    #[arg(long, value_name = "-N", allow_hyphen_values = true)]
    pub llvm: Option<String>,
    /// make's CC=, where it is more than the clang of --llvm, such as 'ccache clang-22'
    #[arg(long, value_name = "COMMAND")]
    pub cc: Option<String>,
    /// How many jobs make runs [default: one per CPU]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<std::num::NonZeroUsize>,
}

impl MakeArgs {
    /// As the library has it.
    pub fn make(&self) -> Make {
        Make { llvm: self.llvm.clone(), cc: self.cc.clone(), jobs: self.jobs }
    }
}

const SCHEMA: &str = "planish-kernel-build";

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let wanted = Wanted {
        tree: args.tree.clone(),
        build: args.build.as_ref().unwrap_or(&args.tree).clone(),
        request: Request {
            profile: args.profile.clone(),
            first_round: args.first_round,
            split: args.split,
            layout: args.layout.clone(),
            whole: args.whole,
        },
        any_compiler: args.any_compiler,
        make: args.make.make(),
        targets: args.targets.clone(),
    };
    let planned = wanted.plan()?;
    if !global.quiet {
        planned.warnings.iter().for_each(|warning| eprintln!("planish: {warning}"));
    }
    let words = std::iter::once("make").chain(planned.words.iter().map(String::as_str));
    let command = words.map(build::quoted).collect::<Vec<_>>().join(" ");
    if args.dry_run {
        match args.format {
            Format::Json => {
                let command = BTreeMap::from([("command", command)]);
                output::print_json(&Form::first(SCHEMA, command))?;
            }
            Format::Text => output::print(&(command + "\n"))?,
        }
        return Ok(FINE);
    }
    let ticker = Ticker::new("make", global.quiet);
    let built = planned.run(command, &mut |line| ticker.tell(line))?;
    drop(ticker);
    match args.format {
        Format::Json => output::print_json(&Form::first(SCHEMA, built))?,
        Format::Text if !global.quiet => eprint!("{}", report::kernel::build::text(&built)),
        Format::Text => {}
    }
    Ok(FINE)
}
