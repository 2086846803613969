//! `planish pages verify`: a map of every 2 MiB of a process's text.

use super::print_json;
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::command::percent::percent_of_all;
use crate::output::print;
use report::pages::verification;

/// Say for every 2 MiB of a process's text whether it lies on a superpage.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The process
    pid: u32,
    /// Only text of files whose path contains this
    #[arg(long, value_name = "NAME")]
    file: Option<String>,
    /// Exit with 1 when less than this share lies on superpages
    #[arg(long, value_name = "PCT", value_parser = percent_of_all)]
    min: Option<f64>,
    /// What --min is a share of
    #[arg(long, value_enum, default_value_t = Of::Resident)]
    of: Of,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Of {
    /// The text that is mapped in, because the process has run something near it
    Resident,
    /// All text
    Text,
}

pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let found = superpages::verify(args.pid, args.file.as_deref())?;
    match args.format {
        Format::Json => print_json("planish-pages-verify", &found)?,
        Format::Text => print(&verification(&found, global.verbose))?,
    }
    if let Some(why) = &found.no_map {
        eprintln!("planish: there is no map of every 2 MiB: {why}");
    }
    let share = match args.of {
        Of::Resident => found.of_resident_pct,
        Of::Text => found.of_text_pct,
    };
    let missed = args.min.filter(|&min| share < min);
    if let Some(min) = missed {
        eprintln!("planish: {share:.1} % lie on superpages, {min} % are wanted");
    }
    Ok(if missed.is_some() { NEGATIVE } else { FINE })
}
