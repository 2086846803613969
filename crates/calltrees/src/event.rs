//! What was sampled, and what its weights mean.

use crate::switching::Reason;
use perfdata::EventAttr;

/// `type` of software events, and their `config` (`include/uapi/linux/perf_event.h`).
const SOFTWARE: u32 = 1;
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
        let name = named.unwrap_or_else(|| match (attr.kind, attr.config) {
            (SOFTWARE, 0) => "cpu-clock".to_owned(),
            (SOFTWARE, 1) => "task-clock".to_owned(),
            (kind, config) => format!("event {kind}:{config:#x}"),
        });
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

/// Whether an event counts nanoseconds.
pub(crate) fn is_clock(attr: &EventAttr) -> bool {
    attr.kind == SOFTWARE && CLOCKS.contains(&attr.config)
}

/// Whether the weights of an event grow with time: nanoseconds or cycles.
pub(crate) fn is_time(attr: &EventAttr) -> bool {
    const HARDWARE: u32 = 0;
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
