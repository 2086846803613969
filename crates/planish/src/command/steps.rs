//! The steps of a plan, run and shown on standard error: a line each, with a clock while it runs
//! where there is a terminal.

use super::compare::stop_flag;
use crate::cli::Global;
use crate::output::error_style;
use anyhow::Context;
use build::execute::Place;
use build::progress::Progress;
use build::telling::{self, Screen};
use build::{Plan, Step};
use indicatif::{ProgressBar, ProgressStyle};
use report::{Colour, Style};
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

/// Runs a plan whose steps run in `directory`, all of it where `again`. False when the user
/// interrupted it.
pub fn run(plan: &Plan, directory: &Path, again: bool, global: &Global) -> anyhow::Result<bool> {
    let planish = std::env::current_exe().context("cannot find this executable")?;
    let terminal = std::io::stderr().is_terminal();
    let place = Place { directory, planish: &planish, terminal };
    let stop = stop_flag()?;
    // Whose parent Ctrl-C has ended, and who ignores it, is found then. Best effort: kernels before
    // 3.4 have no such thing.
    let _ = build::adopt_orphans();
    let mut display =
        Display { verbose: global.verbose, style: error_style(), terminal, clock: None };
    let screen = (!global.quiet).then_some(&mut display as &mut dyn Screen);
    let ran = telling::run(plan, place, again, &stop, screen);
    // A failed step must not leave its clock behind the error message.
    display.clear();
    match ran {
        Err(error @ build::Error::Interrupted { .. }) => {
            eprintln!("planish: {error}");
            Ok(false)
        }
        other => Ok(other.map(|()| true)?),
    }
}

struct Display {
    verbose: bool,
    style: Style,
    terminal: bool,
    clock: Option<ProgressBar>,
}

impl Display {
    fn clear(&mut self) {
        if let Some(clock) = self.clock.take() {
            clock.finish_and_clear();
        }
    }
}

impl Screen for Display {
    fn shows_builds(&self) -> bool {
        self.verbose
    }

    fn skipped(&mut self, place: &str, step: &Step) {
        let line = format!("{place} {}: up to date", step.name);
        eprintln!("{}", self.style.paint(Colour::Faint, &line));
    }

    fn started(&mut self, place: &str, step: &Step) {
        let head = self.style.paint(Colour::Strong, &format!("{place} {}", step.name));
        eprintln!("{head}: {}", self.style.paint(Colour::Faint, &step.command_line()));
        self.clock = (self.terminal && !step.call().interactive).then(clock);
    }

    fn line(&mut self, line: &str) {
        match &self.clock {
            Some(clock) => clock.println(report::visible(&format!("      {line}"))),
            None => eprintln!("      {line}"),
        }
    }

    fn progress(&mut self, progress: &Progress, left: Option<Duration>, last: &str) {
        let Some(clock) = &self.clock else { return };
        let done = match (progress.objects, progress.share) {
            (Some((done, total)), _) => format!("{done} of {total}"),
            (None, Some(share)) => format!("{:.0} %", share * 100.0),
            (None, None) => report::counted(progress.lines, "line", "lines"),
        };
        let left = left.map(|left| format!(", about {} s left", left.as_secs()));
        clock.set_message(format!("{done}{}: {last}", left.unwrap_or_default()));
    }

    fn finished(&mut self, step: &Step, took: Duration) {
        self.clear();
        eprintln!("      {} took {:.1} s", step.name, took.as_secs_f64());
    }

    fn left_out(&mut self, step: &Step, why: &str) {
        self.clear();
        let warning = self.style.paint(Colour::Care, "warning:");
        let mut lines = why.lines();
        let first = lines.next().unwrap_or_default();
        eprintln!("      {warning} {} is left out: {first}", step.name);
        lines.for_each(|line| eprintln!("      {line}"));
    }
}

fn clock() -> ProgressBar {
    let style = ProgressStyle::with_template("      {spinner} {elapsed} {wide_msg}");
    let clock = ProgressBar::new_spinner()
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    clock.enable_steady_tick(Duration::from_millis(200));
    clock
}
