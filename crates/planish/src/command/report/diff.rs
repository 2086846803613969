//! `planish report diff`.

use super::filter::{NO_CGROUPS, Seconds, seconds};
use super::page::write;
use super::recording::{Detail, Part, Shown, open, origin};
use crate::cli::{Choice, FINE, Global, NEGATIVE};
use crate::command::percent::percent_of_all;
use crate::output;
use anyhow::{Context as _, bail};
use calltrees::rows::By;
use calltrees::{Event, Recorded};
use report::calls::diff::Rows;
use report::calls::{self as tell, Origin, diff};
use std::path::{Path, PathBuf};

/// What rows are about.
const BY: Choice<Rows> = Choice(&[
    (
        "function",
        Rows::Of(By::Function),
        "Functions, whatever their library; clones count with their function",
    ),
    ("library", Rows::Of(By::Library), "Programs, shared libraries, the kernel and its modules"),
    (
        "line",
        Rows::Of(By::Line),
        "Source lines, also of inlined functions; functions where no line is known",
    ),
    ("thread", Rows::Of(By::Thread), "Threads, by name"),
    ("process", Rows::Of(By::Process), "Processes, by the name of their main thread"),
    (
        "cgroup",
        Rows::Of(By::Cgroup),
        "Control groups, if recorded (perf record --all-cgroups, planish record -a -G NAME)",
    ),
    ("stack", Rows::Stack, "Call paths"),
    (
        "wait",
        Rows::Wait,
        "Kinds of waits and the call paths that waited, as shares of the time of all threads",
    ),
]);

/// Show what moved beyond noise between recordings: functions, call paths, waits.
///
/// planish compares shares of all samples. With at least 4 recordings on each side, the noise is how
/// much the recordings of one side differ; with fewer, how much blocks of time within a recording
/// differ. The exit code is 1 if a share grew beyond noise, and not just because others shrank.
#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    /// The old recording: a file, a directory (record --threads), an archive, or `-` for a pipe
    #[arg(value_name = "OLD", required_unless_present_any = ["old", "within"], requires = "new_input")]
    old_input: Option<PathBuf>,
    /// The new recording
    #[arg(value_name = "NEW")]
    new_input: Option<PathBuf>,
    /// An old recording; repeatable
    #[arg(long, value_name = "PERF.DATA", conflicts_with = "old_input", requires = "new")]
    old: Vec<PathBuf>,
    /// A new recording; repeatable
    #[arg(long, value_name = "PERF.DATA", conflicts_with = "new_input", requires = "old")]
    new: Vec<PathBuf>,
    /// Compare this recording with itself: its first half with its second, or --old-time with
    /// --new-time
    #[arg(long, value_name = "PERF.DATA", conflicts_with_all = ["old_input", "new_input", "old", "new"])]
    within: Option<PathBuf>,
    /// On the old side, count only samples of this part of the time (FROM-TO as for --time)
    #[arg(long, value_name = "FROM-TO", value_parser = seconds, allow_hyphen_values = true, conflicts_with = "time")]
    old_time: Option<Seconds>,
    /// On the new side, count only samples of this part of the time (FROM-TO as for --time)
    #[arg(long, value_name = "FROM-TO", value_parser = seconds, allow_hyphen_values = true, conflicts_with = "time")]
    new_time: Option<Seconds>,
    /// What the rows are about [default: function]
    #[arg(long, value_parser = BY)]
    by: Option<Rows>,
    /// Compare what was sampled in each row or in what it called, not only in itself
    #[arg(long)]
    total: bool,
    /// Call a row `same` if no difference is shown and any difference would lie within this percentage
    /// of all samples
    #[arg(long, value_name = "PERCENT", value_parser = percent_of_all, default_value = "1")]
    margin: f64,
    #[command(flatten)]
    part: Part,
    #[command(flatten)]
    shown: Shown,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: DiffFormat,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// How a difference is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum DiffFormat {
    /// Lines for people
    #[default]
    Text,
    /// One JSON object
    Json,
    /// One page to look around in, 5 MB at most: the verdicts, and the calls of both sides, coloured
    /// by the difference
    Html,
}

