//! Which attributes a recording opens: events and options to `perf_event_attr`, with perf 6.1's
//! meaning of each option.
//!
//! What planish asks for beyond perf, so that its file needs nothing looked up afterwards: a period
//! and an identifier in every sample, build IDs in the records of mappings, a clock that other
//! programs can read, and a watermark.

use crate::attr::{self, SAMPLE_FIELDS, bit};
use crate::aux;
use crate::event::Event;
use crate::options::{Mode, Rate, Sampling, Scope};
use crate::planned::{DUMMY, Planned};
use crate::settings::{BranchFilter, CallGraph, Registers};
use perfdata::{EventAttr, attr_flag as flag, read_format, sample_type};

const CONTEXT_SWITCHES: u64 = 3;
const BPF_OUTPUT: u64 = 10;
const TYPE_TRACEPOINT: u32 = 2;

/// The flags by which the kernel tells what happens to processes. One event of a recording has
/// them.
fn tracking(sampling: &Sampling, addresses: bool) -> u64 {
    let mut flags = flag::MMAP
        | flag::MMAP2
        | flag::COMM
        | flag::COMM_EXEC
        | flag::TASK
        | flag::BUILD_ID
        | bit::KSYMBOL
        | bit::BPF_EVENT;
    for (on, bit) in [
        (sampling.namespaces, bit::NAMESPACES),
        (sampling.switch_events, flag::CONTEXT_SWITCH),
        (addresses, bit::MMAP_DATA),
        (sampling.cgroups, bit::CGROUP),
    ] {
        if on {
            flags |= bit;
        }
    }
    flags
}

/// The attributes of the events, in their order, and behind them one that only tracks where
/// sampling begins late. Their frequencies are those asked for, see [`lower_frequencies`].
pub fn plan(
    events: &[Event],
    sampling: &Sampling,
    rate: Option<Rate>,
    scope: Scope,
) -> Vec<Planned> {
    // What happens to processes must not be written over, so that it needs an event and a ring of
    // its own.
    let traced = events.iter().any(|event| event.trace.is_some());
    let late = sampling.late() || scope == Scope::Cpus || sampling.overwrite || traced;
    let mut planned: Vec<Planned> = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let mut attr = one(event, sampling, rate, scope);
        if sampling.overwrite {
            attr.flags |= bit::WRITE_BACKWARD;
        }
        if event.leader == index {
            attr.flags |= flag::DISABLED;
            if scope == Scope::Command && !sampling.late() {
                attr.flags |= flag::ENABLE_ON_EXEC;
            }
        }
        if index == 0 && !late {
            // Unwinding by DWARF may need what lies in data mappings.
            attr.flags |= tracking(sampling, attr.sample_type & sample_type::ADDR != 0);
        }
        let members = events.iter().filter(|other| other.leader == event.leader).count();
        if event.sample_read && members > 1 {
            attr.read_format |= read_format::GROUP;
            attr.flags &= !flag::INHERIT;
            if let Some(leader) = planned.get(event.leader) {
                follow(&mut attr, &leader.attr);
            }
        }
        planned.push(Planned {
            attr,
            name: event.name.clone(),
            leader: event.leader,
            precise_max: event.precise_max,
            weak: event.weak,
            immediate: false,
            tracepoint: event.tracepoint.clone(),
            cpus: event.cpus.clone(),
            trace: event.trace,
            cgroup: None,
        });
    }
    if late {
        let addresses = planned.iter().any(|event| event.attr.sample_type & sample_type::ADDR != 0);
        planned.push(dummy(planned.len(), sampling, scope, addresses));
    }
    aux::set_up(&mut planned, sampling.clock.is_some());
    planned
}

