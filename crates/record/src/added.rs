//! What is recorded beside the events that were asked for: the stacks at context switches, and
//! wake-ups.

use crate::Error;
use crate::event::{self, EventSources};
use crate::events::{Choice, probe};
use crate::options::{RecordOptions, Scope};
use crate::plan::{counts_switches, is_switch_stacks, switch_stacks as planned_stacks};
use crate::planned::Planned;
use crate::refusal::paranoid;

/// The tracepoint of a thread that wakes another, on the stack of the one that wakes.
const WAKING: (&str, &str) = ("sched", "sched_waking");

/// Who was where when it went off its CPU, where switches and callers are recorded and the kernel
/// allows it.
pub(crate) fn switch_stacks(
    choice: &mut Choice,
    options: &RecordOptions,
    scope: Scope,
    machine: &EventSources,
) -> Result<(), Error> {
    let sampling = &options.sampling;
    let asked = sampling.switch_events && sampling.call_graph.is_some();
    if !asked {
        return Ok(());
    }
    if let Some(own) = choice.events.iter().find(|event| counts_switches(&event.attr)) {
        if !is_switch_stacks(&own.attr) {
            choice.notes.push(format!(
                "{} is sampled as -e, -c and -F say, so not every switch has its stack; leave it \
                 out of -e to have all",
                own.name
            ));
        }
        return Ok(());
    }
    let cpu = options.cpus.first().copied().unwrap_or(0);
    for event in event::parse(&["cs".to_owned()], machine)? {
        let mut planned = planned_stacks(&event, choice.events.len(), sampling, scope);
        let mut notes = Vec::new();
        // Without the kernel's part, where switches happen, it would sample nothing.
        match probe(&mut planned, scope, cpu, &mut notes) {
            Ok(()) if notes.is_empty() => {
                if !give_group(&mut planned, choice, options) {
                    choice.notes.push(
                        "the stacks of context switches are those of the whole system, since -G \
                         names a control group for each event; name one for all, or give cs with \
                         a group of its own"
                            .to_owned(),
                    );
                }
                choice.events.push(planned);
            }
            _ => choice.notes.push(format!(
                "context switches are recorded without their stacks: the event cs happens in the \
                 kernel, which needs root, CAP_PERFMON, or kernel.perf_event_paranoid 1 (it is {})",
                paranoid()
            )),
        }
    }
    Ok(())
}

/// The control group that all events have; false where they have several.
fn give_group(planned: &mut Planned, choice: &Choice, options: &RecordOptions) -> bool {
    if let [_] = &options.cgroups[..] {
        planned.cgroup = choice.events.iter().find_map(|event| event.cgroup.clone());
    }
    options.cgroups.len() <= 1
}

/// Who woke whom, where switches are recorded and the kernel allows it. In a recording of a command
/// it happens in the time of the recorded threads; what interrupts wake in the time of others, only a
/// recording of whole CPUs has.
pub(crate) fn wake_ups(
    choice: &mut Choice,
    options: &RecordOptions,
    scope: Scope,
    machine: &EventSources,
) {
    let (system, name) = WAKING;
    let is_own = |event: &Planned| {
        let named = event.tracepoint.as_ref();
        named.is_some_and(|(own, event)| own == system && event.starts_with("sched_wak"))
    };
    // Several groups have no one group for an event that was not named.
    if !options.sampling.switch_events
        || options.cgroups.len() > 1
        || choice.events.iter().any(is_own)
    {
        return;
    }
    let why = match event::parse(&[format!("{system}:{name}")], machine) {
        Err(error) => error.to_string(),
        Ok(found) => {
            let Some(event) = found.first() else { return };
            let mut planned = planned_stacks(event, choice.events.len(), &options.sampling, scope);
            planned.tracepoint.clone_from(&event.tracepoint);
            let cpu = options.cpus.first().copied().unwrap_or(0);
            let mut notes = Vec::new();
            match probe(&mut planned, scope, cpu, &mut notes) {
                Ok(()) if notes.is_empty() => {
                    give_group(&mut planned, choice, options);
                    return choice.events.push(planned);
                }
                _ => format!(
                    "it needs root, CAP_PERFMON, or kernel.perf_event_paranoid -1 (it is {})",
                    paranoid()
                ),
            }
        }
    };
    choice.notes.push(format!(
        "without wake-ups, waits hold the time in the run queue too: event {system}:{name}: {why}"
    ));
}
