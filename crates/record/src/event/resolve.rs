//! From the tree to events with the kernel's numbers: names looked up, terms spread, groups led.

use super::error::Error;
use super::machine::EventSources;
use super::modifiers::{self, Scope};
use super::names::{self, nearest};
use super::syntax::{self, EventList, Group, Name, Spec};
use super::terms::{self, Settings};
use crate::arm_spe;
use crate::attr::{Trace, bit};
use perfdata::{EventAttr, attr_flag as flag};

const TYPE_TRACEPOINT: u32 = 2;

/// An event that can be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// As perf calls it: its text, or what `name=` says.
    pub name: String,
    /// Its kind, config words, and whom it counts; nothing about sampling.
    pub attr: EventAttr,
    /// Index of its group's first event; its own when it leads or stands alone.
    pub leader: usize,
    /// Modifier `S`: samples of the leader carry the counts of all.
    pub sample_read: bool,
    /// Modifier `P`: as precise as it goes, to be tried from 3 down.
    pub precise_max: bool,
    /// Modifier `W`: the group may be broken up.
    pub weak: bool,
    /// What its terms say about sampling.
    pub settings: Settings,
    /// System and name, of a tracepoint.
    pub tracepoint: Option<(String, String)>,
    /// The CPUs that count for all others (`0-1,4`), of an uncore PMU.
    pub cpus: Option<String>,
    /// What it needs where it writes AUX data.
    pub trace: Option<Trace>,
    /// What its counts are in, where the kernel says so, and by how much to multiply them:
    /// `Joules`, `2.3e-10`.
    pub unit: Option<(String, String)>,
    /// Why this user may not have it; only [`parse_for_counts`] lets such an event through.
    pub denied: Option<String>,
}

/// The same as [`parse`], but a tracepoint that this user may not look up is an event that says so.
pub fn parse_for_counts(texts: &[String], machine: &EventSources) -> Result<Vec<Event>, Error> {
    resolve_with(&read_all(texts)?, machine, true)
}

/// Reads and looks up several texts, as `-e` can be repeated.
pub fn parse(texts: &[String], machine: &EventSources) -> Result<Vec<Event>, Error> {
    resolve(&read_all(texts)?, machine)
}

fn read_all(texts: &[String]) -> Result<EventList, Error> {
    let mut list = EventList::default();
    for text in texts {
        list.groups.extend(syntax::parse(text)?.groups);
    }
    Ok(list)
}

/// Looks the names up.
pub fn resolve(list: &EventList, machine: &EventSources) -> Result<Vec<Event>, Error> {
    resolve_with(list, machine, false)
}

fn resolve_with(
    list: &EventList,
    machine: &EventSources,
    denied: bool,
) -> Result<Vec<Event>, Error> {
    let mut events = Vec::new();
    for group in &list.groups {
        let leader = events.len();
        for spec in &group.events {
            for mut event in one(spec, group, machine, denied)? {
                event.leader = if group.braces.is_some() { leader } else { events.len() };
                events.push(event);
            }
        }
        // Pinned and exclusive are the group's as a whole, which its first event stands for.
        let members = events.iter_mut().enumerate().skip(leader);
        for (_, member) in members.filter(|(index, member)| member.leader != *index) {
            member.attr.flags &= !(bit::PINNED | bit::EXCLUSIVE);
        }
    }
    Ok(events)
}

