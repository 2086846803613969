//! `planish kernel record`: branch stacks of a kernel, of one that runs here or of one that is
//! booted under emulation.

mod native;

use super::machine::{MachineArgs, ModuleArgs, cpus, watcher};
use crate::cli::{Choice, FINE, Format, Global};
use crate::command::{INTERRUPTED, aggregate};
use crate::output;
use ::counts::aggregate::Aggregated;
use ::counts::artefact;
use anyhow::{Context, bail};
use image::Image;
use kernel::machine::{Initrd, boot_image};
use kernel::recording::{self, Recording, Sections};
use record::kernel::KernelOptions;
use record::machine::{Execution, Guest};
use report::Form;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Record a kernel: boot it under emulation with a workload, or record the one that runs here.
///
/// Without branch hardware the kernel is booted under qemu-system with planish's plugin, which
/// gives the emulated CPUs a branch stack. What is recorded is kernel text only; an interrupt, a
/// fault or a system call empties the stack. With --counts every taken branch is counted in place
/// of samples: exact, in a file of a few megabytes at most. With --hardware the running kernel
/// is recorded, with the event for this CPU: Intel's LBR or AMD's BRS and LBRv2. Recordings of
/// several machines are added up by `planish aggregate` of their counts. With --native a kernel
/// that is a process (`planish kernel compare --native` builds such) is recorded at the CPU's own
/// speed, by looking ahead at each stop.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish kernel record out -o kernel.data      # out: the directory of a build
  planish kernel record out --counts -o kernel.counts  # every branch, counted
  planish kernel record bzImage --initrd my.cpio --sections all \\
      --deterministic -o kernel.data
  planish kernel record out --module ext4 --initrd my.cpio -o kernel.data
  planish kernel record --hardware -o kernel.data -- sleep 60
  planish kernel record --native out/native/base -o kernel.data

Exit codes: 0 fine, 2 wrong usage or input, or the machine failed (the end of
its console is shown), 3 no branch hardware, or no emulator, 130 interrupted.")]
pub struct Args {
    /// The kernel to boot: the directory of a build, a bzImage, or an Image of arm64; with --native
    /// a kernel that is a process, or the directory of its build
    #[arg(
        value_name = "KERNEL",
        required_unless_present = "hardware",
        conflicts_with = "hardware"
    )]
    kernel: Option<PathBuf>,
    /// Record the running kernel, on all CPUs, with branch hardware
    #[arg(long, requires = "command")]
    hardware: bool,
    /// Record a kernel that is a process, with the workload in it
    #[arg(long, conflicts_with_all = ["hardware", "counts", "deterministic", "initrd"])]
    native: bool,
    /// Where to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The initrd with the workload [default: planish's own]
    #[arg(long, value_name = "FILE", conflicts_with = "hardware")]
    initrd: Option<PathBuf>,
    /// Which part of the machine's run to record
    #[arg(long, value_parser = SECTIONS, default_value = "train", conflicts_with = "hardware")]
    sections: Sections,
    /// Taken branches between two samples [default: 250 under emulation, 500009 with --hardware]; with
    /// --native nanoseconds of CPU time [default: 4000000]
    #[arg(short = 'c', long, value_name = "N")]
    period: Option<std::num::NonZeroU64>,
    /// Count every taken branch in place of sampling, and write counts
    #[arg(long, conflicts_with_all = ["hardware", "period"])]
    counts: bool,
    /// The kernel's vmlinux, for --counts [default: that of the build's directory]
    #[arg(long, value_name = "FILE", requires = "counts")]
    binary: Option<PathBuf>,
    /// Make the same recording each time: time is counted in instructions, and it takes about four
    /// times as long
    #[arg(long, conflicts_with = "hardware")]
    deterministic: bool,
    /// CPUs of the machine, 1 to 8; with --deterministic only 1, since a run on more does not
    /// repeat itself
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = cpus(), conflicts_with = "hardware")]
    cpus: u8,
    #[command(flatten)]
    modules: ModuleArgs,
    #[command(flatten)]
    machine: MachineArgs,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// What runs while the kernel is recorded (--hardware)
    #[arg(last = true, value_name = "COMMAND", requires = "hardware")]
    command: Vec<std::ffi::OsString>,
}

