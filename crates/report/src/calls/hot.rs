//! Tables of what weighs most.

use super::source_names::SourceNames;
use super::{Selected, bracketed, demangled};
use calltrees::rows::{By, Row, Subject, named, rows};
use serde_json::{Value, json};
use std::fmt::Write as _;

fn limited<T>(all: &[T], limit: usize) -> &[T] {
    if limit == 0 { all } else { all.get(..limit).unwrap_or(all) }
}

/// The rows that weigh enough, and how many do not.
fn chosen(selected: &Selected<'_>, by: By) -> (Vec<Row>, usize) {
    let whole = selected.whole();
    let all = rows(selected.recorded, selected.event, by);
    let count = all.len();
    let enough = |row: &Row| selected.share(row.total, whole) >= selected.percent;
    let kept: Vec<Row> = all.into_iter().filter(enough).collect();
    let kept = limited(&kept, selected.limit).to_vec();
    let left_out = count - kept.len();
    (kept, left_out)
}

/// What a row is of, in one word.
pub(super) fn noun(by: By) -> &'static str {
    match by {
        By::Function => "function",
        By::Library => "library",
        By::Line => "line",
        By::Thread => "thread",
        By::Process => "process",
        By::Cgroup => "cgroup",
    }
}

/// What weighs most, as a table.
pub fn hot_text(selected: &Selected<'_>, by: By) -> String {
    let (rows, left_out) = chosen(selected, by);
    let (event, whole) = (selected.event(), selected.whole());
    let amount = if event.is_clock { "self time" } else { "self" };
    let mut text = format!("{}\n\n", selected.headline());
    // Threads, processes and groups call nobody, so that their totals are their own weights.
    let has_total = matches!(by, By::Function | By::Library | By::Line);
    let sources = SourceNames::of(&selected.recorded.names);
    let total_head = if has_total { format!("{:>9}", "total") } else { String::new() };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{:>8}{total_head}{amount:>13}{:>10}  {}", "self", "samples", noun(by));
    for row in &rows {
        let total = selected.share(row.total, whole);
        let total = if has_total { format!("{total:>7.2} %") } else { String::new() };
        let _ = writeln!(
            text,
            "{:>6.2} %{total}{:>13}{:>10}  {}",
            selected.share(row.own, whole),
            selected.amount(row.own, &event),
            crate::count(row.own.samples),
            label(selected, &row.subject, &sources),
        );
    }
    if left_out > 0 {
        let plural = crate::counted(left_out as u64, "more row", "more rows");
        let _ = writeln!(text, "… {plural} (--limit 0 --percent 0)");
    }
    text
}

fn label(selected: &Selected<'_>, subject: &Subject, sources: &SourceNames) -> String {
    let (name, more) = named(selected.recorded, subject);
    match subject {
        Subject::Function(_) => {
            format!("{}  {}", crate::visible(&demangled(&name)), bracketed(&more))
        }
        Subject::Library(_) => crate::visible(&more).into_owned(),
        Subject::Line(line) => crate::visible(&sources.line(*line)).into_owned(),
        Subject::Cgroup(None) => "(not recorded)".to_owned(),
        Subject::Cgroup(Some(_)) if name.is_empty() => format!("group {more}, of no recorded path"),
        Subject::Cgroup(Some(_)) => crate::visible(&name).into_owned(),
        _ if name.is_empty() => more,
        _ => format!("{}  {more}", crate::visible(&name)),
    }
}

/// The same as JSON.
pub fn hot_json(selected: &Selected<'_>, by: By) -> Value {
    let (rows, left_out) = chosen(selected, by);
    let whole = selected.whole();
    let row = |row: &Row| {
        let (name, more) = named(selected.recorded, &row.subject);
        let mut object = json!({
            "self_weight": row.own.period,
            "total_weight": row.total.period,
            "self_samples": row.own.samples,
            "total_samples": row.total.samples,
            "self_percent": selected.share(row.own, whole),
            "total_percent": selected.share(row.total, whole),
        });
        let thread = |index: u32| selected.recorded.threads.get(index as usize);
        match &row.subject {
            Subject::Function(id) => {
                object["function"] = json!(demangled(&name));
                object["linkage_name"] = json!(name);
                let library = selected.recorded.names.library(*id);
                object["library"] = json!(library.map(|library| &library.path));
                let known = selected.recorded.names.function(*id).map(|function| function.known);
                object["inlined"] = json!(known == Some(calltrees::Known::Inlined));
                if by == By::Line {
                    (object["file"], object["line"]) = (Value::Null, Value::Null);
                }
            }
            Subject::Library(_) => object["library"] = json!(more),
            Subject::Line(line) => {
                object["file"] = json!(name);
                object["line"] = json!(Some(line.number).filter(|number| *number > 0));
            }
            Subject::Thread(index) => {
                object["thread"] = json!(name);
                object["pid"] = json!(thread(*index).map(|thread| thread.pid));
                object["tid"] = json!(thread(*index).map(|thread| thread.tid));
            }
            Subject::Process(pid) => {
                object["process"] = json!(name);
                object["pid"] = json!(pid);
            }
            Subject::Cgroup(index) => {
                let group = index.and_then(|index| selected.recorded.cgroups.get(index as usize));
                object["cgroup"] = json!(group.and_then(|group| group.path.as_ref()));
                object["cgroup_id"] = json!(group.map(|group| group.id));
            }
        }
        object
    };
    let mut head = selected.json("planish-report-hot");
    head.insert("by".to_owned(), json!(noun(by)));
    head.insert("left_out".to_owned(), json!(left_out));
    head.insert("rows".to_owned(), rows.iter().map(row).collect());
    Value::Object(head)
}
