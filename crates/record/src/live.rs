//! Recording through perf_event_open: a command, processes, threads, CPUs, or the whole system.
//!
//! A recording goes through four states, each made of the one before: [`Reserved`], [`Opened`],
//! [`Running`], [`Ended`].

use crate::child::{Waiting, Workload};
use crate::control::Commands;
use crate::event::EventSources;
use crate::events::{self, Choice};
use crate::features::Description;
use crate::file::{self, Output};
use crate::follow::Session;
use crate::hotplug::CpuWatch;
use crate::readers::{self, Shared, Signals};
use crate::rotate::Rotation;
use crate::seen::{BuildId, Seen};
use crate::session::{self, Finished};
use crate::streaming::Streaming;
use crate::sys::ForwardSignals;
use crate::sys::files::FileLimit;
use crate::sys::readers::{NowSignal, standard_output, survive_file_limit, terminate};
use crate::{Error, Summary, aux, open, refusal, synthesize};
use perfdata::EventAttr;
use std::fs::File;
use std::path::Path;
use std::process::Child;
use std::time::Instant;

pub use crate::cpus::cpu_list;
pub use crate::options::{Branches, Mode, Rate, RecordOptions, Sampling, Scope};
pub use crate::target::{Target, user};

/// Whether the kernel gives this user branch stacks of the CPU for own programs.
pub fn has_hardware_branches() -> bool {
    let options = RecordOptions { branches: Branches::Hardware, ..RecordOptions::default() };
    events::choose(&options, Scope::Command, &EventSources::here()).is_ok()
}

/// Opens an event for the calling thread and closes it again.
///
/// # Errors
/// What the kernel says against it.
pub fn try_event(attr: &perfdata::EventAttr) -> std::io::Result<()> {
    perf_events::Event::open(attr, 0, -1, None).map(drop)
}

/// Records into `output`, or standard output where that is `-`, until the command ends, the
/// processes end, or a signal asks to stop.
pub fn record(
    target: &Target,
    command: Option<&Workload>,
    output: &Path,
    options: &RecordOptions,
) -> Result<Summary, Error> {
    Reserved::new(target, command, output, options)?.open()?.begin()?.follow()?.told()
}

/// Where the pipe form goes.
fn pipe_of(how: &Streaming) -> Result<File, Error> {
    let Some(pipe) = &how.pipe else { return standard_output() };
    pipe.try_clone().map(File::from).map_err(Error::io("a pipe".as_ref(), "write to"))
}

/// Ends the recording that is being made, and its command, as SIGTERM does.
pub fn end() {
    terminate(std::process::id());
}

/// Asks a process that planish started to end, by SIGTERM.
pub fn ask_to_end(pid: u32) {
    terminate(pid);
}

/// Whether a signal asked the recording that is being made, or the last one, to end.
pub fn asked_to_end() -> bool {
    crate::sys::asked_to_end()
}

/// What a recording has in all its states.
struct Recording<'r> {
    target: &'r Target,
    output: &'r Path,
    options: RecordOptions,
    machine: EventSources,
    choice: Choice,
    start: Instant,
    // Handlers of signals are put back in this order, the last one set first.
    now: Option<NowSignal>,
    forward: ForwardSignals,
    commands: Option<Commands>,
    _limit: FileLimit,
}

/// The events are chosen, the output has its place, and the program waits.
struct Reserved<'r> {
    recording: Recording<'r>,
    /// None where the output is standard output.
    place: Option<file::Reserved>,
    waiting: Option<Waiting>,
}

