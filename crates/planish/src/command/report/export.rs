//! `planish report export`.

use super::recording::{Detail, Part, open, origin};
use crate::cli::{FINE, Global};
use crate::output;
use anyhow::{Context as _, bail};
use calltrees::{Recorded, Session};
use report::calls::export::{self as formats, Export, Reduced};
use report::calls::{self as tell, Selected};
use std::io::{BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

/// Write a recording in another program's format.
///
/// docs/reference/report-export.md describes the formats.
#[derive(Debug, clap::Args)]
pub struct ExportArgs {
    /// The recording: a file, a directory (record --threads), an archive (report archive), or `-` for
    /// a pipe on standard input
    #[arg(default_value = "perf.data", value_name = "PERF.DATA")]
    input: PathBuf,
    #[command(flatten)]
    part: Part,
    /// Format to write
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: To,
    /// Write the samples of this event [default: the one with most samples; pprof: also the waits;
    /// script: all]
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// Write to this file instead of standard output; with firefox, it is compressed if its name ends
    /// in .gz
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum To {
    /// Firefox Profiler (profiler.firefox.com): threads over time, waits as markers
    Firefox,
    /// pprof (`go tool pprof`): one value per stack and thread
    Pprof,
    /// Flame graph programs: one line per stack with its weight
    Folded,
    /// Programs that read the text of `perf script`: sample by sample
    Script,
}

/// Runs `planish report export`.
pub fn run(args: &ExportArgs, global: &Global) -> anyhow::Result<u8> {
    let path = args.input.as_path();
    output::refuse_inputs(args.output.as_deref(), [path])?;
    if args.output.is_none() && args.to == To::Pprof && std::io::stdout().is_terminal() {
        bail!("a terminal shows no compressed bytes: name a file with -o");
    }
    let input = open(path)?;
    let product = origin(path, &input).command;
    let product = product.unwrap_or_else(|| path.display().to_string());
    let part = &args.part;
    let detail = Detail { again: matches!(args.to, To::Firefox | To::Script), ..Detail::default() };
    part.read_then(path, &input, detail, global, |recorded, session, progress| {
        let asked = Asked { args, product: &product, progress };
        asked.write(recorded, session).with_context(|| path.display().to_string())
    })?
    .map(|notes| {
        if !global.quiet {
            notes.iter().for_each(|note| eprintln!("note: {note}"));
        }
        FINE
    })
}

struct Asked<'a> {
    args: &'a ExportArgs,
    product: &'a str,
    progress: &'a dyn Fn(u64),
}

impl Asked<'_> {
    /// Writes; what is to be said beside it comes back.
    fn write(&self, mut recorded: Recorded, session: &Session<'_>) -> anyhow::Result<Vec<String>> {
        let args = self.args;
        let filter = &args.part.filter;
        let named = filter.named(&recorded).map_err(anyhow::Error::msg)?;
        let event = tell::event_of(&recorded, args.event.as_deref()).map_err(anyhow::Error::msg)?;
        let is_wait = recorded.events.get(event as usize).is_some_and(|e| e.off_cpu.is_some());
        if is_wait && args.event.is_some() && matches!(args.to, To::Firefox | To::Script) {
            bail!(
                "this format has waits as no samples: firefox shows them as markers beside any \
                 other event; pprof and folded take them with --event"
            );
        }
        let mut notes = tell::notes(&recorded, event);
        if args.to == To::Folded {
            filter.narrow(&mut recorded).map_err(anyhow::Error::msg)?;
            let selected = Selected { recorded: &recorded, event, limit: 0, percent: 0.0 };
            let text = tell::folded(&selected);
            to(args.output.as_deref(), &mut |out| Ok(out.write_all(text.as_bytes())?))?;
            return Ok(notes);
        }
        let export =
            Export { recorded: &recorded, session, named: &named, progress: self.progress };
        let mut reduced = None;
        to(args.output.as_deref(), &mut |out| {
            match args.to {
                To::Firefox => reduced = Some(self.firefox(&export, event, out)?),
                To::Pprof => formats::pprof(&export, event, args.event.is_none(), out)?,
                To::Script | To::Folded => {
                    formats::script(&export, args.event.as_ref().map(|_| event), out)?;
                }
            }
            Ok(())
        })?;
        notes.extend(reduced.iter().flat_map(told));
        Ok(notes)
    }

    fn firefox(
        &self,
        export: &Export<'_>,
        event: u32,
        out: &mut dyn Write,
    ) -> anyhow::Result<Reduced> {
        let zipped = self.args.output.as_ref().and_then(|path| path.extension());
        if zipped.is_none_or(|extension| extension != "gz") {
            return Ok(formats::firefox(export, event, self.product, out)?);
        }
        Ok(formats::zipped(out, |out| formats::firefox(export, event, self.product, out))?)
    }
}

/// Fills a file, or standard output.
fn to(
    path: Option<&Path>,
    fill: &mut dyn FnMut(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    match path {
        Some(path) => output::write_file(path, |out| {
            let mut out = BufWriter::with_capacity(1 << 16, out);
            fill(&mut out)?;
            Ok(out.flush()?)
        })
        .with_context(|| path.display().to_string()),
        None => {
            let mut out = BufWriter::with_capacity(1 << 16, output::raw());
            fill(&mut out)?;
            Ok(out.flush()?)
        }
    }
}

/// What a profile of the Firefox Profiler does not have of the recording.
fn told(reduced: &Reduced) -> Vec<String> {
    let mut notes = Vec::new();
    if reduced.slot_ns > 0 {
        notes.push(format!(
            "{} samples are {} in the profile: those of one thread and stack within {} are one \
             with their weight; --time exports a part in full",
            report::count(reduced.samples),
            report::count(reduced.written),
            report::duration_ns(reduced.slot_ns as f64),
        ));
    }
    if reduced.waits_left_out > 0 {
        let waits = report::counted(reduced.waits_left_out, "wait", "waits");
        notes.push(format!("{waits} are no markers: the shortest"));
    }
    notes
}
