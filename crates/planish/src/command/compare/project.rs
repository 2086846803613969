//! Variants and benchmarks of a planish.toml: built, linked in layouts, measured.

use super::{Told, What, design, layouts, measured, probe};
use crate::cli::Global;
use crate::command::optimize;
use anyhow::{Context, bail, ensure};
use build::config::Compiler;
use build::plan::STATE_DIRECTORY;
use build::toolchain::Toolchain;
use build::variant_plan::{LINKER_DIRECTORY, variant_step};
use build::variants::{CompareConfig, VariantConfig};
use build::{Plan, Step};
use compare::{Benchmark, Design, Metric, Variant};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A planish.toml and where it lies.
pub struct Project {
    /// What it says.
    pub config: CompareConfig,
    /// Its absolute directory.
    pub directory: PathBuf,
    tools: Option<Toolchain>,
}

impl Project {
    /// Opens a file; a directory stands for the planish.toml in it.
    pub fn open(path: &Path) -> anyhow::Result<Project> {
        let path = if path.is_dir() { path.join("planish.toml") } else { path.to_owned() };
        let config = CompareConfig::read(&path)?;
        let full = path.canonicalize().with_context(|| path.display().to_string())?;
        let directory = full.parent().unwrap_or(Path::new("/")).to_owned();
        let path = std::env::var("PATH").unwrap_or_default();
        let tools = config.build.as_ref().map(|build| Toolchain::find(build, &path)).transpose()?;
        Ok(Project { config, directory, tools })
    }

    /// Goes to the project's directory for good: commands name files from there, and nobody changes
    /// the directory for a run.
    pub fn enter(&self) -> anyhow::Result<()> {
        std::env::set_current_dir(&self.directory)
            .with_context(|| self.directory.display().to_string())
    }

    /// Where a file of runs lies that the user gave no place.
    pub fn runs(&self, name: &str) -> PathBuf {
        self.directory.join(STATE_DIRECTORY).join("compare").join(name)
    }
}

/// Builds and measures what the file says; `None` when the user interrupted a build.
pub fn measure(what: &What, global: &Global) -> anyhow::Result<Option<Told>> {
    let path = what.config.clone().unwrap_or_else(|| "planish.toml".into());
    let project = Project::open(&path)?;
    let variants = match what.matrix {
        true => project
            .config
            .matrix_variants()
            .map_err(|problem| anyhow::anyhow!("{}: {problem}", path.display()))?,
        false => project.config.variants.clone(),
    };
    ensure!(
        variants.len() >= 2,
        "{}: a comparison needs at least two tables [[variant]] with name = …, or binaries on the \
         command line: planish compare A B -- {{bin}} input",
        path.display()
    );
    project.enter()?;
    let what = with_settings(what, &project)?;
    let Some(mut told) = measure_variants(&project, &variants, &what, global)? else {
        return Ok(None);
    };
    probe::add(&mut told.analysis.measurement, &project, &variants, &what, global)?;
    Ok(Some(told))
}

/// The flags with what `[compare]` says where they say nothing.
pub fn with_settings(what: &What, project: &Project) -> anyhow::Result<What> {
    let mut what = what.clone();
    let (how, settings) = (&mut what.how, &project.config.compare);
    let evaluate =
        project.config.evaluate.as_ref().filter(|_| project.config.benchmarks.is_empty());
    how.rounds = how.rounds.or(settings.rounds).or(evaluate.map(|e| e.rounds));
    how.seed = how.seed.or(settings.seed).or(evaluate.map(|e| e.seed));
    how.layouts = how.layouts.or(settings.layouts);
    // Before anything is built for them.
    super::enough_layouts("[compare] layouts =", how.layouts)?;
    if let Some(rounds) = how.rounds.filter(|&rounds| rounds > compare::MOST_ROUNDS) {
        bail!(
            "rounds = {rounds}: they would not end; {} are the most, 30 are usual",
            compare::MOST_ROUNDS
        );
    }
    how.margin = how.margin.or(settings.margin);
    how.timeout = how.timeout.or(settings.timeout);
    how.ignore_output |=
        settings.ignore_output.unwrap_or(evaluate.is_some_and(|e| e.ignore_output));
    match settings.layout_mode.as_deref() {
        Some(mode) if how.layout_mode.is_none() => match clap::ValueEnum::from_str(mode, true) {
            Ok(mode) => how.layout_mode = Some(mode),
            Err(_) => {
                bail!("[compare] layout_mode = {mode:?}: known are auto, matched and independent")
            }
        },
        _ => {}
    }
    if how.raw.is_none() {
        how.raw = Some(project.runs("runs.jsonl"));
    }
    Ok(what)
}