/// Every context switch, as the event `cs` says it, with the callers that the options ask for.
pub(crate) fn switch_stacks(
    cs: &Event,
    index: usize,
    sampling: &Sampling,
    scope: Scope,
) -> Planned {
    // The kernel finds the callers: a software event has no branch records.
    let call_graph = match sampling.call_graph {
        Some(CallGraph::BranchRecords) => Some(CallGraph::FramePointers),
        other => other,
    };
    let sampling = Sampling { call_graph, branch_filter: None, ..sampling.clone() };
    let mut attr = one(cs, &sampling, Some(Rate::Period(1)), scope);
    attr.flags |= flag::DISABLED;
    if call_graph == Some(CallGraph::FramePointers) {
        add_first_frames(&mut attr);
    }
    if sampling.overwrite {
        attr.flags |= bit::WRITE_BACKWARD;
    }
    if scope == Scope::Command && !sampling.late() {
        attr.flags |= flag::ENABLE_ON_EXEC;
    }
    Planned::alone(attr, &cs.name, index)
}

/// Adds registers and the top of the stack: the functions of the C library that wait have no frame
/// pointer, so a chain lacks who called them, which is who takes the lock. Their frames are small.
fn add_first_frames(attr: &mut EventAttr) {
    const STACK_BYTES: u32 = 512;
    /// BX, BP, SP, IP and R12 to R15: what functions keep for their callers
    /// (`arch/x86/include/uapi/asm/perf_regs.h`).
    const REGISTERS: u64 = 1 << 1 | 1 << 6 | 1 << 7 | 1 << 8 | 0xf << 20;
    let asked = sample_type::REGS_USER | sample_type::STACK_USER;
    if cfg!(target_arch = "x86_64") && attr.sample_type & asked == 0 {
        attr.sample_type |= asked;
        attr.sample_regs_user = REGISTERS;
        attr.sample_stack_user = STACK_BYTES;
    }
}

/// Whether an event counts context switches, which happen in the kernel.
pub(crate) fn counts_switches(attr: &EventAttr) -> bool {
    (attr.kind, attr.config) == (attr::TYPE_SOFTWARE, CONTEXT_SWITCHES)
        && attr.flags & flag::EXCLUDE_KERNEL == 0
}

/// Whether an event that counts context switches samples every one, with its callers.
pub(crate) fn is_switch_stacks(attr: &EventAttr) -> bool {
    attr.sample_type & sample_type::CALLCHAIN != 0
        && attr.flags & flag::FREQ == 0
        && attr.period_or_freq == 1
}

/// A member of a group whose leader samples takes no samples of its own.
fn follow(attr: &mut EventAttr, leader: &EventAttr) {
    attr.flags &= !flag::FREQ;
    attr.period_or_freq = 0;
    attr.sample_type = leader.sample_type;
}

fn base(sampling: &Sampling, scope: Scope) -> EventAttr {
    let mut flags = flag::SAMPLE_ID_ALL | flag::WATERMARK | flag::USE_CLOCKID;
    if !sampling.no_inherit {
        flags |= flag::INHERIT;
    }
    let mut fields = SAMPLE_FIELDS;
    let cpu = sampling.cpu || scope == Scope::Cpus;
    for (on, field) in [(cpu, sample_type::CPU), (sampling.cgroups, sample_type::CGROUP)] {
        fields |= if on { field } else { 0 };
    }
    EventAttr {
        size_bytes: EventAttr::WRITTEN_BYTES,
        sample_type: fields,
        read_format: read_format::ID | read_format::LOST,
        flags,
        clockid: sampling.clock.map_or(attr::CLOCK_MONOTONIC, |clock| clock.0),
        ..EventAttr::default()
    }
}

pub(crate) fn dummy(index: usize, sampling: &Sampling, scope: Scope, addresses: bool) -> Planned {
    let mut attr = base(sampling, scope);
    (attr.kind, attr.config, attr.period_or_freq) = (attr::TYPE_SOFTWARE, DUMMY, 1);
    attr.flags |= tracking(sampling, addresses);
    let immediate = scope != Scope::Command;
    if !immediate {
        attr.flags |= flag::DISABLED | flag::ENABLE_ON_EXEC;
    }
    Planned { immediate, ..Planned::alone(attr, "dummy:HG", index) }
}

