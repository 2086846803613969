//! `planish kernel time`: how long kernels take with the workload.

use super::machine::{Booted, cpus};
use crate::cli::{FINE, Format, Global, NEGATIVE, UNDECIDED};
use crate::command::INTERRUPTED;
use crate::command::compare::{Bar, CORRECT, stop_flag};
use crate::output::{self, Stream};
use anyhow::bail;
use compare::result::Compared;
use compare::{AnalysisOptions, Correction, Keep, Settings, gate, kept};
use kernel::machine::{BootImage, Initrd, named};
use kernel::time::{Boots, KVM, design, measure, on_the_cpu};
use kernel::{Architecture, Error};
use record::machine::{Execution, Guest};
use std::path::{Path, PathBuf};

/// Compare how long kernels take with a workload, on this machine's CPU by KVM.
///
/// Every kernel boots once a round, in random order, and the workload tells how long each section
/// took by the guest's clock; verdicts are those of `planish compare`. The workload's training and
/// held-out sections are told apart; all ratios are to the first kernel.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish kernel time base=out.base new=out.new --raw runs.jsonl

Exit codes: 0 fine, 1 a kernel is slower than the first over the training or
the held-out sections, 2 wrong usage or input, or a machine failed (the end of
its console is shown), 3 there is no KVM, 4 undecided whether one is slower,
130 interrupted.")]
pub struct Args {
    #[command(flatten)]
    boot: Booted,
    /// Compare the times of an emulator, without KVM; they say nothing about times on a CPU
    #[arg(long)]
    emulated: bool,
    /// Rounds: every kernel boots once in each [default: 30]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: Option<u32>,
    /// Decides the order of the boots; the same seed repeats it [default: 1]
    #[arg(long)]
    seed: Option<u64>,
    /// Differences within plus or minus this many per cent count as none [default: 1]
    #[arg(long, value_name = "PCT")]
    margin: Option<f64>,
    /// How claims on several rows are corrected, as `planish compare` does [default: holm]
    #[arg(long, value_parser = CORRECT)]
    correct: Option<Correction>,
    /// CPUs of the machine, 1 to 8 [default: 1]
    #[arg(long, value_name = "N", value_parser = cpus())]
    cpus: Option<u8>,
    /// The CPU that the kernels see, as qemu's -cpu names them [default: host, all that this one
    /// has]
    #[arg(long, value_name = "MODEL", conflicts_with = "emulated")]
    cpu_model: Option<String>,
    /// Keep every boot's times as JSON lines, which `planish compare show` reads too
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,
    /// Go on with the measurement that the file of --raw holds
    #[arg(long, requires = "raw")]
    resume: bool,
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let ((kernels, architecture), machine) =
        (named(&args.boot.kernels)?, args.boot.machine.machine());
    let initrd = args.boot.initrd.as_deref();
    if kernels.len() < 2 {
        bail!(
            "times are compared: name at least two, the base first. The same kernel under \
             two names tells how noisy this machine is"
        );
    }
    if let Some(margin) = args.margin.filter(|margin| !(*margin > 0.0 && *margin < 100.0)) {
        bail!("--margin {margin}: give a percentage between 0 and 100");
    }
    if !args.emulated && Architecture::of_host() != Some(architecture) {
        bail!(
            "kernels for {} are timed on the CPU by KVM, on a machine with such a processor alone; \
             count with `planish kernel measure`, which needs none, or give --emulated to compare \
             an emulator's times all the same",
            architecture.name()
        );
    }
    let execution = match args.emulated {
        true => Execution::Emulated,
        false => on_the_cpu(Path::new(KVM), args.cpu_model.as_deref().unwrap_or("host"))?,
    };
    if let Some(raw) = &args.raw {
        let inputs = kernels.iter().map(|(_, image)| image.path.as_path()).chain(initrd);
        output::refuse_inputs([raw.as_path()], inputs)?;
    }
    let initrd = Initrd::of(initrd, architecture)?;
    let with = args.boot.modules.each(&initrd, &kernels)?;
    let guest = |((_, image), with): (&(String, BootImage), &Option<Initrd>)| {
        let initrd = with.as_ref().unwrap_or(&initrd);
        let guest = machine.guest(image, &initrd.path, "all", execution.clone());
        Guest { cpus: args.cpus.unwrap_or(1), ..guest }
    };
    let guests: Vec<Guest> = kernels.iter().zip(&with).map(guest).collect();
    let keep = Keep { raw: args.raw.as_deref(), resume: args.resume.into() };
    let boots = Boots::guests(&guests, kept::digest(&initrd.path)?, machine.timeout(), keep);
    let margin = args.margin.map(|per_cent| per_cent / 100.0);
    let settings = Settings { rounds: args.rounds, seed: args.seed, margin, ..Settings::default() };
    let named: Vec<(String, PathBuf)> =
        kernels.into_iter().map(|(name, image)| (name, image.path)).collect();
    let design = design(&named, &settings)?;
    let correction = args.correct.unwrap_or_default();
    let options = AnalysisOptions { correction, ..AnalysisOptions::default() };
    let timed = match measure(boots, design, &options, &*stop_flag()?, &mut Bar::new(global)) {
        Err(Error::Compare(error @ compare::Error::Interrupted(_))) => {
            eprintln!("planish: {error}");
            return Ok(INTERRUPTED);
        }
        other => other?,
    };
    match args.boot.format {
        Format::Json => output::print_json(&timed)?,
        Format::Text => output::print(&report::kernel::time::text(&timed, Stream::Output.style()))?,
    }
    let slower = timed.sums().any(Compared::is_slower);
    let open = timed.sums().any(|sum| gate::may_be_slower(sum, &timed.comparison));
    Ok(match (slower, open) {
        _ if timed.comparison.interrupted => INTERRUPTED,
        (true, _) => NEGATIVE,
        (false, true) => UNDECIDED,
        (false, false) => FINE,
    })
}
