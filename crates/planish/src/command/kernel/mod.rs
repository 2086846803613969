//! `planish kernel`: Linux trees that are built after a profile.

mod arch;
mod build;
mod check;
mod compare;
mod config;
mod here;
mod layout;
mod machine;
mod measure;
mod optimize;
mod prepare;
mod profile;
mod record;
mod time;
mod together;
mod workload;

use crate::cli::Global;

/// Build Linux kernels with a profile and a layout, from the source tree to the numbers.
///
/// Linux has CONFIG_AUTOFDO_CLANG and CONFIG_PROPELLER_CLANG since 6.13. `prepare` gives them to
/// 6.1, 6.6 and 6.12, with the same options and the same variables of make, so what is written
/// about the newer kernels holds there too. `optimize` goes the whole way under emulation; each of
/// its steps is a command of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    tool: Tool,
}

const EXAMPLES: &str = "\
All of it, with a small configuration and planish's workload, for x86-64 (or
arm64 with --arch arm64), with clang and lld 19 or newer:
  planish kernel optimize linux-6.12 --output-dir out

With your own configuration, machines and load:
  planish kernel prepare linux-6.12        # once; a second run does nothing
  cd linux-6.12
  make LLVM=-22 defconfig
  planish kernel config . > profile.config
  scripts/kconfig/merge_config.sh -m .config profile.config
  make LLVM=-22 olddefconfig
  planish kernel config check .            # what is missing or conflicts
  planish kernel build . && planish kernel check .
Install and boot it, then record while it works:
  planish kernel record --hardware -o perf.data -- sleep 60
  planish kernel profile . perf.data -o kernel.afdo
  planish kernel build . --profile kernel.afdo --first-round";

// Each is described by its arguments.
#[derive(Debug, clap::Subcommand)]
enum Tool {
    Prepare(prepare::Args),
    Config(config::Args),
    Check(check::Args),
    Build(build::Args),
    Workload(workload::Args),
    Record(record::Args),
    Profile(profile::Args),
    Layout(layout::Args),
    Measure(measure::Args),
    Time(time::Args),
    Here(here::Args),
    Compare(Box<compare::Args>),
    Optimize(optimize::Args),
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    match &args.tool {
        Tool::Prepare(args) => prepare::run(args, global),
        Tool::Config(args) => config::run(args, global),
        Tool::Check(args) => check::run(args, global),
        Tool::Build(args) => build::run(args, global),
        Tool::Workload(args) => workload::run(args, global),
        Tool::Record(args) => record::run(args, global),
        Tool::Profile(args) => profile::run(args, global),
        Tool::Layout(args) => layout::run(args, global),
        Tool::Measure(args) => measure::run(args, global),
        Tool::Time(args) => time::run(args, global),
        Tool::Here(args) => here::run(args, global),
        Tool::Compare(args) => compare::run(args, global),
        Tool::Optimize(args) => optimize::run(args, global),
    }
}
