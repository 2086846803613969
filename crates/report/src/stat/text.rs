//! Counts as lines for people, in the columns that perf stat has.

use crate::visible;
use record::Ending;
use record::stat::{Counter, Counts, Derived, Stat, derived, spread};
use std::ffi::OsString;
use std::fmt::Write;

/// Why events are not counted, with the names of each reason's events.
fn refusals(counters: &[Counter]) -> Vec<(&str, Vec<&str>)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    for counter in counters {
        let Some(reason) = counter.refused.as_deref() else { continue };
        match found.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(&counter.name),
            None => found.push((reason, vec![&counter.name])),
        }
    }
    found
}

/// The scaled values, in the counters' own units.
pub(super) fn values(counts: &[Option<record::stat::Count>]) -> Vec<Option<f64>> {
    counts
        .iter()
        .map(|count| count.and_then(|count| count.scaled()).map(|value| value as f64))
        .collect()
}

/// Lines of one interval: when it ended, and a line an event.
pub fn interval(counters: &[Counter], counts: &Counts) -> String {
    let mut text = String::new();
    if counts.at == counts.length {
        line(&mut text, "#           time             counts unit  events");
    }
    let found = derived(counters, &values(&counts.counts), counts.length.as_secs_f64());
    let time = format!("{:>16.9} ", counts.at.as_secs_f64());
    for ((counter, count), derived) in counters.iter().zip(&counts.counts).zip(found) {
        let share = count.map(|count| count.share());
        let value = count.and_then(|count| count.scaled()).map(|value| value as f64);
        line(&mut text, &format!("{time}{}", columns(counter, value, derived, None, share)));
    }
    for thread in &counts.threads {
        for (counter, count) in counters.iter().zip(&thread.counts) {
            let value = count.and_then(|count| count.scaled()).map(|value| value as f64);
            let row = columns(counter, value, None, None, count.map(|count| count.share()));
            line(&mut text, &format!("{time}{row}  {}-{}", visible(&thread.name), thread.tid));
        }
    }
    text
}

/// The result of one or several runs.
pub fn total(runs: &[Stat], command: &[OsString], quiet: bool) -> String {
    let Some(first) = runs.first() else { return String::new() };
    let mut text = String::new();
    if !quiet {
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        let what = if words.is_empty() {
            "counted".to_owned()
        } else {
            format!("counts of `{}`", visible(&words.join(" ")))
        };
        let runs = if runs.len() > 1 { format!(" ({} runs)", runs.len()) } else { String::new() };
        line(&mut text, &format!("\n {what}{runs}:\n"));
    }
    let elapsed: Vec<f64> = runs.iter().map(|run| run.elapsed.as_secs_f64()).collect();
    let rows = over_runs(runs);
    let means: Vec<Option<f64>> = rows.iter().map(|row| row.0).collect();
    let seconds = spread(&elapsed);
    let found = derived(&first.counters, &means, seconds.map_or(0.0, |seconds| seconds.mean));
    for ((counter, (mean, percent, share)), derived) in first.counters.iter().zip(rows).zip(found) {
        let percent = (runs.len() > 1).then_some(percent);
        line(&mut text, &columns(counter, mean, derived, percent, share));
    }
    for thread in &first.total.threads {
        line(&mut text, &format!("\n thread {} ({})", thread.tid, visible(&thread.name)));
        for (counter, count) in first.counters.iter().zip(&thread.counts) {
            let value = count.and_then(|count| count.scaled()).map(|value| value as f64);
            line(&mut text, &columns(counter, value, None, None, count.map(|count| count.share())));
        }
    }
    text.push('\n');
    times(&mut text, runs);
    text
}

/// What was given up, once each, and how the programs ended where not well.
pub fn notes(runs: &[Stat]) -> Vec<String> {
    let Some(first) = runs.first() else { return Vec::new() };
    let mut notes: Vec<String> = first.notes.iter().map(|note| format!("note: {note}")).collect();
    for (reason, names) in refusals(&first.counters) {
        notes.push(format!("note: {} not counted: {reason}", names.join(", ")));
    }
    let skipped: u64 = runs.iter().map(|run| run.skipped_intervals).sum();
    if skipped > 0 {
        notes.push(format!(
            "note: {skipped} intervals passed before the counters could be read again; the ones \
             after them are longer"
        ));
    }
    notes.extend(runs.iter().filter_map(|run| match run.ending {
        Ending::Code(0) | Ending::Unknown => None,
        Ending::Code(code) => Some(format!("warning: the program ended with exit code {code}")),
        Ending::Signal(signal) => {
            Some(format!("warning: the program was ended by signal {signal}"))
        }
    }));
    notes
}

