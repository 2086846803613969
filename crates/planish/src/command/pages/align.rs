//! `planish pages align`: rewrites the offsets of a program or library.

use super::print_json;
use crate::cli::{FINE, Format, Global};
use crate::output::print;
use report::pages::{aligned, in_use};
use std::path::PathBuf;
use superpages::Writes;

/// Rewrite the offsets of a program or library so that its text can lie on superpages.
///
/// Addresses, the build ID, symbols and debug information stay as they are. The output may be the
/// input: programs that run from it keep the old file until they are started again.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The program or library
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Where the result goes; written beside its place and renamed when whole
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Extend the text over the linker's filler where that completes a superpage
    #[arg(long)]
    fill: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let done = superpages::align(&args.input, &args.output, args.fill, Writes::Large)?;
    match args.format {
        Format::Json => print_json("planish-pages-align", &done)?,
        Format::Text if global.quiet => {}
        Format::Text => {
            print(&aligned(&done))?;
            if let Some(users) = in_use(&superpages::users(&args.output)) {
                eprintln!("planish: {users}");
            }
        }
    }
    Ok(FINE)
}
