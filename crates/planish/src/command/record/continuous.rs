//! `planish record --continuous`: windows of what runs, recorded and counted again and again.

use super::args::Args;
use super::code_of;
use super::family::{family, is_running};
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::command::namespaces;
use crate::command::report::kernel_files::KernelPlaces;
use crate::output;
use address_spaces::{KernelPart, MappedFile};
use anyhow::{Context as _, bail};
use collector::{Asked, Host, Settings, Spool, Taken};
use fleet::Recording;
use image::Image;
use record::live::{Rate, Target};
use record::request::Request;
use record::settings::RingPages;
use record::software::Pace;
use record::streaming::Until;
use record::{Branches, Ending, Error};
use report::collector as tell;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Samples a second, where nothing else is asked for; a prime, lest they fall into step with timers.
const RATE: Rate = Rate::Frequency(997);
/// Of each CPU's ring: windows are short, and memory is somebody else's.
const RING: RingPages = RingPages(128);
/// What a sample takes from a program, where it cannot be measured.
const SAMPLE_COST: Duration = Duration::from_micros(2);
/// Processes that end while they are attached to make it fail; so often it is tried again.
const TRIES: u32 = 3;

/// Whether a signal asked to stop.
static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

fn asked_to_stop() -> bool {
    // While a window is recorded, signals are the recorder's.
    STOP.get().is_some_and(|stop| stop.load(Ordering::Relaxed)) || record::live::asked_to_end()
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let own = &args.continuous;
    let Some(spool) = &own.spool else { bail!("--continuous needs --spool DIR") };
    let request = request(args)?;
    // What does not go together is said before anything is started.
    request.clone().decide()?;
    super::super::handle_interrupts();
    let stop = STOP.get_or_init(Arc::default);
    for signal in terminal::heeded() {
        signal_hook::flag::register(signal, Arc::clone(stop)).context("handle signals")?;
    }
    let cost = record::sample_cost(&request.target, &request.live);
    let settings = Settings {
        window: own.window,
        every: own.every.max(own.window),
        budget: Some(own.cpu_budget),
        limit: own.spool_limit,
        recording: described(args),
        sample_cost: cost.unwrap_or(SAMPLE_COST),
    };
    // A command must not run for nothing.
    let taken = Spool::take(spool).with_context(|| {
        format!("{}: a spool is a directory that one collector alone writes to", spool.display())
    })?;
    let child = match args.command.split_first() {
        Some((program, words)) => {
            let child = Command::new(program).args(words).spawn();
            Some(child.with_context(|| format!("cannot start {}", program.display()))?)
        }
        None => None,
    };
    let recorder = Recorder::new(request, child);
    if !global.quiet {
        eprintln!(
            "collecting {:?} every {:?} into {}, for {} % of a CPU at most; SIGTERM or Ctrl-C ends it",
            settings.window,
            settings.every,
            spool.display(),
            own.cpu_budget * 100.0
        );
    }
    let mut told = |what: &collector::Told| {
        if !global.quiet {
            tell::lines(what, global.verbose).iter().for_each(|line| eprintln!("{line}"));
        }
    };
    let collected = collector::run(taken, &settings, &recorder, &mut told);
    let ending = recorder.end();
    let summary = collected?;
    if args.format == Format::Json {
        output::print_json(&tell::summary_json(&summary))?;
    }
    if !global.quiet {
        eprintln!("{}", tell::summary_line(&summary));
    }
    Ok(match ending {
        _ if summary.left => NEGATIVE,
        Some(ending) => code_of(ending),
        None => FINE,
    })
}

/// What a window is asked for, with the options that make no sense in one refused.
fn request(args: &Args) -> anyhow::Result<Request> {
    let mut request = args.request()?;
    let whole =
        ["-D", "--overwrite", "--switch-output", "--max-size", "--control", "--threads", "-s"];
    if let Some(option) = request.given.iter().find(|option| whole.contains(option)) {
        bail!("{option} is for one recording, and --continuous makes many; leave it out");
    }
    if request.branches == Branches::Emulated {
        bail!(
            "--branches=emulated starts the program for one recording; --continuous records what \
             runs: give --branches=hardware, software or none"
        );
    }
    if matches!(request.target, Target::Command) && !request.has_command {
        bail!(
            "nothing to record: give -a, -C CPU, -p PID, -t TID, -u USER, or a command after `--`"
        );
    }
    if request.has_command && !matches!(request.target, Target::Command) {
        bail!(
            "--continuous records what you name until you end it, or a command until that ends; give one of them"
        );
    }
    if request.branches != Branches::Software {
        request.live.rate = request.live.rate.or(Some(RATE));
    }
    request.live.streaming.ring = request.live.streaming.ring.or(Some(RING));
    let system = matches!(request.target, Target::System);
    request.live.sampling.no_idle = system && request.live.events.is_empty();
    let gone = |ids: &[i32]| ids.iter().copied().find(|id| !is_running(*id));
    match &request.target {
        Target::Processes(pids) => {
            gone(pids).map_or(Ok(()), |pid| Err(Error::NoProcess { pid }))?
        }
        Target::Threads(tids) => gone(tids).map_or(Ok(()), |tid| Err(Error::NoThread { tid }))?,
        _ => {}
    }
    if request.has_command {
        // Each window attaches to what the command is by then.
        request.target = Target::Processes(Vec::new());
        request.has_command = false;
    }
    Ok(request)
}

