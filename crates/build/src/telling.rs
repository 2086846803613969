//! What is told of a plan's steps while they run, how much of it, and what is not said twice?

use crate::bounded_log::{shown, shown_message};
use crate::execute::{self, Event, Place};
use crate::plan::STATE_DIRECTORY;
use crate::progress::Progress;
use crate::request::Request;
use crate::{Error, Lock, Plan, Program, Step, kept_rounds};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Lines of one step that are shown; the rest is in its log.
const MOST_SHOWN: usize = 200;

/// Who shows it. `place` is the step's number and how many there are: `[2/9]`.
pub trait Screen {
    /// Lines of build commands are shown too, not those of planish alone.
    fn shows_builds(&self) -> bool;
    /// A step is up to date.
    fn skipped(&mut self, place: &str, step: &Step);
    /// A step begins.
    fn started(&mut self, place: &str, step: &Step);
    /// A line about the step that runs.
    fn line(&mut self, line: &str);
    /// How far the step is, the time that it will take still where that can be told, and its last
    /// line.
    fn progress(&mut self, progress: &Progress, left: Option<Duration>, last: &str);
    /// A step ended well after that time.
    fn finished(&mut self, step: &Step, took: Duration);
    /// A step is left out; why stands in one line or several.
    fn left_out(&mut self, step: &Step, why: &str);
}

/// Runs a plan, all of it where `again`; nobody else runs one in its directory meanwhile. Without
/// a screen nothing is told.
///
/// # Errors
/// At the first step that fails and is not optional; its last lines are in the error where they
/// were not shown.
pub fn run(
    plan: &Plan,
    place: Place,
    again: bool,
    stop: &AtomicBool,
    screen: Option<&mut dyn Screen>,
) -> Result<(), Error> {
    let _lock = Lock::take(place.directory)?;
    if again {
        let _ = std::fs::remove_file(place.directory.join(STATE_DIRECTORY).join("state.json"));
        kept_rounds::forget_all(place.directory);
    }
    let Some(screen) = screen else {
        return execute::run(plan, place, stop, &mut |_, _, _| {}).map(drop);
    };
    let mut telling = Telling {
        screen,
        progress: Progress::default(),
        began: Instant::now(),
        usual: None,
        shown: Vec::new(),
    };
    let ran = execute::run(plan, place, stop, &mut |index, total, event| {
        telling.hear(&format!("[{}/{total}]", index + 1), event);
    });
    ran.map(drop).map_err(|error| match error {
        Error::Step { step, found, command, said, log, lacking } => {
            let said = telling.new_lines(&said).into();
            Error::Step { step, found, command, said, log, lacking }
        }
        other => other,
    })
}

struct Telling<'s> {
    screen: &'s mut dyn Screen,
    /// How far the step is.
    progress: Progress,
    /// When it began.
    began: Instant,
    /// Lines of the last build.
    usual: Option<u64>,
    /// The lines that were shown of the step.
    shown: Vec<String>,
}

impl Telling<'_> {
    fn hear(&mut self, place: &str, event: Event<'_>) {
        match event {
            Event::Skipped(step) => self.screen.skipped(place, step),
            Event::Started(step) => {
                self.progress = Progress::default();
                self.began = Instant::now();
                self.shown.clear();
                self.screen.started(place, step);
            }
            Event::Again(step, why) => self.say(step, why.to_owned()),
            Event::Said(step, line) => {
                // A build's own output is long and in its log; planish's stages say little and it
                // matters.
                let own = step.call().program == Program::Planish || line.starts_with("planish: ");
                if (own || self.screen.shows_builds()) && !line.trim().is_empty() {
                    self.say(step, if own { shown_message(line) } else { shown(line) });
                }
                self.progress(step, line);
            }
            Event::Printed(step, line) => self.progress(step, line),
            Event::Finished(step, took) => {
                // Every build runs the same command.
                if matches!(step.request, Request::Build(_)) {
                    self.usual = Some(self.progress.lines);
                }
                self.screen.finished(step, took);
            }
            Event::Failed(step, error) => {
                let why = self.new_lines(&error.to_string());
                self.screen.left_out(step, &why);
            }
        }
    }

    /// Shows a line of a step, and notes that it was shown.
    fn say(&mut self, step: &Step, line: String) {
        if self.shown.len() < MOST_SHOWN {
            self.screen.line(&line);
        } else if self.shown.len() == MOST_SHOWN {
            self.screen.line(&format!("… more in {STATE_DIRECTORY}/log/{}.log", step.name));
        } else {
            return;
        }
        self.shown.push(line);
    }

    fn progress(&mut self, step: &Step, line: &str) {
        let usual = self.usual.filter(|_| matches!(step.request, Request::Build(_)));
        self.progress.hear(line, usual);
        if !line.trim().is_empty() {
            let left = self.progress.left(self.began.elapsed());
            self.screen.progress(&self.progress, left, &shown(line));
        }
    }

    /// What a failed step said last, without the lines that were shown while it ran.
    fn new_lines(&self, said: &str) -> String {
        let is_new = |line: &&str| {
            let line = line.trim_end_matches('\n').trim_start();
            let Some(line) = line.strip_prefix("| ") else { return true };
            // It may have been cut there, and not here.
            let cut = line.strip_suffix('…');
            let is_own = |own: &String| own == line || cut.is_some_and(|cut| own.starts_with(cut));
            !self.shown.iter().any(is_own)
        };
        said.split_inclusive('\n').filter(is_new).collect()
    }
}
