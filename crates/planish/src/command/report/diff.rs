//! `planish report diff`.

use super::calls::BY;
use super::recording::{Detail, Part, Shown, open};
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::command::percent::percent_of_all;
use crate::output;
use anyhow::{Context as _, bail};
use calltrees::rows::By;
use calltrees::{Event, Recorded};
use report::calls::{self as tell, diff};
use std::path::{Path, PathBuf};

/// Show which functions moved beyond noise between recordings.
///
/// What is compared is the share of all samples. With at least 4 recordings on each side, the noise
/// is what differs between recordings of one side; else it is that of blocks of time within each.
/// The exit code is 1 if a share grew beyond noise, and not just because others shrank.
#[derive(Debug, clap::Args)]
pub struct DiffArgs {
    /// The recording before: a file, the directory form, or `-` for the pipe form
    #[arg(value_name = "OLD", required_unless_present = "old", requires = "new_input")]
    old_input: Option<PathBuf>,
    /// The recording after
    #[arg(value_name = "NEW")]
    new_input: Option<PathBuf>,
    /// A recording before; repeatable
    #[arg(long, value_name = "PERF.DATA", conflicts_with = "old_input", requires = "new")]
    old: Vec<PathBuf>,
    /// A recording after; repeatable
    #[arg(long, value_name = "PERF.DATA", conflicts_with = "new_input", requires = "old")]
    new: Vec<PathBuf>,
    /// What the rows are about [default: function]
    #[arg(long, value_parser = BY)]
    by: Option<By>,
    /// Compare what was sampled in a row or in what it called, instead of in itself
    #[arg(long)]
    total: bool,
    /// Differences within this percentage of all samples count as no change
    #[arg(long, value_name = "PERCENT", value_parser = percent_of_all, default_value = "1")]
    margin: f64,
    #[command(flatten)]
    part: Part,
    #[command(flatten)]
    shown: Shown,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Runs `planish report diff`.
pub fn run(args: &DiffArgs, global: &Global) -> anyhow::Result<u8> {
    let old: Vec<&Path> = args.old.iter().chain(&args.old_input).map(PathBuf::as_path).collect();
    let new: Vec<&Path> = args.new.iter().chain(&args.new_input).map(PathBuf::as_path).collect();
    if old.iter().chain(&new).filter(|path| path.as_os_str() == "-").count() > 1 {
        bail!("-: standard input holds one recording; name files for the others");
    }
    let blocks = (!diff::by_recordings(old.len(), new.len())).then_some(diff::BLOCKS);
    let read = |paths: &[&Path]| -> anyhow::Result<Vec<(PathBuf, Recorded)>> {
        let detail = Detail { blocks, ..Detail::of(args.by.unwrap_or_default()) };
        let one = |path: &&Path| {
            let recorded = args.part.read(path, &open(path)?, detail, global)?;
            Ok((path.to_path_buf(), recorded))
        };
        paths.iter().map(one).collect()
    };
    let (old, new) = (read(&old)?, read(&new)?);
    let event = event(&old, &new, args.shown.event.as_deref())?;
    let (before, after) = (units(&old, &event)?, units(&new, &event)?);
    let asked = diff::Asked {
        by: args.by.unwrap_or_default(),
        total: args.total,
        percent: args.shown.percent,
        margin: args.margin,
        limit: args.shown.limit,
    };
    let found = diff::diff(&before, &after, asked).map_err(anyhow::Error::msg)?;
    match args.format {
        Format::Text => output::print(&diff::diff_text(&found))?,
        Format::Json => output::print_json(&diff::diff_json(&found, &before, &after))?,
    }
    if !global.quiet {
        for ((path, recorded), unit) in old.iter().chain(&new).zip(before.iter().chain(&after)) {
            let notes = tell::notes(recorded, unit.event);
            notes.iter().for_each(|note| eprintln!("note: {}: {note}", path.display()));
        }
    }
    Ok(if found.is_worse() { NEGATIVE } else { FINE })
}

type Read = (PathBuf, Recorded);

/// The event to compare: the one that is named, else that with most samples, which must be one.
fn event(old: &[Read], new: &[Read], name: Option<&str>) -> anyhow::Result<Event> {
    let mut first: Option<(&Path, Event)> = None;
    for (path, recorded) in old.iter().chain(new) {
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

fn units<'r>(side: &'r [Read], event: &Event) -> anyhow::Result<Vec<diff::Unit<'r>>> {
    let unit = |(path, recorded): &'r Read| {
        let event = tell::event_of(recorded, Some(&event.name))
            .map_err(anyhow::Error::msg)
            .with_context(|| path.display().to_string())?;
        Ok(diff::Unit { recorded, event })
    };
    side.iter().map(unit).collect()
}