impl<'r> Reserved<'r> {
    fn new(
        target: &'r Target,
        command: Option<&Workload>,
        output: &'r Path,
        options: &RecordOptions,
    ) -> Result<Reserved<'r>, Error> {
        let start = Instant::now();
        let mut options = options.clone();
        // As perf: a thread is recorded alone.
        options.sampling.no_inherit |= matches!(target, Target::Threads(_));
        options.sampling.overwrite = options.streaming.overwrite;
        options.sampling.cgroups = !options.cgroups.is_empty();
        let how = &options.streaming;
        session::check(how, output)?;
        readers::check_priority(how)?;
        let machine = EventSources::here();
        let choice = events::choose(&options, target.scope(), &machine)?;
        let forward = ForwardSignals::to(0);
        let now = (how.overwrite || how.switch.is_some()).then(NowSignal::install).flatten();
        let commands = how.control.as_ref().map(Commands::open).transpose()?;
        // Before the program, which must not start when its recording has no place.
        let reserve = || file::Reserved::with(output, how.threads.is_some(), how.force);
        let place = (output.as_os_str() != "-").then(reserve).transpose()?;
        let place = place.map(|place| place.with_backlog(how.backlog()));
        let waiting = command.map(Workload::pause).transpose()?;
        let _limit = FileLimit::raise();
        survive_file_limit();
        let recording = Recording {
            target,
            output,
            options,
            machine,
            choice,
            start,
            now,
            forward,
            commands,
            _limit,
        };
        Ok(Reserved { recording, place, waiting })
    }

    /// Opens the events, on the program that waits or on what runs.
    fn open(self) -> Result<Opened<'r>, Error> {
        let Reserved { mut recording, place, waiting } = self;
        let (options, choice) = (&recording.options, &mut recording.choice);
        let child = waiting.as_ref().map(Waiting::pid);
        let mut opened = open::of_target(recording.target, &mut choice.events, options, child, 0)?;
        choice.notes.extend(open::smaller(&opened, &options.streaming));
        // The kernel starts the events of a program that begins.
        opened.will_run(child.is_some() && !options.sampling.late());
        let attrs = open::described(&choice.events, &opened);
        Ok(Opened { recording, place, waiting, opened, attrs })
    }
}

/// The events are open; those of running processes do not count yet.
struct Opened<'r> {
    recording: Recording<'r>,
    place: Option<file::Reserved>,
    waiting: Option<Waiting>,
    opened: open::Opened,
    attrs: Vec<EventAttr>,
}

impl<'r> Opened<'r> {
    /// Writes what exists already, enables the events, and lets the program go.
    fn begin(self) -> Result<Running<'r>, Error> {
        let Opened { recording, place, waiting, mut opened, attrs } = self;
        let Recording { target, options, choice, .. } = &recording;
        let how = &options.streaming;
        let mut file = match place {
            Some(place) => place.begin(&attrs)?,
            None => {
                let features = recording.description(&[]).features(&Seen::default(), None);
                Output::pipe(pipe_of(how)?, &attrs, &features, how.backlog())?
            }
        };
        let preamble = aux::preamble(&choice.events, &opened.rings)?;
        file.records(&preamble)?;
        let kernel = synthesize::existing(target, &attrs, &mut file)?;
        if let Some(waiting) = &waiting {
            recording.forward.child(waiting.pid() as u32);
        }
        let scope = target.scope();
        if scope != Scope::Command && !options.sampling.late() {
            let refused = |error| refusal::refused(&choice.names(), false, &error, scope);
            opened.set_running(true).map_err(refused)?;
        }
        let (streams, whole) = session::streams(&mut opened, &attrs, file, how)?;
        let child = waiting.map(Waiting::go).transpose()?;
        let began = Instant::now();
        Ok(Running { recording, opened, attrs, preamble, kernel, streams, whole, child, began })
    }
}

/// Records come into the rings.
struct Running<'r> {
    recording: Recording<'r>,
    opened: open::Opened,
    attrs: Vec<EventAttr>,
    /// Records that every file begins with.
    preamble: Vec<u8>,
    /// The kernel's files.
    kernel: Vec<BuildId>,
    streams: Vec<Shared>,
    /// The file with the header, where no stream goes into it.
    whole: Option<Output>,
    child: Option<Child>,
    began: Instant,
}

