//! A function's lines and instructions as the page of a recording shows them.

use super::FunctionLines;
use crate::calls::demangled;
use annotate::{Branch, Instruction, Line};
use image::code::InstructionKind;
use serde::Serialize;
use std::collections::BTreeMap;

/// Lines without code that are shown between two with code, if there are no more of them.
const LONGEST_GAP: u32 = 12;
/// Characters of a line, an instruction or a name at most.
const WIDEST: usize = 200;

/// A function.
#[derive(Debug, Serialize)]
pub(crate) struct LinesView {
    /// Its position in the page's list.
    #[serde(rename = "f")]
    pub(crate) function: u32,
    own: u64,
    /// Whether branch stacks tell how often instructions ran.
    counted: bool,
    notes: Vec<String>,
    lines: Vec<LineView>,
}

/// A line.
#[derive(Debug, Default, Serialize)]
struct LineView {
    /// File name and number.
    at: String,
    /// The function that was inlined.
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<String>,
    #[serde(rename = "t")]
    text: String,
    #[serde(rename = "w", skip_serializing_if = "is_zero")]
    weight: u64,
    #[serde(rename = "n", skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    /// Address, text, weight, executions, what its branch did.
    #[serde(rename = "i", skip_serializing_if = "Vec::is_empty")]
    instructions: Vec<(String, String, u64, Option<u64>, String)>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn short(text: &str) -> String {
    let mut rest = text.chars();
    let mut head: String = rest.by_ref().take(WIDEST).collect();
    if rest.next().is_some() {
        head.push('…');
    }
    crate::visible(&head.replace('\t', "    ")).into_owned()
}

impl FunctionLines<'_> {
    /// The source lines of which a page wants the text: those with code, and short gaps between
    /// them.
    pub fn wanted_by_page(&self) -> BTreeMap<usize, Vec<u32>> {
        let mut wanted = self.wanted();
        for lines in wanted.values_mut() {
            lines.sort_unstable();
            lines.dedup();
            let gaps: Vec<u32> = lines
                .windows(2)
                .filter_map(|two| <[u32; 2]>::try_from(two).ok())
                .filter(|[one, next]| next - one <= LONGEST_GAP)
                .flat_map(|[one, next]| one + 1..next)
                .collect();
            lines.extend(gaps);
            lines.sort_unstable();
        }
        wanted
    }

    /// What a page shows in at most `room` bytes; the coldest lines lose their instructions first.
    pub(crate) fn view(&self, function: u32, room: usize) -> Option<LinesView> {
        let mut view = LinesView {
            function,
            own: self.own.period,
            counted: self.counted(),
            notes: super::lines_notes(self).iter().take(8).map(|note| short(note)).collect(),
            lines: Vec::new(),
        };
        let mut before: Option<(usize, u32)> = None;
        for line in self.chosen().into_iter().filter_map(|at| self.annotated.lines.get(at)) {
            let place = line.place.map(|place| (place.file, place.line));
            if let (Some((file, from)), Some((same, to)), None) = (before, place, &line.inlined) {
                let known = self.sources.get(file).filter(|_| file == same && from < to);
                let gap = known.filter(|_| to - from <= LONGEST_GAP);
                for number in gap.map(|_| from + 1..to).into_iter().flatten() {
                    let text = gap.and_then(|known| known.lines.get(&number));
                    let at = self.annotated.files.get(file).map(|path| named(path, number));
                    view.lines.push(LineView {
                        at: at.unwrap_or_default(),
                        text: text.map(|text| short(text)).unwrap_or_default(),
                        ..LineView::default()
                    });
                }
            }
            before = place.filter(|_| line.inlined.is_none());
            view.lines.push(self.line_view(line));
        }
        // As it stands in the page, where what markup begins with is longer.
        let written = |text: String| crate::page::inert(&text).len();
        let size = |view: &LinesView| serde_json::to_string(view).map_or(usize::MAX, written);
        if size(&view) > room {
            view.lines
                .iter_mut()
                .filter(|line| line.weight == 0)
                .for_each(|line| line.instructions.clear());
            view.notes
                .push("to keep the page small, instructions of cold lines are missing".to_owned());
        }
        (size(&view) <= room && !view.lines.is_empty()).then_some(view)
    }

    fn line_view(&self, line: &Line) -> LineView {
        let at = match self.place(line) {
            Some((path, number)) => named(path, number),
            None => "no line".to_owned(),
        };
        let all = &self.annotated.instructions;
        let own = line.instructions.iter().filter_map(|&at| all.get(at));
        LineView {
            at,
            of: line.inlined.as_ref().map(|name| short(&demangled(name))),
            text: self.source(line).map(short).unwrap_or_default(),
            weight: line.weight.period,
            count: line.count,
            instructions: own.map(|one| self.instruction_view(one)).collect(),
        }
    }

    fn instruction_view(&self, one: &Instruction) -> (String, String, u64, Option<u64>, String) {
        let branches = &self.annotated.branches;
        let found = branches.binary_search_by_key(&one.address, |branch| branch.address);
        let branch = found.ok().and_then(|at| branches.get(at));
        let callee =
            one.target_function.as_ref().map(|(name, _)| format!(" <{}>", demangled(name)));
        let text = format!("{}{}", one.text.as_deref().unwrap_or(""), callee.unwrap_or_default());
        let facts = branch.map(facts).unwrap_or_default();
        (format!("{:x}", one.address.0), short(&text), one.weight.period, one.count, facts)
    }
}

fn named(path: &str, number: u32) -> String {
    let name = short(path.rsplit('/').next().unwrap_or(path));
    if number == 0 { format!("{name}:?") } else { format!("{name}:{number}") }
}

/// Which way a branch went.
fn facts(branch: &Branch) -> String {
    let mut facts = Vec::new();
    if branch.kind == InstructionKind::ConditionalBranch {
        facts.extend(branch.taken_percent().map(|taken| format!("taken {taken:.1} %")));
    }
    if branch.mispredicted > 0 {
        facts.push(format!("mispredicted {:.1} %", branch.mispredicted_percent()));
    }
    facts.join(", ")
}
