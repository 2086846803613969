//! `planish record`: a program's run to perf.data, with branch stacks wherever they can be had.

mod args;
mod losses;
mod perf_args;
pub mod program_log;
mod stream_args;

use crate::cli::{FINE, Format, Global, NEGATIVE};
use anyhow::{Context as _, bail};
pub use args::Args;
use args::Branches;
use indicatif::ProgressBar;
pub use perf_args::Asked;
use record::live;
use record::settings::{CallGraph, Registers};
use record::{Ending, Stdout, Summary, Workload, emulate, software};
use serde_json::json;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Runs the command.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    if [args.user_regs, args.perf.intr_regs].contains(&Some(Asked::Which)) {
        let names: Vec<&str> = Registers::names().collect();
        crate::output::print(&format!("available registers: {}\n", names.join(" ")))?;
        return Ok(FINE);
    }
    check(&args)?;
    super::handle_interrupts();
    let piped = args.output.as_os_str() == "-";
    let stdout =
        if piped || args.format == Format::Json { Stdout::ToStderr } else { Stdout::Inherit };
    let log = args.program_output.as_deref().map(program_log::ProgramLog::create).transpose()?;
    let output = log.as_ref().map(program_log::ProgramLog::writer);
    let workload = Workload { stdout, output, ..Workload::new(args.command.iter()) };
    // Recordings with stacks of our own making are put in order at their end: made in a file and
    // then sent.
    let branches = if looks_ahead(&args) { Branches::Software } else { args.branches };
    let at_end = matches!(branches, Branches::Emulated | Branches::Software);
    let beside = if piped && at_end {
        Some(tempfile::tempdir().context("create a temporary directory")?)
    } else {
        None
    };
    let output =
        beside.as_ref().map_or_else(|| args.output.clone(), |dir| dir.path().join("perf.data"));
    let spinner = Spinner::start(global.quiet);
    let recorded = if branches == Branches::Software {
        let command = (!args.command.is_empty()).then_some(&workload);
        software::record(&args.target(), command, &output, &args.software_options())
    } else if branches == Branches::Emulated {
        let (period, call_chains) =
            (args.period.unwrap_or(1000), args.call_chain() == Some(CallGraph::FramePointers));
        let options = emulate::Options { period, call_chains, ..Default::default() };
        emulate::record(&workload, &output, &options)
    } else {
        let command = (!args.command.is_empty()).then_some(&workload);
        live::record(&args.target(), command, &output, &args.live_options()?)
    };
    drop(spinner);
    drop(workload);
    let logged = log.map(program_log::ProgramLog::finish).transpose();
    let recorded = recorded.map_err(|error| if at_end { nothing_kept(error) } else { error });
    // What became of the recording comes first, where the disk took neither.
    let mut summary = recorded
        .map_err(|error| if args.whole { whole_or_nothing(error, &output) } else { error })?;
    logged?;
    if beside.is_some() {
        send(&output)?;
    }
    if piped {
        summary.output = "to standard output".into();
    }
    summary.notes.extend(args.perf.notes());
    if !global.quiet {
        tell(&args, &summary);
    }
    if args.format == Format::Json {
        crate::output::print_json(&to_json(&summary))?;
    }
    let lost = summary.lost_samples > 0 && !args.streams.takes_losses();
    Ok(match summary.ending {
        // What is missing cannot be seen in what came.
        _ if lost => NEGATIVE,
        // A program that was asked to stop did what it was asked.
        Ending::Code(0) | Ending::Unknown | Ending::Signal(libc::SIGINT | libc::SIGTERM) => FINE,
        Ending::Code(_) | Ending::Signal(_) => NEGATIVE,
    })
}

/// A recording that is put in order at its end goes where the disk is full then, and leaves
/// nothing.
fn nothing_kept(error: record::Error) -> record::Error {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match &error {
        record::Error::Io { source, .. }
            if [StorageFull, QuotaExceeded, FileTooLarge].contains(&source.kind()) =>
        {
            record::Error::Cut { source: Box::new(error), kept: None, left: None }
        }
        _ => error,
    }
}