fn one(event: &Event, sampling: &Sampling, rate: Option<Rate>, scope: Scope) -> EventAttr {
    let own = &event.settings;
    let mut attr = base(sampling, scope);
    (attr.kind, attr.config, attr.config1, attr.config2) =
        (event.attr.kind, event.attr.config, event.attr.config1, event.attr.config2);
    attr.flags |= event.attr.flags;
    match own.inherit {
        Some(true) => attr.flags |= flag::INHERIT,
        Some(false) => attr.flags &= !flag::INHERIT,
        None => {}
    }
    if let Some(trace) = event.trace {
        // What samples carry means nothing to it: it writes none.
        attr.sample_type |= trace.sample_type;
        attr.period_or_freq = match (own.period, rate) {
            (Some(period), _) | (None, Some(Rate::Period(period))) => period,
            (None, _) => trace.usual_period,
        };
        return attr;
    }
    let records_data =
        event.tracepoint.is_some() || (attr.kind, attr.config) == (attr::TYPE_SOFTWARE, BPF_OUTPUT);
    if records_data || attr.kind == TYPE_TRACEPOINT || sampling.raw {
        attr.sample_type |= sample_type::RAW | sample_type::CPU;
    }
    set_rate(&mut attr, event, rate, records_data);
    if event.sample_read {
        attr.sample_type |= sample_type::READ;
    }
    if event.precise_max {
        attr.flags |= 3 << bit::PRECISE_AT;
    }
    let call_graph = own.call_graph.unwrap_or(sampling.call_graph);
    let dwarf = matches!(call_graph, Some(CallGraph::Dwarf { .. }));
    if sampling.addresses || dwarf {
        attr.sample_type |= sample_type::ADDR | sample_type::DATA_SRC;
    }
    if sampling.user_registers != Registers::default() {
        attr.sample_type |= sample_type::REGS_USER;
        attr.sample_regs_user |= sampling.user_registers.0;
    }
    if sampling.interrupt_registers != Registers::default() {
        attr.sample_type |= sample_type::REGS_INTR;
        attr.sample_regs_intr |= sampling.interrupt_registers.0;
    }
    match sampling.only {
        Some(Mode::User) => attr.flags = attr.flags & !flag::EXCLUDE_USER | flag::EXCLUDE_KERNEL,
        Some(Mode::Kernel) => attr.flags = attr.flags & !flag::EXCLUDE_KERNEL | flag::EXCLUDE_USER,
        None => {}
    }
    let filter = own.branch_filter.or(sampling.branch_filter);
    if let Some(BranchFilter(mask)) = filter {
        attr.sample_type |= sample_type::BRANCH_STACK;
        attr.branch_sample_type = mask;
    }
    if let Some(how) = call_graph {
        set_call_graph(&mut attr, how, own.stack_bytes, sampling);
        attr.sample_max_stack = own.max_stack.unwrap_or(0);
    }
    if sampling.thread_counts {
        attr.flags |= bit::INHERIT_STAT;
        attr.read_format |= read_format::TOTAL_TIME_ENABLED | read_format::TOTAL_TIME_RUNNING;
    }
    attr
}

/// perf's default: samples a second.
const FREQUENCY: u64 = 4000;

/// Where the kernel says how often a second it samples at most.
pub const HIGHEST_FREQUENCY: &str = "/proc/sys/kernel/perf_event_max_sample_rate";

/// The highest frequency that the kernel takes now, in samples a second; it lowers that by itself
/// when sampling takes long. `None` where it does not say ([`HIGHEST_FREQUENCY`]).
pub fn highest_frequency() -> Option<u64> {
    let text = std::fs::read_to_string(HIGHEST_FREQUENCY).ok()?;
    text.trim().parse().ok().filter(|limit| *limit > 0)
}

/// Lowers the frequencies of events to what the kernel takes now, as perf does with that of its
/// options; more would be refused. The result says so, once for all, where there was something to
/// lower.
pub fn lower_frequencies(events: &mut [Planned]) -> Option<String> {
    lower_to(highest_frequency()?, events)
}

