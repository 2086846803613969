//! How is a difference of recordings told?

use super::{Diff, Difference, ENOUGH_RECORDINGS, Moved, Unit};
use crate::calls::hot::noun;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The level of the intervals.
const LEVEL: f64 = 0.95;

fn word(moved: Moved) -> &'static str {
    match moved {
        Moved::More => "more",
        Moved::Less => "less",
        Moved::Shifted => "shifted",
        Moved::Same => "same",
        Moved::Undecided => "undecided",
    }
}

fn printed(found: &Diff) -> &[Difference] {
    let limit = found.asked.limit;
    if limit == 0 { &found.rows } else { found.rows.get(..limit).unwrap_or(&found.rows) }
}

fn what_was_compared(found: &Diff) -> String {
    let recordings = |count: usize| crate::counted(count as u64, "recording", "recordings");
    let (old, new) = found.recordings;
    let sides = format!("{} against {}", recordings(old), recordings(new));
    match found.blocks {
        None => sides,
        Some(blocks) => format!("{sides}, {blocks} blocks of time each"),
    }
}

/// What moved, as a table.
pub fn diff_text(found: &Diff) -> String {
    let samples = |count| crate::counted(count, "sample", "samples");
    let mut text = format!(
        "{}: {}; {} against {}\n\n",
        crate::visible(&found.event),
        what_was_compared(found),
        samples(found.samples.0),
        samples(found.samples.1),
    );
    let claims = found.rows.iter().filter(|row| matches!(row.moved, Moved::More | Moved::Less));
    let _ = match claims.count() {
        0 => writeln!(text, "Nothing moved beyond noise.\n"),
        1 => writeln!(text, "One row moved beyond noise.\n"),
        some => writeln!(text, "{some} rows moved beyond noise.\n"),
    };
    let noun = noun(found.asked.by);
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{:>8} {:>9} {:>10}  {:<20} {:>7}  {:<9}  {noun}",
        "old", "new", "change", "95 % interval", "p", "verdict"
    );
    for row in printed(found) {
        let (low, high) = row.shift.interval(LEVEL);
        let interval = format!("{:+.2} to {:+.2}", 100.0 * low, 100.0 * high);
        let others = match row.merged.len() {
            0 => String::new(),
            some => format!("  ({some} names)"),
        };
        let _ = writeln!(
            text,
            "{:>6.2} % {:>7.2} % {:>+10.2}  {interval:<20} {:>7}  {:<9}  {}{others}",
            100.0 * row.old,
            100.0 * row.new,
            100.0 * row.shift.estimate,
            chance(row.p_value),
            word(row.moved),
            crate::visible(&row.name),
        );
    }
    let more = found.rows.len() - printed(found).len();
    if more > 0 {
        let _ = writeln!(
            text,
            "… {} (--limit 0)",
            crate::counted(more as u64, "more row", "more rows")
        );
    }
    if found.left_out > 0 {
        let rows = crate::counted(found.left_out as u64, "row", "rows");
        let _ = writeln!(text, "… {rows} too small to be tested (--percent 0)");
    }
    if found.blocks.is_some() {
        let _ = writeln!(
            text,
            "\nThe noise is that within the recordings; what differs from run to run is not in it. \
             {ENOUGH_RECORDINGS}\nrecordings of each side (--old, --new) measure that, too."
        );
    }
    text
}

fn chance(p_value: f64) -> String {
    if p_value < 0.0001 { "<0.0001".to_owned() } else { format!("{p_value:.4}") }
}

/// The same as JSON, with the ledgers of the recordings of both sides.
pub fn diff_json(found: &Diff, old: &[Unit<'_>], new: &[Unit<'_>]) -> Value {
    let ledgers = |side: &[Unit<'_>]| -> Vec<Value> {
        side.iter().map(|unit| crate::calls::ledger(unit.recorded)).collect()
    };
    let row = |row: &Difference| {
        let (low, high) = row.shift.interval(LEVEL);
        let number =
            |value: f64| if value.is_finite() { json!(100.0 * value) } else { Value::Null };
        json!({
            "name": row.name,
            "matched_name": row.lasting,
            "old_percent": 100.0 * row.old,
            "new_percent": 100.0 * row.new,
            "change": 100.0 * row.shift.estimate,
            "low": number(low),
            "high": number(high),
            "p_value": row.p_value,
            "verdict": word(row.moved),
            "merged": row.merged,
        })
    };
    json!({
        "schema": "planish-report-diff",
        "version": 1,
        "event": found.event,
        "by": noun(found.asked.by),
        "total": found.asked.total,
        "unit": if found.blocks.is_some() { "block" } else { "recording" },
        "blocks": found.blocks,
        "old_recordings": found.recordings.0,
        "new_recordings": found.recordings.1,
        "old_samples": found.samples.0,
        "new_samples": found.samples.1,
        "usual_ratio": found.usual,
        "margin": found.asked.margin,
        "tested": found.rows.len(),
        "not_tested": found.left_out,
        "left_out": found.rows.len() - printed(found).len(),
        "old_ledgers": ledgers(old),
        "new_ledgers": ledgers(new),
        "rows": printed(found).iter().map(row).collect::<Vec<_>>(),
    })
}
