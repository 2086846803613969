//! `planish build`: builds the program of planish.toml, with or without a profile; `planish build
//! verify` checks a build that used one.

use super::{INTERRUPTED, steps};
use crate::cli::{FINE, Format, Global};
use crate::output;
use build::project::Asking;
use build::verified::Verified;
use image::Image;
use report::Form;
use std::path::PathBuf;

/// Build a program as planish.toml says, with or without a profile.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, flatten_help = true)]
#[command(after_help = "\
Examples:
  planish build
  planish build --profile app.afdo -o app.new
  planish build verify --binary app.new --baseline app --profile app.afdo")]
pub struct Args {
    #[command(subcommand)]
    tool: Option<Tool>,
    #[command(flatten)]
    make: MakeArgs,
}

/// What can be done with a build beside making it.
#[derive(Debug, clap::Subcommand)]
enum Tool {
    /// Check that a rebuild used its profile
    Verify(VerifyArgs),
}

/// Arguments of building.
#[derive(Debug, clap::Args)]
struct MakeArgs {
    /// The configuration
    #[arg(value_name = "planish.toml", default_value = "planish.toml")]
    config: PathBuf,
    /// Use this profile
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Relink in the layout that `planish layout --prefix PREFIX` wrote; objects of the last rebuild
    /// that it says nothing about are reused [profile by default: that of the last rebuild]
    #[arg(long, value_name = "PREFIX")]
    layout: Option<PathBuf>,
    /// Where to put the program [default: .planish/NAME.base, with a profile .planish/NAME.opt,
    /// with a layout .planish/NAME.layout]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the step, run nothing
    #[arg(long)]
    dry_run: bool,
}

/// Check that a rebuild used its profile: the profile's functions are there, and build IDs and code
/// differ from the baseline's.
#[derive(Debug, clap::Args)]
struct VerifyArgs {
    /// The rebuilt program
    #[arg(long, value_name = "FILE")]
    binary: PathBuf,
    /// The program the profile was recorded on
    #[arg(long, value_name = "FILE")]
    baseline: PathBuf,
    /// The profile
    #[arg(long, value_name = "FILE")]
    profile: PathBuf,
    /// The profile that the compiler was given, where that is one of several images [default: the
    /// same]
    #[arg(long, value_name = "FILE")]
    used: Option<PathBuf>,
    /// Take a profile without functions for what it is: of an image of which nothing was run
    #[arg(long)]
    allow_empty: bool,
    /// How to print what is found
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Runs the command.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    match args.tool {
        Some(Tool::Verify(args)) => verify(&args, global),
        None => make(&args.make, global),
    }
}

fn make(args: &MakeArgs, global: &Global) -> anyhow::Result<u8> {
    let asking = if args.dry_run { Asking::Reading } else { Asking::Running };
    let project = super::optimize::open(&args.config, asking)?;
    if let Some(path) = &args.profile {
        // The compiler reads it, once for each file.
        crate::input::regular(path)?;
    }
    let (profile, layout) = (args.profile.as_deref(), args.layout.as_deref());
    let (plan, kept) = project.build(profile, layout, args.output.as_deref())?;
    if args.dry_run {
        print!("{}", plan.describe(&[]));
        return Ok(FINE);
    }
    if !steps::run(&plan, &project.directory, false, global)? {
        return Ok(INTERRUPTED);
    }
    if !global.quiet {
        eprintln!("wrote {}", project.directory.join(&kept).display());
    }
    Ok(FINE)
}

fn verify(args: &VerifyArgs, global: &Global) -> anyhow::Result<u8> {
    let (base, opt) = (Image::open(&args.baseline)?, Image::open(&args.binary)?);
    let bytes = crate::input::read(&args.profile)?;
    let nothing = args.allow_empty
        && profile::format::read(&bytes).is_ok_and(|profile| profile.functions.is_empty());
    let used = args.used.as_deref();
    let found = match nothing {
        true => Verified::without_samples(&base, &opt),
        false => Verified::of(&base, &opt, (&args.profile, &bytes), used, global.threads())?,
    };
    match args.format {
        Format::Json => output::print_json(&Form::first("planish-build-verify", &found))?,
        Format::Text => output::print(&(found.told() + "\n"))?,
    }
    if !global.quiet {
        found.warnings().iter().for_each(|warning| eprintln!("warning: {warning}"));
    }
    Ok(FINE)
}
