//! What do the images of all variants cost, and what does that say of the variants? Counts of the deterministic machine, once
//! for each image, kept under what they were counted of; put to `compare` as the runs of programs in layouts.
//!
//! A count is the same on each boot, so an image boots once; its counts stand for as many rounds as the analysis needs to
//! tell images apart that differ. What is left to chance are the orders.

use super::builds::Images;
use super::caches::Caches;
use super::variant::KernelVariant;
use crate::Error;
use crate::cost::{Counts, Figure, Kernel, Section};
use crate::machine::{BootMachine, Initrd, boot_image};
use compare::result::Measurement;
use compare::{
    Analysis, AnalysisOptions, Benchmark, Design, Layouts, Metric, Recorded, Run, Settings,
    Variant, analyse, kept, layouts,
};
use record::machine::Execution;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The counts that variants are compared by; the first is the usual one.
pub const FIGURES: [Figure; 7] = [
    ("l1i-misses", |m| m.l1i_misses),
    ("taken-branches", |m| m.taken_branches),
    ("instructions", |m| m.instructions),
    ("itlb-4k-misses", |m| m.itlb_4k_misses),
    ("itlb-2m-misses", |m| m.itlb_2m_misses),
    ("l1d-misses", |m| m.l1d_misses),
    ("dtlb-4k-misses", |m| m.dtlb_4k_misses),
];

/// Whether a figure is of the data side, which is simulated only where it is asked for.
pub fn is_of_data(figure: &str) -> bool {
    matches!(figure, "l1d-misses" | "dtlb-4k-misses")
}

/// Rounds that the counts of an image stand for: enough to tell files apart among some hundred rows.
const ROUNDS: u32 = 14;
/// A section with fewer of the count that decides is too small to compare: one more is a percent.
const LEAST: u64 = 100;
/// Names of the sums over sections, training and held out.
const SUMS: [(&str, bool); 2] = [("training sections", false), ("held-out sections", true)];

/// How images boot.
#[derive(Debug)]
pub struct Booting<'b> {
    /// The machine.
    pub machine: &'b BootMachine,
    /// The workload.
    pub initrd: &'b Initrd,
    /// Where counts are kept.
    pub kept: &'b Path,
    /// The emulator and its version.
    pub emulator: String,
    /// The simulated caches.
    pub caches: &'b Caches,
    /// Whether loads and stores are simulated.
    pub with_data: bool,
}

impl Booting<'_> {
    /// The counts of an image, from an earlier call or by booting it; none where the user ended it.
    ///
    /// # Errors
    /// Where the machine fails.
    pub fn count(&self, name: &str, image: &Path) -> Result<Option<Counts>, Error> {
        let boots = boot_image(image)?;
        let guest = self.machine.guest(&boots, &self.initrd.path, "all", Execution::Deterministic);
        let mut hash = Sha256::new();
        for part in [
            kept::digest(image)?,
            kept::digest(&self.initrd.path)?,
            format!("{} {} {}", guest.memory_mib, guest.cpus, guest.append),
            self.emulator.clone(),
            env!("CARGO_PKG_VERSION").to_owned(),
        ] {
            hash.update(part);
            hash.update([0]);
        }
        if self.with_data {
            hash.update("data");
        }
        hash.update(self.caches.words());
        let path = self.kept.join(format!("{}.json", hex::encode(hash.finalize())));
        let there = beside::given::read(&path, beside::given::TEXT).ok();
        let there = there.and_then(|bytes| serde_json::from_slice::<Counts>(&bytes).ok());
        if let Some(there) = there.filter(|there| there.kernels.len() == 1) {
            return Ok(Some(there));
        }
        let mut counts = Counts {
            code: self.caches.code,
            data: self.with_data.then_some(self.caches.data),
            ..Counts::default()
        };
        let booted =
            counts.boot(name.to_owned(), &boots, self.machine, self.initrd, &mut |_, _| ())?;
        if !booted {
            return Ok(None);
        }
        let bytes = serde_json::to_vec(&counts).unwrap_or_default();
        std::fs::create_dir_all(self.kept).map_err(Error::io(self.kept))?;
        beside::write(&path, &bytes).map_err(Error::io(&path))?;
        Ok(Some(counts))
    }
}

/// The variants as a design, the base first.
///
/// # Errors
/// Where an image cannot be read.
pub fn design(variants: &[(KernelVariant, Images)], settings: &Settings) -> Result<Design, Error> {
    let variant = |(variant, images): &(KernelVariant, Images)| {
        let words: Vec<&str> =
            variant.options.iter().chain(&variant.make).map(String::as_str).collect();
        let digests: Result<Vec<String>, compare::Error> =
            images.images.iter().map(|image| kept::digest(image)).collect();
        Ok(Variant {
            name: variant.name.clone(),
            description: words.join(" "),
            binaries: images.images.clone(),
            digests: digests?,
            freedom: images.freedom.clone(),
            sizes: layouts::sizes(&images.vmlinux),
            ..Variant::default()
        })
    };
    let variants = variants.iter().map(variant).collect::<Result<Vec<_>, Error>>()?;
    let orders = variants.iter().any(|variant| variant.binaries.len() > 1);
    let layouts = if orders { Layouts::Independent } else { Layouts::None };
    Ok(Design { variants, layouts, ..settings.design() })
}

