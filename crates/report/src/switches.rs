//! How are the waits of threads and stacks told? The JSON schema stands in `docs/reference/switches.md`.

use crate::visible;
use serde_json::{Value, json};
use std::fmt::Write;
use switches::{Analysis, Ledger, StackRow, ThreadRow, Times, Waits};

/// Version of the JSON schema.
const VERSION: u32 = 1;

fn top<Row>(rows: &[Row], top: usize) -> &[Row] {
    if top == 0 { rows } else { rows.get(..top).unwrap_or(rows) }
}

fn milliseconds(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

/// Percent of the waited time of all threads.
fn share(times: &Times, totals: &Times) -> f64 {
    let whole = totals.waited_ns();
    if whole == 0 { 0.0 } else { 100.0 * times.waited_ns() as f64 / whole as f64 }
}

const HEADER: &str = "   wait ms    waits  longest ms  preempted ms    times      CPU ms   share";

/// The columns of a row; `cpu` where the recording knows it.
fn columns(times: &Times, totals: &Times, cpu: bool) -> String {
    let (wait, preempted) = (times.synchronization, times.preemption);
    let cpu = if cpu { milliseconds(times.cpu_ns) } else { "-".to_owned() };
    format!(
        "{:>10} {:>8} {:>11} {:>13} {:>8} {cpu:>11} {:>5.1} %",
        milliseconds(wait.total_ns),
        wait.count,
        milliseconds(wait.longest_ns),
        milliseconds(preempted.total_ns),
        preempted.count,
        share(times, totals)
    )
}

/// The threads and stacks that waited longest, at most so many of each; 0: all.
pub fn text(found: &Analysis, most: usize) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{} switches in {} ms, {} threads\n\n{HEADER}  thread",
        found.ledger.outs,
        milliseconds(found.span_ns),
        found.threads.len()
    );
    let _ = writeln!(text, "{}  all", columns(&found.totals, &found.totals, true));
    for thread in top(&found.threads, most) {
        let _ =
            writeln!(text, "{}  {}", columns(&thread.times, &found.totals, true), named(thread));
    }
    more(&mut text, found.threads.len(), most, "threads");
    if !found.has_stacks && !found.has_clock {
        return text;
    }
    let _ = writeln!(text, "\n{HEADER}  stack, innermost first");
    for row in top(&found.stacks, most) {
        stack(&mut text, row, found);
    }
    more(&mut text, found.stacks.len(), most, "stacks");
    text
}

fn stack(text: &mut String, row: &StackRow, found: &Analysis) {
    let columns = columns(&row.times, &found.totals, found.has_clock);
    let frames = match &row.frames {
        None => vec!["(no sample)"],
        Some(frames) if frames.is_empty() => vec!["(empty)"],
        Some(frames) => frames.iter().map(String::as_str).collect(),
    };
    let indent = " ".repeat(columns.chars().count());
    for (index, frame) in frames.iter().enumerate() {
        let _ =
            writeln!(text, "{}  {}", if index == 0 { &columns } else { &indent }, visible(frame));
    }
}

fn more(text: &mut String, all: usize, top: usize, what: &str) {
    if top != 0 && all > top {
        let _ = writeln!(text, "… {} more {what} (--top)", all - top);
    }
}

fn named(thread: &ThreadRow) -> String {
    match thread.pid {
        Some(pid) => format!("{} {pid}/{}", visible(&thread.name), thread.tid),
        None => format!("{} {}", visible(&thread.name), thread.tid),
    }
}

/// What was not paired, in words, without what did not occur.
fn unpaired(ledger: &Ledger) -> Vec<(u64, &'static str)> {
    let all = [
        (ledger.outs_without_in, "switch-outs followed by another one: the switch-in is missing"),
        (ledger.outs_at_exit, "switch-outs of threads that ended before they came back"),
        (ledger.outs_at_end, "switch-outs still waiting at the end of the recording"),
        (
            ledger.ins_first,
            "switch-ins whose switch-out came before the recording or the thread's start",
        ),
        (ledger.ins_without_out, "switch-ins preceded by another one: the switch-out is missing"),
        (ledger.samples_without_out, "samples of switches without a switch-out after them"),
        (ledger.outs_idle + ledger.ins_idle + ledger.samples_idle, "switches of the idle tasks"),
    ];
    all.into_iter().filter(|(count, _)| *count > 0).collect()
}

