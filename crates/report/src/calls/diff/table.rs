//! What does each row weigh in each block of each recording?

use super::subjects::{self, Plan, Subjects};
use crate::calls::demangled;
use calltrees::Recorded;
use calltrees::rows::By;
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
pub(crate) type Key = (String, String);

/// Stands between the functions of a stack in the key of its row, and behind the kind of a wait.
pub(super) const BETWEEN: char = '\u{1f}';

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
    pub(super) fn of(unit: Unit<'_>, plan: &Plan) -> Weights {
        let mut weights = Weights::default();
        let subjects = Subjects::new(unit, plan);
        let mut seen: Vec<Key> = Vec::new();
        for stack in &unit.recorded.stacks {
            if !subjects.counts(stack) {
                continue;
            }
            let weight = stack.weight.period as f64;
            weights.samples = weights.samples.saturating_add(stack.weight.samples);
            *weights.whole.entry(stack.block).or_default() += weight;
            seen.clear();
            subjects
                .rows(stack, |key, name| weights.add(key, name, stack.block, weight, &mut seen));
        }
        weights
    }

    fn add(&mut self, key: &Key, name: &str, block: u32, weight: f64, seen: &mut Vec<Key>) {
        if !name.is_empty() && !self.names.get(key).is_some_and(|names| names.contains(name)) {
            self.names.entry(key.clone()).or_default().insert(name.to_owned());
        }
        if seen.contains(key) {
            return;
        }
        seen.push(key.clone());
        match self.rows.get_mut(key) {
            Some(row) => *row.entry(block).or_default() += weight,
            None => {
                self.rows.insert(key.clone(), BTreeMap::from([(block, weight)]));
            }
        }
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

/// The functions of a row that is a stack, innermost first, as people read them.
pub(super) fn frames(key: &Key) -> Vec<String> {
    if !key.0.contains(BETWEEN) {
        return Vec::new();
    }
    let part = |part: &str| {
        let (name, library) = part.split_once(IN).unwrap_or((part, ""));
        shown(&(name.to_owned(), library.to_owned()))
    };
    key.0.split(BETWEEN).skip(1).map(part).collect()
}

/// Stands between a missing name and its library in the key of a stack.
pub(super) const IN: char = '\u{1e}';

/// The row of each function of a recording.
pub(crate) fn rows_of_functions(recorded: &Recorded) -> Vec<Key> {
    subjects::names(recorded, By::Function).into_iter().map(|(key, _)| key).collect()
}

/// A row's name, as people read it.
pub(crate) fn shown(key: &Key) -> String {
    match key {
        (name, _) if name.contains(BETWEEN) => {
            let frames: Vec<String> = frames(key).into_iter().rev().collect();
            match name.split(BETWEEN).next() {
                Some(kind) if !kind.is_empty() => format!("{kind}: {}", frames.join(" > ")),
                _ => frames.join(" > "),
            }
        }
        (name, library) if name.is_empty() && !library.is_empty() => {
            format!("[without a name in {library}]")
        }
        (name, _) if name.is_empty() => "[without a name]".to_owned(),
        (name, _) => match demangled(name) {
            // Rust's, without the end that went with its hash.
            read if read == *name && name.starts_with("_ZN") => {
                let whole = format!("{name}E");
                Some(demangled(&whole)).filter(|read| *read != whole).unwrap_or(read)
            }
            read => read,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_with_and_without_the_hash_of_rust() {
        for (name, expected) in [
            ("_ZN5alpha5deltaEl", "alpha::delta(long)"),
            ("_ZN4core3fmt5write", "core::fmt::write"),
            ("_ZN4core3fmt5writeE", "core::fmt::write"),
            ("_ZNx", "_ZNx"),
            ("main", "main"),
        ] {
            assert_eq!(shown(&(name.to_owned(), String::new())), expected);
        }
    }
}
