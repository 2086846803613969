//! How long threads and stacks waited, in a column for each kind of wait that the recording has.

use super::{Made, Order, percent};
use crate::data::Data;
use crate::row::{Column, Fold, Row, RowKey, Table};
use calltrees::rows::Subject;
use calltrees::switching::Reason;
use calltrees::{Event, FunctionId, Known, Weight};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Sums of a line: all waits, and those of each kind.
#[derive(Clone, Debug, Default)]
struct Sums {
    all: Weight,
    kinds: Vec<Weight>,
}

impl Sums {
    fn add(&mut self, kind: usize, kinds: usize, weight: Weight, begins: bool) {
        self.all.add(counted(weight, begins));
        self.kinds.resize(kinds, Weight::default());
        if let Some(sum) = self.kinds.get_mut(kind) {
            sum.add(weight);
        }
    }
}

/// The weight of waits in a sum of all: the end of a wait in the run queue is no wait of its own.
fn counted(weight: Weight, begins: bool) -> Weight {
    Weight { samples: if begins { weight.samples } else { 0 }, ..weight }
}

/// The events that are waits, with their names, and whether they are whole ones or begin one.
fn kinds(data: &Data) -> Vec<(u32, String, bool)> {
    let events = (0u32..).zip(&data.recorded().events);
    let of = |(number, event): (u32, &Event)| {
        let reason = event.off_cpu?;
        Some((number, event.name.clone(), reason != Reason::RunQueue))
    };
    events.filter_map(of).collect()
}

pub(super) fn table(made: &Made<'_>) -> Table {
    let data = made.data;
    let kinds = kinds(data);
    if kinds.is_empty() {
        return Table::only(
            "The recording holds no records of context switches; make one that does with \
             `planish record --switch-events -g -- COMMAND`.",
        );
    }
    let mut threads: FxHashMap<u32, Sums> = FxHashMap::default();
    let mut stacks: FxHashMap<&[FunctionId], Sums> = FxHashMap::default();
    let mut whole = Weight::default();
    for stack in &data.recorded().stacks {
        let found = kinds.iter().enumerate().find(|(_, kind)| kind.0 == stack.event);
        let Some((kind, &(_, _, begins))) = found else { continue };
        whole.add(counted(stack.weight, begins));
        let count = kinds.len();
        let sums = match made.waits_by_stack {
            true => stacks.entry(&stack.functions).or_default(),
            false => threads.entry(stack.thread).or_default(),
        };
        sums.add(kind, count, stack.weight, begins);
    }
    let mut columns = vec![Column::new("share", 9, 0), Column::new("waited", 11, 0)];
    let from = [48usize, 70, 90, 110, 130, 150];
    for ((_, name, _), from) in kinds.iter().zip(from) {
        columns.push(Column::new(name.clone(), name.chars().count().max(9) + 2, from));
    }
    columns.extend([Column::new("waits", 9, 100), Column::new("longest", 11, 90)]);
    let shown = kinds.len().min(from.len());
    let cells = |sums: &Sums| {
        let time = |weight: Weight| report::duration_ns(weight.period as f64);
        let mut cells = vec![percent(Data::share(sums.all, whole)), time(sums.all)];
        cells.extend(sums.kinds.iter().take(shown).map(|weight| time(*weight)));
        cells.push(report::count(sums.all.samples));
        cells.push(report::duration_ns(sums.all.heaviest as f64));
        cells
    };
    let rows = match made.waits_by_stack {
        true => of_stacks(made, stacks, whole, &cells),
        false => of_threads(made, threads, whole, &cells),
    };
    let (title, other) = match made.waits_by_stack {
        true => ("stack, innermost first", "threads"),
        false => ("thread", "stacks"),
    };
    let all = report::counted(whole.samples, "wait", "waits");
    let time = report::duration_ns(whole.period as f64);
    let about = format!("{all}, {time} of all threads together; b: by {other}");
    let (rows, left_out) = rows;
    Table { columns, title: title.to_owned(), rows, left_out, about, prose: false }
}

