//! Opening the planned events on every CPU and thread, in their groups, with one ring a CPU.

use crate::Error;
use crate::events::refused;
use crate::plan::{Planned, Scope};
use crate::settings::{RingPages, Wrong};
use crate::sys::perf::{Event, Ring};
use perfdata::{EventAttr, attr_flag as flag, sample_type};
use std::io;

/// The open events and the rings they write into, one a CPU.
#[derive(Default)]
pub(crate) struct Opened {
    pub rings: Vec<Ring>,
    /// The first event of each CPU, which the ring belongs to.
    pub leaders: Vec<Event>,
    pub followers: Vec<Event>,
    /// The ids of each planned event.
    pub ids: Vec<Vec<u64>>,
}

impl Opened {
    /// All events.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Event> {
        self.leaders.iter().chain(&self.followers)
    }
}

/// Where to open.
pub(crate) struct Place<'p> {
    pub scope: Scope,
    /// Threads; everything that runs on the CPUs when there are none.
    pub tids: &'p [i32],
    /// CPUs; all online ones when there are none.
    pub cpus: &'p [i32],
    pub ring: Option<RingPages>,
}

/// Rings are as large as the kernel allows, from 4 MiB a CPU down.
const RING_PAGES: [usize; 9] = [1024, 512, 256, 128, 64, 32, 16, 8, 1];

/// Opens all events. A weak group that the kernel refuses is broken up.
pub(crate) fn open(events: &mut [Planned], place: &Place<'_>) -> Result<Opened, Error> {
    loop {
        match attempt(events, place) {
            Err((index, error)) => {
                let Some(failed) = events.get(index) else {
                    return Err(refused("the recording", false, &error, place.scope));
                };
                let (leader, weak) = (failed.leader, failed.weak && failed.leader != index);
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

fn why(event: &Planned, member: bool, error: &io::Error, place: &Place<'_>) -> Error {
    let stack = event.attr.sample_type & sample_type::BRANCH_STACK != 0;
    match (error.raw_os_error(), place.ring) {
        (Some(libc::EINVAL), _) if member => Error::Refused {
            event: event.name.clone(),
            reason: "it does not fit into its group: events of different PMUs, or more of them than counters; take it out \
                     of the braces, or let the group break up with the modifier W"
                .to_owned(),
        },
        (Some(libc::EPERM), Some(pages)) => Error::Refused {
            event: event.name.clone(),
            reason: format!(
                "the kernel allows no ring of {} KiB a CPU; give a smaller -m, or raise kernel.perf_event_mlock_kb or \
                 `ulimit -l`, or run with CAP_IPC_LOCK",
                pages.0 * 4
            ),
        },
        _ => refused(&event.name, stack, error, place.scope),
    }
}

/// Opens all events; the error names the event.
fn attempt(events: &[Planned], place: &Place<'_>) -> Result<Opened, (usize, io::Error)> {
    let mut opened = Opened { ids: vec![Vec::new(); events.len()], ..Opened::default() };
    let everything = [-1];
    let tids = if place.tids.is_empty() { &everything[..] } else { place.tids };
    let sizes: Vec<usize> = place.ring.map_or_else(|| RING_PAGES.to_vec(), |pages| vec![pages.0]);
    let mut size = 0;
    let online = if place.cpus.is_empty() { online_cpus() } else { place.cpus.to_vec() };
    for cpu in online {
        let mut leader: Option<Event> = None;
        for tid in tids {
            let mut made: Vec<Option<Event>> = Vec::new();
            for (index, event) in events.iter().enumerate() {
                let one = on_cpu(event, cpu).then(|| {
                    let mut attr = event.attr.clone();
                    attr.wakeup = (sizes.get(size).copied().unwrap_or(1) * 4096 / 4) as u32;
                    let group = made.get(event.leader).and_then(Option::as_ref);
                    Event::open(&attr, *tid, cpu, group)
                });
                made.push(match one {
                    None => None,
                    Some(Ok(event)) => Some(event),
                    // The thread ended meanwhile, or the CPU went away.
                    Some(Err(error)) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV)) => {
                        None
                    }
                    Some(Err(error)) => return Err((index, error)),
                });
            }
            for (index, event) in made.into_iter().enumerate() {
                let Some(event) = event else { continue };
                let fail = |error| (index, error);
                let ids = event.id().map_err(fail)?;
                opened.ids.get_mut(index).into_iter().for_each(|list| list.push(ids));
                if let Some(leader) = &leader {
                    event.share_ring_of(leader).map_err(fail)?;
                    opened.followers.push(event);
                    continue;
                }
                let ring = loop {
                    let pages = sizes.get(size).copied().unwrap_or(1);
                    match Ring::map(&event, pages) {
                        Ok(ring) => break ring,
                        Err(error) if size + 1 >= sizes.len() => return Err(fail(error)),
                        Err(_) => size += 1,
                    }
                };
                opened.rings.push(ring);
                leader = Some(event);
            }
        }
        opened.leaders.extend(leader);
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
        let reason =
            format!("it counts on CPU {} only; add that to -C", event.cpus.as_deref().unwrap_or("0"));
        return Err(Error::Refused { event: event.name.clone(), reason });
    }
    Ok(found)
}

fn online_text() -> String {
    std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_else(|_| "0".into())
}

/// CPUs that can run something, from `/sys/devices/system/cpu/online` (`0-3,8`).
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
