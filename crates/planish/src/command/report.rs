//! `planish report`: the result of a finished run, told again.

use super::build::{Asking, Project, Verified};
use super::compare::terminal_style;
use crate::cli::{FINE, Global};
use crate::output;
use anyhow::{Context, bail};
use build::config::Command;
use build::plan::{self, Files, Measured, STATE_DIRECTORY};
use build::reuse::Reused;
use build::state::State;
use compare::result::{Compared, Measurement};
use image::Image;
use report::{
    Branches, Build, LaidOut, Machine, Matched, Objects, Optimization, Profile, Program, Recording,
    Stage, Variant,
};
use serde::de::DeserializeOwned;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Print the report of a finished run again.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A directory with planish.toml, that file, a report.json, or what `planish compare --format
    /// json` printed
    #[arg(value_name = "PATH", default_value = ".")]
    pub path: PathBuf,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    pub format: Form,
    /// Collect the results of a run of `planish optimize` with this planish.toml and write the
    /// report files
    #[arg(long, value_name = "planish.toml", requires_all = ["output", "json"])]
    pub collect: Option<PathBuf>,
    /// Write there instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The JSON file to write (with --collect)
    #[arg(long, value_name = "FILE", requires = "collect")]
    pub json: Option<PathBuf>,
}

/// How a report is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// Lines for people
    #[default]
    Text,
    /// Markdown
    Markdown,
    /// One JSON object
    Json,
    /// One page with tables and pictures (of a comparison; the pictures of runs need planish
    /// compare --from --html)
    Html,
}

/// A file that can be told.
enum Told {
    Measurement(Box<Measurement>),
    Optimization(Box<Optimization>),
}

