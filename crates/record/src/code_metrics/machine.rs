//! Layout metrics of the kernel of an emulated machine, section by section of its run.
//!
//! A program of the guest divides the run into sections with markers, instructions that do nothing.
//! Only the kernel is simulated. At every marker the simulated caches are emptied, so that the
//! numbers of a section do not depend on the sections before it; a section entered twice pays for
//! its cold start twice, and its counts add up. Under a deterministic machine
//! ([`crate::machine::Guest`]) two runs of the same kernel give the same numbers.

pub use super::run::version;

use super::{Counters, DataGeometry, Error, Geometry, result, run};
use crate::machine::{Limits, Plugin, Run, Transcript, Watcher};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How to measure.
#[derive(Clone, Debug, Default)]
pub struct MachineMetricsOptions {
    /// The simulated caches and translation buffers of each virtual CPU.
    pub geometry: Geometry,
    /// The plugin, when it is not where it is looked for.
    pub plugin: Option<PathBuf>,
    /// The machine is killed when it did not end after this much wall time.
    pub timeout: Option<Duration>,
    /// Caches for loads and stores of the kernel, where these are simulated too; that takes some 1.6
    /// times as long.
    pub data: Option<DataGeometry>,
    /// The workload must print `planish: end` before the machine ends.
    pub to_the_end: bool,
}

/// What the kernel did in a section, all virtual CPUs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionMetrics {
    /// Its number; 0 is outside of all sections, the boot for instance.
    pub section: u8,
    /// The counts, of the kernel's code.
    #[serde(flatten)]
    pub counters: Counters,
}

impl Deref for SectionMetrics {
    type Target = Counters;

    fn deref(&self) -> &Counters {
        &self.counters
    }
}

/// A measured run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The sections that began, by number; section 0 is always there.
    pub sections: Vec<SectionMetrics>,
    /// What the guest said: names and results of the sections.
    pub transcript: Transcript,
    /// The emulator and its version.
    pub emulator: String,
}

/// Runs a machine, `argv` being a command of `qemu-system` with `-serial stdio`, and counts
/// what its kernel does in each section of the run. `watch` gets the lines of the console as they
/// come. It takes about 1.2 times as long as the machine without counting.
///
/// # Errors
/// [`Error::Machine`] when qemu or the plugin is missing, or the machine or its workload failed,
/// hung or was interrupted; [`Error::Geometry`], [`Error::Result`] and [`Error::NoResult`] as for
/// programs.
pub fn measure(
    argv: &[OsString],
    options: &MachineMetricsOptions,
    watch: &mut Watcher<'_>,
) -> Result<Measured, Error> {
    options.geometry.check().map_err(Error::Geometry)?;
    let dir = tempfile::Builder::new().prefix("planish-metrics-").tempdir();
    let dir = dir.map_err(Error::io(&std::env::temp_dir(), "make a temporary directory"))?;
    let result = dir.path().join("result");
    beside::fresh(&result).map_err(Error::io(&result, "create"))?;
    let mut settings = vec![("metrics", result.clone().into_os_string())];
    settings.extend(run::shapes(&options.geometry).map(|(name, shape)| (name, shape.into())));
    if let Some(DataGeometry { l1d, dtlb_4k }) = options.data {
        settings.push(("l1d", l1d.to_string().into()));
        settings.push(("dtlb4k", dtlb_4k.to_string().into()));
    }
    let limits = Limits { timeout: options.timeout, to_the_end: options.to_the_end };
    let plugin = Some(Plugin { path: options.plugin.as_deref(), settings });
    let machine = Run { argv, plugin, limits };
    let text = || std::fs::read_to_string(&result);
    let loaded = || text().is_ok_and(|text| result::begun(&text));
    let transcript = machine.run(&loaded, watch).map_err(Error::Machine)?;
    let text = text().map_err(Error::io(&result, "read"))?;
    let found = result::read_sections(&text, options.geometry.l1i.line)?;
    let emulator = argv.first().cloned().unwrap_or_default();
    if found.is_empty() {
        let stderr = transcript.tail.join("\n");
        return Err(Error::NoResult { program: emulator.to_string_lossy().into_owned(), stderr });
    }
    let sections = found
        .into_iter()
        .map(|(section, sums)| SectionMetrics { section, counters: sums.counters })
        .collect();
    Ok(Measured { sections, transcript, emulator: run::version(Path::new(&emulator)) })
}
