//! Kernels are built, and counted or timed: as they are, and where it is asked for with functions aligned.

use super::{Args, built, native, stopped};
use crate::cli::Global;
use crate::progress::Ticker;
use anyhow::bail;
use compare::result::Sizes;
use compare::{Analysis, AnalysisOptions, Design, Recorded, Settings, probe};
use kernel::Architecture;
use kernel::experiment::{
    Booting, Caches, Experiment, Images, KernelVariant, analysed, design, images, is_of_data,
    recorded,
};
use kernel::machine::Initrd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How variants are measured.
pub(super) struct Measuring<'a> {
    pub args: &'a Args,
    pub experiment: &'a Experiment,
    /// What images boot; none where kernels are processes.
    pub initrd: Option<&'a Initrd>,
    /// The processor that images are for.
    pub architecture: Architecture,
    /// Where counts are kept.
    pub kept: &'a Path,
    pub margin: Option<f64>,
    pub options: AnalysisOptions,
    pub global: &'a Global,
}

/// What came of it.
pub(super) struct Measured {
    pub analysis: Analysis,
    /// Files with every run.
    pub raw: Vec<PathBuf>,
    /// Of each variant's image as built.
    pub sizes: Vec<Sizes>,
}

/// The sizes of the images as built.
pub(super) fn sizes(design: &Design) -> Vec<Sizes> {
    design.variants.iter().map(|variant| variant.sizes.unwrap_or_default()).collect()
}

impl Measuring<'_> {
    /// Builds and measures variants, which are told without the `suffix` of their names; runs are
    /// kept in `raw`. None where the user ended it.
    pub(super) fn all(
        &self,
        variants: Vec<KernelVariant>,
        suffix: &str,
        raw: Option<&Path>,
        failed: &mut Vec<String>,
    ) -> anyhow::Result<Option<Measured>> {
        let mut built = built(self.experiment, variants, failed, self.global)?;
        for (variant, _) in &mut built {
            if let Some(name) = variant.name.strip_suffix(suffix) {
                variant.name = name.to_owned();
            }
        }
        let built = enough(built, failed)?;
        match self.initrd {
            Some(initrd) => self.counted(initrd, built, raw, failed),
            None => native::measured(self, &built, raw),
        }
    }

    /// Measures variants whose functions are aligned to so many bytes, and adds what remains of what
    /// was measured; false where the user ended it.
    pub(super) fn probe(
        &self,
        (bytes, aligned): (u32, Vec<KernelVariant>),
        measured: &mut Measured,
        failed: &mut Vec<String>,
    ) -> bool {
        let raw = self.args.raw.as_deref();
        let raw = raw.map(|path| path.with_extension(format!("align{bytes}.jsonl")));
        let result = &mut measured.analysis.measurement;
        let suffix = KernelVariant::aligned_suffix(bytes);
        match self.all(aligned, &suffix, raw.as_deref(), failed) {
            Ok(Some(probed)) => {
                let found = &probed.analysis.measurement;
                let rows = probe::remaining(result, found, &probed.sizes, bytes);
                result.alignment.extend(rows);
                true
            }
            Ok(None) => false,
            // What was measured is told whatever becomes of the probe.
            Err(error) => {
                let probe = format!("the probe with functions aligned to {bytes} bytes");
                result.warnings.push(format!("{probe} is left out: {error:#}"));
                stopped(&probe, &error, failed);
                true
            }
        }
    }

    /// Boots the images on every simulated machine, and counts.
    fn counted(
        &self,
        initrd: &Initrd,
        mut built: Vec<(KernelVariant, Images)>,
        raw: Option<&Path>,
        failed: &mut Vec<String>,
    ) -> anyhow::Result<Option<Measured>> {
        crate::command::handle_interrupts();
        let machine = &self.args.machine.machine();
        let emulator =
            record::code_metrics::machine::version(Path::new(self.architecture.board().emulator()));
        let metric = self.args.metric.unwrap_or("l1i-misses");
        let with_data = is_of_data(metric);
        let usual = [Caches::default()];
        let all = if self.args.caches.is_empty() { &usual } else { self.args.caches.as_slice() };
        let mut machines = Vec::new();
        for caches in all {
            let emulator = emulator.clone();
            let booting = Booting { machine, initrd, kept: self.kept, emulator, caches, with_data };
            let Some((left, counts)) = counted(&booting, built, failed, self.global)? else {
                eprintln!("planish: interrupted; the same command goes on with what is there");
                return Ok(None);
            };
            let names: Vec<String> = left.iter().map(|(variant, _)| variant.name.clone()).collect();
            machines.push((caches, names.into_iter().zip(counts).collect::<Vec<_>>()));
            built = left;
        }
        let settings = Settings { margin: self.margin, ..Settings::default() };
        let design = design(&built, &settings)?;
        let all = runs_of(machines, &design, metric)?;
        let analysis = analysed(&all, &self.options)?;
        let raw: Vec<PathBuf> = raw.iter().flat_map(|path| raw_files(path, &all)).collect();
        for (path, recorded) in raw.iter().zip(&all) {
            compare::kept::replaceable(path, &recorded.design)?;
            compare::kept::begin(path, recorded)?;
        }
        Ok(Some(Measured { analysis, raw, sizes: sizes(&design) }))
    }
}