type Rows = (Vec<Row>, usize);

/// Those that weigh enough, in order, and how many do not.
fn sorted<K>(
    made: &Made<'_>,
    sums: FxHashMap<K, Sums>,
    whole: Weight,
    name: impl Fn(&K) -> String,
) -> (Vec<(K, Sums)>, usize)
where
    K: Ord,
{
    let count = sums.len();
    let enough = |(_, sums): &(K, Sums)| Data::share(sums.all, whole) >= made.percent;
    let mut all: Vec<(K, Sums)> = sums.into_iter().filter(enough).collect();
    // The order of a hash table is no order.
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    match made.order {
        Order::Longest => all.sort_by_key(|(_, sums)| Reverse(sums.all.heaviest)),
        Order::Samples => all.sort_by_key(|(_, sums)| Reverse(sums.all.samples)),
        Order::Name => all.sort_by_cached_key(|(key, _)| name(key)),
        _ => all.sort_by_key(|(_, sums)| Reverse(sums.all.period)),
    }
    let left_out = count - all.len();
    (all, left_out)
}

fn of_threads(
    made: &Made<'_>,
    sums: FxHashMap<u32, Sums>,
    whole: Weight,
    cells: &dyn Fn(&Sums) -> Vec<String>,
) -> Rows {
    let label = |thread: &u32| made.data.label(&Subject::Thread(*thread));
    let (all, left_out) = sorted(made, sums, whole, |thread| label(thread).0);
    let row = |(thread, sums): (u32, Sums)| {
        let (name, more) = label(&thread);
        Row {
            key: RowKey::Subject(Subject::Thread(thread)),
            cells: cells(&sums),
            depth: 0,
            fold: Fold::Leaf,
            name,
            more,
            function: None,
            heat: Data::share(sums.all, whole),
        }
    };
    (all.into_iter().map(row).collect(), left_out)
}

fn of_stacks(
    made: &Made<'_>,
    sums: FxHashMap<&[FunctionId], Sums>,
    whole: Weight,
    cells: &dyn Fn(&Sums) -> Vec<String>,
) -> Rows {
    let data = made.data;
    let name = |stack: &&[FunctionId]| {
        stack.first().map(|id| data.function(*id).to_string()).unwrap_or_default()
    };
    let (all, left_out) = sorted(made, sums, whole, name);
    let mut rows = Vec::new();
    let frame = |id: &FunctionId| (data.function(*id).to_string(), data.library(*id));
    let is_sampled = |id: &FunctionId| {
        let function = data.recorded().names.function(*id);
        function.is_none_or(|function| function.known != Known::NoSample)
    };
    for (number, (stack, sums)) in (0..).zip(all) {
        let Some((first, callers)) = stack.split_first() else { continue };
        let key = RowKey::Number(number, 0);
        let is_open = made.turned.contains(&key);
        let fold = match (callers.is_empty(), is_open) {
            (true, _) => Fold::Leaf,
            (false, true) => Fold::Open,
            (false, false) => Fold::Closed,
        };
        let (name, library) = frame(first);
        let caller = callers.first().filter(|_| !is_open).map(|id| frame(id).0);
        let more = match caller {
            Some(caller) => format!("{library} < {caller}"),
            None => library,
        };
        let function = Some(*first).filter(is_sampled);
        let heat = Data::share(sums.all, whole);
        rows.push(Row { key, cells: cells(&sums), depth: 0, fold, name, more, function, heat });
        if is_open {
            let below = callers.iter().zip(1..).map(|(id, at)| {
                let (name, more) = frame(id);
                Row {
                    more,
                    function: Some(*id),
                    depth: 1,
                    key: RowKey::Number(number, at),
                    ..Row::text(0, name)
                }
            });
            rows.extend(below);
        }
    }
    (rows, left_out)
}