fn lower_to(limit: u64, events: &mut [Planned]) -> Option<String> {
    let mut highest = None;
    for attr in events.iter_mut().map(|event| &mut event.attr) {
        if attr.flags & flag::FREQ != 0 && attr.period_or_freq > limit {
            highest = highest.max(Some(attr.period_or_freq));
            attr.period_or_freq = limit;
        }
    }
    highest.map(|asked| {
        format!(
            "sampling {limit} times a second instead of {asked}: \
             kernel.perf_event_max_sample_rate allows no more (the kernel lowers it by itself \
             when sampling takes long)"
        )
    })
}

/// An event's own term, then the option, then 1 for what carries data of its own, then perf's 4000
/// a second.
fn set_rate(attr: &mut EventAttr, event: &Event, rate: Option<Rate>, records_data: bool) {
    let own = &event.settings;
    let own = own.period.map(Rate::Period).or(own.frequency.map(Rate::Frequency));
    let usual = if records_data { Rate::Period(1) } else { Rate::Frequency(FREQUENCY) };
    match own.or(rate).unwrap_or(usual) {
        Rate::Period(period) => attr.period_or_freq = period,
        Rate::Frequency(frequency) => {
            attr.period_or_freq = frequency;
            attr.flags |= flag::FREQ;
        }
    }
}

fn set_call_graph(
    attr: &mut EventAttr,
    how: CallGraph,
    own_bytes: Option<u32>,
    sampling: &Sampling,
) {
    attr.sample_type |= sample_type::CALLCHAIN;
    match how {
        CallGraph::FramePointers => {}
        CallGraph::BranchRecords => {
            // The CPU has one set of branch records, and call stacks are the user's only.
            if attr.sample_type & sample_type::BRANCH_STACK == 0
                && attr.flags & flag::EXCLUDE_USER == 0
            {
                attr.sample_type |= sample_type::BRANCH_STACK;
                attr.branch_sample_type = BranchFilter::CALL_STACK;
            }
        }
        CallGraph::Dwarf { stack_bytes } => {
            attr.sample_type |= sample_type::REGS_USER | sample_type::STACK_USER;
            let chosen = sampling.user_registers != Registers::default();
            attr.sample_regs_user |= if chosen { Registers::MINIMAL } else { Registers::ALL };
            attr.sample_stack_user = own_bytes.unwrap_or(stack_bytes);
            attr.flags |= bit::EXCLUDE_CALLCHAIN_USER;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventSources, parse};

    fn planned(texts: &[&str], rate: Option<Rate>) -> Vec<Planned> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        plan(
            &parse(&texts, &EventSources::here()).unwrap(),
            &Sampling::default(),
            rate,
            Scope::Command,
        )
    }

    fn rates(events: &[Planned]) -> Vec<(bool, u64)> {
        events
            .iter()
            .map(|event| (event.attr.flags & flag::FREQ != 0, event.attr.period_or_freq))
            .collect()
    }

    #[test]
    fn every_frequency_beyond_the_limit_is_lowered_and_said_once() {
        let texts =
            ["cpu-clock/freq=9000/", "task-clock", "cs/period=7000/", "page-faults/freq=99/"];
        let mut events = planned(&texts, None);
        let said = lower_to(1000, &mut events).unwrap();
        assert!(said.starts_with("sampling 1000 times a second instead of 9000:"), "{said}");
        assert_eq!(rates(&events), [(true, 1000), (true, 1000), (false, 7000), (true, 99)]);
        assert_eq!(lower_to(1000, &mut events), None);
    }

    #[test]
    fn nothing_is_said_where_every_event_has_a_period_or_a_frequency_that_is_allowed() {
        let mut events = planned(&["cpu-clock/period=70000/", "cs"], Some(Rate::Period(5000)));
        assert_eq!(lower_to(1000, &mut events), None);
        assert_eq!(rates(&events), [(false, 70000), (false, 5000)]);
        assert_eq!(lower_to(4000, &mut planned(&["cpu-clock"], None)), None);
    }
}
