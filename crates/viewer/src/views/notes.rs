//! What the numbers do not hold, and what each thread did over time: text to scroll in.

use super::Made;
use crate::row::{Row, Table};
use report::calls::timeline::Timeline;
use report::calls::waits::Told;
use report::calls::{books, notes};

/// The time line as `planish report timeline` prints it, as wide as the screen.
pub(super) fn timeline(made: &Made<'_>) -> Table {
    /// What stands beside the letters: a time, a name, numbers.
    const BESIDE: usize = 40;
    let parts = made.width.saturating_sub(BESIDE).clamp(10, 400);
    let kept: Vec<(i32, &str)> = made
        .data
        .recorded()
        .threads
        .iter()
        .map(|thread| (thread.tid, thread.name.as_str()))
        .collect();
    let narrowed = !made.data.narrowed.is_empty();
    let sampled = sampled_threads(made);
    let told = |thread: &calltrees::switching::ThreadRow| {
        !narrowed
            || sampled
                .iter()
                .any(|index| kept.get(*index).is_some_and(|(tid, _)| *tid == thread.tid))
    };
    match Timeline::new(made.data.recorded(), told, (parts, 0)) {
        Ok(found) => {
            let text = found.text();
            let (about, rest) = text.split_once(": ").unwrap_or(("", &text));
            let rows = (0..).zip(rest.lines()).map(|(number, line)| Row::text(number, line));
            let rows = rows.collect();
            Table { about: about.to_owned(), rows, ..Table::default() }
        }
        Err(why) => Table::only(&why),
    }
}

/// The threads, by index, that have a stack in what is looked at.
fn sampled_threads(made: &Made<'_>) -> Vec<usize> {
    let mut all: Vec<usize> =
        made.data.recorded().stacks.iter().map(|stack| stack.thread as usize).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Notes, the ledger, and where the recording is from.
pub(super) fn table(made: &Made<'_>) -> Table {
    let recorded = made.data.recorded();
    let mut lines: Vec<String> = Vec::new();
    let mut part = |title: &str, said: Vec<String>| {
        if said.is_empty() {
            return;
        }
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(title.to_owned());
        lines.extend(said.into_iter().map(|line| format!("  {line}")));
    };
    let of_event = notes(recorded, made.data.event);
    let waits = Told::new(recorded, None, |_| true, 0).map(|told| told.notes());
    let mut waits = waits.unwrap_or_default();
    waits.retain(|note| !of_event.contains(note));
    part("Notes", of_event);
    part("Notes on waits", waits);
    let book = |(name, number): (String, u64)| format!("{:>14}  {name}", report::count(number));
    part("Ledger", books(recorded).into_iter().map(book).collect());
    part("The recording", made.setup.notes.clone());
    let rows = (0..).zip(lines).map(|(number, line)| Row::text(number, line)).collect();
    let about = "what the numbers do not hold".to_owned();
    Table { about, rows, prose: true, ..Table::default() }
}