/// Builds and measures these variants.
pub fn measure_variants(
    project: &Project,
    variants: &[VariantConfig],
    what: &What,
    global: &Global,
) -> anyhow::Result<Option<Told>> {
    let Some(design) = prepared(project, variants, what, None, global)? else { return Ok(None) };
    let own = project.runs("");
    std::fs::create_dir_all(&own).with_context(|| own.display().to_string())?;
    Ok(Some(measured(design, what, global)?))
}

/// The design with every variant built (with functions aligned, for the probe) and linked in its
/// layouts; `None` when the user interrupted a build.
pub fn prepared(
    project: &Project,
    variants: &[VariantConfig],
    what: &What,
    align: Option<u32>,
    global: &Global,
) -> anyhow::Result<Option<Design>> {
    let count = what.how.layouts.filter(|&count| count > 0 && align.is_none());
    let Some(built) = build_all(project, variants, count.is_some(), align, global)? else {
        return Ok(None);
    };
    let mut design = design::of(&what.how);
    design.benchmarks = benchmarks(project, what)?;
    let mut archives = Vec::new();
    for (variant, (binary, archive)) in variants.iter().zip(built) {
        archives.extend(archive);
        design.variants.push(Variant {
            name: variant.name.clone(),
            description: describe(variant, align),
            sizes: layouts::sizes(&binary),
            binaries: vec![binary],
            ..Variant::default()
        });
    }
    design.check()?;
    if let Some(count) = count {
        let folder = project.directory.join(STATE_DIRECTORY).join("layouts");
        layouts::add(&mut design, &archives, count, what.how.layout_mode, &folder, global)?;
    }
    if what.how.code_metrics && align.is_none() {
        super::code_metrics::add(&mut design, global)?;
    }
    Ok(Some(design))
}

fn describe(variant: &VariantConfig, align: Option<u32>) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(variant.binary.clone());
    parts.extend(variant.commit.as_ref().map(|commit| format!("commit {commit}")));
    parts.extend(variant.optimize.clone());
    if !variant.flags.is_empty() {
        parts.push(variant.flags.clone());
    }
    parts.extend(align.map(|n| format!("-falign-functions={n}")));
    if parts.is_empty() { "as [build] says".to_owned() } else { parts.join(" ") }
}

fn benchmarks(project: &Project, what: &What) -> anyhow::Result<Vec<Benchmark>> {
    let cells =
        project.config.cells().map_err(|problem| anyhow::anyhow!("planish.toml: {problem}"))?;
    ensure!(
        !cells.is_empty(),
        "planish.toml: there is no [[benchmark]] with name and command, and no [evaluate] command \
         either"
    );
    let own = |given: &[String]| -> anyhow::Result<Vec<Metric>> {
        if !what.how.metric.is_empty() {
            // The file's patterns go on to say which numbers of the output may differ from run to
            // run.
            let mut metrics = design::metrics(&what.how.metric)?;
            for metric in design::metrics(given)? {
                let printed = matches!(metric.source, compare::Source::Output { .. });
                if printed && metrics.iter().all(|known| known.label() != metric.label()) {
                    metrics.push(metric);
                }
            }
            return Ok(metrics);
        }
        match (given.is_empty(), &project.config.compare.metrics) {
            (true, Some(common)) => design::metrics(common),
            _ => design::metrics(given),
        }
    };
    let benchmark = |cell: build::variants::Cell| {
        Ok(Benchmark {
            metrics: own(&cell.metrics)?,
            name: cell.name,
            command: cell.command,
            parameters: cell.parameters,
        })
    };
    cells.into_iter().map(benchmark).collect()
}

