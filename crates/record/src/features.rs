//! What the feature sections behind the data say: where, with what and when the recording was made.

use crate::merge::Merged;
use perfdata::{BuildIdEntry, Features, SampleTime};
use std::ffi::OsString;

/// A file by its build ID.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct BuildId {
    pub path: Vec<u8>,
    pub id: Vec<u8>,
    pub kernel: bool,
}

impl BuildId {
    fn entry(&self) -> BuildIdEntry {
        const MISC_KERNEL: u16 = 1;
        const MISC_USER: u16 = 2;
        BuildIdEntry {
            pid: -1,
            misc: if self.kernel { MISC_KERNEL } else { MISC_USER },
            build_id: self.id.clone(),
            path: String::from_utf8_lossy(&self.path).into_owned(),
        }
    }
}

/// The host, the command, and what was seen: build IDs, and the times of the first and the last sample.
pub(crate) fn features(
    machine: Option<&str>,
    command: &[OsString],
    seen: &Merged,
    kernel: Option<BuildId>,
) -> Features {
    let host = crate::sys::host();
    Features {
        build_ids: seen.build_ids.iter().chain(&kernel).map(BuildId::entry).collect(),
        hostname: Some(host.name),
        os_release: Some(host.release),
        perf_version: Some(concat!("planish ", env!("CARGO_PKG_VERSION")).to_owned()),
        arch: Some(machine.map_or(host.machine, str::to_owned)),
        cpus: Some((host.cpus_configured, host.cpus_online)),
        cmdline: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        sample_time: Some(SampleTime { first_ns: seen.first_time, last_ns: seen.last_time }),
        clockid: Some(1),
        ..Features::default()
    }
}
