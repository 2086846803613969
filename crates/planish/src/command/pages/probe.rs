//! `planish pages probe`: which mechanisms work here, by trying.

use super::print_json;
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output::print;
use report::pages::Probed;
use std::path::PathBuf;

/// Try which mechanisms work on this kernel and file system.
///
/// Also measures whether a virtual machine's superpages are backed by superpages of its host, which
/// no file tells. Exit code 1 when file-backed text does not get superpages here.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A folder of the file system to try; a file of 4 MiB is made there and removed
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Superpages whose backing is measured
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    superpages: u16,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &Args, _global: &Global) -> anyhow::Result<u8> {
    let probe = superpages::probe(&args.folder)?;
    let (backing, no_backing) = match superpages::host_backing(args.superpages.into()) {
        Ok(backing) => (Some(backing), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let report = Probed { probe, backing, no_backing };
    match args.format {
        Format::Json => print_json("planish-pages-probe", &report)?,
        Format::Text => print(&report.text(&args.folder))?,
    }
    Ok(if report.probe.file_backed { FINE } else { NEGATIVE })
}
