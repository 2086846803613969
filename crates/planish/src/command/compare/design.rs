//! The design of a comparison of binaries named on the command line.

use super::{Aslr, How, What, calibrate, code_metrics, layouts};
use crate::cli::Global;
use anyhow::{Context, bail};
use compare::{Benchmark, Design, Metric, Stopping, Variant, this_machine};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const ROUNDS: u32 = 30;
const MARGIN_PCT: f64 = 1.0;

/// Everything but variants and benchmarks.
pub fn of(how: &How) -> Design {
    let mut machine = this_machine(how.machine.as_deref());
    machine.calibration = calibrate::known(&machine.fingerprint);
    Design {
        rounds: how.rounds.unwrap_or(ROUNDS),
        seed: how.seed.unwrap_or(1),
        margin: how.margin.unwrap_or(MARGIN_PCT) / 100.0,
        stopping: match (how.until_decided, how.looks) {
            (true, _) => Stopping::UntilDecided,
            (false, true) => Stopping::Looks,
            (false, false) => Stopping::Fixed,
        },
        confirm: how.confirm,
        ignore_output: how.ignore_output,
        timeout_s: how.timeout,
        aslr: match how.aslr {
            Some(Aslr::Off) => compare::Aslr::Off,
            _ => compare::Aslr::AsSet,
        },
        pinned_cpu: how.cpu,
        machine,
        ..Design::default()
    }
}

/// The metrics given, or CPU time.
pub fn metrics(given: &[String]) -> anyhow::Result<Vec<Metric>> {
    if given.is_empty() {
        return Ok(vec![Metric::default()]);
    }
    Ok(given.iter().map(|metric| Metric::parse(metric)).collect::<Result<_, _>>()?)
}

/// Binaries of the command line, all running one command.
pub fn from_binaries(what: &What, global: &Global) -> anyhow::Result<Design> {
    let mut design = of(&what.how);
    design.variants = name_variants(&what.binaries)?;
    let words: Vec<String> = what.command.iter().filter(|word| *word != "{bin}").cloned().collect();
    let name = if words.is_empty() { "run".to_owned() } else { words.join(" ") };
    design.benchmarks = vec![Benchmark {
        name,
        command: what.command.clone(),
        metrics: metrics(&what.how.metric)?,
        ..Benchmark::default()
    }];
    design.check()?;
    for variant in &mut design.variants {
        variant.sizes = variant.binaries.first().and_then(|binary| layouts::sizes(binary));
    }
    if let Some(count) = what.how.layouts.filter(|&count| count > 0) {
        let archives = archives(what, &design)?;
        let folder = Path::new(build::plan::STATE_DIRECTORY).join("layouts");
        layouts::add(&mut design, &archives, count, what.how.layout_mode, &folder, global)?;
    }
    if what.how.code_metrics {
        code_metrics::add(&mut design, global)?;
    }
    Ok(design)
}

/// The link inputs: as given, or beside each binary.
fn archives(what: &What, design: &Design) -> anyhow::Result<Vec<PathBuf>> {
    if !what.objects.is_empty() && what.objects.len() != design.variants.len() {
        bail!(
            "--objects: there are {} programs and {} archives; give one for each, in the same \
             order",
            design.variants.len(),
            what.objects.len()
        );
    }
    let beside = |variant: &Variant| {
        let mut name = variant.binaries.first().cloned().unwrap_or_default().into_os_string();
        name.push(".repro.tar");
        PathBuf::from(name)
    };
    let archives = match what.objects.is_empty() {
        true => design.variants.iter().map(beside).collect(),
        false => what.objects.clone(),
    };
    for (variant, archive) in design.variants.iter().zip(&archives) {
        if !archive.is_file() {
            bail!(
                "--layouts: there are no objects of {} to link again (no {}). Compile with \
                 -ffunction-sections and link with -fuse-ld=lld -Wl,--reproduce={}, or name the \
                 archive with --objects",
                variant.name,
                archive.display(),
                archive.display()
            );
        }
    }
    Ok(archives)
}

/// File names where they differ, else whole paths; `NAME=BINARY` gives the name.
pub fn name_variants(given: &[String]) -> anyhow::Result<Vec<Variant>> {
    let split = |given: &String| match given.split_once('=') {
        Some((name, path))
            if !name.is_empty() && !name.contains('/') && !Path::new(given).exists() =>
        {
            (Some(name.to_owned()), PathBuf::from(path))
        }
        _ => (None, PathBuf::from(given)),
    };
    let pairs: Vec<(Option<String>, PathBuf)> = given.iter().map(split).collect();
    let short = |path: &PathBuf| {
        path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned())
    };
    let distinct: BTreeSet<String> = pairs.iter().map(|(_, path)| short(path)).collect();
    let variant = |(name, path): &(Option<String>, PathBuf)| {
        let found = std::fs::metadata(path).with_context(|| path.display().to_string())?;
        if !found.is_file() {
            bail!("{}: is no file that can be run", path.display());
        }
        // With a slash, so that it is not looked for in PATH.
        let run = if path.components().count() == 1 {
            PathBuf::from(".").join(path)
        } else {
            path.clone()
        };
        let plain =
            if distinct.len() == pairs.len() { short(path) } else { path.display().to_string() };
        let name = name.clone().unwrap_or(plain);
        let description = path.display().to_string();
        Ok(Variant { name, description, binaries: vec![run], ..Variant::default() })
    };
    let mut variants: Vec<Variant> = pairs.iter().map(variant).collect::<anyhow::Result<_>>()?;
    // The same file twice is a legitimate question (how noisy is this machine?), so tell the two
    // apart.
    for index in 1..variants.len() {
        if variants[..index].iter().any(|v| v.name == variants[index].name) {
            variants[index].name = format!("{} #{}", variants[index].name, index + 1);
        }
    }
    Ok(variants)
}
