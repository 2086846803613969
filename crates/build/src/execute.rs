//! Runs the steps of a plan that are not up to date; each ends with all its outputs in place or
//! none.

use crate::again::Since;
use crate::around::PLANISH;
use crate::bounded_log::{self, BoundedLog};
use crate::call::{Call, Program, Wrapper};
use crate::child::{self, Said, Source};
use crate::configure;
use crate::outputs::{Outputs, file_error};
use crate::plan::STATE_DIRECTORY;
use crate::request::Request;
use crate::state::{self, State};
use crate::unchanged::BuiltFrom;
use crate::words::quoted;
use crate::{Error, Plan, Step};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Where and how steps run.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The directory of planish.toml; every step runs here.
    pub directory: &'a Path,
    /// The executable of planish itself.
    pub planish: &'a Path,
    /// True when standard error is a terminal, which interactive steps then draw on.
    pub terminal: bool,
}

/// What is happening; for a display.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A step is up to date.
    Skipped(&'a Step),
    /// A step begins.
    Started(&'a Step),
    /// Why it runs once more, or what it was found to write.
    Again(&'a Step, &'a str),
    /// It wrote a line to standard error.
    Said(&'a Step, &'a str),
    /// It wrote a line to standard output, which goes to the log alone.
    Printed(&'a Step, &'a str),
    /// It ended well after that time.
    Finished(&'a Step, Duration),
    /// An optional step failed; the rest goes on.
    Failed(&'a Step, &'a Error),
}

/// Runs a plan. `stop` is looked at all the time; `observe` gets position, number of steps and
/// event.
pub fn run(
    plan: &Plan,
    place: Place,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(usize, usize, Event),
) -> Result<State, Error> {
    let folder = place.directory.join(STATE_DIRECTORY);
    let logs = folder.join("log");
    std::fs::create_dir_all(&logs).map_err(|source| file_error(&logs, "cannot create", source))?;
    if plan.steps.iter().any(|step| matches!(step.request, Request::Build(_))) {
        configure::write(place.directory)
            .map_err(|source| file_error(&configure::site(), "cannot write", source))?;
    }
    let mut state = State::read(place.directory);
    let total = plan.steps.len();
    let mut missing: Vec<PathBuf> = Vec::new();
    let mut built_from = BuiltFrom::default();
    let mut since = Since::of(&state);
    let reports = plan.steps.iter().any(|step| matches!(step.request, Request::Report(_)));
    for (index, step) in plan.steps.iter().enumerate() {
        if step.optional && step.inputs().iter().any(|input| missing.contains(input)) {
            // Why there is no such file has been said.
            leave_out(plan, step, place, &mut state);
            missing.extend(made(plan, step));
            continue;
        }
        if state.is_done(step, place.directory)? {
            built_from.note(step, &state, place.directory);
            observe(index, total, Event::Skipped(step));
            continue;
        }
        observe(index, total, Event::Started(step));
        let mut looked = state.look(step, place.directory)?;
        if let Some(reason) = since.reason(step, &mut state, place.directory) {
            observe(index, total, Event::Again(step, &reason));
        }
        if reports {
            state::note_unfinished(place.directory, Some(&step.name))?;
        }
        state.steps.remove(&step.name);
        built_from.check(step, &mut state, place.directory)?;
        begin(step, place, &mut state, looked.made_from())?;
        let began = Instant::now();
        let mut said = |source: Source, line: &str| {
            let event = if source == Source::Error { Event::Said } else { Event::Printed };
            observe(index, total, event(step, line));
        };
        match run_step(step, place, stop, &mut said) {
            Ok(()) => {}
            Err(error) if step.optional && !stop.load(Ordering::Relaxed) => {
                observe(index, total, Event::Failed(step, &error));
                built_from.note_again(step, &mut state, place.directory)?;
                leave_out(plan, step, place, &mut state);
                missing.extend(made(plan, step));
                continue;
            }
            Err(error) => return Err(error),
        }
        for file in state.note_written(step, place.directory, &mut looked)? {
            let file = bounded_log::shown(&file.to_string_lossy());
            let told = format!(
                "{file} changed while the step ran, so planish takes it for what the command writes, and \
                 looks at it no more (--again does)"
            );
            observe(index, total, Event::Again(step, &told));
        }
        let seconds = began.elapsed().as_secs_f64();
        let outside = built_from.outside(step, place.directory);
        state.note(step, place.directory, looked.made_from(), seconds, outside)?;
        state.write(place.directory)?;
        built_from.note_again(step, &mut state, place.directory)?;
        observe(index, total, Event::Finished(step, began.elapsed()));
    }
    if reports {
        state::note_unfinished(place.directory, None)?;
    }
    Ok(state)
}

/// A step that goes on with what an earlier run of it left does so only if that was made from the same.
fn begin(step: &Step, place: Place, state: &mut State, made_from: String) -> Result<(), Error> {
    let left = step.call().goes_on;
    if left.is_empty() || state.begun.get(&step.name) == Some(&made_from) {
        return Ok(());
    }
    for path in &left {
        match std::fs::remove_file(place.directory.join(path)) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(file_error(path, "cannot remove", source));
            }
            _ => {}
        }
    }
    state.begun.insert(step.name.clone(), made_from);
    state.write(place.directory)
}

