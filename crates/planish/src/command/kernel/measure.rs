//! `planish kernel measure`: what kernels cost in counts, section by section of the workload; or,
//! with --time, in time.

use super::counts::{self, Counts, Kernel, Section};
use super::machine::{Initrd, MachineArgs, boot_image, watcher};
use super::time::{self, TimeArgs};
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::command::INTERRUPTED;
use crate::command::compare::terminal_style;
use crate::output;
use anyhow::{Context, bail};
use code_metrics::machine::{Measured, Options, measure};
use record::machine::Execution;
use std::path::{Path, PathBuf};

/// Boot kernels under emulation and count what their code costs: instructions, taken branches,
/// misses of caches; or with --time compare how long they take on this machine's CPU.
///
/// For counts the machine is deterministic, time being counted in instructions, so the numbers are
/// exact: measuring again gives the same. They are no times. With --time every kernel boots once a
/// round, in random order, and the workload tells how long each section took by the guest's clock;
/// verdicts are those of `planish compare`. The workload's training and held-out sections are told
/// apart; all ratios are to the first kernel.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish kernel measure base=out.base autofdo=out.autofdo
  planish kernel measure base.bzImage new.bzImage --initrd my.cpio --format json
  planish kernel measure --time base=out.base new=out.new --raw runs.jsonl

Exit codes: 0 fine, 1 the last kernel takes more branches or fetches more lines anew than the \
                        first (--time: a kernel is slower
than the first over the training or the held-out sections), 2 wrong usage or input, or a machine \
                        failed (the end of its console
is shown), 130 interrupted.")]
pub struct Args {
    /// Directories of builds or bzImages, the base first; NAME= before one names it
    #[arg(required = true, value_name = "[NAME=]KERNEL")]
    kernels: Vec<String>,
    /// The initrd with the workload [default: planish's own]
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,
    #[command(flatten)]
    machine: MachineArgs,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    time: TimeArgs,
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let mut named: Vec<(String, PathBuf)> = Vec::new();
    for word in &args.kernels {
        let (name, path) = word.split_once('=').unwrap_or((word, word));
        if named.iter().any(|(known, _)| known == name) {
            bail!("{name}: two kernels have this name; write ANOTHER-NAME={path}");
        }
        named.push((name.to_owned(), boot_image(Path::new(path))?));
    }
    if args.time.time {
        return time::run(
            &named,
            args.initrd.as_deref(),
            &args.machine,
            &args.time,
            args.format,
            global,
        );
    }
    let initrd = Initrd::of(args.initrd.as_deref())?;
    crate::command::handle_interrupts();
    let mut found = Counts {
        schema: "planish-kernel-measure".to_owned(),
        version: 1,
        emulator: String::new(),
        sections: Vec::new(),
        kernels: Vec::new(),
    };
    for (name, image) in named {
        let Some(measured) = boot(args, &image, &initrd, &name, global)? else {
            return Ok(INTERRUPTED);
        };
        let sections: Vec<Section> = measured.transcript.sections.iter().map(section).collect();
        if found.kernels.is_empty() {
            found.sections = sections;
            found.emulator.clone_from(&measured.emulator);
        } else if found.sections != sections {
            bail!(
                "{name}: the workload ran other sections than on the first kernel ({} and {}); \
                 counts cannot be set side by side",
                sections.len(),
                found.sections.len()
            );
        }
        found.kernels.push(Kernel {
            name,
            image: image.display().to_string(),
            sections: measured.sections,
        });
    }
    match args.format {
        Format::Json => output::print_json(&found)?,
        Format::Text => output::print(&counts::text(&found, &[], terminal_style()))?,
    }
    Ok(if counts::is_worse(&found) { NEGATIVE } else { FINE })
}

fn section(section: &record::machine::Section) -> Section {
    Section { number: section.number, name: section.name.clone(), held_out: section.held_out }
}

/// Measures one kernel; nothing where the user interrupted it.
fn boot(
    args: &Args,
    image: &Path,
    initrd: &Initrd,
    name: &str,
    global: &Global,
) -> anyhow::Result<Option<Measured>> {
    let guest = args.machine.guest(image, &initrd.path, "all", Execution::Deterministic);
    let options =
        Options { timeout: Some(args.machine.timeout()), to_the_end: true, ..Options::default() };
    let mut watch = watcher(&format!("measure {name}"), global.quiet);
    let began = std::time::Instant::now();
    let measured = measure(&guest.argv(), &options, &mut watch);
    drop(watch);
    if let Err(code_metrics::Error::Machine(error)) = &measured
        && super::machine::is_interrupted(Some(error))
    {
        eprintln!("planish: interrupted; the machine was ended");
        return Ok(None);
    }
    let measured = measured.with_context(|| format!("measuring {name} ({})", image.display()))?;
    if !global.quiet {
        eprintln!(
            "{name}: {} sections, {:.1} s",
            measured.transcript.sections.len(),
            began.elapsed().as_secs_f64()
        );
    }
    Ok(Some(measured))
}
