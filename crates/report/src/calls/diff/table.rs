//! What does each row weigh in each block of each recording?

use super::names::lasting;
use crate::calls::demangled;
use calltrees::rows::{By, of_event};
use calltrees::{Known, Recorded, Stack};
use std::collections::{BTreeMap, BTreeSet};

/// A recording of one side, and its event.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'r> {
    /// The recording, its time cut into [`BLOCKS`](super::BLOCKS) if blocks are compared.
    pub recorded: &'r Recorded,
    /// Index of the event.
    pub event: u32,
}

/// What a row is of: its lasting name, and for what has no name, where it lies.
pub(super) type Key = (String, String);

/// The weights of one recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Weights {
    pub rows: BTreeMap<Key, BTreeMap<u32, f64>>,
    pub whole: BTreeMap<u32, f64>,
    pub samples: u64,
    /// Other names that a row stands for.
    pub names: BTreeMap<Key, BTreeSet<String>>,
}

impl Weights {
    pub(super) fn of(unit: Unit<'_>, by: By, total: bool) -> Weights {
        let mut weights = Weights::default();
        let named = names(unit.recorded, by);
        let mut seen: Vec<&Key> = Vec::new();
        for stack in of_event(unit.recorded, unit.event) {
            let weight = stack.weight.period as f64;
            weights.samples = weights.samples.saturating_add(stack.weight.samples);
            *weights.whole.entry(stack.block).or_default() += weight;
            seen.clear();
            let most = if total { usize::MAX } else { 1 };
            for index in indices(unit.recorded, stack, by).take(most) {
                let Some((key, name)) = named.get(index) else { continue };
                if !weights.names.get(key).is_some_and(|names| names.contains(name)) {
                    weights.names.entry(key.clone()).or_default().insert(name.clone());
                }
                if seen.contains(&key) {
                    continue;
                }
                seen.push(key);
                match weights.rows.get_mut(key) {
                    Some(row) => *row.entry(stack.block).or_default() += weight,
                    None => {
                        weights.rows.insert(key.clone(), BTreeMap::from([(stack.block, weight)]));
                    }
                }
            }
        }
        weights
    }

    /// A row's share of the whole, from 0 to 1.
    pub(super) fn share(&self, key: &Key) -> f64 {
        let sum = |blocks: &BTreeMap<u32, f64>| blocks.values().sum::<f64>();
        let whole = sum(&self.whole);
        if whole > 0.0 { self.rows.get(key).map_or(0.0, sum) / whole } else { 0.0 }
    }
}

/// Blocks as a list of `count`, each `width` of the narrow ones.
pub(super) fn spread(blocks: Option<&BTreeMap<u32, f64>>, count: usize, width: usize) -> Vec<f64> {
    let mut list = vec![0.0; count];
    for (block, weight) in blocks.into_iter().flatten() {
        if let Some(sum) = list.get_mut(*block as usize / width.max(1)) {
            *sum += weight;
        }
    }
    list
}

fn indices<'s>(
    recorded: &Recorded,
    stack: &'s Stack,
    by: By,
) -> Box<dyn Iterator<Item = usize> + 's> {
    match by {
        By::Function | By::Library | By::Line => {
            Box::new(stack.functions.iter().map(|id| id.0 as usize))
        }
        By::Thread | By::Process => Box::new(std::iter::once(stack.thread as usize)),
        // What has no group stands behind them all.
        By::Cgroup => {
            let behind = recorded.cgroups.len();
            Box::new(std::iter::once(stack.cgroup.map_or(behind, |index| index as usize)))
        }
    }
}

/// The row of each function or thread, and the name it has in this recording.
fn names(recorded: &Recorded, by: By) -> Vec<(Key, String)> {
    let alone = |name: &str| ((name.to_owned(), String::new()), name.to_owned());
    let functions = recorded.names.functions().iter();
    let library = |id: calltrees::LibraryId| {
        let library = recorded.names.libraries().get(id.0 as usize);
        library.map_or("[unknown]", calltrees::Library::short)
    };
    let function = |function: &calltrees::Function| match function.known {
        // Addresses differ from build to build; what has no name is one row of its library.
        Known::Address => ((String::new(), library(function.library).to_owned()), String::new()),
        _ => ((lasting(&function.name).to_owned(), String::new()), function.name.clone()),
    };
    let thread = |pid: i32, name: &str| {
        let main = recorded.threads.iter().find(|thread| (thread.pid, thread.tid) == (pid, pid));
        main.map_or(name, |main| &main.name).to_owned()
    };
    let names = &recorded.names;
    let line = |one: &calltrees::Function| match one.line {
        Some(line) => alone(&format!("{}:{}", names.source(line), line.number)),
        None => function(one),
    };
    let cgroup = |group: &calltrees::Cgroup| alone(group.path.as_deref().unwrap_or_default());
    match by {
        By::Function => functions.map(function).collect(),
        By::Line => functions.map(line).collect(),
        By::Cgroup => recorded.cgroups.iter().map(cgroup).chain([alone("")]).collect(),
        By::Library => functions.map(|function| alone(library(function.library))).collect(),
        By::Thread => recorded.threads.iter().map(|thread| alone(&thread.name)).collect(),
        By::Process => {
            let mut mains: BTreeMap<i32, String> = BTreeMap::new();
            let name = |own: &calltrees::Thread| {
                let main = mains.entry(own.pid).or_insert_with(|| thread(own.pid, &own.name));
                alone(main)
            };
            recorded.threads.iter().map(name).collect()
        }
    }
}

/// A row's name, as people read it.
pub(super) fn shown(key: &Key) -> String {
    match key {
        (name, library) if name.is_empty() && !library.is_empty() => {
            format!("[without a name in {library}]")
        }
        (name, _) if name.is_empty() => "[without a name]".to_owned(),
        (name, _) if name.starts_with("_ZN") && !name.ends_with('E') => {
            demangled(&format!("{name}E"))
        }
        (name, _) => demangled(name),
    }
}
