//! `planish kernel record`: branch stacks of a kernel, of one that runs here or of one that is
//! booted under emulation.

use super::machine::{self, Initrd, MachineArgs, boot_image, watcher};
use super::record_counts;
use crate::cli::{FINE, Format, Global};
use crate::command::INTERRUPTED;
use crate::output;
use anyhow::{Context, bail};
use record::kernel::Options;
use record::machine::{Execution, Guest};
use serde_json::json;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::Command;

/// Record a kernel: boot it under emulation with a workload, or record the one that runs here.
///
/// Without branch hardware the kernel is booted under qemu-system with planish's plugin, which
/// gives the emulated CPUs a branch stack. What is recorded is kernel text only; an interrupt, a
/// fault or a system call empties the stack. With --counts every taken branch is counted in place
/// of samples: exact, in a file of a few megabytes at most. With --hardware the running kernel
/// is recorded, with the event for this CPU: Intel's LBR or AMD's BRS and LBRv2. Recordings of
/// several machines are added up by `planish aggregate` of their counts.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish kernel record out -o kernel.data                     # out: the directory of a build
  planish kernel record out --counts -o kernel.counts          # every branch, for profile, layout \
                        and merge
  planish kernel record bzImage --initrd my.cpio --sections all --deterministic -o kernel.data
  planish kernel record --hardware -o kernel.data -- sleep 60  # the kernel that runs here

Exit codes: 0 fine, 2 wrong usage or input, no branch hardware, or the machine failed (the end of \
                        its console is
shown), 130 interrupted.")]
pub struct Args {
    /// The kernel to boot: the directory of a build, or a bzImage
    #[arg(
        value_name = "KERNEL",
        required_unless_present = "hardware",
        conflicts_with = "hardware"
    )]
    kernel: Option<PathBuf>,
    /// Record the kernel that runs here, on all CPUs, by branch hardware
    #[arg(long, requires = "command")]
    hardware: bool,
    /// Where to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The initrd with the workload [default: planish's own]
    #[arg(long, value_name = "FILE", conflicts_with = "hardware")]
    initrd: Option<PathBuf>,
    /// What of the machine's run is recorded
    #[arg(long, value_enum, default_value_t = Sections::Train, conflicts_with = "hardware")]
    sections: Sections,
    /// Taken branches between two samples [default: 250 under emulation, 500009 with --hardware]
    #[arg(short = 'c', long, value_name = "N")]
    period: Option<std::num::NonZeroU64>,
    /// Count every taken branch in place of sampling, and write counts
    #[arg(long, conflicts_with_all = ["hardware", "period"])]
    counts: bool,
    /// The kernel's vmlinux, for --counts [default: that of the build's directory]
    #[arg(long, value_name = "FILE", requires = "counts")]
    binary: Option<PathBuf>,
    /// The same recording each time: time is counted in instructions; about four times as long
    #[arg(long, conflicts_with = "hardware")]
    deterministic: bool,
    /// CPUs of the machine, 1 to 8; with --deterministic there is one, since only then a run
    /// repeats itself
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = machine::cpus(), conflicts_with = "hardware")]
    cpus: u8,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Sections {
    /// The training sections of the workload
    Train,
    /// The held-out ones
    Held,
    /// All sections
    All,
    /// Everything, also booting
    Everything,
}

impl Sections {
    /// The numbers of its sections, by the agreement with the workload.
    fn numbers(self) -> Option<RangeInclusive<u8>> {
        match self {
            Sections::Train => Some(1..=99),
            Sections::Held => Some(101..=199),
            Sections::All => Some(1..=199),
            Sections::Everything => None,
        }
    }

    /// What the workload is told to run.
    fn word(self) -> &'static str {
        match self {
            Sections::Train => "train",
            Sections::Held => "held",
            Sections::All | Sections::Everything => "all",
        }
    }
}

