//! How are the times of kernels told on a terminal? A table for each kernel but the base, with a
//! verdict for each section and for both sums.

use crate::compare::{change, colour, quantity, word};
use crate::{Colour, Style};
use compare::Verdict;
use compare::result::{Compared, Variant};
use kernel::time::{SUMS, Timed};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Tables for a terminal, one for each kernel but the base.
pub fn text(timed: &Timed, style: Style) -> String {
    let mut text = String::new();
    let clock = match timed.emulated_time {
        true => format!(
            "EMULATED TIME: how long {} takes to imitate a CPU, which says nothing about \
             times on one",
            timed.emulator
        ),
        false => format!("time of a guest on this CPU, by KVM of {}", timed.emulator),
    };
    let _ = writeln!(text, "{}", style.paint(Colour::Strong, &clock));
    let c = &timed.comparison;
    let boots = timed.sums().map(|row| row.n).max().unwrap_or_default();
    let _ = writeln!(
        text,
        "{boots} of {} rounds, seed {}; differences within ±{} count as none; corrected for \
         {} rows ({})",
        timed.rounds,
        c.seed,
        change(c.margin).trim_start_matches('+'),
        c.comparisons.len(),
        c.correction
    );
    for variant in c.variants.iter().skip(1) {
        table(timed, &mut text, variant, style);
    }
    for remark in remarks(timed) {
        let _ = writeln!(text, "remark: {remark}");
    }
    text
}

fn table(timed: &Timed, text: &mut String, variant: &Variant, style: Style) {
    let base = timed.comparison.variants.first().map_or("", |base| base.name.as_str());
    let title = style.paint(Colour::Strong, &format!("{} against {base}", variant.name));
    let width =
        timed.comparison.benchmarks.iter().map(|b| b.name.chars().count()).max().unwrap_or(0);
    let _ = writeln!(
        text,
        "\n{title}\n  {:<width$} {:>12} {:>12} {:>9}  {:<20} verdict",
        "time of a section", base, variant.name, "change", "95 % interval"
    );
    let rows = || timed.comparison.comparisons.iter().filter(|row| row.variant == variant.name);
    for name in SUMS {
        rows().filter(|row| row.benchmark == name).for_each(|row| line(text, row, 1, width, style));
    }
    for (held_out, title) in [(false, "an operation of"), (true, "held out, an operation of")] {
        let sections = timed.sections.iter().filter(|section| section.held_out == held_out);
        for (at, section) in sections.enumerate() {
            let Some(row) = rows().find(|row| row.benchmark == section.name) else { continue };
            if at == 0 {
                let _ = writeln!(text, "  {title}");
            }
            line(text, row, section.operations.max(1), width, style);
        }
    }
}

/// What must be known about the sums, and how much more there is about single sections.
fn remarks(timed: &Timed) -> Vec<String> {
    let mut remarks = BTreeSet::new();
    let mut others = 0;
    for warning in &timed.comparison.warnings {
        if SUMS.iter().any(|name| warning.starts_with(name)) {
            remarks.insert(warning.clone());
        } else {
            others += 1;
        }
    }
    // What an undecided or a negligible row says stands in the table.
    let told =
        |warning: &&String| !warning.starts_with("undecided; ") && !warning.contains("negligible");
    remarks.extend(timed.sums().flat_map(|row| row.warnings.iter().filter(told).cloned()));
    let mut remarks: Vec<String> = remarks.into_iter().collect();
    if others > 0 {
        remarks
            .push(format!("{others} more about single sections, in `warnings` of --format json"));
    }
    remarks
}

/// A row of a table; times are divided by `operations`.
fn line(text: &mut String, row: &Compared, operations: u64, width: usize, style: Style) {
    let time = |nanoseconds: f64| quantity(nanoseconds / operations as f64, "ns");
    let interval = row.interval.map_or("none".to_owned(), |[low, high]| {
        format!("{} to {}", change(low - 1.0), change(high - 1.0))
    });
    let mut verdict = style.paint(colour(row), word(row.verdict));
    if row.negligible {
        verdict.push_str(", negligibly");
    }
    if let Some(rounds) = row.needed.and_then(|needed| needed.rounds).filter(|_| is_open(row)) {
        let _ = write!(verdict, ", about {rounds} rounds would decide");
    }
    let _ = writeln!(
        text,
        "  {:<width$} {:>12} {:>12} {:>9}  {interval:<20} {verdict}",
        row.benchmark,
        time(row.base_median),
        time(row.variant_median),
        change(row.effect - 1.0)
    );
}

fn is_open(row: &Compared) -> bool {
    row.verdict == Verdict::Undecided
}
