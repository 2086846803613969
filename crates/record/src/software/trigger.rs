//! What threads are stopped after: taken branches where the CPU counts them, else the CPU clock.
//!
//! Stops after even numbers of taken branches see every branch as often as it is taken. Stops after
//! even times see more of what is slow.

use perf_events::Event;
use perfdata::{EventAttr, attr_flag as flag};
use stops::Trigger;

const TYPE_RAW: u32 = 4;
/// Retired taken branches of AMD's family 17h and later (Processor Programming Reference, PMCx0C4).
const AMD_TAKEN: u64 = 0xc4;
/// BR_INST_RETIRED.NEAR_TAKEN of Intel's cores from Skylake on.
const INTEL_TAKEN: u64 = 0x20c4;

/// The counter of taken branches of this CPU, where the kernel lets this user have it.
pub(crate) fn taken_branches() -> Option<Trigger> {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let config = if text.contains("AuthenticAMD") || text.contains("HygonGenuine") {
        AMD_TAKEN
    } else if text.contains("GenuineIntel") {
        INTEL_TAKEN
    } else {
        return None;
    };
    let attr = EventAttr {
        kind: TYPE_RAW,
        config,
        flags: flag::EXCLUDE_KERNEL | flag::EXCLUDE_HV,
        ..EventAttr::default()
    };
    counts(&attr).then_some(Trigger::Counter { kind: TYPE_RAW, config })
}

/// Whether the event counts: a virtual CPU may have it and never count. Some thousand loops take
/// some thousand branches.
fn counts(attr: &EventAttr) -> bool {
    const LOOPS: u64 = 20_000;
    let Ok(event) = Event::open(attr, 0, -1, None) else { return false };
    for number in 0..LOOPS {
        std::hint::black_box(number);
    }
    let counted = event.read().ok().and_then(|words| words.first().copied()).unwrap_or(0);
    (LOOPS / 2..LOOPS * 1000).contains(&counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_is_taken_and_what_does_not_is_not() {
        match taken_branches() {
            Some(Trigger::Counter { config, .. }) => {
                assert!([AMD_TAKEN, INTEL_TAKEN].contains(&config))
            }
            Some(Trigger::CpuClock) => panic!("the clock counts no branches"),
            None => println!("skipped: no counter of taken branches here"),
        }
        // No event of a PMU has this number.
        let absent = EventAttr { kind: u32::MAX, ..EventAttr::default() };
        assert!(!counts(&absent));
    }
}
