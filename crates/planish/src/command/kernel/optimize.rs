//! `planish kernel optimize`: prepare, configure, build, record, profile, rebuild, lay out,
//! measure.

use super::build::MakeArgs;
use super::counts::{self, Counts};
use super::plan::{self, Wanted};
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::command::{INTERRUPTED, compare, optimize};
use crate::output;
use anyhow::{Context, bail};
use build::Step;
use build::plan::STATE_DIRECTORY;
use build::state::State;
use kernel::prepare::{Standing, standing};
use kernel::requirements::{Purpose, fragment};
use kernel::tree::Tree;
use kernel::{workload, write};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Make a kernel faster: prepare the tree, build, boot and record, rebuild, lay out, measure.
///
/// Everything made lies in the directory -o; the tree gets the edits of `planish kernel prepare`
/// and nothing else. The kernel is booted under qemu-system with a workload of planish, whose
/// training sections are recorded and whose held-out sections are only measured. A finished step is
/// not repeated unless what it was made from changed; after Ctrl-C the same command goes
/// on. Every step is a command that can be typed by hand (--dry-run prints them).
///
/// Without --config a small configuration is built, which boots under emulation in seconds.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish kernel optimize linux-6.12 -o out
  planish kernel optimize linux-6.12 -o out --dry-run
  planish kernel optimize linux-6.12 -o out --config my.config --align 64
  planish kernel optimize linux-6.1 -o out --rounds 1 --no-layout --cc 'ccache clang-22'

Exit codes: 0 fine, 1 the last kernel takes more branches or fetches more lines anew than the \
                        first, 2 a step failed,
130 interrupted.")]
pub struct Args {
    /// The top directory of the Linux sources: 6.1, 6.6, 6.12, or newer
    #[arg(value_name = "TREE")]
    tree: PathBuf,
    /// Where everything goes that is made; three builds of a small configuration take 2 GB
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// The configuration to begin with; what profiles need is added. It must boot with a serial
    /// console and an initrd
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Rounds of recording and rebuilding
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=4))]
    rounds: u8,
    /// Stop after the sample profile
    #[arg(long)]
    no_layout: bool,
    /// Build and measure also the first kernel with every function aligned
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
    #[arg(long, value_enum, default_value_t)]
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
    let found = standing(&tree)?;
    let initrd = args.initrd.as_ref().map(std::path::absolute).transpose()?;
    let machine = args.machine.words();
    let mut recorder: Vec<String> =
        args.period.map(|n| format!("--period={n}")).into_iter().collect();
    // A guest whose clock follows an emulating host sees time pass ten times too fast for its work:
    // the scheduler then takes other branches than on a CPU. Time counted in instructions is
    // right, and is what is measured with.
    recorder.push(if args.cpus > 1 {
        format!("--cpus={}", args.cpus)
    } else {
        "--deterministic".to_owned()
    });
    let wanted = Wanted {
        tree: &root,
        small: args.config.is_none(),
        make: &args.make,
        rounds: args.rounds,
        lays_out: !args.no_layout,
        align: args.align,
        machine: &machine,
        recorder: &recorder,
        initrd: initrd.as_deref(),
    };
    let plan = wanted.plan()?;
    let output =
        std::path::absolute(&args.output).with_context(|| args.output.display().to_string())?;
    let output = output.canonicalize().unwrap_or(output);
    kernel::make::word(&output)?;
    if output.starts_with(&root) {
        bail!(
            "{}: -o must be another directory than the tree, and outside of it",
            args.output.display()
        );
    }
    if output.exists() && !output.is_dir() {
        bail!("{}: -o is not a directory; name one, or one to be made", args.output.display());
    }
    let start = configuration(args)?;
    if let Some(path) = &initrd {
        crate::input::regular(path)?;
    }
    if args.dry_run {
        let quoted = |path: &Path| build::step::quoted(&path.to_string_lossy());
        let start = match &args.config {
            Some(path) => format!(
                "{{ cat {}; planish kernel config {}; }}",
                quoted(&std::path::absolute(path)?),
                quoted(&root)
            ),
            None => format!("planish kernel config {} --small", quoted(&root)),
        };
        let text = format!(
            "planish kernel prepare {}\nmkdir -p {1}/.planish; cd {1}\n{start} > kernel.config; \
             touch tree.state\n\n{2}",
            quoted(&root),
            quoted(&output),
            plan.describe(|_: &Step| String::new())
        );
        output::print(&text)?;
        return Ok(FINE);
    }
    match found {
        Standing::Plain { prepare } => {
            write::write(&root, &prepare)?;
            if !global.quiet {
                eprintln!(
                    "{}: prepared ({} files); --revert of `planish kernel prepare` takes it back",
                    root.display(),
                    prepare.len()
                );
            }
        }
        Standing::Half { done, open, .. } => bail!(kernel::Error::HalfPrepared {
            tree: root.clone(),
            done: done.join(", "),
            open: open.join(", ")
        }),
        Standing::Prepared { .. } | Standing::HasTheOptions => {}
    }
    std::fs::create_dir_all(&args.output).with_context(|| args.output.display().to_string())?;
    let directory =
        args.output.canonicalize().with_context(|| args.output.display().to_string())?;
    replace(&directory.join(plan::CONFIG), &start)?;
    replace(&directory.join(plan::TREE_STATE), &tree_state(&root)?)?;
    if !optimize::execute_in(&plan, &directory, args.again, global)? {
        return Ok(INTERRUPTED);
    }
    tell(&directory, &tree, args)
}

