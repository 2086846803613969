//! Columns on a terminal: aligned when there is room, one record per row when there is not.

use crate::compare::screen::Screen;
use crate::compare::{find, words};
use crate::style::Colour;
use ::compare::result::{Accumulated, Measurement};
use std::collections::BTreeSet;

/// A cell: text, where it stands, and its colour.
#[derive(Clone)]
pub(super) struct Entry {
    text: String,
    right: bool,
    colour: Option<Colour>,
}

/// Text on the left of its column.
pub(super) fn left(text: &str) -> Entry {
    Entry { text: text.to_owned(), right: false, colour: None }
}

/// A number, on the right of its column.
pub(super) fn right(text: &str) -> Entry {
    Entry { text: text.to_owned(), right: true, colour: None }
}

impl Entry {
    /// In this colour.
    pub(super) fn coloured(mut self, colour: Colour) -> Entry {
        self.colour = Some(colour);
        self
    }

    fn padded(&self, screen: Screen, width: usize, last: bool) -> String {
        let text = screen.text(&self.text);
        let blanks = " ".repeat(width.saturating_sub(text.chars().count()));
        let painted = self.colour.map_or(text.clone(), |c| screen.style.paint(c, &text));
        match (self.right, last) {
            (true, _) => blanks + &painted,
            (false, true) => painted,
            (false, false) => painted + &blanks,
        }
    }
}

/// Rows under a head, two blanks in; as records of `name: value` where they would be wider than the
/// terminal.
pub(super) fn table(screen: Screen, head: &[&str], rows: &[Vec<Entry>]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|e| screen.text(&e.text).chars().count()).max().unwrap_or(0);
        widest.max(screen.text(head[column]).chars().count())
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    if widths.iter().sum::<usize>() + 2 * head.len() > screen.width {
        return records(screen, head, rows);
    }
    let title = |(column, text): (usize, &&str)| {
        let right = rows.first().and_then(|row| row.get(column)).is_some_and(|e| e.right);
        let entry = Entry { text: (*text).to_owned(), right, colour: Some(Colour::Faint) };
        entry.padded(screen, widths[column], column + 1 == head.len())
    };
    let mut lines =
        vec![format!("  {}", head.iter().enumerate().map(title).collect::<Vec<_>>().join("  "))];
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(i, (e, width))| e.padded(screen, *width, i + 1 == row.len()));
        lines.push(format!("  {}", cells.collect::<Vec<_>>().join("  ")).trim_end().to_owned());
    }
    lines
}

fn records(screen: Screen, head: &[&str], rows: &[Vec<Entry>]) -> Vec<String> {
    let mut lines = Vec::new();
    for row in rows {
        for (index, (name, entry)) in head.iter().zip(row).enumerate() {
            if entry.text.is_empty() {
                continue;
            }
            let text = entry.padded(screen, 0, true);
            if index == 0 {
                lines.push(format!("  {text}"));
            } else {
                let name = screen.text(name);
                let long = name.chars().count() + 6 + screen.text(&entry.text).chars().count()
                    > screen.width;
                let between = if long { "\n      " } else { " " };
                lines.push(format!("    {name}:{between}{text}"));
            }
        }
    }
    lines
}

/// Sizes of the variants that have them, against the first.
pub(super) fn sizes(m: &Measurement, screen: Screen) -> Vec<String> {
    let base = m.variants.first().and_then(|v| v.sizes);
    let before = |name: &str| base?.columns().find(|(own, _)| *own == name).map(|(_, n)| n);
    let with_change = |(name, bytes): (&str, u64), first: bool| match before(name) {
        Some(before) if !first && before > 0 && before != bytes => {
            let share = bytes as f64 / before as f64 - 1.0;
            format!("{} ({})", crate::numbers::count(bytes), words::change(share))
        }
        _ => crate::numbers::count(bytes),
    };
    let mut rows = Vec::new();
    let mut head = vec!["size in bytes"];
    for (index, variant) in m.variants.iter().enumerate() {
        let Some(s) = variant.sizes else { continue };
        if rows.is_empty() {
            head.extend(s.columns().map(|(name, _)| name));
        }
        let cells = s.columns().map(|column| right(&with_change(column, index == 0)));
        rows.push(std::iter::once(left(&variant.name)).chain(cells).collect::<Vec<_>>());
    }
    if rows.is_empty() { Vec::new() } else { table(screen, &head, &rows) }
}

/// Each benchmark over its parameters and machines: mean, lowest and highest of its rows.
pub(super) fn accumulated(m: &Measurement, screen: Screen) -> Vec<String> {
    let variants = find::others(m);
    let mut firsts: Vec<&Accumulated> = Vec::new();
    for own in &m.accumulated {
        if firsts.iter().all(|known| known.benchmark != own.benchmark) {
            firsts.push(own);
        }
    }
    if firsts.is_empty() {
        return Vec::new();
    }
    let row = |first: &&Accumulated| {
        let cell = |variant: &&str| {
            let mut own = m.accumulated.iter();
            let found =
                own.find(|own| own.benchmark == first.benchmark && own.variant == **variant);
            right(&found.map_or_else(|| "-".to_owned(), words::accumulated))
        };
        std::iter::once(left(&words::family(first)))
            .chain(variants.iter().map(cell))
            .collect::<Vec<_>>()
    };
    let rows: Vec<_> = firsts.iter().map(row).collect();
    let head: Vec<&str> =
        std::iter::once("mean [lowest, highest]").chain(variants.iter().copied()).collect();
    table(screen, &head, &rows)
}

/// Deterministic metrics of the instruction stream.
pub(super) fn code_metrics(m: &Measurement, screen: Screen) -> Vec<String> {
    let mut keys = BTreeSet::new();
    for variant in &m.variants {
        for (benchmark, metrics) in &variant.code_metrics {
            keys.extend(metrics.keys().map(|metric| (benchmark.as_str(), metric.as_str())));
        }
    }
    if keys.is_empty() {
        return Vec::new();
    }
    let of = |v: &::compare::result::Variant, key: &(&str, &str)| {
        v.code_metrics.get(key.0)?.get(key.1).copied()
    };
    let mut rows = Vec::new();
    for key in &keys {
        let base = m.variants.first().and_then(|v| of(v, key));
        let mut row = vec![left(&format!("{}, {}", key.0, key.1))];
        for (index, variant) in m.variants.iter().enumerate() {
            row.push(right(&match (of(variant, key), base) {
                (Some(value), Some(base)) if index > 0 && base > 0.0 => {
                    format!(
                        "{} ({})",
                        words::quantity(value, ""),
                        words::change(value / base - 1.0)
                    )
                }
                (Some(value), _) => words::quantity(value, ""),
                (None, _) => "-".into(),
            }));
        }
        rows.push(row);
    }
    let mut head = vec!["code metric (exact)"];
    head.extend(m.variants.iter().map(|v| v.name.as_str()));
    table(screen, &head, &rows)
}
