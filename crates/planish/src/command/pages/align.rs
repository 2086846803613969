//! `planish pages align`: rewrites the offsets of a program or library.

use super::{and_more, print_json, size};
use crate::cli::{FINE, Format, Global};
use crate::output::print;
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
            let before = superpages::percent(done.eligible_before, done.text_bytes);
            let filled = match done.filled_bytes {
                0 => String::new(),
                bytes => format!(", {} of filler taken in", size(bytes)),
            };
            print(&format!(
                "{}: {:.1} % of {} text can lie on superpages (before: {before:.1} %), file {:+} \
                 bytes{filled}\n",
                super::shown(&done.path),
                done.eligible_pct,
                size(done.text_bytes),
                done.growth_bytes
            ))?;
            let users = superpages::users(&args.output);
            if let Some(first) = users.first() {
                let more = and_more(users.len() - 1);
                eprintln!(
                    "planish: in use by {} ({}){more}, which keep the old file until they start \
                     again",
                    first.name, first.pid
                );
            }
        }
    }
    Ok(FINE)
}