/// The runs that counts of all images on a machine, by variant and image, stand for; one of [`FIGURES`] decides.
///
/// # Errors
/// Where the workload ran other sections on one image.
pub fn recorded(
    mut design: Design,
    counts: &[Vec<Counts>],
    figure: &str,
) -> Result<Recorded, Error> {
    design.rounds = ROUNDS;
    let first = counts.first().and_then(|images| images.first());
    let sections = first.map(|first| first.sections.clone()).unwrap_or_default();
    for (own, variant) in counts.iter().zip(&design.variants) {
        if let Some(other) = own.iter().find(|own| own.sections != sections) {
            return Err(Error::Wanted(format!(
                "{}: the workload ran other sections than on the first kernel ({} and {}); counts cannot be set side \
                 by side",
                variant.name,
                other.sections.len(),
                sections.len()
            )));
        }
    }
    let mut figures: Vec<Figure> = FIGURES.to_vec();
    // The one that decides first; the others as they stand.
    figures.sort_by_key(|(name, _)| *name != figure);
    let rows = rows(&sections);
    let mut runs = Vec::new();
    for row in rows {
        let values: Vec<Vec<BTreeMap<String, f64>>> = counts
            .iter()
            .map(|own| own.iter().map(|one| row.values(one, &figures)).collect())
            .collect();
        let all = || values.iter().flatten();
        // What some image has none of has no ratio.
        let kept: Vec<Figure> = figures
            .iter()
            .filter(|(name, _)| all().all(|values| values.get(*name).is_some_and(|n| *n > 0.0)))
            .copied()
            .collect();
        let enough = all().all(|values| values.get(figure).is_some_and(|n| *n >= LEAST as f64));
        if !enough || kept.first().is_none_or(|(name, _)| *name != figure) {
            continue;
        }
        let metrics = kept.iter().map(|(name, _)| metric(name)).collect::<Result<Vec<_>, _>>()?;
        let benchmark = design.benchmarks.len();
        design.benchmarks.push(Benchmark {
            name: row.name.clone(),
            parameters: parameters_of(&row.name),
            command: vec!["{bin}".to_owned()],
            metrics,
        });
        runs.push((benchmark, values));
    }
    Ok(Recorded { runs: all_runs(&design, &runs), design, ..Recorded::default() })
}

/// Judges counts, of each machine those that [`recorded`] gives.
///
/// # Errors
/// Where they are too few to tell anything.
pub fn analysed(recorded: &[Recorded], options: &AnalysisOptions) -> Result<Analysis, Error> {
    let mut analysis = analyse(recorded, options)?;
    told(&mut analysis.measurement);
    Ok(analysis)
}

