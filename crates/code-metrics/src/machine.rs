//! Layout metrics of the kernel of an emulated machine, section by section of its run.
//!
//! A program of the guest divides the run into sections with markers, instructions that do nothing.
//! Only the kernel is simulated. At every marker the simulated caches are emptied, so that the
//! numbers of a section do not depend on the sections before it; a section entered twice pays for
//! its cold start twice, and its counts add up. Under a deterministic machine
//! ([`record::machine::Guest`]) two runs of the same kernel give the same numbers.

pub use crate::run::version;

use crate::metrics::{Better, Figure};
use crate::{Error, Geometry, result, run};
use record::machine::{Limits, Plugin, Run, Transcript, Watcher};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How to measure.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The simulated caches and translation buffers of each virtual CPU.
    pub geometry: Geometry,
    /// The plugin, when it is not where it is looked for.
    pub plugin: Option<PathBuf>,
    /// The machine is killed when it did not end after this much wall time.
    pub timeout: Option<Duration>,
    /// The workload must print `planish: end` before the machine ends.
    pub to_the_end: bool,
}

/// What the kernel did in a section, all virtual CPUs together. The counts are those of
/// [`CodeMetrics`](crate::CodeMetrics), of the kernel's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionMetrics {
    /// Its number; 0 is outside of all sections, the boot for instance.
    pub section: u8,
    /// Instructions executed. A repeated string instruction counts once; what a fault breaks off
    /// counts to the end of its block.
    pub instructions: u64,
    /// Branch instructions executed, taken or not.
    pub branches: u64,
    /// Branches taken, from kernel code to kernel code.
    pub taken_branches: u64,
    /// Conditional branches executed.
    pub conditional_branches: u64,
    /// Conditional branches taken.
    pub conditional_taken: u64,
    /// Misses of the first-level instruction cache, in lines.
    pub l1i_misses: u64,
    /// Those of them that miss in the second level too.
    pub l2_misses: u64,
    /// Misses of the instruction translation buffer with pages of 4 KiB.
    pub itlb_4k_misses: u64,
    /// Misses of the instruction translation buffer with pages of 2 MiB, on which kernels put
    /// their text.
    pub itlb_2m_misses: u64,
    /// Distinct cache lines with executed code.
    pub code_lines: u64,
    /// Distinct pages of 4 KiB with executed code.
    pub code_pages_4k: u64,
    /// Distinct pages of 2 MiB with executed code.
    pub code_pages_2m: u64,
    /// Interrupts and faults of the kernel, entered or left.
    pub interruptions: u64,
}

impl SectionMetrics {
    /// The counts, in the order of a report; less of each is better.
    pub fn figures(&self) -> Vec<Figure> {
        [
            ("instructions", "instructions", self.instructions),
            ("taken branches", "taken_branches", self.taken_branches),
            ("L1i misses", "l1i_misses", self.l1i_misses),
            ("L2 misses (code)", "l2_misses", self.l2_misses),
            ("iTLB misses, 4 KiB", "itlb_4k_misses", self.itlb_4k_misses),
            ("iTLB misses, 2 MiB", "itlb_2m_misses", self.itlb_2m_misses),
            ("code lines touched", "code_lines", self.code_lines),
            ("code pages touched, 4 KiB", "code_pages_4k", self.code_pages_4k),
            ("code pages touched, 2 MiB", "code_pages_2m", self.code_pages_2m),
        ]
        .map(|(name, key, value)| Figure {
            name,
            key,
            unit: "",
            value: value as f64,
            better: Better::Lower,
        })
        .into()
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

/// Runs a machine, `argv` being a `qemu-system-x86_64` command with `-serial stdio`, and counts
/// what its kernel does in each section of the run. `watch` gets the lines of the console as they
/// come. It takes about 1.2 times as long as the machine without counting.
///
/// # Errors
/// [`Error::Machine`] when qemu or the plugin is missing, or the machine or its workload failed,
/// hung or was interrupted; [`Error::Geometry`], [`Error::Result`] and [`Error::NoResult`] as for
/// programs.
pub fn measure(
    argv: &[OsString],
    options: &Options,
    watch: &mut Watcher<'_>,
) -> Result<Measured, Error> {
    options.geometry.check().map_err(Error::Geometry)?;
    let dir = tempfile::Builder::new().prefix("planish-metrics-").tempdir();
    let dir = dir.map_err(Error::io(&std::env::temp_dir(), "make a temporary directory"))?;
    let result = dir.path().join("result");
    beside::fresh(&result).map_err(Error::io(&result, "create"))?;
    let mut settings = vec![("metrics", result.clone().into_os_string())];
    settings.extend(run::shapes(&options.geometry).map(|(name, shape)| (name, shape.into())));
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
    let sections = found.into_iter().map(|(number, sums)| section(number, &sums)).collect();
    Ok(Measured { sections, transcript, emulator: run::version(Path::new(&emulator)) })
}

fn section(number: u8, sums: &result::Sums) -> SectionMetrics {
    SectionMetrics {
        section: number,
        instructions: sums.instructions,
        branches: sums.branches,
        taken_branches: sums.taken_branches,
        conditional_branches: sums.conditional_branches,
        conditional_taken: sums.conditional_taken,
        l1i_misses: sums.l1i_misses,
        l2_misses: sums.l2_misses,
        itlb_4k_misses: sums.itlb_4k_misses,
        itlb_2m_misses: sums.itlb_2m_misses,
        code_lines: sums.code_lines,
        code_pages_4k: sums.code_pages_4k,
        code_pages_2m: sums.code_pages_2m,
        interruptions: sums.interruptions,
    }
}
