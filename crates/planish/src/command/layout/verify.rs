//! `planish layout verify` and `check`: does a program have the layout, would a compiler take the
//! file.

use super::{Source, from, is_uncounted};
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output::{print, print_json, screen};
use anyhow::{Context, bail};
use image::Image;
use layout::verify::{Applied, verify};
use layout::write::check;
use report::layout::VerifyResult;
use std::path::PathBuf;

/// Arguments of `planish layout verify`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub from: Source,
    /// The program that was compiled or linked with the layout
    #[arg(long, required = true, value_name = "FILE")]
    pub new: Option<PathBuf>,
    /// Take a binary in which nothing was counted for laid out, in place of an error: for one of
    /// several images of a project
    #[arg(long)]
    pub allow_empty: bool,
    /// Functions were ordered, their blocks were not (symbol and section orders)
    #[arg(long)]
    pub functions: bool,
    /// Print at most this many deviations
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Arguments of `planish layout check`.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// The cc profile
    #[arg(value_name = "FILE")]
    pub input: PathBuf,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Computes the layout again, which the same inputs give, and looks for it in the new program.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let Some(new) = &args.new else {
        bail!("--new FILE is needed: the program that was linked with the layout")
    };
    let image = Image::open(new)?;
    let result = match from(&args.from, !args.functions, global) {
        Err(error) if args.allow_empty && is_uncounted(&error) => VerifyResult::nothing(new),
        plan => {
            let plan = plan?;
            let map = image::blocks::read(&image)?;
            let applied = if args.functions { Applied::Functions } else { Applied::Sections };
            let found = verify(&plan.cfg, &plan.layout, &image, &map, applied, args.top)?;
            VerifyResult::of(&found, new)
        }
    };
    match args.format {
        Format::Json => print_json(&result)?,
        Format::Text => print(&report::layout::verification(&result, screen()))?,
    }
    Ok(if result.applied { FINE } else { NEGATIVE })
}

/// Prints what is wrong with a cc profile; nothing where nothing is.
pub fn check(args: &CheckArgs, global: &Global) -> anyhow::Result<u8> {
    let path = args.input.display();
    let bytes = crate::input::read(&args.input)?;
    let text = String::from_utf8(bytes)
        .with_context(|| format!("{path}: expected the text of a cc profile"))?;
    let findings = check::text(&text);
    match args.format {
        Format::Json => print_json(&report::layout::check_json(&findings))?,
        Format::Text if findings.is_empty() && !global.quiet => {
            print(&format!("{}: fine\n", report::visible(&path.to_string())))?;
        }
        Format::Text => print(&report::layout::check_text(&args.input, &findings))?,
    }
    let heeded = findings.iter().all(|finding| finding.severity == check::Severity::Newer);
    Ok(if heeded { FINE } else { NEGATIVE })
}
