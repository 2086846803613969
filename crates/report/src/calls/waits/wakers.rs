//! Who ended the waits: the stack that waited beside the stack that woke it.

use super::{Told, milliseconds};
use crate::visible;
use calltrees::FunctionId;
use calltrees::switching::{WakerRow, Wakers};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Columns of a frame, the space to the next stack apart.
const WIDTH: usize = 46;
/// Frames of a stack that are shown.
const MOST_FRAMES: usize = 16;

/// Each pair as two stacks side by side, those that waited longest first.
pub(super) fn text(told: &Told<'_>, wakers: &Wakers, text: &mut String) {
    if wakers.rows.is_empty() {
        return;
    }
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "\n{:>10} {:>8} {:>11}  {:<WIDTH$}  woken by, innermost first",
        "wait ms", "waits", "longest ms", "waiting stack, innermost first"
    );
    for row in told.top(&wakers.rows) {
        let waits = row.waits;
        let columns = format!(
            "{:>10} {:>8} {:>11}",
            milliseconds(waits.total_ns),
            waits.count,
            milliseconds(waits.longest_ns)
        );
        let sides = (
            side(told, &row.waiting, &row.waiting_stack),
            side(told, &row.waking, &row.waking_stack),
        );
        for line in 0..sides.0.len().max(sides.1.len()) {
            let of = |side: &Vec<String>| side.get(line).cloned().unwrap_or_default();
            let before = if line == 0 { columns.clone() } else { " ".repeat(columns.len()) };
            let left = cut(&of(&sides.0));
            let row = format!("{before}  {left:<WIDTH$}  {}", of(&sides.1));
            let _ = writeln!(text, "{}", row.trim_end());
        }
    }
    told.more(text, wakers.rows.len(), "pairs of stacks");
}

/// The lines of a stack below the name of its threads.
fn side(told: &Told<'_>, name: &str, functions: &[FunctionId]) -> Vec<String> {
    let name = if name.is_empty() { "(no name)".into() } else { visible(name) };
    let mut lines = vec![format!("[{name}]")];
    if functions.is_empty() {
        lines.push("  (no stack)".to_owned());
    }
    let shown = functions.iter().take(MOST_FRAMES);
    lines.extend(shown.map(|id| format!("  {}", told.frame(*id))));
    if functions.len() > MOST_FRAMES {
        lines.push(format!("  … {} more (--format json)", functions.len() - MOST_FRAMES));
    }
    lines
}

/// No wider than its column.
fn cut(line: &str) -> String {
    if line.chars().count() <= WIDTH {
        return line.to_owned();
    }
    line.chars().take(WIDTH - 1).chain(['…']).collect()
}

/// The same as JSON.
pub(super) fn json(told: &Told<'_>, wakers: &Wakers) -> Value {
    let row = |row: &WakerRow| {
        json!({
            "waiting_thread": row.waiting,
            "waiting_frames": told.frames_json(&row.waiting_stack),
            "waking_thread": row.waking,
            "waking_frames": told.frames_json(&row.waking_stack),
            "count": row.waits.count,
            "total_ns": row.waits.total_ns,
            "longest_ns": row.waits.longest_ns,
        })
    };
    json!({
        "row_count": wakers.rows.len(),
        "rows": told.top(&wakers.rows).iter().map(row).collect::<Vec<_>>(),
        "paired": wakers.paired,
        "without_waker": wakers.without_waker,
    })
}