/// Removes what an unfinished recording kept, so that nobody takes it for a whole one.
fn whole_or_nothing(error: record::Error, output: &Path) -> record::Error {
    match error {
        record::Error::Cut { source, left, .. } => {
            let part = left.as_deref().unwrap_or(output);
            let removed = if part.is_dir() {
                std::fs::remove_dir_all(part)
            } else {
                std::fs::remove_file(part)
            };
            let removed = match removed {
                Ok(()) => "the part that was recorded has been removed".to_owned(),
                Err(reason) if reason.kind() == std::io::ErrorKind::NotFound => {
                    "nothing of it is kept".to_owned()
                }
                Err(reason) => {
                    format!("{} is a part of it and cannot be removed: {reason}", part.display())
                }
            };
            record::Error::Cut { source, kept: Some(removed), left: None }
        }
        other => other,
    }
}

/// Whether `auto` means software branch stacks: nothing was asked for that only the kernel's own
/// samples have, the CPU has no branch stacks, and threads can be stopped.
fn looks_ahead(args: &Args) -> bool {
    let plain = args.kernel_option().is_none_or(|option| option == "-i")
        && args.period.is_none()
        && args.frequency.is_none()
        && !args.all_cpus
        && args.cpus.is_none();
    args.branches == Branches::Auto
        && (plain || args.software_option().is_some())
        && !live::has_hardware_branches()
        && software::probe().is_ok()
}

/// Sends a finished recording in pipe form.
fn send(recording: &Path) -> anyhow::Result<()> {
    let input = perfdata::Input::open(recording)?;
    let out = std::io::BufWriter::with_capacity(1 << 18, crate::output::raw());
    let failed = |error: perfdata::Error| match error {
        perfdata::Error::Io { source, .. } => {
            // The stream names itself; once is enough.
            let why = source.to_string();
            anyhow::anyhow!(
                "standard output: write: {}",
                why.trim_start_matches("standard output: ")
            )
        }
        other => other.into(),
    };
    let mut pipe =
        perfdata::write::PipeWriter::new(out, input.attrs(), input.features()).map_err(failed)?;
    let mut chunks = input.chunks()?;
    while let Some(chunk) = chunks.next() {
        let chunk = chunk?;
        pipe.append(&chunk.bytes).map_err(failed)?;
        chunks.recycle(chunk.bytes);
    }
    pipe.finish().map_err(failed)?;
    Ok(())
}

fn check(args: &Args) -> anyhow::Result<()> {
    stream_args::check(args)?;
    if args.output.as_os_str() == "-" {
        if args.format == Format::Json {
            bail!("-o - and --format json both want standard output; write to a file");
        }
        if std::io::stdout().is_terminal() {
            bail!(
                "a recording is not for terminals: pipe it into another command, or give a file \
                 (-o)"
            );
        }
    }
    if !args.cgroups.is_empty() && !args.all_cpus && args.cpus.is_none() {
        bail!("-G records what runs in a control group on CPUs: give -a or -C with it");
    }
    let attached = args.attached();
    let kernels = args.kernel_option();
    match args.branches {
        Branches::Software if args.all_cpus || args.cpus.is_some() => {
            bail!(
                "--branches=software follows programs, not CPUs: give a command after `--`, or -p \
                 PID, -t TID, -u USER"
            )
        }
        Branches::Software if kernels.is_some_and(|option| option != "-i") => {
            bail!(
                "{} is for recordings by the kernel; --branches=software samples the threads' CPU \
                 clock and nothing else",
                kernels.unwrap_or_default()
            )
        }
        Branches::Auto
            if args.software_option().is_some()
                && (kernels.is_some_and(|option| option != "-i")
                    || args.all_cpus
                    || args.cpus.is_some()) =>
        {
            bail!(
                "{} is for --branches=software, and {} for recordings by the kernel; leave one of \
                 them out",
                args.software_option().unwrap_or_default(),
                kernels.unwrap_or("-a or -C")
            )
        }
        Branches::Hardware | Branches::Emulated | Branches::None
            if args.software_option().is_some() =>
        {
            bail!("{} is for --branches=software", args.software_option().unwrap_or_default())
        }
        Branches::Emulated if attached => {
            bail!(
                "--branches=emulated starts the program itself: give it after `--`, without -p, \
                 -t, -u, -C and -a"
            )
        }
        Branches::Emulated if args.beyond_emulation().is_some() => {
            bail!(
                "{} is for recordings by the kernel; the emulator samples taken branches, with \
                 who called (-g, --call-graph fp), and nothing else",
                args.beyond_emulation().unwrap_or_default()
            )
        }
        Branches::Emulated if args.frequency.is_some() => {
            bail!(
                "under emulation time means nothing: give a period in taken branches (-c), not a \
                 frequency"
            )
        }
        Branches::None if args.branch_any || args.branch_filter.is_some() => {
            bail!(
                "--branches=none and {} contradict each other; leave one of them out",
                if args.branch_any { "-b" } else { "-j" }
            )
        }
        _ if args.command.is_empty() && !attached => {
            bail!(
                "nothing to record: give a command after `--`, or -p PID, -t TID, -u USER, -C \
                 CPU, or -a"
            )
        }
        _ => Ok(()),
    }
}

