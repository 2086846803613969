//! Which of the events can be counted here, and their counters on every thread and CPU, in their
//! groups.
//!
//! Each event is first tried alone or in its group where it is to count. What is missing (no such
//! counter, no permission, does not fit into its group) becomes that event's reason; only what
//! stops all of them is an error.

use super::counts::{Count, Counter};
use super::{RARE, StatOptions, usual_events};
use crate::attr::bit;
use crate::cgroups::{self, Cgroup};
use crate::descriptors::Need;
use crate::event::{self, EventSources};
use crate::options::Scope;
use crate::planned::without_kernel;
use crate::refusal::{NO_FIT, general_reason, paranoid};
use crate::target::Target;
use crate::{Error, cpus};
use perf_events::Event;
use perfdata::{attr_flag as flag, read_format};
use std::io;
use std::sync::Arc;

/// Software events that happen in the kernel alone: counted without it, they would always be 0.
const KERNEL_ONLY: [u64; 3] = [3, 4, 11];

/// Events as they are to be opened.
pub(crate) struct Wanted {
    pub counters: Vec<Counter>,
    /// How each of them is to be opened, in the same order.
    ways: Vec<Way>,
    scope: Scope,
    pub notes: Vec<String>,
}

/// How an event is to be opened.
struct Way {
    /// Where it counts, when not everywhere.
    cpus: Option<Vec<i32>>,
    /// Its group may be broken up.
    weak: bool,
    /// The control group that it counts, when not everything.
    cgroup: Option<Arc<Cgroup>>,
}

/// The counters of one thread or CPU.
pub(crate) struct Slot {
    /// The thread; -1 on a CPU.
    pub tid: i32,
    /// One a counter; `None` where it is not counted.
    events: Vec<Option<Event>>,
}

/// Looks the events up and finds out which of them can be counted.
pub(crate) fn want(target: &Target, options: &StatOptions) -> Result<Wanted, Error> {
    let scope = target.scope();
    cpus::check(&options.cpus)?;
    let usual = options.events.is_empty();
    let texts = if usual { usual_events(scope == Scope::Cpus) } else { options.events.clone() };
    let events = event::parse_for_counts(&texts, &EventSources::here())?;
    let groups: Vec<usize> = events.iter().map(|event| event.leader).collect();
    let members = |leader: usize| groups.iter().filter(|other| **other == leader).count();
    let mut wanted = Wanted { counters: Vec::new(), ways: Vec::new(), scope, notes: Vec::new() };
    let cgroups = cgroups::each(&options.cgroups, events.len())?;
    for (index, (event, cgroup)) in events.iter().zip(cgroups).enumerate() {
        let mut attr = event.attr.clone();
        // How precisely an event is placed matters to samples only, and the kernel refuses it of a
        // counter.
        attr.flags &= !(3 << bit::PRECISE_AT);
        attr.read_format = read_format::TOTAL_TIME_ENABLED | read_format::TOTAL_TIME_RUNNING;
        if members(event.leader) > 1 && event.leader == index {
            attr.read_format |= read_format::GROUP;
        }
        let inherit = event.settings.inherit.unwrap_or(!options.no_inherit);
        if inherit && scope != Scope::Cpus && !matches!(target, Target::Threads(_)) {
            attr.flags |= flag::INHERIT;
        }
        if event.leader == index {
            attr.flags |= flag::DISABLED;
            if scope == Scope::Command {
                attr.flags |= flag::ENABLE_ON_EXEC;
            }
        }
        let unit = event.unit.as_ref().and_then(|(unit, factor)| {
            Some((unit.clone(), factor.parse::<f64>().ok().filter(|factor| factor.is_finite())?))
        });
        let cpus = event.cpus.as_deref().map(cpus::parse);
        let refused = (cpus.is_some() && scope != Scope::Cpus)
            .then(|| "it counts per CPU and not per process; count the system with -a".to_owned());
        let denied = event.denied.is_some();
        let refused = event.denied.clone().or(refused);
        let (name, leader) = (event.name.clone(), event.leader);
        let in_group = cgroup.as_ref().map(|cgroup| cgroup.name.clone());
        wanted.counters.push(Counter {
            name,
            attr,
            leader,
            unit,
            cgroup: in_group,
            refused,
            denied,
        });
        wanted.ways.push(Way { cpus, weak: event.weak, cgroup });
    }
    wanted.probe(options)?;
    if usual {
        wanted.leave_out_rare();
    }
    match wanted.counters.iter().find_map(|counter| Some((counter, counter.refused.clone()?))) {
        Some((counter, reason))
            if wanted.counters.iter().all(|counter| counter.refused.is_some()) =>
        {
            Err(Error::Uncountable { event: counter.name.clone(), reason })
        }
        _ => Ok(wanted),
    }
}