/// What was paired, and, as notes and warnings, what was not.
pub fn notes(found: &Analysis) -> Vec<String> {
    let ledger = &found.ledger;
    let mut notes = vec![format!(
        "paired {} of {} switch-outs with their switch-ins, {} of {} samples with their \
         switch-outs",
        ledger.outs_paired, ledger.outs, ledger.samples_paired, ledger.samples
    )];
    let mut note = |kind: &str, said: String| notes.push(format!("{kind}: {said}"));
    for (count, what) in unpaired(ledger) {
        note("note", format!("{count} {what}"));
    }
    let without = ledger.waits_without_stack;
    if !found.has_stacks {
        note(
            "note",
            "no stacks of waits: the recording has no samples of context switches with callers; \
             record with --switch-events -g, as root or with CAP_PERFMON"
                .into(),
        );
    } else if without > 0 {
        note("note", format!("{without} waits have no sample, so no stack"));
    }
    let chains = &found.chains;
    if chains.incomplete > 0 {
        note(
            "note",
            format!(
                "{} samples lack a caller, marked [a caller is missing]: the function it called \
                 has no frame pointer, and the recording too little of the stack (on x86-64 \
                 planish record --switch-events -g records it for switches, --call-graph dwarf \
                 for all)",
                chains.incomplete
            ),
        );
    }
    if chains.deferred_missing > 0 {
        note(
            "note",
            format!(
                "{} of {} stacks that the kernel split lack their user part: its record is not \
                 there",
                chains.deferred_missing, chains.deferred
            ),
        );
    }
    // Half a percent is what rounding and the ends of the recording make.
    if found.switching_ns * 200 > found.totals.cpu_ns {
        note(
            "note",
            format!(
                "CPU time is counted between the switches; the scheduler counts the switches too, \
                 here {} ms or more",
                milliseconds(found.switching_ns)
            ),
        );
    }
    if found.lost > 0 {
        let lost = found.lost;
        note(
            "warning",
            format!("the recorder lost {lost} records; times and counts are too small"),
        );
    }
    if found.unreadable > 0 {
        let unreadable = found.unreadable;
        note(
            "warning",
            format!("{unreadable} records could not be read or have no thread or time"),
        );
    }
    if found.truncated {
        note("warning", "the recording is cut off or damaged at its end".into());
    }
    for file in &found.unusable_files {
        note(
            "note",
            format!("{file}: not there, or not the file that ran; its frames are offsets"),
        );
    }
    notes
}

/// The same as JSON.
pub fn json(found: &Analysis, most: usize) -> Value {
    let ledger = &found.ledger;
    json!({
        "schema": "planish-switches",
        "version": VERSION,
        "span_ns": found.span_ns,
        "totals": times(&found.totals, &found.totals, true),
        "thread_count": found.threads.len(),
        "threads": top(&found.threads, most).iter().map(|thread| thread_json(thread, found)).collect::<Vec<_>>(),
        "stack_count": found.stacks.len(),
        "stacks": top(&found.stacks, most).iter().map(|row| stack_json(row, found)).collect::<Vec<_>>(),
        "has_stacks": found.has_stacks,
        "has_clock": found.has_clock,
        "ledger": {
            "switch_outs": ledger.outs,
            "switch_outs_paired": ledger.outs_paired,
            "switch_outs_idle": ledger.outs_idle,
            "switch_outs_without_in": ledger.outs_without_in,
            "switch_outs_at_exit": ledger.outs_at_exit,
            "switch_outs_at_end": ledger.outs_at_end,
            "switch_ins": ledger.ins,
            "switch_ins_paired": ledger.ins_paired,
            "switch_ins_idle": ledger.ins_idle,
            "switch_ins_first": ledger.ins_first,
            "switch_ins_without_out": ledger.ins_without_out,
            "samples": ledger.samples,
            "samples_paired": ledger.samples_paired,
            "samples_idle": ledger.samples_idle,
            "samples_without_out": ledger.samples_without_out,
            "waits_without_stack": ledger.waits_without_stack,
        },
        "chains": {
            "unwound_frames": found.chains.unwound_frames,
            "incomplete": found.chains.incomplete,
            "deferred": found.chains.deferred,
            "deferred_missing": found.chains.deferred_missing,
        },
        "switching_ns": found.switching_ns,
        "unreadable_records": found.unreadable,
        "lost_records": found.lost,
        "truncated": found.truncated,
        "unusable_files": found.unusable_files,
    })
}

fn thread_json(thread: &ThreadRow, found: &Analysis) -> Value {
    let mut object = times(&thread.times, &found.totals, true);
    if let Some(fields) = object.as_object_mut() {
        fields.insert("pid".to_owned(), json!(thread.pid));
        fields.insert("tid".to_owned(), json!(thread.tid));
        fields.insert("name".to_owned(), json!(thread.name));
        fields.insert("voluntary_switches".to_owned(), json!(thread.voluntary));
        fields.insert("preempted_switches".to_owned(), json!(thread.preempted));
    }
    object
}

fn stack_json(row: &StackRow, found: &Analysis) -> Value {
    let mut object = times(&row.times, &found.totals, found.has_clock);
    if let Some(fields) = object.as_object_mut() {
        fields.insert("frames".to_owned(), json!(row.frames));
    }
    object
}

fn times(times: &Times, totals: &Times, cpu: bool) -> Value {
    let waits = |waits: &Waits| json!({ "count": waits.count, "total_ns": waits.total_ns, "longest_ns": waits.longest_ns });
    json!({
        "cpu_ns": cpu.then_some(times.cpu_ns),
        "synchronization": waits(&times.synchronization),
        "preemption": waits(&times.preemption),
        "share_percent": share(times, totals),
    })
}
