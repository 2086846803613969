//! `planish optimize`: build, record, aggregate, profile, rebuild, verify, measure, report.

use super::INTERRUPTED;
use super::build::{Asking, Project};
use super::compare::{stop_flag, terminal_style};
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output::{self, error_style};
use anyhow::Context;
use build::bounded_log::shown;
use build::execute::{self, Event, Place};
use build::plan::{self, Files, STATE_DIRECTORY};
use build::state::State;
use build::{Lock, Outlook, Plan, Program, Step};
use indicatif::{ProgressBar, ProgressStyle};
use report::{Colour, Optimization, Style};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Build, record, profile, rebuild, measure and report, all from planish.toml.
///
/// Every step is a command that can be typed by hand (--dry-run prints them). A finished step is
/// not repeated unless what it was made from changed; after Ctrl-C the same command goes on.
/// Everything made lies in .planish/ beside planish.toml. Exit code: 0 fine, 1 the rebuilt program
/// is slower, 2 a step failed, 130 interrupted.
#[derive(Debug, clap::Args)]
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
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Runs the command.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    let project = Project::open(&args.config, Asking::of(args.dry_run))?;
    project.rust.check(&project.tools)?;
    let plan = plan::optimize(&project.config, &project.tools, &project.directory, &project.file)?;
    let notes = plan::notes(&project.config, &project.tools, project.rust.used);
    if args.dry_run {
        let mut out = output::text();
        let mut state = State::read(&project.directory);
        let done = |step: &Step| Ok(!args.again && state.is_done(step, &project.directory)?);
        let done: Vec<bool> = plan.steps.iter().map(done).collect::<Result<_, build::Error>>()?;
        let outlook = plan.outlook(&done);
        let remark = |step: &Step| {
            let at = plan.steps.iter().position(|s| s.name == step.name);
            match at.and_then(|at| outlook.get(at)) {
                Some(Outlook::UpToDate) => " (up to date)".to_owned(),
                Some(Outlook::RunsIfChanged(first)) => {
                    format!(" (after step {}, if its result is another)", first + 1)
                }
                _ => String::new(),
            }
        };
        notes.iter().try_for_each(|note| writeln!(out, "# note: {note}"))?;
        write!(out, "cd {}\n\n{}", project.directory.display(), plan.describe(remark))?;
        return Ok(FINE);
    }
    if !global.quiet {
        let note = error_style().paint(Colour::Care, "note:");
        notes.iter().for_each(|text| eprintln!("{note} {text}"));
    }
    if !execute(&plan, &project, args.again, global)? {
        return Ok(INTERRUPTED);
    }
    tell(&project, args.format)
}

/// Runs a plan, all of it where `again`, and shows how it goes. False when the user interrupted it.
pub fn execute(
    plan: &Plan,
    project: &Project,
    again: bool,
    global: &Global,
) -> anyhow::Result<bool> {
    execute_in(plan, &project.directory, again, global)
}

/// The same for a plan whose steps run in any directory.
pub fn execute_in(
    plan: &Plan,
    directory: &Path,
    again: bool,
    global: &Global,
) -> anyhow::Result<bool> {
    let _lock = Lock::take(directory)?;
    if again {
        let _ = std::fs::remove_file(directory.join(STATE_DIRECTORY).join("state.json"));
    }
    let planish = std::env::current_exe().context("cannot find this executable")?;
    let place = Place { directory, planish: &planish, terminal: std::io::stderr().is_terminal() };
    let stop = stop_flag()?;
    let mut display = Display::new(global);
    let ran = execute::run(plan, place, &stop, &mut |index, total, event| {
        display.show(index, total, event)
    });
    let shown = std::mem::take(&mut display.shown);
    drop(display);
    match ran {
        Err(build::Error::Step { step, found, command, said, log }) => {
            // What the step said itself stands above already.
            let said = without(&said, &shown);
            Err(build::Error::Step { step, found, command, said, log }.into())
        }
        Err(error @ build::Error::Interrupted { .. }) => {
            eprintln!("planish: {error}");
            Ok(false)
        }
        other => Ok(other.map(|_| true)?),
    }
}

/// The last lines of a failed step without those that were shown while it ran.
fn without(said: &str, shown: &[String]) -> String {
    let is_new =
        |line: &&str| !shown.iter().any(|own| line.trim_start().strip_prefix("| ") == Some(own));
    said.split_inclusive('\n').filter(|line| is_new(&line.trim_end_matches('\n'))).collect()
}

