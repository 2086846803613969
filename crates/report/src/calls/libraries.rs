//! How much of a recording lies in each library, and why do the functions of some have no names?

use calltrees::rows::{of_event, whole};
use calltrees::{Recorded, Weight};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A library with what was sampled in it.
struct Share<'r> {
    path: &'r str,
    build_id: Option<&'r [u8]>,
    problem: Option<&'r str>,
    weight: Weight,
}

/// Path, build ID and problem.
type Key<'r> = (&'r str, Option<&'r [u8]>, Option<&'r str>);

/// The libraries that were sampled, those that weigh most first.
fn shares(recorded: &Recorded, event: u32) -> Vec<Share<'_>> {
    let mut sums: BTreeMap<Key<'_>, Weight> = BTreeMap::new();
    for stack in of_event(recorded, event) {
        let innermost = stack.functions.first().copied();
        let Some(library) = innermost.and_then(|id| recorded.names.library(id)) else { continue };
        let key = (library.path.as_str(), library.build_id.as_deref(), library.problem.as_deref());
        sums.entry(key).or_default().add(stack.weight);
    }
    let share = |((path, build_id, problem), weight)| Share { path, build_id, problem, weight };
    let mut all: Vec<Share<'_>> = sums.into_iter().map(share).collect();
    all.sort_by_key(|share| Reverse(share.weight.period));
    all
}

fn percent(weight: Weight, whole: Weight) -> f64 {
    100.0 * weight.period as f64 / whole.period.max(1) as f64
}

/// All libraries as JSON: `problem` says why functions have no names.
pub(super) fn libraries_json(recorded: &Recorded, event: u32) -> Value {
    let whole = whole(recorded, event);
    let of = |share: &Share<'_>| {
        let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        json!({
            "library": share.path,
            "build_id": share.build_id.map(hex),
            "samples": share.weight.samples,
            "weight": share.weight.period,
            "percent": percent(share.weight, whole),
            "problem": share.problem,
        })
    };
    shares(recorded, event).iter().map(of).collect()
}

/// Libraries whose functions have no names, with the share that each hides of `what`.
pub(super) fn unnamed(recorded: &Recorded, event: u32, what: &str) -> Vec<String> {
    let whole = whole(recorded, event);
    let told = |share: &Share<'_>| {
        let problem = crate::visible(share.problem?);
        let (path, percent) = (crate::visible(share.path), percent(share.weight, whole));
        Some(format!("{path}: {percent:.1} % of the {what} has no function names: {problem}"))
    };
    shares(recorded, event).iter().filter_map(told).collect()
}
