//! One count from start to end: counters opened, the program let go, intervals told at their times,
//! the end awaited.

use super::counts::{Count, Counter, Counts, Thread};
use super::open::{Slot, Wanted, want};
use super::{Stat, StatOptions};
use crate::child::{Waiting, Workload};
use crate::options::Scope;
use crate::sys::count::{self as sys, Times};
use crate::sys::files::FileLimit;
use crate::sys::{ForwardSignals, clock_ns};
use crate::target::Target;
use crate::{Ending, Error, cpus};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// How long to sleep at most: a signal that comes just before a sleep, and the end of processes on
/// kernels without descriptors for it, are noticed after so long.
const TICK: Duration = Duration::from_millis(100);
/// The same where the kernel cannot say when the program ends.
const BLIND_TICK: Duration = Duration::from_millis(5);

/// Counts until the command ends, the processes or threads end, or a signal asks to stop. `tell`
/// gets the counts of each interval, when intervals were asked for, the last one at the end.
pub fn count(
    target: &Target,
    command: Option<&Workload>,
    options: &StatOptions,
    tell: &mut dyn FnMut(&[Counter], &Counts),
) -> Result<Stat, Error> {
    let wanted = want(target, options)?;
    let forward = ForwardSignals::to(0);
    let paused = command.map(Workload::pause).transpose()?;
    let _limit = FileLimit::raise();
    let pid = paused.as_ref().map(Waiting::pid);
    let slots = open(target, &wanted, options, pid)?;
    let names = if options.per_thread { names(&slots) } else { Vec::new() };
    if let Some(pid) = pid {
        forward.child(pid as u32);
    }
    let start = now();
    if target.scope() != Scope::Command {
        slots.iter().for_each(Slot::enable);
    }
    // The child is waited for below, with its times; dropping the handle does nothing to it.
    if let Some(paused) = paused {
        drop(paused.go()?);
    }
    let mut running = Running {
        wanted: &wanted,
        slots: &slots,
        names: &names,
        start,
        last: Counts::default(),
        intervals: 0,
        skipped: 0,
    };
    let (ending, times) = running.follow(target, pid, options.interval, &forward, tell)?;
    let elapsed = now().saturating_sub(start);
    slots.iter().for_each(Slot::disable);
    let total = running.read(elapsed);
    if options.interval.is_some() {
        running.tell(&total, tell);
    }
    Ok(Stat {
        total: total.since(&Counts::default()),
        intervals: running.intervals,
        skipped_intervals: running.skipped,
        elapsed,
        user: times.map(|times| times.user),
        system: times.map(|times| times.system),
        ending,
        interrupted: forward.stopped(),
        notes: wanted.notes.clone(),
        counters: wanted.counters,
    })
}

fn now() -> Duration {
    Duration::from_nanos(clock_ns(libc::CLOCK_MONOTONIC).unwrap_or(0))
}

/// Opens the counters of the target. Threads that appear meanwhile are found by looking again;
/// those that appear later are inherited.
fn open(
    target: &Target,
    wanted: &Wanted,
    options: &StatOptions,
    child: Option<i32>,
) -> Result<Vec<Slot>, Error> {
    match target {
        Target::Command => {
            let slot = wanted.open(child.ok_or(Error::NoCommand)?, -1, &[])?;
            Ok(slot.into_iter().collect())
        }
        Target::System => {
            let cpus = cpus::online();
            let slots: Result<Vec<_>, Error> = cpus
                .iter()
                .filter_map(|cpu| wanted.open(-1, *cpu, &options.cpus).transpose())
                .collect();
            slots
        }
        Target::Processes(_) | Target::Threads(_) | Target::User(_) => attach(target, wanted),
    }
}

fn attach(target: &Target, wanted: &Wanted) -> Result<Vec<Slot>, Error> {
    if let Some(gone) = target.gone() {
        return Err(gone);
    }
    let mut slots: Vec<Slot> = Vec::new();
    // Each round opens what is new; a process that makes threads faster than that is counted by
    // inheritance.
    for _ in 0..10 {
        let known: Vec<i32> = slots.iter().map(|slot| slot.tid).collect();
        let new: Vec<i32> = target.tids().into_iter().filter(|tid| !known.contains(tid)).collect();
        if new.is_empty() {
            break;
        }
        wanted.need(known.len(), new.len()).check()?;
        for tid in new {
            let opened = wanted.open(tid, -1, &[]);
            slots.extend(opened.map_err(|error| target.foreign().unwrap_or(error))?);
        }
    }
    Ok(slots)
}

fn names(slots: &[Slot]) -> Vec<String> {
    let name = |slot: &Slot| {
        let text = std::fs::read_to_string(format!("/proc/{}/comm", slot.tid)).unwrap_or_default();
        text.trim_end().to_owned()
    };
    slots.iter().map(name).collect()
}

