//! How are call trees told? The JSON schemas stand in `docs/reference/report.md`.

pub mod diff;
pub mod export;
mod graph;
mod hot;
mod libraries;
pub mod lines;
mod names;
mod page;
mod source_names;
pub mod timeline;
pub mod waits;

pub use graph::{Direction, Shape, folded, graph_json, graph_text};
pub use hot::{hot_json, hot_text};
pub use names::demangled;
pub use page::{Extra, LARGEST_PAGE, Origin, Side, difference_page, page};

use calltrees::rows::{sampled_events, whole};
use calltrees::{Event, Recorded, Weight};
use serde_json::{Value, json};

/// What is told of a recording, and how much of it.
#[derive(Clone, Copy, Debug)]
pub struct Selected<'r> {
    /// The recording.
    pub recorded: &'r Recorded,
    /// Index of the event.
    pub event: u32,
    /// Rows or nodes at most; 0: all.
    pub limit: usize,
    /// What weighs less of the whole is left out, in per cent.
    pub percent: f64,
}

impl Selected<'_> {
    fn event(&self) -> Event {
        let event = self.recorded.events.get(self.event as usize).cloned();
        event.unwrap_or_default()
    }

    fn whole(&self) -> Weight {
        whole(self.recorded, self.event)
    }

    /// The part of all samples' weight, in per cent.
    fn share(&self, weight: Weight, whole: Weight) -> f64 {
        if whole.period == 0 { 0.0 } else { 100.0 * weight.period as f64 / whole.period as f64 }
    }

    /// A weight in its unit.
    fn amount(&self, weight: Weight, event: &Event) -> String {
        if event.is_clock {
            crate::duration_ns(weight.period as f64)
        } else {
            crate::count(weight.period)
        }
    }

    /// One line about all samples of the event.
    fn headline(&self) -> String {
        let (event, whole) = (self.event(), self.whole());
        let unit = match (event.off_cpu, event.is_clock) {
            (Some(_), _) => "off the CPU",
            (None, true) => "CPU time",
            (None, false) => "events",
        };
        let (one, more) =
            if event.off_cpu.is_some() { ("wait", "waits") } else { ("sample", "samples") };
        let over = match self.recorded.span_ns {
            0 => String::new(),
            span => format!(" within {}", crate::duration_ns(span as f64)),
        };
        format!(
            "{}: {}, {} {unit}{over}",
            crate::visible(&event.name),
            crate::counted(whole.samples, one, more),
            self.amount(whole, &event),
        )
    }

    /// What every JSON object about call trees says first.
    fn json(&self, schema: &str) -> serde_json::Map<String, Value> {
        let (event, whole) = (self.event(), self.whole());
        let head = json!({
            "schema": schema,
            "version": VERSION,
            "event": event.name,
            "unit": if event.is_clock { "ns" } else { "events" },
            "samples": whole.samples,
            "weight": whole.period,
            "span_ns": self.recorded.span_ns,
            "ledger": ledger(self.recorded),
            "libraries": libraries::libraries_json(self.recorded, self.event),
        });
        match head {
            Value::Object(head) => head,
            _ => serde_json::Map::new(),
        }
    }
}

const VERSION: u32 = 1;

/// What there is to say where no sample and no switch counts.
const NOTHING_LEFT: &str = "no sample is left to tell of: the filters leave out all of them";

/// A library's name, in brackets; those that are no files have them already.
fn bracketed(library: &str) -> String {
    let shown = crate::visible(library);
    if shown.starts_with('[') { shown.into_owned() } else { format!("[{shown}]") }
}

/// An event's name without what perf writes behind it: `cpu-clock:u` is `cpu-clock`.
fn without_modifiers(name: &str) -> &str {
    /// See perf-list(1), "Event modifiers".
    const MODIFIERS: &str = "ukhIGHpPSDWeb";
    match name.rsplit_once(':') {
        Some((bare, modifiers)) if modifiers.chars().all(|c| MODIFIERS.contains(c)) => bare,
        _ => name,
    }
}

/// The event to tell of: the one that is named, with or without its modifiers, else the one with
/// most samples.
///
/// # Errors
/// Where none has that name, with those that there are.
pub fn event_of(recorded: &Recorded, name: Option<&str>) -> Result<u32, String> {
    let sampled = sampled_events(recorded);
    let called = |event: &u32| recorded.events.get(*event as usize).map(|e| e.name.as_str());
    let Some(name) = name else {
        return sampled.first().copied().ok_or_else(|| NOTHING_LEFT.to_owned());
    };
    let exact = sampled.iter().find(|event| called(event) == Some(name));
    let bare = || sampled.iter().find(|event| called(event).map(without_modifiers) == Some(name));
    exact.or_else(bare).copied().ok_or_else(|| {
        let known: Vec<&str> = sampled.iter().filter_map(called).collect();
        format!("no sampled event is called {name}; there is {}", known.join(", "))
    })
}

