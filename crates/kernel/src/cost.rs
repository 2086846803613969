//! What does a kernel's code cost? Counts of each section of the workload, sums of the training and
//! of the held-out ones, and sizes, side by side for several kernels.

use crate::Error;
use crate::machine::{BootImage, BootMachine, Initrd, is_interrupted};
use object::{Object, ObjectSection, SectionKind};
use record::code_metrics::machine::{MachineMetricsOptions, SectionMetrics};
use record::code_metrics::{DataGeometry, Geometry};
use record::machine::{Execution, Watcher};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// All kernels that were measured, the base first. What `planish kernel measure --format json`
/// prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// `planish-kernel-measure`.
    pub schema: String,
    /// Of this form.
    pub version: u32,
    /// The emulator and its version.
    pub emulator: String,
    /// The sections of the workload.
    pub sections: Vec<Section>,
    /// The kernels.
    pub kernels: Vec<Kernel>,
    /// The caches that they are counted with.
    #[serde(skip)]
    pub code: Geometry,
    /// Those for loads and stores, where these are simulated, too.
    #[serde(skip)]
    pub data: Option<DataGeometry>,
}

/// A section of the workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// The number of its marker.
    pub number: u8,
    /// Its name.
    pub name: String,
    /// Never recorded, only measured.
    pub held_out: bool,
}

/// What one kernel cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// Its name here.
    pub name: String,
    /// The boot image.
    pub image: String,
    /// By section.
    pub sections: Vec<SectionMetrics>,
}

/// Sizes of a kernel's parts in memory, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// Which kernel.
    pub name: String,
    /// Code.
    pub text: u64,
    /// Data, read-only or not.
    pub data: u64,
    /// Zeroed memory.
    pub bss: u64,
    /// The file with symbols.
    pub file: u64,
}