/// The summary for people.
fn tell(args: &Args, summary: &Summary) {
    let samples = counted(summary.samples, "sample", "samples");
    let entries = counted(summary.branch_entries, "branch entry", "branch entries");
    let what = match &summary.aux {
        Some(aux) if summary.samples == 0 => {
            format!("{} bytes of AUX data of {}", aux.bytes, summary.event)
        }
        Some(aux) => {
            format!(
                "{samples} of {} with {entries} and {} bytes of AUX data",
                summary.event, aux.bytes
            )
        }
        None => format!("{samples} of {} with {entries}", summary.event),
    };
    eprintln!(
        "recorded {what} in {:.1} s; wrote {} ({} bytes)",
        summary.elapsed.as_secs_f64(),
        summary.output.display(),
        summary.bytes
    );
    summary.aux.iter().for_each(losses::tell_aux);
    if let Some(taken) = summary.taken_branches {
        eprintln!(
            "the program took {taken} branches in {}",
            counted(summary.processes, "process", "processes")
        );
    }
    match &summary.streamed {
        Some(streamed) => losses::tell(streamed, args.streams.takes_losses()),
        None if summary.lost_samples > 0 => {
            eprintln!(
                "warning: {} lost",
                counted(summary.lost_samples, "sample was", "samples were")
            );
        }
        None => {}
    }
    if summary.native_programs > 0 {
        eprintln!(
            "warning: the program started {} that ran natively, not recorded",
            counted(summary.native_programs, "other program", "other programs")
        );
    }
    if let Some(went) = &summary.look_ahead {
        tell_look_ahead(args, went);
    }
    for note in &summary.notes {
        eprintln!("note: {note}");
    }
    if args.branches == Branches::Auto && summary.branches == "none" && args.events.is_empty() {
        let software = cfg!(target_arch = "x86_64");
        let native =
            if software { "--branches=software gives branch stacks at native speed, " } else { "" };
        eprintln!(
            "note: this machine has no hardware branch stacks, so these are clock samples; \
             {native}--branches=emulated gives exact ones"
        );
        if let Some((unit, command)) =
            record::arm_spe::told(Path::new(record::arm_spe::EVENT_SOURCES))
        {
            eprintln!(
                "note: {unit} is there and was not used; `{command}` uses it, or says why it \
                 cannot"
            );
        }
    }
    match summary.ending {
        Ending::Code(0) | Ending::Unknown => {}
        Ending::Code(code) => eprintln!("warning: the program ended with exit code {code}"),
        Ending::Signal(signal) => eprintln!("warning: the program was ended by signal {signal}"),
    }
}

/// How looking ahead went.
fn tell_look_ahead(args: &Args, went: &record::LookAhead) {
    let percent = |part: f64, whole: f64| if whole > 0.0 { 100.0 * part / whole } else { 0.0 };
    eprintln!(
        "{} of {} ({:.1} %) gave all {} branches; {} instructions followed",
        went.full,
        counted(went.stops, "stop", "stops"),
        percent(went.full as f64, went.stops as f64),
        went.depth,
        went.instructions
    );
    if !went.shorter.is_empty() {
        let mut reasons: Vec<(&String, &u64)> = went.shorter.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let told: Vec<String> =
            reasons.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        eprintln!("the others ended early: {}", told.join(", "));
    }
    eprintln!(
        "threads stood still for {:.3} s, {:.2} % of their {:.1} s of CPU time; the tracer used \
         {:.3} s of CPU time",
        went.stopped.as_secs_f64(),
        percent(went.stopped.as_secs_f64(), went.program_cpu.as_secs_f64()),
        went.program_cpu.as_secs_f64(),
        went.tracer_cpu.as_secs_f64()
    );
    if let Some((share, cost)) = beyond_budget(args.software_options().pace, went) {
        eprintln!(
            "warning: with the births of threads and programs, and caches found cold afterwards, \
             that is {:.2} %, more than the budget of {:.3} %: the machine was busy, or the \
             program is many short threads or programs",
            100.0 * cost,
            100.0 * share
        );
    }
    if went.checked > 0 {
        eprintln!(
            "checked {} by {} single steps, {} of them not to the end: {}{}",
            counted(went.checked, "stack", "stacks"),
            went.checked_instructions,
            went.cut,
            counted(went.mismatches, "mismatch", "mismatches"),
            if went.clock_races > 0 {
                format!(", and {} after the clock was read", went.clock_races)
            } else {
                String::new()
            }
        );
    }
}