/// What shards say of the machine and its programs.
fn described(args: &Args) -> Recording {
    let own = &args.continuous;
    let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Recording {
        host: own.host.clone().unwrap_or_else(|| host().trim().to_owned()),
        host_class: own.host_class.clone().unwrap_or_default(),
        region: own.region.clone().unwrap_or_default(),
        program: own.program.clone().unwrap_or_default(),
        ..Recording::default()
    }
}

/// Records windows of what was named, or of the command that it started.
struct Recorder {
    request: Request,
    child: Option<Mutex<Child>>,
    /// Processes that were named, or the command; with them goes what they started.
    roots: Vec<i32>,
}

impl Recorder {
    fn new(request: Request, child: Option<Child>) -> Recorder {
        let mut roots = match &request.target {
            Target::Processes(pids) => pids.clone(),
            _ => Vec::new(),
        };
        roots.extend(child.as_ref().and_then(|child| i32::try_from(child.id()).ok()));
        Recorder { request, child: child.map(Mutex::new), roots }
    }

    /// How the command ended, if it has.
    fn ended(&self) -> Option<Ending> {
        let mut child = self.child.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        child.try_wait().ok().flatten().map(Ending::from)
    }

    /// Asks the command to end where somebody asked us, and waits for it.
    fn end(self) -> Option<Ending> {
        let child = self.child?;
        let mut child = child.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut asked = false;
        loop {
            if let Ok(Some(status)) = child.try_wait() {
                return Some(Ending::from(status));
            }
            if asked_to_stop() && !asked {
                asked = true;
                record::live::ask_to_end(child.id());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Who is recorded in a window that begins now.
    fn target(&self) -> Target {
        match &self.request.target {
            Target::Processes(_) => Target::Processes(family(&self.roots)),
            Target::Threads(tids) => {
                Target::Threads(tids.iter().copied().filter(|tid| is_running(*tid)).collect())
            }
            other => other.clone(),
        }
    }
}

impl Host for Recorder {
    fn record(&self, asked: Asked<'_>) -> Result<Taken, Error> {
        let mut request = self.request.clone();
        let until = Until { after: Some(asked.length), asked: Some(asked_to_stop) };
        request.live.streaming.until = until;
        request.live.streaming.max_bytes = Some(asked.most_bytes);
        request.software.until = until;
        let slower = u64::from(asked.slower);
        request.live.rate = request.live.rate.map(|rate| match rate {
            Rate::Frequency(hertz) => Rate::Frequency((hertz / slower).max(1)),
            Rate::Period(period) => Rate::Period(period.saturating_mul(slower)),
        });
        request.software.pace = match request.software.pace {
            Pace::Budget(share) => Pace::Budget(share / f64::from(asked.slower)),
            Pace::Frequency(hertz) => Pace::Frequency((hertz / slower).max(1)),
            Pace::Period(period) => Pace::Period(period.saturating_mul(slower)),
        };
        for _ in 1..TRIES {
            request.target = self.target();
            match request.clone().decide()?.record(None, asked.output, std::io::sink()) {
                Err(Error::NoProcess { .. } | Error::NoThread { .. }) if !self.is_over() => {}
                done => return done.map(|summary| taken(&summary)),
            }
        }
        request.target = self.target();
        request.decide()?.record(None, asked.output, std::io::sink()).map(|summary| taken(&summary))
    }

    fn is_over(&self) -> bool {
        let gone = || !self.roots.is_empty() && !self.roots.iter().any(|pid| is_running(*pid));
        let threads = || match &self.request.target {
            Target::Threads(tids) => !tids.iter().any(|tid| is_running(*tid)),
            _ => false,
        };
        asked_to_stop() || self.ended().is_some() || gone() || threads()
    }

    fn elsewhere(&self, file: &MappedFile) -> Option<Image> {
        if !file.side.is_kernel() {
            return namespaces::elsewhere(file, &super::family::all());
        }
        if !matches!(KernelPart::of(&file.path), KernelPart::Core { guest: false }) {
            return None;
        }
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
        let release = Some(release.trim());
        let places = KernelPlaces { sysroot: None, directories: &[], release };
        places
            .vmlinux()
            .iter()
            .filter(|path| path.is_file())
            .find_map(|path| Image::open(path).ok())
    }
}

fn taken(summary: &record::Summary) -> Taken {
    Taken { samples: summary.samples.saturating_add(summary.lost_samples) }
}
