//! Which calls the compiler is to inline, decided for the whole program before it compiles.
//!
//! A compiler that meets the contexts of a function one module at a time cannot merge the ones it
//! does not inline into functions of other modules. So the decisions are made here, from the top of
//! the program down: a context that is to be inlined is marked and stays, any other one is merged
//! into its function before that is looked at.
//!
//! Input: a context-sensitive profile, and what code costs. Output: the same profile with fewer
//! contexts. The rules and constants are those of llvm-profgen 22 (`--csspgo-preinliner`):
//! 1. Functions are looked at in the order of [`order`]. All their contexts not marked yet become
//!    one.
//! 2. Its calls that are contexts of their own are candidates, hottest first, those without code
//!    before all. The count of a call is its call target's, or the callee's entries if these are
//!    more.
//! 3. A candidate is inlined if it costs less than its threshold: nothing for a cold call, and in
//!    proportion to the count up to the smallest one of the hottest 10 % of the profile. The
//!    threshold is 100 times as high if the recorded program had inlined the call. The calls in it
//!    are candidates then.
//! 4. A function stops growing at 12 times its own size, but not below 100 nor above 50,000 bytes.
//!
//! Cost: O(contexts · log contexts).

mod order;
mod queue;
mod sizes;
mod trie;

use std::cmp::{Ordering, Reverse};

use serde::Serialize;

pub use sizes::CodeSizes;

use crate::operations::{COLD_SHARE, Summary};
use crate::{FunctionProfile, Location, Name, SampleProfile};
use queue::Queue;
use trie::{NodeId, ProfileId, Trie};

/// LLVM's attribute of a context whose innermost call was inlined in the recorded program.
pub(crate) const WAS_INLINED: u32 = 1;
/// The threshold of a call as hot as any, before it is multiplied by 100.
const HOT_CALL: f64 = 1500.0;
/// How much more a call may cost that the compiler has inlined before.
const INLINED_BEFORE: u32 = 100;
/// How often a function's own size it may grow to.
const GROWTH: u32 = 12;
const SMALLEST_LIMIT: u32 = 100;
const LARGEST_LIMIT: u32 = 50_000;
/// The share of the profile, in millionths, whose smallest count is as hot as any.
const HOTTEST_SHARE: u32 = 100_000;

/// What inlining a function costs.
#[derive(Debug, Clone, Copy)]
pub enum Cost<'s> {
    /// The bytes of its code in the recorded program.
    Code(&'s CodeSizes),
    /// How many places of it the profile counts.
    Places,
}

impl Cost<'_> {
    fn of(self, trie: &Trie, node: NodeId) -> u32 {
        match self {
            Cost::Code(sizes) => sizes.of_context(trie, node),
            Cost::Places => {
                let places = trie.counts(node).map_or(0, |counts| counts.body.len());
                u32::try_from(places).unwrap_or(u32::MAX)
            }
        }
    }
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PreInlined {
    /// Contexts that the compiler is to inline.
    pub inlined: u64,
    /// Contexts merged into another one.
    pub merged: u64,
    /// Functions that stopped growing at their limit.
    pub stopped: u64,
}

/// Decides which contexts are inlined, marks these, and merges the others.
pub fn pre_inline(profile: &mut SampleProfile, cost: Cost<'_>) -> PreInlined {
    let summary = Summary::of(profile);
    let hotness = Hotness {
        cold: summary.min_count(COLD_SHARE).unwrap_or(0),
        hottest: summary.min_count(HOTTEST_SHARE).unwrap_or(0),
    };
    let mut trie = Trie::of(profile);
    let mut report = PreInlined::default();
    for function in order::top_down(&trie) {
        if let Some(base) = trie.merged_base(&function) {
            grow(&mut trie, base, cost, hotness, &mut report);
        }
    }
    report.merged = trie.merged;
    trie.put_back(profile);
    report
}

/// How often the call at a place went to a function.
fn call_count(caller: &FunctionProfile, at: Location, callee: &Name) -> u64 {
    caller.body.get(&at).and_then(|sample| sample.targets.get(callee)).copied().unwrap_or(0)
}

/// How often a function was entered in a context.
fn entries(function: &FunctionProfile) -> u64 {
    if function.head > 0 { function.head } else { function.entry_estimate() }
}

/// Decides about the calls of one function, and about those in what is inlined into it.
fn grow(
    trie: &mut Trie,
    base: ProfileId,
    cost: Cost<'_>,
    hotness: Hotness,
    report: &mut PreInlined,
) {
    let Some(node) = trie.profile(base).map(|profile| profile.node) else { return };
    let mut size = cost.of(trie, node);
    let limit = size.saturating_mul(GROWTH).clamp(SMALLEST_LIMIT, LARGEST_LIMIT);
    let mut candidates = Queue::new();
    add_candidates(trie, node, cost, &mut candidates);
    while size < limit {
        let Some(candidate) = candidates.pop() else { return };
        if candidate.cost >= hotness.threshold(&candidate) {
            continue;
        }
        trie.mark_inlined(candidate.profile);
        report.inlined += 1;
        size = size.saturating_add(candidate.cost);
        add_candidates(trie, candidate.node, cost, &mut candidates);
    }
    report.stopped += u64::from(!candidates.is_empty());
}

fn add_candidates(trie: &Trie, caller: NodeId, cost: Cost<'_>, candidates: &mut Queue<Candidate>) {
    let Some(calling) = trie.counts(caller) else { return };
    for callee in trie.children(caller) {
        let (Some(node), Some(counts)) = (trie.node(callee), trie.counts(callee)) else { continue };
        let Some(profile) = node.profile else { continue };
        candidates.push(Candidate {
            profile,
            node: callee,
            guid: node.guid,
            count: call_count(calling, node.callsite, &node.function).max(entries(counts)),
            cost: cost.of(trie, callee),
            was_inlined: counts.attributes & WAS_INLINED != 0,
        });
    }
}

/// A call that may be inlined.
#[derive(Debug)]
struct Candidate {
    profile: ProfileId,
    node: NodeId,
    guid: u64,
    count: u64,
    cost: u32,
    was_inlined: bool,
}

impl PartialOrd for Candidate {
    /// The one to look at first is the greatest. Equal calls of one function go as [`queue`] has
    /// them.
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        let key = |candidate: &Candidate| {
            let (cost, count) = (candidate.cost, candidate.count);
            (cost == 0, count, Reverse(cost), candidate.guid)
        };
        key(self).partial_cmp(&key(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Candidate) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

/// From which counts a call is hot.
#[derive(Debug, Clone, Copy)]
struct Hotness {
    cold: u64,
    hottest: u64,
}

impl Hotness {
    /// What a candidate must cost less than.
    fn threshold(self, candidate: &Candidate) -> u32 {
        if candidate.count <= self.cold {
            return 0;
        }
        let span = self.hottest as f64 - self.cold as f64;
        let share = ((candidate.count - self.cold) as f64 / span).min(1.0);
        // One more, so that a call that is not cold may be inlined if it costs nothing. The rest
        // is cut off, as LLVM does it.
        let threshold = (HOT_CALL * share * 100.0 + 1.0) as u32;
        let before = if candidate.was_inlined { INLINED_BEFORE } else { 1 };
        threshold.saturating_mul(before)
    }
}
