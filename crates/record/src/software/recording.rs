//! The recording itself: a tracer stops threads, a recorder looks ahead at each stop, and all goes
//! into one file. It goes through four states, each made of the one before: [`Reserved`],
//! [`Opened`], [`Running`], [`Ended`].

use super::visitor::Recorder;
use super::{CLOCK_EVENT, COUNTER_EVENT, LookAheadOptions, MOST_DEPTH, StopBy, budget, trigger};
use crate::child::{Waiting, Workload};
use crate::event::EventSources;
use crate::features::{self, features};
use crate::file::{self, Output};
use crate::options::{self, Sampling, Scope};
use crate::plan::dummy;
use crate::planned::Planned;
use crate::processes::process_of;
use crate::seen::{BuildId, Seen};
use crate::settings::Clock;
use crate::sys::ForwardSignals;
use crate::sys::files::FileLimit;
use crate::target::Target;
use crate::{Ending, Error, LookAhead, Summary, attr, open, synthesize};
use perfdata::write::Encoder;
use perfdata::{EventAttr, attr_flag};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};
use stops::Trigger;

/// The id of the samples; far from those that the kernel gives its events.
const EVENT_ID: u64 = 1 << 62;

/// Records a command or running processes and threads into `output`, with the branches they take
/// after each stop.
pub fn record(
    target: &Target,
    command: Option<&Workload>,
    output: &Path,
    options: &LookAheadOptions,
) -> Result<Summary, Error> {
    Reserved::new(target, command, output, options)?.open()?.seize()?.run()?.told()
}

/// What a recording has in all its states.
struct Recording<'r> {
    target: &'r Target,
    output: &'r Path,
    options: &'r LookAheadOptions,
    sampling: Sampling,
    /// Those that tell what is mapped and started.
    events: Vec<Planned>,
    start: Instant,
    forward: ForwardSignals,
    _limit: FileLimit,
}

/// The output has its place, and the program waits.
struct Reserved<'r> {
    recording: Recording<'r>,
    place: file::Reserved,
    waiting: Option<Waiting>,
}

impl<'r> Reserved<'r> {
    fn new(
        target: &'r Target,
        command: Option<&Workload>,
        output: &'r Path,
        options: &'r LookAheadOptions,
    ) -> Result<Reserved<'r>, Error> {
        let start = Instant::now();
        let no_inherit = options.no_inherit || matches!(target, Target::Threads(_));
        let sampling = Sampling { no_inherit, ..Sampling::default() };
        let events = vec![tracker(&sampling, target.scope())];
        let forward = ForwardSignals::to(0);
        crate::sys::readers::survive_file_limit();
        let place = file::Reserved::at(output)?;
        let waiting = command.map(Workload::pause).transpose()?;
        let _limit = FileLimit::raise();
        let recording =
            Recording { target, output, options, sampling, events, start, forward, _limit };
        Ok(Reserved { recording, place, waiting })
    }

    /// Opens the events, and writes what exists already.
    fn open(self) -> Result<Opened<'r>, Error> {
        let Reserved { mut recording, place, waiting } = self;
        let (target, events) = (recording.target, &mut recording.events);
        let child = waiting.as_ref().map(Waiting::pid);
        let sampling = recording.sampling.clone();
        let how = options::RecordOptions { sampling, ..options::RecordOptions::default() };
        let opened = open::of_target(target, events, &how, child, 1)?;
        let trigger = recording.options.stop_by.trigger()?;
        let mut attrs = vec![attr::looked_ahead(EVENT_ID, event_name(trigger), trigger)];
        attrs.extend(open::described(events, &opened));
        let mut file = place.begin(&attrs)?;
        let kernel = synthesize::existing(target, &attrs, &mut file)?;
        Ok(Opened { recording, waiting, opened, trigger, attrs, file, kernel })
    }
}

/// The events are open, and the file says what exists.
struct Opened<'r> {
    recording: Recording<'r>,
    waiting: Option<Waiting>,
    opened: open::Opened,
    trigger: Trigger,
    /// That of the samples first.
    attrs: Vec<EventAttr>,
    file: Output,
    /// The kernel's files.
    kernel: Vec<BuildId>,
}

