//! `planish kernel here`: kernels measured on this machine itself, which boots them one after another.

use crate::cli::{FINE, Global};
use crate::command::INTERRUPTED;
use crate::command::compare::{Bar, stop_flag};
use anyhow::{Context, anyhow, bail};
use compare::{Settings, settings};
use kernel::here::{self, Begin, BootOnce, Booted, Plan, Stepped};
use kernel::machine::named;
use std::path::PathBuf;
use std::process::Command;

/// Measure kernels on this machine itself, which boots into one after another.
///
/// Install the kernels first, each with a CONFIG_LOCALVERSION of its own. `begin` writes into a directory what is to be
/// measured. `step` is called after every boot, by hand or by the unit of systemd that `begin` writes: it measures, once a
/// boot, the kernel that runs if that is the one that is due, sets the next boot and reboots. In every round each kernel
/// boots once, in random order. What boots by default stays as it is. `planish compare show` tells the result, that of
/// several machines too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish kernel here begin /var/lib/align --rounds 20 \\
      --kernel base=/boot/vmlinuz-6.12.1-base \\
      --kernel align32=/boot/vmlinuz-6.12.1-align32 \\
      --benchmark 'groups: hackbench -g 8 -l 1000'
  systemctl enable --now /var/lib/align/planish-here.service
  planish compare show /var/lib/align/runs.jsonl

To end it before all is measured: systemctl disable planish-here.service. What
is measured is kept, and `step` goes on later.")]
pub struct Args {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Debug, clap::Subcommand)]
enum Tool {
    Begin(BeginArgs),
    Step(StepArgs),
}

/// Write into a directory what is to be measured.
///
/// Nothing is measured and no boot is set yet.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish kernel here begin /var/lib/align \\
      --kernel base=/boot/vmlinuz-6.12.1-base \\
      --kernel align32=/boot/vmlinuz-6.12.1-align32 \\
      --benchmark 'groups: hackbench -g 8 -l 1000' \\
      --metric 'seconds[s]=output:Time: ([0-9.]+)'
  planish kernel here begin /var/lib/align --kernel … --benchmark … \\
      --boot-with 'kexec -l {image} --initrd=/boot/initrd.img-{release}
          --reuse-cmdline' --reboot-with 'systemctl kexec'
  planish kernel here begin /var/lib/align --kernel … --benchmark … \\
      --boot-with 'bootctl set-oneshot debian-{release}.conf'

Exit codes: 0 fine, 2 wrong usage or input, kernels that cannot be told apart,
or one that the boot loader does not know.")]
struct BeginArgs {
    /// The directory, which must outlive a boot
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// A kernel: its name, and the boot image that is installed; the first is the base. Repeatable
    #[arg(long, value_name = "NAME=IMAGE", required = true)]
    kernel: Vec<String>,
    /// What runs after a boot: a name, and a command, which finds the image in the variable KERNEL. Repeatable: each
    /// is a row of the result
    #[arg(long, value_name = "NAME: COMMAND", required = true)]
    benchmark: Vec<String>,
    /// What is looked at, as `planish compare` has it; the first decides [default: cpu]. Repeatable
    #[arg(long, value_name = "METRIC")]
    metric: Vec<String>,
    /// Rounds: every kernel boots once in each [default: 30]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rounds: Option<u32>,
    /// Runs of each command after a boot that do not count
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1000))]
    warm_ups: u32,
    /// How long the machine has run before anything is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    settle: u32,
    /// End a command that takes longer, and leave the kernel out
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
    /// Differences within plus or minus this many per cent count as none [default: 1]
    #[arg(long, value_name = "PCT")]
    margin: Option<f64>,
    /// Decides the order of the boots [default: 1]
    #[arg(long)]
    seed: Option<u64>,
    /// The machine's name in reports [default: its host name]
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// The command that sets the kernel of the next boot, with {image} and {release} in it [default: grub-reboot with
    /// the entry of GRUB's menu that boots the image]
    #[arg(long, value_name = "COMMAND")]
    boot_with: Option<String>,
    /// The command that ends a boot
    #[arg(long, value_name = "COMMAND", default_value = "systemctl reboot")]
    reboot_with: String,
}

/// Measure the kernel that has booted if it is due, and set the next boot.
///
/// A kernel that does not come up twice in a row is left out, and the others go on.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish kernel here step /var/lib/align
  planish kernel here step --reboot /var/lib/align

Exit codes: 0 the next boot is set, or all is measured, 2 wrong usage or input,
the base does not boot, or the next boot cannot be set, 130 interrupted.")]
struct StepArgs {
    /// The directory that `begin` wrote
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Reboot then; once all is measured, into what boots by default
    #[arg(long)]
    reboot: bool,
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    match &args.tool {
        Tool::Begin(args) => begin(args, global),
        Tool::Step(args) => step(args, global),
    }
}

