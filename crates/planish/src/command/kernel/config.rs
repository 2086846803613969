//! `planish kernel config`: what a configuration needs, and whether one has it.

use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output;
use anyhow::bail;
use kernel::config::Config;
use kernel::requirements::{self, Purpose, Requirement, Weight};
use kernel::tree::{AUTOFDO, PROPELLER, Tree};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Print what a configuration needs for profiles, or check a .config.
///
/// Without --check a fragment is printed for scripts/kconfig/merge_config.sh, with the reason for
/// each line. With it a .config is held against the whole list: also what the compiler decides,
/// what collides, and what nobody has tried.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish kernel config linux-6.12 > profile.config
  planish kernel config linux-6.12 --check                        # linux-6.12/.config
  planish kernel config linux-6.12 --check build/.config --for autofdo --format json

Exit codes: 0 fine, 1 the .config lacks what it must have or holds what collides, 2 wrong usage or \
                        input.")]
pub struct Args {
    /// The top directory of the Linux sources
    #[arg(value_name = "TREE")]
    tree: PathBuf,
    /// What the kernel is built for
    #[arg(long = "for", value_enum, default_value_t = For::Both, value_name = "WHAT")]
    purpose: For,
    /// Check this configuration [default: TREE/.config]
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    check: Option<Option<PathBuf>>,
    /// Print a whole small configuration, for allnoconfig, that boots planish's workload under
    /// emulation
    #[arg(long, conflicts_with_all = ["check", "format"])]
    small: bool,
    /// The machine that the kernel is for
    #[arg(long, value_enum, default_value_t = Arch::X86_64)]
    arch: Arch,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Arch {
    /// PC
    #[value(name = "x86-64", alias = "x86_64")]
    X86_64,
    /// Arm, 64 bit: not supported yet
    #[value(alias = "aarch64")]
    Arm64,
}

/// The purpose, as the command line spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum For {
    /// Sample profiles
    Autofdo,
    /// Layouts of basic blocks
    Propeller,
    /// Layouts on top of sample profiles
    Both,
}

const ARM64: &str = "arm64 is not supported yet; kernels for x86-64 are";

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    if args.arch == Arch::Arm64 {
        bail!(ARM64);
    }
    let tree = Tree::open(&args.tree)?;
    if let Some(lacking) = [AUTOFDO, PROPELLER].iter().find(|option| !tree.offers(option)) {
        bail!(
            "{0}: has no option {lacking}; run first: planish kernel prepare {0}",
            args.tree.display()
        );
    }
    let purpose = match args.purpose {
        For::Autofdo => Purpose::Autofdo,
        For::Propeller => Purpose::Propeller,
        For::Both => Purpose::Both,
    };
    match &args.check {
        Some(file) => {
            check(&file.clone().unwrap_or_else(|| args.tree.join(".config")), purpose, args, global)
        }
        None if args.small => {
            output::print(
                &(kernel::workload::SMALL_CONFIG.to_owned()
                    + "\n"
                    + &requirements::fragment(purpose)),
            )?;
            Ok(FINE)
        }
        None => fragment(purpose, args.format),
    }
}

fn one(requirement: &Requirement) -> Value {
    json!({
        "option": requirement.option,
        "wanted": requirement.line(),
        "weight": weight(requirement),
        "why": requirement.why,
    })
}

fn weight(requirement: &Requirement) -> &'static str {
    match requirement.weight {
        Weight::Must => "must",
        Weight::Should => "should",
    }
}

fn fragment(purpose: Purpose, format: Format) -> anyhow::Result<u8> {
    match format {
        Format::Text => output::print(&requirements::fragment(purpose))?,
        Format::Json => {
            let settings: Vec<Value> = requirements::settings(purpose).map(one).collect();
            let object =
                json!({"schema": "planish-kernel-config", "version": 1, "settings": settings});
            output::print_json(&object)?;
        }
    }
    Ok(FINE)
}

fn check(
    file: &std::path::Path,
    purpose: Purpose,
    args: &Args,
    global: &Global,
) -> anyhow::Result<u8> {
    if !file.is_file() {
        bail!(
            "{}: there is no configuration; make one first: make LLVM=-22 defconfig",
            file.display()
        );
    }
    let config = Config::read(file)?;
    if config.is_on("ARM64") {
        bail!("{}: {ARM64}", file.display());
    }
    let unmet = requirements::unmet(&config, purpose);
    let must = unmet.iter().filter(|requirement| requirement.weight == Weight::Must).count();
    if args.format == Format::Json {
        let findings: Vec<Value> = unmet
            .iter()
            .map(|requirement| {
                let mut finding = one(requirement);
                finding["found"] = json!(config.value(requirement.option));
                finding
            })
            .collect();
        let object = json!({
            "schema": "planish-kernel-config-check",
            "version": 1,
            "config": file.display().to_string(),
            "fine": must == 0,
            "findings": findings,
        });
        output::print_json(&object)?;
    } else {
        let lines = unmet.iter().map(|requirement| {
            format!(
                "{:<7} {}: {}\n",
                weight(requirement),
                wish(requirement, &config),
                requirement.why
            )
        });
        output::print(&lines.collect::<String>())?;
        if unmet.is_empty() && !global.quiet {
            output::print(&format!("{}: has all that profiles need\n", file.display()))?;
        }
    }
    Ok(if must == 0 { FINE } else { NEGATIVE })
}

/// `CONFIG_KASAN=y, should be off`.
fn wish(requirement: &Requirement, config: &Config) -> String {
    let name = requirement.option;
    let found = match config.value(name) {
        Some(value) => format!("CONFIG_{name}={value}"),
        None => format!("CONFIG_{name} is not set"),
    };
    let wanted = match requirement.wanted {
        requirements::Wanted::On => "should be y".to_owned(),
        requirements::Wanted::Off => "should be off".to_owned(),
        requirements::Wanted::AtLeast(least) => format!("should be at least {least}"),
    };
    format!("{found}, {wanted}")
}
