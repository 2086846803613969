//! The chosen function by source line and instruction.

use super::{Fetched, Made, Order, percent};
use crate::data::{Data, Lines};
use crate::row::{Column, Fold, Row, RowKey, Table};
use annotate::{Instruction, Line};
use calltrees::Weight;
use report::calls::demangled;
use std::cmp::Reverse;

/// Lines of so much of their function are open at first, in per cent.
const FIRST_OPEN: f64 = 5.0;

pub(super) fn table(made: &Made<'_>) -> Table {
    let name = |id| format!("{} {}", made.data.function(id), made.data.library(id));
    match made.fetched {
        Fetched::Nothing => {
            Table::only("Choose a function in another view (arrows, s) to see its lines.")
        }
        Fetched::Awaited(id) => Table::only(&format!("Reading the lines of {} …", name(*id))),
        Fetched::Refused(id, why) => Table {
            rows: vec![
                Row::text(0, format!("The lines of {} cannot be shown:", name(*id))),
                Row::text(1, why.clone()),
            ],
            prose: true,
            ..Table::default()
        },
        Fetched::Here(id, lines) => told(made, lines, &name(*id)),
    }
}

fn told(made: &Made<'_>, lines: &Lines, name: &str) -> Table {
    let counted = lines.annotated.instructions.iter().any(|one| one.count.is_some());
    let mut columns = vec![Column::new("self", 9, 0)];
    if counted {
        columns.push(Column::new("runs", 12, 60));
    }
    let mut order: Vec<usize> = (0..lines.annotated.lines.len()).collect();
    if made.order == Order::Own {
        let weight = |at: &usize| lines.annotated.lines.get(*at).map(|line| line.weight.period);
        order.sort_by_key(|at| Reverse(weight(at)));
    }
    let mut rows = Vec::new();
    for at in order {
        let Some(line) = lines.annotated.lines.get(at) else { continue };
        let key = RowKey::Number(at, 0);
        let heat = Data::share(line.weight, lines.own);
        let by_itself = heat >= FIRST_OPEN;
        let is_open = by_itself != made.turned.contains(&key);
        let fold = if is_open { Fold::Open } else { Fold::Closed };
        rows.push(Row {
            key,
            cells: cells(line.weight, line.count, lines.own, counted),
            depth: 0,
            fold,
            name: source(lines, line),
            more: String::new(),
            function: None,
            heat,
        });
        if is_open {
            let below = line.instructions.iter().zip(1..);
            let below = below.filter_map(|(one, number)| {
                let one = lines.annotated.instructions.get(*one)?;
                let key = RowKey::Number(at, number);
                Some(Row {
                    key,
                    cells: cells(one.weight, one.count, lines.own, counted),
                    depth: 1,
                    fold: Fold::Leaf,
                    name: instruction(lines, one),
                    more: String::new(),
                    function: None,
                    heat: Data::share(one.weight, lines.own),
                })
            });
            rows.extend(below);
        }
    }
    let samples = report::counted(lines.own.samples, "sample", "samples");
    let share = Data::share(lines.own, made.data.whole());
    let about = format!("{name}: {share:.2} % of all, {samples}");
    for (number, loop_) in (0..).zip(&lines.annotated.loops) {
        let trips = loop_.trips().map_or("?".to_owned(), |trips| format!("{trips:.1}"));
        let text = format!(
            "loop {:x}–{:x}: {trips} iterations per entry, {} entries",
            loop_.first.0,
            loop_.last.0,
            report::count(loop_.entries)
        );
        rows.push(Row::text(usize::MAX / 2 + number, text));
    }
    // Beside the columns.
    let cells = made.width.saturating_sub(16).max(20);
    let notes = lines.notes.iter().map(|note| format!("note: {note}"));
    let notes = notes.flat_map(|note| crate::text::folded(&note, cells, made.setup.ascii));
    let notes = (0..).zip(notes);
    rows.extend(notes.map(|(number, note)| Row::text(usize::MAX / 4 + number, note)));
    Table {
        columns,
        title: "line, and below it its instructions".to_owned(),
        rows,
        about,
        ..Table::default()
    }
}

fn cells(weight: Weight, count: Option<u64>, whole: Weight, counted: bool) -> Vec<String> {
    // What nothing was sampled at stays empty: one looks for what is there.
    let share = match weight.samples {
        0 => String::new(),
        _ => percent(Data::share(weight, whole)),
    };
    let mut cells = vec![share];
    if counted {
        cells.push(count.map(report::count).unwrap_or_default());
    }
    cells
}

/// Where a line stands and what is written there.
fn source(lines: &Lines, line: &Line) -> String {
    let inlined = line.inlined.as_ref().map(|name| format!(" ({})", demangled(name)));
    let inlined = inlined.unwrap_or_default();
    let Some(place) = line.place else { return format!("(no line){inlined}") };
    let path = lines.annotated.files.get(place.file).map_or("?", String::as_str);
    let file = path.rsplit('/').next().unwrap_or(path);
    let text = lines.sources.get(place.file).and_then(|source| source.lines.get(&place.line));
    let text = text.map(|text| text.replace('\t', "    ")).unwrap_or_default();
    format!("{file}:{}{inlined}  {text}", place.line)
}

fn instruction(lines: &Lines, one: &Instruction) -> String {
    let text = one.text.as_deref().unwrap_or("");
    let to = one.target_function.as_ref().map(|(name, offset)| match offset {
        0 => format!("  → {}", demangled(name)),
        offset => format!("  → {}+{offset:#x}", demangled(name)),
    });
    let branch = lines.annotated.branches.iter().find(|branch| branch.address == one.address);
    let taken = branch.and_then(|branch| branch.taken_percent());
    let taken = taken.map(|percent| format!("  taken {percent:.1} %")).unwrap_or_default();
    format!("{:x}  {text}{}{taken}", one.address.0, to.unwrap_or_default())
}
