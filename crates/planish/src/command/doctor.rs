//! `planish doctor`: what can this machine do, what can these binaries do, and what is the next
//! step where they cannot?

use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output::{self, Stream};
use doctor::State;
use std::path::PathBuf;

/// Say what this machine and a binary can do, and how to fix what is missing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish doctor
  planish doctor ./app ./libapp.so --format json")]
pub struct Args {
    /// Binaries to look at: what is missing in them for a profile
    pub files: Vec<PathBuf>,
    /// How to print the findings
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Looks, prints, and ends with 0 when nothing needed is missing, else 1.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let mut report = doctor::examine(&args.files);
    if global.quiet {
        report.findings.retain(|finding| finding.state == State::Missing);
    }
    match args.format {
        Format::Json => output::print_json(&report)?,
        Format::Text => {
            let style = Stream::Output.style();
            output::print(&report::doctor::findings(&report.findings, style))?;
        }
    }
    Ok(if report.ready { FINE } else { NEGATIVE })
}