/// Runs the command.
pub fn run(args: Args, _global: &Global) -> anyhow::Result<u8> {
    if let (Some(config), Some(markdown), Some(json)) = (&args.collect, &args.output, &args.json) {
        let report = collect(&Project::open(config, Asking::Running)?)?;
        output::write_file(markdown, |out| Ok(out.write_all(report.markdown().as_bytes())?))?;
        output::write_file(json, |out| {
            serde_json::to_writer_pretty(&mut *out, &report)?;
            Ok(out.write_all(b"\n")?)
        })?;
        return Ok(FINE);
    }
    let (file, has_project) = report_file(&args.path);
    output::refuse_inputs(args.output.as_deref(), [file.as_path(), args.path.as_path()])?;
    let told = open(&file, has_project)?;
    let style = if args.output.is_none() { terminal_style() } else { report::Style::default() };
    let text = match (args.format, &told) {
        (Form::Text, Told::Measurement(m)) => report::compare::terminal(m, &[], style),
        (Form::Text, Told::Optimization(o)) => o.terminal(style),
        (Form::Markdown, Told::Measurement(m)) => report::compare::markdown(m),
        (Form::Markdown, Told::Optimization(o)) => o.markdown(),
        (Form::Html, Told::Measurement(m)) => report::compare::html(m, &[]),
        (Form::Html, Told::Optimization(_)) => bail!(
            "--format html: a whole run is told as text, Markdown or JSON; for a page with \
             pictures of its measurement: planish compare --from .planish/runs-1.jsonl --html \
             report.html"
        ),
        (Form::Json, Told::Measurement(m)) => {
            ::report::json(&serde_json::to_string_pretty(m)?).into_owned() + "\n"
        }
        (Form::Json, Told::Optimization(o)) => {
            ::report::json(&serde_json::to_string_pretty(o)?).into_owned() + "\n"
        }
    };
    match &args.output {
        Some(path) => output::write_file(path, |out| Ok(out.write_all(text.as_bytes())?))?,
        None => {
            let mut out = output::text();
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
    }
    Ok(FINE)
}

/// The file with the report that a path stands for, and whether it is that of a project.
fn report_file(path: &Path) -> (PathBuf, bool) {
    // A planish.toml stands for what was made beside it.
    let project = match path.extension() {
        Some(extension) if extension == "toml" => path.parent(),
        _ => Some(path).filter(|path| path.is_dir()),
    };
    let file = project.map_or(path.to_owned(), |p| p.join(STATE_DIRECTORY).join("report.json"));
    (file, project.is_some())
}

fn open(file: &Path, has_project: bool) -> anyhow::Result<Told> {
    let shown = file.display().to_string();
    if has_project && !file.exists() {
        bail!("{shown}: there is no report yet; `planish optimize` makes one");
    }
    let text = crate::input::read_to_string(file)?;
    let value = serde_json::from_str(&text).unwrap_or(serde_json::Value::Null);
    match value.get("schema").and_then(|s| s.as_str()) {
        Some("planish-compare") => {
            Ok(Told::Measurement(serde_json::from_value(value).with_context(|| shown)?))
        }
        Some("planish-optimize") => {
            Ok(Told::Optimization(serde_json::from_value(value).with_context(|| shown)?))
        }
        _ => bail!(
            "{shown}: is no report of planish (expected a report.json, what planish compare \
             --format json printed, a planish.toml or its directory; kept runs are read by \
             planish compare --from)"
        ),
    }
}

/// Reads what the steps of `planish optimize` left behind.
fn collect(project: &Project) -> anyhow::Result<Optimization> {
    let files = Files::of(&project.config);
    let at = |path: &Path| project.directory.join(path);
    let verified: Verified = read_json(&at(&files.verify))?;
    // With two rounds the profile that counts is the second one.
    let last: Verified = read_json(&at(&plan::last_verify(&project.config)))?;
    let profile = plan::last_profile(&project.config);
    let summary: serde_json::Value = read_json(&at(&plan::last_summary(&project.config)))?;
    let evidence: report::Evidence =
        serde_json::from_value(summary.get("evidence").cloned().unwrap_or_default())?;
    let (measured, _) = plan::programs(&project.config, &project.tools);
    let notes = plan::notes(&project.config, &project.tools, project.rust.used);
    // Baseline and rebuild are told apart; a program of an optional step may not be there.
    let others: Vec<&Measured> = measured
        .iter()
        .filter(|p| !["base", "opt"].contains(&p.ending) && at(&p.path).is_file())
        .collect();
    let mut measurements = Vec::new();
    let mut branches = Vec::new();
    let mut last_step = Vec::new();
    for (n, command) in project.config.evaluate.command.all().iter().enumerate() {
        let mut measurement: Measurement = read_json(&at(&files.comparison(n)))?;
        // While it was written the file had another name.
        measurement.raw = vec![files.runs(n).display().to_string()];
        last_step.extend(added_by_layout(project, &files, n)?);
        measurements.push(measurement);
        if project.config.record.count_branches {
            // The steps are optional: without an emulator there are no counts.
            let count = |which: &str| {
                let value: serde_json::Value = read_json(&at(&files.branches(which, n))).ok()?;
                value.get("taken_branches")?.as_u64()
            };
            if let (Some(base), Some(opt)) = (count("base"), count("opt")) {
                let others =
                    others.iter().filter_map(|p| Some((p.ending.to_owned(), count(p.ending)?)));
                branches.push(Branches {
                    command: command.to_string(),
                    base,
                    opt,
                    others: others.collect(),
                });
            }
        }
    }
    let size = |path: &Path| std::fs::metadata(at(path)).map_or(0, |m| m.len());
    let recording = |(n, command): (usize, &&str)| Recording {
        command: command.to_string(),
        file_bytes: size(&files.recording(n)),
    };
    let training = project.config.workload.train.all();
    Ok(Optimization {
        schema: "planish-optimize".into(),
        version: 1,
        planish: env!("CARGO_PKG_VERSION").into(),
        machine: machine(),
        build: builds(project, &files, &verified)?,
        recordings: training.iter().enumerate().map(recording).collect(),
        profile: Profile {
            path: profile.display().to_string(),
            file_bytes: size(&profile),
            evidence: Some(evidence.clone()),
        },
        warnings: evidence
            .warning
            .into_iter()
            .chain(warnings(project, &verified))
            .chain(notes)
            .collect(),
        variants: others.iter().map(|other| variant(project, other)).collect::<Result<_, _>>()?,
        layout: project
            .config
            .optimize
            .lays_out()
            .then(|| laid_out(project, &files))
            .transpose()?,
        matched: matched(last.matched, &last.evidence),
        measurements,
        last_step,
        branches,
        stages: stages(project)?,
    })
}

/// The program with the layout beside the one with the profile alone, from the runs of evaluation
/// command `n`.
fn added_by_layout(project: &Project, files: &Files, n: usize) -> anyhow::Result<Option<Compared>> {
    if !project.config.optimize.lays_out() {
        return Ok(None);
    }
    let path = project.directory.join(files.runs(n));
    let runs = compare::runs::read(&path, std::io::BufReader::new(crate::input::stream(&path)?))?;
    let name = |ending| {
        files.program(ending).file_name().unwrap_or_default().to_string_lossy().into_owned()
    };
    let profiled = if project.config.optimize.profile_rounds() > 1 { "opt2" } else { "opt" };
    let Some(pair) = runs.pair(&name(profiled), &name("layout")) else { return Ok(None) };
    // Corrected as the other claims of the run are: every program beside the baseline, and this
    // pair, on every command.
    let programs = runs.design.variants.len();
    let options =
        compare::Options { among: programs * files.evaluations, ..compare::Options::default() };
    let told = compare::analyse(&[pair], &options)?;
    Ok(told.measurement.comparisons.into_iter().next())
}

/// A program beside baseline and rebuild.
fn variant(project: &Project, measured: &Measured) -> anyhow::Result<Variant> {
    let image = Image::open(&project.directory.join(&measured.path))?;
    let plan = plan::optimize(&project.config, &project.tools, &project.directory, &project.file)?;
    let step = plan.steps.iter().find(|step| step.name == measured.step);
    let variable = if project.rust.used { "PLANISH_RUSTFLAGS" } else { "PLANISH_CFLAGS" };
    let flags = step.map(|step| match step.environment.get(variable) {
        Some(flags) => flags.clone(),
        None => step.arguments.join(" "),
    });
    Ok(Variant {
        name: measured.ending.to_owned(),
        program: Program {
            path: measured.path.display().to_string(),
            build_id: image.build_id().map(ToString::to_string),
            code_bytes: super::build::code_bytes(&image),
        },
        flags: flags.unwrap_or_default(),
    })
}

fn laid_out(project: &Project, files: &Files) -> anyhow::Result<LaidOut> {
    let at = |path: &Path| project.directory.join(path);
    let objects = Reused::read(&at(&files.objects)).map(|found| Objects {
        reused: found.reused,
        laid_out: found.laid_out,
        compiled: found.compiled,
    });
    Ok(LaidOut {
        summary: read_json(&at(&files.layout))?,
        verified: read_json(&at(&files.layout_verify))?,
        objects,
    })
}

fn read_json<T: DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let shown = || path.display().to_string();
    serde_json::from_str(&crate::input::read_to_string(path)?).with_context(shown)
}

