//! `planish optimize`: build, record, aggregate, profile, rebuild, verify, measure, report.

use super::project_args::ProjectArgs;
use super::{INTERRUPTED, steps};
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output::{self, Stream, error_style};
use anyhow::Context;
use build::plan::{self, Files};
use build::project::{Asking, Project};
use build::state;
use report::{Colour, Optimization};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Build, record, profile, rebuild, measure and report, all from planish.toml.
///
/// Every step is a command: --dry-run prints each with what it reads and makes. A finished step is
/// not repeated unless its inputs changed; after Ctrl-C the same command goes on. Everything made
/// is in .planish/, next to planish.toml. Without a planish.toml, name the build system and the
/// work: planish optimize --cargo --train '{bin} a' --evaluate '{bin} b'. Exit code: 0 fine, 1 the
/// result is slower than the baseline or the project's own release build, 2 a step failed, 3 a compiler or tool is missing, 130 interrupted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish optimize --cargo --train '{bin} a.json' --evaluate '{bin} b.json'
  planish optimize --cmake --program app --train '{bin} a' --evaluate '{bin} b'
  planish init && planish optimize              # by planish.toml
  planish optimize --dry-run                    # the steps, one by one")]
pub struct Args {
    /// The configuration
    #[arg(value_name = "planish.toml", default_value = "planish.toml")]
    pub config: PathBuf,
    /// Print the steps, run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Repeat every step
    #[arg(long)]
    pub again: bool,
    /// How to print the result; json is the content of report.json
    #[arg(long, value_enum, default_value_t, conflicts_with = "dry_run")]
    pub format: Format,
    /// The project
    #[command(flatten)]
    pub project: ProjectArgs,
}

/// Runs the command.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    let asking = if args.dry_run { Asking::Reading } else { Asking::Running };
    let project = Project::of(args.project.said().meant(&args.config)?, asking)?;
    tell_notes(&project);
    project.rust.check(&project.tools, &project.config)?;
    let plan = project.plan()?;
    let notes = plan::notes(&project.config, &project.tools, project.rust.used);
    if args.dry_run {
        let outlook = state::outlook(&plan, &project.directory, args.again)?;
        let mut out = output::text();
        notes.iter().try_for_each(|note| writeln!(out, "# note: {note}"))?;
        write!(out, "cd {}\n\n{}", project.directory.display(), plan.describe(&outlook))?;
        return Ok(FINE);
    }
    if !global.quiet {
        let note = error_style().paint(Colour::Care, "note:");
        notes.iter().for_each(|text| eprintln!("{note} {text}"));
    }
    if !steps::run(&plan, &project.directory, args.again, global)? {
        return Ok(INTERRUPTED);
    }
    tell(&project, args.format)
}

/// Opens a project, and says what a run may find that was not looked at.
pub fn open(path: &Path, asking: Asking) -> Result<Project, build::Error> {
    let project = Project::open(path, asking)?;
    tell_notes(&project);
    Ok(project)
}

fn tell_notes(project: &Project) {
    project.notes.iter().for_each(|note| eprintln!("note: {note}"));
}

/// Prints the result and where the report lies.
fn tell(project: &Project, format: Format) -> anyhow::Result<u8> {
    let files = Files::of(&project.config);
    let at = |path: &Path| project.directory.join(path);
    let path = at(&files.report_json);
    let bytes = crate::input::read(&path)?;
    let report: Optimization =
        serde_json::from_slice(&bytes).with_context(|| path.display().to_string())?;
    let mut out = output::text();
    match format {
        Format::Json => out.write_all(&bytes)?,
        Format::Text => {
            write!(out, "{}", report.terminal(Stream::Output.style()))?;
            writeln!(out, "  report: {}", at(&files.report_markdown).display())?;
            writeln!(out, "  page: {}", at(&files.report_page).display())?;
            // An earlier version's report does not say it.
            let take = report.take.clone();
            let take = take.unwrap_or_else(|| outcome::Finished { project }.take(&report));
            writeln!(out, "  program: {}", at(Path::new(&take.path)).display())?;
            if take.is_a_guess() {
                writeln!(
                    out,
                    "    it is not shown to be faster than the program without a profile: before you rely on \
                     it, measure more (the same command with --set evaluate.rounds=N)"
                )?;
            }
            for library in &take.libraries {
                writeln!(out, "  library: {}", at(Path::new(library)).display())?;
            }
            if !take.libraries.is_empty() {
                writeln!(
                    out,
                    "    it was measured with these libraries: install them with it (a RUNPATH in \
                     the program may lead to those of the last build)"
                )?;
            }
            let work = at(Path::new(plan::STATE_DIRECTORY));
            let size = report::bytes(build::disk::bytes(&work) as f64);
            writeln!(out, "  builds, recordings, logs: {} ({size})", work.display())?;
        }
    }
    let compared = report.measurements.iter().flat_map(|m| &m.comparisons);
    // What is built for comparison alone may be slower.
    let mut compared = compared.filter(|compared| compared.variant == report.result());
    let slower = compared.any(|row| row.is_slower())
        || report.beside_release.iter().any(|row| row.is_slower());
    Ok(if slower { NEGATIVE } else { FINE })
}
