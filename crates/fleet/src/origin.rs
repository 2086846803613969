//! What does a recording say of the machine, the time and the way in which it was made?

use crate::Recording;
use crate::digest;
use crate::law::{Law, Unit};
use counts::Ledger;
use perfdata::{EventAttr, Features, Input, raw_records};
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io;
use std::path::Path;

/// `PERF_TYPE_SOFTWARE`, and its events that are clocks.
const SOFTWARE: u32 = 1;
const CLOCKS: [u64; 2] = [0, 1];
const DUMMY: u64 = 9;
/// `PERF_TYPE_HARDWARE` and two of its events, and `PERF_TYPE_RAW`.
const HARDWARE: u32 = 0;
const CYCLES: u64 = 0;
const BRANCHES: u64 = 4;
const RAW: u32 = 4;
const NS: u64 = 1_000_000_000;

/// What a sample can be, in the words of shards ([`Recording::source`]); those of `fleet simulate` have
/// names of their own.
pub const SOURCES: [&str; 6] =
    ["hardware-branches", "software-branches", "spe", "clock", "event", "emulated"];

/// The name of a recording by its bytes, the same wherever it lies: `sha256-` and the hash of the
/// file, or of the names, sizes and bytes of a directory's files.
///
/// # Errors
/// Where it cannot be read.
pub fn id(path: &Path) -> io::Result<String> {
    if !path.is_dir() {
        return Ok(format!("sha256-{}", digest::hex(&digest::of_file(&File::open(path)?)?)));
    }
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        // What readers leave beside the recording's files is none of it.
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_file() && (name == "data" || name.starts_with("data.")) {
            names.push(name);
        }
    }
    names.sort();
    let mut hash = Sha256::new();
    for name in names {
        let file = File::open(path.join(&name))?;
        hash.update(name.as_bytes());
        hash.update([0]);
        hash.update(file.metadata()?.len().to_le_bytes());
        hash.update(digest::of_file(&file)?);
    }
    Ok(format!("sha256-{}", digest::hex(&hash.finalize().into())))
}

/// What a recording says of itself; what it does not say is empty or absent.
pub fn described(input: &Input, id: String) -> Recording {
    let said = input.features();
    let event = sampling(input.attrs());
    let (begin, end) = window(said).map_or((None, None), |(from, to)| (Some(from), Some(to)));
    Recording {
        id,
        host: short(said.hostname.as_deref()),
        cpus: said.cpus.map(|(_, online)| online).filter(|online| *online > 0),
        cpu_model: short(said.cpu_description.as_deref().or(said.cpu_id.as_deref())),
        architecture: short(said.arch.as_deref()),
        begin,
        end,
        source: event.map_or_else(String::new, |event| source(event).to_owned()),
        depth: depth(said),
        period: event.and_then(period),
        planish: env!("CARGO_PKG_VERSION").to_owned(),
        ..Recording::default()
    }
}

/// As much of a text as a shard may hold.
fn short(text: Option<&str>) -> String {
    let text = text.unwrap_or_default().trim();
    text.chars()
        .scan(0, |bytes, c| {
            *bytes += c.len_utf8();
            (*bytes <= 256).then_some(c)
        })
        .collect()
}

/// The event that samples: with a branch stack rather than without.
fn sampling(attrs: &[EventAttr]) -> Option<&EventAttr> {
    let mut real = attrs.iter().filter(|attr| (attr.kind, attr.config) != (SOFTWARE, DUMMY));
    attrs.iter().find(|attr| attr.has_branch_stack()).or_else(|| real.next())
}

/// Events for each sample, where the recorder did not choose them as it went. The kernel gives a
/// clock the period that a frequency means (`perf_swevent_init_hrtimer`).
fn period(attr: &EventAttr) -> Option<u64> {
    let given = Some(attr.period_or_freq).filter(|given| *given > 0)?;
    let is_fixed = attr.flags & perfdata::attr_flag::FREQ == 0;
    if is_fixed { Some(given) } else { is_clock(attr).then_some(NS / given) }
}

fn is_clock(attr: &EventAttr) -> bool {
    attr.kind == SOFTWARE && CLOCKS.contains(&attr.config)
}

/// How a recording was sampled, as far as it says.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    unit: Unit,
    has_stacks: bool,
    /// The period of the event, where the samples have none of their own.
    period: u64,
    /// Samples of the event, and the sum of their periods.
    samples: u64,
    passed: u128,
}

