//! What did each thread do over time? A few letters for each part of the time, from context switches
//! or, without them, from the times of the samples.

use super::content::shortened;
use super::view::View;
use calltrees::switching::{States, parts};
use calltrees::{Blocks, Recorded};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Parts of the time: more than pixels across a window, so that one can look closer.
const PARTS: usize = 1024;
/// Threads at most, those that ran most.
const MOST_THREADS: usize = 40;
const LONGEST_NAME: usize = 100;
/// How much of a part, from none to all.
const LEVELS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

/// The threads, and how the time is cut.
#[derive(Debug, Serialize)]
pub(super) struct TimeLine {
    /// `switches` or `samples`.
    source: &'static str,
    /// From the start to the end, in ns.
    length: u64,
    /// The same of a part.
    part: u64,
    states: Vec<String>,
    threads: Vec<Row>,
    /// Threads that are not told of.
    pub(super) unlisted: u64,
    /// The blocks that stacks are told apart by: when the first begins, how long each is, how many.
    blocks: Option<(i64, u64, u32)>,
}

/// A thread.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    /// How long it was in each state, in ns or by weight.
    sums: Vec<u64>,
    /// For each state a letter a part.
    parts: Vec<String>,
}

/// The states of a thread's part, in the order in which they are drawn; `wakes`: whether the run
/// queue is known.
fn states(part: &States, wakes: bool) -> Vec<(&'static str, u64)> {
    let queue = wakes.then_some(("run queue", part.run_queue));
    let before = [("running", part.running), ("preempted", part.preempted)];
    before.into_iter().chain(queue).chain([("wait", part.waiting)]).collect()
}

fn level(part: u64, whole: u64) -> char {
    // What is there at all is visible.
    let most = LEVELS.len() as u64 - 1;
    let level = u128::from(part) * u128::from(most) / u128::from(whole.max(1));
    let level = level.max(u128::from(part > 0)).min(most.into());
    LEVELS.get(level as usize).copied().map_or('0', char::from)
}

fn row(name: &str, parts: &[Vec<u64>], whole: u64) -> Row {
    Row {
        name: shortened(name, LONGEST_NAME).0,
        sums: parts.iter().map(|state| state.iter().sum()).collect(),
        parts: parts
            .iter()
            .map(|state| state.iter().map(|ns| level(*ns, whole)).collect())
            .collect(),
    }
}

/// The time line of a page; none where nothing tells the time.
pub(super) fn time_line(
    recorded: &Recorded,
    first: &View<'_>,
    blocks: Option<Blocks>,
    is_told: impl Fn(&str) -> bool,
) -> Option<TimeLine> {
    of_switches(recorded, blocks, is_told).or_else(|| of_samples(recorded, first, blocks?))
}

fn of_switches(
    recorded: &Recorded,
    blocks: Option<Blocks>,
    is_told: impl Fn(&str) -> bool,
) -> Option<TimeLine> {
    let switching = recorded.switching.as_ref()?;
    let found = parts(switching, PARTS);
    let mut order: Vec<usize> = (0..switching.threads.len())
        .filter(|&at| switching.threads.get(at).is_some_and(|thread| is_told(&thread.name)))
        .collect();
    if order.is_empty() {
        return None;
    }
    let wakes = switching.has_wakes;
    let named = |(name, _): (&str, u64)| name.to_owned();
    let names: Vec<String> = states(&States::default(), wakes).into_iter().map(named).collect();
    let ran = |at: &usize| switching.threads.get(*at).map_or(0, |thread| thread.times.cpu_ns);
    order.sort_by_key(|at| (Reverse(ran(at)), *at));
    let threads = order.iter().take(MOST_THREADS).filter_map(|&at| {
        let (thread, own) = (switching.threads.get(at)?, found.threads.get(at)?);
        let mut columns = vec![Vec::with_capacity(own.len()); names.len()];
        for part in own {
            let both = columns.iter_mut().zip(states(part, wakes));
            both.for_each(|(column, (_, ns))| column.push(ns));
        }
        Some(row(&crate::calls::waits::named(thread), &columns, found.part_ns))
    });
    let threads = threads.collect();
    Some(TimeLine {
        source: "switches",
        length: found.part_ns.saturating_mul(PARTS as u64),
        part: found.part_ns,
        states: names,
        threads,
        unlisted: order.len().saturating_sub(MOST_THREADS) as u64,
        blocks: blocks.map(|blocks| {
            let offset = i128::from(blocks.start()) - i128::from(found.begin_ns);
            (i64::try_from(offset).unwrap_or(0), blocks.length(), blocks.count())
        }),
    })
}

fn of_samples(recorded: &Recorded, first: &View<'_>, blocks: Blocks) -> Option<TimeLine> {
    let count = blocks.count() as usize;
    let mut sums: BTreeMap<(i32, i32), (String, Vec<u64>)> = BTreeMap::new();
    for part in &first.parts {
        for stack in calltrees::rows::of_event(part.unit.recorded, part.unit.event) {
            let Some(thread) = recorded.threads.get(stack.thread as usize) else { continue };
            let row = sums.entry((thread.pid, thread.tid)).or_insert_with(|| {
                let name =
                    format!("{} {}/{}", crate::visible(&thread.name), thread.pid, thread.tid);
                (name, vec![0; count])
            });
            if let Some(sum) = row.1.get_mut(stack.block as usize) {
                *sum = sum.saturating_add(stack.weight.period);
            }
        }
    }
    let most = sums.values().flat_map(|(_, parts)| parts).copied().max()?;
    // A clock that samples coarsely weighs more than there is time in a part.
    let whole = if first.clock { most.max(blocks.length()) } else { most };
    let mut rows: Vec<(String, Vec<u64>)> = sums.into_values().collect();
    rows.sort_by_key(|(name, parts)| (Reverse(parts.iter().sum::<u64>()), name.clone()));
    Some(TimeLine {
        source: "samples",
        length: blocks.length().saturating_mul(u64::from(blocks.count())),
        part: blocks.length(),
        states: vec![if first.clock { "running" } else { "sampled" }.to_owned()],
        unlisted: rows.len().saturating_sub(MOST_THREADS) as u64,
        threads: rows
            .iter()
            .take(MOST_THREADS)
            .map(|(name, parts)| row(name, std::slice::from_ref(parts), whole))
            .collect(),
        blocks: Some((0, blocks.length(), blocks.count())),
    })
}
