//! `planish record`: a program's run to perf.data, with branch stacks wherever they can be had.

mod args;
mod continuous;
mod continuous_args;
mod family;
mod perf_args;
mod sample_args;
mod software_args;
mod stream_args;
mod target_args;

use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output;
use crate::progress::Spinner;
use anyhow::bail;
pub use args::Args;
use build::program_log::ProgramLog;
pub use perf_args::Asked;
use record::settings::Registers;
use record::{Branches, Ending, Stdout, Summary, Workload};
use report::record as tell;
use std::io::IsTerminal;
pub use target_args::TargetArgs;

/// Runs the command.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    if [args.samples.user_regs, args.perf.intr_regs].contains(&Some(Asked::Which)) {
        let names: Vec<&str> = Registers::names().collect();
        output::print(&format!("available registers: {}\n", names.join(" ")))?;
        return Ok(FINE);
    }
    if args.continuous.continuous {
        return continuous::run(&args, global);
    }
    let piped = args.output.as_os_str() == "-";
    if piped && args.format == Format::Json {
        bail!("-o - and --format json both want standard output; write to a file");
    }
    if piped && std::io::stdout().is_terminal() {
        bail!(
            "a recording is not for terminals: pipe it into another command, or give a file (-o)"
        );
    }
    if piped && args.report {
        bail!("--report shows a file; write to one (-o FILE)");
    }
    let request = args.request()?;
    let asked = tell::Asked {
        takes_losses: args.streams.takes_losses(),
        wants_stacks: args.branches == Branches::Auto && args.events.is_empty(),
        pace: request.software.pace,
    };
    let recording = request.decide()?;
    super::handle_interrupts();
    let to_error = piped || args.format == Format::Json;
    let stdout = if to_error { Stdout::ToStderr } else { Stdout::Inherit };
    let log = args.program_output.as_deref().map(ProgramLog::create).transpose()?;
    let output = log.as_ref().map(ProgramLog::writer);
    let workload = Workload { stdout, output, ..Workload::new(args.command.iter()) };
    let command = (!args.command.is_empty()).then_some(&workload);
    let spinner = Spinner::start("recording; Ctrl-C ends the program", global.quiet);
    let recorded = recording.record(command, &args.output, output::raw());
    drop(spinner);
    drop(workload);
    let logged = log.map(ProgramLog::finish).transpose();
    // What became of the recording comes first, where the disk took neither.
    let mut summary = recorded
        .map_err(|error| if args.whole { error.without_part(&args.output) } else { error })?;
    logged?;
    summary.notes.extend(args.perf.notes());
    let good = matches!(summary.ending, Ending::Code(code) if args.exit_code.contains(&code));
    if !global.quiet {
        // A good end is nothing to warn of.
        let ending = if good { Ending::Code(0) } else { summary.ending };
        tell::lines(&Summary { ending, ..summary.clone() }, asked)
            .iter()
            .for_each(|line| eprintln!("{line}"));
    }
    if args.format == Format::Json {
        output::print_json(&tell::json::object(&summary))?;
    }
    if args.report {
        super::report::after_recording(&args.output, global)?;
    }
    // What is missing cannot be seen in what came.
    let lost = summary.lost_samples > 0 && !asked.takes_losses;
    Ok(match lost {
        true => NEGATIVE,
        false if good => FINE,
        false => code_of(summary.ending),
    })
}

/// The exit code by how the program ended: one that was asked to stop did what it was asked.
pub fn code_of(ending: Ending) -> u8 {
    match ending {
        Ending::Code(0) | Ending::Unknown => FINE,
        Ending::Signal(libc::SIGINT | libc::SIGTERM | libc::SIGHUP) => FINE,
        Ending::Code(_) | Ending::Signal(_) => NEGATIVE,
    }
}
