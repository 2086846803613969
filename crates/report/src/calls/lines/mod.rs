//! How is one function told, by source line and instruction?

mod json;
mod text;
mod view;

pub use json::lines_json;
pub use text::lines_text;
pub(crate) use view::LinesView;

use super::Selected;
use annotate::{Annotated, Instruction, Line};
use calltrees::{FunctionId, Known, Site, Weight};
use image::ImageAddr;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

/// A function and all that is known of it.
#[derive(Clone, Debug)]
pub struct FunctionLines<'r> {
    /// The recording, the event and how much to tell.
    pub selected: Selected<'r>,
    /// Which function.
    pub function: FunctionId,
    /// Its code.
    pub code: Range<ImageAddr>,
    /// What was sampled in it.
    pub own: Weight,
    /// Its instructions and lines.
    pub annotated: Annotated,
    /// The sum of its instructions' executions; 0 without branch stacks.
    pub executed: f64,
    /// Its source files, by the positions of [`Annotated::files`].
    pub sources: Vec<SourceText>,
    /// What became of the branch stacks, if they were counted.
    pub stacks: Option<counts::Ledger>,
    /// Whether cold lines and instructions are told too.
    pub all: bool,
    /// What the reader should know beside the numbers.
    pub notes: Vec<String>,
}

/// The lines of a source file that are to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceText {
    /// The file that was read; none where it is not at hand.
    pub path: Option<String>,
    /// Why its lines are not at hand.
    pub problem: Option<String>,
    /// Line by number.
    pub lines: BTreeMap<u32, String>,
}

/// The functions of a name with code of their own, those that weigh most by themselves first.
///
/// # Errors
/// Where no sample has such a function, or only inlined ones.
pub fn candidates(
    selected: &Selected<'_>,
    sites: &[Site],
    name: &str,
) -> Result<Vec<(FunctionId, Weight)>, String> {
    let recorded = selected.recorded;
    let found = super::Shape::of_function(recorded, super::Direction::Callers, name)?.of;
    let mut own: Vec<(FunctionId, Weight)> = Vec::new();
    for id in found {
        let function = recorded.names.function(id);
        if function.is_none_or(|function| function.known == Known::Inlined) {
            continue;
        }
        let mut weight = Weight::default();
        sites.iter().filter(|site| site.function == id).for_each(|site| weight.add(site.weight));
        own.push((id, weight));
    }
    if own.is_empty() {
        return Err(format!(
            "{name} was inlined wherever it was sampled; `planish report callers {name} --inlined` \
             names the functions that hold it"
        ));
    }
    own.sort_by_key(|(id, weight)| (Reverse((weight.period, weight.samples)), *id));
    Ok(own)
}