/// What an optional step made in an earlier call belongs to other inputs: nobody shall take it for
/// today's.
fn leave_out(plan: &Plan, step: &Step, place: Place, state: &mut State) {
    state.steps.remove(&step.name);
    for path in made(plan, step) {
        let full = place.directory.join(path);
        let _ =
            if full.is_dir() { std::fs::remove_dir_all(full) } else { std::fs::remove_file(full) };
    }
}

/// What other steps read of a step: its outputs, and those of its directories that are inputs (all
/// builds share one directory, which nobody reads).
fn made(plan: &Plan, step: &Step) -> Vec<PathBuf> {
    let read = |folder: &PathBuf| plan.steps.iter().any(|other| other.inputs().contains(folder));
    let mut all = step.outputs();
    all.extend(step.call().fresh_directories.into_iter().filter(read));
    all
}

fn run_step(step: &Step, place: Place, stop: &AtomicBool, said: &mut Hears) -> Result<(), Error> {
    let interrupted = || stop.load(Ordering::Relaxed);
    if interrupted() {
        return Err(Error::Interrupted { step: step.name.clone() });
    }
    let call = step.call();
    prepare(&call, place)?;
    let log = log_of(step);
    let full = place.directory.join(&log);
    let mut file =
        BoundedLog::create(&full).map_err(|source| file_error(&log, "cannot create", source))?;
    // The first line of a log is the command, so that a log alone can be understood.
    let _ = writeln!(file, "$ {}", call.command_line());
    let outputs = Outputs::begin(&call, place.directory)?;
    let mut status = spawn_and_wait((step, &call), place, &outputs, &mut file, stop, said);
    let failed = status.as_ref().is_ok_and(|status| !status.success());
    if failed && !interrupted() && configure::reuses_answers(&call, place.directory) {
        // Some checks have side effects that what is kept does not restore.
        let line = "planish: the build failed; once more, configured anew, without what the \
                    baseline's configure found";
        let _ = writeln!(file, "{line}");
        said(Source::Error, line);
        let mut anew = call.clone();
        anew.environment.remove(configure::KEPT);
        prepare(&anew, place)?;
        status = spawn_and_wait((step, &anew), place, &outputs, &mut file, stop, said);
        if status.as_ref().is_ok_and(ExitStatus::success) {
            configure::keep_nothing(place.directory);
        }
    }
    if interrupted() {
        return Err(Error::Interrupted { step: step.name.clone() });
    }
    let status = status?;
    let is_finding = call.negative_is_fine && matches!(status.code(), Some(1 | 4));
    if !status.success() && !is_finding {
        let _ = file.finish();
        return Err(failure((step, &call), &status, log, place));
    }
    let kept = outputs.keep(&step.name, &mut |line| {
        let _ = writeln!(file, "{line}");
        said(Source::Error, line);
    });
    if let Err(error) = &kept {
        let _ = writeln!(file, "{error}");
    }
    kept
}

/// Who is told what a step says.
type Hears<'h> = dyn FnMut(Source, &str) + 'h;

/// Where a step's own words go, relative to the directory of planish.toml.
fn log_of(step: &Step) -> PathBuf {
    PathBuf::from(STATE_DIRECTORY).join("log").join(format!("{}.log", step.name))
}

