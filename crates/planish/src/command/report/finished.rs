//! `planish report` without a verb: the result of a finished run, told again.

use crate::cli::FINE;
use crate::output::{self, Stream};
use anyhow::{Context as _, bail};
use beside::named::begins_like;
use build::plan::STATE_DIRECTORY;
use build::project::{Asking, Project};
use build::state;
use outcome::Finished;
use report::Told;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Which finished run, and how to print it.
#[derive(Debug, clap::Args)]
pub struct FinishedArgs {
    /// A directory with a planish.toml, that file itself, a report.json, or the output of `planish
    /// compare --format json`
    #[arg(value_name = "PATH", default_value = ".")]
    pub path: PathBuf,
    /// Look around in a recording on the terminal; PATH is then a recording, or a directory with a
    /// perf.data
    #[arg(short, long, conflicts_with_all = ["format", "output", "collect"])]
    pub interactive: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    pub format: ReportFormat,
    /// Collect the results of a run of `planish optimize` with this planish.toml, and write the
    /// report files
    #[arg(long, value_name = "planish.toml", requires_all = ["output", "json"])]
    pub collect: Option<PathBuf>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The JSON file to write (with --collect)
    #[arg(long, value_name = "FILE", requires = "collect")]
    pub json: Option<PathBuf>,
    /// The page to write (with --collect)
    #[arg(long, value_name = "FILE", requires = "collect")]
    pub page: Option<PathBuf>,
}

/// How a report is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ReportFormat {
    /// Lines for people
    #[default]
    Text,
    /// Markdown
    Markdown,
    /// One JSON object
    Json,
    /// One page with tables and pictures (for pictures of the runs, use planish compare show --html)
    Html,
}

/// Runs the command.
pub fn run(args: FinishedArgs) -> anyhow::Result<u8> {
    if let (Some(config), Some(markdown), Some(json)) = (&args.collect, &args.output, &args.json) {
        let project = Project::open(config, Asking::Running)?;
        let report = Finished { project: &project }.collect(env!("CARGO_PKG_VERSION"))?;
        output::write_file(markdown, |out| Ok(out.write_all(report.markdown().as_bytes())?))?;
        output::write_file(json, |out| {
            serde_json::to_writer_pretty(&mut *out, &report)?;
            Ok(out.write_all(b"\n")?)
        })?;
        if let Some(page) = &args.page {
            output::write_file(page, |out| Ok(out.write_all(report.html().as_bytes())?))?;
        }
        return Ok(FINE);
    }
    let (file, project) = report_file(&args.path);
    output::refuse_inputs(args.output.as_deref(), [file.as_path(), args.path.as_path()])?;
    let told = open(&file, project.is_some())?;
    if let Some(step) = project.and_then(state::unfinished) {
        eprintln!(
            "note: this is the last run that came to its end; a later one stopped in step {step}, or still \
             runs (the same planish optimize goes on with it)"
        );
    }
    let style =
        if args.output.is_none() { Stream::Output.style() } else { report::Style::default() };
    let text = match args.format {
        ReportFormat::Text => match &told {
            Told::Optimization(run) => {
                let take = run.take.iter().map(|take| format!("  {}\n", take.words()));
                told.terminal(style) + &take.collect::<String>()
            }
            Told::Measurement(_) => told.terminal(style),
        },
        ReportFormat::Markdown => told.markdown(),
        ReportFormat::Html => told.html(),
        ReportFormat::Json => told.json()?,
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

/// The file with the report that a path stands for, and the project's directory if it stands for one.
fn report_file(path: &Path) -> (PathBuf, Option<&Path>) {
    // A planish.toml stands for what was made beside it.
    let project = match path.extension() {
        Some(extension) if extension == "toml" => path.parent(),
        _ => Some(path).filter(|path| path.is_dir()),
    };
    let file = project.map_or(path.to_owned(), |p| p.join(STATE_DIRECTORY).join("report.json"));
    (file, project)
}

fn open(file: &Path, has_project: bool) -> anyhow::Result<Told> {
    let shown = file.display().to_string();
    if has_project && !file.exists() {
        bail!("{shown}: there is no report yet; `planish optimize` makes one");
    }
    if file.is_file() && begins_like(file) == Some("a recording") {
        let word = output::word(file);
        bail!("{shown}: this is a recording; `planish report hot {word}` shows what weighs most");
    }
    let text = crate::input::read_to_string(file)?;
    let told = Told::read(&text).with_context(|| shown.clone())?;
    told.with_context(|| {
        format!(
            "{shown}: is no report of planish (expected a report.json, what planish compare \
             --format json printed, a planish.toml or its directory; kept runs are read by \
             planish compare show)"
        )
    })
}
