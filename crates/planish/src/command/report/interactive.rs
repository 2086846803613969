//! `planish report -i`: a recording on the terminal, to look around in.

use super::calls::BY;
use super::lines::of_function;
use super::recording::{Detail, Part, Recording, Shown, open, origin};
use crate::cli::{FINE, Global};
use crate::command::viewing::{self, Answers};
use anyhow::Context as _;
use calltrees::rows::By;
use calltrees::{FunctionId, Recorded};
use perfdata::Input;
use report::calls::lines::lines_notes;
use report::calls::{Direction, Selected, Shape, event_of};
use std::path::{Path, PathBuf};
use viewer::{Lines, Setup, View, Viewer};

/// With what to begin.
pub struct Begin<'b> {
    pub view: View,
    pub function: Option<&'b str>,
    pub by: Option<By>,
}

/// Shows a recording, or the one in a directory, with the usual options.
pub fn run_of(path: &Path, global: &Global) -> anyhow::Result<u8> {
    let inside = path.join("perf.data");
    // The directory form of a recording has a file of this name.
    let is_project = path.is_dir() && !path.join("data").is_file();
    let path = if is_project { inside } else { path.to_owned() };
    let recording = Recording { input: path, interactive: true, part: Part::default() };
    run_view(&recording, View::Hot, global)
}

/// Shows a recording with the usual options, this view first.
pub fn run_view(recording: &Recording, view: View, global: &Global) -> anyhow::Result<u8> {
    let begin = Begin { view, function: None, by: None };
    run(recording, &Shown::default(), &[], begin, global)
}

/// Shows a recording.
pub fn run(
    recording: &Recording,
    shown: &Shown,
    sources: &[PathBuf],
    begin: Begin<'_>,
    global: &Global,
) -> anyhow::Result<u8> {
    viewing::check()?;
    let input = open(&recording.input)?;
    let named = || recording.input.display().to_string();
    let detail = Detail { addresses: true, ..Detail::of(begin.by.unwrap_or_default()) };
    let recorded = recording.part.read(&recording.input, &input, detail, global)?;
    let event = event_of(&recorded, shown.event.as_deref());
    let event = event.map_err(anyhow::Error::msg).with_context(named)?;
    let chosen = match begin.function {
        None => None,
        Some(name) => {
            let shape = Shape::of_function(&recorded, Direction::Callers, name);
            let of = shape.map_err(anyhow::Error::msg).with_context(named)?.of;
            heaviest(&recorded, event, &of)
        }
    };
    let mut viewer = Viewer::new(
        setup((recording, &input, shown), &recorded, detail),
        recorded,
        event,
        begin.view,
        chosen,
    );
    let word = begin.by.and_then(|by| BY.0.iter().find(|(_, one, _)| *one == by));
    word.into_iter().for_each(|(word, ..)| viewer.begin_by(word));
    let mut answers = OfRecording { recording, sources, input, detail, global };
    viewing::show(&mut viewer, &mut answers)?;
    Ok(FINE)
}

/// Of several functions of one name the one with most samples in it or below it.
fn heaviest(recorded: &Recorded, event: u32, of: &[FunctionId]) -> Option<FunctionId> {
    let weight = |id: &FunctionId| -> u64 {
        let stacks = calltrees::rows::of_event(recorded, event);
        stacks.filter(|stack| stack.functions.contains(id)).map(|s| s.weight.period).sum()
    };
    of.iter().copied().max_by_key(|id| (weight(id), std::cmp::Reverse(*id)))
}

/// Whether rows can be about this: not every recording has all, and lines need more to be read.
fn is_recorded(by: By, recorded: &Recorded, detail: Detail) -> bool {
    match by {
        By::Line => detail.lines,
        By::Cgroup => !recorded.cgroups.is_empty(),
        _ => true,
    }
}

fn setup(
    (recording, input, shown): (&Recording, &Input, &Shown),
    recorded: &Recorded,
    detail: Detail,
) -> Setup {
    let origin = origin(&recording.input, input);
    let said = [
        ("recording", Some(origin.recording.clone())),
        ("command", origin.command),
        ("host", origin.host),
        ("processor", origin.processor),
        ("kernel", origin.kernel),
        ("recorder", origin.recorder),
    ];
    let said = said.into_iter().filter_map(|(what, text)| Some(format!("{what}: {}", text?)));
    let mut setup = viewing::setup(origin.recording, said.collect(), shown.percent);
    setup.by.retain(|(_, by)| is_recorded(*by, recorded, detail));
    setup
}

/// What the viewer asks of a recording.
struct OfRecording<'r> {
    recording: &'r Recording,
    sources: &'r [PathBuf],
    input: Input,
    detail: Detail,
    global: &'r Global,
}

impl Answers for OfRecording<'_> {
    fn lines(
        &mut self,
        recorded: &Recorded,
        function: FunctionId,
        event: u32,
    ) -> Result<Lines, String> {
        let selected = Selected { recorded, event, limit: 0, percent: 0.0 };
        let from = (self.recording, &self.input);
        let told = of_function(from, (selected, function), self.sources, self.global);
        let told = told.map_err(|error| format!("{error:#}"))?;
        let notes = lines_notes(&told);
        Ok(Lines { annotated: told.annotated, sources: told.sources, own: told.own, notes })
    }

    fn time(&mut self, time: &str) -> Result<Recorded, String> {
        let mut part = self.recording.part.clone();
        part.filter.time = match time {
            "" => self.recording.part.filter.time,
            time => Some(super::filter::seconds(time)?),
        };
        // A bar would be drawn over the screen.
        let mut quiet = self.global.clone();
        quiet.quiet = true;
        let read = part.read(&self.recording.input, &self.input, self.detail, &quiet);
        let recorded = read.map_err(|error| format!("{error:#}"))?;
        if recorded.stacks.is_empty() {
            return Err("no sample was taken then".to_owned());
        }
        Ok(recorded)
    }
}