/// Counts of a machine, by the name of the variant.
type OfMachine<'c> = (&'c Caches, Vec<(String, Vec<kernel::cost::Counts>)>);

/// The runs that each machine's counts stand for; what failed on a later machine is left out on all.
fn runs_of(
    machines: Vec<OfMachine<'_>>,
    design: &Design,
    metric: &str,
) -> anyhow::Result<Vec<Recorded>> {
    let kept = |name: &String| design.variants.iter().any(|variant| variant.name == *name);
    let of = |(caches, counts): OfMachine<'_>| {
        let counts: Vec<_> =
            counts.into_iter().filter(|(name, _)| kept(name)).map(|(_, own)| own).collect();
        let mut design = design.clone();
        if !caches.name.is_empty() {
            design.machine.name.clone_from(&caches.name);
        }
        Ok(recorded(design, &counts, metric)?)
    };
    machines.into_iter().map(of).collect()
}

/// A file of runs for each machine: the one that was named, or with several its name and theirs.
fn raw_files(path: &Path, machines: &[Recorded]) -> Vec<PathBuf> {
    let of = |recorded: &Recorded| match machines.len() {
        1 => path.to_owned(),
        _ => {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{}", recorded.design.machine.name));
            PathBuf::from(name)
        }
    };
    machines.iter().map(of).collect()
}

/// Nothing can be said of the base alone.
fn enough<T>(variants: Vec<T>, failed: &[String]) -> anyhow::Result<Vec<T>> {
    if variants.len() < 2 {
        bail!("only the base is left to compare; {} failed", failed.join(", "));
    }
    Ok(variants)
}

type Counted = (Vec<(KernelVariant, Images)>, Vec<Vec<kernel::cost::Counts>>);

/// Boots what was not counted yet, some images at once; none where the user ended it.
fn counted(
    booting: &Booting<'_>,
    built: Vec<(KernelVariant, Images)>,
    failed: &mut Vec<String>,
    global: &Global,
) -> anyhow::Result<Option<Counted>> {
    let all = images(&built);
    let ticker = Ticker::new("boot", global.quiet);
    let done = AtomicUsize::new(0);
    let counts = jobs::run(all.len(), global.threads(), |number| {
        let Some((name, image)) = all.get(number) else { return Ok(None) };
        ticker.tell(&format!("{} of {}: {name}", done.load(Ordering::Relaxed) + 1, all.len()));
        let counts = booting.count(name, image);
        done.fetch_add(1, Ordering::Relaxed);
        counts
    });
    drop(ticker);
    let mut counts = counts.into_iter();
    let (mut kept, mut found) = (Vec::new(), Vec::new());
    for (number, (variant, images)) in built.into_iter().enumerate() {
        let own: Result<Option<Vec<_>>, _> = counts.by_ref().take(images.images.len()).collect();
        match own {
            Ok(Some(own)) => {
                kept.push((variant, images));
                found.push(own);
            }
            Ok(None) => return Ok(None),
            Err(error) if number > 0 => stopped(&variant.name, &error.into(), failed),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Some((enough(kept, failed)?, found)))
}