impl FunctionLines<'_> {
    /// The part of the function's own weight, in per cent.
    fn share(&self, weight: Weight) -> f64 {
        self.selected.share(weight, self.own)
    }

    /// Whether branch stacks tell how often instructions ran.
    fn counted(&self) -> bool {
        self.annotated.instructions.iter().any(|one| one.count.is_some())
    }

    /// How much of the function's samples or, if that is more, of its executed instructions is of
    /// these instructions, in per cent.
    fn heat<'i>(&self, instructions: impl IntoIterator<Item = &'i Instruction>) -> f64 {
        let (mut weight, mut ran) = (Weight::default(), 0.0);
        for one in instructions {
            weight.add(one.weight);
            ran += one.count.unwrap_or(0) as f64;
        }
        let ran = if self.executed > 0.0 { 100.0 * ran / self.executed } else { 0.0 };
        self.share(weight).max(ran)
    }

    /// Whether what has this heat is told.
    fn is_hot(&self, heat: f64) -> bool {
        let nothing_known = self.own.period == 0 && self.executed == 0.0;
        self.all || nothing_known || heat >= self.selected.percent
    }

    /// The lines to tell, by position and in their order.
    fn chosen(&self) -> Vec<usize> {
        let instructions = &self.annotated.instructions;
        let mut hot: Vec<(usize, f64)> = Vec::new();
        for (index, line) in self.annotated.lines.iter().enumerate() {
            let heat = self.heat(line.instructions.iter().filter_map(|&one| instructions.get(one)));
            if self.is_hot(heat) {
                hot.push((index, heat));
            }
        }
        if self.selected.limit != 0 && !self.all {
            hot.sort_by(|(one, heat), (other, more)| more.total_cmp(heat).then(one.cmp(other)));
            hot.truncate(self.selected.limit);
        }
        let mut chosen: Vec<usize> = hot.into_iter().map(|(index, _)| index).collect();
        chosen.sort_unstable();
        chosen
    }

    /// Path and number of a line.
    fn place(&self, line: &Line) -> Option<(&str, u32)> {
        let place = line.place?;
        let path = self.annotated.files.get(place.file)?;
        Some((path, place.line))
    }

    /// Its source text.
    fn source(&self, line: &Line) -> Option<&str> {
        let place = line.place?;
        self.sources.get(place.file)?.lines.get(&place.line).map(String::as_str)
    }

    /// The source lines that are told and of which text would help: by file.
    pub fn wanted(&self) -> BTreeMap<usize, Vec<u32>> {
        let mut wanted: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        let chosen = self.chosen();
        for place in chosen.iter().filter_map(|&index| self.annotated.lines.get(index)?.place) {
            if place.line > 0 {
                wanted.entry(place.file).or_default().push(place.line);
            }
        }
        wanted
    }
}

/// What the numbers do not hold, in words.
pub fn lines_notes(told: &FunctionLines<'_>) -> Vec<String> {
    let mut notes = told.notes.clone();
    let annotated = &told.annotated;
    notes.extend(source_notes(told));
    if annotated.instructions.is_empty() {
        notes.push("its file has no code there".to_owned());
    } else if annotated.lines.iter().all(|line| line.place.is_none()) {
        notes.push(
            "no source lines: there is no debug information (-g), neither in the file nor in a \
             separate debug file (--symbols)"
                .to_owned(),
        );
    }
    let has_text = annotated.instructions.iter().any(|one| one.text.is_some());
    if !has_text && !annotated.instructions.is_empty() {
        notes.push(
            "instructions are shown by their addresses: they are disassembled for x86 only"
                .to_owned(),
        );
    }
    if annotated.unplaced.samples > 0 {
        let samples = crate::counted(annotated.unplaced.samples, "sample", "samples");
        notes.push(format!("{samples} of the function at no instruction that could be told"));
    }
    if annotated.left_out_bytes > 0 {
        let bytes = crate::counted(annotated.left_out_bytes, "byte", "bytes");
        notes.push(format!("the last {bytes} of the function are not told: it is too large"));
    }
    if annotated.more_loops {
        notes.push("not all loops are told: the function is too large or too tangled".to_owned());
    }
    if let Some(problem) = &annotated.problem {
        notes.push(format!("debug information: {}", crate::visible(problem)));
    }
    notes
}

/// Which source files are not at hand and why, those with one reason together.
fn source_notes(told: &FunctionLines<'_>) -> Vec<String> {
    /// Names of files in a note.
    const MOST: usize = 4;
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (file, source) in told.annotated.files.iter().zip(&told.sources) {
        if let Some(problem) = &source.problem {
            by_reason.entry(problem).or_default().push(file);
        }
    }
    let note = |(problem, files): (&str, Vec<&str>)| {
        let named: Vec<_> = files.iter().take(MOST).map(|file| crate::visible(file)).collect();
        let more = match files.len().saturating_sub(MOST) {
            0 => String::new(),
            more => format!(" and {}", crate::counted(more as u64, "other", "others")),
        };
        format!("{}{more}: lines not shown: {}", named.join(", "), crate::visible(problem))
    };
    by_reason.into_iter().map(note).collect()
}