/// The parameters at the end of a section's name (`groups g=2 l=100`).
fn parameters_of(name: &str) -> BTreeMap<String, String> {
    let pairs = name.split(' ').rev().map_while(|word| word.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// What is compared: a section, or all of a kind.
struct Row {
    name: String,
    numbers: Vec<u8>,
}

impl Row {
    /// The sums of the figures over its sections, by name.
    fn values(&self, counts: &Counts, figures: &[Figure]) -> BTreeMap<String, f64> {
        let own = || counts.kernels.iter().flat_map(|kernel: &Kernel| &kernel.sections);
        let sum = |(_, of): &Figure| {
            let here = own().filter(|metrics| self.numbers.contains(&metrics.section));
            here.map(of).fold(0, u64::saturating_add)
        };
        figures.iter().map(|figure| (figure.0.to_owned(), sum(figure) as f64)).collect()
    }
}

fn rows(sections: &[Section]) -> Vec<Row> {
    let sum = |(name, held_out): (&str, bool)| {
        let own = sections.iter().filter(|section| section.held_out == held_out);
        Row { name: name.to_owned(), numbers: own.map(|section| section.number).collect() }
    };
    let one = |section: &Section| Row { name: section.name.clone(), numbers: vec![section.number] };
    SUMS.into_iter().map(sum).chain(sections.iter().map(one)).collect()
}

fn metric(name: &str) -> Result<Metric, Error> {
    Ok(Metric::parse(&format!("{name}=output:{name} ([0-9]+)"))?)
}

type Values = (usize, Vec<Vec<BTreeMap<String, f64>>>);

/// The runs that the counts stand for, each image in each round.
fn all_runs(design: &Design, values: &[Values]) -> Vec<Run> {
    let mut runs = Vec::new();
    for round in 0..=design.rounds {
        for (benchmark, of) in values {
            for slot in design.slots() {
                let layout = usize::try_from(slot.layout).unwrap_or(0);
                let own = of.get(slot.variant).and_then(|images| images.get(layout));
                let Some(printed) = own else { continue };
                runs.push(Run {
                    sequence: runs.len() as u64,
                    round,
                    benchmark: *benchmark,
                    variant: slot.variant,
                    layout: slot.layout,
                    copy: slot.copy,
                    printed: printed.clone(),
                    ..Run::default()
                });
            }
        }
    }
    runs
}

/// Takes out what is said of runs of programs, and is not so of counts.
fn told(measurement: &mut Measurement) {
    // Means over rows would count the sums again.
    measurement.indices.clear();
}

/// The paths of the images that are not counted yet.
pub fn images(variants: &[(KernelVariant, Images)]) -> Vec<(String, PathBuf)> {
    let of = |(variant, images): &(KernelVariant, Images)| {
        let name = |order: usize| match order {
            0 => variant.name.clone(),
            order => format!("{} in order {order}", variant.name),
        };
        let named = images.images.iter().enumerate();
        named.map(|(order, image)| (name(order), image.clone())).collect::<Vec<_>>()
    };
    variants.iter().flat_map(of).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]
mod tests {
    use super::*;
    use compare::Verdict;
    use record::code_metrics::Counters;
    use record::code_metrics::machine::SectionMetrics;

    /// Counts of an image: two training sections and a held-out one.
    fn counts(misses: [u64; 3]) -> Counts {
        let section = |number: u8| Section {
            number,
            name: format!("section {number}"),
            held_out: number == 3,
        };
        let metrics = |(number, l1i_misses): (u8, u64)| SectionMetrics {
            section: number,
            counters: Counters {
                instructions: 1_000_000,
                taken_branches: 100_000,
                l1i_misses,
                ..Counters::default()
            },
        };
        let kernel = Kernel {
            name: "k".to_owned(),
            image: "k".to_owned(),
            sections: (1..).zip(misses).map(metrics).collect(),
        };
        Counts {
            sections: (1..=3).map(section).collect(),
            kernels: vec![kernel],
            ..Counts::default()
        }
    }

    fn compared(of: impl Fn(usize, usize) -> [u64; 3]) -> Measurement {
        let variant = |name: &str| Variant {
            name: name.to_owned(),
            binaries: (0..=8).map(|order| PathBuf::from(format!("{name}{order}"))).collect(),
            ..Variant::default()
        };
        let design = Design {
            variants: vec![variant("base"), variant("new")],
            layouts: Layouts::Independent,
            rounds: 1,
            ..Settings::default().design()
        };
        let counts: Vec<Vec<Counts>> = (0..2)
            .map(|variant| (0..=8).map(|order| counts(of(variant, order))).collect())
            .collect();
        let options = AnalysisOptions { draws: 299, ..AnalysisOptions::default() };
        let recorded = recorded(design, &counts, "l1i-misses").unwrap();
        analysed(&[recorded], &options).unwrap().measurement
    }

    fn row<'m>(measurement: &'m Measurement, name: &str) -> &'m compare::result::Compared {
        measurement.comparisons.iter().find(|row| row.benchmark == name).unwrap()
    }

    /// What an order does to a count, the same for nobody else.
    fn luck(variant: usize, order: usize) -> u64 {
        (order * 37 + variant * 11) as u64 % 23
    }

    #[test]
    fn what_a_change_costs_is_told_from_the_luck_of_the_orders() {
        let slower = compared(|variant, order| {
            let more = if variant == 1 { 300 } else { 0 };
            [2000 + more + luck(variant, order), 50, 5000 + luck(variant, order)]
        });
        let json = serde_json::to_value(&slower).unwrap();
        assert_eq!(json["schema"], "planish-compare");
        assert!(!json.to_string().contains("a run takes only"), "counts are no times");
        assert_eq!(row(&slower, "training sections").verdict, Verdict::Slower);
        assert_eq!(row(&slower, "held-out sections").verdict, Verdict::Same);
        assert_eq!(row(&slower, "section 1").verdict, Verdict::Slower);
        // Too small to compare.
        assert!(slower.comparisons.iter().all(|row| row.benchmark != "section 2"));
        let lucky = compared(|variant, order| {
            let as_built = if variant == 1 && order == 0 { 600 } else { 0 };
            [4000 + as_built + luck(variant, order), 500, 5000 + luck(variant, order)]
        });
        assert_eq!(row(&lucky, "section 1").verdict, Verdict::LayoutLuck);
        assert_eq!(row(&lucky, "section 3").verdict, Verdict::Same);
    }

    #[test]
    fn parameters_stand_at_the_end_of_a_name() {
        let found = parameters_of("hackbench groups g=2 l=100");
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [("g", "2"), ("l", "100")].map(|(a, b)| (a.into(), b.into()))
        );
        assert!(parameters_of("training sections").is_empty());
    }

    #[test]
    fn a_kernel_beside_itself_is_seldom_called_another() {
        let mut random = 1u64;
        let mut draw = || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % 400
        };
        let called = (0..100)
            .filter(|_| {
                let drawn: Vec<u64> = (0..18).map(|_| draw() + draw() + draw()).collect();
                let same =
                    compared(|variant, order| [10_000 + drawn[variant * 9 + order], 50, 5000]);
                row(&same, "section 1").verdict == Verdict::Slower
                    || row(&same, "section 1").verdict == Verdict::Faster
            })
            .count();
        // Five are expected at most.
        assert!(called <= 9, "{called} of 100");
    }
}
