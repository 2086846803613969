//! Opening the planned events on every CPU and thread, in their groups, with one ring a CPU.

use crate::Error;
use crate::attr::bit::WRITE_BACKWARD;
use crate::descriptors::Need;
use crate::options::{RecordOptions, Scope};
use crate::planned::Planned;
use crate::refusal::{NO_FIT, refused};
use crate::rings::{Sizes, attempts};
use crate::streaming::Streaming;
use crate::sys::aux::AuxArea;
use crate::sys::page_bytes;
use crate::sys::perf::Ring;
use crate::target::Target;
use crate::{aux, cpus};
use perf_events::Event;
use perfdata::{EventAttr, attr_flag as flag};
use std::io;
use std::sync::{Mutex, PoisonError};

/// The open events and the rings they write into, one a CPU, and another one where some are written
/// over.
#[derive(Default)]
pub(crate) struct Opened {
    pub rings: Vec<Ring>,
    /// The AUX area beside each ring, where one of its events writes AUX data.
    pub areas: Vec<Option<AuxArea>>,
    /// The first thread that is recorded; −1 where CPUs are.
    pub thread: i32,
    /// Whether the events are to count now, as far as that is planish's to say.
    pub running: Mutex<bool>,
    /// The CPU of each ring.
    pub cpus: Vec<i32>,
    /// The first event of each ring, which the ring belongs to.
    pub leaders: Vec<Event>,
    pub followers: Vec<Follower>,
    /// The ids of each planned event.
    pub ids: Vec<Vec<u64>>,
    /// The rings that are written over, by number.
    pub overwritten: Vec<usize>,
}

/// An event that writes into the ring of another.
pub(crate) struct Follower {
    pub event: Event,
    /// Number of the ring.
    pub ring: usize,
    /// Whether it writes AUX data.
    pub traces: bool,
}

impl Opened {
    /// All events.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Event> {
        self.leaders.iter().chain(self.followers.iter().map(|follower| &follower.event))
    }

    /// Says beforehand whether the kernel starts the events by itself.
    pub(crate) fn will_run(&mut self, on: bool) {
        *self.running.get_mut().unwrap_or_else(PoisonError::into_inner) = on;
    }

    /// Enables or disables all events. The error is the first one; all are tried.
    pub(crate) fn set_running(&self, on: bool) -> io::Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        *running = on;
        self.all()
            .map(|event| if on { event.enable() } else { event.disable() })
            .fold(Ok(()), io::Result::and)
    }

    /// Stops or resumes a ring that is written over.
    pub(crate) fn pause_ring(&self, ring: usize, pause: bool) {
        if let Some(leader) = self.leaders.get(ring) {
            // A failure means that there is no ring any more.
            let _ = leader.pause_output(pause);
        }
    }

    /// Enables the events again that write AUX data into the areas of these rings, as long as
    /// events are to count: the kernel disables one whose area was full.
    pub(crate) fn resume(&self, rings: &[usize]) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if !*running {
            return;
        }
        // The first event of a ring with an area writes into it, or counts anyway. A failure means
        // that its task is gone.
        rings
            .iter()
            .filter_map(|ring| self.leaders.get(*ring))
            .for_each(|event| drop(event.enable()));
        let others =
            self.followers.iter().filter(|other| other.traces && rings.contains(&other.ring));
        others.for_each(|other| drop(other.event.enable()));
    }
}

/// Where to open.
struct Place<'p> {
    scope: Scope,
    /// Threads; everything that runs on the CPUs when there are none.
    tids: &'p [i32],
    /// CPUs; all online ones when there are none.
    cpus: &'p [i32],
    how: &'p Streaming,
    /// Descriptors that others would like to have for each thread.
    wished: usize,
}

/// What failed: an event, by its index, or the mapping of its ring.
struct Failed {
    index: usize,
    mapping: bool,
    error: io::Error,
}

/// Opens the events of the target. Threads that appear while a process is opened are found by
/// looking again; those that appear later are inherited. `wished` is how many descriptors the
/// caller would like to have for each thread.
pub(crate) fn of_target(
    target: &Target,
    events: &mut [Planned],
    options: &RecordOptions,
    child: Option<i32>,
    wished: usize,
) -> Result<Opened, Error> {
    let (scope, cpus, how) = (target.scope(), &options.cpus[..], &options.streaming);
    let mut at = |tids: &[i32]| {
        open(events, &Place { scope, tids, cpus, how, wished }).map_err(|error| match error {
            Error::Refused { .. } => target.foreign().unwrap_or(error),
            _ => error,
        })
    };
    match target {
        Target::System => at(&[]),
        Target::Command => at(&[child.ok_or(Error::NoCommand)?]),
        Target::Processes(_) | Target::Threads(_) | Target::User(_) => attach(target, at),
    }
}

