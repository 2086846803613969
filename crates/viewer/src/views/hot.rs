//! What weighs most, by function, library, thread, process or whatever else rows can be about.

use super::{Made, Order, percent};
use crate::data::Data;
use crate::row::{Column, Fold, Row, RowKey, Table};
use calltrees::rows::{By, Row as Weighed, Subject, rows};
use std::cmp::Reverse;

pub(super) fn table(made: &Made<'_>) -> Table {
    let data = made.data;
    let Some((word, by)) = made.setup.by.get(made.by).copied() else { return Table::default() };
    let (event, whole) = (data.event(), data.whole());
    let all = rows(data.recorded(), data.event, by);
    // Threads and processes call nobody.
    let has_total = all.iter().any(|row| row.own != row.total) || by == By::Function;
    let count = all.len();
    let mut kept: Vec<Weighed> =
        all.into_iter().filter(|row| Data::share(row.total, whole) >= made.percent).collect();
    match made.order {
        Order::Total => kept.sort_by_key(|row| Reverse((row.total.period, row.own.period))),
        Order::Samples => kept.sort_by_key(|row| Reverse((row.own.samples, row.total.samples))),
        Order::Name => kept.sort_by_cached_key(|row| data.label(&row.subject)),
        // As they come.
        _ => {}
    }
    let mut columns = vec![Column::new("self", 9, 0)];
    if has_total {
        columns.push(Column::new("total", 10, 0));
    }
    let amount = if event.is_clock { "self time" } else { "self count" };
    columns.extend([Column::new(amount, 13, 96), Column::new("samples", 10, 110)]);
    let row = |row: &Weighed| {
        let own = Data::share(row.own, whole);
        let mut cells = vec![percent(own)];
        if has_total {
            cells.push(percent(Data::share(row.total, whole)));
        }
        cells.push(Data::amount(row.own, &event));
        cells.push(report::count(row.own.samples));
        let (name, more) = data.label(&row.subject);
        let function = match row.subject {
            Subject::Function(id) => Some(id),
            _ => None,
        };
        let key = RowKey::Subject(row.subject.clone());
        Row { key, cells, depth: 0, fold: Fold::Leaf, name, more, function, heat: own }
    };
    let rows: Vec<Row> = kept.iter().map(row).collect();
    let left_out = count - rows.len();
    let about = format!("by {word}, most {} first", made.order.word());
    let about = if made.order == Order::Name { format!("by {word}, by name") } else { about };
    Table { columns, title: word.to_owned(), rows, left_out, about, prose: false }
}