/// Runs `planish report diff`.
pub fn run(args: &DiffArgs, global: &Global) -> anyhow::Result<u8> {
    let of = |named: &[PathBuf], input: &Option<PathBuf>| -> Vec<PathBuf> {
        named.iter().chain(input).chain(&args.within).cloned().collect()
    };
    let (old, new) = (of(&args.old, &args.old_input), of(&args.new, &args.new_input));
    if old.iter().chain(&new).filter(|path| path.as_os_str() == "-").count() > 1 {
        bail!("-: standard input holds one recording, read once; name files");
    }
    output::refuse_inputs(args.output.as_deref(), old.iter().chain(&new).map(PathBuf::as_path))?;
    let by = args.by.unwrap_or(Rows::Of(By::Function));
    let detail = Detail {
        blocks: (!diff::by_recordings(old.len(), new.len())).then_some(diff::BLOCKS),
        inlined: matches!(by, Rows::Of(By::Function) | Rows::Stack | Rows::Wait),
        lines: by == Rows::Of(By::Line),
        ..Detail::default()
    };
    let (old_time, new_time) = args.times(global)?;
    let read = |paths: &[PathBuf], time: Option<Seconds>| -> anyhow::Result<Vec<Read>> {
        let part = args.part.within(time);
        let one = |path: &PathBuf| {
            let input = open(path)?;
            let recorded = part.read(path, &input, detail, global)?;
            Ok((path.clone(), recorded, origin(path, &input)))
        };
        paths.iter().map(one).collect()
    };
    let (old, new) = (read(&old, old_time)?, read(&new, new_time)?);
    let ungrouped = old.iter().chain(&new).find(|(_, recorded, _)| recorded.cgroups.is_empty());
    if let Some((path, ..)) = ungrouped.filter(|_| by == Rows::Of(By::Cgroup)) {
        bail!("{}: {NO_CGROUPS}", path.display());
    }
    let asked = diff::Asked {
        by,
        total: args.total,
        inlined: args.part.inlined,
        percent: args.shown.percent,
        margin: args.margin,
        limit: args.shown.limit,
    };
    let event = match by {
        Rows::Wait => None,
        _ => Some(event(&old, &new, args.shown.event.as_deref())?),
    };
    let (before, after) = (units(&old, event.as_ref())?, units(&new, event.as_ref())?);
    let found = diff::diff(&before, &after, asked).map_err(anyhow::Error::msg)?;
    let text = match args.format {
        DiffFormat::Text => diff::diff_text(&found),
        DiffFormat::Json => {
            let value = diff::diff_json(&found, &before, &after);
            report::json(&(serde_json::to_string_pretty(&value)? + "\n")).into_owned()
        }
        DiffFormat::Html => {
            tell::difference_page(&found, &side(&before, &old), &side(&after, &new))
        }
    };
    write(&text, args.output.as_deref())?;
    if !global.quiet {
        diff::diff_notes(&found).iter().for_each(|note| eprintln!("note: {note}"));
        for ((path, recorded, _), unit) in old.iter().chain(&new).zip(before.iter().chain(&after)) {
            let notes = tell::notes(recorded, unit.event);
            notes.iter().for_each(|note| eprintln!("note: {}: {note}", path.display()));
        }
    }
    Ok(if found.is_worse() { NEGATIVE } else { FINE })
}

fn side<'r>(units: &[diff::Unit<'r>], read: &[Read]) -> Vec<(diff::Unit<'r>, Origin)> {
    units.iter().copied().zip(read.iter().map(|(.., origin)| origin.clone())).collect()
}

/// A recording with its path and what it says of itself.
type Read = (PathBuf, Recorded, Origin);

/// The event to compare: the one that is named, else that with most samples, which must be one.
fn event(old: &[Read], new: &[Read], name: Option<&str>) -> anyhow::Result<Event> {
    let mut first: Option<(&Path, Event)> = None;
    for (path, recorded, _) in old.iter().chain(new) {
        let index = tell::event_of(recorded, name)
            .map_err(anyhow::Error::msg)
            .with_context(|| path.display().to_string())?;
        let Some(own) = recorded.events.get(index as usize) else { continue };
        match &first {
            None => first = Some((path, own.clone())),
            Some((before, event)) if event.name != own.name => bail!(
                "{} has samples of {}, {} of {}: shares of different events cannot be compared; \
                 record both with the same event (-e), or choose one that both have (--event)",
                before.display(),
                report::visible(&event.name),
                path.display(),
                report::visible(&own.name),
            ),
            Some(_) => {}
        }
    }
    first.map(|(_, event)| event).context("no recording is given")
}

fn units<'r>(side: &'r [Read], event: Option<&Event>) -> anyhow::Result<Vec<diff::Unit<'r>>> {
    let unit = |(path, recorded, _): &'r Read| {
        let name = event.map(|event| event.name.as_str());
        let event = tell::event_of(recorded, name)
            .map_err(anyhow::Error::msg)
            .with_context(|| path.display().to_string())?;
        Ok(diff::Unit { recorded, event })
    };
    side.iter().map(unit).collect()
}

impl DiffArgs {
    /// Which part of the time counts on each side.
    fn times(&self, global: &Global) -> anyhow::Result<(Option<Seconds>, Option<Seconds>)> {
        let Some(path) = &self.within else {
            let time = self.part.filter.time;
            return Ok((self.old_time.or(time), self.new_time.or(time)));
        };
        if path.as_os_str() == "-" {
            bail!("--within: standard input can be read once only; name a file");
        }
        match (self.old_time, self.new_time) {
            (Some(old), Some(new)) => Ok((Some(old), Some(new))),
            (None, None) if self.part.filter.time.is_none() => {
                let times = calltrees::times(&open(path)?, global.threads())?;
                let Some(times) = times else {
                    bail!(
                        "{}: --within: its samples have no times (perf record -T)",
                        path.display()
                    );
                };
                let (first, second) = Seconds::halves(times.end.saturating_sub(times.start));
                Ok((Some(first), Some(second)))
            }
            _ => bail!("--within: give both --old-time and --new-time, or none for its halves"),
        }
    }
}