/// Mean, standard error in percent, and share of the time that it ran, of each counter.
pub(super) fn over_runs(runs: &[Stat]) -> Vec<(Option<f64>, f64, Option<f64>)> {
    let counters = runs.first().map_or(0, |run| run.counters.len());
    let row = |index: usize| {
        let counts =
            || runs.iter().filter_map(move |run| run.total.counts.get(index).copied().flatten());
        let values: Vec<f64> =
            counts().filter_map(|count| count.scaled()).map(|value| value as f64).collect();
        let shares: Vec<f64> = counts().map(|count| count.share()).collect();
        let found = spread(&values);
        let share = spread(&shares).map(|share| share.mean);
        (found.map(|found| found.mean), found.map_or(0.0, |found| found.percent()), share)
    };
    (0..counters).map(row).collect()
}

fn times(text: &mut String, runs: &[Stat]) {
    let elapsed: Vec<f64> = runs.iter().map(|run| run.elapsed.as_secs_f64()).collect();
    let user: Vec<f64> =
        runs.iter().filter_map(|run| run.user).map(|time| time.as_secs_f64()).collect();
    let system: Vec<f64> =
        runs.iter().filter_map(|run| run.system).map(|time| time.as_secs_f64()).collect();
    for (numbers, what) in [(elapsed, "elapsed"), (user, "user"), (system, "sys")] {
        let Some(found) = spread(&numbers) else { continue };
        let error = if runs.len() > 1 {
            format!("  ( +- {:.2} % )", found.percent())
        } else {
            String::new()
        };
        line(text, &format!("{:>18.9} seconds {what}{error}", found.mean));
    }
}

/// One row: value, unit, event, what it means, how sure it is, how long it ran.
fn columns(
    counter: &Counter,
    value: Option<f64>,
    derived: Option<Derived>,
    percent: Option<f64>,
    share: Option<f64>,
) -> String {
    let (number, unit) = match (value, &counter.unit) {
        _ if counter.denied => ("<not permitted>".to_owned(), ""),
        _ if counter.refused.is_some() => ("<not supported>".to_owned(), ""),
        (None, _) => ("<not counted>".to_owned(), ""),
        (Some(value), _) if counter.is_clock() => (format!("{:.2}", value / 1e6), "msec"),
        (Some(value), Some((unit, factor))) => (format!("{:.2}", value * factor), unit.as_str()),
        (Some(value), None) => (format!("{value:.0}"), ""),
    };
    let mut row = format!("{number:>18} {unit:<5} {:<26}", named(counter));
    if let (Some(derived), Some(_)) = (derived, value) {
        // Writing to a string cannot fail.
        let _ = write!(row, " # {:<28}", meaning(derived));
    }
    if let (Some(percent), Some(_)) = (percent, value) {
        let _ = write!(row, " ( +- {percent:.2} % )");
    }
    if let Some(share) = share.filter(|share| value.is_some() && *share < 0.9995) {
        let _ = write!(row, " ({:.2} %)", 100.0 * share);
    }
    row
}

/// The event, and the control group where it counts one.
fn named(counter: &Counter) -> String {
    match &counter.cgroup {
        Some(group) => format!("{} {}", visible(&counter.name), visible(group)),
        None => visible(&counter.name).into_owned(),
    }
}

fn meaning(derived: Derived) -> String {
    let value = derived.value;
    match derived.unit {
        "/sec" if value >= 1e9 => format!("{:.3} G/sec", value / 1e9),
        "/sec" if value >= 1e6 => format!("{:.3} M/sec", value / 1e6),
        "/sec" if value >= 1e3 => format!("{:.3} K/sec", value / 1e3),
        unit if unit.starts_with('%') => format!("{value:.2} {unit}"),
        "/sec" => format!("{value:.3} /sec"),
        unit => format!("{value:.3} {unit}"),
    }
}

fn line(text: &mut String, row: &str) {
    text.push_str(row.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_said_in_thousands() {
        let said = |value, unit| meaning(Derived { value, unit });
        assert_eq!(said(12.0, "/sec"), "12.000 /sec");
        assert_eq!(said(2_500.0, "/sec"), "2.500 K/sec");
        assert_eq!(said(2.5e9, "/sec"), "2.500 G/sec");
        assert_eq!(said(0.5, "CPUs utilized"), "0.500 CPUs utilized");
        assert_eq!(said(11.4, "% of all branches"), "11.40 % of all branches");
    }
}
