//! A function as text: lines, below each its instructions.

use super::FunctionLines;
use crate::calls::{bracketed, demangled};
use crate::{Colour, Style, visible};
use annotate::{Branch, Instruction, Line};
use image::ImageAddr;
use image::blocks::BlockId;
use image::code::InstructionKind;
use std::fmt::Write as _;

/// Characters of a source line or of a name at most.
const WIDEST: usize = 160;
/// Shorter stretches of cold instructions are shown.
const SHORTEST_GAP: usize = 4;
/// From so many per cent of the function on, a weight is set off; and from so many, strongly.
const WARM: f64 = 5.0;
const HOT: f64 = 20.0;

/// The function as text.
pub fn lines_text(told: &FunctionLines<'_>, style: Style) -> String {
    let mut text = format!("{}\n{}\n\n", told.selected.headline(), title(told, style));
    let page = Page { told, style };
    let count = if told.counted() { format!("{:>14}", "executions") } else { String::new() };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{:>8}{count}  line", "self");
    let chosen = told.chosen();
    for line in chosen.iter().filter_map(|&index| told.annotated.lines.get(index)) {
        page.line(&mut text, line);
    }
    page.left_out(&mut text, &chosen);
    page.loops(&mut text);
    text
}

fn title(told: &FunctionLines<'_>, style: Style) -> String {
    let names = &told.selected.recorded.names;
    let name = names.function(told.function).map(|f| demangled(&f.name)).unwrap_or_default();
    let library = names.library(told.function).map(|l| l.short().to_owned()).unwrap_or_default();
    let share = told.selected.share(told.own, told.selected.whole());
    format!(
        "{}  {}: {share:.2} % of all, {}; {} at {:#x}",
        style.paint(Colour::Strong, &short(&name)),
        bracketed(&library),
        crate::counted(told.own.samples, "sample", "samples"),
        crate::counted(size(told), "byte", "bytes"),
        told.code.start.0,
    )
}

fn size(told: &FunctionLines<'_>) -> u64 {
    told.code.end.0.saturating_sub(told.code.start.0)
}

/// A line of somebody's text, harmless and not too long.
fn short(text: &str) -> String {
    let head: String = text.chars().take(WIDEST).flat_map(tab_free).collect();
    let more = if text.chars().nth(WIDEST).is_some() { "…" } else { "" };
    format!("{}{more}", visible(&head))
}

fn tab_free(c: char) -> impl Iterator<Item = char> {
    let (c, times) = if c == '\t' { (' ', 4) } else { (c, 1) };
    std::iter::repeat_n(c, times)
}

struct Page<'p> {
    told: &'p FunctionLines<'p>,
    style: Style,
}

