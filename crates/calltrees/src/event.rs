//! What was sampled, and what its weights mean.

use crate::switching::Reason;
use perfdata::{EventAttr, attr_flag};

/// `type` of hardware and software events, and the `config` of these (`include/uapi/linux/perf_event.h`).
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
/// As perf calls them, by `config`.
const HARDWARE_NAMES: [&str; 10] = [
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];
const SOFTWARE_NAMES: [&str; 12] = [
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
];
const CLOCKS: [u64; 2] = [0, 1];
const SWITCHES: u64 = 3;
const DUMMY: u64 = 9;
const PAGE_FAULTS: u64 = 2;

/// An event of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// As the recording has it, else by its numbers.
    pub name: String,
    /// Whether its weights are nanoseconds; else they are events.
    pub is_clock: bool,
    /// Why threads were off their CPU, if that is what its weights tell: each of its samples is a
    /// wait.
    pub off_cpu: Option<Reason>,
    /// Whether it is taken at each context switch.
    pub is_switches: bool,
    /// Whether it samples nothing: perf adds one for the sake of its mapping records.
    pub is_dummy: bool,
}

impl Event {
    /// That of an attribute.
    pub fn of(attr: &EventAttr) -> Event {
        let software = attr.kind == SOFTWARE;
        let named = attr.name.clone().filter(|name| !name.is_empty());
        let name = named.unwrap_or_else(|| name_of(attr));
        Event {
            name,
            is_clock: is_clock(attr),
            off_cpu: None,
            is_switches: is_switches(attr),
            is_dummy: software && attr.config == DUMMY,
        }
    }

    /// Whether its samples are wake-ups of threads.
    pub fn is_wakes(&self) -> bool {
        matches!(self.name.as_str(), "sched:sched_waking" | "sched:sched_wakeup")
    }

    /// The waits for one of the reasons.
    pub(crate) fn off_cpu(reason: Reason) -> Event {
        Event {
            name: reason.event().to_owned(),
            is_clock: true,
            off_cpu: Some(reason),
            is_switches: false,
            is_dummy: false,
        }
    }
}

/// The name of an event that the recording does not name, as perf makes it of its numbers.
fn name_of(attr: &EventAttr) -> String {
    let names: &[&str] = match attr.kind {
        HARDWARE => &HARDWARE_NAMES,
        SOFTWARE => &SOFTWARE_NAMES,
        _ => &[],
    };
    let known = usize::try_from(attr.config).ok().and_then(|config| names.get(config));
    let (kind, config) = (attr.kind, attr.config);
    let name = known.map_or_else(|| format!("event {kind}:{config:#x}"), |name| (*name).to_owned());
    let leaves_out = |flag: u64| attr.flags & flag != 0;
    match (leaves_out(attr_flag::EXCLUDE_KERNEL), leaves_out(attr_flag::EXCLUDE_USER)) {
        (true, false) => name + ":u",
        (false, true) => name + ":k",
        _ => name,
    }
}

/// Whether an event counts nanoseconds.
pub(crate) fn is_clock(attr: &EventAttr) -> bool {
    attr.kind == SOFTWARE && CLOCKS.contains(&attr.config)
}

/// Whether the weights of an event grow with time: nanoseconds or cycles.
pub(crate) fn is_time(attr: &EventAttr) -> bool {
    /// Cycles, and cycles of a reference clock.
    const CYCLES: [u64; 2] = [0, 9];
    is_clock(attr) || attr.kind == HARDWARE && CYCLES.contains(&attr.config)
}

/// Whether an event is taken at page faults, of either kind.
pub(crate) fn is_page_faults(attr: &EventAttr) -> bool {
    attr.kind == SOFTWARE && attr.config == PAGE_FAULTS
}

/// Whether an event is taken at each context switch.
pub(crate) fn is_switches(attr: &EventAttr) -> bool {
    attr.kind == SOFTWARE && attr.config == SWITCHES
}

/// Whether an event brings records of context switches with it.
pub(crate) fn records_switches(attr: &EventAttr) -> bool {
    attr.flags & attr_flag::CONTEXT_SWITCH != 0
}