impl Wanted {
    /// Opens each event where it is to count, or on this process, and notes what the kernel says.
    fn probe(&mut self, options: &StatOptions) -> Result<(), Error> {
        let first =
            options.cpus.first().copied().or_else(|| cpus::online().first().copied()).unwrap_or(0);
        loop {
            let mut made: Vec<Option<Event>> = Vec::new();
            let mut broken = None;
            for index in 0..self.counters.len() {
                let way = self.ways.get(index);
                let weak = way.is_some_and(|way| way.weak);
                let cpu = match way.and_then(|way| way.cpus.as_ref()) {
                    Some(own) => {
                        own.iter().copied().find(|cpu| on(&options.cpus, *cpu)).unwrap_or(first)
                    }
                    None => first,
                };
                let (tid, cpu) = if self.scope == Scope::Cpus { (-1, cpu) } else { (0, -1) };
                let leader = self.counters.get(index).map_or(index, |counter| counter.leader);
                if self.counters.get(index).is_some_and(|counter| counter.refused.is_some()) {
                    made.push(None);
                    continue;
                }
                if leader != index && made.get(leader).is_some_and(Option::is_none) {
                    let denied = self.counters.get(leader).is_some_and(|leader| leader.denied);
                    self.refuse(
                        index,
                        "the first event of its group cannot be counted".to_owned(),
                        denied,
                    );
                    made.push(None);
                    continue;
                }
                let opened =
                    self.try_one(index, tid, cpu, made.get(leader).and_then(Option::as_ref));
                match opened {
                    Ok(event) => made.push(Some(event)),
                    Err(_) if leader != index && weak => {
                        broken = Some(leader);
                        break;
                    }
                    Err(error) if is_fatal(&error) => {
                        let event = self.counters.get(index).map(|counter| counter.name.clone());
                        return Err(failed(event.unwrap_or_default(), &error));
                    }
                    Err(error) => {
                        self.refuse(index, reason(&error, leader != index), is_denied(&error));
                        made.push(None);
                    }
                }
            }
            match broken {
                Some(leader) => self.break_up(leader),
                None => return Ok(()),
            }
        }
    }

    fn refuse(&mut self, index: usize, reason: String, denied: bool) {
        if let Some(counter) = self.counters.get_mut(index) {
            (counter.refused, counter.denied) = (Some(reason), denied);
        }
    }

    /// Opens an event; where the kernel's part is not allowed, without it.
    fn try_one(
        &mut self,
        index: usize,
        tid: i32,
        cpu: i32,
        group: Option<&Event>,
    ) -> io::Result<Event> {
        let Some(counter) = self.counters.get_mut(index) else {
            return Err(io::Error::other("no event"));
        };
        let opened = Event::open(&counter.attr, tid, cpu, group);
        let denied = opened.as_ref().is_err_and(is_denied);
        let whole = counter.attr.flags & (flag::EXCLUDE_KERNEL | flag::EXCLUDE_USER) == 0;
        if !denied || !whole || self.scope == Scope::Cpus {
            return opened;
        }
        let (mut user, mut name) = (counter.attr.clone(), counter.name.clone());
        without_kernel(&mut user, &mut name);
        let event = Event::open(&user, tid, cpu, group)?;
        if user.kind == crate::attr::TYPE_SOFTWARE && KERNEL_ONLY.contains(&user.config) {
            return opened;
        }
        (counter.attr, counter.name) = (user, name);
        let note = format!(
            "kernel.perf_event_paranoid is {}: events named NAME:u are counted without the \
             kernel's part",
            paranoid()
        );
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
        Ok(event)
    }

    /// Lets the members of a group count each for itself.
    fn break_up(&mut self, leader: usize) {
        let start = self.counters.get(leader).map_or(0, |leader| leader.attr.flags);
        for (index, member) in self.counters.iter_mut().enumerate() {
            if member.leader == leader {
                member.leader = index;
                member.attr.flags |= start & (flag::DISABLED | flag::ENABLE_ON_EXEC);
                member.attr.read_format &= !read_format::GROUP;
            }
        }
    }

    /// The usual events stand alone, so that their numbers are their own.
    fn leave_out_rare(&mut self) {
        let all =
            std::mem::take(&mut self.counters).into_iter().zip(std::mem::take(&mut self.ways));
        let kept =
            |counter: &Counter| counter.refused.is_none() || !RARE.contains(&counter.name.as_str());
        (self.counters, self.ways) = all.filter(|(counter, _)| kept(counter)).unzip();
        for (index, counter) in self.counters.iter_mut().enumerate() {
            counter.leader = index;
        }
    }

    /// The descriptors that the counters of so many new threads take; those of known ones are open.
    pub(crate) fn need(&self, known: usize, new: usize) -> Need {
        let events = self.counters.iter().filter(|counter| counter.refused.is_none()).count();
        Need { opened: events * new, events, threads: known + new, cpus: 0, wished: 0 }
    }

