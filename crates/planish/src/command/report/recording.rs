//! A recording opened for `planish report`, with the files and names that it needs.

use super::filter::FilterArgs;
use super::symbols::{Finder, Symbols};
use crate::cli::Global;
use crate::command::percent::percent_of_all;
use crate::input::STREAM_BYTES;
use crate::progress;
use anyhow::{Context as _, bail};
use calltrees::{Blocks, KernelSymbols, Options, Recorded, times};
use report::calls::{self, Selected};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Which recording, and what of it.
#[derive(Debug, clap::Args)]
pub struct Source {
    /// The recording: a file, the directory form, or `-` for the pipe form on standard input
    #[arg(default_value = "perf.data", value_name = "PERF.DATA")]
    pub input: PathBuf,
    #[command(flatten)]
    pub part: Part,
}

/// What of a recording.
#[derive(Debug, clap::Args)]
pub struct Part {
    /// Which event's samples to show [default: the one with most samples]
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,
    /// Show functions that were inlined as frames of their own, by the debug information
    #[arg(long)]
    pub inlined: bool,
    #[command(flatten)]
    pub filter: FilterArgs,
    #[command(flatten)]
    pub symbols: Symbols,
    /// How many lines to print at most; 0: all
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub limit: usize,
    /// Leave out what makes up less than so many per cent of the whole, its callees included
    #[arg(long, value_name = "PERCENT", value_parser = percent_of_all, default_value = "0.5")]
    pub percent: f64,
}

impl Source {
    /// Reads the recording.
    pub fn read(&self, global: &Global) -> anyhow::Result<Recorded> {
        self.part.read(&self.input, None, global)
    }

    /// What of it is to be told.
    pub fn select<'r>(&self, recorded: &'r Recorded) -> anyhow::Result<Selected<'r>> {
        let part = &self.part;
        let event = calls::event_of(recorded, part.event.as_deref())
            .map_err(anyhow::Error::msg)
            .with_context(|| self.input.display().to_string())?;
        Ok(Selected { recorded, event, limit: part.limit, percent: part.percent })
    }

    /// Says on standard error what the numbers do not hold.
    pub fn tell_notes(&self, selected: &Selected<'_>, global: &Global) {
        if !global.quiet {
            let notes = calls::notes(selected.recorded, selected.event);
            notes.iter().for_each(|note| eprintln!("note: {note}"));
        }
    }
}

impl Part {
    /// Reads a recording, its time cut into so many blocks.
    pub fn read(
        &self,
        path: &Path,
        blocks: Option<u32>,
        global: &Global,
    ) -> anyhow::Result<Recorded> {
        let input = if path.as_os_str() == "-" {
            let stdin = std::io::stdin().lock();
            perfdata::Input::from_pipe(beside::given::Bounded::new(stdin, STREAM_BYTES))?
        } else {
            perfdata::Input::open(path)?
        };
        let finder = Finder::new(&self.symbols, &input);
        // Without the right to read it, or on another system, kernel frames stay addresses.
        let kernel = std::fs::read_to_string("/proc/kallsyms").ok();
        let kernel = kernel.map(|text| KernelSymbols::parse(&text));
        let bar = progress::Bytes::new("report", input.data_bytes(), global.quiet);
        let window = self.filter.window(path, &input, global.threads())?;
        let blocks = match blocks {
            Some(count) => Some(cut(path, &input, window.as_ref(), count, global)?),
            None => None,
        };
        let keep = |sample: &perfdata::ChainSample<'_>| self.filter.keeps(sample, window.as_ref());
        let options = Options {
            threads: global.threads(),
            open: &|mapped| finder.open(mapped),
            kernel: kernel.as_ref(),
            inlined: Some(finder.debug()).filter(|_| self.inlined),
            keep: &keep,
            blocks,
            progress: &|bytes| bar.add(bytes),
        };
        let mut recorded = calltrees::read(path, &input, &options)?;
        self.filter
            .narrow(&mut recorded)
            .map_err(anyhow::Error::msg)
            .with_context(|| path.display().to_string())?;
        Ok(recorded)
    }
}

/// Blocks of the times of a recording that count.
fn cut(
    path: &Path,
    input: &perfdata::Input,
    window: Option<&Range<u64>>,
    count: u32,
    global: &Global,
) -> anyhow::Result<Blocks> {
    let times = times(input, global.threads()).with_context(|| path.display().to_string())?;
    let Some(times) = times else {
        bail!(
            "{}: its samples have no times, so it cannot be cut into blocks: record with times \
             (perf record -T), or give at least 4 recordings of each side (--old, --new)",
            path.display()
        );
    };
    let counted = window
        .map_or(times.clone(), |window| times.start.max(window.start)..times.end.min(window.end));
    Ok(Blocks::cut(&counted, count))
}