impl<'r> Opened<'r> {
    /// Seizes the threads, and lets the program go.
    fn seize(self) -> Result<Running<'r>, Error> {
        let Opened { recording, waiting, opened, trigger, attrs, file, kernel } = self;
        let Recording { target, options, sampling, .. } = &recording;
        let mut budget = budget::Budget::new(options.pace, trigger != Trigger::CpuClock);
        let stop_options = stops::StopOptions {
            trigger,
            period: budget.period(),
            spread_first: true,
            follow: !sampling.no_inherit,
            max_stops: None,
            new_threads: options.pace.new_threads(),
        };
        let command = waiting.as_ref().map(Waiting::pid);
        let tracer = seize(target, command, &stop_options)?;
        let begun_with = tracer.counts().clone();
        if let Some(pid) = command {
            recording.forward.child(pid as u32);
        }
        let encoder = Encoder::new(attrs.first().unwrap_or(&EventAttr::default()));
        let depth = options.depth.clamp(1, MOST_DEPTH);
        let samples = (encoder, EVENT_ID);
        let mut recorder = Recorder::new(opened, file, samples, budget, (depth, options.check));
        let running: BTreeSet<i32> = target.tids().into_iter().filter_map(process_of).collect();
        running.into_iter().for_each(|pid| recorder.running(pid));
        let child = waiting.map(Waiting::go).transpose()?;
        let event = event_name(trigger);
        Ok(Running { child, recorder, tracer, begun_with, recording, event, command, kernel })
    }
}

/// Threads are stopped, and let go on.
struct Running<'r> {
    child: Option<Child>,
    recorder: Recorder,
    tracer: stops::Tracer,
    /// What the tracer had done before the program ran.
    begun_with: stops::Counts,
    recording: Recording<'r>,
    /// The name of the samples' event.
    event: &'static str,
    /// The number of the program that was started for the recording.
    command: Option<i32>,
    kernel: Vec<BuildId>,
}

impl<'r> Running<'r> {
    /// Stops threads until the end.
    fn run(self) -> Result<Ended<'r>, Error> {
        let Running { child, mut recorder, mut tracer, begun_with, recording, .. } = self;
        let (event, command, kernel) = (self.event, self.command, self.kernel);
        let forward = &recording.forward;
        let (until, began) = (recording.options.until, Instant::now());
        let child = RefCell::new(child);
        // A command beside a running process only says how long.
        let timer_ended = || {
            child
                .borrow_mut()
                .as_mut()
                .is_some_and(|child| matches!(child.try_wait(), Ok(Some(_)) | Err(_)))
        };
        let stop = || match (recording.target.scope(), command) {
            // What it started may go on for long: it is waited for until a signal says otherwise.
            (Scope::Command, Some(pid)) => forward.stopped() && crate::sys::has_ended(pid),
            _ => forward.stopped() || timer_ended() || until.is_over(began),
        };
        let counts = tracer.run(&mut recorder, &stop)?.counts;
        let written = recorder.finish();
        let ending = match child.into_inner() {
            Some(mut child) => child.wait().map_or(Ending::Unknown, Ending::from),
            None => Ending::Unknown,
        };
        forward.ended();
        let Recorder { file, seen, mut went, described, threads_born, .. } = recorder;
        went.stopped = Duration::from_nanos(counts.stopped_ns);
        went.tracer_cpu = Duration::from_nanos(counts.tracer_cpu_ns);
        went.births = Duration::from_nanos(counts.births_ns);
        went.threads = counts.threads;
        went.let_be = let_be(&begun_with, &counts, threads_born);
        let file = (file, written);
        Ok(Ended { recording, event, kernel, counts, file, seen, went, described, ending })
    }
}

/// All threads have been let go.
struct Ended<'r> {
    recording: Recording<'r>,
    event: &'static str,
    kernel: Vec<BuildId>,
    counts: stops::Counts,
    /// The file, and whether all could be written.
    file: (Output, Result<(), Error>),
    seen: Seen,
    went: LookAhead,
    /// Mismatches.
    described: Vec<String>,
    ending: Ending,
}

impl Ended<'_> {
    /// Completes the file, and says what the recording came to; an error where nothing was
    /// recorded.
    fn told(self) -> Result<Summary, Error> {
        let Ended { recording, event, kernel, counts, seen, went, .. } = self;
        let ((file, written), ending) = (self.file, self.ending);
        if seen.samples == 0 {
            let reason = nothing(recording.start, went.let_be) + &ending.told();
            return Err(Error::Empty { reason });
        }
        let mut features = features(None, None, &seen, kernel);
        // The clock of its times, see `attr::looked_ahead`.
        let clock = Some(Clock(libc::CLOCK_MONOTONIC));
        features::describe_events(&mut features, &recording.events, &EventSources::here(), clock);
        if let Err(source) = written {
            return Err(file.keep(source, &features, &mut []));
        }
        let bytes = file.finish(&features)?;
        let mut notes = notes(&counts, went.let_be);
        notes.extend(self.described.into_iter().map(|what| format!("mismatch: {what}")));
        Ok(Summary {
            output: recording.output.to_owned(),
            bytes,
            branches: "software",
            event: event.to_owned(),
            samples: seen.samples,
            branch_entries: seen.branch_entries,
            lost_samples: 0,
            taken_branches: None,
            processes: counts.processes,
            native_programs: 0,
            elapsed: recording.start.elapsed(),
            ending,
            notes,
            look_ahead: Some(went),
            aux: None,
            streamed: None,
        })
    }
}