/// Prints the result and where the report lies.
fn tell(project: &Project, format: Format) -> anyhow::Result<u8> {
    let files = Files::of(&project.config);
    let path = project.directory.join(&files.report_json);
    let bytes = crate::input::read(&path)?;
    let report: Optimization =
        serde_json::from_slice(&bytes).with_context(|| path.display().to_string())?;
    let mut out = output::text();
    match format {
        Format::Json => out.write_all(&bytes)?,
        Format::Text => {
            write!(out, "{}", report.terminal(terminal_style()))?;
            writeln!(
                out,
                "  report: {}",
                project.directory.join(&files.report_markdown).display()
            )?;
            let program = project.directory.join(STATE_DIRECTORY).join(report.result());
            writeln!(out, "  program: {}", program.display())?;
        }
    }
    let compared = report.measurements.iter().flat_map(|m| &m.comparisons);
    // What is built for comparison alone may be slower.
    let mut compared = compared.filter(|compared| compared.variant == report.result());
    let slower = compared.any(|row| row.is_slower());
    Ok(if slower { NEGATIVE } else { FINE })
}

/// Steps on standard error: one line each, with a clock while it runs where there is a terminal.
struct Display {
    quiet: bool,
    verbose: bool,
    style: Style,
    terminal: bool,
    clock: Option<ProgressBar>,
    /// Lines of the step's output so far.
    lines: u64,
    /// The lines that were shown of the step.
    shown: Vec<String>,
}

/// Lines of one step that are shown; the rest is in its log.
const MOST_SHOWN: usize = 200;

impl Display {
    fn new(global: &Global) -> Display {
        let terminal = std::io::stderr().is_terminal();
        let (quiet, verbose) = (global.quiet, global.verbose);
        Display {
            quiet,
            verbose,
            style: error_style(),
            terminal,
            clock: None,
            lines: 0,
            shown: Vec::new(),
        }
    }

    fn show(&mut self, index: usize, total: usize, event: Event) {
        if self.quiet {
            return;
        }
        let place = format!("[{}/{total}]", index + 1);
        match event {
            Event::Skipped(step) => {
                let line = format!("{place} {}: up to date", step.name);
                eprintln!("{}", self.style.paint(Colour::Faint, &line));
            }
            Event::Started(step) => {
                let line = format!("{place} {}", step.name);
                let command = self.style.paint(Colour::Faint, &step.command_line());
                eprintln!("{}: {command}", self.style.paint(Colour::Strong, &line));
                self.lines = 0;
                self.shown.clear();
                if self.terminal && !step.interactive {
                    self.clock = Some(clock());
                }
            }
            Event::Said(step, line) => {
                // A build's own output is long and in its log; planish's stages say little and it
                // matters.
                if (step.program == Program::Planish || self.verbose) && !line.trim().is_empty() {
                    self.say(step, shown(line));
                }
                self.progress(line);
            }
            Event::Printed(_, line) => self.progress(line),
            Event::Finished(step, took) => {
                if let Some(clock) = self.clock.take() {
                    clock.finish_and_clear();
                }
                eprintln!("      {} took {:.1} s", step.name, took.as_secs_f64());
            }
            Event::Failed(step, error) => {
                if let Some(clock) = self.clock.take() {
                    clock.finish_and_clear();
                }
                let warning = self.style.paint(Colour::Care, "warning:");
                let said = without(&error.to_string(), &self.shown);
                let mut lines = said.lines();
                eprintln!(
                    "      {warning} {} is left out: {}",
                    step.name,
                    lines.next().unwrap_or_default()
                );
                lines.for_each(|line| eprintln!("      {line}"));
            }
        }
    }

    /// Shows a line of a step, and notes that it was shown.
    fn say(&mut self, step: &Step, line: String) {
        match self.shown.len() {
            MOST_SHOWN => {
                self.line(&format!("      … more in {STATE_DIRECTORY}/log/{}.log", step.name));
                self.shown.push(line);
            }
            few if few < MOST_SHOWN => {
                self.line(&format!("      {line}"));
                self.shown.push(line);
            }
            _ => {}
        }
    }

    /// How many lines a step has written, and the last one, beside the clock.
    fn progress(&mut self, line: &str) {
        self.lines += 1;
        if let Some(clock) = self.clock.as_ref().filter(|_| !line.trim().is_empty()) {
            let lines = report::counted(self.lines, "line", "lines");
            clock.set_message(format!("{lines}: {}", shown(line)));
        }
    }

    fn line(&self, line: &str) {
        match &self.clock {
            Some(clock) => clock.println(report::visible(line)),
            None => eprintln!("{line}"),
        }
    }
}

impl Drop for Display {
    /// A failed step must not leave its clock behind the error message.
    fn drop(&mut self) {
        if let Some(clock) = self.clock.take() {
            clock.finish_and_clear();
        }
    }
}

fn clock() -> ProgressBar {
    let style = ProgressStyle::with_template("      {spinner} {elapsed} {wide_msg}");
    let clock = ProgressBar::new_spinner()
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    clock.enable_steady_tick(Duration::from_millis(200));
    clock
}
