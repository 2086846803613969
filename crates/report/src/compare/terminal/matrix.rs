//! Many rows at one glance: benchmarks down, variants and machines across.

use super::table::{Entry, left, right, table};
use crate::compare::screen::Screen;
use crate::compare::{find, words};
use ::compare::result::{Measurement, Verdict};

/// The matrix and what its signs mean.
pub(super) fn lines(m: &Measurement, screen: Screen) -> Vec<String> {
    let variants = find::others(m);
    let columns: Vec<(&str, &str)> =
        m.machines.iter().flat_map(|machine| variants.iter().map(|v| (machine.name.as_str(), *v))).collect();
    let name = |(machine, variant): &(&str, &str)| match m.machines.len() {
        0 | 1 => (*variant).to_owned(),
        _ => format!("{variant} @ {machine}"),
    };
    let mut rows = Vec::new();
    for benchmark in &m.benchmarks {
        let mut row = vec![left(&benchmark.name)];
        row.extend(columns.iter().map(|column| entry(m, &benchmark.name, *column, screen)));
        rows.push(row);
    }
    let names: Vec<String> = columns.iter().map(name).collect();
    let mut head = vec!["benchmark"];
    head.extend(names.iter().map(String::as_str));
    let mut lines = table(screen, &head, &rows);
    let legend: Vec<String> = words::VERDICTS
        .iter()
        .map(|v| {
            let (sign, ascii) = words::glyph(*v, false);
            format!("{} {}", screen.sign(sign, ascii), words::word(*v))
        })
        .collect();
    let (sign, ascii) = words::glyph(Verdict::Faster, true);
    let text = format!(
        "ratio to {}; {}; {} within the margin of ±{}",
        m.variants.first().map_or("the base", |v| &v.name),
        legend.join(", "),
        screen.sign(sign, ascii),
        words::percent(m.margin)
    );
    // The signs are chosen for the terminal already; only the rest may need replacing.
    lines.extend(screen.wrap(&text, 2));
    lines
}

fn entry(m: &Measurement, benchmark: &str, (machine, variant): (&str, &str), screen: Screen) -> Entry {
    let found = m
        .comparisons
        .iter()
        .find(|c| c.benchmark == benchmark && c.machine == machine && c.variant == variant);
    let Some(c) = found else { return right("-") };
    let (sign, ascii) = words::glyph(c.verdict, c.negligible);
    right(&format!("{} {:>2}", words::ratio(c.effect), screen.sign(sign, ascii))).coloured(words::colour(c))
}