/// A count that goes on.
struct Running<'r> {
    wanted: &'r Wanted,
    slots: &'r [Slot],
    /// The threads' names, where they are told apart.
    names: &'r [String],
    start: Duration,
    /// What the last interval ended with.
    last: Counts,
    intervals: u64,
    skipped: u64,
}

impl Running<'_> {
    /// Waits for the end and tells the intervals. Their times are multiples of the interval after
    /// the start, whatever telling them takes.
    fn follow(
        &mut self,
        target: &Target,
        child: Option<i32>,
        interval: Option<Duration>,
        forward: &ForwardSignals,
        tell: &mut dyn FnMut(&[Counter], &Counts),
    ) -> Result<(Ending, Option<Times>), Error> {
        let mut ends = ends(target, child);
        let watched = !ends.is_empty();
        let tick = if watched || target.scope() == Scope::Cpus && child.is_none() {
            TICK
        } else {
            BLIND_TICK
        };
        // Starting the program may have taken longer than an interval.
        let mut deadline = interval.map(|interval| self.next(interval));
        loop {
            let time = now();
            let left = deadline.map_or(tick, |deadline| deadline.saturating_sub(time)).min(tick);
            sys::sleep_until_end(&mut ends, left);
            if let Some(pid) = child {
                if (!watched || ends.is_empty())
                    && let Some((status, times)) = reaped(pid, forward)?
                {
                    return Ok((Ending::from(status), Some(times)));
                }
            } else if forward.stopped() || gone(target, watched, &ends) {
                return Ok((Ending::Unknown, None));
            }
            let time = now();
            let (Some(due), Some(interval)) = (deadline, interval) else { continue };
            if time < due {
                continue;
            }
            let counts = self.read(time.saturating_sub(self.start));
            self.tell(&counts, tell);
            let next = self.next(interval);
            let between = next.saturating_sub(due).as_nanos() / interval.as_nanos().max(1);
            self.skipped += u64::try_from(between).unwrap_or(0).saturating_sub(1);
            deadline = Some(next);
        }
    }

    /// The first end of an interval that has not yet passed.
    fn next(&self, interval: Duration) -> Duration {
        let interval = interval.as_nanos().max(1);
        let passed = now().saturating_sub(self.start).as_nanos() / interval;
        let next = interval.saturating_mul(passed + 1);
        self.start + Duration::from_nanos(u64::try_from(next).unwrap_or(u64::MAX))
    }

    /// Reads all counters.
    fn read(&self, at: Duration) -> Counts {
        let counters = &self.wanted.counters;
        let mut sums: Vec<Option<Count>> =
            counters.iter().map(|counter| counter.refused.is_none().then(Count::default)).collect();
        let mut threads = Vec::new();
        let names = self.names.iter().map(Some).chain(std::iter::repeat(None));
        for (slot, name) in self.slots.iter().zip(names) {
            let counts = slot.read(counters);
            for (sum, count) in sums.iter_mut().zip(&counts) {
                if let (Some(sum), Some(count)) = (sum, count) {
                    sum.add(*count);
                }
            }
            if let Some(name) = name {
                threads.push(Thread { tid: slot.tid, name: name.clone(), counts });
            }
        }
        Counts { at, length: at, counts: sums, threads }
    }

    fn tell(&mut self, now: &Counts, tell: &mut dyn FnMut(&[Counter], &Counts)) {
        tell(&self.wanted.counters, &now.since(&self.last));
        self.intervals += 1;
        self.last = now.clone();
    }
}

/// Descriptors of the ends that are waited for; none where the kernel has none for all of them.
fn ends(target: &Target, child: Option<i32>) -> Vec<OwnedFd> {
    let (ids, thread): (Vec<i32>, bool) = match (child, target) {
        (Some(child), _) => (vec![child], false),
        (None, Target::Processes(pids)) => (pids.clone(), false),
        (None, Target::Threads(tids)) => (tids.clone(), true),
        (None, _) => (Vec::new(), false),
    };
    let ends: Option<Vec<OwnedFd>> = ids.into_iter().map(|id| sys::end_of(id, thread)).collect();
    ends.unwrap_or_default()
}

/// Whether all that was to be counted has ended.
fn gone(target: &Target, watched: bool, ends: &[OwnedFd]) -> bool {
    match target {
        Target::Command | Target::System => false,
        _ if watched => ends.is_empty(),
        _ => target.tids().is_empty(),
    }
}

/// The child's end. Its number is free from then on, so no signal goes there any more.
fn reaped(
    pid: i32,
    forward: &ForwardSignals,
) -> Result<Option<(std::process::ExitStatus, Times)>, Error> {
    let ended = sys::reap(pid)
        .map_err(|source| Error::Start { program: format!("process {pid}"), source })?;
    if ended.is_some() {
        forward.ended();
    }
    Ok(ended)
}
