//! Do the options of a recording go together, and which way of recording do they ask for?

use crate::branches::{Branches, Emulation, Offered, automatic};
use crate::child::Workload;
use crate::live::{self, Rate};
use crate::settings::CallGraph;
use crate::target::Target;
use crate::{Error, Summary, emulate, software};
use perfdata::Features;
use perfdata::write::PipeWriter;
use std::io::{self, Write};
use std::path::Path;

/// Options that only software branch stacks have; the others but `-c` and `-F` are for recordings
/// by the kernel.
const SOFTWARE: [&str; 4] = ["--depth", "--budget", "--stop-by", "--check-stacks"];
/// What every native way of recording has.
const NO_INHERIT: &str = "-i";

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where branch stacks come from.
    pub branches: Branches,
    /// Who is recorded.
    pub target: Target,
    /// Whether a command is given to be started.
    pub has_command: bool,
    /// The options given beside `-c` and `-F`, as they are typed.
    pub given: Vec<&'static str>,
    /// How the kernel is to record; whatever its `branches`.
    pub live: live::RecordOptions,
    /// How to look ahead.
    pub software: software::LookAheadOptions,
}

/// A way of recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Kernel(live::Branches),
    Software,
    Emulated,
}

/// A request whose options go together, and the way that it is recorded.
#[derive(Clone, Debug)]
pub struct Decided {
    request: Request,
    way: Way,
}

impl Request {
    /// Looks whether the options go together, and chooses the way of recording.
    ///
    /// # Errors
    /// [`Error::Options`] where they do not, with what to leave out or to add.
    pub fn decide(self) -> Result<Decided, Error> {
        self.contradiction().map_or(Ok(()), |why| Err(Error::Options(why)))?;
        let way = match self.branches {
            Branches::Auto if self.looks_ahead() => Way::Software,
            Branches::Auto => Way::Kernel(live::Branches::Auto),
            Branches::Hardware => Way::Kernel(live::Branches::Hardware),
            Branches::None => Way::Kernel(live::Branches::None),
            Branches::Software => Way::Software,
            Branches::Emulated => Way::Emulated,
        };
        Ok(Decided { request: self, way })
    }

    /// The first option given that only software branch stacks have.
    fn software_option(&self) -> Option<&'static str> {
        self.given.iter().copied().find(|option| SOFTWARE.contains(option))
    }

    /// The first option given that only recordings by the kernel have.
    fn kernel_option(&self) -> Option<&'static str> {
        let kernels = |option: &&str| !SOFTWARE.contains(option) && *option != NO_INHERIT;
        self.given.iter().copied().find(kernels)
    }

    /// The first option given that emulated recordings do not have.
    fn beyond_emulation(&self) -> Option<&'static str> {
        let chains = self.call_chains();
        let followed = |option: &&str| chains && matches!(*option, "-g" | "--call-graph");
        let packed = |option: &&str| matches!(*option, "-z" | "--no-compress");
        self.given.iter().copied().find(|option| !followed(option) && !packed(option))
    }

    fn call_chains(&self) -> bool {
        self.live.sampling.call_graph == Some(CallGraph::FramePointers)
    }

    /// Whether `auto` means software branch stacks: nothing was asked for that only the kernel's
    /// own samples have, and the machine offers nothing better.
    fn looks_ahead(&self) -> bool {
        let plain = self.kernel_option().is_none()
            && self.live.rate.is_none()
            && !matches!(self.target, Target::System);
        (plain || self.software_option().is_some())
            && automatic(Offered::natively(), Emulation::Never) == Branches::Software
    }

    /// What is wrong with the options.
    fn contradiction(&self) -> Option<String> {
        let (kernels, software) = (self.kernel_option(), self.software_option());
        let on_cpus = matches!(self.target, Target::System);
        let attached = !matches!(self.target, Target::Command);
        if self.live.sampling.wait && self.live.streaming.control.is_none() {
            return Some(
                "-D -1 waits for the command `enable`: give a fifo for it with --control fifo:PATH"
                    .into(),
            );
        }
        if let Some(Err(wrong)) = self.live.streaming.threads.as_ref().map(|spread| spread.check())
        {
            return Some(format!("--threads: {wrong}"));
        }
        if !self.live.cgroups.is_empty() && !on_cpus {
            return Some(
                "-G records what runs in a control group on CPUs: give -a or -C with it".into(),
            );
        }
        match (self.branches, software, kernels) {
            (Branches::Software, _, _) if on_cpus => Some(
                "--branches=software follows programs, not CPUs: give a command after `--`, or -p \
                 PID, -t TID, -u USER"
                    .into(),
            ),
            (Branches::Software, _, Some(option)) => Some(format!(
                "{option} is for recordings by the kernel; --branches=software stops \
                 threads by taken branches or CPU time and has no other events"
            )),
            (Branches::Auto, Some(option), other) if other.is_some() || on_cpus => Some(format!(
                "{option} is for --branches=software, and {} for recordings by the kernel; leave \
                 one of them out",
                other.unwrap_or("-a or -C")
            )),
            (Branches::Hardware | Branches::Emulated | Branches::None, Some(option), _) => {
                Some(format!("{option} is for --branches=software"))
            }
            (Branches::Emulated, _, _) if attached => Some(
                "--branches=emulated starts the program itself: give it after `--`, without -p, \
                 -t, -u, -C and -a"
                    .into(),
            ),
            (Branches::Emulated, _, _) if self.beyond_emulation().is_some() => Some(format!(
                "{} is for recordings by the kernel; the emulator samples taken branches, with \
                 who called (-g, --call-graph fp), and nothing else",
                self.beyond_emulation().unwrap_or_default()
            )),
            (Branches::Emulated, _, _) if matches!(self.live.rate, Some(Rate::Frequency(_))) => {
                Some(
                    "under emulation time means nothing: give a period in taken branches (-c), \
                     not a frequency"
                        .into(),
                )
            }
            (Branches::None, _, _) => {
                let option = self.given.iter().find(|option| matches!(**option, "-b" | "-j"));
                option.map(|option| {
                    format!(
                        "--branches=none and {option} contradict each other; leave one of them out"
                    )
                })
            }
            _ => None,
        }
        .or_else(|| {
            (!self.has_command && !attached).then(|| {
                "nothing to record: give a command after `--`, or -p PID, -t TID, -u USER, -C \
                 CPU, or -a"
                    .into()
            })
        })
    }
}

