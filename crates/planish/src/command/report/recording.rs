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
use perfdata::Input;
use report::calls::{self, Origin, Selected};
use std::path::PathBuf;

/// Which recording, which of its samples, and where its files are.
#[derive(Debug, clap::Args)]
pub struct Recording {
    /// The recording: a file, the directory form, or `-` for the pipe form on standard input
    #[arg(default_value = "perf.data", value_name = "PERF.DATA")]
    pub input: PathBuf,
    /// Show functions that were inlined as frames of their own, by the debug information
    #[arg(long)]
    pub inlined: bool,
    #[command(flatten)]
    pub filter: FilterArgs,
    #[command(flatten)]
    pub symbols: Symbols,
}

/// A recording, and what of it to print.
#[derive(Debug, clap::Args)]
pub struct Source {
    #[command(flatten)]
    pub recording: Recording,
    /// Which event's samples to show [default: the one with most samples]. With records of context
    /// switches, `wait` and `preempted` are events: the time off the CPU, by what threads did then
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,
    /// How many lines to print at most; 0: all
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub limit: usize,
    /// Leave out what makes up less than so many per cent of the whole, its callees included
    #[arg(long, value_name = "PERCENT", value_parser = percent_of_all, default_value = "0.5")]
    pub percent: f64,
}

impl Recording {
    /// Opens the recording.
    pub fn open(&self) -> anyhow::Result<Input> {
        Ok(if self.input.as_os_str() == "-" {
            let stdin = std::io::stdin().lock();
            Input::from_pipe(beside::given::Bounded::new(stdin, STREAM_BYTES))?
        } else {
            Input::open(&self.input)?
        })
    }

    /// Reads the recording.
    pub fn read(&self, global: &Global) -> anyhow::Result<Recorded> {
        self.read_from(&self.open()?, false, global)
    }

    /// Reads the recording, and what it says of itself.
    pub fn read_with_origin(&self, global: &Global) -> anyhow::Result<(Recorded, Origin)> {
        let input = self.open()?;
        let recorded = self.read_from(&input, false, global)?;
        Ok((recorded, self.origin(&input)))
    }

    fn origin(&self, input: &Input) -> Origin {
        let said = input.features();
        let processor = said.cpu_description.clone().or_else(|| said.cpu_id.clone());
        Origin {
            recording: match self.input.as_os_str() == "-" {
                true => "standard input".to_owned(),
                false => self.input.display().to_string(),
            },
            command: Some(said.cmdline.join(" ")).filter(|command| !command.is_empty()),
            host: said.hostname.clone(),
            processor: match (processor, said.arch.clone()) {
                (Some(name), Some(arch)) => Some(format!("{name}, {arch}")),
                (name, arch) => name.or(arch),
            },
            kernel: said.os_release.clone(),
            recorder: said.perf_version.clone(),
            planish: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Reads the recording, already open, with its stacks told apart by sampled address if
    /// `addresses`.
    pub fn read_from(
        &self,
        input: &Input,
        addresses: bool,
        global: &Global,
    ) -> anyhow::Result<Recorded> {
        let finder = Finder::new(&self.symbols, input);
        let maps = Maps::new(&self.symbols.symbols, &self.input);
        // Without the right to read it, or on another system, kernel frames stay addresses.
        let kernel = std::fs::read_to_string("/proc/kallsyms").ok();
        let kernel = kernel.map(|text| KernelSymbols::parse(&text));
        let bar = progress::Bytes::new("report", input.data_bytes(), global.quiet);
        let window = self.filter.window(&self.input, input, global.threads())?;
        let keep = |sample: &perfdata::ChainSample<'_>| self.filter.keeps(sample, window.as_ref());
        let options = Options {
            threads: global.threads(),
            open: &|wanted| finder.open(wanted),
            map: &|pid| maps.open(pid),
            kernel: kernel.as_ref(),
            inlined: Some(finder.debug()).filter(|_| self.inlined),
            addresses,
            keep: &keep,
            progress: &|bytes| bar.add(bytes),
        };
        let mut recorded = calltrees::read(&self.input, input, &options)?;
        self.filter
            .narrow(&mut recorded)
            .map_err(anyhow::Error::msg)
            .with_context(|| self.input.display().to_string())?;
        Ok(recorded)
    }
}

impl Source {
    /// What of the recording is to be told.
    pub fn select<'r>(&self, recorded: &'r Recorded) -> anyhow::Result<Selected<'r>> {
        let event = calls::event_of(recorded, self.event.as_deref())
            .map_err(anyhow::Error::msg)
            .with_context(|| self.recording.input.display().to_string())?;
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