/// Parts of a machine's run.
const SECTIONS: Choice<Sections> = Choice(&[
    ("train", Sections::Train, "The training sections of the workload"),
    ("held", Sections::Held, "The held-out ones"),
    ("all", Sections::All, "All sections"),
    ("everything", Sections::Everything, "Everything, also booting"),
]);

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    if (args.hardware || args.native) && !args.modules.is_empty() {
        bail!("--module is for a kernel that boots; what runs here has its modules loaded already");
    }
    let Some(kernel) = &args.kernel else { return hardware(args) };
    if args.native {
        return native::record(args, kernel);
    }
    if !args.command.is_empty() {
        bail!(
            "a command after -- is for --hardware; under emulation the initrd's init runs \
             (--initrd)"
        );
    }
    if args.deterministic && args.cpus > 1 {
        bail!(
            "--cpus {} and --deterministic: a machine that counts time in instructions repeats \
             itself with one CPU only; leave one of the options out",
            args.cpus
        );
    }
    let image = boot_image(kernel)?;
    let vmlinux =
        if args.counts { Some(recording::vmlinux(kernel, args.binary.as_deref())?) } else { None };
    let inputs = std::iter::once(&image.path).chain(&args.initrd).chain(&vmlinux);
    output::refuse_inputs([args.output.as_path()], inputs.map(PathBuf::as_path))?;
    output::refuse_without_directory(&args.output)?;
    let plain = Initrd::of(args.initrd.as_deref(), image.architecture)?;
    let initrd = args.modules.alone(&plain, &image)?.unwrap_or(plain);
    let execution = if args.deterministic { Execution::Deterministic } else { Execution::Emulated };
    let (machine, parts) = (args.machine.machine(), args.sections);
    let guest = machine.guest(&image, &initrd.path, parts.word(), execution);
    let guest = Guest { cpus: args.cpus, ..guest };
    let options = KernelOptions {
        period: args.period.map_or(recording::PERIOD, std::num::NonZeroU64::get),
        sections: parts.numbers(),
        timeout: Some(machine.timeout()),
        to_the_end: true,
        modules: initrd.modules.iter().map(|one| (one.name.clone(), one.path.clone())).collect(),
        stated: args.initrd.is_none().then(|| guest.argv_with_initrd("planish's workload")),
        ..KernelOptions::default()
    };
    crate::command::handle_interrupts();
    let done = match &vmlinux {
        Some(vmlinux) => counts(&args.output, &guest, &options, vmlinux, global)?,
        None => {
            let mut watch = watcher("record", global.quiet);
            let done = recording::sample(&guest, &options, &args.output, &mut watch);
            drop(watch);
            done?.map(|done| (done, None))
        }
    };
    let Some((done, counted)) = done else {
        eprintln!("planish: interrupted; the machine was ended and nothing is written");
        return Ok(INTERRUPTED);
    };
    match args.format {
        Format::Json => output::print_json(&Form::first("planish-kernel-record", done))?,
        Format::Text if !global.quiet => {
            eprint!("{}", report::kernel::record::text(&done));
            counted.iter().for_each(|found| aggregate::print_ledger(found, global));
        }
        Format::Text => {}
    }
    Ok(FINE)
}

/// Boots the kernel and writes counts of every branch; `None` where the user ended it.
fn counts(
    output: &Path,
    guest: &Guest,
    options: &KernelOptions,
    vmlinux: &Path,
    global: &Global,
) -> anyhow::Result<Option<(Recording, Option<Aggregated>)>> {
    let image = Arc::new(Image::open(vmlinux)?);
    let mut watch = watcher("count", global.quiet);
    let counted = recording::count(guest, options, &image, output, &mut watch)?;
    drop(watch);
    let Some((counted, found)) = counted else { return Ok(None) };
    output::write_file(output, |out| Ok(artefact::write(output, &found.counts, out)?))?;
    let about = std::fs::metadata(output).with_context(|| output.display().to_string())?;
    let ledger = found.counts.ledger.clone();
    let done = Recording::of_counts(output, about.len(), &counted, ledger);
    Ok(Some((done, Some(found))))
}

/// Records the running kernel, by `planish record` with the right options.
fn hardware(args: &Args) -> anyhow::Result<u8> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").context("/proc/cpuinfo")?;
    let words = recording::by_hardware(&cpuinfo, args.period)?;
    let planish = std::env::current_exe().context("cannot find this executable")?;
    let mut command = Command::new(planish);
    command.args(words).arg("-o").arg(&args.output).arg("--").args(&args.command);
    crate::command::handle_interrupts();
    let status = command.status().context("cannot run planish record")?;
    // What it says stands on standard error already.
    if matches!(status.code(), Some(2 | 3)) {
        eprintln!(
            "without branch hardware a kernel is recorded under emulation: planish kernel record \
             BUILD -o FILE"
        );
    }
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(INTERRUPTED))
}