impl Page<'_> {
    /// Weight and count in their columns.
    fn columns(&self, weight: calltrees::Weight, count: Option<u64>) -> String {
        let share = self.told.share(weight);
        let mut columns = if weight.samples == 0 {
            format!("{:>8}", "")
        } else {
            let shown = format!("{share:>6.2} %");
            match share {
                share if share >= HOT => self.style.paint(Colour::Bad, &shown),
                share if share >= WARM => self.style.paint(Colour::Care, &shown),
                _ => shown,
            }
        };
        if self.told.counted() {
            let count = count.map(crate::count).unwrap_or_default();
            let _ = write!(columns, "{count:>14}");
        }
        columns
    }

    fn line(&self, text: &mut String, line: &Line) {
        let place = match self.told.place(line) {
            Some((path, 0)) => format!("{}:?", short(file_name(path))),
            Some((path, number)) => format!("{}:{number}", short(file_name(path))),
            None => "no line".to_owned(),
        };
        let inlined = line.inlined.as_ref().map(|name| format!(" ({})", short(&demangled(name))));
        let source = self.told.source(line).map(|source| format!("  {}", short(source)));
        let _ = writeln!(
            text,
            "{}  {}{}{}",
            self.columns(line.weight, line.count),
            self.style.paint(Colour::Strong, &place),
            inlined.unwrap_or_default(),
            source.unwrap_or_default().trim_end(),
        );
        self.instructions(text, line);
    }

    fn instructions(&self, text: &mut String, line: &Line) {
        let all = &self.told.annotated.instructions;
        let own: Vec<&Instruction> = line.instructions.iter().filter_map(|&n| all.get(n)).collect();
        let counts = |one: &Instruction| {
            self.told.is_hot(self.told.heat([one])) || self.branch(one.address).is_some()
        };
        let near = |index: usize| {
            let around = own.get(index.saturating_sub(1)..=index + 1);
            around
                .or(own.get(index.saturating_sub(1)..))
                .into_iter()
                .flatten()
                .any(|one| counts(one))
        };
        let mut cold: Vec<&Instruction> = Vec::new();
        for (index, instruction) in own.iter().enumerate() {
            if near(index) {
                self.flush(text, &mut cold);
                self.instruction(text, instruction);
            } else {
                cold.push(instruction);
            }
        }
        self.flush(text, &mut cold);
    }

    fn flush(&self, text: &mut String, cold: &mut Vec<&Instruction>) {
        if cold.len() < SHORTEST_GAP {
            cold.iter().for_each(|instruction| self.instruction(text, instruction));
        } else {
            let blank = " ".repeat(if self.told.counted() { 22 } else { 8 });
            let more = crate::counted(cold.len() as u64, "instruction", "instructions");
            let more = self.style.paint(Colour::Faint, &format!("… {more}"));
            let _ = writeln!(text, "{blank}      {more}");
        }
        cold.clear();
    }

    fn instruction(&self, text: &mut String, instruction: &Instruction) {
        let block = instruction.block.map(|block| format!("  bb{}{}", block.0, self.moved(block)));
        let block = block.unwrap_or_default();
        let written = instruction.text.as_deref().unwrap_or("");
        let target = instruction.target.map(|to| self.place_of(to)).unwrap_or_default();
        let callee = instruction.target_function.as_ref().map(|(name, into)| {
            let into = if *into == 0 { String::new() } else { format!("+{into:#x}") };
            format!(" <{}{into}>", short(&demangled(name)))
        });
        let facts = self.branch(instruction.address).map(|branch| self.facts(branch));
        let facts = facts.map(|facts| self.style.paint(Colour::Faint, &facts));
        let row = format!(
            "{:>12x}{block}  {written}{target}{}  {}",
            instruction.address.0,
            callee.unwrap_or_default(),
            facts.unwrap_or_default(),
        );
        let columns = self.columns(instruction.weight, instruction.count);
        let _ = writeln!(text, "{columns}{}", row.trim_end());
    }

    /// Said of a block that the layout moved.
    fn moved(&self, block: BlockId) -> String {
        let moved = self.told.annotated.moved.as_deref().unwrap_or_default();
        let found = moved.binary_search_by_key(&block, |moved| moved.block);
        let Some(moved) = found.ok().and_then(|at| moved.get(at)) else { return String::new() };
        match moved.before {
            Some(before) => format!(" (moved, was behind bb{})", before.0),
            None => " (moved, was first)".to_owned(),
        }
    }

    fn branch(&self, at: ImageAddr) -> Option<&Branch> {
        let branches = &self.told.annotated.branches;
        let found = branches.binary_search_by_key(&at, |branch| branch.address).ok()?;
        branches.get(found)
    }

    /// A place behind an arrow if the instruction's text does not have it.
    fn place_of(&self, to: ImageAddr) -> String {
        let has_text = self.told.annotated.instructions.iter().any(|one| one.text.is_some());
        if has_text { String::new() } else { format!("→ {:x}", to.0) }
    }

    /// Which way a branch went.
    fn facts(&self, branch: &Branch) -> String {
        let mut facts = Vec::new();
        if branch.kind == InstructionKind::ConditionalBranch {
            if let Some(taken) = branch.taken_percent() {
                let all = branch.taken.saturating_add(branch.not_taken);
                let (some, all) = (crate::count(branch.taken), crate::count(all));
                facts.push(format!("taken {taken:.1} % ({some} of {all})"));
            }
        } else if branch.targets.len() > 1 {
            let target = |target: &annotate::Target| match target.to {
                Some(to) => format!("{:x} {}", to.0, crate::count(target.count)),
                None => format!("elsewhere {}", crate::count(target.count)),
            };
            let most: Vec<String> = branch.targets.iter().take(4).map(target).collect();
            let more = if branch.targets.len() > 4 { ", …" } else { "" };
            facts.push(format!("to {}{more}", most.join(", ")));
        }
        if branch.mispredicted > 0 {
            facts.push(format!("mispredicted {:.1} %", branch.mispredicted_percent()));
        }
        facts.join(", ")
    }

    fn left_out(&self, text: &mut String, chosen: &[usize]) {
        let annotated = &self.told.annotated;
        let left = annotated.lines.len() - chosen.len();
        if left == 0 {
            return;
        }
        let mut weight = calltrees::Weight::default();
        let mut instructions = 0;
        for (index, line) in annotated.lines.iter().enumerate() {
            if chosen.binary_search(&index).is_err() {
                weight.add(line.weight);
                instructions += line.instructions.len() as u64;
            }
        }
        let _ = writeln!(
            text,
            "… {} with {}, {:.2} % (--all)",
            crate::counted(left as u64, "more line", "more lines"),
            crate::counted(instructions, "instruction", "instructions"),
            self.told.share(weight),
        );
    }

    fn loops(&self, text: &mut String) {
        let annotated = &self.told.annotated;
        if annotated.loops.is_empty() {
            return;
        }
        let _ = writeln!(text, "\nloops, by branch stacks");
        let shown = if self.told.all { usize::MAX } else { MOST_LOOPS };
        for found in annotated.loops.iter().take(shown) {
            let at = annotated.instructions.iter().find(|one| one.address == found.first);
            let line = at.and_then(|one| annotated.lines.get(one.line));
            let place = line.and_then(|line| self.told.place(line));
            let place = place.map(|(path, line)| format!("  {}:{line}", short(file_name(path))));
            let trips = match found.trips() {
                Some(trips) => format!("{trips:.1} iterations per entry"),
                None => "no entry recorded".to_owned(),
            };
            let _ = writeln!(
                text,
                "  {}{:x}–{:x}{}: {trips} ({}, {})",
                "  ".repeat(found.depth.min(20)),
                found.first.0,
                found.last.0,
                place.unwrap_or_default(),
                crate::counted(found.iterations, "iteration", "iterations"),
                crate::counted(found.entries, "entry", "entries"),
            );
        }
        if let Some(more) = annotated.loops.len().checked_sub(shown).filter(|more| *more > 0) {
            let _ = writeln!(text, "… {} (--all)", crate::counted(more as u64, "loop", "loops"));
        }
    }
}

/// Loops in the list, unless all are asked for.
const MOST_LOOPS: usize = 40;

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
