//! Self and total weight by function, library, source line, thread, process or control group.

use crate::Weight;
use crate::analysis::{Recorded, Stack};
use crate::names::{FunctionId, LibraryId, Line};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// What rows are about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// A function of a library.
    #[default]
    Function,
    /// A program, a shared library, the kernel.
    Library,
    /// A line of the source, whatever function it was compiled into; where none is known, a
    /// function. Needs [`Options::lines`](crate::Options::lines).
    Line,
    /// A thread under one of its names.
    Thread,
    /// A process, all its threads together.
    Process,
    /// A control group.
    Cgroup,
}

/// Of which a row tells.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A function.
    Function(FunctionId),
    /// A library.
    Library(LibraryId),
    /// A line of the source.
    Line(Line),
    /// A thread, by its index.
    Thread(u32),
    /// A process.
    Process(i32),
    /// A control group, by its index; none where samples do not tell it.
    Cgroup(Option<u32>),
}

/// A line of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Of what.
    pub subject: Subject,
    /// Of samples taken in it.
    pub own: Weight,
    /// Of samples taken in it or in what it called; each once, however often a stack holds it.
    pub total: Weight,
}

/// The rows of the samples of `event`, those that weigh most by themselves first.
pub fn rows(recorded: &Recorded, event: u32, by: By) -> Vec<Row> {
    let mut sums: FxHashMap<Subject, (Weight, Weight)> = FxHashMap::default();
    let mut seen: Vec<Subject> = Vec::new();
    for stack in of_event(recorded, event) {
        seen.clear();
        let mut innermost = true;
        subjects(recorded, stack, by, |subject| {
            let first = std::mem::take(&mut innermost);
            let again = seen.contains(&subject);
            if first || !again {
                let (own, total) = sums.entry(subject.clone()).or_default();
                if first {
                    own.add(stack.weight);
                }
                if !again {
                    total.add(stack.weight);
                }
            }
            if !again {
                seen.push(subject);
            }
        });
    }
    let row = |(subject, (own, total))| Row { subject, own, total };
    let mut rows: Vec<Row> = sums.into_iter().map(row).collect();
    rows.sort_by(|one, other| {
        let weights = |row: &Row| (Reverse(row.own.period), Reverse(row.total.period));
        let name = |row: &Row| named(recorded, &row.subject);
        weights(one).cmp(&weights(other)).then_with(|| name(one).cmp(&name(other)))
    });
    rows
}

/// The stacks of an event.
pub fn of_event(recorded: &Recorded, event: u32) -> impl Iterator<Item = &Stack> {
    recorded.stacks.iter().filter(move |stack| stack.event == event)
}

/// What all samples of an event weigh.
pub fn whole(recorded: &Recorded, event: u32) -> Weight {
    let mut sum = Weight::default();
    of_event(recorded, event).for_each(|stack| sum.add(stack.weight));
    sum
}

/// The events that have samples, those with most first; behind them the waits, and the event of
/// the switches themselves, which says the least.
pub fn sampled_events(recorded: &Recorded) -> Vec<u32> {
    let mut samples: FxHashMap<u32, u64> = FxHashMap::default();
    for stack in &recorded.stacks {
        *samples.entry(stack.event).or_default() += stack.weight.samples;
    }
    // What `record --switch-events` adds is what nobody asked to see.
    let last = |event: u32| match recorded.events.get(event as usize) {
        Some(event) if event.is_switches || event.is_wakes() => 2,
        Some(event) => u8::from(event.off_cpu.is_some()),
        None => 0,
    };
    let ranked = |(event, samples)| (last(event), Reverse(samples), event);
    let mut events: Vec<(u8, Reverse<u64>, u32)> = samples.into_iter().map(ranked).collect();
    events.sort_unstable();
    events.into_iter().map(|(_, _, event)| event).collect()
}

fn subjects(recorded: &Recorded, stack: &Stack, by: By, mut each: impl FnMut(Subject)) {
    match by {
        By::Function => {
            let functions = stack.functions.iter();
            let whole = functions.map(|&function| recorded.names.without_line(function));
            whole.for_each(|function| each(Subject::Function(function)));
        }
        By::Line => stack.functions.iter().for_each(|&id| {
            let line = recorded.names.function(id).and_then(|function| function.line);
            each(line.map_or(Subject::Function(id), Subject::Line));
        }),
        By::Library => {
            let library = |&id| recorded.names.function(id).map(|function| function.library);
            let libraries = stack.functions.iter().filter_map(library);
            libraries.for_each(|library| each(Subject::Library(library)));
        }
        By::Thread => each(Subject::Thread(stack.thread)),
        By::Process => {
            let thread = recorded.threads.get(stack.thread as usize);
            each(Subject::Process(thread.map_or(-1, |thread| thread.pid)));
        }
        By::Cgroup => each(Subject::Cgroup(stack.cgroup)),
    }
}

/// Whether a stack counts for a subject, one of rows `by` something.
pub fn holds(recorded: &Recorded, stack: &Stack, by: By, subject: &Subject) -> bool {
    let mut found = false;
    subjects(recorded, stack, by, |one| found |= one == *subject);
    found
}

/// The name of a process: of those that its main thread had in turn (it becomes another program),
/// the one with most samples.
fn process_name(recorded: &Recorded, pid: i32) -> Option<String> {
    let of_process = (0u32..).zip(&recorded.threads).filter(|(_, thread)| thread.pid == pid);
    let mains: Vec<_> = of_process.clone().filter(|(_, thread)| thread.tid == pid).collect();
    let samples = |number: u32| -> u64 {
        let own = recorded.stacks.iter().filter(|stack| stack.thread == number);
        own.map(|stack| stack.weight.samples).sum()
    };
    let main = match mains.as_slice() {
        [] => of_process.clone().next(),
        [one] => Some(*one),
        several => several.iter().copied().max_by_key(|(number, _)| samples(*number)),
    };
    main.map(|(_, thread)| thread.name.clone())
}

/// A subject's name, and what tells it from another of the same name.
pub fn named(recorded: &Recorded, subject: &Subject) -> (String, String) {
    let library = |id: LibraryId| recorded.names.libraries().get(id.0 as usize);
    match subject {
        Subject::Function(id) => {
            let name = recorded.names.function(*id).map(|function| function.name.clone());
            let library = recorded.names.library(*id).map(|library| library.short().to_owned());
            (name.unwrap_or_default(), library.unwrap_or_default())
        }
        Subject::Library(id) => {
            let of = |library: &crate::Library| (library.short().to_owned(), library.path.clone());
            library(*id).map(of).unwrap_or_default()
        }
        Subject::Line(line) => (recorded.names.source(*line).to_owned(), line.number.to_string()),
        Subject::Thread(index) => {
            let thread = recorded.threads.get(*index as usize);
            let of = |t: &crate::Thread| (t.name.clone(), format!("{}/{}", t.pid, t.tid));
            thread.map(of).unwrap_or_default()
        }
        Subject::Process(pid) => {
            (process_name(recorded, *pid).unwrap_or_default(), pid.to_string())
        }
        Subject::Cgroup(index) => {
            let cgroup = index.and_then(|index| recorded.cgroups.get(index as usize));
            let id = cgroup.map(|cgroup| cgroup.id.to_string());
            (
                cgroup.and_then(|cgroup| cgroup.path.clone()).unwrap_or_default(),
                id.unwrap_or_default(),
            )
        }
    }
}