fn matched(m: build::verify::Matched, evidence: &build::verify::Evidence) -> Matched {
    Matched {
        functions: m.functions,
        functions_matched: m.functions_matched,
        samples: m.samples,
        samples_matched: m.samples_matched,
        largest_unmatched: m.largest_unmatched,
        cause: m.cause,
        evidence: evidence.words(),
    }
}

fn machine() -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let model = read("/proc/cpuinfo");
    let model = model.lines().find(|l| l.starts_with("model name")).and_then(|l| l.split_once(':'));
    Machine {
        cpu: model
            .map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned()),
        cpus: std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
    }
}

fn builds(project: &Project, files: &Files, verified: &Verified) -> anyhow::Result<Build> {
    let plan = plan::optimize(&project.config, &project.tools, &project.directory, &project.file)?;
    // A build of cargo's may get the flags of C as well, for the C that it compiles.
    let variable = if project.rust.used { "PLANISH_RUSTFLAGS" } else { "PLANISH_CFLAGS" };
    let flags = |name: &str| {
        let step = plan.steps.iter().find(|s| s.name == name);
        step.and_then(|s| s.environment.get(variable)).cloned().unwrap_or_default()
    };
    let version = std::process::Command::new(&project.tools.cc).arg("--version").output();
    let version =
        version.map(|v| String::from_utf8_lossy(&v.stdout).into_owned()).unwrap_or_default();
    // rustc's release as it wrote it into the program: the one that answers here may be another.
    let base = Image::open(&project.directory.join(&files.base))?;
    let rustc =
        base.compilers().into_iter().find(|line| project.rust.used && line.starts_with("rustc "));
    let program = |path: &Path, build_id: &Option<String>, code_bytes| Program {
        path: path.display().to_string(),
        build_id: build_id.clone(),
        code_bytes,
    };
    Ok(Build {
        command: match &project.config.build.command {
            Command::Line(line) => line.clone(),
            Command::Words(words) => words.join(" "),
        },
        compiler: rustc
            .unwrap_or_else(|| version.lines().next().unwrap_or(&project.tools.cc).to_owned()),
        base_flags: flags("build"),
        opt_flags: flags("rebuild"),
        base: program(&files.base, &verified.base_build_id, verified.base_code_bytes),
        opt: program(&files.opt, &verified.opt_build_id, verified.opt_code_bytes),
    })
}

fn warnings(project: &Project, verified: &Verified) -> Vec<String> {
    let mut warnings = Vec::new();
    let config = &project.config;
    let evaluation = config.evaluate.command.all();
    if config.workload.train.all().iter().any(|line| evaluation.contains(line)) {
        warnings.push(
            "a command is used for training and for measuring: the gain on other input may be \
             smaller"
                .into(),
        );
    }
    if verified.base_build_id.is_none() || verified.opt_build_id.is_none() {
        warnings.push("the programs have no build ID; pass PLANISH_LDFLAGS on to the link".into());
    }
    warnings.push(
        "two binaries were compared: where the linker happened to put code may explain part of \
         the difference"
            .into(),
    );
    warnings
}

/// The steps as they ran last, with what planish's own stages wrote to standard error.
fn stages(project: &Project) -> anyhow::Result<Vec<Stage>> {
    let plan = plan::optimize(&project.config, &project.tools, &project.directory, &project.file)?;
    let state = State::read(&project.directory);
    let stage = |step: &build::Step| {
        let seconds = state.steps.get(&step.name)?.seconds;
        let log =
            project.directory.join(STATE_DIRECTORY).join("log").join(format!("{}.log", step.name));
        let text = std::fs::read(log).unwrap_or_default();
        let own = step.program == build::Program::Planish;
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines = text.lines().skip(1).filter(|line| own && !line.trim().is_empty());
        let said = lines.take(60).map(str::to_owned).collect();
        Some(Stage { name: step.name.clone(), command: step.command_line(), seconds, said })
    };
    Ok(plan.steps.iter().filter_map(stage).collect())
}
