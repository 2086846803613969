//! What moved between recordings, as a page: the verdicts as a table, and the calls of both sides in
//! the colours of the difference.

use super::content::{content, shortened};
use super::view::{Part, Space, View};
use super::{Data, LARGEST_PAGE, Origin, SAID, SCRIPT, STYLE, facts, json};
use crate::calls::diff::{self, Diff, Unit};
use crate::compare::markup::Markup;
use crate::page::{Frame, whole};
use calltrees::FunctionId;
use serde::Serialize;
use std::collections::HashMap;

/// Rows of the table may take one in so many of the page's bytes.
const ROWS_PART: usize = 4;
const LONGEST_NAME: usize = 400;

/// The table of verdicts in columns.
#[derive(Debug, Default, Serialize)]
pub(super) struct Rows {
    by: &'static str,
    total: bool,
    margin: f64,
    name: Vec<String>,
    /// Shares in per cent.
    old: Vec<f64>,
    new: Vec<f64>,
    /// New less old, and the ends of its interval, in points of per cent.
    change: Vec<f64>,
    low: Vec<Option<f64>>,
    high: Vec<Option<f64>>,
    p: Vec<f64>,
    verdict: Vec<&'static str>,
    /// How many names are one row.
    names: Vec<usize>,
    /// The position of the row's function in the page's list, or −1.
    function: Vec<i64>,
    left_out: u64,
}

/// A side of the difference: its recordings with their origins.
pub type Side<'s> = [(Unit<'s>, Origin)];

/// The page of a difference of recordings.
pub fn difference_page(found: &Diff, old: &Side<'_>, new: &Side<'_>) -> String {
    let recordings: Vec<_> = old.iter().chain(new).map(|(unit, _)| unit.recorded).collect();
    let (space, known) = Space::of_rows(&recordings);
    let views = [view("new", new, old.len()), view("old", old, 0)];
    let mut data = Data { difference: Some(Rows::default()), ..Data::default() };
    let title = format!("planish report diff: {}", shortened(&found.event, 200).0);
    let frame = Frame { title: &title, style: STYLE, script: SCRIPT };
    let empty = markup(found, old, new, &data);
    let fixed = whole(frame, empty, Some(&json(&data))).len() + SAID * views.len();
    let room = LARGEST_PAGE.saturating_sub(fixed);
    data.content = content(&space, &views, 0, room - room / ROWS_PART);
    data.difference = Some(rows(found, &known, &data.content.listed, room / ROWS_PART));
    whole(frame, markup(found, old, new, &data), Some(&json(&data)))
}

fn view<'r>(name: &str, side: &Side<'r>, first: usize) -> View<'r> {
    let about = side.first().and_then(|(unit, _)| unit.recorded.events.get(unit.event as usize));
    let part = |(at, (unit, _)): (usize, &(Unit<'r>, Origin))| Part {
        recording: first + at,
        unit: *unit,
        state: None,
    };
    View {
        name: name.to_owned(),
        kind: name.to_owned(),
        clock: about.is_some_and(|about| about.is_clock),
        waits: about.is_some_and(|about| about.off_cpu.is_some()),
        parts: side.iter().enumerate().map(part).collect(),
    }
}

/// To four places: more is below any noise.
fn rounded(number: f64) -> f64 {
    if number.is_finite() { (number * 1e4).round() / 1e4 } else { 0.0 }
}

