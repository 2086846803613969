//! `planish build`: builds the program of planish.toml, with or without a profile, or checks a
//! build that used one.

use super::{INTERRUPTED, steps};
use crate::cli::{FINE, Format, Global};
use crate::output;
use build::project::Asking;
use build::verified::Verified;
use image::Image;
use std::path::{Path, PathBuf};

/// Build a program as planish.toml says, with or without a profile.
///
/// With --verify nothing is built: it is checked that BINARY could use the profile (build IDs and
/// code differ from the baseline's, and the profile's functions are there).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration
    #[arg(value_name = "planish.toml", default_value = "planish.toml")]
    pub config: PathBuf,
    /// Use this profile
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Relink in the layout that `planish layout --prefix PREFIX` wrote; objects of the last rebuild
    /// that it says nothing about are reused [profile by default: that of the last rebuild]
    #[arg(long, value_name = "PREFIX", conflicts_with = "verify")]
    pub layout: Option<PathBuf>,
    /// Where to put the program [default: .planish/NAME.base, with a profile .planish/NAME.opt,
    /// with a layout .planish/NAME.layout]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the step, run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Check a build instead
    #[arg(long, requires_all = ["binary", "baseline", "profile"])]
    pub verify: bool,
    /// The rebuilt program (with --verify)
    #[arg(long, value_name = "FILE", requires = "verify")]
    pub binary: Option<PathBuf>,
    /// The program the profile was recorded on (with --verify)
    #[arg(long, value_name = "FILE", requires = "verify")]
    pub baseline: Option<PathBuf>,
    /// How to print what --verify finds
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Runs the command.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    if let (true, Some(binary), Some(baseline), Some(profile)) =
        (args.verify, &args.binary, &args.baseline, &args.profile)
    {
        return check(binary, baseline, profile, args.format, global);
    }
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

fn check(
    binary: &Path,
    baseline: &Path,
    profile: &Path,
    format: Format,
    global: &Global,
) -> anyhow::Result<u8> {
    let (base, opt) = (Image::open(baseline)?, Image::open(binary)?);
    let bytes = crate::input::read(profile)?;
    let found = Verified::of(&base, &opt, (profile, &bytes), global.threads())?;
    match format {
        Format::Json => output::print_json(&found)?,
        Format::Text => output::print(&(found.told() + "\n"))?,
    }
    if !global.quiet {
        found.warnings().iter().for_each(|warning| eprintln!("warning: {warning}"));
    }
    Ok(FINE)
}