type Built = (PathBuf, Option<PathBuf>);

/// Builds what is to be built, each commit in a work tree of its own.
fn build_all(
    project: &Project,
    variants: &[VariantConfig],
    relinkable: bool,
    align: Option<u32>,
    global: &Global,
) -> anyhow::Result<Option<Vec<Built>>> {
    let mut plans: BTreeMap<PathBuf, Vec<Step>> = BTreeMap::new();
    let mut built = Vec::new();
    for variant in variants {
        if let Some(binary) = &variant.binary {
            let binary = project.directory.join(binary);
            ensure!(
                binary.is_file(),
                "[[variant]] {:?}: there is no file {}",
                variant.name,
                binary.display()
            );
            ensure!(
                align.is_none(),
                "--probe-align builds the program anew, but [[variant]] {:?} is a ready binary",
                variant.name
            );
            let mut archive = binary.clone().into_os_string();
            archive.push(".repro.tar");
            built.push((binary, relinkable.then(|| PathBuf::from(archive))));
            continue;
        }
        let (Some(build), Some(tools)) = (&project.config.build, &project.tools) else {
            bail!("[[variant]] {:?}: there is no [build]", variant.name);
        };
        let directory = match &variant.commit {
            Some(commit) => checkout(&project.directory, commit)?,
            None => project.directory.clone(),
        };
        let (mut step, files) = variant_step(build, tools, &directory, variant, relinkable, align)?;
        step.not_inputs.push("planish.toml".into());
        std::fs::create_dir_all(directory.join(STATE_DIRECTORY).join("variants"))?;
        if relinkable && build.compiler == Compiler::Gcc {
            name_linker(&directory.join(LINKER_DIRECTORY))?;
        }
        built.push((directory.join(&files.binary), files.link.map(|link| directory.join(link))));
        plans.entry(directory).or_default().push(step);
    }
    for (directory, steps) in plans {
        if !optimize::execute_in(&Plan { steps }, &directory, false, global)? {
            return Ok(None);
        }
    }
    Ok(Some(built))
}

/// A link by the name under which gcc looks for lld.
fn name_linker(folder: &Path) -> anyhow::Result<()> {
    let linker = relink::Linker::find()?;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let link = folder.join("ld.lld");
    if std::fs::read_link(&link).ok().as_deref() != Some(linker.path()) {
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(linker.path(), &link)
            .with_context(|| link.display().to_string())?;
    }
    Ok(())
}

/// A work tree of a commit, below `.planish`; the directory in it that `directory` is in the
/// repository.
fn checkout(directory: &Path, commit: &str) -> anyhow::Result<PathBuf> {
    let prefix = git(directory, &["rev-parse", "--show-prefix"])?;
    let found =
        git(directory, &["rev-parse", "--verify", "--quiet", &format!("{commit}^{{commit}}")]);
    let Ok(hash) = found else {
        bail!("commit {commit:?}: the repository of {} has none", directory.display())
    };
    let root =
        directory.join(STATE_DIRECTORY).join("commits").join(hash.get(..16).unwrap_or(&hash));
    if !root.is_dir() {
        git(directory, &["worktree", "prune"])?;
        git(
            directory,
            &[
                "worktree",
                "add",
                "--quiet",
                "--force",
                "--detach",
                &root.display().to_string(),
                &hash,
            ],
        )?;
    }
    Ok(root.join(prefix))
}

/// What git prints; it runs no hook or program that the repository names. Only a work tree may
/// fetch what it lacks.
pub fn git(directory: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let fetches = arguments.first() == Some(&"worktree");
    let ran =
        programs::git(directory, fetches).args(arguments).output().context("cannot start git")?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        bail!("git {} in {}: {}", arguments.join(" "), directory.display(), said.trim());
    }
    Ok(String::from_utf8_lossy(&ran.stdout).trim_end().to_owned())
}
