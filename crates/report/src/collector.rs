//! What does a collector do, and what do shards say of the one that made them?

use crate::numbers::numbered;
use crate::{bytes, visible};
use collector::{Summary, Told};
use fleet::{Collected, Missed, Recording};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Most programs that are named.
const MOST_NAMED: usize = 10;

/// What happened, as lines; what happens with every window only where more is asked for.
pub fn lines(told: &Told, verbose: bool) -> Vec<String> {
    let line = match told {
        Told::Window { .. } if !verbose => return Vec::new(),
        Told::Window { number, shards, collected, notes } => {
            let shards = numbered(*shards, "shard", "shards");
            let window = format!("window {number}: {shards}, {}", costs(collected));
            let notes = notes.iter().map(|note| format!("note: {}", visible(note)));
            return std::iter::once(window).chain(notes).collect();
        }
        Told::Missed { why } => format!("warning: a window gave nothing: {}", visible(why)),
        Told::Full { bytes: size } => format!(
            "warning: nothing is recorded until shards are taken out of the spool: it has {}, and \
             another window could take it beyond --spool-limit",
            bytes(*size as f64)
        ),
        Told::Resumed => "the spool has room: recording goes on".to_owned(),
        Told::Recovered { shards, lost } => format!(
            "an earlier collector was killed: {} recovered, {} lost",
            numbered(*shards, "shard", "shards"),
            numbered(*lost, "window", "windows")
        ),
        Told::Left { collected } => format!(
            "the collector leaves this host: the least it can do costs more than --cpu-budget, {}; \
             the last shards say so",
            costs(collected)
        ),
    };
    vec![line]
}

/// What a window cost.
fn costs(collected: &Collected) -> String {
    let Collected { samples, cost_us, since_ms, budget_ppm, slower, .. } = collected;
    let share = *cost_us as f64 / 10.0 / (*since_ms).max(1) as f64;
    let budget = match budget_ppm {
        0 => String::new(),
        ppm => format!(" of {} % at most", *ppm as f64 / 1e4),
    };
    let rate =
        if *slower > 1 { format!(", sampled {slower} times less often") } else { String::new() };
    let samples = numbered(*samples, "sample", "samples");
    format!("{samples}, {share:.3} % of a CPU{budget}{rate}")
}

fn missed(missed: &Missed) -> String {
    let some = missed.each().into_iter().filter(|(_, number)| *number > 0);
    let told: Vec<String> = some.map(|(why, number)| format!("{number} {why}")).collect();
    if told.is_empty() { "none".to_owned() } else { told.join(", ") }
}

fn percent(cost: Duration, elapsed: Duration) -> f64 {
    if elapsed.is_zero() { 0.0 } else { 100.0 * cost.as_secs_f64() / elapsed.as_secs_f64() }
}

/// What a collector did.
pub fn summary_line(summary: &Summary) -> String {
    let Summary { windows, shards, missed: lost, cost, elapsed, .. } = summary;
    // Getting ready is all that it did in less.
    let share = match elapsed.as_secs() {
        0 => String::new(),
        _ => format!("; {:.3} % of a CPU", percent(*cost, *elapsed)),
    };
    format!(
        "{}, {}; windows that gave nothing: {}{share} in {:.0} s",
        numbered(*windows, "window", "windows"),
        numbered(*shards, "shard", "shards"),
        missed(lost),
        elapsed.as_secs_f64()
    )
}

/// The same as one JSON object.
pub fn summary_json(summary: &Summary) -> Value {
    let Summary { windows, shards, missed, cost, elapsed, left } = summary;
    json!({
        "schema": "planish-collector", "version": 1, "windows": windows, "shards": shards,
        "missed": missed, "cost_seconds": cost.as_secs_f64(),
        "elapsed_seconds": elapsed.as_secs_f64(), "left": left,
    })
}

/// What recordings say of their collectors, by heads; each window of a host counts once.
pub(crate) fn heads(recordings: &[Recording]) -> Vec<(&'static str, String)> {
    let mut windows: BTreeMap<(&str, u64, Option<u64>), &Collected> = BTreeMap::new();
    let mut programs: BTreeMap<&str, u64> = BTreeMap::new();
    for recording in recordings {
        let Some(collected) = &recording.collected else { continue };
        windows.insert((&recording.host, collected.window, recording.begin), collected);
        *programs.entry(&collected.executable).or_default() += 1;
    }
    if windows.is_empty() {
        return Vec::new();
    }
    let named = |(path, number): (&&str, &u64)| {
        let path = if path.is_empty() { "the kernel's threads" } else { path };
        format!("{} ({number})", visible(path))
    };
    let mut told: Vec<String> = programs.iter().take(MOST_NAMED).map(named).collect();
    if programs.len() > MOST_NAMED {
        told.push(format!("and {} more", programs.len() - MOST_NAMED));
    }
    let mut lost = Missed::default();
    windows.values().for_each(|collected| lost.add(&collected.missed));
    let sum = |of: fn(&Collected) -> u64| {
        windows.values().map(|one| of(one)).fold(0, u64::saturating_add)
    };
    let (cost, since) = (sum(|one| one.cost_us), sum(|one| one.since_ms));
    let share = percent(Duration::from_micros(cost), Duration::from_millis(since));
    let mut heads = vec![
        ("executables", told.join(", ")),
        ("windows", format!("{}; {share:.3} % of a CPU", windows.len())),
    ];
    if !lost.is_empty() {
        heads.push(("windows missed", missed(&lost)));
    }
    let left = windows.values().filter(|collected| collected.left).count();
    if left > 0 {
        heads.push(("left", format!("{left} (the collector cost more than its budget)")));
    }
    heads
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(host: &str, window: u64, executable: &str) -> Recording {
        let missed = Missed { idle: 2, ..Missed::default() };
        let (cost_us, since_ms, executable) = (600_000, 60_000, executable.to_owned());
        let collected =
            Collected { executable, window, cost_us, since_ms, missed, ..Collected::default() };
        Recording { host: host.to_owned(), collected: Some(collected), ..Recording::default() }
    }

    #[test]
    fn a_window_with_several_programs_counts_once() {
        let all = [recording("a", 1, "/bin/x"), recording("a", 1, ""), recording("b", 1, "/bin/x")];
        let heads = heads(&all);
        let text = |head: &str| {
            heads.iter().find(|(name, _)| *name == head).map(|(_, text)| text.as_str())
        };
        assert_eq!(text("executables"), Some("the kernel's threads (1), /bin/x (2)"));
        assert_eq!(text("windows"), Some("2; 1.000 % of a CPU"));
        assert_eq!(text("windows missed"), Some("4 idle"));
        assert_eq!(text("left"), None);
        assert!(super::heads(&[Recording::default()]).is_empty());
    }
}