/// One figure of several sections: its name, and where it stands.
pub type Figure = (&'static str, fn(&SectionMetrics) -> u64);

/// The kernel with every function aligned, which is there for comparison alone.
pub const ALIGNED: &str = "aligned";

/// The columns. Lines and pages are sums over sections, since each section is a workload of its
/// own.
pub const FIGURES: [Figure; 7] = [
    ("instructions", |m| m.instructions),
    ("taken branches", |m| m.taken_branches),
    ("L1i misses", |m| m.l1i_misses),
    ("iTLB misses 4K", |m| m.itlb_4k_misses),
    ("iTLB misses 2M", |m| m.itlb_2m_misses),
    ("lines touched", |m| m.code_lines),
    ("4K pages touched", |m| m.code_pages_4k),
];

impl Default for Counts {
    fn default() -> Counts {
        let (emulator, sections, kernels, code, data) = Default::default();
        let schema = "planish-kernel-measure".to_owned();
        Counts { schema, version: 1, emulator, sections, kernels, code, data }
    }
}

impl Counts {
    fn is(&self, number: u8, held_out: bool) -> bool {
        self.sections.iter().any(|section| section.number == number && section.held_out == held_out)
    }

    /// Boots one kernel more under emulation, where a run repeats itself, and counts what its code
    /// costs; false where the user ended it. `watch` gets the console's lines.
    ///
    /// # Errors
    /// Where the machine fails, or the workload runs other sections than on the first kernel.
    pub fn boot(
        &mut self,
        name: String,
        image: &BootImage,
        machine: &BootMachine,
        initrd: &Initrd,
        watch: &mut Watcher<'_>,
    ) -> Result<bool, Error> {
        let guest = machine.guest(image, &initrd.path, "all", Execution::Deterministic);
        let options = MachineMetricsOptions {
            timeout: Some(machine.timeout()),
            to_the_end: true,
            geometry: self.code,
            data: self.data,
            ..MachineMetricsOptions::default()
        };
        let measured = match record::code_metrics::machine::measure(&guest.argv(), &options, watch)
        {
            Err(record::code_metrics::Error::Machine(error)) if is_interrupted(&error) => {
                return Ok(false);
            }
            other => other
                .map_err(Error::doing(format!("measuring {name} ({})", image.path.display())))?,
        };
        let section = |section: &record::machine::Section| Section {
            number: section.number,
            name: section.name.clone(),
            held_out: section.held_out,
        };
        let sections: Vec<Section> = measured.transcript.sections.iter().map(section).collect();
        if self.kernels.is_empty() {
            self.sections = sections;
            self.emulator = measured.emulator;
        } else if self.sections != sections {
            return Err(Error::Wanted(format!(
                "{name}: the workload ran other sections than on the first kernel ({} and {}); \
                 counts cannot be set side by side",
                sections.len(),
                self.sections.len()
            )));
        }
        let image = image.path.display().to_string();
        self.kernels.push(Kernel { name, image, sections: measured.sections });
        Ok(true)
    }

    /// The sum of a figure over the training or the held-out sections.
    pub fn sum(&self, kernel: &Kernel, held_out: bool, figure: Figure) -> u64 {
        let here = kernel.sections.iter().filter(|metrics| self.is(metrics.section, held_out));
        here.map(|metrics| figure.1(metrics)).fold(0, u64::saturating_add)
    }

    /// The last kernel but for one that is there for comparison.
    pub fn last(&self) -> Option<&Kernel> {
        self.kernels.iter().rev().find(|kernel| kernel.name != ALIGNED)
    }

    /// The same beside the base's, where that is not zero.
    pub fn ratio(&self, kernel: &Kernel, held_out: bool, figure: Figure) -> Option<f64> {
        let base = self.sum(self.kernels.first()?, held_out, figure);
        (base > 0).then(|| self.sum(kernel, held_out, figure) as f64 / base as f64)
    }

    /// Whether the last kernel takes more branches or fetches more lines anew than the first, in
    /// training or in held-out sections.
    pub fn is_worse(&self) -> bool {
        let Some(last) = self.last() else { return false };
        let [_, taken, l1i, ..] = FIGURES;
        let ratios = [false, true]
            .into_iter()
            .flat_map(|held| [taken, l1i].map(|figure| self.ratio(last, held, figure)));
        ratios.flatten().any(|ratio| ratio > 1.0)
    }
}

/// Reads the sizes of each kernel's file, which `path` names.
///
/// # Errors
/// Where one cannot be read.
pub fn sizes(counts: &Counts, path: impl Fn(&str) -> PathBuf) -> Result<Vec<Sizes>, Error> {
    counts.kernels.iter().map(|kernel| size(&kernel.name, &path(&kernel.name))).collect()
}

fn size(name: &str, path: &Path) -> Result<Sizes, Error> {
    let bytes = beside::given::read(path, beside::given::DATA).map_err(Error::io(path))?;
    let file = object::File::parse(&*bytes)
        .map_err(|error| Error::Vmlinux { path: path.to_owned(), reason: error.to_string() })?;
    let mut sizes =
        Sizes { name: name.to_owned(), text: 0, data: 0, bss: 0, file: bytes.len() as u64 };
    for section in file.sections() {
        let sum = match section.kind() {
            SectionKind::Text => &mut sizes.text,
            SectionKind::UninitializedData => &mut sizes.bss,
            SectionKind::Data | SectionKind::ReadOnlyData | SectionKind::ReadOnlyString => {
                &mut sizes.data
            }
            _ => continue,
        };
        *sum = sum.saturating_add(section.size());
    }
    Ok(sizes)
}

/// What became of a kernel: the JSON form of `planish kernel optimize`.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// All steps together.
    pub seconds: f64,
    /// Under each kernel's name the ratios to the base, over the training sections.
    training: Ratios,
    /// The same over the held-out sections.
    held_out: Ratios,
    /// Sizes of the kernels.
    pub sizes: Vec<Sizes>,
    /// The counts.
    pub counts: Counts,
}

type Ratios = BTreeMap<String, BTreeMap<&'static str, Option<f64>>>;