fn ledger(recorded: &Recorded) -> Value {
    let ledger = &recorded.ledger;
    json!({
        "samples": ledger.samples,
        "used": ledger.used,
        "filtered": ledger.filtered,
        "malformed": ledger.malformed,
        "without_address": ledger.without_address,
        "refused": ledger.refused,
        "without_chain": ledger.without_chain,
        "cut": ledger.cut,
        "deferred": ledger.deferred,
        "deferred_missing": ledger.deferred_missing,
        "frames_unwound": ledger.frames.unwound,
        "stacks_missing_caller": ledger.frames.missing,
        "stacks_incomplete": ledger.frames.cut,
        "stacks_beyond_copy": ledger.frames.short,
        "stacks_beyond_branches": ledger.frames.short_branches,
        "frames_guessed": ledger.frames.guessed,
        "lost": ledger.lost,
        "unknown_records": ledger.unknown_records,
        "truncated_bytes": ledger.truncated_bytes,
    })
}

/// What became of the samples and records: names and numbers, in the ledger's order.
pub fn books(recorded: &Recorded) -> Vec<(String, u64)> {
    let Value::Object(ledger) = ledger(recorded) else { return Vec::new() };
    let book = |(name, number): (String, Value)| Some((name.replace('_', " "), number.as_u64()?));
    ledger.into_iter().filter_map(book).collect()
}

/// What is not in the numbers, in words, without what did not occur.
pub fn notes(recorded: &Recorded, event: u32) -> Vec<String> {
    let mut notes = losses(recorded);
    notes.extend(doubts(recorded, event));
    notes.extend(libraries::remarks(recorded, event, "samples"));
    let others: Vec<String> = sampled_events(recorded)
        .into_iter()
        .filter(|other| *other != event)
        .filter_map(|other| recorded.events.get(other as usize))
        .map(|event| crate::visible(&event.name).into_owned())
        .collect();
    if !others.is_empty() {
        notes.push(format!("also recorded: {} (--event NAME)", others.join(", ")));
    }
    notes
}

/// Why the numbers of an event may be other than they look.
fn doubts(recorded: &Recorded, event: u32) -> Vec<String> {
    /// With more samples a half is within 10 % of the whole.
    const FEW: u64 = 100;
    /// Standard deviations in which 95 % of a normal distribution lie.
    const WIDE: f64 = 1.96;
    let Some(about) = recorded.events.get(event as usize) else { return Vec::new() };
    let whole = whole(recorded, event);
    if about.off_cpu.is_some() || whole.samples == 0 {
        return Vec::new();
    }
    let mut doubts = Vec::new();
    if whole.samples < FEW {
        // Wilson's interval of a half (doi:10.1080/01621459.1927.10502953).
        let reach = 50.0 * WIDE / WIDE.mul_add(WIDE, whole.samples as f64).sqrt();
        doubts.push(format!(
            "{} {} few: what stands at 50 % may be anything from {:.0} to {:.0} %; record for longer \
             or more often (-F)",
            crate::counted(whole.samples, "sample", "samples"),
            if whole.samples == 1 { "is" } else { "are" },
            50.0 - reach,
            50.0 + reach
        ));
    }
    // As many threads as were sampled may have run all the time, and a sample more than it.
    let mean = whole.period / whole.samples;
    let room = recorded.span_ns.saturating_add(mean).saturating_mul(recorded.threads.len() as u64);
    if about.is_clock && recorded.span_ns > 0 && whole.period > room.saturating_mul(2) {
        doubts.push(format!(
            "the samples weigh {}, more than {} can run within {}: periods or times of the \
             recording are damaged",
            crate::duration_ns(whole.period as f64),
            crate::counted(recorded.threads.len() as u64, "thread", "threads"),
            crate::duration_ns(recorded.span_ns as f64)
        ));
    }
    doubts
}

/// What was not used, and what of stacks is missing.
fn losses(recorded: &Recorded) -> Vec<String> {
    let ledger = &recorded.ledger;
    let samples = |number| crate::counted(number, "sample", "samples");
    let missing = ledger.frames.missing;
    let all = [
        (ledger.malformed, "not used: their records are damaged"),
        (ledger.without_address, "not used: they have no address"),
        (ledger.refused, "not used: the recording has too many distinct stacks"),
        (ledger.cut, "without their callers: the recording has too many distinct stacks"),
        (
            ledger.deferred_missing,
            "without their callers in the program, which come later in the \
                                   recording and are not there",
        ),
        (
            ledger.frames.short,
            "whose outermost callers are missing, since the copy of the stack ends before them; \
             record with --call-graph dwarf,SIZE and a larger SIZE, 65528 at most",
        ),
        (
            ledger.frames.short_branches,
            "whose outermost callers are missing, marked [a caller is missing]: their branch stacks end \
             before them",
        ),
        (
            ledger.frames.cut.saturating_sub(ledger.frames.short + ledger.frames.short_branches),
            "whose outermost callers are missing, since nothing is known of a function",
        ),
        (
            missing,
            "whose chain lacks a caller, marked [a caller is missing]: the function it called has no frame \
             pointer, and the recording too little of the stack (--call-graph dwarf records it)",
        ),
        (ledger.lost, "lost while recording"),
    ];
    let mut notes: Vec<String> = all
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{} {what}", samples(number)))
        .collect();
    if ledger.truncated_bytes > 0 {
        notes.push(format!("the recording is cut short by {} bytes", ledger.truncated_bytes));
    }
    if ledger.unknown_records > 0 {
        let records = crate::counted(ledger.unknown_records, "record", "records");
        notes.push(format!("{records} besides the samples are damaged or of an unknown kind"));
    }
    notes.extend(recorded.remarks.iter().map(|remark| crate::visible(remark).into_owned()));
    notes
}