fn prepare(call: &Call, place: Place) -> Result<(), Error> {
    for fresh in &call.fresh_directories {
        let full = place.directory.join(fresh);
        let is_file = full.symlink_metadata().is_ok_and(|about| about.is_file());
        let removed =
            if is_file { std::fs::remove_file(&full) } else { std::fs::remove_dir_all(&full) };
        match removed {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(file_error(fresh, "cannot empty", source));
            }
            _ => {}
        }
        std::fs::create_dir_all(&full)
            .map_err(|source| file_error(fresh, "cannot create", source))?;
    }
    for Wrapper { path, compiler } in &call.wrappers {
        let full = place.directory.join(path);
        write_wrapper(&full, compiler, place.planish)
            .map_err(|e| file_error(path, "cannot write", e))?;
    }
    Ok(())
}

fn write_wrapper(path: &Path, compiler: &[String], planish: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let compiler: Vec<String> = compiler.iter().map(|word| quoted(word)).collect();
    let (planish, compiler) = (quoted(&planish.to_string_lossy()), compiler.join(" "));
    let script = format!("#!/bin/sh\nexec {planish} compiler -- {compiler} \"$@\"\n");
    let mut file = beside::Unfinished::at(path)?.with_mode(0o755);
    file.write_all(script.as_bytes())?;
    file.finish().map(|_| ())
}

fn spawn_and_wait(
    (step, call): (&Step, &Call),
    place: Place,
    outputs: &Outputs,
    log: &mut BoundedLog,
    stop: &AtomicBool,
    said: &mut Hears,
) -> Result<ExitStatus, Error> {
    let start_error = |source| Error::Step {
        step: step.name.clone(),
        found: format!("cannot start it ({source})"),
        command: call.command_line(),
        said: Box::default(),
        log: PathBuf::from(STATE_DIRECTORY).join("log"),
        lacking: false,
    };
    let program: &std::ffi::OsStr = match &call.program {
        Program::Planish => place.planish.as_os_str(),
        Program::Named(name) if name == PLANISH => place.planish.as_os_str(),
        Program::Named(name) => name.as_ref(),
    };
    let words = call.arguments();
    let mut command = Command::new(program);
    command
        .args(words.into_iter().map(|word| with_planish(word, place.planish)))
        .envs(&call.environment)
        .current_dir(place.directory);
    command.stdin(Stdio::null());
    command.stdout(outputs.stdout()?.map_or_else(Stdio::piped, Stdio::from));
    if !(call.interactive && place.terminal) {
        command.stderr(Stdio::piped());
    }
    let child = command.spawn().map_err(start_error)?;
    child::hear(child, stop, &mut |Said { source, line, ended }| {
        // A disk that takes no log may still take the result.
        let _ = log.write_all(line.as_bytes());
        if ended {
            let _ = log.write_all(b"\n");
        }
        said(source, &line);
    })
    .map_err(start_error)
}

/// A word of a step with the executable of planish in its place, as a shell takes it where the word
/// is a line.
fn with_planish(word: OsString, planish: &Path) -> OsString {
    match word.to_str() {
        Some(PLANISH) => planish.into(),
        Some(line) if line.contains(PLANISH) => {
            line.replace(PLANISH, &quoted(&planish.to_string_lossy())).into()
        }
        _ => word,
    }
}

/// What failed, with the last lines of the log and of what a recorded program printed.
fn failure((step, call): (&Step, &Call), status: &ExitStatus, log: PathBuf, place: Place) -> Error {
    /// Lines shown of each.
    const LAST_LINES: usize = 15;
    let full = |path: &Path| place.directory.join(path);
    let mut last = bounded_log::last_lines(&full(&log), 1, LAST_LINES);
    if let Some(printed) = &call.program_log {
        let lines = bounded_log::last_lines(&full(printed), 0, LAST_LINES);
        if !lines.is_empty() {
            last.push(format!("the program printed last (all of it in {}):", printed.display()));
            last.extend(lines);
        }
    }
    Error::Step {
        step: step.name.clone(),
        found: status.to_string(),
        command: call.command_line(),
        said: last.iter().map(|line| format!("  | {line}\n")).collect::<String>().into(),
        log,
        // A relink hands on what the user's build ends with.
        lacking: call.program == Program::Planish
            && status.code() == Some(3)
            && !matches!(step.request, Request::Build(_)),
    }
}