impl Outcome {
    /// Puts counts and sizes together.
    pub fn of(counts: Counts, sizes: Vec<Sizes>, seconds: f64) -> Outcome {
        let ratios = |held_out: bool| -> Ratios {
            let of = |kernel: &Kernel| {
                let ratio = |figure: Figure| (figure.0, counts.ratio(kernel, held_out, figure));
                FIGURES.map(ratio).into()
            };
            counts.kernels.iter().map(|kernel| (kernel.name.clone(), of(kernel))).collect()
        };
        let (training, held_out) = (ratios(false), ratios(true));
        Outcome { seconds, training, held_out, sizes, counts }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;
    use record::code_metrics::Counters;
    use serde_json::Value;

    fn counts() -> Counts {
        let metrics = SectionMetrics {
            section: 1,
            counters: Counters {
                instructions: 400,
                branches: 100,
                taken_branches: 50,
                conditional_branches: 80,
                conditional_taken: 40,
                l1i_misses: 20,
                l2_misses: 10,
                itlb_4k_misses: 4,
                itlb_2m_misses: 0,
                code_lines: 9,
                code_pages_4k: 3,
                code_pages_2m: 1,
                data_accesses: 150,
                l1d_misses: 12,
                dtlb_4k_misses: 3,
                interruptions: 2,
            },
        };
        let less = SectionMetrics {
            counters: Counters { taken_branches: 40, ..metrics.counters },
            ..metrics
        };
        let kernel = |name: &str, metrics| Kernel {
            name: name.to_owned(),
            image: format!("{name}.bzImage"),
            sections: vec![metrics],
        };
        Counts {
            schema: "planish-kernel-measure".to_owned(),
            version: 1,
            emulator: "QEMU".to_owned(),
            sections: vec![Section { number: 1, name: "syscall".to_owned(), held_out: false }],
            kernels: vec![kernel("base", metrics), kernel("new", less)],
            ..Counts::default()
        }
    }

    /// The keys of all objects in a value.
    fn keys(value: &Value, found: &mut std::collections::BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                found.extend(map.keys().cloned());
                map.values().for_each(|value| keys(value, found));
            }
            Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
            _ => {}
        }
    }

    #[test]
    fn the_document_names_every_key_of_the_json_forms() {
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/kernel.md");
        let text = std::fs::read_to_string(document).unwrap();
        let rows: String =
            text.lines().filter(|line| line.starts_with("| `planish-kernel-")).collect();
        let sizes = [Sizes { name: "base".to_owned(), text: 1, data: 2, bss: 3, file: 4 }];
        let outcome = Outcome::of(counts(), sizes.into(), 1.0);
        let object = serde_json::to_value(outcome).unwrap();
        let mut found = std::collections::BTreeSet::new();
        keys(&object, &mut found);
        let of_the_table = |key: &String| FIGURES.iter().any(|figure| figure.0 == key.as_str());
        let of_all = ["schema", "version", "base", "new"];
        found.retain(|key| !of_all.contains(&key.as_str()) && !of_the_table(key));
        assert!(found.contains("interruptions") && found.contains("held_out"), "{found:?}");
        let named = |key: &String| {
            rows.contains(&format!("`{key}`")) || rows.contains(&format!("`{key}[]`"))
        };
        let missing: Vec<_> = found.iter().filter(|key| !named(key)).collect();
        assert!(missing.is_empty(), "{document} does not name {missing:?}");
        assert_eq!(object["training"]["new"]["taken branches"], 0.8);
        assert_eq!(object["training"]["new"]["iTLB misses 2M"], Value::Null);
        assert_eq!(object["held_out"]["new"]["taken branches"], Value::Null);
    }

    #[test]
    fn a_kernel_is_worse_when_one_count_that_is_judged_grows() {
        let mut counts = counts();
        assert!(!counts.is_worse());
        counts.kernels.reverse();
        assert!(counts.is_worse());
    }
}