/// The share of CPU time that stops and the births of threads were to cost, and the one they did
/// cost, where that is much more. Single steps are no part of a budget.
fn beyond_budget(pace: software::Pace, went: &record::LookAhead) -> Option<(f64, f64)> {
    /// Fewer stops say nothing, since the first ones cost the most; unless they took so long that
    /// it was noticed.
    const ENOUGH_STOPS: u64 = 20;
    const NOTICED_S: f64 = 0.05;
    let software::Pace::Budget(share) = pace else { return None };
    let (spent, cpu) =
        (software::with_cold_caches(went.stopped) + went.births, went.program_cpu.as_secs_f64());
    let (spent, cost) = (spent.as_secs_f64(), spent.as_secs_f64() / cpu);
    let enough = went.stops >= ENOUGH_STOPS || spent - share * cpu >= NOTICED_S;
    (went.checked == 0 && enough && cpu > 0.0 && cost > 1.5 * share).then_some((share, cost))
}

/// A number and its noun.
fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn to_json(summary: &Summary) -> serde_json::Value {
    let (exit_code, signal) = match summary.ending {
        Ending::Code(code) => (Some(code), None),
        Ending::Signal(signal) => (None, Some(signal)),
        Ending::Unknown => (None, None),
    };
    let mut object = json!({
        "version": 1,
        "output": summary.output.display().to_string(),
        "bytes": summary.bytes,
        "branches": summary.branches,
        "event": summary.event,
        "notes": summary.notes,
        "samples": summary.samples,
        "branch_entries": summary.branch_entries,
        "lost_samples": summary.lost_samples,
        "taken_branches": summary.taken_branches,
        "processes": summary.processes,
        "native_programs": summary.native_programs,
        "elapsed_s": summary.elapsed.as_secs_f64(),
        "exit_code": exit_code,
        "signal": signal,
    });
    if let (Some(went), Some(fields)) = (&summary.look_ahead, object.as_object_mut()) {
        let look_ahead = json!({
            "depth": went.depth,
            "stops": went.stops,
            "full": went.full,
            "shorter": went.shorter,
            "empty": went.empty,
            "instructions": went.instructions,
            "stopped_s": went.stopped.as_secs_f64(),
            "tracer_cpu_s": went.tracer_cpu.as_secs_f64(),
            "program_cpu_s": went.program_cpu.as_secs_f64(),
            "births_s": went.births.as_secs_f64(),
            "threads": went.threads,
            "let_be": went.let_be,
            "checked": went.checked,
            "checked_instructions": went.checked_instructions,
            "cut": went.cut,
            "mismatches": went.mismatches,
            "clock_races": went.clock_races,
        });
        fields.insert("look_ahead".to_owned(), look_ahead);
    }
    if let (Some(aux), Some(fields)) = (&summary.aux, object.as_object_mut()) {
        losses::add_aux_json(aux, fields);
    }
    if let (Some(streamed), Some(fields)) = (&summary.streamed, object.as_object_mut()) {
        losses::add_json(streamed, fields);
    }
    // Only the emulator counts processes and the programs they start; 0 would be a claim.
    if summary.branches != "emulated"
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("processes");
        fields.remove("native_programs");
    }
    object
}

/// A spinner on a terminal, once the recording has taken two seconds; gone when dropped.
struct Spinner {
    // Dropping the sender wakes the thread.
    _end: Option<std::sync::mpsc::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Spinner {
    fn start(quiet: bool) -> Spinner {
        if quiet || !std::io::stderr().is_terminal() {
            return Spinner { _end: None, thread: None };
        }
        let (end, ended) = channel::<()>();
        let thread = std::thread::spawn(move || {
            if ended.recv_timeout(Duration::from_secs(2)) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = ProgressBar::new_spinner().with_message("recording; Ctrl-C ends the program");
            while ended.recv_timeout(Duration::from_millis(200)) == Err(RecvTimeoutError::Timeout) {
                bar.tick();
            }
            bar.finish_and_clear();
        });
        Spinner { _end: Some(end), thread: Some(thread) }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self._end = None;
        if let Some(thread) = self.thread.take() {
            // A spinner that failed is no reason to lose the recording.
            let _ = thread.join();
        }
    }
}