impl Sampling {
    /// That of a recording, which is read once for it; none where its event says nothing about
    /// executions or time.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn of(input: &Input) -> Result<Option<Sampling>, perfdata::Error> {
        let Some(event) = sampling(input.attrs()) else { return Ok(None) };
        let Some(unit) = unit(event) else { return Ok(None) };
        let (samples, passed) = passed(input, event)?;
        let has_stacks = event.has_branch_stack();
        let period = event.period_or_freq.max(1);
        Ok(Some(Sampling { unit, has_stacks, period, samples, passed }))
    }

    /// What the samples stand for that this ledger has, of the recording or of a part of it; `rate`
    /// are taken branches for each second of CPU time, where somebody knows them.
    pub fn law(&self, ledger: &Ledger, rate: Option<u64>) -> Option<Law> {
        let own = ledger.samples.entered;
        let counts = if self.has_stacks { ledger.branches.entered } else { own };
        let samples = u128::from(self.samples.max(1));
        let passed = self.passed.checked_mul(u128::from(own))? / samples;
        let (unit, events) = match (self.unit, rate) {
            // Each operation is as likely to be picked; SPE states the period of the event.
            (Unit::Executions, _) => (self.unit, u128::from(counts) * u128::from(self.period)),
            (Unit::Ns, Some(rate)) => {
                (Unit::Branches, passed.checked_mul(u128::from(rate))? / u128::from(NS))
            }
            _ => (self.unit, passed),
        };
        let events = u64::try_from(events).ok().filter(|events| *events > 0 && counts > 0);
        events.map(|events| Law { unit, events, counts })
    }
}

/// The samples of an event, and the sum of their periods.
fn passed(input: &Input, event: &EventAttr) -> Result<(u64, u128), perfdata::Error> {
    let place = input.attrs().iter().position(|attr| attr == event);
    let usual = period(event).unwrap_or(0);
    let (mut samples, mut sum) = (0, 0);
    for stream in 0..input.stream_count() {
        let mut chunks = input.stream_chunks(stream)?;
        while let Some(chunk) = chunks.next() {
            let chunk = chunk?;
            for raw in raw_records(&chunk.bytes, chunk.offset, input.endian()) {
                if raw.kind != perfdata::kind::SAMPLE {
                    continue;
                }
                let Ok(layout) = input.layouts().for_sample(raw.body) else { continue };
                if usize::try_from(layout.attr_index()).ok() != place {
                    continue;
                }
                if let Ok(sample) = layout.chain(&raw) {
                    samples += 1;
                    sum += u128::from(sample.period.unwrap_or(usual));
                }
            }
            chunks.recycle(chunk.bytes);
        }
    }
    Ok((samples, sum))
}

/// What the period of an event counts.
fn unit(event: &EventAttr) -> Option<Unit> {
    let name = event.name.as_deref().unwrap_or_default();
    Some(match (event.kind, event.config) {
        _ if name.starts_with("taken-branches") => Unit::Branches,
        _ if name.starts_with("arm_spe") => Unit::Executions,
        (SOFTWARE, config) if CLOCKS.contains(&config) => Unit::Ns,
        (HARDWARE, CYCLES) => Unit::Cycles,
        (HARDWARE, BRANCHES) => Unit::Branches,
        // Retired taken branches of Intel's and AMD's processors, and cycles.
        (RAW, 0x20c4 | 0xc4) => Unit::Branches,
        (RAW, 0x3c | 0x76) => Unit::Cycles,
        _ => return None,
    })
}

/// The word for what a sample of the event is, see `docs/reference/counts-format.md`.
fn source(attr: &EventAttr) -> &'static str {
    // The names that `planish record` gives to events without hardware.
    let emulated = ["taken-branches:u", "taken-branches:k"];
    let name = attr.name.as_deref().unwrap_or_default();
    match (attr.has_branch_stack(), is_clock(attr)) {
        // No clock has branch stacks of hardware.
        (true, true) => "software-branches",
        (true, false) if emulated.contains(&name) && attr.read_format != 0 => "software-branches",
        (true, false) if emulated.contains(&name) => "emulated",
        (true, false) => "hardware-branches",
        (false, true) => "clock",
        (false, false) if name.starts_with("arm_spe") => "spe",
        (false, false) => "event",
    }
}

/// Entries of the processor's branch stack, where the recording lists the processor's abilities.
fn depth(said: &Features) -> Option<u32> {
    let mut all = said.pmu_caps.iter().flat_map(|(_, caps)| caps);
    all.find(|(name, _)| name == "branches").and_then(|(_, number)| number.parse().ok())
}

/// The first and the last sample's time by the wall clock, in seconds since 1970.
fn window(said: &Features) -> Option<(u64, u64)> {
    let ((_, wall, own), times) = (said.clock_data?, said.sample_time?);
    let at = |time: u64| {
        let wall = i128::from(wall) + i128::from(time) - i128::from(own);
        u64::try_from(wall).ok().map(|wall| wall / NS)
    };
    let (from, to) = (at(times.first_ns)?, at(times.last_ns)?);
    (from <= to).then_some((from, to))
}
