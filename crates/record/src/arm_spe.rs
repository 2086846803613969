//! Arm's Statistical Profiling Extension: where it is, and how to record it. planish reads such recordings and does not
//! make them.

use perfdata::spe::BRANCH_TERMS;
use std::path::Path;

/// Where the kernel lists its event sources.
pub const EVENT_SOURCES: &str = "/sys/bus/event_source/devices";

/// perf's command that records taken branches, for the first SPE unit among these event sources; `None` without one.
pub fn command(event_sources: &Path) -> Option<String> {
    let names = std::fs::read_dir(event_sources).ok()?.flatten();
    let units = names.filter_map(|entry| entry.file_name().into_string().ok());
    let unit = units.filter(|name| name.starts_with("arm_spe_")).min()?;
    Some(format!("perf record -e {unit}/{BRANCH_TERMS}/u -- COMMAND"))
}

/// What to do where branch stacks are wanted and the machine has SPE in place of them.
pub fn instead(event_sources: &Path) -> Option<String> {
    let command = command(event_sources)?;
    Some(format!(
        "this machine has Arm SPE, whose branches `{command}` records and `planish aggregate` counts"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_names_the_first_unit_and_only_where_there_is_one() {
        let sources = tempfile::tempdir().unwrap();
        std::fs::create_dir(sources.path().join("armv8_pmuv3_0")).unwrap();
        assert_eq!(instead(sources.path()), None);
        for unit in ["arm_spe_1", "arm_spe_0"] {
            std::fs::create_dir(sources.path().join(unit)).unwrap();
        }
        let said = instead(sources.path()).unwrap();
        let command = "perf record -e arm_spe_0/branch_filter=1,ts_enable=1,min_latency=0/u -- COMMAND";
        assert!(said.contains(command), "{said}");
        assert_eq!(instead(Path::new("/nowhere")), None);
    }
}
