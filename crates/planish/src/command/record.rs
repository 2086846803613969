//! `planish record`: a program's run to perf.data, with branch stacks wherever they can be had.

use crate::cli::{FINE, Format, Global, NEGATIVE};
use anyhow::{Context as _, bail};
use indicatif::ProgressBar;
use record::live::{self, Rate, Target};
use record::{Ending, Stdout, Summary, Workload, emulate};
use serde_json::json;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Where branch stacks come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Branches {
    /// Of the CPU where it has them, else none (with a note)
    #[default]
    Auto,
    /// Of the CPU (Intel LBR, AMD BRS and LBRv2, Arm BRBE), or an error
    Hardware,
    /// Software branch stacks at native speed (not built yet)
    Software,
    /// Of an emulated CPU (qemu-user): any machine, 10 to 15 times slower
    Emulated,
    /// None: clock samples
    None,
}

/// Record where a program spends its time, with branch stacks, into perf.data.
///
/// Everything that reads perf.data reads the result: planish, perf script and perf report, llvm-profgen, perf2bolt. An
/// existing file is kept as perf.data.old. Ctrl-C ends the program and finishes the file; a second one within three
/// seconds ends a program that ignores the first. Under emulation, programs
/// that the program starts run natively and are not recorded; their number is told.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to write; `-`: to standard output, in pipe form
    #[arg(short, long, default_value = "perf.data", value_name = "FILE")]
    pub output: PathBuf,
    /// Where branch stacks come from
    #[arg(short, long, value_enum, default_value_t = Branches::Auto)]
    pub branches: Branches,
    /// Sample every so many events; emulated: taken branches [default: 1000], clock: nanoseconds
    #[arg(short = 'c', long = "count", value_name = "PERIOD", conflicts_with = "frequency",
          value_parser = clap::value_parser!(u64).range(1..1 << 40))]
    pub period: Option<u64>,
    /// Sample so many times a second; not under emulation [default: 4000]
    #[arg(short = 'F', long = "freq", value_name = "HERTZ",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub frequency: Option<u64>,
    /// Record running processes, until they end, the command ends, or Ctrl-C
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with = "all_cpus")]
    pub pid: Vec<i32>,
    /// Record the whole system, until the command ends, or Ctrl-C
    #[arg(short, long = "all-cpus")]
    pub all_cpus: bool,
    /// How to print the summary; json goes to standard output, and the program's own to standard error
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// The program and its arguments, after `--`
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    check(&args)?;
    super::handle_interrupts();
    let piped = args.output.as_os_str() == "-";
    let stdout = if piped || args.format == Format::Json { Stdout::ToStderr } else { Stdout::Inherit };
    let workload = Workload { stdout, ..Workload::new(args.command.iter()) };
    // A pipe takes no header afterwards: the recording is made in a file and then sent.
    let beside =
        if piped { Some(tempfile::tempdir().context("create a temporary directory")?) } else { None };
    let output = beside.as_ref().map_or_else(|| args.output.clone(), |dir| dir.path().join("perf.data"));
    let spinner = Spinner::start(global.quiet);
    let mut summary = if args.branches == Branches::Emulated {
        let options = emulate::Options { period: args.period.unwrap_or(1000), ..Default::default() };
        emulate::record(&workload, &output, &options)?
    } else {
        let command = (!args.command.is_empty()).then_some(&workload);
        live::record(&target(&args), command, &output, &live_options(&args))?
    };
    drop(spinner);
    if piped {
        send(&output)?;
        summary.output = "to standard output".into();
    }
    if !global.quiet {
        tell(&args, &summary);
    }
    if args.format == Format::Json {
        println!("{:#}", to_json(&summary));
    }
    Ok(match summary.ending {
        // A program that was asked to stop did what it was asked.
        Ending::Code(0) | Ending::Unknown | Ending::Signal(libc::SIGINT | libc::SIGTERM) => FINE,
        Ending::Code(_) | Ending::Signal(_) => NEGATIVE,
    })
}

/// Sends a finished recording in pipe form.
fn send(recording: &Path) -> anyhow::Result<()> {
    let input = perfdata::Input::open(recording)?;
    let out = std::io::BufWriter::with_capacity(1 << 18, std::io::stdout().lock());
    let mut pipe = perfdata::write::PipeWriter::new(out, input.attrs(), input.features())?;
    let mut chunks = input.chunks()?;
    while let Some(chunk) = chunks.next() {
        let chunk = chunk?;
        pipe.append(&chunk.bytes)?;
        chunks.recycle(chunk.bytes);
    }
    pipe.finish()?;
    Ok(())
}

fn check(args: &Args) -> anyhow::Result<()> {
    if args.output.as_os_str() == "-" {
        if args.format == Format::Json {
            bail!("-o - and --format json both want standard output; write to a file");
        }
        if std::io::stdout().is_terminal() {
            bail!("a recording is not for terminals: pipe it into another command, or give a file (-o)");
        }
    }
    let attached = args.all_cpus || !args.pid.is_empty();
    match args.branches {
        Branches::Software => {
            bail!("software branch stacks are not built yet; use --branches=emulated")
        }
        Branches::Emulated if attached => {
            bail!("--branches=emulated starts the program itself: give it after `--`, without -p and -a")
        }
        Branches::Emulated if args.frequency.is_some() => {
            bail!("under emulation time means nothing: give a period in taken branches (-c), not a frequency")
        }
        _ if args.command.is_empty() && !attached => {
            bail!("nothing to record: give a command after `--`, or -p PID, or -a")
        }
        _ => Ok(()),
    }
}

fn target(args: &Args) -> Target {
    if args.all_cpus {
        Target::System
    } else if args.pid.is_empty() {
        Target::Command
    } else {
        Target::Processes(args.pid.clone())
    }
}

fn live_options(args: &Args) -> live::Options {
    let branches = match args.branches {
        Branches::Hardware => live::Branches::Hardware,
        Branches::None => live::Branches::None,
        Branches::Auto | Branches::Software | Branches::Emulated => live::Branches::Auto,
    };
    let rate = args.period.map(Rate::Period).or(args.frequency.map(Rate::Frequency));
    live::Options { branches, rate }
}

/// The summary for people.
fn tell(args: &Args, summary: &Summary) {
    eprintln!(
        "recorded {} of {} with {} in {:.1} s; wrote {} ({} bytes)",
        counted(summary.samples, "sample", "samples"),
        summary.event,
        counted(summary.branch_entries, "branch entry", "branch entries"),
        summary.elapsed.as_secs_f64(),
        summary.output.display(),
        summary.bytes
    );
    if let Some(taken) = summary.taken_branches {
        eprintln!(
            "the program took {taken} branches in {}",
            counted(summary.processes, "process", "processes")
        );
    }
    if summary.lost_samples > 0 {
        eprintln!("warning: {} lost", counted(summary.lost_samples, "sample was", "samples were"));
    }
    if summary.native_programs > 0 {
        eprintln!(
            "warning: the program started {} that ran natively, not recorded",
            counted(summary.native_programs, "other program", "other programs")
        );
    }
    if args.branches == Branches::Auto && summary.branches == "none" {
        eprintln!(
            "note: this machine has no hardware branch stacks, so these are clock samples; \
             --branches=emulated gives branch stacks"
        );
    }
    match summary.ending {
        Ending::Code(0) | Ending::Unknown => {}
        Ending::Code(code) => eprintln!("warning: the program ended with exit code {code}"),
        Ending::Signal(signal) => eprintln!("warning: the program was ended by signal {signal}"),
    }
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
