//! Counts as JSON: one object, or with intervals one a line. The schema stands in `docs/reference/stat.md`.

use super::text;
use record::Ending;
use record::stat::{Count, Counter, Counts, Derived, Stat, derived, spread};
use serde_json::{Value, json};
use std::ffi::OsString;

/// Name and version of the schema.
const SCHEMA: &str = "planish-stat";
const VERSION: u32 = 1;

/// One line: the counts of one interval.
pub fn interval(counters: &[Counter], counts: &Counts) -> String {
    let seconds = counts.length.as_secs_f64();
    let object = json!({
        "schema": SCHEMA,
        "version": VERSION,
        "kind": "interval",
        "time_s": counts.at.as_secs_f64(),
        "length_s": seconds,
        "events": events(counters, &counts.counts, seconds),
        "threads": threads(counters, counts),
    });
    format!("{object}\n")
}

/// The last line, or, without intervals before it, the only object.
pub fn total(runs: &[Stat], command: &[OsString], as_line: bool) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let numbers = |of: fn(&Stat) -> Option<std::time::Duration>| {
        let all: Vec<f64> = runs.iter().filter_map(of).map(|time| time.as_secs_f64()).collect();
        spread(&all).map(|found| found.mean)
    };
    let elapsed = numbers(|run| Some(run.elapsed)).unwrap_or(0.0);
    let events = if runs.len() == 1 {
        events(&first.counters, &first.total.counts, elapsed)
    } else {
        repeated(runs, elapsed)
    };
    let ended = runs.iter().map(|run| run.ending).find(|ending| *ending != Ending::Code(0));
    let (exit_code, signal) = match ended.unwrap_or(first.ending) {
        Ending::Code(code) => (Some(code), None),
        Ending::Signal(signal) => (None, Some(signal)),
        Ending::Unknown => (None, None),
    };
    let command: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let object = json!({
        "schema": SCHEMA,
        "version": VERSION,
        "kind": "total",
        "command": (!command.is_empty()).then_some(command),
        "runs": runs.len(),
        "elapsed_s": elapsed,
        "user_s": numbers(|run| run.user),
        "system_s": numbers(|run| run.system),
        "intervals": first.intervals,
        "skipped_intervals": first.skipped_intervals,
        "exit_code": exit_code,
        "signal": signal,
        "interrupted": runs.iter().any(|run| run.interrupted),
        "notes": first.notes,
        "events": events,
        "threads": threads(&first.counters, &first.total),
    });
    let text = if as_line { format!("{object}\n") } else { format!("{object:#}\n") };
    crate::json(&text).into_owned()
}

fn events(counters: &[Counter], counts: &[Option<Count>], seconds: f64) -> Vec<Value> {
    let found = derived(counters, &text::values(counts), seconds);
    let rows = counters.iter().zip(counts).zip(found);
    rows.map(|((counter, count), derived)| event(counter, *count, derived)).collect()
}

fn event(counter: &Counter, count: Option<Count>, found: Option<Derived>) -> Value {
    let raw = count.and_then(|count| count.scaled());
    let value = match (raw, &counter.unit) {
        (Some(raw), Some((_, factor))) => json!(raw as f64 * factor),
        (Some(raw), None) => json!(raw),
        (None, _) => Value::Null,
    };
    json!({
        "event": counter.name,
        "cgroup": counter.cgroup,
        "value": value,
        "unit": unit(counter),
        "reason": reason(counter, raw.is_some()),
        "counted": count.map(|count| count.value),
        "enabled_ns": count.map(|count| count.enabled_ns),
        "running_ns": count.map(|count| count.running_ns),
        "derived": found.map(|found| json!({ "value": found.value, "unit": found.unit })),
    })
}

fn unit(counter: &Counter) -> &str {
    match &counter.unit {
        Some((unit, _)) => unit,
        None if counter.is_clock() => "ns",
        None => "",
    }
}

/// Why there is no value.
fn reason(counter: &Counter, counted: bool) -> Option<String> {
    let never = || (!counted).then(|| "it never ran in this time".to_owned());
    counter.refused.clone().or_else(never)
}

/// Mean, error and the value of each run.
fn repeated(runs: &[Stat], seconds: f64) -> Vec<Value> {
    let Some(first) = runs.first() else { return Vec::new() };
    let rows = text::over_runs(runs);
    let means: Vec<Option<f64>> = rows.iter().map(|row| row.0).collect();
    let found = derived(&first.counters, &means, seconds);
    let rows = first.counters.iter().zip(rows).zip(found).enumerate();
    rows.map(|(index, ((counter, (mean, percent, share)), found))| {
        let factor = counter.unit.as_ref().map_or(1.0, |(_, factor)| *factor);
        let each: Vec<Option<f64>> = runs
            .iter()
            .map(|run| run.total.counts.get(index).copied().flatten()?.scaled())
            .map(|value| value.map(|value| value as f64 * factor))
            .collect();
        json!({
            "event": counter.name,
            "cgroup": counter.cgroup,
            "value": mean.map(|mean| mean * factor),
            "unit": unit(counter),
            "reason": reason(counter, mean.is_some()),
            "error_percent": mean.map(|_| percent),
            "running_share": share,
            "runs": each,
            "derived": found.map(|found| json!({ "value": found.value, "unit": found.unit })),
        })
    })
    .collect()
}

fn threads(counters: &[Counter], counts: &Counts) -> Option<Vec<Value>> {
    let one = |thread: &record::stat::Thread| {
        let rows = counters.iter().zip(&thread.counts);
        let events: Vec<Value> =
            rows.map(|(counter, count)| event(counter, *count, None)).collect();
        json!({ "tid": thread.tid, "name": thread.name, "events": events })
    };
    (!counts.threads.is_empty()).then(|| counts.threads.iter().map(one).collect())
}
