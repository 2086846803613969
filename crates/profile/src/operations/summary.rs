//! What a profile amounts to: totals, and the counts that make up a given share of it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::{FunctionProfile, SampleProfile};

/// The shares, in millionths, for which LLVM's summary states the smallest count.
pub const CUTOFFS: [u32; 16] = [
    10_000, 100_000, 200_000, 300_000, 400_000, 500_000, 600_000, 700_000, 800_000, 900_000,
    950_000, 990_000, 999_000, 999_900, 999_990, 999_999,
];
/// The share whose smallest count makes a count hot.
pub const HOT_SHARE: u32 = 990_000;
/// The share whose smallest count is the threshold below which counts are cold.
pub const COLD_SHARE: u32 = 999_999;
/// LLVM's mark for a copy that its original already contains.
const DUPLICATED_INTO_BASE: u32 = 4;

/// The largest counts that together reach a share of all counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cutoff {
    /// The share of the total, in millionths.
    pub share_millionths: u32,
    /// The smallest of these counts.
    pub min_count: u64,
    /// How many these are.
    pub counts: u64,
}

/// Totals of a profile, as LLVM's summary has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Functions that exist on their own.
    pub functions: u64,
    /// Largest head count.
    pub max_function_count: u64,
    /// Body counts, inlined copies included, zeros too.
    pub counts: u64,
    /// Largest body count.
    pub max_count: u64,
    /// Sum of the body counts (saturating).
    pub total_count: u64,
    /// One entry per share in [`CUTOFFS`].
    pub cutoffs: Vec<Cutoff>,
}

impl Summary {
    /// Computes the summary of a profile.
    ///
    /// Contexts are put aside first, as LLVM does it: what is hot and what is cold are counts of
    /// the program.
    pub fn of(profile: &SampleProfile) -> Summary {
        if profile.context_sensitive {
            return Summary::of(&super::flatten_contexts(profile));
        }
        let mut frequencies = BTreeMap::new();
        let mut summary = Summary {
            functions: profile.functions.len() as u64,
            max_function_count: profile
                .functions
                .values()
                .map(|function| function.head)
                .max()
                .unwrap_or(0),
            counts: 0,
            max_count: 0,
            total_count: 0,
            cutoffs: Vec::new(),
        };
        for function in profile.functions.values() {
            summary.add(function, &mut frequencies);
        }
        summary.cutoffs = cutoffs(summary.total_count, &frequencies);
        summary
    }

    fn add(&mut self, function: &FunctionProfile, frequencies: &mut BTreeMap<Reverse<u64>, u64>) {
        for sample in function.body.values() {
            self.counts += 1;
            self.total_count = self.total_count.saturating_add(sample.count);
            self.max_count = self.max_count.max(sample.count);
            *frequencies.entry(Reverse(sample.count)).or_default() += 1;
        }
        for (_, callee) in function.inlined_calls() {
            if callee.attributes & DUPLICATED_INTO_BASE == 0 {
                self.add(callee, frequencies);
            }
        }
    }

    /// The smallest count that belongs to `share_millionths` of the profile; one of [`CUTOFFS`].
    pub fn min_count(&self, share_millionths: u32) -> Option<u64> {
        let found = self.cutoffs.iter().find(|cutoff| cutoff.share_millionths == share_millionths);
        found.map(|cutoff| cutoff.min_count)
    }
}

fn cutoffs(total: u64, frequencies: &BTreeMap<Reverse<u64>, u64>) -> Vec<Cutoff> {
    let mut descending = frequencies.iter();
    let (mut sum, mut min_count, mut counts) = (0u128, 0, 0);
    CUTOFFS
        .iter()
        .map(|share| {
            let wanted = u128::from(total) * u128::from(*share) / 1_000_000;
            while sum < wanted {
                let Some((Reverse(count), times)) = descending.next() else { break };
                min_count = *count;
                counts += times;
                sum += u128::from(*count) * u128::from(*times);
            }
            Cutoff { share_millionths: *share, min_count, counts }
        })
        .collect()
}

/// A function with a hot count.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HotFunction {
    /// The function.
    pub name: String,
    /// All samples in it and in what was inlined into it.
    pub total: u64,
    /// How often it was entered.
    pub head: u64,
    /// Its largest body count, inlined copies included.
    pub max_count: u64,
    /// Its share of the totals of all functions, in percent.
    pub share_pct: f64,
}

/// The functions whose largest body count is hot, by total.
pub fn hot_functions(profile: &SampleProfile) -> Vec<HotFunction> {
    let threshold = Summary::of(profile).min_count(HOT_SHARE).unwrap_or(0);
    let all: u128 = profile.functions.values().map(|function| u128::from(function.total)).sum();
    let hot = profile.by_total().into_iter().map(|function| (function, max_count(function)));
    hot.filter(|(_, max_count)| *max_count > 0 && *max_count >= threshold)
        .map(|(function, max_count)| HotFunction {
            name: function.name.to_string(),
            total: function.total,
            head: function.head,
            max_count,
            share_pct: if all == 0 { 0.0 } else { function.total as f64 / all as f64 * 100.0 },
        })
        .collect()
}

/// The largest body count of a function, inlined copies included.
pub(crate) fn max_count(function: &FunctionProfile) -> u64 {
    let own = function.body.values().map(|sample| sample.count).max().unwrap_or(0);
    function.inlined_calls().map(|(_, callee)| max_count(callee)).fold(own, u64::max)
}