/// Taken branches between two samples under emulation: 330,000 samples of the workload's training
/// sections, in 250 MB.
const PERIOD: u64 = 250;

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let Some(kernel) = &args.kernel else { return hardware(args) };
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
    let vmlinux = if args.counts {
        Some(record_counts::vmlinux(kernel, args.binary.as_deref())?)
    } else {
        None
    };
    let inputs = std::iter::once(&image).chain(&args.initrd).chain(&vmlinux);
    output::refuse_inputs([args.output.as_path()], inputs.map(PathBuf::as_path))?;
    let directory = args.output.parent().filter(|directory| !directory.as_os_str().is_empty());
    if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
        bail!(
            "{}: there is no directory {}; create it first",
            args.output.display(),
            directory.display()
        );
    }
    let initrd = Initrd::of(args.initrd.as_deref())?;
    let execution = if args.deterministic { Execution::Deterministic } else { Execution::Emulated };
    let guest = args.machine.guest(&image, &initrd.path, args.sections.word(), execution);
    let guest = Guest { cpus: args.cpus, ..guest };
    let options = Options {
        period: args.period.map_or(PERIOD, std::num::NonZeroU64::get),
        sections: args.sections.numbers(),
        timeout: Some(args.machine.timeout()),
        to_the_end: true,
        stated: args.initrd.is_none().then(|| guest.argv_with_initrd("planish's workload")),
        ..Options::default()
    };
    if let Some(vmlinux) = &vmlinux {
        let (output, format) = (args.output.as_path(), args.format);
        let wanted =
            record_counts::Wanted { guest: &guest, options: &options, vmlinux, output, format };
        return record_counts::run(&wanted, global);
    }
    crate::command::handle_interrupts();
    let mut watch = watcher("record", global.quiet);
    let recorded = record::kernel::record(&guest.argv(), &args.output, &options, &mut watch);
    drop(watch);
    if machine::is_interrupted(recorded.as_ref().err()) {
        eprintln!("planish: interrupted; the machine was ended and nothing is written");
        return Ok(INTERRUPTED);
    }
    let recorded = recorded.with_context(|| format!("recording {}", image.display()))?;
    let summary = &recorded.summary;
    match args.format {
        Format::Json => {
            let object = json!({
                "schema": "planish-kernel-record",
                "version": 1,
                "output": summary.output.display().to_string(),
                "bytes": summary.bytes,
                "samples": summary.samples,
                "branch_entries": summary.branch_entries,
                "lost_samples": summary.lost_samples,
                "taken_branches": summary.taken_branches,
                "seconds": summary.elapsed.as_secs_f64(),
                "sections": recorded.transcript.sections.iter().map(|section| &section.name).collect::<Vec<_>>(),
            });
            output::print_json(&object)?;
        }
        Format::Text if !global.quiet => {
            eprintln!(
                "{}: {} samples of {} taken branches of the kernel, in {} sections, {:.1} s",
                args.output.display(),
                summary.samples,
                summary.taken_branches.unwrap_or_default(),
                recorded.transcript.sections.len(),
                summary.elapsed.as_secs_f64()
            );
            if summary.lost_samples > 0 {
                eprintln!("warning: {} samples were lost; is the disk full?", summary.lost_samples);
            }
        }
        Format::Text => {}
    }
    Ok(FINE)
}

/// Taken branches between two samples of hardware: what the kernel's document on AutoFDO
/// recommends, a prime.
const HARDWARE_PERIOD: u64 = 500_009;

/// The event that counts taken branches in the kernel, by the CPU's vendor: Intel's
/// BR_INST_RETIRED.NEAR_TAKEN (event 0xc4, umask 0x20), AMD's RETIRED_TAKEN_BRANCH_INSTRUCTIONS
/// (event 0xc4), which BRS and LBRv2 both sample with.
fn event(cpuinfo: &str) -> Option<&'static str> {
    let vendor = cpuinfo.lines().find_map(|line| line.strip_prefix("vendor_id")?.split(':').nth(1));
    match vendor?.trim() {
        "GenuineIntel" => Some("r20c4:k"),
        "AuthenticAMD" | "HygonGenuine" => Some("rc4:k"),
        _ => None,
    }
}

/// Records the running kernel, by `planish record` with the right options.
fn hardware(args: &Args) -> anyhow::Result<u8> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").context("/proc/cpuinfo")?;
    let Some(event) = event(&cpuinfo) else {
        bail!(
            "no event for this CPU is known; Intel's and AMD's are. Try: planish record -a -b -e \
             cycles:k"
        );
    };
    let planish = std::env::current_exe().context("cannot find this executable")?;
    let period = args.period.map_or(HARDWARE_PERIOD, std::num::NonZeroU64::get);
    let mut command = Command::new(planish);
    command.args([
        "record",
        "-a",
        "--branches=hardware",
        "-e",
        event,
        "-c",
        &period.to_string(),
        "-o",
    ]);
    command.arg(&args.output).arg("--").args(&args.command);
    crate::command::handle_interrupts();
    let status = command.status().context("cannot run planish record")?;
    // What it says stands on standard error already.
    if status.code() == Some(2) {
        eprintln!(
            "without branch hardware a kernel is recorded under emulation: planish kernel record \
             BUILD -o FILE"
        );
    }
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(INTERRUPTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_is_the_cpus_own() {
        let of = |vendor: &str| {
            event(&format!("processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: 6\n"))
        };
        assert_eq!(of("GenuineIntel"), Some("r20c4:k"));
        assert_eq!(of("AuthenticAMD"), Some("rc4:k"));
        assert_eq!(of("Other"), None);
        assert_eq!(event(""), None);
    }

    #[test]
    fn training_and_held_out_sections_do_not_meet() {
        let (train, held) = (Sections::Train.numbers().unwrap(), Sections::Held.numbers().unwrap());
        assert!(train.end() < held.start());
        assert!(Sections::Everything.numbers().is_none());
    }
}
