//! Runs the steps of a plan that are not up to date; each ends with all its outputs in place or
//! none.

use crate::bounded_log::{self, BoundedLog};
use crate::child::{self, Said, Source};
use crate::configure;
use crate::pages::Pages;
use crate::plan::STATE_DIRECTORY;
use crate::state::State;
use crate::step::{Wrapper, quoted};
use crate::{Error, Plan, Program, Step};
use std::fs::File;
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
    /// It wrote a line to standard error.
    Said(&'a Step, &'a str),
    /// It wrote a line to standard output, which goes to the log alone.
    Printed(&'a Step, &'a str),
    /// It ended well after that time.
    Finished(&'a Step, Duration),
    /// An optional step failed; the rest goes on.
    Failed(&'a Step, &'a Error),
}

/// What is said of a step that calls no build command and does not make what it promised.
const PROGRAM_FAULT: &str = "this is a fault of the step's program";

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
    configure::write(place.directory)
        .map_err(|source| file_error(&configure::site(), "cannot write", source))?;
    let mut state = State::read(place.directory);
    let total = plan.steps.len();
    let mut missing: Vec<&PathBuf> = Vec::new();
    for (index, step) in plan.steps.iter().enumerate() {
        if step.optional && step.inputs.iter().any(|input| missing.contains(&input)) {
            // Why there is no such file has been said.
            leave_out(plan, step, place, &mut state);
            missing.extend(made(plan, step));
            continue;
        }
        if state.is_done(step, place.directory)? {
            observe(index, total, Event::Skipped(step));
            continue;
        }
        observe(index, total, Event::Started(step));
        state.steps.remove(&step.name);
        let made_from = state.made_from(step, place.directory)?;
        let began = Instant::now();
        let mut said = |source: Source, line: &str| {
            let event = if source == Source::Error { Event::Said } else { Event::Printed };
            observe(index, total, event(step, line));
        };
        let ran = run_step(step, place, stop, &mut said);
        if ran.is_err() {
            remove_staged(step, place);
        }
        match ran {
            Ok(()) => {}
            Err(error) if step.optional && !stop.load(Ordering::Relaxed) => {
                observe(index, total, Event::Failed(step, &error));
                leave_out(plan, step, place, &mut state);
                missing.extend(made(plan, step));
                continue;
            }
            Err(error) => return Err(error),
        }
        state.note(step, place.directory, made_from, began.elapsed().as_secs_f64())?;
        state.write(place.directory)?;
        observe(index, total, Event::Finished(step, began.elapsed()));
    }
    Ok(state)
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
fn made<'a>(plan: &'a Plan, step: &'a Step) -> impl Iterator<Item = &'a PathBuf> {
    let read =
        move |folder: &&PathBuf| plan.steps.iter().any(|other| other.inputs.contains(folder));
    step.outputs.iter().chain(step.fresh_directories.iter().filter(read))
}

/// The name an output has while it is being made.
fn staged(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

fn file_error(path: &Path, action: &'static str, source: std::io::Error) -> Error {
    Error::File { path: path.to_owned(), action, source }
}

fn run_step(step: &Step, place: Place, stop: &AtomicBool, said: &mut Hears) -> Result<(), Error> {
    let interrupted = || stop.load(Ordering::Relaxed);
    if interrupted() {
        return Err(Error::Interrupted { step: step.name.clone() });
    }
    prepare(step, place)?;
    let log = log_of(step);
    let full = place.directory.join(&log);
    let mut file =
        BoundedLog::create(&full).map_err(|source| file_error(&log, "cannot create", source))?;
    // The first line of a log is the command, so that a log alone can be understood.
    let _ = writeln!(file, "$ {}", step.command_line());
    let status = spawn_and_wait(step, place, &mut file, stop, said);
    if interrupted() {
        return Err(Error::Interrupted { step: step.name.clone() });
    }
    let status = status?;
    if !status.success() && !status.code().is_some_and(|code| step.also_fine.contains(&code)) {
        let _ = file.finish();
        return Err(failure(step, &status, log, place));
    }
    put_in_place(step, place, &mut file, said)
}

/// Who is told what a step says.
type Hears<'h> = dyn FnMut(Source, &str) + 'h;

/// Where a step's own words go, relative to the directory of planish.toml.
fn log_of(step: &Step) -> PathBuf {
    PathBuf::from(STATE_DIRECTORY).join("log").join(format!("{}.log", step.name))
}

fn create(path: &Path) -> Result<File, Error> {
    beside::fresh(path).map_err(|source| file_error(path, "cannot create", source))
}

fn prepare(step: &Step, place: Place) -> Result<(), Error> {
    for fresh in &step.fresh_directories {
        let full = place.directory.join(fresh);
        match std::fs::remove_dir_all(&full) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(file_error(fresh, "cannot empty", source));
            }
            _ => {}
        }
        std::fs::create_dir_all(&full)
            .map_err(|source| file_error(fresh, "cannot create", source))?;
    }
    for Wrapper { path, compiler } in &step.wrappers {
        let full = place.directory.join(path);
        write_wrapper(&full, compiler, place.planish)
            .map_err(|e| file_error(path, "cannot write", e))?;
    }
    remove_staged(step, place);
    Ok(())
}

fn write_wrapper(path: &Path, compiler: &str, planish: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let (planish, compiler) = (quoted(&planish.to_string_lossy()), quoted(compiler));
    let script = format!("#!/bin/sh\nexec {planish} compiler -- {compiler} \"$@\"\n");
    let mut file = beside::Unfinished::at(path)?.with_mode(0o755);
    file.write_all(script.as_bytes())?;
    file.finish().map(|_| ())
}

