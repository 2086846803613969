//! What of a kernel's run is recorded, and what came of it?

use crate::Error;
use counts::Ledger;
use counts::aggregate::Aggregated;
use counts::kernel::{KernelText, aggregate};
use counts::traces::{Trace, TraceCount};
use image::Image;
use record::kernel::{Counted, KernelOptions};
use record::machine::{Guest, Transcript, Watcher};
use serde::Serialize;
use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Taken branches between two samples under emulation: 330,000 samples of the workload's training
/// sections, in 250 MB.
pub const PERIOD: u64 = 250;
/// Taken branches between two samples of hardware: what the kernel's document on AutoFDO
/// recommends, a prime.
const HARDWARE_PERIOD: u64 = 500_009;

/// The words of `planish record` that record the running kernel on all CPUs, but for the output and
/// the command; `cpuinfo` is the text of /proc/cpuinfo.
///
/// # Errors
/// Where no event is known for the CPU.
pub fn by_hardware(cpuinfo: &str, period: Option<NonZeroU64>) -> Result<Vec<String>, Error> {
    let event = event(cpuinfo).ok_or_else(|| {
        Error::Wanted(
            "no event for this CPU is known; Intel's and AMD's are. Try: planish record -a -b -e \
             cycles:k"
                .to_owned(),
        )
    })?;
    let period = period.map_or(HARDWARE_PERIOD, NonZeroU64::get).to_string();
    Ok(["record", "-a", "--branches=hardware", "-e", event, "-c", &period]
        .map(str::to_owned)
        .into())
}

/// The event that counts taken branches in the kernel, by the CPU's vendor: Intel's
/// BR_INST_RETIRED.NEAR_TAKEN (event 0xc4, umask 0x20), AMD's RETIRED_TAKEN_BRANCH_INSTRUCTIONS
/// (event 0xc4), which BRS and LBRv2 both sample with.
fn event(cpuinfo: &str) -> Option<&'static str> {
    let vendor = cpuinfo.lines().find_map(|line| line.strip_prefix("vendor_id")?.split(':').nth(1));
    match vendor?.trim() {
        "GenuineIntel" => Some("r20c4:k"),
        "AuthenticAMD" | "HygonGenuine" => Some("rc4:k"),
        _ => None,
    }
}

/// Parts of a machine's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sections {
    /// The training sections of the workload.
    Train,
    /// The held-out ones.
    Held,
    /// All sections.
    All,
    /// Everything, also booting.
    Everything,
}

impl Sections {
    /// The numbers of its sections, by the agreement with the workload.
    pub fn numbers(self) -> Option<RangeInclusive<u8>> {
        match self {
            Sections::Train => Some(1..=99),
            Sections::Held => Some(101..=199),
            Sections::All => Some(1..=199),
            Sections::Everything => None,
        }
    }

    /// What the workload is told to run.
    pub fn word(self) -> &'static str {
        match self {
            Sections::Train => "train",
            Sections::Held => "held",
            Sections::All | Sections::Everything => "all",
        }
    }
}

/// A recording, as `planish kernel record --format json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Recording {
    /// The file.
    pub output: String,
    /// Its size.
    pub bytes: u64,
    /// Samples, entries of their branch stacks and samples that were lost; absent where every branch
    /// was counted.
    pub samples: Option<u64>,
    /// See `samples`.
    pub branch_entries: Option<u64>,
    /// See `samples`.
    pub lost_samples: Option<u64>,
    /// Branches of the kernel taken while it was recorded.
    pub taken_branches: Option<u64>,
    /// What only counts have.
    #[serde(flatten)]
    pub counted: Option<Traces>,
    /// How long it took.
    pub seconds: f64,
    /// Names of the sections that ran.
    pub sections: Vec<String>,
}

/// What every taken branch of a run came to.
#[derive(Clone, Debug, Serialize)]
pub struct Traces {
    /// Distinct pairs of a branch and the next.
    pub traces: usize,
    /// What could not be used.
    pub ledger: Ledger,
}

impl Recording {
    /// A recording of samples.
    fn of_samples(output: &Path, recorded: &record::kernel::Recorded) -> Recording {
        let summary = &recorded.summary;
        Recording {
            output: output.display().to_string(),
            bytes: summary.bytes,
            samples: Some(summary.samples),
            branch_entries: Some(summary.branch_entries),
            lost_samples: Some(summary.lost_samples),
            taken_branches: summary.taken_branches,
            counted: None,
            seconds: summary.elapsed.as_secs_f64(),
            sections: names(&recorded.transcript),
        }
    }