impl<'r> Running<'r> {
    /// Reads the rings until the end, and completes the file.
    fn follow(self) -> Result<Ended<'r>, Error> {
        let Running { mut recording, opened, attrs, preamble, kernel, streams, whole, .. } = self;
        let (mut child, began) = (self.child, self.began);
        let (now, commands) = (recording.now.take(), recording.commands.take());
        let Recording { target, options, .. } = &recording;
        let description = &recording.description(&kernel);
        let signals = Signals::new()?;
        let mut session = Session {
            target,
            how: &options.streaming,
            opened: &opened,
            streams: &streams,
            signals: &signals,
            began,
            begin: options.sampling.delay.map(|delay| Instant::now() + delay),
            commands,
            now,
            rotation: Rotation {
                attrs: &attrs,
                preamble: &preamble,
                output: recording.output.to_owned(),
                how: &options.streaming,
                description,
                files: Vec::new(),
                since: Instant::now(),
                bytes_before: 0,
            },
            cpus: matches!(target, Target::System)
                .then(|| CpuWatch::of(&opened.cpus, options.cpus.is_empty())),
            notes: Vec::new(),
        };
        let ended = session.follow(child.as_mut(), &recording.forward);
        recording.forward.ended();
        let (rotation, notes) = (session.rotation, session.notes);
        let clock = description.clock;
        let end = session::End { opened: &opened, attrs: &attrs, began, clock, rotation, whole };
        let finished = end.finish(streams, ended)?;
        recording.choice.notes.extend(notes);
        Ok(Ended { recording, finished })
    }
}

/// The file is complete, if there is anything in it.
struct Ended<'r> {
    recording: Recording<'r>,
    finished: Finished,
}

impl Ended<'_> {
    /// What the recording came to; an error where nothing was recorded.
    fn told(self) -> Result<Summary, Error> {
        let Ended { recording, finished } = self;
        let seen = &finished.seen;
        let lost_samples = finished.streamed.losses.records;
        if seen.is_empty() {
            let reason = match lost_samples {
                0 => recording.why_nothing() + &finished.ending.told(),
                lost => format!(
                    "all samples were lost, {lost} of them: the rings are too small for them; \
                     give more with -m, or sample less (-F, -c, a smaller --call-graph dwarf,SIZE)"
                ),
            };
            return Err(Error::Empty { reason });
        }
        let choice = recording.choice;
        Ok(Summary {
            output: finished.output,
            bytes: finished.bytes,
            branches: choice.branches,
            event: choice.names(),
            samples: seen.samples,
            branch_entries: seen.branch_entries,
            lost_samples,
            taken_branches: None,
            processes: 0,
            native_programs: 0,
            elapsed: recording.start.elapsed(),
            ending: finished.ending,
            aux: aux::traced(&choice.events).then_some(seen.aux),
            notes: choice.notes,
            look_ahead: None,
            streamed: Some(finished.streamed),
        })
    }
}

impl Recording<'_> {
    /// What every file says of the recording.
    fn description<'d>(&'d self, kernel: &'d [BuildId]) -> Description<'d> {
        let chosen_clock = self.options.sampling.clock;
        Description {
            events: &self.choice.events,
            machine: &self.machine,
            how: &self.options.streaming,
            chosen_clock,
            clock: aux::clock(&self.choice.events, chosen_clock),
            kernel,
        }
    }

    /// Why there is not one sample.
    fn why_nothing(&self) -> String {
        let took = self.start.elapsed().as_secs_f64();
        let late = self.options.sampling.delay.filter(|delay| delay.as_secs_f64() >= took);
        if let Some(delay) = late {
            return format!(
                "sampling was to begin after {} ms (-D), and all was over in {took:.1} s",
                delay.as_millis()
            );
        }
        format!(
            "not one {} sample came in {took:.1} s; the program was asleep or too short for the \
             rate (-F, -c), or does not do what the event counts",
            self.choice.names()
        )
    }
}
