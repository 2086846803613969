//! `planish kernel measure --time`: how long kernels take with the workload.

use super::machine::cpus;
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::command::INTERRUPTED;
use crate::command::compare::{Bar, Correct, stop_flag, terminal_style};
use crate::output;
use anyhow::bail;
use compare::{Keep, Options, Settings, kept};
use kernel::Error;
use kernel::machine::{Initrd, Machine};
use kernel::time::{Boots, KVM, design, measure, on_the_cpu};
use record::machine::{Execution, Guest};
use std::path::{Path, PathBuf};

/// Options of `--time`.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Time")]
pub struct TimeArgs {
    /// Compare times in place of counts: boot the kernels again and again in random order, on the
    /// CPU by KVM
    #[arg(long)]
    pub time: bool,
    /// Compare the times of an emulator, without KVM; they say nothing about times on a CPU
    #[arg(long, requires = "time")]
    emulated_time: bool,
    /// Rounds: every kernel boots once in each [default: 30]
    #[arg(long, requires = "time", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: Option<u32>,
    /// Decides the order of the boots; the same seed repeats it [default: 1]
    #[arg(long, requires = "time")]
    seed: Option<u64>,
    /// Differences within plus or minus this many per cent count as none [default: 1]
    #[arg(long, requires = "time", value_name = "PCT")]
    margin: Option<f64>,
    /// How claims on several rows are corrected, as `planish compare` does [default: holm]
    #[arg(long, requires = "time", value_enum)]
    correct: Option<Correct>,
    /// CPUs of the machine, 1 to 8 [default: 1]
    #[arg(long, requires = "time", value_name = "N", value_parser = cpus())]
    cpus: Option<u8>,
    /// The CPU that the kernels see, as qemu's -cpu names them [default: host, all that this one
    /// has]
    #[arg(long, requires = "time", value_name = "MODEL", conflicts_with = "emulated_time")]
    cpu_model: Option<String>,
    /// Keep every boot's times as JSON lines, which `planish compare --from` reads too
    #[arg(long, requires = "time", value_name = "FILE")]
    raw: Option<PathBuf>,
    /// Go on with the measurement that the file of --raw holds
    #[arg(long, requires = "raw")]
    resume: bool,
}

/// Measures the kernels' times, each with its name and boot image, the base first.
pub fn run(
    kernels: &[(String, PathBuf)],
    initrd: Option<&Path>,
    machine: &Machine,
    args: &TimeArgs,
    format: Format,
    global: &Global,
) -> anyhow::Result<u8> {
    if kernels.len() < 2 {
        bail!(
            "--time compares kernels: name at least two, the base first. The same kernel under \
             two names tells how noisy this machine is"
        );
    }
    if let Some(margin) = args.margin.filter(|margin| !(*margin > 0.0 && *margin < 100.0)) {
        bail!("--margin {margin}: give a percentage between 0 and 100");
    }
    let execution = match args.emulated_time {
        true => Execution::Emulated,
        false => on_the_cpu(Path::new(KVM), args.cpu_model.as_deref().unwrap_or("host"))?,
    };
    if let Some(raw) = &args.raw {
        let inputs = kernels.iter().map(|(_, image)| image.as_path()).chain(initrd);
        output::refuse_inputs([raw.as_path()], inputs)?;
    }
    let initrd = Initrd::of(initrd)?;
    let guest = |(_, image): &(String, PathBuf)| {
        let guest = machine.guest(image, &initrd.path, "all", execution.clone());
        Guest { cpus: args.cpus.unwrap_or(1), ..guest }
    };
    let boots = Boots {
        guests: kernels.iter().map(guest).collect(),
        initrd: kept::digest(&initrd.path)?,
        emulated: args.emulated_time,
        timeout: machine.timeout(),
        keep: Keep { raw: args.raw.as_deref(), resume: args.resume },
    };
    let margin = args.margin.map(|per_cent| per_cent / 100.0);
    let settings = Settings { rounds: args.rounds, seed: args.seed, margin, ..Settings::default() };
    let design = design(kernels, &settings)?;
    let correction = args.correct.unwrap_or_default().correction();
    let options = Options { correction, ..Options::default() };
    let timed = match measure(boots, design, &options, &*stop_flag()?, &mut Bar::new(global)) {
        Err(Error::Compare(error @ compare::Error::Interrupted(_))) => {
            eprintln!("planish: {error}");
            return Ok(INTERRUPTED);
        }
        other => other?,
    };
    match format {
        Format::Json => output::print_json(&timed)?,
        Format::Text => output::print(&report::kernel::time::text(&timed, terminal_style()))?,
    }
    Ok(match timed.sums().any(|sum| sum.is_slower()) {
        _ if timed.comparison.interrupted => INTERRUPTED,
        true => NEGATIVE,
        false => FINE,
    })
}
