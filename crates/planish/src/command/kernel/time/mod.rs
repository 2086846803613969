//! `planish kernel measure --time`: how long kernels take with the workload. They boot again and
//! again in random order, each boot is one observation of each section, and `compare` judges as it
//! judges programs.

mod boots;
mod clock;
mod sums;
mod told;

use super::machine::{Initrd, MachineArgs, cpus};
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::command::INTERRUPTED;
use crate::command::compare::{
    Correct, How, design_of, is_slower, measure, stop_flag, terminal_style,
};
use crate::output;
use anyhow::{Context, bail};
use boots::Boots;
use compare::{Correction, Design, Options, Variant, analyse};
use record::machine::{Execution, Guest};
use std::path::{Path, PathBuf};

/// The kernel's door to the CPU's means for machines.
const KVM: &str = "/dev/kvm";

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
    machine: &MachineArgs,
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
    let execution = execution(args, Path::new(KVM))?;
    if let Some(raw) = &args.raw {
        let inputs = kernels.iter().map(|(_, image)| image.as_path()).chain(initrd);
        output::refuse_inputs([raw.as_path()], inputs)?;
    }
    let initrd = Initrd::of(initrd)?;
    let guests: Vec<Guest> = kernels
        .iter()
        .map(|(_, image)| {
            let guest = machine.guest(image, &initrd.path, "all", execution.clone());
            Guest { cpus: args.cpus.unwrap_or(1), ..guest }
        })
        .collect();
    let boots = Boots {
        command: command(&guests),
        initrd: measure::digest(&initrd.path)?,
        guests,
        emulated: args.emulated_time,
        timeout: machine.timeout(),
        raw: args.raw.clone(),
        resume: args.resume,
    };
    let design = design(kernels, args)?;
    let stop = stop_flag()?;
    let (recorded, interrupted) = boots.run(design, &stop, global)?;
    if let Some(path) = args.raw.as_ref().filter(|_| interrupted && !recorded.runs.is_empty()) {
        eprintln!(
            "planish: interrupted; the boots so far are kept in {}, --resume goes on",
            path.display()
        );
    }
    let with_sums = sums::with_sums(&recorded);
    let options = Options {
        correction: match args.correct.unwrap_or_default() {
            Correct::Holm => Correction::Holm,
            Correct::Bh => Correction::FalseDiscoveryRate,
        },
        ..Options::default()
    };
    let mut comparison = match analyse(&[with_sums], &options) {
        Err(compare::Error::TooFew(reason)) if interrupted => {
            eprintln!("planish: interrupted: {reason}");
            return Ok(INTERRUPTED);
        }
        other => other?.measurement,
    };
    comparison.interrupted = interrupted;
    comparison.raw = args.raw.iter().map(|path| path.display().to_string()).collect();
    let emulator = code_metrics::machine::version(Path::new("qemu-system-x86_64"));
    let timed = told::Timed::of(comparison, &recorded, args.emulated_time, emulator);
    match format {
        Format::Json => output::print_json(&timed)?,
        Format::Text => output::print(&timed.text(terminal_style()))?,
    }
    Ok(match timed.sums().any(is_slower) {
        _ if interrupted => INTERRUPTED,
        true => NEGATIVE,
        false => FINE,
    })
}

/// What the kernels run on: the CPU by KVM, or the emulator where that was wanted.
fn execution(args: &TimeArgs, kvm: &Path) -> anyhow::Result<Execution> {
    if args.emulated_time {
        return Ok(Execution::Emulated);
    }
    let opened = std::fs::OpenOptions::new().read(true).write(true).open(kvm);
    opened.with_context(|| {
        format!(
            "{}: kernels are timed on the CPU by KVM, which is not to be had here, and an \
             emulator's time says nothing about a CPU's. Measure on a machine with KVM, as a user \
             who may open that file; or leave out --time for counts, which need no CPU; or give \
             --emulated-time to compare an emulator's times all the same",
            kvm.display()
        )
    })?;
    Ok(Execution::Kvm { cpu: args.cpu_model.clone().unwrap_or_else(|| "host".to_owned()) })
}

/// What one boot runs, with `{bin}` for the kernel. Planish's own initrd is another file each time.
fn command(guests: &[Guest]) -> Vec<String> {
    let Some(guest) = guests.first() else { return Vec::new() };
    let guest = Guest { kernel: "{bin}".into(), ..guest.clone() };
    let words = guest.argv_with_initrd("INITRD");
    words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

fn design(kernels: &[(String, PathBuf)], args: &TimeArgs) -> anyhow::Result<Design> {
    let how = How { rounds: args.rounds, seed: args.seed, margin: args.margin, ..How::default() };
    let variant = |(name, image): &(String, PathBuf)| {
        Ok(Variant {
            name: name.clone(),
            description: image.display().to_string(),
            binaries: vec![image.clone()],
            digests: vec![measure::digest(image)?],
            ..Variant::default()
        })
    };
    let variants = kernels.iter().map(variant).collect::<anyhow::Result<_>>()?;
    Ok(Design { variants, ..design_of(&how) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Words {
        #[command(flatten)]
        time: TimeArgs,
    }

    fn args(words: &[&str]) -> TimeArgs {
        Words::try_parse_from([&["measure", "--time"][..], words].concat()).unwrap().time
    }

    #[test]
    fn without_kvm_time_is_refused_unless_the_emulators_is_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let absent = dir.path().join("kvm");
        let error = format!("{:#}", execution(&args(&[]), &absent).unwrap_err());
        for part in ["/kvm: ", "--emulated-time", "says nothing about", "No such file"] {
            assert!(error.contains(part), "no `{part}` in: {error}");
        }
        assert_eq!(execution(&args(&["--emulated-time"]), &absent).unwrap(), Execution::Emulated);
        std::fs::write(&absent, "").unwrap();
        let host = Execution::Kvm { cpu: "host".to_owned() };
        assert_eq!(execution(&args(&[]), &absent).unwrap(), host);
        let other = Execution::Kvm { cpu: "host,-pmu".to_owned() };
        assert_eq!(execution(&args(&["--cpu-model", "host,-pmu"]), &absent).unwrap(), other);
        std::fs::set_permissions(&absent, std::os::unix::fs::PermissionsExt::from_mode(0o000))
            .unwrap();
        match execution(&args(&[]), &absent) {
            Ok(_) => eprintln!(
                "skipped: a device that may not be opened, as this user may open everything"
            ),
            Err(error) => assert!(format!("{error:#}").contains("Permission denied"), "{error:#}"),
        }
    }
}
