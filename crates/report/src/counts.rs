//! How is told what was counted, and what was not?

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::numbers::numbered;
use counts::Book;
use counts::aggregate::{Aggregated, Part};
use serde_json::{Value, json};

/// Most files that are named of those in which nothing was counted.
const MOST_ELSEWHERE: usize = 10;

/// Notes and ledger, a line each; with `verbose` also in which other files samples lie.
pub fn lines(found: &Aggregated, verbose: bool) -> Vec<String> {
    let mut lines: Vec<String> = found.notes.iter().map(|note| format!("note: {note}")).collect();
    let ledger = &found.counts.ledger;
    lines.extend(book("samples", &ledger.samples));
    lines.extend(book("branch entries", &ledger.branches));
    lines.extend(book("fall-through ranges", &ledger.fall_throughs));
    lines.extend(book("paths", &ledger.paths));
    if ledger.lost > 0 {
        let lost = ledger.lost;
        lines.push(format!("{:>20}: {lost} that the kernel could not deliver", "lost"));
    }
    lines.extend(cut(ledger.truncated_bytes));
    if ledger.unknown_records > 0 {
        let unknown = ledger.unknown_records;
        let unknown = numbered(unknown, "record", "records");
        lines.push(format!("{:>20}: {unknown} of unknown or damaged kinds", "skipped"));
    }
    lines.extend(parts(&found.parts));
    let elsewhere = if verbose { elsewhere(found) } else { Vec::new() };
    lines.extend(elsewhere.into_iter().map(|(path, count)| {
        format!("{:>20}: {} in {path}", "elsewhere", numbered(count, "sample", "samples"))
    }));
    lines
}

/// What each of several recordings gave.
fn parts(parts: &[Part]) -> Vec<String> {
    if parts.len() < 2 {
        return Vec::new();
    }
    let all: u64 = parts.iter().map(|part| part.used).sum();
    let line = |Part { path, samples, used }: &Part| {
        let share = 100.0 * *used as f64 / all.max(1) as f64;
        let path = path.display();
        let samples = numbered(*samples, "sample", "samples");
        format!("{:>20}: {used} of {samples} of {path}, {share:.1} % of all used", "part")
    };
    parts.iter().map(line).collect()
}

/// Says that a recording ends too early.
pub fn cut(truncated_bytes: u64) -> Option<String> {
    (truncated_bytes > 0).then(|| {
        format!(
            "warning: the recording is truncated: {truncated_bytes} bytes of it are missing or \
             form no whole record; what stands before them was used"
        )
    })
}

fn book(name: &str, book: &Book) -> Option<String> {
    let Book { entered, used, .. } = book;
    let mut line = format!("{name:>20}: {entered} in, {used} used ({:.1} %)", book.used_pct());
    for (reason, count) in &book.unused {
        let reason = serde_json::to_string(reason).unwrap_or_default();
        line += &format!(", {} {count}", reason.trim_matches('"'));
    }
    (*entered > 0).then_some(line)
}

/// Sums per image, the ledger, and where most of what was not counted lies.
pub fn json(found: &Aggregated) -> Value {
    let images: Vec<_> = found
        .counts
        .images
        .iter()
        .map(|i| {
            json!({
                "build_id": i.build_id.as_ref().map(ToString::to_string),
                "path": i.path,
                "samples": u64::try_from(i.sample_total()).ok(),
                "sampled_addresses": i.samples.len(),
                "branches": u64::try_from(i.branch_total()).ok(),
                "distinct_branches": i.branches.len(),
                "fall_throughs": u64::try_from(i.fall_through_total()).ok(),
                "distinct_fall_throughs": i.fall_throughs.len(),
            })
        })
        .collect();
    json!({
        "schema": "planish-aggregate", "version": 1, "images": images, "notes": found.notes,
        "ledger": found.counts.ledger,
        "parts": found.parts.iter().map(|part| json!({
            "path": part.path, "samples": part.samples, "used": part.used,
        })).collect::<Vec<_>>(),
        "elsewhere": elsewhere(found).iter().map(|(path, samples)| json!({
            "path": path, "samples": samples,
        })).collect::<Vec<_>>(),
    })
}

/// The files that were not counted in which most samples lie, over all recordings.
fn elsewhere(found: &Aggregated) -> Vec<(&str, u64)> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (path, samples) in &found.elsewhere {
        *sums.entry(path).or_default() += samples;
    }
    let mut sums: Vec<(&str, u64)> = sums.into_iter().collect();
    sums.sort_by_key(|&(path, samples)| (Reverse(samples), path));
    sums.truncate(MOST_ELSEWHERE);
    sums
}
