//! The result of `--time` as it is told: one object, or a table with a verdict for each section and
//! for both sums.

use super::boots::{HELD, KIND, OPERATIONS, SECTION};
use super::sums;
use compare::result::{Compared, Measurement, Variant};
use compare::{Benchmark, LAYOUTS_ADVICE, Recorded, Verdict};
use report::Style;
use report::compare::{change, colour, quantity, word};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write;

/// What `planish kernel measure --time --format json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Timed {
    schema: &'static str,
    version: u32,
    /// The times are an emulator's, not a CPU's.
    emulated_time: bool,
    /// qemu and its version.
    emulator: String,
    /// Rounds that were asked for.
    rounds: u32,
    sections: Vec<Section>,
    /// The form of `planish compare`; its benchmarks are the sections and both sums.
    comparison: Measurement,
}

/// A section with a time.
#[derive(Clone, Debug, Serialize)]
struct Section {
    number: u8,
    /// Its benchmark in the comparison.
    name: String,
    held_out: bool,
    /// What one boot does; the time of a section over this is that of one operation.
    operations: u64,
}

impl Timed {
    /// Puts a comparison of the sections and sums together with what the sections are.
    pub fn of(
        mut comparison: Measurement,
        recorded: &Recorded,
        emulated: bool,
        emulator: String,
    ) -> Timed {
        // Means over rows would take sections of one boot for independent, and count the sums
        // again.
        comparison.indices.clear();
        for row in &mut comparison.comparisons {
            for warning in &mut row.warnings {
                // There are no layouts of kernels to measure.
                *warning = warning.replace(LAYOUTS_ADVICE, "");
            }
        }
        Timed {
            schema: "planish-kernel-time",
            version: 1,
            emulated_time: emulated,
            emulator,
            rounds: recorded.design.rounds,
            sections: recorded.design.benchmarks.iter().filter_map(section).collect(),
            comparison,
        }
    }

    /// The rows of the sums.
    pub fn sums(&self) -> impl Iterator<Item = &Compared> {
        self.comparison
            .comparisons
            .iter()
            .filter(|row| sums::NAMES.contains(&row.benchmark.as_str()))
    }

    /// Tables for a terminal, one for each kernel but the base.
    pub fn text(&self, style: Style) -> String {
        let mut text = String::new();
        let clock = match self.emulated_time {
            true => format!(
                "EMULATED TIME: how long {} takes to imitate a CPU, which says nothing about \
                 times on one",
                self.emulator
            ),
            false => format!("time of a guest on this CPU, by KVM of {}", self.emulator),
        };
        let _ = writeln!(text, "{}", style.paint(report::Colour::Strong, &clock));
        let c = &self.comparison;
        let boots = self.sums().map(|row| row.n).max().unwrap_or_default();
        let _ = writeln!(
            text,
            "{boots} of {} rounds, seed {}; differences within ±{} count as none; corrected for \
             {} rows ({})",
            self.rounds,
            c.seed,
            change(c.margin).trim_start_matches('+'),
            c.comparisons.len(),
            c.correction
        );
        for variant in c.variants.iter().skip(1) {
            self.table(&mut text, variant, style);
        }
        for remark in self.remarks() {
            let _ = writeln!(text, "remark: {remark}");
        }
        text
    }

    fn table(&self, text: &mut String, variant: &Variant, style: Style) {
        let base = self.comparison.variants.first().map_or("", |base| base.name.as_str());
        let title =
            style.paint(report::Colour::Strong, &format!("{} against {base}", variant.name));
        let width =
            self.comparison.benchmarks.iter().map(|b| b.name.chars().count()).max().unwrap_or(0);
        let _ = writeln!(
            text,
            "\n{title}\n  {:<width$} {:>12} {:>12} {:>9}  {:<20} verdict",
            "time of a section", base, variant.name, "change", "95 % interval"
        );
        let rows = || self.comparison.comparisons.iter().filter(|row| row.variant == variant.name);
        for name in sums::NAMES {
            rows()
                .filter(|row| row.benchmark == name)
                .for_each(|row| line(text, row, 1, width, style));
        }
        for (held_out, title) in [(false, "an operation of"), (true, "held out, an operation of")] {
            let sections = self.sections.iter().filter(|section| section.held_out == held_out);
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
    fn remarks(&self) -> Vec<String> {
        let mut remarks = BTreeSet::new();
        let mut others = 0;
        for warning in &self.comparison.warnings {
            if sums::NAMES.iter().any(|name| warning.starts_with(name)) {
                remarks.insert(warning.clone());
            } else {
                others += 1;
            }
        }
        // What an undecided or a negligible row says stands in the table.
        let told = |warning: &&String| {
            !warning.starts_with("undecided; ") && !warning.contains("negligible")
        };
        remarks.extend(self.sums().flat_map(|row| row.warnings.iter().filter(told).cloned()));
        let mut remarks: Vec<String> = remarks.into_iter().collect();
        if others > 0 {
            remarks.push(format!(
                "{others} more about single sections, in `warnings` of --format json"
            ));
        }
        remarks
    }
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

fn section(benchmark: &Benchmark) -> Option<Section> {
    let parameter = |name: &str| benchmark.parameters.get(name).map(String::as_str);
    Some(Section {
        number: parameter(SECTION)?.parse().ok()?,
        name: benchmark.name.clone(),
        held_out: parameter(KIND) == Some(HELD),
        operations: parameter(OPERATIONS)?.parse().ok()?,
    })
}
