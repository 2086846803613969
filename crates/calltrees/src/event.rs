//! What was sampled, and what its weights mean.

use perfdata::EventAttr;

/// `type` of software events, and their `config` (`include/uapi/linux/perf_event.h`).
const SOFTWARE: u32 = 1;
const CLOCKS: [u64; 2] = [0, 1];
const DUMMY: u64 = 9;

/// An event of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// As the recording has it, else by its numbers.
    pub name: String,
    /// Whether its weights are nanoseconds; else they are events.
    pub is_clock: bool,
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
            is_clock: software && CLOCKS.contains(&attr.config),
            is_dummy: software && attr.config == DUMMY,
        }
    }
}
