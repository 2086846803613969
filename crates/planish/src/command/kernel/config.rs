//! `planish kernel config`: what a configuration needs, and whether one has it.

use super::arch::Arch;
use crate::cli::{Choice, FINE, Format, Global, NEGATIVE};
use crate::output;
use anyhow::bail;
use kernel::config::Config;
use kernel::requirements::{Checked, Finding, Listed, Purpose, Requirement, fragment, settings};
use kernel::tree::Tree;
use report::Form;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Print what a configuration needs for profiles.
///
/// A fragment is printed for scripts/kconfig/merge_config.sh, with the reason for each line.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    flatten_help = true,
    after_help = "\
Examples:
  planish kernel config linux-6.12 > profile.config
  planish kernel config linux-6.12 --arch arm64 --small > small.config
  planish kernel config check linux-6.12          # linux-6.12/.config
  planish kernel config check linux-6.12 out/.config --for autofdo"
)]
pub struct Args {
    #[command(subcommand)]
    tool: Option<Tool>,
    #[command(flatten)]
    print: PrintArgs,
}

/// What can be done with a configuration beside writing one.
#[derive(Debug, clap::Subcommand)]
enum Tool {
    Check(CheckArgs),
}

/// Arguments of printing what is needed.
#[derive(Debug, clap::Args)]
struct PrintArgs {
    /// The top directory of the Linux sources
    #[arg(required = true, value_name = "TREE")]
    tree: Option<PathBuf>,
    /// Print a whole small configuration, for allnoconfig, that boots planish's workload under
    /// emulation
    #[arg(long, conflicts_with = "format")]
    small: bool,
    /// The processor that the kernel is for
    #[arg(long, value_enum, default_value_t = Arch::X86_64)]
    arch: Arch,
    #[command(flatten)]
    wanted: Wanted,
}

/// Check a .config against all that profiles need.
///
/// The whole list is looked at: also what the compiler decides, what collides, and what nobody has
/// tried.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes: 0 fine, 1 the .config lacks what it must have or holds what
collides, 2 wrong usage or input.")]
struct CheckArgs {
    /// The top directory of the Linux sources
    #[arg(value_name = "TREE")]
    tree: PathBuf,
    /// The configuration to check [default: TREE/.config]
    #[arg(value_name = "CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    wanted: Wanted,
}

/// For what, and how it is printed.
#[derive(Debug, clap::Args)]
struct Wanted {
    /// What the kernel is built for
    #[arg(long = "for", value_parser = PURPOSE, default_value = "both", value_name = "WHAT")]
    purpose: Purpose,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

impl Wanted {
    /// As the library has it, for a tree that has the options.
    fn purpose(&self, tree: &Path) -> anyhow::Result<Purpose> {
        Tree::open(tree)?.has_options()?;
        Ok(self.purpose)
    }
}

/// The purposes.
const PURPOSE: Choice<Purpose> = Choice(&[
    ("autofdo", Purpose::Autofdo, "Sample profiles"),
    ("propeller", Purpose::Propeller, "Layouts of basic blocks"),
    ("both", Purpose::Both, "Layouts on top of sample profiles"),
]);

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    match (&args.tool, &args.print.tree) {
        (Some(Tool::Check(args)), _) => check(args, global),
        (None, Some(tree)) => print(tree, &args.print),
        (None, None) => bail!("TREE is needed: the top directory of the Linux sources"),
    }
}

fn print(tree: &Path, args: &PrintArgs) -> anyhow::Result<u8> {
    let (purpose, architecture) = (args.wanted.purpose(tree)?, args.arch.architecture());
    match args.wanted.format {
        _ if args.small => output::print(&kernel::workload::small_config(purpose, architecture))?,
        Format::Text => output::print(&fragment(purpose, architecture))?,
        Format::Json => {
            let settings: Vec<Listed> =
                settings(purpose, architecture).map(Requirement::listed).collect();
            let settings = BTreeMap::from([("settings", settings)]);
            output::print_json(&Form::first("planish-kernel-config", settings))?;
        }
    }
    Ok(FINE)
}

/// Holds a configuration against the whole list.
fn check(args: &CheckArgs, global: &Global) -> anyhow::Result<u8> {
    let purpose = args.wanted.purpose(&args.tree)?;
    let usual = || args.tree.join(".config");
    let file = &args.config.clone().unwrap_or_else(usual);
    if !file.is_file() {
        bail!(
            "{}: there is no configuration; make one first: make LLVM=-22 defconfig",
            file.display()
        );
    }
    let config = Config::read(file)?;
    let checked = Checked::of(&config, purpose, file.display().to_string());
    let code = if checked.fine { FINE } else { NEGATIVE };
    if args.wanted.format == Format::Json {
        output::print_json(&Form::first("planish-kernel-config-check", checked))?;
        return Ok(code);
    }
    let line = |f: &Finding| format!("{:<7} {}: {}\n", f.listed.weight, f.wish, f.listed.why);
    output::print(&checked.findings.iter().map(line).collect::<String>())?;
    if checked.findings.is_empty() && !global.quiet {
        output::print(&format!("{}: has all that profiles need\n", file.display()))?;
    }
    Ok(code)
}