/// Half-made outputs help nobody: neither those of a call that was killed nor those of a failed or
/// interrupted step.
fn remove_staged(step: &Step, place: Place) {
    for output in &step.outputs {
        let _ = std::fs::remove_file(place.directory.join(staged(output)));
    }
}

fn spawn_and_wait(
    step: &Step,
    place: Place,
    log: &mut BoundedLog,
    stop: &AtomicBool,
    said: &mut Hears,
) -> Result<ExitStatus, Error> {
    let start_error = |source| Error::Step {
        step: step.name.clone(),
        found: format!("cannot start it ({source})"),
        command: step.command_line(),
        said: String::new(),
        log: PathBuf::from(STATE_DIRECTORY).join("log"),
    };
    let program: &std::ffi::OsStr = match &step.program {
        Program::Planish => place.planish.as_os_str(),
        Program::Named(name) => name.as_ref(),
    };
    let mut command = Command::new(program);
    let there = |argument: &&String| {
        let optional = step.not_there.iter().any(|path| path.as_os_str() == argument.as_str());
        !optional || place.directory.join(argument).is_file()
    };
    let swap = |argument: &String| match step
        .outputs
        .iter()
        .find(|o| o.as_os_str() == argument.as_str())
    {
        Some(output) => staged(output).into_os_string(),
        None => argument.into(),
    };
    command
        .args(step.arguments.iter().filter(there).map(swap))
        .envs(&step.environment)
        .current_dir(place.directory);
    command.stdin(Stdio::null());
    command.stdout(match &step.stdout {
        Some(path) => create(&place.directory.join(staged(path)))?.into(),
        None => Stdio::piped(),
    });
    if !(step.interactive && place.terminal) {
        command.stderr(Stdio::piped());
    }
    let child = command.spawn().map_err(start_error)?;
    child::hear(child, stop, &mut |Said { source, line, ended }| {
        let line = final_names(step, &line);
        // A disk that takes no log may still take the result.
        let _ = log.write_all(line.as_bytes());
        if ended {
            let _ = log.write_all(b"\n");
        }
        said(source, &line);
    })
    .map_err(start_error)
}

/// A step's words with the names its outputs will have.
fn final_names(step: &Step, line: &str) -> String {
    let mut line = line.to_owned();
    for output in &step.outputs {
        line = line.replace(&*staged(output).to_string_lossy(), &output.to_string_lossy());
    }
    line
}

/// What failed, with the last lines of the log and of what a recorded program printed.
fn failure(step: &Step, status: &ExitStatus, log: PathBuf, place: Place) -> Error {
    /// Lines shown of each.
    const LAST_LINES: usize = 15;
    let full = |path: &Path| place.directory.join(path);
    let mut last = bounded_log::last_lines(&full(&log), 1, LAST_LINES);
    if let Some(printed) = &step.program_log {
        let lines = bounded_log::last_lines(&full(printed), 0, LAST_LINES);
        if !lines.is_empty() {
            last.push(format!("the program printed last (all of it in {}):", printed.display()));
            last.extend(lines);
        }
    }
    Error::Step {
        step: step.name.clone(),
        found: status.to_string(),
        command: step.command_line(),
        said: last.iter().map(|line| format!("  | {line}\n")).collect(),
        log,
    }
}

/// Gives what a step printed as its result the names that its outputs will have, where it is text.
fn with_final_names(step: &Step, path: &Path) -> Result<(), Error> {
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(()) };
    let named = final_names(step, &text);
    if named == text {
        return Ok(());
    }
    beside::write(path, named).map_err(|source| file_error(path, "cannot write", source))
}

fn put_in_place(
    step: &Step,
    place: Place,
    log: &mut BoundedLog,
    said: &mut Hears,
) -> Result<(), Error> {
    let mut told = |sentence: Option<String>| {
        if let Some(line) = sentence {
            let _ = writeln!(log, "{line}");
            said(Source::Error, &line);
        }
    };
    if let Some(printed) = &step.stdout {
        with_final_names(step, &place.directory.join(staged(printed)))?;
    }
    for (made, kept) in &step.collect {
        let from = place.directory.join(made);
        if !from.is_file() {
            let next = match step.environment.get("PLANISH_OUT") {
                None => PROGRAM_FAULT.to_owned(),
                Some(_) if made.ends_with(crate::reuse::LOG) => {
                    "the layout is applied by what PLANISH_CC and PLANISH_CXX name: the build \
                     command must compile with them"
                        .to_owned()
                }
                Some(out) => format!(
                    "check [build] binary in planish.toml, and that the command writes below \
                     $PLANISH_OUT ({out})"
                ),
            };
            return Err(Error::NoOutput { step: step.name.clone(), path: made.clone(), next });
        }
        let to = place.directory.join(staged(kept));
        match step.pages_of(kept) {
            Pages::Off => {
                beside::copy(&from, &to)
                    .map_err(|source| file_error(&to, "cannot copy to", source))?;
            }
            pages => told(pages.write(&from, &to)?),
        }
    }
    if let Some((program, pages)) = &step.kept_program {
        let made = place.directory.join(staged(program));
        let collected = step.collect.iter().any(|(_, kept)| kept == program);
        // What the step's program has not made is told below.
        if !collected && made.is_file() {
            told(pages.write(&made, &made)?);
        }
    }
    for output in &step.outputs {
        let from = place.directory.join(staged(output));
        let to = place.directory.join(output);
        if let Err(source) = std::fs::rename(&from, &to) {
            if source.kind() == std::io::ErrorKind::NotFound {
                let next = PROGRAM_FAULT.into();
                return Err(Error::NoOutput {
                    step: step.name.clone(),
                    path: output.clone(),
                    next,
                });
            }
            return Err(file_error(&to, "cannot rename to", source));
        }
    }
    Ok(())
}
