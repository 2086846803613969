//! A recording opened for `planish report`, with the files and names that it needs.

use super::filter::{FilterArgs, Seconds};
use super::index_file;
use super::run_time::Maps;
use super::symbols::{Finder, Symbols, Used};
use super::unpacked;
use crate::cli::{Choice, Global};
use crate::command::percent::percent_of_all;
use crate::input::STREAM_BYTES;
use crate::progress;
use anyhow::{Context as _, bail};
use calltrees::rows::By;
use calltrees::{Blocks, Index, Options, Recorded, Session, times};
use image::{BuildId, DebugSearch};
use perfdata::Input;
use report::calls::{self, Origin, Selected};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Which recording, which of its samples, and where its files are.
#[derive(Debug, clap::Args)]
pub struct Recording {
    /// The recording: a file, a directory (record --threads), an archive (report archive), or `-` for
    /// a pipe on standard input
    #[arg(default_value = "perf.data", value_name = "PERF.DATA")]
    pub input: PathBuf,
    /// Look around in the recording on the terminal, starting with this view
    #[arg(short, long, conflicts_with = "format")]
    pub interactive: bool,
    #[command(flatten)]
    pub part: Part,
}

/// Where callers come from that were not recorded as a call chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// From the calls of the branch stack that have not returned.
    BranchStack,
}

const CALLERS: Choice<Callers> = Choice(&[(
    "branch-stack",
    Callers::BranchStack,
    "The branch stack: the calls in it that have not returned, as far as it reaches",
)]);

/// Which samples of a recording, and where its files are.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Part {
    /// Show inlined functions as separate frames (needs debug information)
    #[arg(long)]
    pub inlined: bool,
    /// Weigh time by how much it lengthens the run: threads that run at once share it (needs records
    /// of context switches)
    #[arg(long)]
    pub latency: bool,
    /// Where to get callers for samples without a call chain
    #[arg(long, value_name = "SOURCE", value_parser = CALLERS)]
    pub call_graph: Option<Callers>,
    /// Neither use nor write PERF.DATA.planish-index, the index that planish keeps beside a large
    /// recording to make --time fast
    #[arg(long)]
    pub no_index: bool,
    #[command(flatten)]
    pub filter: FilterArgs,
    #[command(flatten)]
    pub symbols: Symbols,
}

/// What to print.
#[derive(Debug, clap::Args)]
pub struct Shown {
    /// Show the samples of this event; if context switches are recorded, `wait` and `preempted` are
    /// events too, and with wake-ups `runqueue`: time off the CPU, by the stack that left it
    /// [default: the one with most samples]
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,
    /// Print at most this many lines; 0: all
    #[arg(long, value_name = "N", default_value_t = LIMIT, allow_negative_numbers = true)]
    pub limit: usize,
    /// Leave out what makes up less than this percentage of the whole, callees included
    #[arg(long, value_name = "PERCENT", value_parser = percent_of_all, default_value_t = PERCENT)]
    pub percent: f64,
}

impl Default for Shown {
    fn default() -> Shown {
        Shown { event: None, limit: LIMIT, percent: PERCENT }
    }
}

/// Lines printed, and the share of what is printed, where nothing else is said.
const LIMIT: usize = 40;
const PERCENT: f64 = 0.5;

/// A recording, and what of it to print.
#[derive(Debug, clap::Args)]
pub struct Source {
    #[command(flatten)]
    pub recording: Recording,
    #[command(flatten)]
    pub shown: Shown,
}

/// By what stacks are told apart beside their functions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detail {
    /// The sampled address.
    pub addresses: bool,
    /// The part of the time, of so many.
    pub blocks: Option<u32>,
    /// Functions that were inlined as frames of their own, whether the user asks for them or not.
    pub inlined: bool,
    /// Whether the samples are gone over once more.
    pub again: bool,
    /// The part of the time, of these.
    pub cut: Option<Blocks>,
    /// The line of their source.
    pub lines: bool,
}

impl Detail {
    /// What rows need.
    pub fn of(by: By) -> Detail {
        Detail { lines: by == By::Line, ..Detail::default() }
    }
}