/// The events of one text: several for a tracepoint with wildcards.
fn one(
    spec: &Spec,
    group: &Group,
    machine: &EventSources,
    denied: bool,
) -> Result<Vec<Event>, Error> {
    let own = modifiers::parse(spec.modifiers.strip_prefix(':').unwrap_or(&spec.modifiers))?;
    let shared = modifiers::parse(&group.modifiers)?;
    let scope = Scope::of(own).with(shared);
    let has = |letter| own.has(letter) || shared.has(letter);
    let mut event = Event {
        name: spec.to_string(),
        attr: EventAttr {
            size_bytes: EventAttr::WRITTEN_BYTES,
            flags: flags(scope),
            ..EventAttr::default()
        },
        leader: 0,
        sample_read: has('S'),
        precise_max: scope.precise_max,
        weak: has('W'),
        settings: Settings::default(),
        tracepoint: None,
        cpus: None,
        trace: None,
        unit: None,
        denied: None,
    };
    for (letter, bit) in [('D', bit::PINNED), ('e', bit::EXCLUSIVE)] {
        if has(letter) {
            event.attr.flags |= bit;
        }
    }
    let terms = spec.terms.as_deref();
    match &spec.name {
        Name::Tracepoint(system, name) => {
            event.attr.kind = TYPE_TRACEPOINT;
            return match tracepoints(&event, spec, (system, name), machine) {
                Err(Error::Denied { reason, .. }) if denied => {
                    event.denied = Some(reason);
                    Ok(vec![event])
                }
                other => other,
            };
        }
        Name::Plain(name) => match names::generic(name) {
            Some((kind, config)) => {
                (event.attr.kind, event.attr.config) = (kind, config);
                event.settings = terms::of_generic(name, terms.unwrap_or_default())?;
            }
            None => pmu_event(&mut event, name, terms, machine)?,
        },
    }
    if let Some(name) = &event.settings.name {
        event.name.clone_from(name);
    }
    Ok(vec![event])
}

fn flags(scope: Scope) -> u64 {
    let bits = [
        (scope.exclude_user, flag::EXCLUDE_USER),
        (scope.exclude_kernel, flag::EXCLUDE_KERNEL),
        (scope.exclude_hv, flag::EXCLUDE_HV),
        (scope.exclude_idle, bit::EXCLUDE_IDLE),
        (scope.exclude_host, bit::EXCLUDE_HOST),
        (scope.exclude_guest, flag::EXCLUDE_GUEST),
    ];
    let set = bits.iter().filter(|(on, _)| *on).fold(0, |flags, (_, bit)| flags | bit);
    set | u64::from(scope.precise_ip) << bit::PRECISE_AT
}

/// `pmu/terms/`, or a name that one of the PMUs has in its list.
fn pmu_event(
    event: &mut Event,
    name: &str,
    terms: Option<&[syntax::Term]>,
    machine: &EventSources,
) -> Result<(), Error> {
    let alias = syntax::Term { key: name.to_owned(), value: None };
    let owner = machine.pmu_with_event(name);
    let (pmu, terms) = match (terms, owner) {
        (_, Some(pmu)) => {
            let with_alias = [alias].into_iter().chain(terms.unwrap_or_default().iter().cloned());
            (pmu, with_alias.collect::<Vec<_>>())
        }
        (Some(terms), None) => {
            let known = machine.pmu_names();
            let near = nearest(name, names::all().chain(known.iter().cloned()));
            let pmu = machine.pmu(name).map_err(|error| {
                let meant_a_name =
                    terms.iter().all(|term| term.key == "name" || term.key == "period");
                if meant_a_name {
                    Error::Unknown { name: name.to_owned(), nearest: near }
                } else {
                    error
                }
            })?;
            (pmu, terms.to_vec())
        }
        (None, None) => {
            let known = names::all().chain(machine.pmu_events());
            return Err(Error::Unknown { name: name.to_owned(), nearest: nearest(name, known) });
        }
    };
    event.attr.kind = pmu.kind;
    event.unit = terms.iter().find_map(|term| pmu.unit(&term.key));
    event.settings = terms::of_pmu(&pmu, &terms, &mut event.attr)?;
    let given = |key: &str| terms.iter().any(|term| term.key == key);
    event.trace = arm_spe::complete(&pmu, &given, &mut event.attr);
    event.cpus = pmu.cpus().filter(|_| pmu.name != "cpu");
    Ok(())
}

fn tracepoints(
    event: &Event,
    spec: &Spec,
    (system, name): (&str, &str),
    machine: &EventSources,
) -> Result<Vec<Event>, Error> {
    let settings =
        terms::of_generic(&format!("{system}:{name}"), spec.terms.as_deref().unwrap_or_default())?;
    let found = machine.tracepoints(system, name)?;
    let made = found.into_iter().map(|(system, name, id)| {
        let mut event = event.clone();
        event.attr.config = id;
        event.name =
            settings.name.clone().unwrap_or_else(|| format!("{system}:{name}{}", spec.modifiers));
        event.settings = settings.clone();
        event.tracepoint = Some((system, name));
        event
    });
    Ok(made.collect())
}