/// What the configuration is made from.
fn configuration(args: &Args) -> anyhow::Result<String> {
    let start = match &args.config {
        Some(path) => crate::input::read_to_string(path)?,
        None => workload::SMALL_CONFIG.to_owned(),
    };
    Ok(start + "\n" + &fragment(Purpose::Both))
}

/// Writes a file only where its content changes, so that what is made from it is not made again.
fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    if beside::given::read(path, crate::input::TEXT_BYTES)
        .is_ok_and(|bytes| bytes == text.as_bytes())
    {
        return Ok(());
    }
    output::write_file(path, |out| Ok(out.write_all(text.as_bytes())?))
}

/// A hash over name, size and time of change of every source file.
fn tree_state(root: &Path) -> anyhow::Result<String> {
    let mut hash = Sha256::new();
    let mut files = 0u64;
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        let name = || directory.display().to_string();
        let mut entries = std::fs::read_dir(&directory)
            .with_context(name)?
            .collect::<Result<Vec<_>, _>>()
            .with_context(name)?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let (path, about) = (entry.path(), entry.metadata().with_context(name)?);
            if about.is_dir() {
                if entry.file_name() != ".git" {
                    open.push(path);
                }
                continue;
            }
            let changed =
                about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            hash.update(path.strip_prefix(root).unwrap_or(&path).as_os_str().as_encoded_bytes());
            hash.update(about.len().to_le_bytes());
            hash.update(changed.map_or(0, |time| time.as_nanos()).to_le_bytes());
            files += 1;
        }
    }
    let digits: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{files} files {digits}\n"))
}

/// Prints the result, and keeps it as a report.
fn tell(directory: &Path, tree: &Tree, args: &Args) -> anyhow::Result<u8> {
    let path = directory.join(plan::counts());
    let text = crate::input::read(&path)?;
    let counts: Counts =
        serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
    let seconds: f64 = State::read(directory).steps.values().map(|done| done.seconds).sum();
    let sizes = counts::sizes(&counts, |kernel| directory.join(plan::vmlinux(kernel)))?;
    let report = directory.join("report.md");
    let title = format!("Linux {}: what profile and layout do", tree.version);
    replace(&report, &counts::markdown(&title, &counts, &sizes, seconds))?;
    match args.format {
        Format::Json => output::print_json(&counts::object(&counts, &sizes, seconds))?,
        Format::Text => {
            output::print(&counts::text(&counts, &sizes, compare::terminal_style()))?;
            let name = counts.last().map_or("base", |kernel| kernel.name.as_str());
            eprintln!("kernel: {}", directory.join(plan::image(name)).display());
            eprintln!(
                "report: {}; steps and logs in {}",
                report.display(),
                directory.join(STATE_DIRECTORY).display()
            );
        }
    }
    Ok(if counts::is_worse(&counts) { NEGATIVE } else { FINE })
}
