//! `planish pages warm`: reads text into superpages of the page cache.

use super::print_json;
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output::print;
use report::pages::{WarmedAll, warmed};
use std::path::{Path, PathBuf};
use superpages::{Loading, Warmed};

/// Read the text of files or of a process into superpages of the page cache.
///
/// Exit code 1 when eligible text stays in small pages, with the processes that hold it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Programs, whose libraries are warmed with them, libraries, or numbers of processes
    #[arg(value_name = "FILE|PID", required = true)]
    what: Vec<String>,
    /// Only the files named, not their libraries
    #[arg(long)]
    alone: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let mut files = Vec::new();
    for what in &args.what {
        files.extend(files_of(what, args.alone)?);
    }
    let report = WarmedAll::of(superpages::warm_all(files)?);
    match args.format {
        Format::Json => print_json("planish-pages-warm", &report)?,
        Format::Text => {
            for file in report.files.iter().filter(|file| shown(file, global)) {
                print(&warmed(file))?;
            }
        }
    }
    if report.eligible_bytes == 0 {
        eprintln!(
            "planish: no text of these files can lie on superpages; planish pages check says why"
        );
        return Ok(NEGATIVE);
    }
    Ok(if report.whole { FINE } else { NEGATIVE })
}

fn shown(file: &Warmed, global: &Global) -> bool {
    !global.quiet && file.eligible_bytes > 0 || !file.is_whole() || global.verbose
}

/// The files that a word of the command line stands for. A file of that name comes before a process
/// of that number.
pub fn files_of(what: &str, alone: bool) -> anyhow::Result<Vec<PathBuf>> {
    let path = Path::new(what);
    match what.parse() {
        Ok(pid) if !path.exists() => {
            let (files, gone) = superpages::text_files(pid)?;
            if gone > 0 {
                eprintln!(
                    "planish: process {pid} runs text of {gone} files that were replaced; it must \
                     be started again"
                );
            }
            Ok(files)
        }
        _ if alone || !path.exists() => Ok(vec![path.to_owned()]),
        _ => Ok(superpages::files_of(path, None, Loading::Looked)?),
    }
}
