//! How long do kernels take with the workload? They boot again and again in random order, each
//! boot is one observation of each section, and `compare` judges as it judges programs.

mod boots;
mod clock;
mod sums;

pub use boots::{Boots, Clock};
pub use sums::NAMES as SUMS;

use crate::Error;
use boots::{OPERATIONS, SECTION};
use compare::result::{Compared, Measurement};
use compare::{
    Analysis, AnalysisOptions, Benchmark, Design, LAYOUTS_ADVICE, Recorded, Settings, Teller,
    Variant, Work, analyse, kept,
};
use record::machine::Execution;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use sums::{HELD, KIND};

/// The kernel's door to the CPU's means for machines.
pub const KVM: &str = "/dev/kvm";

/// What `planish kernel time --format json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Timed {
    schema: &'static str,
    version: u32,
    /// The times are an emulator's, not a CPU's.
    pub emulated_time: bool,
    /// qemu and its version.
    pub emulator: String,
    /// Rounds that were asked for.
    pub rounds: u32,
    /// The sections that state a time.
    pub sections: Vec<Section>,
    /// The form of `planish compare`; its benchmarks are the sections and both sums.
    pub comparison: Measurement,
}

/// A section with a time.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// The number of its marker.
    pub number: u8,
    /// Its benchmark in the comparison.
    pub name: String,
    /// Never recorded, only measured.
    pub held_out: bool,
    /// What one boot does; the time of a section over this is that of one operation.
    pub operations: u64,
}

/// Boots every kernel of the design once a round and judges the times of the sections; the sections
/// become the design's benchmarks. Ended by the user, it tells what was measured until then.
///
/// # Errors
/// When a machine fails or hangs, or kernels run different sections;
/// [`compare::Error::Interrupted`] where the user ended it before there was anything to tell. What
/// was measured is kept.
pub fn measure(
    boots: Boots<'_>,
    design: Design,
    options: &AnalysisOptions,
    stop: &AtomicBool,
    teller: &mut dyn Teller,
) -> Result<Timed, Error> {
    let emulated = boots.clock == Clock::Emulated;
    let (analysis, recorded) = judged(boots, design, options, stop, teller)?;
    let emulator = record::code_metrics::machine::version(Path::new("qemu-system-x86_64"));
    Ok(Timed::of(analysis.measurement, &recorded, emulated, emulator))
}

/// The same, as `compare` judges it: of the sections, and of the sums of each kind.
///
/// # Errors
/// As [`measure`].
pub fn judged(
    mut boots: Boots<'_>,
    design: Design,
    options: &AnalysisOptions,
    stop: &AtomicBool,
    teller: &mut dyn Teller,
) -> Result<(Analysis, Recorded), Error> {
    let before = boots.before(design)?;
    let keep = boots.keep;
    let (recorded, interrupted) =
        compare::measure_by(&mut boots, before, Work::Boots, keep, stop, teller)?;
    if let Some(path) = boots.keep.raw.filter(|_| interrupted && !recorded.runs.is_empty()) {
        teller.note(&format!(
            "interrupted; the boots so far are kept in {}, --resume goes on",
            path.display()
        ));
    }
    let mut analysis = match analyse(&[sums::with_sums(&recorded)], options) {
        Err(compare::Error::TooFew(reason)) if interrupted => {
            return Err(compare::Error::Interrupted(reason).into());
        }
        other => other?,
    };
    let comparison = &mut analysis.measurement;
    comparison.interrupted = interrupted;
    comparison.raw = boots.keep.raw.iter().map(|path| path.display().to_string()).collect();
    // Means over rows would take sections of one boot for independent, and count the sums again.
    comparison.indices.clear();
    Ok((analysis, recorded))
}

/// The design of a comparison of kernels, each with its name and boot image, the base first.
///
/// # Errors
/// Where an image cannot be read.
pub fn design(kernels: &[(String, PathBuf)], settings: &Settings) -> Result<Design, Error> {
    let variant = |(name, image): &(String, PathBuf)| {
        Ok(Variant {
            name: name.clone(),
            description: image.display().to_string(),
            binaries: vec![image.clone()],
            digests: vec![kept::digest(image)?],
            ..Variant::default()
        })
    };
    let variants = kernels.iter().map(variant).collect::<Result<_, Error>>()?;
    Ok(Design { variants, ..settings.design() })
}

/// A machine on the CPU by KVM, as whose CPU model kernels see `cpu`.
///
/// # Errors
/// Where `kvm` cannot be opened.
pub fn on_the_cpu(kvm: &Path, cpu: &str) -> Result<Execution, Error> {
    let opened = std::fs::OpenOptions::new().read(true).write(true).open(kvm);
    opened.map_err(|source| Error::NoKvm { kvm: kvm.to_owned(), source })?;
    Ok(Execution::Kvm { cpu: cpu.to_owned() })
}

impl Timed {
    /// Puts a comparison of the sections and sums together with what the sections are.
    fn of(
        mut comparison: Measurement,
        recorded: &Recorded,
        emulated: bool,
        emulator: String,
    ) -> Timed {
        for row in &mut comparison.comparisons {
            for warning in &mut row.warnings {
                // There are no layouts of kernels to measure.
                *warning = warning.replace(LAYOUTS_ADVICE, "");
            }
        }
        Timed {
            schema: "planish-kernel-time",
            version: 1,
            emulated_time: emulated,
            emulator,
            rounds: recorded.design.rounds,
            sections: recorded.design.benchmarks.iter().filter_map(section).collect(),
            comparison,
        }
    }

    /// The rows of the sums.
    pub fn sums(&self) -> impl Iterator<Item = &Compared> {
        self.comparison.comparisons.iter().filter(|row| SUMS.contains(&row.benchmark.as_str()))
    }
}

fn section(benchmark: &Benchmark) -> Option<Section> {
    let parameter = |name: &str| benchmark.parameters.get(name).map(String::as_str);
    Some(Section {
        number: parameter(SECTION)?.parse().ok()?,
        name: benchmark.name.clone(),
        held_out: parameter(KIND) == Some(HELD),
        operations: parameter(OPERATIONS)?.parse().ok()?,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    #[test]
    fn without_kvm_kernels_are_not_timed() {
        let dir = tempfile::tempdir().unwrap();
        let door = dir.path().join("kvm");
        let error = on_the_cpu(&door, "host").unwrap_err();
        let error = format!("{error}: {}", std::error::Error::source(&error).unwrap());
        for part in ["/kvm: ", "--emulated", "says nothing about", "No such file"] {
            assert!(error.contains(part), "no `{part}` in: {error}");
        }
        std::fs::write(&door, "").unwrap();
        let host = Execution::Kvm { cpu: "host".to_owned() };
        assert_eq!(on_the_cpu(&door, "host").unwrap(), host);
        let nobody = std::os::unix::fs::PermissionsExt::from_mode(0o000);
        std::fs::set_permissions(&door, nobody).unwrap();
        match on_the_cpu(&door, "host") {
            Ok(_) => eprintln!(
                "skipped: a device that may not be opened, as this user may open everything"
            ),
            Err(error) => assert!(error.to_string().contains("Permission denied"), "{error}"),
        }
    }
}
