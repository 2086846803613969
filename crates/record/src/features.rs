//! What the feature sections behind the data say: where, with what and when the recording was made.

use crate::event::EventSources;
use crate::planned::Planned;
use crate::processor::Sources;
use crate::seen::{BuildId, Seen};
use crate::settings::Clock;
use crate::streaming::Streaming;
use crate::tracing;
use perfdata::write::Compressor;
use perfdata::{Features, SampleTime, UnknownFeature};
use std::ffi::OsString;

/// The host, the command line (`stated`, else this process's own), and what was seen: build IDs,
/// and the times of the first and the last sample.
pub(crate) fn features(
    machine: Option<&str>,
    stated: Option<&[OsString]>,
    seen: &Seen,
    kernel: impl IntoIterator<Item = BuildId>,
) -> Features {
    let kernel: Vec<BuildId> = kernel.into_iter().collect();
    let host = crate::sys::host();
    let cpus = host.cpus_configured;
    let mut features = Features {
        build_ids: seen.build_ids.iter().chain(&kernel).map(BuildId::entry).collect(),
        hostname: Some(host.name),
        os_release: Some(host.release),
        perf_version: Some(concat!("planish ", env!("CARGO_PKG_VERSION")).to_owned()),
        arch: Some(machine.map_or(host.machine, str::to_owned)),
        cpus: Some((host.cpus_configured, host.cpus_online)),
        cmdline: stated.map_or_else(command_line, |words| words.iter().map(text).collect()),
        cpu_id: cpu_id(),
        sample_time: (seen.samples > 0)
            .then_some(SampleTime { first_ns: seen.first_time, last_ns: seen.last_time }),
        clockid: Some(1),
        ..Features::default()
    };
    // An emulated machine is made of something else.
    if machine.is_none() {
        Sources::here().describe(&mut features, cpus);
    }
    features
}

fn text(word: &OsString) -> String {
    word.to_string_lossy().into_owned()
}

/// The words that this process was started with; as perf has it, the first is the program's whole
/// path.
fn command_line() -> Vec<String> {
    let bytes = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let words = bytes.strip_suffix(b"\0").unwrap_or(&bytes).split(|byte| *byte == 0);
    let mut words: Vec<String> =
        words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    if let (Some(first), Ok(program)) = (words.first_mut(), std::env::current_exe()) {
        *first = program.to_string_lossy().into_owned();
    }
    words
}

/// Which processor an AArch64 machine has, as perf writes it: MIDR_EL1 without variant (bits 20 to
/// 23) and revision (0 to 3). Decoders of Arm SPE need it; other machines have no such file.
fn cpu_id() -> Option<String> {
    const MIDR: &str = "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1";
    masked(&std::fs::read_to_string(MIDR).ok()?)
}

fn masked(midr: &str) -> Option<String> {
    let number = u64::from_str_radix(midr.trim().strip_prefix("0x")?, 16).ok()?;
    Some(format!("{:#018x}", number & !0x00f0_000f))
}

const TRACING_DATA: u32 = 1;
const GROUP_DESC: u32 = 17;

/// What readers need to make sense of the events: their groups, PMUs, tracepoint formats, and
/// clock.
pub(crate) fn describe_events(
    features: &mut Features,
    events: &[Planned],
    machine: &EventSources,
    clock: Option<Clock>,
) {
    let mut add = |number: u32, bytes: Vec<u8>| {
        if !bytes.is_empty() {
            let size_bytes = bytes.len() as u64;
            features.unknown.push(UnknownFeature { number, offset: 0, size_bytes, bytes });
        }
    };
    let tracepoints: Vec<_> = events.iter().filter_map(|event| event.tracepoint.clone()).collect();
    if let Some(tracefs) = &machine.tracefs {
        add(TRACING_DATA, tracing::section(tracefs, &tracepoints));
    }
    add(GROUP_DESC, group_desc(events));
    features.branch_stack = events.iter().any(|event| event.attr.has_branch_stack());
    features.pmu_mappings = machine.pmu_types();
    if let Some(Clock(clock)) = clock {
        // Both at one moment, so that times can be shown as the wall clock's.
        features.clock_data = crate::sys::clock_ns(libc::CLOCK_REALTIME)
            .zip(crate::sys::clock_ns(clock))
            .map(|(wall, own)| (clock as u32, wall, own));
    }
}

/// What is the same in every file of a live recording.
pub(crate) struct Description<'d> {
    pub events: &'d [Planned],
    pub machine: &'d EventSources,
    pub how: &'d Streaming,
    /// The clock that was chosen.
    pub chosen_clock: Option<Clock>,
    /// The clock of its times; none where that is the kernel's own, which programs cannot read.
    pub clock: Option<i32>,
    /// The kernel's files.
    pub kernel: &'d [BuildId],
}

impl Description<'_> {
    /// The feature sections of a file, from what was seen until then, and from the bytes before and
    /// after compression.
    pub(crate) fn features(&self, seen: &Seen, compressed: Option<(u64, u64)>) -> Features {
        let mut features = features(None, None, seen, self.kernel.iter().cloned());
        // Where programs can read the clock, times can be told by the wall clock, too.
        let clock = self.chosen_clock.or(self.clock.map(Clock));
        describe_events(&mut features, self.events, self.machine, clock);
        describe_streams(&mut features, self.how, compressed);
        // Times by the kernel's own clock are nobody else's.
        features.clockid = features.clockid.filter(|_| self.clock.is_some());
        features
    }
}

/// How the records are kept: in a directory, compressed.
fn describe_streams(features: &mut Features, how: &Streaming, compressed: Option<(u64, u64)>) {
    /// The only version there is.
    const DIRECTORY: u64 = 1;
    features.dir_format = how.threads.as_ref().map(|_| DIRECTORY);
    features.compressed = how
        .compression
        .first_level()
        .map(|level| Compressor::describe_all(level, compressed.unwrap_or_default()));
}

/// How many groups; then for each its name, the number of its first event, and how many it has.
fn group_desc(events: &[Planned]) -> Vec<u8> {
    let members =
        |leader: usize| events.iter().filter(|event| event.leader == leader).count() as u32;
    let groups: Vec<usize> = (0..events.len()).filter(|index| members(*index) > 1).collect();
    if groups.is_empty() {
        return Vec::new();
    }
    let mut bytes = (groups.len() as u32).to_ne_bytes().to_vec();
    // perf pads strings to 64 bytes and gives a nameless group this name.
    let mut name = b"{anon_group}".to_vec();
    name.resize(64, 0);
    for leader in groups {
        bytes.extend((name.len() as u32).to_ne_bytes());
        bytes.extend(&name);
        bytes.extend((leader as u32).to_ne_bytes());
        bytes.extend(members(leader).to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_named_without_variant_and_revision() {
        assert_eq!(masked("0x00000000414fd0c1\n").as_deref(), Some("0x00000000410fd0c0"));
        assert_eq!(masked("414fd0c1"), None);
    }
}