fn event_name(trigger: Trigger) -> &'static str {
    if trigger == Trigger::CpuClock { CLOCK_EVENT } else { COUNTER_EVENT }
}

/// Why there is not one sample.
fn nothing(start: Instant, let_be: u64) -> String {
    let took = start.elapsed().as_secs_f64();
    let why = match let_be {
        0 => "the program was asleep, or too short".to_owned(),
        threads => format!(
            "{threads} threads came and went too fast for the budget, and the others hardly ran"
        ),
    };
    format!(
        "no thread was caught running in {took:.1} s; {why}: --stop-by clock -c 100000 stops it \
         ten thousand times in a second of CPU time"
    )
}

/// Takes the child that waits, or what runs already.
fn seize(
    target: &Target,
    child: Option<i32>,
    options: &stops::StopOptions,
) -> Result<stops::Tracer, Error> {
    if let (Scope::Command, Some(child)) = (target.scope(), child) {
        return Ok(stops::Tracer::seize_child(child, options)?);
    }
    let tids = target.tids();
    if tids.is_empty() {
        return Err(Error::Empty { reason: "all that was to be recorded has ended".to_owned() });
    }
    Ok(stops::Tracer::attach(&tids, options)?)
}

impl StopBy {
    /// What stops threads here.
    fn trigger(self) -> Result<Trigger, Error> {
        const REASON: &str = "this CPU, hypervisor or kernel does not count them for you; without \
                              --stop-by threads are stopped by CPU time";
        let refused =
            || Error::Refused { event: "taken branches".to_owned(), reason: REASON.to_owned() };
        match self {
            StopBy::Clock => Ok(Trigger::CpuClock),
            StopBy::Auto => Ok(trigger::taken_branches().unwrap_or_default()),
            StopBy::Branches => trigger::taken_branches().ok_or_else(refused),
        }
    }
}

/// The event that tells what is mapped and started; of programs only, which needs no permission.
fn tracker(sampling: &Sampling, scope: Scope) -> Planned {
    let mut event = dummy(0, sampling, scope, false);
    event.attr.flags |= attr_flag::EXCLUDE_KERNEL | attr_flag::EXCLUDE_HV;
    event.name = "dummy:u".to_owned();
    event
}

/// Tries on a child of no consequence, which never runs, whether this machine and user can have
/// software branch stacks.
pub fn probe() -> Result<(), Error> {
    let waiting = Workload::new(["true"]).pause()?;
    let mut events = vec![tracker(&Sampling::default(), Scope::Command)];
    let how = options::RecordOptions::default();
    open::of_target(&Target::Command, &mut events, &how, Some(waiting.pid()), 0)?;
    let options = stops::StopOptions {
        trigger: Trigger::CpuClock,
        period: 1_000_000,
        spread_first: false,
        follow: false,
        max_stops: None,
        new_threads: None,
    };
    stops::Tracer::seize_child(waiting.pid(), &options).map(drop)?;
    Ok(())
}

/// How many threads were let be: those of which the kernel told and that were not traced.
fn let_be(begun_with: &stops::Counts, ended: &stops::Counts, born: u64) -> u64 {
    if ended.let_be + ended.muted == 0 {
        return 0;
    }
    // Threads beside the first ones of their processes.
    let further = |counts: &stops::Counts| counts.threads.saturating_sub(counts.processes);
    let traced = further(ended).saturating_sub(further(begun_with));
    born.saturating_sub(traced).max(ended.let_be)
}

/// What could not be recorded, in plain sentences.
fn notes(counts: &stops::Counts, let_be: u64) -> Vec<String> {
    let mut notes = Vec::new();
    if let_be > 0 {
        notes.push(format!(
            "{let_be} new threads came faster than the budget can follow and were let be; what \
             the short ones of them ran is not in the recording: a larger --budget follows more \
             of them, -c or -F all, at whatever cost"
        ));
    }
    for (why, count) in &counts.left_alone {
        let reason = match why {
            stops::LeftAlone::ThirtyTwoBit => "run 32-bit code and were not recorded",
            stops::LeftAlone::TracedByParent => {
                "asked to be traced by the program that started them, and were let go unrecorded"
            }
            stops::LeftAlone::Busy => "did not stop in time to be let go one by one",
            stops::LeftAlone::Child | stops::LeftAlone::Gone => continue,
        };
        notes.push(format!("{count} processes {reason}"));
    }
    for (why, count) in &counts.interrupted {
        let reason = match why {
            stops::Reason::Blocked => "block the signal that stops them",
            stops::Reason::Handled => "have handlers for all signals that could stop them",
            stops::Reason::NoEvent => {
                "could not be given a clock event (kernel.perf_event_paranoid)"
            }
            stops::Reason::NoDescriptor => "found no free file descriptor (ulimit -n)",
        };
        notes.push(format!(
            "{count} threads {reason}; they were interrupted instead, at less even intervals"
        ));
    }
    notes
}
