//! Many rows at one glance: benchmarks down, variants and machines across.

use super::table::{Entry, left, right, table};
use crate::compare::screen::Screen;
use crate::compare::{find, words};
use ::compare::result::{Measurement, Verdict};

/// The matrix and what its signs mean.
pub(super) fn lines(m: &Measurement, screen: Screen) -> Vec<String> {
    let variants = find::others(m);
    let names: Vec<&str> = m.machines.iter().map(|machine| machine.name.as_str()).collect();
    // All machines side by side where they fit, else one below the other.
    let group = if fits(m, &variants, names.len(), screen) { names.len().max(1) } else { 1 };
    let mut lines = Vec::new();
    for machines in names.chunks(group) {
        let columns: Vec<(&str, &str)> =
            machines.iter().flat_map(|machine| variants.iter().map(|v| (*machine, *v))).collect();
        let mut rows = Vec::new();
        for benchmark in &m.benchmarks {
            let mut row = vec![left(&benchmark.name)];
            row.extend(columns.iter().map(|column| entry(m, &benchmark.name, *column, screen)));
            rows.push(row);
        }
        let (corner, heads) = match machines {
            [one] if names.len() > 1 => {
                (format!("benchmark on {one}"), variants.iter().map(|v| (*v).to_owned()).collect())
            }
            [_] => ("benchmark".to_owned(), variants.iter().map(|v| (*v).to_owned()).collect()),
            _ => (
                "benchmark".to_owned(),
                columns.iter().map(|(on, v)| format!("{v} @ {on}")).collect::<Vec<_>>(),
            ),
        };
        let mut head = vec![corner.as_str()];
        head.extend(heads.iter().map(String::as_str));
        lines.extend(table(screen, &head, &rows));
        lines.push(String::new());
    }
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

/// Is the table over all machines no wider than the terminal?
fn fits(m: &Measurement, variants: &[&str], machines: usize, screen: Screen) -> bool {
    let length = |text: &str| text.chars().count();
    let first = m.benchmarks.iter().map(|b| length(&b.name)).max().unwrap_or(0).max(9);
    let names: usize = variants.iter().map(|v| length(v) + 5).sum::<usize>() * machines;
    let places: usize =
        m.machines.iter().map(|on| length(&on.name)).sum::<usize>() * variants.len();
    first + 4 + names + places <= screen.width
}

fn entry(
    m: &Measurement,
    benchmark: &str,
    (machine, variant): (&str, &str),
    screen: Screen,
) -> Entry {
    let found = m
        .comparisons
        .iter()
        .find(|c| c.benchmark == benchmark && c.machine == machine && c.variant == variant);
    let Some(c) = found else { return right("-") };
    let (sign, ascii) = words::glyph(c.verdict, c.negligible);
    right(&format!("{} {:>2}", words::ratio(c.effect), screen.sign(sign, ascii)))
        .coloured(words::colour(c))
}