    /// Opens the counters of one thread (CPU -1) or CPU (thread -1). `None` when the thread is
    /// gone, or the CPU is.
    pub(crate) fn open(&self, tid: i32, cpu: i32, cpus: &[i32]) -> Result<Option<Slot>, Error> {
        let mut events: Vec<Option<Event>> = Vec::new();
        for (index, counter) in self.counters.iter().enumerate() {
            let way = self.ways.get(index);
            let own = way.and_then(|way| way.cpus.as_ref());
            // What one CPU counts for its neighbours is opened there, whichever of them are
            // counted.
            let here = cpu < 0 || own.is_none_or(|own| own.contains(&cpu)) && on(cpus, cpu);
            if counter.refused.is_some() || !here {
                events.push(None);
                continue;
            }
            let group = if counter.leader == index { None } else { events.get(counter.leader) };
            let group = group.and_then(Option::as_ref);
            let cgroup = way.and_then(|way| way.cgroup.as_ref());
            let opened = match cgroup {
                Some(cgroup) => Event::open_cgroup(&counter.attr, &cgroup.dir, cpu, group),
                None => Event::open(&counter.attr, tid, cpu, group),
            };
            match opened {
                Ok(event) => events.push(Some(event)),
                Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV)) => {
                    return Ok(None);
                }
                Err(error) => {
                    let group = cgroup.and_then(|cgroup| cgroup.refused(&counter.name, &error));
                    return Err(group.unwrap_or_else(|| failed(counter.name.clone(), &error)));
                }
            }
        }
        Ok(Some(Slot { tid, events }))
    }
}

/// Whether a CPU is one of the chosen; an empty choice is all of them.
fn on(chosen: &[i32], cpu: i32) -> bool {
    chosen.is_empty() || chosen.contains(&cpu)
}

/// What no other event would survive either.
fn is_fatal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOSYS | libc::ENOMEM))
}

/// What more rights would allow.
fn is_denied(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

fn failed(event: String, error: &io::Error) -> Error {
    Error::Uncountable { event, reason: reason(error, false) }
}

/// Says what a refusal means and what would help.
fn reason(error: &io::Error, member: bool) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => format!(
            "the kernel does not allow it (kernel.perf_event_paranoid is {}); run as root, with \
             CAP_PERFMON, or lower the setting",
            paranoid()
        ),
        Some(libc::EINVAL) if member => NO_FIT.to_owned(),
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::ENXIO) => {
            "this CPU or virtual machine has no counter for it".to_owned()
        }
        Some(libc::EINVAL) => {
            format!(
                "the kernel refuses its settings ({error}); an event that counts per CPU only \
                 needs -a"
            )
        }
        _ => general_reason(error).map_or_else(|| error.to_string(), str::to_owned),
    }
}

impl Slot {
    /// Starts the counters; members of a group follow their leader.
    pub(crate) fn enable(&self) {
        // A failure means that the thread is gone.
        self.events.iter().flatten().for_each(|event| drop(event.enable()));
    }

    /// Stops them.
    pub(crate) fn disable(&self) {
        self.events.iter().flatten().for_each(|event| drop(event.disable()));
    }

    /// Reads the counters: a group at once, through its leader. A counter that cannot be read any
    /// more is 0.
    pub(crate) fn read(&self, counters: &[Counter]) -> Vec<Option<Count>> {
        let mut found: Vec<Option<Count>> = vec![None; counters.len()];
        for (index, (counter, event)) in counters.iter().zip(&self.events).enumerate() {
            let Some(event) = event.as_ref().filter(|_| counter.leader == index) else { continue };
            let members: Vec<usize> = (0..counters.len())
                .filter(|other| counters.get(*other).is_some_and(|other| other.leader == index))
                .filter(|other| self.events.get(*other).is_some_and(Option::is_some))
                .collect();
            // What cannot be read counted nothing that can be known.
            let words = event.read().unwrap_or_default();
            let word = |at: usize| words.get(at).copied().unwrap_or(0);
            let group = counter.attr.read_format & read_format::GROUP != 0;
            for (at, member) in members.iter().enumerate() {
                // A group: number, times, values. A single event: value, times.
                let value = if group { word(3 + at) } else { word(0) };
                let count = Count { value, enabled_ns: word(1), running_ns: word(2) };
                if let Some(place) = found.get_mut(*member) {
                    *place = Some(count);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_one_event_says_what_would_help() {
        let said = |code, member| reason(&io::Error::from_raw_os_error(code), member);
        assert!(said(libc::EACCES, false).contains("perf_event_paranoid"));
        assert!(said(libc::EINVAL, true).contains("modifier W"));
        assert!(said(libc::EINVAL, false).contains("-a"));
        assert!(said(libc::ENOENT, false).contains("no counter"));
    }
}