impl Decided {
    /// Records into `output`, or `out` where that is `-`.
    ///
    /// # Errors
    /// As those of [`live::record`], [`software::record`] and [`emulate::record`].
    pub fn record(
        &self,
        command: Option<&Workload>,
        output: &Path,
        out: impl Write,
    ) -> Result<Summary, Error> {
        if output.as_os_str() != "-" {
            return self.record_to(command, output);
        }
        let mut summary = if matches!(self.way, Way::Kernel(_)) {
            self.record_to(command, output)?
        } else {
            // What is put in order at its end is made in a file and then sent.
            let dir = tempfile::tempdir();
            let dir = dir.map_err(Error::io(&std::env::temp_dir(), "make a directory in"))?;
            let file = dir.path().join("perf.data");
            let summary = self.record_to(command, &file)?;
            send(&file, out)?;
            summary
        };
        summary.output = "to standard output".into();
        Ok(summary)
    }

    fn record_to(&self, command: Option<&Workload>, output: &Path) -> Result<Summary, Error> {
        let Request { target, live, software, .. } = &self.request;
        match self.way {
            Way::Kernel(branches) => {
                let options = live::RecordOptions { branches, ..live.clone() };
                live::record(target, command, output, &options)
            }
            Way::Software => {
                software::record(target, command, output, software).map_err(nothing_kept)
            }
            Way::Emulated => {
                let usual = emulate::EmulationOptions::default();
                let period = match live.rate {
                    Some(Rate::Period(period)) => period,
                    _ => usual.period,
                };
                let call_chains = self.request.call_chains();
                let options = emulate::EmulationOptions {
                    period,
                    call_chains,
                    compression: live.streaming.compression,
                    ..usual
                };
                let command = command.ok_or(Error::NoCommand)?;
                emulate::record(command, output, &options).map_err(nothing_kept)
            }
        }
    }
}

/// A recording that is put in order at its end goes where the disk is full then, and leaves
/// nothing.
fn nothing_kept(error: Error) -> Error {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match &error {
        Error::Io { source, .. }
            if [StorageFull, QuotaExceeded, FileTooLarge].contains(&source.kind()) =>
        {
            Error::Cut { source: Box::new(error), kept: None, left: None }
        }
        _ => error,
    }
}

/// Sends a finished recording in pipe form.
fn send(recording: &Path, out: impl Write) -> Result<(), Error> {
    let unread = |error: perfdata::Error| Error::io(recording, "read")(io::Error::other(error));
    let failed = |error: perfdata::Error| match error {
        perfdata::Error::Io { source, .. } => {
            // The stream names itself; once is enough.
            let why = source.to_string();
            let why = why.trim_start_matches("standard output: ").to_owned();
            Error::io(Path::new("standard output"), "write")(io::Error::new(source.kind(), why))
        }
        other => unread(other),
    };
    let input = perfdata::Input::open(recording).map_err(unread)?;
    let out = io::BufWriter::with_capacity(1 << 18, out);
    // What is sent was expanded when it was read.
    let features = Features { compressed: None, ..input.features().clone() };
    let mut pipe = PipeWriter::new(out, input.attrs(), &features).map_err(failed)?;
    let mut chunks = input.chunks().map_err(unread)?;
    while let Some(chunk) = chunks.next() {
        let chunk = chunk.map_err(unread)?;
        pipe.append(&chunk.bytes).map_err(failed)?;
        chunks.recycle(chunk.bytes);
    }
    pipe.finish().map(drop).map_err(failed)
}