fn rows(
    found: &Diff,
    known: &HashMap<diff::Key, FunctionId>,
    listed: &HashMap<FunctionId, u32>,
    room: usize,
) -> Rows {
    let asked = &found.asked;
    let by_function = asked.by == diff::Rows::Of(calltrees::rows::By::Function);
    let mut rows = Rows {
        by: diff::noun(asked.by),
        total: asked.total,
        margin: asked.margin,
        ..Rows::default()
    };
    let shown: HashMap<String, u32> = known
        .iter()
        .filter_map(|(key, id)| Some((diff::shown(key), listed.get(id).copied()?)))
        .collect();
    let mut left = room;
    for row in &found.rows {
        let name = shortened(&row.name, LONGEST_NAME).0;
        let bytes = crate::page::inert(&json(&name)).len() + 120;
        let Some(rest) = left.checked_sub(bytes) else { break };
        left = rest;
        let (low, high) = row.shift.interval(0.95);
        let end = |end: f64| end.is_finite().then(|| rounded(100.0 * end));
        let function = shown.get(&row.name).filter(|_| by_function);
        rows.name.push(name);
        rows.old.push(rounded(100.0 * row.old));
        rows.new.push(rounded(100.0 * row.new));
        rows.change.push(rounded(100.0 * row.shift.estimate));
        rows.low.push(end(low));
        rows.high.push(end(high));
        rows.p.push(rounded(row.p_value));
        rows.verdict.push(diff::word(row.moved));
        rows.names.push(row.merged.len().max(1));
        rows.function.push(function.map_or(-1, |position| i64::from(*position)));
    }
    rows.left_out = (found.left_out + found.rows.len() - rows.name.len()) as u64;
    rows
}

fn markup(found: &Diff, old: &Side<'_>, new: &Side<'_>, data: &Data) -> Markup {
    let mut out = Markup::default();
    out.raw("<header><p class=\"brand\">planish report diff</p>");
    out.leaf("h1", &[], &headline(found));
    let what = format!("{}: {}", crate::visible(&found.event), diff::what_was_compared(found));
    out.leaf("p", &[("class", &"small")], &shortened(&what, 2000).0);
    out.raw(
        "</header><noscript><p>The pictures and tables of this page need its script; planish \
         report diff prints the same as text.</p></noscript>",
    );
    let mut notes = Vec::new();
    for (unit, origin) in old.iter().chain(new) {
        let own = crate::calls::losses(unit.recorded);
        let remarks = crate::calls::libraries::remarks(unit.recorded, unit.event, "samples");
        let of = shortened(&origin.recording, 100).0;
        notes.extend(own.into_iter().chain(remarks).take(20).map(|note| format!("{of}: {note}")));
    }
    notes.truncate(50);
    if found.blocks.is_some() {
        notes.push(format!(
            "the noise is that within the recordings; what differs from run to run is not in it: \
             {} recordings of each side measure that, too",
            diff::ENOUGH_RECORDINGS
        ));
    }
    notes.extend(facts::left_out(&data.content));
    facts::list(&mut out, &notes);
    out.raw(include_str!("verdicts.html"));
    out.raw(super::SECTIONS);
    for (side, name) in [(old, "old"), (new, "new")] {
        for (unit, origin) in side.iter().take(20) {
            out.leaf("p", &[("class", &"side")], &format!("Recording: {name}"));
            facts::ledger(&mut out, None, unit.recorded, unit.event);
            facts::provenance(&mut out, None, origin, unit.recorded);
        }
    }
    let planish = new.first().map_or("", |(_, origin)| &origin.planish);
    super::foot(&mut out, planish);
    out
}

fn headline(found: &Diff) -> String {
    let moved = |word: &str| found.rows.iter().filter(|row| diff::word(row.moved) == word).count();
    let (more, less) = (moved("more"), moved("less"));
    let noun = diff::noun(found.asked.by);
    let rows = |count: usize| match (count, noun) {
        (1, noun) => format!("1 {noun}"),
        (count, "library") => format!("{count} libraries"),
        (count, "process") => format!("{count} processes"),
        (count, noun) => format!("{count} {noun}s"),
    };
    match (more, less) {
        (0, 0) => "Nothing moved beyond noise".to_owned(),
        (more, 0) => format!("{} took a larger share", rows(more)),
        (0, less) => format!("{} took a smaller share", rows(less)),
        (more, less) => format!("{} took a larger share, {} a smaller one", rows(more), rows(less)),
    }
}
