//! `planish kernel check`: are the flags where they belong, and nowhere else?

use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output;
use kernel::check::check;
use report::Form;
use std::path::PathBuf;

/// Check in a build that the flags for profiles reached vmlinux and its modules, and nothing else.
///
/// Reads the commands that the kernel's build keeps beside its objects, and the markers and the
/// block map of vmlinux. A whole build is not needed: three objects show whether the edits work.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  make LLVM=-22 kernel/sched/core.o arch/x86/entry/vdso/vclock_gettime.o \\
      arch/x86/boot/compressed/string.o
  planish kernel check .
  planish kernel check /build --format json        # make O=/build

Exit codes: 0 fine, 1 flags are missing or where they do not belong, 2 wrong
usage or input.")]
pub struct Args {
    /// The directory of the build: the tree, or what O= said
    #[arg(value_name = "BUILD")]
    build: PathBuf,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let found = check(&args.build)?;
    let code = if found.wrong.is_empty() { FINE } else { NEGATIVE };
    match args.format {
        Format::Json => output::print_json(&Form::first("planish-kernel-check", found))?,
        Format::Text => output::print(&report::kernel::check::text(&found, global.verbose))?,
    }
    Ok(code)
}