fn attach(
    target: &Target,
    mut at: impl FnMut(&[i32]) -> Result<Opened, Error>,
) -> Result<Opened, Error> {
    if let Some(gone) = target.gone() {
        return Err(gone);
    }
    let mut tids = target.tids();
    if let (true, Target::User(user)) = (tids.is_empty(), target) {
        let reason = "it has no running process".to_owned();
        return Err(Error::Unfit { event: format!("user {user}"), reason });
    }
    for _ in 0..10 {
        let opened = at(&tids)?;
        let now = target.tids();
        if now.iter().all(|tid| tids.contains(tid)) && !opened.leaders.is_empty() {
            return Ok(opened);
        }
        tids = now;
    }
    at(&tids)
}

/// Opens all events. A weak group that the kernel refuses is broken up, and rings that it refuses
/// are made smaller.
fn open(events: &mut [Planned], place: &Place<'_>) -> Result<Opened, Error> {
    let mut sizes = sizes(place.how, aux::traced(events)).into_iter();
    let mut size = sizes.next().unwrap_or(Sizes { ring: page_bytes(), aux: page_bytes() });
    need(events, place).check()?;
    loop {
        match attempt(events, place, size) {
            Err(Failed { index, mapping, error }) => {
                if mapping && let Some(smaller) = sizes.next() {
                    size = smaller;
                    continue;
                }
                let Some(failed) = events.get(index) else {
                    return Err(refused("the recording", false, &error, place.scope));
                };
                let (leader, weak) =
                    (failed.leader, failed.weak && failed.leader != index && !mapping);
                if !weak {
                    return Err(why(failed, leader != index, &error, place));
                }
                let start = events.get(leader).map_or(0, |leader| leader.attr.flags);
                for (number, member) in
                    events.iter_mut().enumerate().filter(|(_, member)| member.leader == leader)
                {
                    member.leader = number;
                    member.attr.flags |= start & (flag::DISABLED | flag::ENABLE_ON_EXEC);
                }
            }
            Ok(opened) => return Ok(opened),
        }
    }
}

fn sizes(how: &Streaming, traced: bool) -> Vec<Sizes> {
    attempts(how.ring, how.aux, traced, page_bytes())
}

/// The descriptors that all events together take.
fn need(events: &[Planned], place: &Place<'_>) -> Need {
    let cpus = if place.cpus.is_empty() { cpus::online() } else { place.cpus.to_vec() };
    let threads = place.tids.len().max(1);
    let on_cpu = |cpu: &i32| events.iter().filter(|event| event.counts_on(*cpu)).count();
    let opened = cpus.iter().map(on_cpu).sum::<usize>() * threads;
    Need { opened, events: events.len(), threads, cpus: cpus.len(), wished: place.wished * threads }
}

/// What to say of rings and AUX areas that are smaller than planish would have them.
pub(crate) fn smaller(opened: &Opened, how: &Streaming) -> Option<String> {
    let area = opened.areas.iter().flatten().next().map(AuxArea::bytes);
    let best = sizes(how, area.is_some()).into_iter().next()?;
    let ring = Some(opened.rings.first()?.data_bytes());
    let lacks = |got: Option<usize>, best: usize| {
        got.filter(|got| *got < best).map(|got| (got >> 10, best >> 10))
    };
    // What comes much and fast is what suffers: AUX data where there is any.
    let (what, (got, best)) = match (lacks(area, best.aux), lacks(ring, best.ring)) {
        (Some(sizes), _) => ("AUX area", sizes),
        (None, sizes) => ("ring", sizes.filter(|_| area.is_none())?),
    };
    Some(format!(
        "each CPU's {what} has {got} KiB, not the {best} KiB that lose least: a higher \
         kernel.perf_event_mlock_kb or `ulimit -l`, or CAP_IPC_LOCK, would allow them"
    ))
}

fn why(event: &Planned, member: bool, error: &io::Error, place: &Place<'_>) -> Error {
    if let Some(of_group) =
        event.cgroup.as_ref().and_then(|cgroup| cgroup.refused(&event.name, error))
    {
        return of_group;
    }
    let asked =
        place.how.aux.map(|aux| ("AUX area", aux)).or(place.how.ring.map(|ring| ("ring", ring)));
    match (error.raw_os_error(), asked) {
        (Some(libc::EINVAL), _) if member => {
            Error::Refused { event: event.name.clone(), reason: NO_FIT.to_owned() }
        }
        (Some(libc::EPERM), Some((what, pages))) => Error::Refused {
            event: event.name.clone(),
            reason: format!(
                "the kernel allows no {what} of {} KiB a CPU; give a smaller -m, or raise \
                 kernel.perf_event_mlock_kb or `ulimit -l`, or run with CAP_IPC_LOCK",
                pages.bytes() >> 10
            ),
        },
        _ => refused(&event.name, event.has_stack(), error, place.scope),
    }
}