fn begin(args: &BeginArgs, global: &Global) -> anyhow::Result<u8> {
    if let Some(margin) = args.margin.filter(|margin| !(*margin > 0.0 && *margin < 100.0)) {
        bail!("--margin {margin}: give a percentage between 0 and 100");
    }
    if let Some(timeout) = args.timeout.filter(|timeout| !(*timeout > 0.0 && timeout.is_finite())) {
        bail!("--timeout {timeout}: give a number of seconds above 0");
    }
    let words = |option: &str, text: &str| {
        build::split_words(text).map_err(|why| anyhow!("{option} '{text}': {why}"))
    };
    let boot_once = match &args.boot_with {
        Some(command) => BootOnce::Command(words("--boot-with", command)?),
        None => BootOnce::grub()?,
    };
    let (kernels, _) = named(&args.kernel)?;
    let kernels: Vec<_> = kernels.into_iter().map(|(name, image)| (name, image.path)).collect();
    let wanted = Begin {
        kernels: &kernels,
        commands: &commands(&args.benchmark)?,
        metrics: settings::metrics(&args.metric)?,
        settings: Settings {
            rounds: args.rounds,
            seed: args.seed,
            margin: args.margin.map(|per_cent| per_cent / 100.0),
            timeout_s: args.timeout,
            machine: args.machine.clone(),
            ..Settings::default()
        },
        boot_once,
        reboot: words("--reboot-with", &args.reboot_with)?,
        warm_ups: args.warm_ups,
        settle_s: f64::from(args.settle),
    };
    let planish = std::env::current_exe().context("cannot find this executable")?;
    here::begin(&args.directory, &planish, wanted)?;
    if !global.quiet {
        let directory = args.directory.display();
        let unit = std::path::absolute(here::unit(&args.directory))?;
        if stays_after_a_panic() {
            eprintln!(
                "planish: warning: kernel.panic is 0 here: a kernel that panics stays so, and the \
                 machine with it. Put panic=30 on the kernels' command lines"
            );
        }
        eprintln!(
            "{directory}: ready. As root, either step by step:\n  planish kernel here step --reboot \
             {directory}\nor all of it, with a reboot after each step:\n  systemctl enable --now {}",
            unit.display()
        );
    }
    Ok(FINE)
}

/// Whether this kernel stays where it panics; so will others with the same command line.
fn stays_after_a_panic() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/panic").is_ok_and(|text| text.trim() == "0")
}

/// Commands with their names.
fn commands(given: &[String]) -> anyhow::Result<Vec<(String, Vec<String>)>> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for text in given {
        let Some((name, words)) = text.split_once(':') else {
            bail!("--benchmark '{text}': expected NAME: COMMAND");
        };
        let name = name.trim();
        if name.is_empty() || commands.iter().any(|(known, _)| known == name) {
            bail!("--benchmark '{text}': each needs a name of its own");
        }
        let words = build::split_words(words);
        let words = words.map_err(|why| anyhow!("--benchmark '{text}': {why}"))?;
        commands.push((name.to_owned(), words));
    }
    Ok(commands)
}

fn step(args: &StepArgs, global: &Global) -> anyhow::Result<u8> {
    let plan = Plan::read(&args.directory)?;
    // Two steps at once would both measure this boot, and one would lose its runs.
    let _lock = build::Lock::take(&args.directory)?;
    let (booted, stop) = (Booted::now()?, stop_flag()?);
    let stepped = here::step(&args.directory, &plan, &booted, &stop, &mut Bar::new(global))?;
    let tell = |text: &str| {
        if !global.quiet {
            eprintln!("{text}");
        }
    };
    let show =
        || format!("planish compare show {}", crate::output::word(&here::runs(&args.directory)));
    let reboots = match stepped {
        Stepped::Interrupted => {
            eprintln!("planish: interrupted; the same command goes on with what is there");
            return Ok(INTERRUPTED);
        }
        Stepped::Next { kernel, measured, left } => {
            let measured = if measured { "measured; " } else { "" };
            tell(&format!("{measured}the next boot is {kernel}, {left} are left"));
            true
        }
        Stepped::Done { measured } => {
            tell(&format!("all is measured: {}", show()));
            // Otherwise the machine runs what it did, and would reboot for ever.
            measured
        }
    };
    if args.reboot && reboots {
        reboot(&plan.reboot)?;
    }
    Ok(FINE)
}

fn reboot(words: &[String]) -> anyhow::Result<()> {
    let (program, rest) =
        words.split_first().ok_or_else(|| anyhow!("the plan names no command that reboots"))?;
    let status = Command::new(program).args(rest).status().with_context(|| words.join(" "))?;
    if !status.success() {
        bail!("`{}` failed ({status}); reboot by hand, the next boot is set", words.join(" "));
    }
    Ok(())
}
