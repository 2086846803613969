//! One run of a machine: started, with the plugin or without, watched, and ended in time.

use super::console::{self, Section, Statement, Tail, Timing};
use super::{Board, Failure};
use crate::child::Workload;
use crate::emulate::escaped;
use crate::sys::{self, ForwardSignals};
use crate::{Ending, Error, elf, plugin};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// What the kernel prints when it gives up (`kernel/panic.c`), and at the end of what it says about
/// it.
const PANIC: &str = "Kernel panic - not syncing";
const PANIC_ENDS: &str = "---[ end Kernel panic";
/// For what a guest prints after it failed: the calls that led to a panic.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// For a machine to end that was asked to.
const GRACE: Duration = Duration::from_secs(5);
/// How often signals and deadlines are looked at.
const TICK: Duration = Duration::from_millis(100);
/// Lines between the thread that reads and the one that watches.
const BACKLOG: usize = 1024;

/// Gets each line of the console as it comes, and what the workload says with it.
pub type Watcher<'w> = dyn FnMut(&str, Option<&Statement>) + 'w;

/// When a run is no good.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// The machine is killed when it did not end after this much wall time.
    pub timeout: Option<Duration>,
    /// The workload must print `planish: end` before the machine ends.
    pub to_the_end: bool,
}

/// A machine to run.
#[derive(Clone, Debug)]
pub struct Run<'r> {
    /// `qemu-system` of a machine and its arguments, among them `-serial stdio`.
    pub argv: &'r [OsString],
    /// The plugin, if one watches the machine.
    pub plugin: Option<Plugin<'r>>,
    /// When the run is no good.
    pub limits: Limits,
}

/// The plugin of a run.
#[derive(Clone, Debug)]
pub struct Plugin<'r> {
    /// Where it is, when it is not where it is looked for.
    pub path: Option<&'r Path>,
    /// Its settings.
    pub settings: Vec<(&'static str, OsString)>,
}

impl Plugin<'_> {
    /// Its file, and what qemu's `-plugin` gets.
    fn found(&self) -> Result<(PathBuf, Vec<u8>), Error> {
        let file = plugin::plugin(self.path)?;
        let mut setting = escaped(file.as_os_str().as_bytes());
        for (name, value) in &self.settings {
            setting.extend_from_slice(format!(",{name}=").as_bytes());
            setting.extend(escaped(value.as_bytes()));
        }
        Ok((file, setting))
    }
}

/// What a machine that ended well has said.
#[derive(Clone, Debug)]
pub struct Transcript {
    /// The sections that the workload announced, in order.
    pub sections: Vec<Section>,
    /// What it did in them.
    pub results: Vec<Timing>,
    /// It printed `planish: end`.
    pub ended: bool,
    /// The last lines of the console.
    pub tail: Vec<String>,
    /// How qemu ended.
    pub ending: Ending,
}

/// Ends the machine whatever happens to its watcher.
struct Qemu(Child);