/// Opens all events with rings of a size; the error names the event.
fn attempt(events: &[Planned], place: &Place<'_>, size: Sizes) -> Result<Opened, Failed> {
    let thread = place.tids.first().copied().unwrap_or(-1);
    let mut opened = Opened { ids: vec![Vec::new(); events.len()], thread, ..Opened::default() };
    let everything = [-1];
    let tids = if place.tids.is_empty() { &everything[..] } else { place.tids };
    let wake_bytes = place.how.wake(size.ring);
    let online = if place.cpus.is_empty() { cpus::online() } else { place.cpus.to_vec() };
    for cpu in online {
        // The rings of this CPU: the usual one, and the one that is written over.
        let mut rings: [Option<usize>; 2] = [None; 2];
        for tid in tids {
            let mut made: Vec<Option<Event>> = Vec::new();
            for (index, event) in events.iter().enumerate() {
                let one = event.counts_on(cpu).then(|| {
                    let mut attr = event.attr.clone();
                    // More than the ring holds would wake the reader too late.
                    attr.wakeup = wake_bytes.min((size.ring / 2) as u32);
                    if event.trace.is_some() {
                        // Early enough for the rest to be filled while the reader is on its way.
                        attr.aux_watermark = u32::try_from(size.aux / 4).unwrap_or(u32::MAX);
                    }
                    let group = made.get(event.leader).and_then(Option::as_ref);
                    match &event.cgroup {
                        Some(cgroup) => Event::open_cgroup(&attr, &cgroup.dir, cpu, group),
                        None => Event::open(&attr, *tid, cpu, group),
                    }
                });
                made.push(match one {
                    None => None,
                    Some(Ok(event)) => Some(event),
                    // The thread ended meanwhile, or the CPU went away.
                    Some(Err(error))
                        if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV)) =>
                    {
                        None
                    }
                    Some(Err(error)) => return Err(Failed { index, mapping: false, error }),
                });
            }
            // Who writes AUX data has to own the ring that its area lies beside.
            let mut made: Vec<(usize, Option<Event>)> = made.into_iter().enumerate().collect();
            made.sort_by_key(|(index, _)| {
                events.get(*index).is_none_or(|event| event.trace.is_none())
            });
            for (index, event) in made {
                let (Some(event), Some(planned)) = (event, events.get(index)) else { continue };
                let fail = |error| Failed { index, mapping: false, error };
                let ids = event.id().map_err(fail)?;
                opened.ids.get_mut(index).into_iter().for_each(|list| list.push(ids));
                let backward = planned.attr.flags & WRITE_BACKWARD != 0;
                let [usual, over] = &mut rings;
                let ring = if backward { over } else { usual };
                let traces = planned.trace.is_some();
                if let Some((number, leader)) =
                    ring.and_then(|ring| Some((ring, opened.leaders.get(ring)?)))
                {
                    event.share_ring_of(leader).map_err(fail)?;
                    if traces
                        && let (Some(shared), Some(area @ None)) =
                            (opened.rings.get(number), opened.areas.get_mut(number))
                    {
                        let full = |error| Failed { index, mapping: true, error };
                        *area = Some(AuxArea::map(&event, shared, size.aux).map_err(full)?);
                    }
                    opened.followers.push(Follower { event, ring: number, traces });
                    continue;
                }
                let full = |error| Failed { index, mapping: true, error };
                let mapped = Ring::map(&event, size.ring, backward).map_err(full)?;
                let area = traces
                    .then(|| AuxArea::map(&event, &mapped, size.aux))
                    .transpose()
                    .map_err(full)?;
                *ring = Some(opened.rings.len());
                if backward {
                    opened.overwritten.push(opened.rings.len());
                }
                opened.rings.push(mapped);
                opened.areas.push(area);
                opened.cpus.push(cpu);
                opened.leaders.push(event);
            }
        }
    }
    Ok(opened)
}

/// The attributes as they go into the file.
pub(crate) fn described(events: &[Planned], opened: &Opened) -> Vec<EventAttr> {
    let ids = opened.ids.iter().cloned().chain(std::iter::repeat(Vec::new()));
    let described = events.iter().zip(ids);
    described
        .map(|(event, ids)| EventAttr { ids, name: Some(event.name.clone()), ..event.attr.clone() })
        .collect()
}
