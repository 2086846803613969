//! The variants and benchmarks of a planish.toml: built, linked in layouts, measured.

use super::args::{How, What};
use super::{Bar, Judge, Told, code_metrics};
use crate::cli::Global;
use crate::command::steps;
use anyhow::Context;
use build::around;
use build::comparison::Comparison;
use build::variants::VariantConfig;
use compare::layouts::Again;
use compare::result::{Alignment, Measurement, Sizes};
use compare::{Design, Keep, Settings, layouts, probe};

/// Builds and measures what the file says; `None` when the user interrupted a build.
pub fn measure(what: &What, judge: &Judge<'_>) -> anyhow::Result<Option<Told>> {
    let path = what.config.clone().unwrap_or_else(|| "planish.toml".into());
    let project = Comparison::open(&path)?;
    let variants = project.variants(what.matrix)?;
    let made = Prepared::of(&project, &what.how, judge.global)?;
    let raw = what.how.raw.clone().unwrap_or_else(|| project.runs("runs.jsonl"));
    let resume = what.how.resuming();
    let Some(design) = made.design(&variants, made.settings.rounds(), None)? else {
        return Ok(None);
    };
    let mut analysis = judge.of(design, Keep { raw: Some(&raw), resume })?;
    let result = &mut analysis.measurement;
    for &align in &what.how.probe_align {
        if !result.interrupted {
            let raw = raw.with_extension(format!("align{align}.jsonl"));
            let keep = Keep { raw: Some(&raw), resume };
            match made.aligned(&variants, align, judge, keep, result)? {
                Some(found) => result.alignment.extend(found),
                None => result.interrupted = true,
            }
        }
        if result.interrupted {
            result.warnings.push(format!(
                "the probe with functions aligned to {align} bytes is left out: it was \
                 interrupted before its end; --resume goes on with it"
            ));
        }
    }
    Ok(Some(Told { analysis, raw: vec![raw] }))
}

/// A project whose variants are made ready.
pub struct Prepared<'a> {
    project: &'a Comparison,
    /// How they are measured.
    pub settings: Settings,
    code_metrics: bool,
    global: &'a Global,
}

impl<'a> Prepared<'a> {
    /// Goes to the project's directory for good: commands name files from there, and nobody changes
    /// the directory for a run.
    pub fn of(
        project: &'a Comparison,
        how: &How,
        global: &'a Global,
    ) -> anyhow::Result<Prepared<'a>> {
        let directory = &project.directory;
        std::env::set_current_dir(directory).with_context(|| directory.display().to_string())?;
        let settings = project.settings(how.settings()?)?;
        let runs = project.runs("");
        std::fs::create_dir_all(&runs).with_context(|| runs.display().to_string())?;
        Ok(Prepared { project, settings, code_metrics: how.code_metrics, global })
    }

    /// The design with every variant built, with functions aligned where that is wanted, and else
    /// linked in its layouts; `None` when the user interrupted a build.
    pub fn design(
        &self,
        variants: &[VariantConfig],
        rounds: u32,
        align: Option<u32>,
    ) -> anyhow::Result<Option<Design>> {
        let (project, settings) = (self.project, &self.settings);
        let count = settings.layouts().filter(|_| align.is_none());
        let builds = project.builds(variants, count.is_some(), align)?;
        for (directory, plan) in &builds.plans {
            if !steps::run(plan, directory, false, self.global)? {
                return Ok(None);
            }
        }
        let mut design = project.design(variants, &builds.programs, settings, align)?;
        design.rounds = rounds;
        if let Some(count) = count {
            let mode = settings.layout_mode.unwrap_or_default();
            let bar = &mut Bar::new(self.global);
            let again = builds.archives.into_iter().map(|archive| Some(Again::link(archive)));
            let again: Vec<_> = again.collect();
            layouts::add(&mut design, &again, count, mode, &project.layouts(), bar)?;
        }
        if self.code_metrics && align.is_none() {
            code_metrics::add(&mut design, self.global)?;
        }
        let planish = std::env::current_exe().context("cannot find this executable")?;
        for benchmark in &mut design.benchmarks {
            around::start_by(&mut benchmark.command, &planish);
        }
        Ok(Some(design))
    }

    /// What remains of the differences measured before with all functions aligned; `None` when the
    /// user ended it.
    fn aligned(
        &self,
        variants: &[VariantConfig],
        align: u32,
        judge: &Judge<'_>,
        keep: Keep<'_>,
        before: &Measurement,
    ) -> anyhow::Result<Option<Vec<Alignment>>> {
        let Some(design) = self.design(variants, self.settings.rounds(), Some(align))? else {
            return Ok(None);
        };
        let sizes: Vec<Sizes> =
            design.variants.iter().map(|v| v.sizes.unwrap_or_default()).collect();
        let stop = super::stop_flag()?;
        let measured = compare::measure(design, keep, &stop, &mut Bar::new(self.global))?;
        let (recorded, false) = measured else { return Ok(None) };
        let found = compare::analyse(&[recorded], &judge.options)?.measurement;
        Ok(Some(probe::remaining(before, &found, &sizes, align)))
    }
}
