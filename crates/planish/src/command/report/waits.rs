//! `planish report waits` and `timeline`: how long threads and stacks of a recording waited, for what
//! reason, and when.

use super::filter::narrow_to;
use super::interactive;
use super::recording::{Detail, Recording, open};
use crate::cli::{FINE, Format, Global};
use crate::output;
use anyhow::{Context as _, bail};
use calltrees::switching::{ThreadRow, Wakers, wakers};
use calltrees::{Recorded, Session};
use report::calls::timeline::Timeline;
use report::calls::waits::{Told, write_intervals};
use std::io::Write as _;
use viewer::View;

/// Show how long threads and stacks waited, from the context switches of a recording.
///
/// A thread leaves its CPU because it waits for something (synchronisation) or because another
/// thread runs instead (preemption). If wake-ups are recorded, the time from the wake-up until the
/// thread gets a CPU counts as run queue, and a table shows who woke whom, such as the stack that
/// waited for a lock beside the stack that released it.
///
/// Record with `planish record --switch-events -g`, as root; for stacks without wake-ups, CAP_PERFMON
/// is enough. hot, callers, callees and tree show the same waits by function, with `--event wait`,
/// `--event preempted` or `--event runqueue`.
#[derive(Debug, clap::Args)]
pub struct WaitsArgs {
    #[command(flatten)]
    recording: Recording,
    /// Print at most this many threads, stacks and pairs of stacks (who woke whom), those that waited
    /// longest first; 0: all
    #[arg(long, value_name = "N", default_value_t = 20, allow_negative_numbers = true)]
    limit: usize,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Print all waits for another program instead of the tables
    #[arg(long, value_enum, value_name = "KIND", conflicts_with_all = ["format", "comm", "through", "interactive"])]
    emit: Option<Waits>,
}

/// What is printed for other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Waits {
    /// One JSON object per line for each wait: its thread, reason, start, duration and CPUs
    Switches,
}

/// Show what each thread did over time, and how many ran at once.
///
/// Each thread has a line with one character for each part of the time. The recording needs records
/// of context switches: `planish record --switch-events`.
#[derive(Debug, clap::Args)]
pub struct TimelineArgs {
    #[command(flatten)]
    recording: Recording,
    /// Cut the time into this many parts of equal length
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = parts)]
    parts: usize,
    /// Print at most this many threads, those that ran most first; 0: all
    #[arg(long, value_name = "N", default_value_t = 20, allow_negative_numbers = true)]
    limit: usize,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

fn parts(text: &str) -> Result<usize, String> {
    /// Each thread has as many numbers.
    const MOST: usize = 10_000;
    let number = text.parse().ok().filter(|number| (1..=MOST).contains(number));
    number.ok_or_else(|| format!("expected a number from 1 to {MOST}"))
}

/// Refuses `--latency`, which weighs samples: waits and the time line have none.
fn refuse_latency(recording: &Recording) -> anyhow::Result<()> {
    if recording.part.latency {
        bail!(
            "--latency weighs samples, and this tells of switches; use it with hot, callers, \
             callees, tree or lines"
        );
    }
    Ok(())
}

/// Runs `planish report timeline`.
pub fn timeline(args: &TimelineArgs, global: &Global) -> anyhow::Result<u8> {
    refuse_latency(&args.recording)?;
    if args.recording.interactive {
        return interactive::run_view(&args.recording, View::Timeline, global);
    }
    let recorded = args.recording.read(global)?;
    let filter = &args.recording.part.filter;
    let told = |thread: &ThreadRow| filter.comm.as_deref().is_none_or(|comm| comm == thread.name);
    let found = Timeline::new(&recorded, told, (args.parts, args.limit))
        .map_err(anyhow::Error::msg)
        .with_context(|| args.recording.input.display().to_string())?;
    match args.format {
        Format::Text => output::print(&found.text())?,
        Format::Json => output::print_json(&found.json())?,
    }
    Ok(FINE)
}

/// Reads a recording, and if asked who ended its waits, as far as its filter lets them through.
fn read(
    recording: &Recording,
    pairs: bool,
    global: &Global,
) -> anyhow::Result<(Recorded, Option<Wakers>)> {
    let filter = &recording.part.filter;
    let path = &recording.input;
    let input = open(path)?;
    let then = |mut recorded: Recorded, session: &Session<'_>, progress: &dyn Fn(u64)| {
        let has = recorded.switching.as_ref().is_some_and(|switching| switching.has_wakers);
        // Samples tell their control groups, and pairs of stacks do not.
        let wanted = pairs && has && filter.cgroup.is_none();
        let mut found = wanted.then(|| wakers(&recorded, session, progress)).transpose()?;
        let named = filter.named(&recorded).map_err(anyhow::Error::msg);
        let named = named.with_context(|| path.display().to_string())?;
        narrow_to(&named, &mut recorded);
        if let Some(found) = &mut found {
            found.retain(|row| {
                let (waiting, waking) = (&row.waiting_stack, &row.waking_stack);
                let through = named.through.as_ref().is_none_or(|through| {
                    waiting.iter().chain(waking).any(|function| through.contains(function))
                });
                let comm = named.comm.as_ref();
                through && comm.is_none_or(|comm| [&row.waiting, &row.waking].contains(&comm))
            });
        }
        Ok((recorded, found))
    };
    recording.part.read_then(path, &input, Detail::default(), global, then)?
}

/// Runs `planish report waits`.
pub fn waits(args: &WaitsArgs, global: &Global) -> anyhow::Result<u8> {
    refuse_latency(&args.recording)?;
    if args.recording.interactive {
        return interactive::run_view(&args.recording, View::Waits, global);
    }
    let (recorded, wakers) = read(&args.recording, args.emit.is_none(), global)?;
    let filter = &args.recording.part.filter;
    let is_told = |name: &str| {
        filter.through.is_none() && filter.comm.as_deref().is_none_or(|comm| comm == name)
    };
    let told = Told::new(&recorded, wakers, |thread| is_told(&thread.name), args.limit)
        .map_err(anyhow::Error::msg)
        .with_context(|| args.recording.input.display().to_string())?;
    if args.emit == Some(Waits::Switches) {
        let mut out = output::text();
        write_intervals(&recorded, &mut out)?;
        out.flush()?;
        return Ok(FINE);
    }
    match args.format {
        Format::Text => output::print(&told.text())?,
        Format::Json => output::print_json(&told.json())?,
    }
    if !global.quiet {
        told.notes().iter().for_each(|note| eprintln!("note: {note}"));
    }
    Ok(FINE)
}