impl Drop for Qemu {
    fn drop(&mut self) {
        // Both fail only for a child that is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Run<'_> {
    /// Runs the machine to its end. `loaded` tells afterwards whether the plugin was; a run without
    /// is not asked.
    ///
    /// # Errors
    /// When qemu or the plugin is missing or does not start, and for each [`Failure`], with the
    /// console's last lines.
    pub fn run(
        &self,
        loaded: &dyn Fn() -> bool,
        watch: &mut Watcher<'_>,
    ) -> Result<Transcript, Error> {
        self.run_under(&ForwardSignals::to(0), loaded, watch)
    }

    /// The same while signals are handed on already.
    pub(crate) fn run_under(
        &self,
        forward: &ForwardSignals,
        loaded: &dyn Fn() -> bool,
        watch: &mut Watcher<'_>,
    ) -> Result<Transcript, Error> {
        let emulator = self.emulator()?;
        let plugin = self.plugin.as_ref().map(Plugin::found).transpose()?;
        let mut command = Workload::default().command(&emulator);
        command.args(self.argv.iter().skip(1));
        if let Some((_, setting)) = &plugin {
            command.arg("-plugin").arg(OsStr::from_bytes(setting));
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        sys::prepare(&mut command, true);
        let start = Instant::now();
        let shown = emulator.display().to_string();
        let started =
            command.spawn().map_err(|source| Error::Start { program: shown.clone(), source })?;
        let mut machine = Qemu(started);
        forward.child(machine.0.id());
        let mut watched = Watched::default();
        let console = read(machine.0.stdout.take());
        let waited =
            watched.until_it_ends(&mut machine.0, &console, start, &self.limits, forward, watch);
        drop(console);
        forward.ended();
        let ending = waited.map_err(|source| Error::Start { program: shown, source })?;
        if forward.stopped() {
            watched.failure = Some(Failure::Interrupted);
        }
        if let Some((plugin, _)) = plugin
            && watched.failure.is_none()
            && !loaded()
        {
            return Err(Error::PluginNotLoaded { emulator, plugin, status: format!("{ending:?}") });
        }
        watched.conclude(ending, &self.limits, emulator)
    }

    fn emulator(&self) -> Result<PathBuf, Error> {
        let name = self.argv.first().ok_or(Error::NoCommand)?;
        elf::find(name, None).map_err(|error| match error {
            Error::NoProgram { program } if program.starts_with("qemu-system-") => {
                let board = Board::of_emulator(program.as_ref()).unwrap_or_default();
                Error::NoMachine { name: program, package: board.package() }
            }
            other => other,
        })
    }
}

/// Reads the console on a thread of its own, so that a silent guest keeps nobody waiting.
fn read(console: Option<std::process::ChildStdout>) -> Receiver<String> {
    let (send, receive) = sync_channel(BACKLOG);
    if let Some(console) = console {
        std::thread::spawn(move || console::lines(console, |line| send.send(line).is_ok()));
    }
    receive
}

/// What was heard so far.
#[derive(Default)]
struct Watched {
    sections: Vec<Section>,
    results: Vec<Timing>,
    ended: bool,
    tail: Tail,
    failure: Option<Failure>,
    /// When the machine is killed.
    kill_at: Option<Instant>,
}

impl Watched {
    fn until_it_ends(
        &mut self,
        child: &mut Child,
        console: &Receiver<String>,
        start: Instant,
        limits: &Limits,
        forward: &ForwardSignals,
        watch: &mut Watcher<'_>,
    ) -> std::io::Result<Ending> {
        // A limit beyond what the clock can show is none.
        let deadline = limits.timeout.and_then(|timeout| start.checked_add(timeout));
        let mut silent = false;
        loop {
            if silent {
                std::thread::sleep(TICK / 10);
            } else {
                match console.recv_timeout(TICK) {
                    Ok(line) => self.line(&line, watch),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => silent = true,
                }
            }
            if forward.stopped() && self.kill_at.is_none() {
                self.kill_at = Some(Instant::now() + GRACE);
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) && self.failure.is_none() {
                self.failure = limits.timeout.map(Failure::TimedOut);
                self.kill_at = Some(now);
            }
            if self.kill_at.is_some_and(|at| now >= at) {
                child.kill()?;
                break;
            }
            if let Some(status) = child.try_wait()? {
                self.rest(console, watch);
                return Ok(Ending::from(status));
            }
        }
        let status = child.wait()?;
        self.rest(console, watch);
        Ok(Ending::from(status))
    }

    /// What the machine printed last; it is gone, but another process may still hold its console.
    fn rest(&mut self, console: &Receiver<String>, watch: &mut Watcher<'_>) {
        let end = Instant::now() + LAST_WORDS;
        while let Ok(line) = console.recv_timeout(end.saturating_duration_since(Instant::now())) {
            self.line(&line, watch);
            if Instant::now() >= end {
                return;
            }
        }
    }

    fn line(&mut self, line: &str, watch: &mut Watcher<'_>) {
        /// Of what a guest says again and again.
        const MOST_STATEMENTS: usize = 10_000;
        self.tail.add(line);
        let statement = Statement::read(line);
        watch(line, statement.as_ref());
        let failure = match statement {
            Some(Statement::Section(section)) if self.sections.len() < MOST_STATEMENTS => {
                self.sections.push(section);
                None
            }
            Some(Statement::Result(timing)) if self.results.len() < MOST_STATEMENTS => {
                self.results.push(timing);
                None
            }
            Some(Statement::Begin { form }) if form != Statement::FORM => Some(Failure::Form(form)),
            Some(Statement::Failed { number, text }) => {
                Some(Failure::Workload { section: number, text })
            }
            Some(Statement::End) => {
                self.ended = true;
                None
            }
            _ if line.contains(PANIC_ENDS) => {
                self.kill_at = Some(Instant::now());
                Some(Failure::Panic)
            }
            _ => line.contains(PANIC).then_some(Failure::Panic),
        };
        if failure.is_some() {
            self.failure = self.failure.take().or(failure);
            self.kill_at.get_or_insert(Instant::now() + LAST_WORDS);
        }
    }

    fn conclude(
        self,
        ending: Ending,
        limits: &Limits,
        emulator: PathBuf,
    ) -> Result<Transcript, Error> {
        let bad_end = match ending {
            Ending::Signal(signal) => Some(Failure::Killed(signal)),
            Ending::Code(code) if code != 0 && !self.ended => Some(Failure::Returned(code)),
            _ => (limits.to_the_end && !self.ended).then_some(Failure::NoEnd),
        };
        let tail = self.tail.into_lines();
        match self.failure.or(bad_end) {
            Some(failure) => Err(Error::Machine { emulator, failure, tail }),
            None => Ok(Transcript {
                sections: self.sections,
                results: self.results,
                ended: self.ended,
                tail,
                ending,
            }),
        }
    }
}
