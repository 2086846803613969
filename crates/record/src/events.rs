//! Which events to ask the kernel for, and which of them it lets us have.

use crate::attr::{TYPE_SOFTWARE, bit};
use crate::event::{self, Event as Wanted, EventSources};
use crate::options::{Branches, Rate, RecordOptions, Sampling, Scope};
use crate::plan::{counts_switches, lower_frequencies, plan};
use crate::planned::{Planned, without_kernel};
use crate::refusal::{no_lbr, paranoid, refused, refused_spe};
use crate::settings::{BranchFilter, Registers};
use crate::{Error, added, arm_spe, aux, cgroups, cpus};
use perf_events::Event;
use perfdata::{attr_flag as flag, branch_sample, read_format, sample_type};
use std::io;

/// Events that can be opened here.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub events: Vec<Planned>,
    /// `hardware` or `none`.
    pub branches: &'static str,
    /// What was given up, in plain sentences.
    pub notes: Vec<String>,
}

impl Choice {
    /// The events' names, for people.
    pub(crate) fn names(&self) -> String {
        let names = self.events.iter().filter(|event| !event.is_tracker());
        names.map(|event| event.name.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// AMD's first branch sampling takes no frequency; a prime lest it fall into step with a loop.
const AMD_PERIOD: u64 = 200_003;
/// Events with branch stacks, in the order they are tried. The raw one, retired taken branches, is
/// what AMD's BRS works with.
const WITH_BRANCHES: [&str; 3] = ["cycles", "branches", "rc4"];

/// Finds events that the kernel opens.
pub(crate) fn choose(
    options: &RecordOptions,
    scope: Scope,
    machine: &EventSources,
) -> Result<Choice, Error> {
    cpus::check(&options.cpus)?;
    let mut choice = choose_sampled(options, scope, machine)?;
    let is_clock = |event: &&mut Planned| event.attr.kind == TYPE_SOFTWARE && !event.is_tracker();
    if options.sampling.no_idle {
        let clocks = choice.events.iter_mut().filter(is_clock);
        clocks.for_each(|event| event.attr.flags |= bit::EXCLUDE_IDLE);
    }
    set_cgroups(&mut choice.events, &options.cgroups)?;
    added::switch_stacks(&mut choice, options, scope, machine)?;
    added::wake_ups(&mut choice, options, scope, machine);
    aux::check(&choice.events, &options.streaming)?;
    aux::set_up(&mut choice.events, options.sampling.clock.is_some());
    choice.notes.extend(aux::clock_note(&choice.events));
    choice.notes.extend(without_groups(&choice.events, !options.cgroups.is_empty()));
    Ok(choice)
}

/// What to say where samples were to carry their control group and the kernel does not know that.
fn without_groups(events: &[Planned], asked: bool) -> Option<String> {
    let lacks = |event: &Planned| event.attr.sample_type & sample_type::CGROUP == 0;
    (asked && events.iter().any(lacks)).then(|| {
        "the samples do not say in which control group they were taken: this kernel is older than \
         Linux 5.7, which can tell that"
            .to_owned()
    })
}

/// Gives each event its control group. What tracks processes stays the whole system's.
fn set_cgroups(events: &mut [Planned], names: &[String]) -> Result<(), Error> {
    let sampled = || events.iter().filter(|event| !event.is_tracker());
    let groups = cgroups::each(names, sampled().count())?;
    for (event, group) in events.iter_mut().filter(|event| !event.is_tracker()).zip(groups) {
        event.cgroup = group;
    }
    Ok(())
}

fn choose_sampled(
    options: &RecordOptions,
    scope: Scope,
    machine: &EventSources,
) -> Result<Choice, Error> {
    if options.events.is_empty() {
        return usual(options, scope, machine);
    }
    let mut sampling = options.sampling.clone();
    let mut wanted = event::parse(&options.events, machine)?;
    // Arm SPE has branches without being asked for stacks.
    if options.branches == Branches::Hardware && wanted.iter().any(|event| event.trace.is_none()) {
        sampling.branch_filter = sampling.branch_filter.or(Some(BranchFilter::ANY));
    }
    if sampling.switch_events && sampling.call_graph.is_some() && options.rate.is_none() {
        // Named by the user, it is the event that would be added: every switch.
        for own in wanted.iter_mut().filter(|event| counts_switches(&event.attr)) {
            if own.settings.period.is_none() && own.settings.frequency.is_none() {
                own.settings.period = Some(1);
            }
        }
    }
    check_traced(&wanted, &sampling, options.rate)?;
    let mut events = plan(&wanted, &sampling, options.rate, scope);
    let notes = lower_frequencies(&mut events).into_iter().collect();
    let mut choice = Choice { events, branches: "none", notes };
    for event in &mut choice.events {
        let cpu = event.cpus_among(&options.cpus)?.first().copied().unwrap_or(0);
        if let Err(error) = probe(event, scope, cpu, &mut choice.notes) {
            let traces = event.trace.is_some();
            if let Some(error) = refused_spe(&event.name, &error).filter(|_| traces) {
                return Err(error);
            }
            let why = || refused(&event.name, event.has_stack(), &error, scope);
            return Err(no_lbr(&event.name, &sampling, &error).unwrap_or_else(why));
        }
    }
    let lbr_only = |event: &Planned| event.attr.branch_sample_type & branch_sample::CALL_STACK != 0;
    let branches = |event: &Planned| event.has_stack() && !lbr_only(event) || event.trace.is_some();
    if choice.events.iter().any(branches) {
        choice.branches = "hardware";
    }
    Ok(choice)
}

/// The events that are recorded when none are named: with branch stacks if possible, else clock
/// samples.
fn usual(options: &RecordOptions, scope: Scope, machine: &EventSources) -> Result<Choice, Error> {
    let kernel = scope == Scope::Cpus;
    let suffix = if kernel { "" } else { ":u" };
    let asked = options.sampling.branch_filter;
    let mut refusal = None;
    if options.branches != Branches::None || asked.is_some() {
        let levels = branch_sample::USER | if kernel { branch_sample::KERNEL } else { 0 };
        let filter = asked.unwrap_or(BranchFilter(branch_sample::ANY | levels));
        let sampling = Sampling { branch_filter: Some(filter), ..options.sampling.clone() };
        for name in WITH_BRANCHES {
            let usual_rate = (name == "rc4").then_some(Rate::Period(AMD_PERIOD));
            let rate = options.rate.or(usual_rate);
            let wanted = event::parse(&[format!("{name}{suffix}")], machine)?;
            match opened(&wanted, &sampling, rate, scope, options) {
                Ok(choice) => return Ok(Choice { branches: "hardware", ..choice }),
                Err((_, error)) => refusal = refusal.or(Some(error)),
            }
        }
        let by_samples = asked.is_some() || beyond_spe(&options.sampling, options.rate).is_some();
        let spe = match by_samples {
            true => None,
            false => sampled_operations(options, scope, machine)?,
        };
        match spe {
            Some(Ok(choice)) => return Ok(choice),
            Some(Err(error)) if options.branches == Branches::Hardware => return Err(error),
            _ => {}
        }
        if options.branches == Branches::Hardware || asked.is_some() {
            let error = refusal.unwrap_or_else(|| io::Error::other("no event"));
            let why = || refused("hardware branch stacks", true, &error, scope);
            return Err(no_lbr("branch stacks", &options.sampling, &error).unwrap_or_else(why));
        }
    }
    let wanted = event::parse(&[format!("cpu-clock{suffix}")], machine)?;
    opened(&wanted, &options.sampling, options.rate, scope, options).map_err(|(name, error)| {
        no_lbr(&name, &options.sampling, &error)
            .unwrap_or_else(|| refused(&name, false, &error, scope))
    })
}

/// The taken branches of Arm SPE, where the machine has it; an error where the kernel does not let
/// us have them.
fn sampled_operations(
    options: &RecordOptions,
    scope: Scope,
    machine: &EventSources,
) -> Result<Option<Result<Choice, Error>>, Error> {
    let texts = arm_spe::branch_events(&machine.pmus, scope == Scope::Cpus);
    if texts.is_empty() {
        return Ok(None);
    }
    let mut events = plan(&event::parse(&texts, machine)?, &options.sampling, options.rate, scope);
    // Units that count on none of the chosen CPUs are none of this recording's.
    let counts = |event: &Planned| event.trace.is_none() || event.cpus_among(&options.cpus).is_ok();
    if !events.iter().any(|event| event.trace.is_some() && counts(event)) {
        return Ok(None);
    }
    for event in events.iter_mut().filter(|event| counts(event)) {
        let cpu = event.cpus_among(&options.cpus)?.first().copied().unwrap_or(0);
        let mut notes = Vec::new();
        if let Err(error) = probe(event, scope, cpu, &mut notes) {
            let why = || refused(&event.name, false, &error, scope);
            return Ok(Some(Err(refused_spe(&event.name, &error).unwrap_or_else(why))));
        }
    }
    Ok(Some(Ok(Choice { events, branches: "hardware", notes: Vec::new() })))
}

/// Events that can be opened as they are, without branch stacks so far; else the name of the one
/// that cannot, and why.
fn opened(
    wanted: &[Wanted],
    sampling: &Sampling,
    rate: Option<Rate>,
    scope: Scope,
    options: &RecordOptions,
) -> Result<Choice, (String, io::Error)> {
    let mut events = plan(wanted, sampling, rate, scope);
    let lowered = lower_frequencies(&mut events);
    for event in &mut events {
        let cpu = options.cpus.first().copied().unwrap_or(0);
        // Nothing is given up silently where the user named no event.
        let whole = event.name.clone();
        let mut notes = Vec::new();
        probe(event, scope, cpu, &mut notes).map_err(|error| (whole.clone(), error))?;
        if !notes.is_empty() {
            return Err((whole, io::Error::from_raw_os_error(libc::EACCES)));
        }
    }
    Ok(Choice { events, branches: "none", notes: lowered.into_iter().collect() })
}

/// Tries an event on this process's own thread, or on a CPU, and gives up what the kernel does not
/// know or allow.
pub(crate) fn probe(
    event: &mut Planned,
    scope: Scope,
    cpu: i32,
    notes: &mut Vec<String>,
) -> io::Result<()> {
    let (tid, cpu) = if scope == Scope::Cpus { (-1, cpu) } else { (0, -1) };
    let try_open = |event: &Planned| Event::open(&event.attr, tid, cpu, None).map(drop);
    let mut first = try_open(event);
    let refused_as = |result: &io::Result<()>, codes: &[i32]| {
        result
            .as_ref()
            .is_err_and(|error| error.raw_os_error().is_some_and(|code| codes.contains(&code)))
    };
    while event.precise_max
        && event.attr.flags >> bit::PRECISE_AT & 3 > 0
        && refused_as(&first, &[libc::EINVAL, libc::EOPNOTSUPP, libc::ENOENT])
    {
        event.attr.flags -= 1 << bit::PRECISE_AT;
        first = try_open(event);
    }
    if refused_as(&first, &[libc::EACCES, libc::EPERM])
        && event.attr.flags & (flag::EXCLUDE_KERNEL | flag::EXCLUDE_USER) == 0
        && event.tracepoint.is_none()
    {
        let mut user = event.clone();
        without_kernel(&mut user.attr, &mut user.name);
        if try_open(&user).is_ok() {
            notes.push(format!(
                "{} is recorded as {}, without the kernel: kernel.perf_event_paranoid is {}",
                event.name,
                user.name,
                paranoid()
            ));
            *event = user;
            return Ok(());
        }
    }
    if refused_as(&first, &[libc::EINVAL]) {
        let mut older = event.clone();
        // What Linux 6.0, 5.12, 5.7, 5.1 and 5.0 brought.
        older.attr.read_format &= !read_format::LOST;
        for given_up in [0, flag::BUILD_ID, bit::CGROUP, bit::BPF_EVENT, bit::KSYMBOL] {
            older.attr.flags &= !given_up;
            if given_up == bit::CGROUP {
                older.attr.sample_type &= !sample_type::CGROUP;
            }
            if try_open(&older).is_ok() {
                *event = older;
                return Ok(());
            }
        }
    }
    first
}

/// The first option that means nothing to Arm SPE.
fn beyond_spe(sampling: &Sampling, rate: Option<Rate>) -> Option<&'static str> {
    let given = [
        (matches!(rate, Some(Rate::Frequency(_))), "-F"),
        (sampling.call_graph.is_some(), "-g"),
        (sampling.branch_filter.is_some(), "-b or -j"),
        (sampling.user_registers != Registers::default(), "--user-regs"),
        (sampling.addresses, "-d"),
        (sampling.thread_counts, "-s"),
    ];
    given.into_iter().find(|(given, _)| *given).map(|(_, option)| option)
}

/// Refuses options that SPE events cannot follow: frequencies, and what samples are to carry where
/// no event samples.
fn check_traced(events: &[Wanted], sampling: &Sampling, rate: Option<Rate>) -> Result<(), Error> {
    let Some(event) = events.iter().find(|event| event.trace.is_some()) else { return Ok(()) };
    let alone = events.iter().all(|event| event.trace.is_some());
    let option = if event.settings.frequency.is_some() {
        Some("freq=")
    } else {
        beyond_spe(sampling, rate).filter(|option| alone || *option == "-F")
    };
    option.map_or(Ok(()), |option| {
        Err(Error::Refused {
            event: event.name.clone(),
            reason: format!(
                "Arm SPE picks an operation every so many (-c N or period=N) and writes records \
                 of its own, so {option} means nothing to it; leave that out"
            ),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::dummy;

    #[test]
    fn a_kernel_that_cannot_tell_control_groups_is_said_once() {
        let sampling = Sampling { cgroups: true, ..Sampling::default() };
        let mut events: Vec<Planned> =
            (0..3).map(|index| dummy(index, &sampling, Scope::Cpus, false)).collect();
        assert_eq!(without_groups(&events, true), None);
        events.iter_mut().for_each(|event| event.attr.sample_type &= !sample_type::CGROUP);
        assert!(without_groups(&events, true).unwrap().contains("Linux 5.7"));
        assert_eq!(without_groups(&events, false), None);
    }
}
