//! Samples with a branch stack and a call chain to counts by calling context.
//!
//! Input: recordings made with branch stacks and call chains together (`perf record -b --call-graph
//! fp`), as perf.data or as what `perf script` prints of it, and the recorded image. Output:
//! [`ContextCounts`], that is fall-through ranges and branches for each path of calls that led to
//! them. [`unwind`] says how the path of each branch is found.
//!
//! Cost: each sample is unwound alone and nothing of it is kept but the sums, so memory is that of
//! the distinct contexts and ranges; both the depth of a context and the number of contexts are
//! bounded, and what is beyond is counted.

mod code;
mod ledger;
mod line;
mod recording;
mod text;
mod unwind;

pub use ledger::ContextLedger;
pub use recording::of_recording;
pub use text::of_text;
pub use unwind::compress_recursion;

use image::ImageAddr;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

/// Calls of a context beyond this number are left out, the outermost ones. perf records 127 by
/// default.
pub const MAX_DEPTH: usize = 256;
/// What would make more contexts than this counts without a context.
pub const MOST_CONTEXTS: usize = 1 << 20;

/// Counts in one context, by addresses of the image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InContext {
    /// The call instructions that led here, outermost first, recursion compressed; empty where
    /// nothing is known.
    pub calls: Vec<ImageAddr>,
    /// Executions of straight lines from first to last instruction, both inclusive.
    pub ranges: FxHashMap<(ImageAddr, ImageAddr), u64>,
    /// Executions of branches inside the image, from and to.
    pub branches: FxHashMap<(ImageAddr, ImageAddr), u64>,
}

/// What recordings say about calling contexts.
#[derive(Clone, Debug, Default)]
pub struct ContextCounts {
    contexts: Vec<InContext>,
    numbers: FxHashMap<Vec<ImageAddr>, usize>,
    /// What was used and what not.
    pub ledger: ContextLedger,
}

impl ContextCounts {
    /// All contexts, sorted by their calls.
    pub fn contexts(&self) -> Vec<&InContext> {
        let mut contexts: Vec<&InContext> = self.contexts.iter().collect();
        contexts.sort_by(|a, b| a.calls.cmp(&b.calls));
        contexts
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.ledger.ranges == 0
    }

    /// Adds the counts of another recording of the same image.
    pub fn add(&mut self, other: ContextCounts) {
        self.ledger.add(&other.ledger);
        for context in other.contexts {
            let number = self.context(context.calls);
            let Some(own) = self.contexts.get_mut(number) else { continue };
            context
                .ranges
                .into_iter()
                .for_each(|(range, count)| add_to(&mut own.ranges, range, count));
            context
                .branches
                .into_iter()
                .for_each(|(branch, count)| add_to(&mut own.branches, branch, count));
        }
    }

    /// The number of a context.
    fn context(&mut self, calls: Vec<ImageAddr>) -> usize {
        let calls = match self.contexts.len() < MOST_CONTEXTS || self.numbers.contains_key(&calls) {
            true => calls,
            false => {
                self.ledger.folded_contexts += 1;
                Vec::new()
            }
        };
        let next = self.contexts.len();
        match self.numbers.entry(calls) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(free) => {
                self.contexts.push(InContext { calls: free.key().clone(), ..InContext::default() });
                *free.insert(next)
            }
        }
    }

    fn add_range(&mut self, context: usize, first: ImageAddr, last: ImageAddr) {
        self.ledger.ranges += 1;
        if let Some(context) = self.contexts.get_mut(context) {
            self.ledger.ranges_in_context += u64::from(!context.calls.is_empty());
            add_to(&mut context.ranges, (first, last), 1);
        }
    }

    fn add_branch(&mut self, context: usize, from: ImageAddr, to: ImageAddr) {
        if let Some(context) = self.contexts.get_mut(context) {
            add_to(&mut context.branches, (from, to), 1);
        }
    }
}

fn add_to(
    sums: &mut FxHashMap<(ImageAddr, ImageAddr), u64>,
    key: (ImageAddr, ImageAddr),
    count: u64,
) {
    let sum = sums.entry(key).or_default();
    *sum = sum.saturating_add(count);
}
