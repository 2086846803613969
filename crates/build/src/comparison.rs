//! What does a planish.toml compare? Its variants, how they are built, and its benchmarks.

use crate::around::Around;
use crate::config::Compiler;
use crate::plan::STATE_DIRECTORY;
use crate::toolchain::Toolchain;
use crate::variant_plan::variant_step;
use crate::variants::{Cell, CompareConfig, VariantConfig};
use crate::{Error, Plan, Step, startable};
use compare::settings::{enough_layouts, metrics};
use compare::{
    Benchmark, Design, LayoutMode, MOST_ROUNDS, Metric, Settings, Source, Variant, layouts,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A planish.toml with variants to compare, and where it lies.
pub struct Comparison {
    /// What it says.
    pub config: CompareConfig,
    /// Its absolute directory, in which its commands run.
    pub directory: PathBuf,
    /// Its name, for messages.
    file: PathBuf,
    tools: Option<Toolchain>,
}

/// How variants are built, and what is then there.
#[derive(Debug, Default)]
pub struct Builds {
    /// The steps by the directory that they run in: that of planish.toml, or a work tree of a
    /// commit.
    pub plans: BTreeMap<PathBuf, Plan>,
    /// The program of each variant.
    pub programs: Vec<PathBuf>,
    /// The inputs of each one's link, where they can be linked again.
    pub archives: Vec<PathBuf>,
}

impl Comparison {
    /// Opens a file; a directory stands for the planish.toml in it.
    ///
    /// # Errors
    /// Where it cannot be read, or a compiler it asks for is missing.
    pub fn open(path: &Path) -> Result<Comparison, Error> {
        let file = if path.is_dir() { path.join("planish.toml") } else { path.to_owned() };
        let config = CompareConfig::read(&file)?;
        let full = file.canonicalize().map_err(unread(&file))?;
        let directory = full.parent().unwrap_or(Path::new("/")).to_owned();
        let path = std::env::var("PATH").unwrap_or_default();
        check_commands(&config, &directory).map_err(|found| problem(&file, found))?;
        let tools = config.build.as_ref().map(|build| Toolchain::find(build, &path)).transpose()?;
        let common = config.compare.metrics.iter();
        // Before anything is built for them.
        common
            .chain(config.benchmarks.iter().map(|own| &own.metrics))
            .try_for_each(|given| metrics(given).map(drop))?;
        Ok(Comparison { config, directory, file, tools })
    }

    /// Where a file of runs lies that the user gave no place.
    pub fn runs(&self, name: &str) -> PathBuf {
        self.directory.join(STATE_DIRECTORY).join("compare").join(name)
    }

    /// Where links in other layouts go.
    pub fn layouts(&self) -> PathBuf {
        self.directory.join(STATE_DIRECTORY).join("layouts")
    }

    /// The variants, or with `matrix` one for each flag of `[matrix]` and one with all.
    ///
    /// # Errors
    /// Where there are fewer than two.
    pub fn variants(&self, matrix: bool) -> Result<Vec<VariantConfig>, Error> {
        let variants = match matrix {
            true => self.config.matrix_variants().map_err(|found| problem(&self.file, found))?,
            false => self.config.variants.clone(),
        };
        if variants.len() < 2 {
            return Err(problem(
                &self.file,
                "a comparison needs at least two tables [[variant]] with name = …, or binaries on \
                 the command line: planish compare A B -- {bin} input",
            ));
        }
        Ok(variants)
    }

    /// The settings asked for, with what `[compare]` and `[evaluate]` say where they say nothing.
    ///
    /// # Errors
    /// Where the file asks for what cannot be done.
    pub fn settings(&self, asked: Settings) -> Result<Settings, Error> {
        let (config, mut all) = (&self.config, asked);
        let file = &config.compare;
        let evaluate = config.evaluate.as_ref().filter(|_| config.benchmarks.is_empty());
        all.rounds = all.rounds.or(file.rounds).or(evaluate.and_then(|e| e.rounds));
        all.seed = all.seed.or(file.seed).or(evaluate.map(|e| e.seed));
        all.layouts = all.layouts.or(file.layouts);
        // Before anything is built for them.
        enough_layouts("[compare] layouts =", all.layouts)?;
        if let Some(rounds) = all.rounds.filter(|&rounds| rounds > MOST_ROUNDS) {
            return Err(wrong(format!(
                "rounds = {rounds}: they would not end; {MOST_ROUNDS} are the most, 30 are usual"
            )));
        }
        all.margin = all.margin.or(file.margin.map(|per_cent| per_cent / 100.0));
        all.timeout_s = all.timeout_s.or(file.timeout);
        all.ignore_output |=
            file.ignore_output.unwrap_or(evaluate.is_some_and(|e| e.ignore_output));
        all.cpu = all.cpu.or(file.cpu).or(evaluate.and_then(|e| e.cpu));
        all.gauge |= file.gauge.unwrap_or(evaluate.is_some_and(|e| e.gauge));
        if let (None, Some(word)) = (all.layout_mode, file.layout_mode.as_deref()) {
            let mode = LayoutMode::parse(word).ok_or_else(|| {
                wrong(format!(
                    "[compare] layout_mode = {word:?}: known are auto, matched and independent"
                ))
            })?;
            all.layout_mode = Some(mode);
        }
        Ok(all)
    }

    /// How the variants are built, each commit in a work tree of its own; with `relinkable` so that
    /// they can be linked in other layouts, with `align` with all functions aligned to that many
    /// bytes.
    ///
    /// # Errors
    /// Where a variant cannot be built.
    pub fn builds(
        &self,
        variants: &[VariantConfig],
        relinkable: bool,
        align: Option<u32>,
    ) -> Result<Builds, Error> {
        let mut builds = Builds::default();
        for variant in variants {
            let (program, archive) = match &variant.binary {
                Some(binary) => self.ready(&variant.name, binary, align)?,
                None => {
                    let (directory, step, program, archive) =
                        self.build(variant, relinkable, align)?;
                    builds.plans.entry(directory).or_default().steps.push(step);
                    (program, archive)
                }
            };
            builds.programs.push(program);
            builds.archives.extend(archive.filter(|_| relinkable));
        }
        Ok(builds)
    }

    /// A program that is there, and where the inputs of its link are looked for.
    fn ready(
        &self,
        name: &str,
        binary: &str,
        align: Option<u32>,
    ) -> Result<(PathBuf, Option<PathBuf>), Error> {
        let binary = self.directory.join(binary);
        if !binary.is_file() {
            return Err(wrong(format!(
                "[[variant]] {name:?}: there is no file {}",
                binary.display()
            )));
        }
        if align.is_some() {
            return Err(wrong(format!(
                "--probe-align builds the program anew, but [[variant]] {name:?} is a ready binary"
            )));
        }
        let archive = layouts::archive_beside(&binary);
        Ok((binary, Some(archive)))
    }

    /// The directory and the step of a build, with the program and the inputs of its link.
    fn build(
        &self,
        variant: &VariantConfig,
        relinkable: bool,
        align: Option<u32>,
    ) -> Result<(PathBuf, Step, PathBuf, Option<PathBuf>), Error> {
        let (Some(build), Some(tools)) = (&self.config.build, &self.tools) else {
            return Err(wrong(format!("[[variant]] {:?}: there is no [build]", variant.name)));
        };
        let directory = match &variant.commit {
            Some(commit) => checkout(&self.directory, commit)?,
            None => self.directory.clone(),
        };
        let (mut step, files) = variant_step(build, tools, &directory, variant, relinkable, align)?;
        step.not_inputs.push("planish.toml".into());
        let folder = directory.join(STATE_DIRECTORY).join("variants");
        std::fs::create_dir_all(&folder).map_err(unread(&folder))?;
        if relinkable && build.compiler == Compiler::Gcc {
            crate::gnu_link::name_linker(&directory)?;
        }
        let program = directory.join(&files.binary);
        let archive = files.link.map(|link| directory.join(link));
        Ok((directory, step, program, archive))
    }

    /// The design with these programs of the variants; `align` is said in their descriptions.
    ///
    /// # Errors
    /// Where the file has no benchmark, or the design cannot be run.
    pub fn design(
        &self,
        variants: &[VariantConfig],
        programs: &[PathBuf],
        settings: &Settings,
        align: Option<u32>,
    ) -> Result<Design, Error> {
        let mut design = settings.design();
        design.benchmarks = self.benchmarks(&settings.metrics)?;
        design.variants = variants
            .iter()
            .zip(programs)
            .map(|(variant, program)| Variant {
                name: variant.name.clone(),
                description: describe(variant, align),
                sizes: layouts::sizes(program),
                binaries: vec![program.clone()],
                ..Variant::default()
            })
            .collect();
        design.check()?;
        Ok(design)
    }

    /// Every benchmark with every combination of its parameters; `wanted` are metrics in place of
    /// the file's.
    fn benchmarks(&self, wanted: &[Metric]) -> Result<Vec<Benchmark>, Error> {
        let wrong = |problem: &str| wrong(format!("planish.toml: {problem}"));
        let cells = self.config.cells().map_err(|problem| wrong(&problem))?;
        if cells.is_empty() {
            return Err(wrong(
                "there is no [[benchmark]] with name and command, and no [evaluate] command either",
            ));
        }
        let benchmark = |cell: Cell| {
            Ok(Benchmark {
                metrics: self.metrics(wanted, &cell.metrics)?,
                name: cell.name,
                command: cell.command,
                parameters: cell.parameters,
            })
        };
        cells.into_iter().map(benchmark).collect()
    }

    fn metrics(&self, wanted: &[Metric], given: &[String]) -> Result<Vec<Metric>, Error> {
        if wanted.is_empty() {
            return match (given.is_empty(), &self.config.compare.metrics) {
                (true, Some(common)) => Ok(metrics(common)?),
                _ => Ok(metrics(given)?),
            };
        }
        // The file's patterns go on to say which numbers of the output may differ from run to run.
        let mut all = wanted.to_vec();
        for metric in metrics(given)? {
            let printed = matches!(metric.source, Source::Output { .. });
            if printed && all.iter().all(|known| known.label() != metric.label()) {
                all.push(metric);
            }
        }
        Ok(all)
    }

    /// The commits behind `good` up to `bad`, oldest first, after the hash of `good`.
    ///
    /// # Errors
    /// Where there is none.
    pub fn range(&self, good: &str, bad: &str) -> Result<(String, Vec<String>), Error> {
        let base = format!("{good}^{{commit}}");
        let first = git(&self.directory, &["rev-parse", "--verify", &base])?;
        let range = format!("{good}..{bad}");
        let list = git(&self.directory, &["rev-list", "--first-parent", "--reverse", &range])?;
        if list.is_empty() {
            return Err(wrong(format!(
                "{range}: there is no commit between them; GOOD must be an ancestor of BAD"
            )));
        }
        Ok((first, list.lines().map(str::to_owned).collect()))
    }

    /// The first line of a commit's message.
    ///
    /// # Errors
    /// Where the repository does not tell.
    pub fn subject(&self, commit: &str) -> Result<String, Error> {
        git(&self.directory, &["log", "-1", "--format=%s", commit])
    }
}

/// Refuses commands that cannot be started, before anything is built for them.
fn check_commands(config: &CompareConfig, directory: &Path) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let check = |table: &str, lines: &[&str], around: &Around| {
        startable::check(table, lines, around, directory, &path)
    };
    for benchmark in &config.benchmarks {
        check("[[benchmark]]", &[&benchmark.command], &Around::default())?;
    }
    match config.evaluate.as_ref().filter(|_| config.benchmarks.is_empty()) {
        Some(evaluate) => check("[evaluate]", &evaluate.command.all(), &evaluate.around()),
        None => Ok(()),
    }
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

/// A work tree of a commit, below `.planish`; the directory in it that `directory` is in the
/// repository.
fn checkout(directory: &Path, commit: &str) -> Result<PathBuf, Error> {
    let prefix = git(directory, &["rev-parse", "--show-prefix"])?;
    let found =
        git(directory, &["rev-parse", "--verify", "--quiet", &format!("{commit}^{{commit}}")]);
    let hash = found.map_err(|_| {
        wrong(format!("commit {commit:?}: the repository of {} has none", directory.display()))
    })?;
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

fn wrong(problem: String) -> Error {
    compare::Error::Design(problem).into()
}

fn problem(path: &Path, problem: impl ToString) -> Error {
    compare::Error::problem(path, problem).into()
}

fn unread(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let error = compare::Error::file(path);
    move |source| error(source).into()
}

/// What git prints; it runs no hook or program that the repository names. Only a work tree may
/// fetch what it lacks.
fn git(directory: &Path, arguments: &[&str]) -> Result<String, Error> {
    let fetches = arguments.first() == Some(&"worktree");
    let ran = programs::git(directory, fetches)
        .args(arguments)
        .output()
        .map_err(|source| compare::Error::System { action: "cannot start git", source })?;
    if !ran.status.success() {
        let said = String::from_utf8_lossy(&ran.stderr);
        return Err(wrong(format!(
            "git {} in {}: {}",
            arguments.join(" "),
            directory.display(),
            said.trim()
        )));
    }
    Ok(String::from_utf8_lossy(&ran.stdout).trim_end().to_owned())
}
