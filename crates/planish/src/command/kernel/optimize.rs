//! `planish kernel optimize`: prepare, configure, build, record, profile, rebuild, lay out,
//! measure.

use super::arch::{Arch, chosen};
use super::build::MakeArgs;
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::command::{INTERRUPTED, steps};
use crate::output::{self, Stream};
use anyhow::Context;
use build::Plan;
use build::linux::{Wanted, begin, configuration, described, directory, image, outcome, replace};
use build::plan::STATE_DIRECTORY;
use kernel::Architecture;
use kernel::prepare::{changes, standing};
use kernel::tree::Tree;
use kernel::write;
use report::Form;
use std::path::{Path, PathBuf};

/// Make a kernel faster: prepare the tree, build, boot and record, rebuild, lay out, measure.
///
/// Everything made lies in --output-dir; the tree gets the edits of `planish kernel prepare`
/// and nothing else. The kernel is booted under qemu-system with a workload of planish, whose
/// training sections are recorded and whose held-out sections are only measured. A finished step is
/// not repeated unless what it was made from changed; after Ctrl-C the same command goes
/// on. Every step is a command that can be typed by hand (--dry-run prints them).
///
/// Without --config a small configuration is built, which boots under emulation in seconds.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish kernel optimize linux-6.12 --output-dir out
  planish kernel optimize linux-6.12 --output-dir out --dry-run
  planish kernel optimize linux-6.12 --output-dir out --config my.config
  planish kernel optimize linux-6.12 --output-dir out.arm64 --arch arm64
  planish kernel optimize linux-6.1 --output-dir out --rounds 1 --no-layout \\
      --cc 'ccache clang-22'

Exit codes: 0 fine, 1 the last kernel takes more branches or fetches more lines
anew than the first, 2 a step failed, 3 a compiler or an emulator is missing,
130 interrupted.")]
pub struct Args {
    /// The top directory of the Linux sources: 6.1, 6.6, 6.12, or newer
    #[arg(value_name = "TREE")]
    tree: PathBuf,
    /// Where to put everything that is made; three builds of a small configuration take 2 GB
    #[arg(long, value_name = "DIR")]
    output_dir: PathBuf,
    /// The configuration to begin with; what profiles need is added. It must boot with a serial
    /// console and an initrd
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The processor that the kernel is for [default: what --config says, else x86-64]
    #[arg(long, value_enum)]
    arch: Option<Arch>,
    /// Rounds of recording and rebuilding
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=4))]
    rounds: u8,
    /// Stop after the sample profile
    #[arg(long)]
    no_layout: bool,
    /// Also build and measure the first kernel with every function aligned
    #[arg(long, value_name = "BYTES", value_parser = alignment)]
    align: Option<u32>,
    #[command(flatten)]
    make: MakeArgs,
    #[command(flatten)]
    machine: super::machine::MachineArgs,
    /// Taken branches between two samples
    #[arg(short = 'c', long, value_name = "N")]
    period: Option<std::num::NonZeroU64>,
    /// CPUs of the machine that is recorded; the one that is measured has one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = super::machine::cpus())]
    cpus: u8,
    /// Boot this initrd in place of planish's workload; its init must keep to docs/reference/kernel.md
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,
    /// Print the steps, run nothing
    #[arg(long)]
    dry_run: bool,
    /// Repeat every step
    #[arg(long)]
    again: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t, conflicts_with = "dry_run")]
    format: Format,
}

fn alignment(text: &str) -> Result<u32, String> {
    // CONFIG_DEBUG_FORCE_FUNCTION_ALIGN_64B is the one that the kernel has.
    match text {
        "64" => Ok(64),
        _ => Err("64 is the one alignment that the kernel's configuration knows".to_owned()),
    }
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let root = args.tree.canonicalize().with_context(|| args.tree.display().to_string())?;
    let tree = Tree::open(&root)?;
    standing(&tree)?;
    let initrd = args.initrd.as_ref().map(std::path::absolute).transpose()?;
    let own = args.config.as_ref().map(|path| crate::input::read_to_string(path)).transpose()?;
    let architecture = chosen(args.arch, args.config.as_deref().zip(own.as_deref()))?;
    let plan = plan(args, &root, architecture, initrd.as_deref())?;
    let output = directory(&args.output_dir, &root)?;
    let start = configuration(own, architecture);
    if let Some(path) = &initrd {
        crate::input::regular(path)?;
    }
    if args.dry_run {
        let config = args.config.as_ref().map(std::path::absolute).transpose()?;
        output::print(&described(&plan, &root, architecture, config.as_deref(), &output))?;
        return Ok(FINE);
    }
    let (edits, _) = changes(&tree, false)?;
    if !edits.is_empty() {
        write::write(&root, &edits)?;
        if !global.quiet {
            eprintln!(
                "{}: prepared ({} files); --revert of `planish kernel prepare` takes it back",
                root.display(),
                edits.len()
            );
        }
    }
    std::fs::create_dir_all(&output).with_context(|| args.output_dir.display().to_string())?;
    let directory =
        args.output_dir.canonicalize().with_context(|| args.output_dir.display().to_string())?;
    begin(&directory, &start, &root)?;
    if !steps::run(&plan, &directory, args.again, global)? {
        return Ok(INTERRUPTED);
    }
    tell(&directory, &tree, architecture, args)
}

fn plan(
    args: &Args,
    root: &Path,
    architecture: Architecture,
    initrd: Option<&Path>,
) -> anyhow::Result<Plan> {
    let wanted = Wanted {
        architecture,
        tree: root,
        small: args.config.is_none(),
        make: &args.make.make(),
        rounds: args.rounds,
        lays_out: !args.no_layout,
        align: args.align,
        machine: &args.machine.machine(),
        period: args.period,
        cpus: args.cpus,
        initrd,
    };
    Ok(wanted.plan()?)
}

/// Prints the result, and keeps it as a report.
fn tell(
    directory: &Path,
    tree: &Tree,
    architecture: Architecture,
    args: &Args,
) -> anyhow::Result<u8> {
    let found = outcome(directory)?;
    let (counts, sizes) = (&found.counts, &found.sizes);
    let report = directory.join("report.md");
    let title = format!("Linux {}: what profile and layout do", tree.version);
    replace(&report, &report::kernel::counts::markdown(&title, counts, sizes, found.seconds))?;
    match args.format {
        Format::Json => output::print_json(&Form::first("planish-kernel-optimize", &found))?,
        Format::Text => {
            let style = Stream::Output.style();
            output::print(&report::kernel::counts::text(counts, sizes, style))?;
            let name = counts.last().map_or("base", |kernel| kernel.name.as_str());
            eprintln!("kernel: {}", directory.join(image(name, architecture)).display());
            eprintln!(
                "report: {}; steps and logs in {}",
                report.display(),
                directory.join(STATE_DIRECTORY).display()
            );
        }
    }
    Ok(if counts.is_worse() { NEGATIVE } else { FINE })
}
