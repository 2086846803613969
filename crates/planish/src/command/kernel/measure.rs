//! `planish kernel measure`: what kernels cost in counts, section by section of the workload.

use super::machine::{Booted, watcher};
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::command::INTERRUPTED;
use crate::output::{self, Stream};
use kernel::cost::Counts;
use kernel::machine::{Initrd, named};
use std::time::Instant;

/// Boot kernels under emulation and count what their code costs: instructions, taken branches,
/// misses of caches.
///
/// The machine is deterministic, time being counted in instructions, so the numbers are exact:
/// measuring again gives the same. They are no times; `planish kernel time` measures these. The
/// workload's training and held-out sections are told apart; all ratios are to the first kernel.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish kernel measure base=out.base autofdo=out.autofdo
  planish kernel measure base.bzImage new.bzImage --initrd my.cpio --format json
  planish kernel measure base=out.base new=out.new --module ext4 \\
      --module base=./old/my.ko --module new=./my.ko

Exit codes: 0 fine, 1 the last kernel takes more branches or fetches more lines
anew than the first, 2 wrong usage or input, or a machine failed (the end of
its console is shown), 130 interrupted.")]
pub struct Args {
    #[command(flatten)]
    boot: Booted,
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let ((kernels, architecture), machine) =
        (named(&args.boot.kernels)?, args.boot.machine.machine());
    let initrd = Initrd::of(args.boot.initrd.as_deref(), architecture)?;
    let with = args.boot.modules.each(&initrd, &kernels)?;
    crate::command::handle_interrupts();
    let mut found = Counts::default();
    for ((name, image), with) in kernels.into_iter().zip(&with) {
        let began = Instant::now();
        let mut watch = watcher(&format!("measure {name}"), global.quiet);
        let own = with.as_ref().unwrap_or(&initrd);
        let whole = found.boot(name.clone(), &image, &machine, own, &mut watch);
        drop(watch);
        if !whole? {
            eprintln!("planish: interrupted; the machine was ended");
            return Ok(INTERRUPTED);
        }
        if !global.quiet {
            let seconds = began.elapsed().as_secs_f64();
            eprintln!("{name}: {} sections, {seconds:.1} s", found.sections.len());
        }
    }
    match args.boot.format {
        Format::Json => output::print_json(&found)?,
        Format::Text => {
            output::print(&report::kernel::counts::text(&found, &[], Stream::Output.style()))?
        }
    }
    Ok(if found.is_worse() { NEGATIVE } else { FINE })
}