/// The files that named a recording's functions.
#[derive(Debug)]
pub struct Files {
    /// Programs, libraries, and what was opened for the kernel.
    pub used: Vec<Used>,
    /// Where their debug files are looked for.
    pub debug: DebugSearch,
    /// Maps of code made at run time.
    pub maps: Vec<PathBuf>,
    /// The build ID of the recorded kernel.
    pub kernel_id: Option<BuildId>,
    /// The list of its symbols.
    pub kernel_list: Option<PathBuf>,
}

/// Opens a recording; an archive's is unpacked.
pub fn open(path: &Path) -> anyhow::Result<Input> {
    Ok(if path.as_os_str() == "-" {
        let stdin = std::io::stdin().lock();
        Input::from_pipe(beside::given::Bounded::new(stdin, STREAM_BYTES))?
    } else {
        match unpacked::archive(path)? {
            Some(archive) => {
                let recording = archive.recording().ok_or_else(|| {
                    anyhow::anyhow!(
                        "{}: it holds symbols but no recording; give it to --symbols, and name \
                         the recording",
                        path.display()
                    )
                })?;
                Input::open(&recording)?
            }
            None => Input::open(path)?,
        }
    })
}

impl Recording {
    /// Reads the recording.
    pub fn read(&self, global: &Global) -> anyhow::Result<Recorded> {
        self.read_with(Detail::default(), global)
    }

    /// Reads the recording, with what rows need.
    pub fn read_with(&self, detail: Detail, global: &Global) -> anyhow::Result<Recorded> {
        self.part.read(&self.input, &open(&self.input)?, detail, global)
    }
}

