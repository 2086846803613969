//! What can be said of the work on profiles that exist already?

use super::args::{ProfileFormat, Storage};
use crate::cli::Format;
use profile::operations::CUTOFFS;
use std::path::PathBuf;

/// Arguments of `planish profile show`.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// The profile
    #[arg(value_name = "PROFILE")]
    pub input: PathBuf,
    /// Print at most this many hot functions
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Print this function whole, as LLVM text
    #[arg(long, value_name = "NAME")]
    pub function: Option<String>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Where to print; `-` is standard output
    #[arg(short, long, default_value = "-", value_name = "FILE")]
    pub output: PathBuf,
}

/// How a profile is written.
#[derive(Debug, clap::Args)]
pub struct WriteArgs {
    /// What kind of profile to write [default: that of the first input]
    #[arg(long, value_enum, value_name = "KIND")]
    pub emit: Option<ProfileFormat>,
    #[command(flatten)]
    pub storage: Storage,
    /// Where to write; `-` is standard output
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
}

/// Arguments of `planish profile merge`.
#[derive(Debug, clap::Args)]
pub struct MergeArgs {
    /// Profiles of weight 1
    #[arg(value_name = "PROFILE", required_unless_present = "weighted_input")]
    pub inputs: Vec<PathBuf>,
    /// A profile that counts WEIGHT times
    #[arg(long, value_name = "WEIGHT,PROFILE", value_parser = weighted)]
    pub weighted_input: Vec<(u64, PathBuf)>,
    /// Take profiles without functions for what they are, as long as one has some
    #[arg(long)]
    pub allow_empty: bool,
    /// How to write the sum
    #[command(flatten)]
    pub write: WriteArgs,
}

/// Arguments of `planish profile diff`.
#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    /// The profile to compare with
    #[arg(value_name = "BASE")]
    pub base: PathBuf,
    /// The other profile
    #[arg(value_name = "TEST")]
    pub test: PathBuf,
    /// Print at most this many functions
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Exit with 1 when the sample overlap is below this many percent
    #[arg(long, value_name = "PERCENT")]
    pub min_overlap: Option<f64>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Where to print; `-` is standard output
    #[arg(short, long, default_value = "-", value_name = "FILE")]
    pub output: PathBuf,
}

/// Arguments of `planish profile trim`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true)
    .args(["cold", "cutoff", "min_total", "keep_top", "keep", "drop"]))]
pub struct TrimArgs {
    /// The profile
    #[arg(value_name = "PROFILE")]
    pub input: PathBuf,
    /// Remove functions below the smallest count of 99.9999 % of the samples, as llvm-profgen does
    #[arg(long, conflicts_with = "cutoff")]
    pub cold: bool,
    /// Remove functions below the smallest count of this share in millionths (a cutoff that `show`
    /// prints)
    #[arg(long, value_name = "MILLIONTHS", value_parser = cutoff)]
    pub cutoff: Option<u32>,
    /// Remove functions with a smaller total
    #[arg(long, value_name = "N")]
    pub min_total: Option<u64>,
    /// Keep only this many functions, those with the largest totals
    #[arg(long, value_name = "N")]
    pub keep_top: Option<usize>,
    /// Keep only this function (repeat for more)
    #[arg(long, value_name = "NAME")]
    pub keep: Vec<String>,
    /// Remove this function (repeat for more)
    #[arg(long, value_name = "NAME")]
    pub drop: Vec<String>,
    /// How to write what is left
    #[command(flatten)]
    pub write: WriteArgs,
}

fn weighted(text: &str) -> Result<(u64, PathBuf), String> {
    let (weight, path) =
        text.split_once(',').ok_or("expected WEIGHT,PROFILE, such as 3,run.afdo")?;
    match weight.parse() {
        Ok(weight) if weight > 0 => Ok((weight, PathBuf::from(path))),
        _ => Err(format!("the weight `{weight}` is not a whole number above 0")),
    }
}

fn cutoff(text: &str) -> Result<u32, String> {
    let found = text.parse().ok().filter(|share| CUTOFFS.contains(share));
    found.ok_or_else(|| format!("expected one of {CUTOFFS:?}"))
}
