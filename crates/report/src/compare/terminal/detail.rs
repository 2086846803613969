//! One machine and benchmark on a terminal.

use super::table::{left, right, table};
use super::{note, plot};
use crate::compare::find::{Cell, metric};
use crate::compare::screen::Screen;
use crate::compare::{find, words};
use crate::style::Colour;
use ::compare::result::{Compared, Measurement, MetricInfo};

/// Table, sentences, plots and remarks of a cell.
pub(super) fn lines(m: &Measurement, cell: &Cell, screen: Screen) -> Vec<String> {
    let metric = cell.metric();
    let title = format!("{} · {}: {}", cell.benchmark().name, cell.machine_name(), metric.words);
    let mut lines: Vec<String> = screen
        .wrap(&title, 0)
        .iter()
        .map(|line| screen.style.paint(Colour::Strong, line))
        .collect();
    lines.extend(summary(cell, screen, &metric));
    for c in cell.comparisons() {
        lines.extend(sentences(m, c, screen));
    }
    for part in [
        plot::effects(cell, m.margin, screen),
        plot::runs(m, cell, screen),
        other_metrics(cell, screen),
    ] {
        if !part.is_empty() {
            lines.push(String::new());
            lines.extend(part);
        }
    }
    lines
}

fn summary(cell: &Cell, screen: Screen, metric: &MetricInfo) -> Vec<String> {
    let unit = metric.unit.as_str();
    let mut rows = Vec::new();
    let mut bases: Vec<&str> = Vec::new();
    for c in cell.comparisons() {
        if !bases.contains(&c.base.as_str()) {
            bases.push(&c.base);
            let median = words::quantity(c.base_median, unit);
            let spread = format!("±{}", words::percent(c.spread[0]));
            rows.push(vec![left(&c.base), right(&median), right(&spread), left("1"), left("base")]);
        }
        let (sign, ascii) = words::glyph(c.verdict, c.negligible);
        let verdict = format!(
            "{} {}",
            screen.sign(sign, ascii),
            words::word_of(c.verdict, words::measures_speed(metric))
        );
        rows.push(vec![
            left(&c.variant),
            right(&words::quantity(c.variant_median, unit)),
            right(&format!("±{}", words::percent(c.spread[1]))),
            left(&format!("{} {}", words::ratio(c.effect), words::interval(c.interval))),
            left(&verdict).coloured(words::colour(c)),
        ]);
    }
    table(screen, &["variant", "median", "spread", "ratio [95 % interval]", "verdict"], &rows)
}

fn sentences(m: &Measurement, c: &Compared, screen: Screen) -> Vec<String> {
    let mut lines: Vec<String> = screen
        .wrap(&words::sentence(c), 2)
        .iter()
        .map(|line| screen.style.paint(words::colour(c), line))
        .collect();
    let mut more = format!("{} rounds, {}", c.n, words::p_value(c.p_value));
    let rows = words::rows_in_all(m);
    if rows > 1 {
        more += &format!(" ({} corrected for {rows} rows)", words::p_value(c.p_corrected));
    }
    if let Some(smallest) = c.smallest_effect {
        more += &format!("; finds {} with 80 % power", words::percent(smallest));
    }
    lines.extend(screen.wrap(&more, 4));
    if let Some(averaged) = &c.layouts {
        lines.extend(screen.wrap(&words::layouts(averaged, find::variant(m, &c.variant)), 4));
        lines.extend(screen.wrap(&format!("as built {}", words::effect(&c.as_built)), 4));
    }
    for warning in words::own_notes(m, c) {
        lines.extend(note(screen, warning, Colour::Care));
    }
    lines
}

fn other_metrics(cell: &Cell, screen: Screen) -> Vec<String> {
    let mut rows = Vec::new();
    for c in cell.comparisons() {
        for other in &c.others {
            let info = metric(cell.benchmark(), Some(&other.name));
            let unit = if info.name == other.name { info.unit.as_str() } else { "" };
            rows.push(vec![
                left(&format!("{}, {}", c.variant, other.name)),
                right(&words::quantity(other.base_median, unit)),
                right(&words::quantity(other.variant_median, unit)),
                left(&words::effect(&other.effect)),
            ]);
        }
    }
    if rows.is_empty() {
        return Vec::new();
    }
    table(
        screen,
        &["other metrics (never decide)", "base", "variant", "ratio [95 % interval]"],
        &rows,
    )
}