/// What a recording says of itself.
pub fn origin(path: &Path, input: &Input) -> Origin {
    let said = input.features();
    let processor = said.cpu_description.clone().or_else(|| said.cpu_id.clone());
    Origin {
        recording: match path.as_os_str() == "-" {
            true => "standard input".to_owned(),
            false => path.display().to_string(),
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

impl Part {
    /// The same of another part of the time.
    pub fn within(&self, time: Option<Seconds>) -> Part {
        Part { filter: FilterArgs { time, ..self.filter.clone() }, ..self.clone() }
    }

    /// The time of the samples that count, cut into blocks; none where samples have no times.
    pub fn blocks(
        &self,
        path: &Path,
        input: &Input,
        count: u32,
        global: &Global,
    ) -> anyhow::Result<Option<Blocks>> {
        let index = index_file::of(path, input, self, global)?;
        let window = self.filter.window(path, input, index.as_ref(), global.threads())?;
        blocks(path, input, (window.as_ref(), index.as_ref()), count, global)
    }

    /// Reads a recording that is already open.
    pub fn read(
        &self,
        path: &Path,
        input: &Input,
        detail: Detail,
        global: &Global,
    ) -> anyhow::Result<Recorded> {
        Ok(self.read_with_files(path, input, detail, global)?.0)
    }

    /// Reads a recording that is already open, and tells from which files its names are.
    pub fn read_with_files(
        &self,
        path: &Path,
        input: &Input,
        detail: Detail,
        global: &Global,
    ) -> anyhow::Result<(Recorded, Files)> {
        let (mut recorded, files) =
            self.visit(path, input, detail, global, |recorded, _, _| recorded)?;
        self.filter
            .narrow(&mut recorded)
            .map_err(anyhow::Error::msg)
            .with_context(|| path.display().to_string())?;
        Ok((recorded, files))
    }

    /// As [`Part::read`], before the samples are left out that only names tell; `then` may go over
    /// them once more, and tell what it has read.
    pub fn read_then<R>(
        &self,
        path: &Path,
        input: &Input,
        detail: Detail,
        global: &Global,
        then: impl FnOnce(Recorded, &Session<'_>, &dyn Fn(u64)) -> R,
    ) -> anyhow::Result<R> {
        Ok(self.visit(path, input, detail, global, then)?.0)
    }

    fn visit<R>(
        &self,
        path: &Path,
        input: &Input,
        detail: Detail,
        global: &Global,
        then: impl FnOnce(Recorded, &Session<'_>, &dyn Fn(u64)) -> R,
    ) -> anyhow::Result<(R, Files)> {
        let lines = self.inlined || detail.inlined || detail.lines;
        let finder = Finder::new(&self.symbols, path, input, global.quiet)?.wanting_lines(lines);
        let maps = Maps::new(finder.asked(), self.symbols.sysroot.as_deref(), path);
        let kernels = finder.kernels();
        let index = index_file::of(path, input, self, global)?;
        let window = self.filter.window(path, input, index.as_ref(), global.threads())?;
        let known = (window.as_ref(), index.as_ref());
        let bytes = match known {
            (Some(window), Some(index)) => index.bytes_within(window),
            _ => input.data_bytes(),
        };
        let passes = 1 + u64::from(detail.again);
        let bar = progress::Bytes::new("report", bytes.saturating_mul(passes), global.quiet);
        let blocks = match detail.blocks {
            Some(count) => Some(cut(path, input, known, count, global)?),
            None => detail.cut,
        };
        let keep = |sample: &perfdata::ChainSample<'_>| self.filter.keeps(sample, window.as_ref());
        let options = Options {
            threads: global.threads(),
            open: &|wanted| finder.open(wanted),
            map: &|pid| maps.open(pid),
            dump: &|pid, path| maps.dump(pid, path),
            kernels: &kernels,
            inlined: Some(finder.debug()).filter(|_| lines),
            lines: detail.lines,
            addresses: detail.addresses,
            latency: self.latency,
            branch_callers: self.call_graph == Some(Callers::BranchStack),
            keep: &keep,
            blocks,
            index: index.as_ref(),
            within: window.clone(),
            progress: &|bytes| bar.add(bytes),
        };
        let told = calltrees::read_then(path, input, &options, |recorded, session| {
            then(recorded, session, &|bytes| bar.add(bytes))
        })?;
        let files = Files {
            used: finder.used(),
            debug: finder.debug().clone(),
            maps: maps.used(),
            kernel_id: finder.kernel_id(),
            kernel_list: finder.kernel_list(),
        };
        Ok((told, files))
    }
}

impl Source {
    /// What of the recording is to be told.
    pub fn select<'r>(&self, recorded: &'r Recorded) -> anyhow::Result<Selected<'r>> {
        let shown = &self.shown;
        let event = calls::event_of(recorded, shown.event.as_deref())
            .map_err(anyhow::Error::msg)
            .with_context(|| self.recording.input.display().to_string())?;
        Ok(Selected { recorded, event, limit: shown.limit, percent: shown.percent })
    }

    /// Says on standard error what the numbers do not hold.
    pub fn tell_notes(&self, selected: &Selected<'_>, global: &Global) {
        if !global.quiet {
            let notes = calls::notes(selected.recorded, selected.event);
            notes.iter().for_each(|note| eprintln!("note: {note}"));
        }
    }
}

/// Blocks of the times of a recording that count.
fn cut(
    path: &Path,
    input: &Input,
    known: (Option<&Range<u64>>, Option<&Index>),
    count: u32,
    global: &Global,
) -> anyhow::Result<Blocks> {
    let Some(blocks) = blocks(path, input, known, count, global)? else {
        bail!(
            "{}: its samples have no times, so it cannot be cut into blocks: record with times \
             (perf record -T), or give at least 4 recordings of each side (--old, --new)",
            path.display()
        );
    };
    Ok(blocks)
}

fn blocks(
    path: &Path,
    input: &Input,
    (window, index): (Option<&Range<u64>>, Option<&Index>),
    count: u32,
    global: &Global,
) -> anyhow::Result<Option<Blocks>> {
    let times = match index {
        Some(index) => index.times(),
        None => times(input, global.threads()).with_context(|| path.display().to_string())?,
    };
    Ok(times.map(|times| {
        let counted = match window {
            Some(window) => times.start.max(window.start)..times.end.min(window.end),
            None => times,
        };
        Blocks::cut(&counted, count)
    }))
}
