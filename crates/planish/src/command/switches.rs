//! `planish switches`: how long threads and stacks of a recording waited, and for what reason.

use crate::cli::{FINE, Format, Global};
use crate::input::STREAM_BYTES;
use crate::output;
use anyhow::Context as _;
use report::switches as tell;
use std::path::PathBuf;
use switches::{KernelSymbols, analyse};

/// Say how long threads and stacks waited, from the context switches of a recording.
///
/// A thread goes off its CPU because it waits for something (synchronisation) or because another
/// runs instead (preemption). For the stacks, record with `planish record --switch-events -g`, as
/// root or with CAP_PERFMON.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The recording: a file, the directory form, or `-` for the pipe form on standard input
    #[arg(default_value = "perf.data", value_name = "PERF.DATA")]
    pub input: PathBuf,
    /// How many threads and stacks to print, those that waited longest first; 0: all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let path = args.input.display();
    let input = if args.input.as_os_str() == "-" {
        perfdata::Input::from_pipe(beside::given::Bounded::new(
            std::io::stdin().lock(),
            STREAM_BYTES,
        ))?
    } else {
        perfdata::Input::open(&args.input)?
    };
    // Without the right to read it, or on another system, kernel frames stay addresses.
    let kernel =
        std::fs::read_to_string("/proc/kallsyms").map(|text| KernelSymbols::parse(&text)).ok();
    let found = analyse(&input, kernel.as_ref()).with_context(|| path.to_string())?;
    match args.format {
        Format::Text => output::print(&tell::text(&found, args.top))?,
        Format::Json => output::print_json(&tell::json(&found, args.top))?,
    }
    if !global.quiet {
        tell::notes(&found).iter().for_each(|note| eprintln!("{note}"));
    }
    Ok(FINE)
}
