//! The recording itself: a tracer stops threads, a recorder looks ahead at each stop, and all goes
//! into one file.

use super::visitor::Recorder;
use super::{CLOCK_EVENT, COUNTER_EVENT, MOST_DEPTH, Options, StopBy, budget, trigger};
use crate::child::Workload;
use crate::event::Machine;
use crate::features::{self, features};
use crate::file::Reserved;
use crate::live::{self, Target};
use crate::plan::{Planned, Sampling, Scope, dummy};
use crate::sys::ForwardSignals;
use crate::sys::files::FileLimit;
use crate::{Ending, Error, Summary, attr, open};
use perfdata::attr_flag;
use perfdata::write::Encoder;
use std::cell::RefCell;
use std::path::Path;
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
    options: &Options,
) -> Result<Summary, Error> {
    let start = Instant::now();
    let scope = target.scope();
    let alone = options.no_inherit || matches!(target, Target::Threads(_));
    let sampling = Sampling { no_inherit: alone, ..Sampling::default() };
    let mut events = vec![tracker(&sampling, scope)];
    let forward = ForwardSignals::to(0);
    crate::sys::readers::survive_file_limit();
    let reserved = Reserved::at(output)?;
    let paused = command.map(live::pause).transpose()?;
    let _limit = FileLimit::raise();
    let child = paused.as_ref().map(|paused| paused.pid);
    let live_options = live::Options { sampling, ..live::Options::default() };
    let mut opened = live::open(target, &mut events, &live_options, child, 1).map_err(|error| {
        live::foreign(target).filter(|_| matches!(error, Error::Refused { .. })).unwrap_or(error)
    })?;
    let trigger = options.stop_by.trigger()?;
    let counts = trigger != Trigger::CpuClock;
    let name = if counts { COUNTER_EVENT } else { CLOCK_EVENT };
    let sampled = attr::looked_ahead(EVENT_ID, name, trigger);
    let encoder = Encoder::new(&sampled);
    let mut attrs = vec![sampled];
    attrs.extend(open::described(&events, &opened));
    let mut file = reserved.begin(&attrs)?;
    let kernel = live::synthesize(target, &attrs, &mut file)?;
    let mut budget = budget::Budget::new(options.pace, counts);
    let stop_options = stops::Options {
        trigger,
        period: budget.period(),
        spread_first: true,
        follow: !alone,
        max_stops: None,
        new_threads: options.pace.new_threads(),
    };
    let mut tracer = seize(target, child, &stop_options)?;
    let begun_with = tracer.counts().clone();
    if let Some(paused) = &paused {
        forward.child(paused.pid as u32);
    }
    let command_pid = paused.as_ref().map(|paused| paused.pid);
    let depth = options.depth.clamp(1, MOST_DEPTH);
    let mut recorder =
        Recorder::new(&mut opened, &mut file, (encoder, EVENT_ID), budget, (depth, options.check));
    let running: std::collections::BTreeSet<i32> =
        target.tids().into_iter().filter_map(crate::synthesize::process_of).collect();
    running.into_iter().for_each(|pid| recorder.running(pid));
    let child = RefCell::new(paused.map(|paused| live::go(paused, command)).transpose()?);
    // A command beside a running process only says how long.
    let timer_ended = || {
        child
            .borrow_mut()
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(Some(_)) | Err(_)))
    };
    let stop = || match (scope, command_pid) {
        // What it started may go on for long: it is waited for until a signal says otherwise.
        (Scope::Command, Some(pid)) => forward.stopped() && crate::sys::has_ended(pid),
        _ => forward.stopped() || timer_ended(),
    };
    let ended = tracer.run(&mut recorder, &stop)?;
    let written = recorder.finish();
    let Recorder { seen, mut went, described, threads_born, .. } = recorder;
    let ending = match child.into_inner() {
        Some(mut child) => child.wait().map_or(Ending::Unknown, Ending::from),
        None => Ending::Unknown,
    };
    forward.ended();
    went.stopped = Duration::from_nanos(ended.counts.stopped_ns);
    went.tracer_cpu = Duration::from_nanos(ended.counts.tracer_cpu_ns);
    went.births = Duration::from_nanos(ended.counts.births_ns);
    went.threads = ended.counts.threads;
    went.let_be = let_be(&begun_with, &ended.counts, threads_born);
    if seen.samples == 0 {
        let took = start.elapsed().as_secs_f64();
        let why = match went.let_be {
            0 => "the program was asleep, or too short".to_owned(),
            threads => {
                format!(
                    "{threads} threads came and went too fast for the budget, and the others \
                     hardly ran"
                )
            }
        };
        let reason = format!(
            "no thread was caught running in {took:.1} s; {why}: --stop-by clock -c 100000 stops \
             it ten thousand times in a second of CPU time{}",
            ending.told()
        );
        return Err(Error::Empty { reason });
    }
    let mut features = features(None, None, &seen, kernel);
    features::describe_events(&mut features, &events, &Machine::here(), None);
    if let Err(source) = written {
        return Err(file.keep(source, &features, &mut []));
    }
    let bytes = file.finish(&features)?;
    let mut notes = notes(&ended.counts, went.let_be);
    notes.extend(described.into_iter().map(|what| format!("mismatch: {what}")));
    Ok(Summary {
        output: output.to_owned(),
        bytes,
        branches: "software",
        event: name.to_owned(),
        samples: seen.samples,
        branch_entries: seen.branch_entries,
        lost_samples: 0,
        taken_branches: None,
        processes: ended.counts.processes,
        native_programs: 0,
        elapsed: start.elapsed(),
        ending,
        notes,
        look_ahead: Some(went),
        aux: None,
        streamed: None,
    })
}

/// Takes the child that waits, or what runs already.
fn seize(
    target: &Target,
    child: Option<i32>,
    options: &stops::Options,
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
    let paused = live::pause(&Workload::new(["true"]))?;
    let mut events = vec![tracker(&Sampling::default(), Scope::Command)];
    live::open(&Target::Command, &mut events, &live::Options::default(), Some(paused.pid), 0)?;
    let options = stops::Options {
        trigger: Trigger::CpuClock,
        period: 1_000_000,
        spread_first: false,
        follow: false,
        max_stops: None,
        new_threads: None,
    };
    stops::Tracer::seize_child(paused.pid, &options).map(drop)?;
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
