//! A recording opened for `planish report`, with the files and names that it needs.

use super::filter::FilterArgs;
use super::run_time::Maps;
use super::symbols::{Finder, Symbols};
use crate::cli::Global;
use crate::command::percent::percent_of_all;
use crate::input::STREAM_BYTES;
use crate::progress;
use anyhow::Context as _;
use calltrees::{KernelSymbols, Options, Recorded};
use report::calls::{self, Selected};
use std::path::PathBuf;

/// Which recording, and what of it.
#[derive(Debug, clap::Args)]
pub struct Source {
    /// The recording: a file, the directory form, or `-` for the pipe form on standard input
    #[arg(default_value = "perf.data", value_name = "PERF.DATA")]
    pub input: PathBuf,
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
        let input = if self.input.as_os_str() == "-" {
            let stdin = std::io::stdin().lock();
            perfdata::Input::from_pipe(beside::given::Bounded::new(stdin, STREAM_BYTES))?
        } else {
            perfdata::Input::open(&self.input)?
        };
        let finder = Finder::new(&self.symbols, &input);
        let maps = Maps::new(&self.symbols.symbols, &self.input);
        // Without the right to read it, or on another system, kernel frames stay addresses.
        let kernel = std::fs::read_to_string("/proc/kallsyms").ok();
        let kernel = kernel.map(|text| KernelSymbols::parse(&text));
        let bar = progress::Bytes::new("report", input.data_bytes(), global.quiet);
        let window = self.filter.window(&self.input, &input, global.threads())?;
        let keep = |sample: &perfdata::ChainSample<'_>| self.filter.keeps(sample, window.as_ref());
        let options = Options {
            threads: global.threads(),
            open: &|wanted| finder.open(wanted),
            map: &|pid| maps.open(pid),
            kernel: kernel.as_ref(),
            inlined: Some(finder.debug()).filter(|_| self.inlined),
            keep: &keep,
            progress: &|bytes| bar.add(bytes),
        };
        let mut recorded = calltrees::read(&self.input, &input, &options)?;
        self.filter
            .narrow(&mut recorded)
            .map_err(anyhow::Error::msg)
            .with_context(|| self.input.display().to_string())?;
        Ok(recorded)
    }

    /// What of it is to be told.
    pub fn select<'r>(&self, recorded: &'r Recorded) -> anyhow::Result<Selected<'r>> {
        let event = calls::event_of(recorded, self.event.as_deref())
            .map_err(anyhow::Error::msg)
            .with_context(|| self.input.display().to_string())?;
        Ok(Selected { recorded, event, limit: self.limit, percent: self.percent })
    }

    /// Says on standard error what the numbers do not hold.
    pub fn tell_notes(&self, selected: &Selected<'_>, global: &Global) {
        if !global.quiet {
            let notes = calls::notes(selected.recorded, selected.event);
            notes.iter().for_each(|note| eprintln!("note: {note}"));
        }
    }
}
