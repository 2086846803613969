//! Opening the planned events on every CPU and thread, in their groups, with one ring a CPU.

use crate::Error;
use crate::attr::bit::WRITE_BACKWARD;
use crate::aux;
use crate::descriptors::Need;
use crate::events::refused;
use crate::plan::{Planned, Scope};
use crate::rings::{Sizes, attempts};
use crate::settings::Wrong;
use crate::streaming::Streaming;
use crate::sys::aux::AuxArea;
use crate::sys::page_bytes;
use crate::sys::perf::{Event, Ring};
use perfdata::{EventAttr, attr_flag as flag, sample_type};
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
pub(crate) struct Place<'p> {
    pub scope: Scope,
    /// Threads; everything that runs on the CPUs when there are none.
    pub tids: &'p [i32],
    /// CPUs; all online ones when there are none.
    pub cpus: &'p [i32],
    pub how: &'p Streaming,
    /// Descriptors that others would like to have for each thread.
    pub wished: usize,
}

/// What failed: an event, by its index, or the mapping of its ring.
struct Failed {
    index: usize,
    mapping: bool,
    error: io::Error,
}

/// Opens all events. A weak group that the kernel refuses is broken up, and rings that it refuses
/// are made smaller.
pub(crate) fn open(events: &mut [Planned], place: &Place<'_>) -> Result<Opened, Error> {
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
    let cpus = if place.cpus.is_empty() { online_cpus() } else { place.cpus.to_vec() };
    let threads = place.tids.len().max(1);
    let on_cpu = |cpu: &i32| events.iter().filter(|event| on_cpu(event, *cpu)).count();
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
    let stack = event.attr.sample_type & sample_type::BRANCH_STACK != 0;
    if let Some(of_group) =
        event.cgroup.as_ref().and_then(|cgroup| cgroup.refused(&event.name, error))
    {
        return of_group;
    }
    let asked =
        place.how.aux.map(|aux| ("AUX area", aux)).or(place.how.ring.map(|ring| ("ring", ring)));
    match (error.raw_os_error(), asked) {
        (Some(libc::EINVAL), _) if member => {
            Error::Refused { event: event.name.clone(), reason: crate::events::NO_FIT.to_owned() }
        }
        (Some(libc::EPERM), Some((what, pages))) => Error::Refused {
            event: event.name.clone(),
            reason: format!(
                "the kernel allows no {what} of {} KiB a CPU; give a smaller -m, or raise \
                 kernel.perf_event_mlock_kb or `ulimit -l`, or run with CAP_IPC_LOCK",
                pages.bytes() >> 10
            ),
        },
        _ => refused(&event.name, stack, error, place.scope),
    }
}

/// Opens all events with rings of a size; the error names the event.
fn attempt(events: &[Planned], place: &Place<'_>, size: Sizes) -> Result<Opened, Failed> {
    let thread = place.tids.first().copied().unwrap_or(-1);
    let mut opened = Opened { ids: vec![Vec::new(); events.len()], thread, ..Opened::default() };
    let everything = [-1];
    let tids = if place.tids.is_empty() { &everything[..] } else { place.tids };
    let wake_bytes = place.how.wake(size.ring);
    let online = if place.cpus.is_empty() { online_cpus() } else { place.cpus.to_vec() };
    for cpu in online {
        // The rings of this CPU: the usual one, and the one that is written over.
        let mut rings: [Option<usize>; 2] = [None; 2];
        for tid in tids {
            let mut made: Vec<Option<Event>> = Vec::new();
            for (index, event) in events.iter().enumerate() {
                let one = on_cpu(event, cpu).then(|| {
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

/// Whether an event counts on a CPU: one PMU may count for several.
fn on_cpu(event: &Planned, cpu: i32) -> bool {
    event.cpus.as_ref().is_none_or(|cpus| parse_cpus(cpus).contains(&cpu))
}

/// Refuses CPUs that are not there.
pub(crate) fn check_cpus(chosen: &[i32]) -> Result<(), Error> {
    let online = online_cpus();
    let Some(absent) = chosen.iter().find(|cpu| !online.contains(cpu)) else { return Ok(()) };
    Err(Error::Refused {
        event: format!("CPU {absent}"),
        reason: format!("it is not online here; the CPUs are {}", online_text().trim()),
    })
}

/// The CPUs that an event is opened on. It is an error when there are none.
pub(crate) fn cpus(chosen: &[i32], event: &Planned) -> Result<Vec<i32>, Error> {
    let all = if chosen.is_empty() { online_cpus() } else { chosen.to_vec() };
    let found: Vec<i32> = all.into_iter().filter(|cpu| on_cpu(event, *cpu)).collect();
    if found.is_empty() {
        let reason = format!(
            "it counts on CPU {} only; add that to -C",
            event.cpus.as_deref().unwrap_or("0")
        );
        return Err(Error::Refused { event: event.name.clone(), reason });
    }
    Ok(found)
}

/// The list of the CPUs that are online, as `0-3,8`.
pub(crate) const ONLINE: &str = "/sys/devices/system/cpu/online";

fn online_text() -> String {
    std::fs::read_to_string(ONLINE).unwrap_or_else(|_| "0".into())
}

/// CPUs that can run something; the first one where the list cannot be read.
pub(crate) fn online_cpus() -> Vec<i32> {
    parse_cpus(online_text().trim())
}

/// Reads `0-3,8` as a user writes it: sorted, each once.
pub(crate) fn cpu_list(text: &str) -> Result<Vec<i32>, Wrong> {
    let mut cpus = parse_cpus(text);
    cpus.sort_unstable();
    cpus.dedup();
    let numbers = text.split([',', '-']).all(|part| part.parse::<u16>().is_ok());
    if numbers && !cpus.is_empty() {
        return Ok(cpus);
    }
    Err(Wrong { found: text.to_owned(), expected: "a list of CPUs, as 0-3,8".to_owned() })
}

/// Reads `0-3,8`; what is no number is left out.
pub(crate) fn parse_cpus(text: &str) -> Vec<i32> {
    /// More CPUs than any kernel is built for.
    const MOST: i32 = 1 << 16;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<i32>().ok()?, last.parse::<i32>().ok()?);
        Some(first.max(0)..=last.min(MOST))
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// The attributes as they go into the file.
pub(crate) fn described(events: &[Planned], opened: &Opened) -> Vec<EventAttr> {
    let ids = opened.ids.iter().cloned().chain(std::iter::repeat(Vec::new()));
    let described = events.iter().zip(ids);
    described
        .map(|(event, ids)| EventAttr { ids, name: Some(event.name.clone()), ..event.attr.clone() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(parse_cpus("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(parse_cpus("0"), [0]);
        assert_eq!(parse_cpus(""), [0i32; 0]);
        assert_eq!(parse_cpus("3-1,-7"), [0i32; 0]);
    }
}
