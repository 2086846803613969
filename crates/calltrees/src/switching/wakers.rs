//! Who woke whom: the stack that waited and the stack that ended the wait, side by side.
//!
//! Where a lock was waited for, the one is who wants it and the other who gave it back.

use super::{Switching, Waits};
use crate::analysis::Recorded;
use crate::error::Error;
use crate::names::FunctionId;
use crate::session::{Session, Timed};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Waits that began with one stack and ended by another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WakerRow {
    /// Name of the threads that waited.
    pub waiting: String,
    /// Where they went off the CPU, innermost function first; empty: no sample tells it.
    pub waiting_stack: Vec<FunctionId>,
    /// Name of the thread that ran where the wake-up came from.
    pub waking: String,
    /// Its stack, innermost function first; empty: it has no callers.
    pub waking_stack: Vec<FunctionId>,
    /// The waits, each until its wake-up.
    pub waits: Waits,
}

/// All pairs, and what is not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wakers {
    /// Those that waited longest first.
    pub rows: Vec<WakerRow>,
    /// Waits that a wake-up ended, in the rows.
    pub paired: u64,
    /// Waits whose wake-up has no sample with a stack here: a filter leaves it out, or its record
    /// is damaged.
    pub without_waker: u64,
}

impl Wakers {
    /// Keeps the rows for which `keep` is true.
    pub fn retain(&mut self, keep: impl Fn(&WakerRow) -> bool) {
        self.rows.retain(keep);
        self.paired = self.rows.iter().map(|row| row.waits.count).sum();
    }
}

/// A thread's name and a stack, by number.
type Side = (u32, u32);

#[derive(Default)]
struct Numbered<T: std::hash::Hash + Eq + Clone> {
    numbers: FxHashMap<T, u32>,
    all: Vec<T>,
}

impl<T: std::hash::Hash + Eq + Clone> Numbered<T> {
    fn number(&mut self, of: T) -> u32 {
        let next = self.all.len() as u32;
        let number = *self.numbers.entry(of.clone()).or_insert(next);
        if number == next {
            self.all.push(of);
        }
        number
    }

    fn get(&self, number: u32) -> Option<&T> {
        self.all.get(number as usize)
    }
}

/// Pairs the waits of a recording with what ended them, in one more pass over its samples.
/// `progress` is told the bytes read.
///
/// # Errors
/// Where the recording cannot be read.
pub fn wakers(
    recorded: &Recorded,
    session: &Session<'_>,
    progress: &dyn Fn(u64),
) -> Result<Wakers, Error> {
    let Some(switching) = &recorded.switching else { return Ok(Wakers::default()) };
    let mut stacks: Numbered<Vec<FunctionId>> = Numbered::default();
    let mut names: Numbered<String> = Numbered::default();
    // Where waits began that no wake-up has yet ended.
    let mut open: FxHashMap<(i32, u64), Side> = FxHashMap::default();
    let mut sums: FxHashMap<(Side, Side), Waits> = FxHashMap::default();
    let mut paired = 0;
    let mut visit = |timed: &Timed<'_>| -> Result<(), std::convert::Infallible> {
        if timed.wait.is_none() && timed.woke.is_none() {
            return Ok(());
        }
        let name = recorded.threads.get(timed.thread as usize).map(|thread| thread.name.clone());
        let of_place = |place| session.functions(place).iter().copied();
        let known = timed.frames.iter().filter_map(|frame| frame.place).flat_map(of_place);
        let stack = stacks.number(if timed.has_chain { known.collect() } else { Vec::new() });
        let side = (names.number(name.unwrap_or_default()), stack);
        if let Some(interval) = timed.wait {
            open.insert((interval.wait.tid, interval.wait.start_ns), side);
        }
        if let Some(interval) = timed.woke {
            let wait = interval.wait;
            let key = (wait.tid, wait.start_ns);
            let began = open.remove(&key).unwrap_or_else(|| {
                let name = thread_name(switching, wait.tid);
                (names.number(name), stacks.number(Vec::new()))
            });
            let ns = wait.parts().next().map_or(0, |part| part.1);
            let one = Waits { count: 1, total_ns: ns, longest_ns: ns };
            sums.entry((began, side)).or_default().add(one);
            paired += 1;
        }
        Ok(())
    };
    match session.each(recorded, progress, &mut visit)? {
        Ok(()) => {}
        Err(never) => match never {},
    }
    let row = |((waiting, waking), waits): ((Side, Side), Waits)| WakerRow {
        waiting: names.get(waiting.0).cloned().unwrap_or_default(),
        waiting_stack: stacks.get(waiting.1).cloned().unwrap_or_default(),
        waking: names.get(waking.0).cloned().unwrap_or_default(),
        waking_stack: stacks.get(waking.1).cloned().unwrap_or_default(),
        waits,
    };
    let mut rows: Vec<WakerRow> = sums.into_iter().map(row).collect();
    rows.sort_by_cached_key(|row| {
        let sides = (row.waiting.clone(), row.waking.clone());
        let stacks = (row.waiting_stack.clone(), row.waking_stack.clone());
        (Reverse(row.waits.total_ns), sides, stacks)
    });
    let woken = switching.intervals.iter().filter(|interval| interval.wait.woken.is_some());
    let without_waker = (woken.count() as u64).saturating_sub(paired);
    Ok(Wakers { rows, paired, without_waker })
}

fn thread_name(switching: &Switching, tid: i32) -> String {
    let found = switching.threads.iter().find(|thread| thread.tid == tid);
    found.map(|thread| thread.name.clone()).unwrap_or_default()
}