    /// Counts of every branch, in a file of so many bytes.
    pub fn of_counts(output: &Path, bytes: u64, counted: &Counted, ledger: Ledger) -> Recording {
        Recording {
            output: output.display().to_string(),
            bytes,
            samples: None,
            branch_entries: None,
            lost_samples: None,
            taken_branches: Some(counted.taken_branches),
            counted: Some(Traces { traces: counted.traces.len(), ledger }),
            seconds: counted.elapsed.as_secs_f64(),
            sections: names(&counted.transcript),
        }
    }
}

fn names(said: &Transcript) -> Vec<String> {
    said.sections.iter().map(|section| section.name.clone()).collect()
}

/// The kernel with symbols that belongs to what is booted: the one named, or that of the build's
/// directory.
///
/// # Errors
/// Where none is known.
pub fn vmlinux(kernel: &Path, named: Option<&Path>) -> Result<PathBuf, Error> {
    match named {
        Some(path) => Ok(path.to_owned()),
        None if kernel.is_dir() => Ok(kernel.join("vmlinux")),
        None => Err(Error::Wanted(format!(
            "--counts: addresses are counted in the kernel's vmlinux, and none is known beside \
             {}; name it with --binary",
            kernel.display()
        ))),
    }
}

/// Boots a kernel and records branch stacks to `output`; `None` where the user ended it.
///
/// # Errors
/// Where the machine fails, or the recording cannot be written.
pub fn sample(
    guest: &Guest,
    options: &KernelOptions,
    output: &Path,
    watch: &mut Watcher<'_>,
) -> Result<Option<Recording>, Error> {
    match record::kernel::record(&guest.argv(), output, options, watch) {
        Err(error) if crate::machine::is_interrupted(&error) => Ok(None),
        Err(error) => Err(Error::doing(format!("recording {}", guest.kernel.display()))(error)),
        Ok(recorded) => Ok(Some(Recording::of_samples(output, &recorded))),
    }
}

/// Boots a kernel and counts every branch that it takes in `image`, the kernel with symbols;
/// `output` names the counts in messages. Branches in the modules that `options` name count too.
/// `None` where the user ended it.
///
/// # Errors
/// Where the machine fails, or the kernel is another one than that of `image`.
pub fn count(
    guest: &Guest,
    options: &KernelOptions,
    image: &Arc<Image>,
    output: &Path,
    watch: &mut Watcher<'_>,
) -> Result<Option<(Counted, Aggregated)>, Error> {
    let counted = match record::kernel::count(&guest.argv(), output, options, watch) {
        Err(error) if crate::machine::is_interrupted(&error) => return Ok(None),
        other => other.map_err(Error::doing(format!("counting {}", guest.kernel.display())))?,
    };
    let (start, end) = counted.text;
    let build_id = counted.build_id.clone();
    let mut texts = vec![KernelText { start, end, name: counted.map_name.to_owned(), build_id }];
    texts.extend(counted.modules.iter().map(|module| {
        let (start, end) = module.text();
        let (name, build_id) = (module.path.clone(), module.build_id.clone());
        KernelText { start, end, name, build_id }
    }));
    let mut images = vec![Arc::clone(image)];
    for path in options.modules.values() {
        images.push(Arc::new(Image::open(path)?));
    }
    let traces = counted.traces.iter().map(|counted| {
        let next_from = counted.next_from.unwrap_or(Trace::NONE);
        let trace = Trace { from: counted.from, to: counted.to, next_from };
        TraceCount { trace, count: counted.count, mispredicted: 0 }
    });
    let found = aggregate(output, &texts, traces, &images);
    Ok(Some((counted, found.map_err(Error::Counts)?)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    #[test]
    fn the_event_is_the_cpus_own() {
        let of = |vendor: &str| {
            event(&format!("processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: 6\n"))
        };
        assert_eq!(of("GenuineIntel"), Some("r20c4:k"));
        assert_eq!(of("AuthenticAMD"), Some("rc4:k"));
        assert_eq!(of("Other"), None);
        assert_eq!(event(""), None);
    }

    #[test]
    fn training_and_held_out_sections_do_not_meet() {
        let (train, held) = (Sections::Train.numbers().unwrap(), Sections::Held.numbers().unwrap());
        assert!(train.end() < held.start());
        assert!(Sections::Everything.numbers().is_none());
    }

    #[test]
    fn the_vmlinux_is_that_of_the_build_or_the_one_named() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(vmlinux(dir.path(), None).unwrap(), dir.path().join("vmlinux"));
        assert_eq!(vmlinux(dir.path(), Some(Path::new("x"))).unwrap(), Path::new("x"));
        let error = vmlinux(&dir.path().join("bzImage"), None).unwrap_err().to_string();
        assert!(error.contains("bzImage") && error.contains("--binary"), "{error}");
    }
}
