//! How is a comparison told on a terminal?

mod detail;
mod matrix;
mod plot;
mod table;

use super::screen::Screen;
use super::{find, words};
use crate::style::Colour;
use ::compare::result::{Evidence, Measurement, Verdict};

/// More cells than this are told as a matrix first, and in detail only where something was found.
const DETAILED: usize = 6;

/// The result for a terminal: tables, verdicts and small plots. Takes a [`crate::Style`] or a
/// [`Screen`].
pub fn terminal(m: &Measurement, evidence: &[Evidence], screen: impl Into<Screen>) -> String {
    let screen = screen.into();
    let mut lines: Vec<String> = Vec::new();
    let cells = find::cells(m, evidence);
    let many = cells.len() > DETAILED;
    if many {
        lines.extend(matrix::lines(m, screen));
        lines.push(String::new());
    }
    let mut brief = 0;
    for cell in &cells {
        let quiet = |v| matches!(v, Verdict::Same | Verdict::Undecided);
        if many && cell.comparisons().all(|c| quiet(c.verdict) && c.warnings.is_empty()) {
            brief += 1;
            continue;
        }
        lines.extend(detail::lines(m, cell, screen));
        lines.push(String::new());
    }
    if brief > 0 {
        let text = format!(
            "{brief} machine and benchmark pairs without a finding or a note are told in the \
             matrix only."
        );
        lines.extend(screen.wrap(&text, 2));
        lines.push(String::new());
    }
    lines.extend(whole(m, screen));
    lines.dedup_by(|a, b| a.is_empty() && b.is_empty());
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines.push(String::new());
    lines.join("\n")
}

/// What concerns the whole measurement.
fn whole(m: &Measurement, screen: Screen) -> Vec<String> {
    let mut lines = Vec::new();
    if m.comparisons.len() > 1 {
        lines.extend(
            screen
                .wrap(&words::headline(m), 0)
                .iter()
                .map(|l| screen.style.paint(Colour::Strong, l)),
        );
    }
    for index in &m.indices {
        lines.extend(screen.wrap(&words::index(index), 2));
    }
    let accumulated = table::accumulated(m, screen);
    if !accumulated.is_empty() {
        lines.push(String::new());
        lines.extend(accumulated);
    }
    let sizes = table::sizes(m, screen);
    if !sizes.is_empty() {
        lines.push(String::new());
        lines.extend(sizes);
    }
    let code = table::code_metrics(m, screen);
    if !code.is_empty() {
        lines.push(String::new());
        lines.extend(code);
    }
    if !m.alignment.is_empty() {
        lines.push(String::new());
        lines.push(screen.paint(Colour::Strong, "  when all functions are aligned"));
        for a in &m.alignment {
            let at =
                if a.align == 0 { "as built".into() } else { format!("aligned to {}", a.align) };
            let text = format!(
                "{}, {}, {at}: {}. {}",
                a.variant,
                a.benchmark,
                words::effect(&a.effect),
                a.sentence
            );
            lines.extend(screen.wrap(&text, 2));
        }
    }
    lines.push(String::new());
    for stopped in &m.stopped {
        let text = format!(
            "stopped: {} on {} ({}): {}",
            stopped.variant, stopped.benchmark, stopped.machine, stopped.reason
        );
        lines.extend(note(screen, &text, Colour::Bad));
    }
    if m.interrupted {
        lines.extend(note(
            screen,
            "interrupted: only the rounds finished before were used",
            Colour::Care,
        ));
    }
    for warning in words::shared_notes(m).iter().chain(&m.warnings) {
        lines.extend(note(screen, warning, Colour::Care));
    }
    for machine in &m.machines {
        let text = format!("machine {}: {}", machine.name, words::calibration(machine));
        lines.extend(faint(screen, &text));
    }
    if !m.raw.is_empty() {
        lines.extend(faint(screen, &format!("every run: {} (seed {})", m.raw.join(", "), m.seed)));
    }
    lines
}

/// A remark, set off by its first word.
fn note(screen: Screen, text: &str, colour: Colour) -> Vec<String> {
    let mut lines = screen.wrap(&format!("note: {text}"), 2);
    if let Some(first) = lines.first_mut() {
        *first = first.replacen("note:", &screen.paint(colour, "note:"), 1);
    }
    lines
}

fn faint(screen: Screen, text: &str) -> Vec<String> {
    screen.wrap(text, 2).iter().map(|l| screen.style.paint(Colour::Faint, l)).collect()
}
