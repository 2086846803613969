//! `planish pages check`: which bytes of text can lie on superpages, and why the others cannot.

use super::print_json;
use crate::cli::{BAD_INPUT, FINE, Format, Global, NEGATIVE};
use crate::command::percent::percent_of_all;
use crate::output::print;
use report::pages::Checked;
use std::path::PathBuf;
use superpages::Assessment;

/// Where programs and libraries usually lie.
const USUAL: [&str; 8] = ["/usr", "/opt", "/bin", "/sbin", "/lib", "/lib64", "/snap", "/srv"];

/// Say which bytes of text can lie on superpages and why the others cannot.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Programs and libraries; with --system, folders to walk instead of the usual ones
    #[arg(value_name = "FILE", required_unless_present = "system")]
    files: Vec<PathBuf>,
    /// One table of all programs and libraries with at least 2 MiB of text
    #[arg(long)]
    system: bool,
    /// Exit with 1 when less than this share of the text of a file is eligible
    #[arg(long, value_name = "PCT", value_parser = percent_of_all)]
    min: Option<f64>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let mut unreadable = None;
    let mut other_elf = None;
    let files: Vec<Assessment> = if args.system {
        let usual = || USUAL.iter().map(PathBuf::from).filter(|folder| folder.is_dir()).collect();
        let folders = if args.files.is_empty() { usual() } else { args.files.clone() };
        let found = superpages::find(&folders, superpages::SUPERPAGE);
        let asked = found.files.len();
        // A file that goes away or changes meanwhile is counted as unreadable.
        let files: Vec<Assessment> =
            found.files.iter().filter_map(|path| superpages::check(path).ok()).collect();
        unreadable = Some(found.unreadable + asked - files.len());
        other_elf = Some(found.other_elf);
        files
    } else {
        let mut files = Vec::new();
        for path in &args.files {
            match superpages::check(path) {
                Ok(file) => files.push(file),
                Err(error) if args.files.len() == 1 => return Err(error.into()),
                // The others are told all the same.
                Err(error) => {
                    eprintln!("planish: {error}");
                    unreadable = Some(unreadable.unwrap_or(0) + 1);
                }
            }
        }
        files
    };
    let report = Checked::of(files, unreadable, other_elf);
    match args.format {
        Format::Json => print_json("planish-pages-check", &report)?,
        Format::Text if args.system => print(&report.table())?,
        Format::Text => print(&report.details(global.verbose))?,
    }
    let below = |min: f64| match args.system {
        true => report.eligible_pct < min,
        false => report.files.iter().any(|file| file.eligible_pct < min),
    };
    if !args.system && report.unreadable.is_some() {
        return Ok(BAD_INPUT);
    }
    Ok(if args.min.is_some_and(below) { NEGATIVE } else { FINE })
}
