//! Arm's Statistical Profiling Extension: where it is, what its events ask for beside the user's
//! terms, and what decoders must know of it. How its data gets into the file has nothing to do
//! with SPE: [`crate::aux`].
//!
//! Facts: drivers/perf/arm_spe_pmu.c and tools/perf/arch/arm64/util/arm-spe.c of Linux 6.1 to 6.12.

use crate::attr::Trace;
use crate::event::EventSources;
use crate::event::machine::Pmu;
use perfdata::spe::BRANCH_TERMS;
use perfdata::{EventAttr, sample_type, tracer};
use std::path::Path;

/// Where the kernel lists its event sources.
pub const EVENT_SOURCES: &str = "/sys/bus/event_source/devices";

/// Operations between two that are picked, where neither the user nor the driver says it: what the
/// hardware counts to.
const USUAL_PERIOD: u64 = 4096;

fn is_unit(pmu: &str) -> bool {
    pmu.strip_prefix("arm_spe_").is_some_and(|number| number.parse::<u32>().is_ok())
}

/// The SPE units among these event sources, in order: one, or one for each kind of core.
pub fn units(event_sources: &Path) -> Vec<String> {
    let machine = EventSources { pmus: event_sources.to_owned(), tracefs: None };
    machine.pmu_names().into_iter().filter(|name| is_unit(name)).collect()
}

/// The first unit there is, for people; and how to have its records.
pub fn told(event_sources: &Path) -> Option<(String, &'static str)> {
    Some((units(event_sources).into_iter().next()?, "planish record --branches=hardware"))
}

/// The events that record taken branches, one for each unit; of programs alone, or of the kernel
/// too.
pub(crate) fn branch_events(event_sources: &Path, kernel: bool) -> Vec<String> {
    let whom = if kernel { "" } else { "u" };
    units(event_sources).into_iter().map(|unit| format!("{unit}/{BRANCH_TERMS}/{whom}")).collect()
}

/// Completes the attribute of a PMU's event, if the PMU is an SPE unit, as perf does: with
/// timestamps, unless the user decides about them, and marked as one that tells of memory. `None`
/// for other PMUs.
pub(crate) fn complete(
    pmu: &Pmu,
    given: &dyn Fn(&str) -> bool,
    attr: &mut EventAttr,
) -> Option<Trace> {
    if !is_unit(&pmu.name) {
        return None;
    }
    if let Some(format) =
        pmu.formats.get("ts_enable").filter(|format| format.word == 0 && !given("ts_enable"))
    {
        attr.config |= format.spread(1).1;
    }
    let physical = pmu.formats.get("pa_enable").filter(|format| format.word == 0);
    let physical = physical.is_some_and(|format| attr.config & format.spread(1).1 != 0);
    Some(Trace {
        tracer: tracer::ARM_SPE,
        usual_period: pmu
            .capability("min_interval")
            .filter(|period| *period > 0)
            .unwrap_or(USUAL_PERIOD),
        sample_type: sample_type::DATA_SRC | if physical { sample_type::PHYS_ADDR } else { 0 },
    })
}

/// What AUXTRACE_INFO says to decoders: the number of the (first) unit, and a word that perf leaves
/// 0.
pub(crate) fn private_words(pmu_type: u32) -> [u64; 2] {
    [u64::from(pmu_type), 0]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::event::parse;
    use perfdata::attr_flag as flag;

    /// A made-up machine with SPE units as Linux 6.1 describes them.
    pub(crate) fn machine(dir: &Path, units: &[(&str, &str)]) -> EventSources {
        let formats = [
            ("ts_enable", "config:0"),
            ("pa_enable", "config:1"),
            ("pct_enable", "config:2"),
            ("jitter", "config:16"),
            ("branch_filter", "config:32"),
            ("load_filter", "config:33"),
            ("store_filter", "config:34"),
            ("event_filter", "config1:0-63"),
            ("min_latency", "config2:0-11"),
        ];
        for (number, (unit, cpus)) in units.iter().enumerate() {
            let unit = dir.join(unit);
            for folder in ["format", "caps"] {
                std::fs::create_dir_all(unit.join(folder)).unwrap();
            }
            for (name, text) in formats {
                std::fs::write(unit.join("format").join(name), format!("{text}\n")).unwrap();
            }
            std::fs::write(unit.join("type"), format!("{}\n", 8 + number)).unwrap();
            std::fs::write(unit.join("cpumask"), format!("{cpus}\n")).unwrap();
            std::fs::write(unit.join("caps/min_interval"), "1024\n").unwrap();
        }
        EventSources { pmus: dir.to_owned(), tracefs: None }
    }

    #[test]
    fn units_are_found_by_their_names() {
        let dir = tempfile::tempdir().unwrap();
        machine(dir.path(), &[("arm_spe_1", "4-7"), ("arm_spe_0", "0-3")]);
        for other in ["armv8_pmuv3_0", "arm_spe_", "arm_spe_x"] {
            std::fs::create_dir(dir.path().join(other)).unwrap();
        }
        assert_eq!(units(dir.path()), ["arm_spe_0", "arm_spe_1"]);
        let events = branch_events(dir.path(), false);
        assert_eq!(events[0], "arm_spe_0/branch_filter=1,ts_enable=1,min_latency=0/u");
        assert_eq!(
            branch_events(dir.path(), true)[1],
            "arm_spe_1/branch_filter=1,ts_enable=1,min_latency=0/"
        );
        assert!(units(Path::new("/nowhere")).is_empty());
    }

    #[test]
    fn terms_become_the_bits_that_the_driver_says() {
        let dir = tempfile::tempdir().unwrap();
        let machine = machine(dir.path(), &[("arm_spe_0", "0-3")]);
        let one = |text: &str| parse(&[text.to_owned()], &machine).unwrap().remove(0);
        let event = one("arm_spe_0/branch_filter=1,ts_enable=1,min_latency=0/u");
        assert_eq!((event.attr.kind, event.attr.config), (8, 1 << 32 | 1));
        assert_eq!((event.attr.config1, event.attr.config2), (0, 0));
        assert_eq!(event.attr.flags & flag::EXCLUDE_KERNEL, flag::EXCLUDE_KERNEL);
        assert_eq!(event.cpus.as_deref(), Some("0-3"));
        let trace = event.trace.unwrap();
        assert_eq!((trace.tracer, trace.usual_period), (tracer::ARM_SPE, 1024));
        assert_eq!(trace.sample_type, sample_type::DATA_SRC);
        // Times are asked for unless they are refused; physical addresses are announced.
        assert_eq!(one("arm_spe_0/load_filter,event_filter=0x82/").attr.config, 1 << 33 | 1);
        assert_eq!(one("arm_spe_0/event_filter=0x82,min_latency=30/").attr.config1, 0x82);
        assert_eq!(one("arm_spe_0/ts_enable=0,jitter/").attr.config, 1 << 16);
        let physical = one("arm_spe_0/pa_enable/").trace.unwrap().sample_type;
        assert_eq!(physical, sample_type::DATA_SRC | sample_type::PHYS_ADDR);
        assert!(parse(&["arm_spe_1//".to_owned()], &machine).is_err());
    }
}
