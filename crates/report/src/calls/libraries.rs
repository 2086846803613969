//! How much of a recording lies in each library, and why do the functions of some have no names?

use calltrees::rows::{of_event, whole};
use calltrees::{Known, Library, Recorded, Weight};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A library with what was sampled in it.
struct Share<'r> {
    library: &'r Library,
    weight: Weight,
    /// Of functions without a name.
    nameless: Weight,
}

/// The libraries that were sampled, those that weigh most first. What the recording has several
/// times under one path is one.
fn shares(recorded: &Recorded, event: u32) -> Vec<Share<'_>> {
    let mut sums: BTreeMap<&Library, (Weight, Weight)> = BTreeMap::new();
    for stack in of_event(recorded, event) {
        let innermost = stack.functions.first().copied();
        let Some(library) = innermost.and_then(|id| recorded.names.library(id)) else { continue };
        let function = innermost.and_then(|id| recorded.names.function(id));
        let (weight, nameless) = sums.entry(library).or_default();
        weight.add(stack.weight);
        if function.is_some_and(|function| function.known == Known::Address) {
            nameless.add(stack.weight);
        }
    }
    let share = |(library, (weight, nameless))| Share { library, weight, nameless };
    let mut all: Vec<Share<'_>> = sums.into_iter().map(share).collect();
    all.sort_by_key(|share| Reverse(share.weight.period));
    all
}

fn percent(weight: Weight, whole: Weight) -> f64 {
    100.0 * weight.period as f64 / whole.period.max(1) as f64
}

/// All libraries as JSON: `problem` says why functions have no names, `lacks` why some have none,
/// `doubt` why they may be those of another build.
pub(super) fn libraries_json(recorded: &Recorded, event: u32) -> Value {
    let whole = whole(recorded, event);
    let of = |share: &Share<'_>| {
        let hex = |id: &Vec<u8>| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let library = share.library;
        json!({
            "library": library.path,
            "build_id": library.build_id.as_ref().map(hex),
            "samples": share.weight.samples,
            "weight": share.weight.period,
            "percent": percent(share.weight, whole),
            "nameless_percent": percent(share.nameless, whole),
            "problem": library.problem,
            "lacks": library.lacks,
            "doubt": library.doubt,
        })
    };
    shares(recorded, event).iter().map(of).collect()
}

/// Libraries whose functions have no names or may have wrong ones, with the share of `what` that
/// this is about.
pub(super) fn remarks(recorded: &Recorded, event: u32, what: &str) -> Vec<String> {
    /// In percent: doubts about less are told together.
    const LITTLE: f64 = 1.0;
    let whole = whole(recorded, event);
    let mut remarks = Vec::new();
    let (mut others, mut little) = (0u64, Weight::default());
    for share in shares(recorded, event) {
        let library = share.library;
        let mut say = |weight: Weight, is_so: &str, why: &Option<String>| {
            let Some(why) = why.as_deref().filter(|_| weight.samples > 0) else { return };
            let (path, percent) = (crate::visible(&library.path), percent(weight, whole));
            let why = crate::visible(why);
            remarks.push(format!("{path}: {percent:.1} % of the {what} {is_so}: {why}"));
        };
        say(share.weight, "has no function names", &library.problem);
        say(share.nameless, "has no function names", &library.lacks);
        if library.doubt.is_some() && percent(share.weight, whole) < LITTLE {
            others += 1;
            little.add(share.weight);
            continue;
        }
        say(share.weight, "may have wrong names", &library.doubt);
    }
    if others > 0 {
        let files = crate::counted(others, "other file", "other files");
        let percent = percent(little, whole);
        remarks.push(format!(
            "{files} with {percent:.1} % of the {what} may have wrong names: the recording has no \
             build IDs of them"
        ));
    }
    remarks
}
